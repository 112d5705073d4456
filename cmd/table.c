/* table.c: `cadre table show` and `cadre table diff`, and reading files of every kind for all `table` commands. */
#include "table.h"
#include <limits.h>
#include <string.h>

/* ---- files ---- */

enum { LIMIT = 16 << 20 };

cadre_err table_file_parse(const char *path, const char *text, size_t len, table_file *out, cadre_fail *why) {
    *out = (table_file){.path = path};
    if (native_is_table(text, len)) return native_parse_any(path, text, len, &out->native, why);
    if (recipe_is(path, text, len)) return recipe_parse(path, text, len, &out->recipe, why);
    return foreign_parse(path, text, len, NULL, NULL, &out->foreign, why);
}

cadre_err table_file_read(const char *path, table_file *out, cadre_fail *why) {
    char *text;
    size_t len;
    *out = (table_file){.path = path};
    cadre_err err = file_read(path, LIMIT, &text, &len, why);
    if (err) return err;
    err = table_file_parse(path, text, len, out, why);
    mem_free(text);
    return err;
}

cadre_err table_file_read_table(const char *path, table_file *out, cadre_fail *why) {
    table_file made;
    recipe_output built = {0};
    cadre_err err = table_file_read(path, out, why);
    if (err || !out->recipe) return err;
    if (recipe_tables(out->recipe) != 1)
        err = cadre_fail_set(why, CADRE_RANGE, "%.200s: makes %d tables, expected a recipe of one", path,
                             recipe_tables(out->recipe));
    if (!err) err = recipe_build(out->recipe, 0, NULL, NULL, &built, why);
    if (!err) err = table_file_parse(built.name, built.text, built.len, &made, why);
    mem_free(built.text);
    recipe_free(out->recipe);
    out->recipe = NULL;
    if (!err) out->native = made.native, out->foreign = made.foreign;
    return err;
}

void table_file_free(table_file *f) {
    native_free(f->native);
    foreign_free(f->foreign);
    recipe_free(f->recipe);
    *f = (table_file){0};
}

bool table_files(const opts_rest *files, int count, const char *what, cadre_fail *why) {
    if (files->count == count) return true;
    cadre_fail_set(why, CADRE_RANGE, "%d files are named, expected %s", files->count, what);
    return false;
}

cadre_err table_put(const char *path, const char *text, size_t len, bool quiet, cadre_fail *why) {
    if (path) return file_write(path, text, len, why);
    if (!quiet) fwrite(text, 1, len, stdout);
    return CADRE_OK;
}

void table_put_text(json_out *o, const char *path, const char *text, size_t len) {
    if (path)
        json_put_null(o, "text");
    else
        json_put_text_n(o, "text", text, len);
}

/* ---- show ---- */

typedef struct show_opts {
    opts_common common;
    const char *rule;
    opts_rest files;
} show_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(show_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def show_defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "a table of cadre's or of another system, or a recipe"),
    O(0, "--rule", OPTS_WORD, "vllm|sglang|torchada", rule, 0, 0,
      "whose look-up tells how far a foreign row reaches (default vllm)"),
    TABLE_EVERYWHERE(show_opts),
};
#undef O

static const char *const show_examples[] = {
    "cadre table show 'E=128,N=1856,device_name=MTT_S5000.json'",
    "rows of a foreign table and the tokens each serves",
    "cadre table show recipes/torchada-s5000.json",
    "who owns each row",
    NULL,
};

static void range_text(int lo, int hi, char text[32]) {
    snprintf(text, 32, hi == INT_MAX ? "%d.." : lo == hi ? "%d" : "%d..%d", lo, hi);
}

static void put_native_row(json_out *o, const native_row *row, const char *verdict) {
    char key[200], knobs[96], beaten[96];
    native_key_text(row, key, sizeof key);
    op_knobs_text(row->family, &row->knobs, knobs, sizeof knobs);
    op_knobs_text(row->family, &row->beaten, beaten, sizeof beaten);
    json_open(o, NULL, '{');
    json_put_int(o, "line", row->line);
    json_put_text(o, "key", key);
    json_put_text(o, "kernel", row->kernel);
    json_put_text(o, "code", row->code);
    json_put_int(o, "n_lo", row->n_lo);
    json_put_int(o, "n_hi", row->n_hi);
    json_put_text(o, "config", knobs);
    json_put_text(o, "default", beaten);
    json_put_int(o, "at", row->at);
    json_put_real(o, "us", row->us);
    json_put_real(o, "default_us", row->default_us);
    json_put_real(o, "ratio", row->ratio);
    json_open(o, "ratio_interval", '[');
    json_put_real(o, NULL, row->ratio_lo);
    json_put_real(o, NULL, row->ratio_hi);
    json_close(o, ']');
    json_put_int(o, "runs", row->runs);
    json_put_text(o, "routing", row->routing);
    json_put_text(o, "toolchain", row->toolchain);
    json_put_text(o, "date", row->date);
    json_put_text(o, "run", row->run);
    json_put_text(o, "verdict", verdict);
    json_close(o, '}');
}

static void show_native(const native_table *t, json_out *o) {
    table cells;
    say_pair("device", "%s", t->device);
    say_pair("class", "%s; outside the ranges the policy runs", t->klass);
    say_pair("sha256", "%s", t->sha256);
    table_open(&cells, "rlllll");
    for (const char *h = "line\0key\0config\0default\0measured\0here\0"; *h; h += strlen(h) + 1)
        table_cell(&cells, "%s", h);
    json_put_text(o, "device", t->device);
    json_put_text(o, "class", t->klass);
    json_put_text(o, "sha256", t->sha256);
    json_open(o, "rows", '[');
    for (int i = 0; i < t->count; i++) {
        const native_row *row = &t->rows[i];
        char key[200], knobs[96], beaten[96];
        const char *verdict;
        native_judge(row, row->at, NULL, &verdict);
        native_key_text(row, key, sizeof key);
        op_knobs_text(row->family, &row->knobs, knobs, sizeof knobs);
        op_knobs_text(row->family, &row->beaten, beaten, sizeof beaten);
        table_cell(&cells, "%d", row->line);
        table_cell(&cells, "%s", key);
        table_cell(&cells, "%s", knobs);
        table_cell(&cells, "%s", beaten);
        table_cell(&cells, "%s", row->why);
        table_cell(&cells, "%s", verdict);
        put_native_row(o, row, verdict);
    }
    json_close(o, ']');
    table_print(&cells, say_stream(), 2);
}

static void put_foreign_row(json_out *o, const foreign_row *row, const foreign_match *m, int i) {
    json_open(o, NULL, '{');
    json_put_int(o, "m", row->m);
    json_put_int(o, "line", row->line);
    json_open(o, "serves", '['); /* empty: no m takes this row; an open end is null */
    if (m->index == i) {
        json_put_int(o, NULL, m->reach_lo);
        if (m->reach_hi == INT_MAX)
            json_put_null(o, NULL);
        else
            json_put_int(o, NULL, m->reach_hi);
    }
    json_close(o, ']');
    json_open(o, "config", '{');
    for (int f = 0; f < GEMM_FIELD_COUNT; f++)
        if (row->config.has & 1u << f) json_put_int(o, gemm_field_names[f], row->config.v[f]);
    json_close(o, '}');
    json_close(o, '}');
}

static cadre_err show_foreign(const foreign_table *t, foreign_system rule, json_out *o, cadre_fail *why) {
    table cells;
    cadre_err err = CADRE_OK;
    say_pair("table", "E=%d N=%d %s on %s%s", t->name.e, t->name.n, gemm_dtype_names[t->name.dtype], t->name.device,
             t->name.down ? ", down projection" : "");
    say_pair("sha256", "%s", t->sha256);
    json_put_text(o, "sha256", t->sha256);
    json_put_text(o, "rule", foreign_names[rule]);
    table_open(&cells, "rrll");
    for (const char *h = "line\0M\0serves\0config\0"; *h; h += strlen(h) + 1) table_cell(&cells, "%s", h);
    json_open(o, "rows", '[');
    for (int i = 0; !err && i < t->count; i++) {
        foreign_match m;
        char config[200], reach[32];
        if ((err = foreign_lookup(rule, t, t->rows[i].m, &m, why))) break;
        range_text(m.reach_lo, m.reach_hi, reach);
        gemm_text(&t->rows[i].config, config, sizeof config);
        table_cell(&cells, "%d", t->rows[i].line);
        table_cell(&cells, "%d", t->rows[i].m);
        table_cell(&cells, "%s", m.index == i ? reach : "nothing");
        table_cell(&cells, "%s", config);
        put_foreign_row(o, &t->rows[i], &m, i);
    }
    json_close(o, ']');
    table_print(&cells, say_stream(), 2);
    return err;
}

typedef struct owners {
    json_out *o;
    table cells;
} owners;

static void own(void *ctx, const char *key, const char *source) {
    owners *w = ctx;
    table_cell(&w->cells, "%s", key);
    table_cell(&w->cells, "%s", source);
    json_open(w->o, NULL, '{');
    json_put_text(w->o, "key", key);
    json_put_text(w->o, "source", source);
    json_close(w->o, '}');
}

static cadre_err show_recipe(const recipe *r, json_out *o, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    json_open(o, "tables", '[');
    for (int i = 0; !err && i < recipe_tables(r); i++) {
        recipe_output out = {0};
        owners w = {.o = o};
        table_open(&w.cells, "rl");
        json_open(o, NULL, '{');
        json_open(o, "rows", '[');
        err = recipe_build(r, i, own, &w, &out, why);
        json_close(o, ']');
        json_put_text(o, "name", out.name);
        json_close(o, '}');
        if (!err) say_pair("table", "%s, %d rows", out.name, out.rows);
        table_print(&w.cells, say_stream(), 2);
        mem_free(out.text);
    }
    json_close(o, ']');
    return err;
}

static int show(void) {
    static show_opts o = {.rule = "vllm"};
    table_file f = {0};
    json_out js = {0};
    cadre_fail why = {0};
    int status, rule = 0;
    if (!opts_read(&table_show_command, &o, &status)) return status;
    while (strcmp(foreign_names[rule], o.rule)) rule++;
    say_json_open(&js, "table show");
    cadre_err err = CADRE_RANGE;
    if (table_files(&o.files, 1, "FILE", &why)) err = table_file_read(o.files.items[0], &f, &why);
    if (!err) json_put_text(&js, "file", f.path);
    if (!err && f.native) show_native(f.native, &js);
    if (!err && f.foreign) err = show_foreign(f.foreign, (foreign_system)rule, &js, &why);
    if (!err && f.recipe) err = show_recipe(f.recipe, &js, &why);
    json_close(&js, '}');
    table_file_free(&f);
    if (!err && o.common.json) return say_json(&js, EXIT_FINE);
    json_out_free(&js);
    return err ? say_failed(&why) : EXIT_FINE;
}

const opts_command table_show_command = {
    "table show", "show a table, or who owns the rows of a recipe", NULL, OPTS_TABLE(show_defs), show_examples, show};

/* ---- diff ---- */

static void tell(void *ctx, const char *key, const char *old, const char *fresh) {
    table_changes *c = ctx;
    c->added += !old, c->gone += !fresh, c->changed += old && fresh;
    if (old && fresh)
        say("~ %s: %s -> %s", key, old, fresh);
    else
        say("%c %s: %s", old ? '-' : '+', key, old ? old : fresh);
    if (!c->json) return;
    json_open(c->json, NULL, '{');
    json_put_text(c->json, "key", key);
    json_put_text(c->json, "old", old);
    json_put_text(c->json, "new", fresh);
    json_close(c->json, '}');
}

cadre_err table_compare(const table_file *old, const table_file *fresh, table_changes *out, cadre_fail *why) {
    bool both = old->native && fresh->native, none = old->foreign && fresh->foreign;
    if (!both && !none)
        return cadre_fail_set(why, CADRE_RANGE, "%.200s and %.200s are tables of different kinds", old->path,
                              fresh->path);
    if (out->json) json_open(out->json, "changes", '[');
    if (both)
        native_diff(old->native, fresh->native, tell, out);
    else
        foreign_diff(old->foreign, fresh->foreign, tell, out);
    if (out->json) json_close(out->json, ']');
    return CADRE_OK;
}

typedef struct diff_opts {
    opts_common common;
    opts_rest files;
} diff_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(diff_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def diff_defs[] = {
    O(0, "OLD NEW", OPTS_REST, NULL, files, 0, 0, "two tables of one kind; a recipe stands for the table it makes"),
    TABLE_EVERYWHERE(diff_opts),
};
#undef O

static const char *const diff_examples[] = {
    "cadre table diff old.json new.json",
    "rows that were added (+), are gone (-) or changed (~); exit 1 if there are any",
    NULL,
};

static int diff(void) {
    static diff_opts o;
    table_file old = {0}, fresh = {0};
    json_out js = {0};
    table_changes c = {.json = &js};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&table_diff_command, &o, &status)) return status;
    say_json_open(&js, "table diff");
    cadre_err err = CADRE_RANGE;
    if (table_files(&o.files, 2, "OLD and NEW", &why)) err = table_file_read_table(o.files.items[0], &old, &why);
    if (!err) err = table_file_read_table(o.files.items[1], &fresh, &why);
    if (!err) err = table_compare(&old, &fresh, &c, &why);
    table_file_free(&old);
    table_file_free(&fresh);
    status = c.added + c.gone + c.changed ? EXIT_NO : EXIT_FINE;
    json_put_int(&js, "added", c.added);
    json_put_int(&js, "gone", c.gone);
    json_put_int(&js, "changed", c.changed);
    json_close(&js, '}');
    if (!err && status == EXIT_FINE) say("no difference");
    if (!err && o.common.json) return say_json(&js, status);
    json_out_free(&js);
    return err ? say_failed(&why) : status;
}

const opts_command table_diff_command = {
    "table diff", "compare two tables row by row", NULL, OPTS_TABLE(diff_defs), diff_examples, diff};
