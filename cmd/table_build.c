/* table_build.c: `cadre table build` (a recipe becomes tables, always from an empty start) and `cadre table merge` (one
 * table laid over another; no row is lost). */
#include "table.h"
#include <string.h>

/* ---- build ---- */

typedef struct build_opts {
    opts_common common;
    const char *out, *check;
    opts_rest files;
} build_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(build_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def build_defs[] = {
    O(0, "RECIPE", OPTS_REST, NULL, files, 0, 0, "what the tables are made from (docs/tables.md)"),
    O('o', "--out", OPTS_TEXT, "FILE|DIR", out, 0, 0,
      "where to write; a folder takes each table under its own name (default: standard output, one table)"),
    O(0, "--check", OPTS_TEXT, "FILE", check, 0, 0,
      "write nothing; exit 1 unless FILE is, byte for byte, what the recipe makes"),
    TABLE_EVERYWHERE(build_opts),
};
#undef O

static const char *const build_examples[] = {
    "cadre table build recipes/torchada-s5000.json",
    "the table on standard output",
    "cadre table build recipes/x.json --check tables/MY_DEVICE.table",
    "in CI: fails if somebody edited the table by hand",
    NULL,
};

/* Where the i-th table goes; NULL: standard output. */
static cadre_err place(const build_opts *o, const recipe_output *t, int tables, char *path, size_t size,
                       const char **out, cadre_fail *why) {
    bool folder = o->out && file_is_dir(o->out);
    *out = folder ? path : o->out;
    if (folder && !file_join(path, size, o->out, t->name))
        return cadre_fail_set(why, CADRE_RANGE, "%.200s: path too long", o->out);
    if (tables > 1 && !folder && (o->out || !o->common.json))
        return cadre_fail_set(why, CADRE_RANGE, "the recipe makes %d tables: -o must name a folder", tables);
    if (o->out && !folder) {
        const char *slash = strrchr(o->out, '/');
        if (strcmp(slash ? slash + 1 : o->out, t->name))
            say_note("%s: a look-up finds this table only under the name %s", o->out, t->name);
    }
    return CADRE_OK;
}

static void put_table(json_out *js, const recipe_output *t, const char *path) {
    char hex[65];
    cadre_sha256(t->text, t->len, hex);
    json_open(js, NULL, '{');
    json_put_text(js, "name", t->name);
    json_put_int(js, "rows", t->rows);
    json_put_int(js, "bytes", (int64_t)t->len);
    json_put_text(js, "sha256", hex);
    json_put_text(js, "file", path);
    table_put_text(js, path, t->text, t->len);
    json_close(js, '}');
}

static cadre_err write_table(const build_opts *o, const recipe *r, int i, json_out *js, cadre_fail *why) {
    recipe_output t = {0};
    char path[4096];
    const char *to = NULL;
    cadre_err err = recipe_build(r, i, NULL, NULL, &t, why);
    if (!err) err = place(o, &t, recipe_tables(r), path, sizeof path, &to, why);
    if (!err) err = table_put(to, t.text, t.len, o->common.json, why);
    if (!err) put_table(js, &t, to);
    if (!err && to) say_note("%s: %d rows, %zu bytes", to, t.rows, t.len);
    mem_free(t.text);
    return err;
}

/* Every table can be built, before the first is written. */
static cadre_err try_tables(const recipe *r, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (int i = 0; !err && i < recipe_tables(r); i++) {
        recipe_output t = {0};
        err = recipe_build(r, i, NULL, NULL, &t, why);
        mem_free(t.text);
    }
    return err;
}

static cadre_err write_tables(const build_opts *o, const recipe *r, json_out *js, cadre_fail *why) {
    cadre_err err = recipe_tables(r) > 1 ? try_tables(r, why) : CADRE_OK;
    json_open(js, "tables", '[');
    for (int i = 0; !err && i < recipe_tables(r); i++) err = write_table(o, r, i, js, why);
    json_close(js, ']');
    return err;
}

/* What differs, row by row if the file can still be read as a table. */
static void say_difference(const build_opts *o, const recipe_output *t, const char *text, size_t len, json_out *js) {
    table_file old = {0}, fresh = {0};
    table_changes c = {.json = js};
    cadre_fail why = {0};
    cadre_err err = table_file_parse(o->check, text, len, &old, &why);
    if (err) say("%s", why.text);
    if (!err) err = table_file_parse(t->name, t->text, t->len, &fresh, &why);
    if (!err) table_compare(&old, &fresh, &c, &why);
    say("%s is not what the recipe makes: edited by hand, or older than the recipe", o->check);
    table_file_free(&old);
    table_file_free(&fresh);
}

static cadre_err check(const build_opts *o, const recipe *r, json_out *js, int *status, cadre_fail *why) {
    recipe_output t = {0};
    char *text = NULL;
    size_t len = 0;
    cadre_err err = file_read(o->check, 1 << 26, &text, &len, why);
    if (!err && recipe_tables(r) != 1)
        err = cadre_fail_set(why, CADRE_RANGE, "the recipe makes %d tables, --check takes one", recipe_tables(r));
    if (!err) err = recipe_build(r, 0, NULL, NULL, &t, why);
    if (!err) {
        bool same = len == t.len && !memcmp(text, t.text, len);
        *status = same ? EXIT_FINE : EXIT_NO;
        json_put_text(js, "file", o->check);
        json_put_bool(js, "same", same);
        if (same)
            say("%s is what the recipe makes: %d rows, %zu bytes", o->check, t.rows, len);
        else
            say_difference(o, &t, text, len, js);
    }
    mem_free(text);
    mem_free(t.text);
    return err;
}

static int build(void) {
    static build_opts o;
    recipe *r = NULL;
    json_out js = {0};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&table_build_command, &o, &status)) return status;
    status = EXIT_FINE;
    say_json_open(&js, "table build");
    cadre_err err = CADRE_RANGE;
    if (o.check && o.out)
        cadre_fail_set(&why, CADRE_RANGE, "--check and -o do not go together: --check writes nothing");
    else if (table_files(&o.files, 1, "RECIPE", &why))
        err = recipe_read(o.files.items[0], &r, &why);
    if (!err) err = o.check ? check(&o, r, &js, &status, &why) : write_tables(&o, r, &js, &why);
    recipe_free(r);
    json_close(&js, '}');
    if (!err && o.common.json) return say_json(&js, status);
    json_out_free(&js);
    return err ? say_failed(&why) : status;
}

const opts_command table_build_command = {
    "table build", "build tables from a recipe", NULL, OPTS_TABLE(build_defs), build_examples, build};

/* ---- merge ---- */

typedef struct merge_opts {
    opts_common common;
    const char *out;
    opts_rest files;
} merge_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(merge_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def merge_defs[] = {
    O(0, "NEW OLD", OPTS_REST, NULL, files, 0, 0,
      "rows of NEW (a table, or a recipe of one) over those of OLD, which need not be there"),
    O('o', "--out", OPTS_TEXT, "FILE", out, 0, 0, "where to write (default: standard output); may be OLD"),
    TABLE_EVERYWHERE(merge_opts),
};
#undef O

static const char *const merge_examples[] = {
    "cadre table merge new.json old.json -o old.json",
    "measured rows replace theirs, all others stay; what changes is shown on stderr",
    NULL,
};

static cadre_err same_shape(const foreign_table *old, const foreign_table *fresh, cadre_fail *why) {
    const foreign_name *a = &old->name, *b = &fresh->name;
    if (!a->e || !b->e ||
        (a->e == b->e && a->n == b->n && a->dtype == b->dtype && a->down == b->down && a->block_n == b->block_n &&
         a->block_k == b->block_k && a->per_channel == b->per_channel && !strcmp(a->device, b->device)))
        return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "%.200s and %.200s are of different shapes, types or devices", old->path,
                          fresh->path);
}

static cadre_err merge_text(const table_file *old, const table_file *fresh, char **text, size_t *len, cadre_fail *why) {
    int count;
    cadre_err err;
    if (fresh->native) {
        native_row *rows;
        err = native_merge(old->native, fresh->native, &rows, &count, why);
        if (err) return err;
        err = native_print(fresh->native->device, fresh->native->klass, rows, count, text, len, why);
        mem_free(rows);
        return err;
    }
    foreign_row *rows;
    err = old->foreign ? same_shape(old->foreign, fresh->foreign, why) : CADRE_OK;
    if (!err) err = foreign_merge(old->foreign, fresh->foreign, &rows, &count, why);
    if (err) return err;
    const char *triton = *fresh->foreign->triton || !old->foreign ? fresh->foreign->triton : old->foreign->triton;
    err = foreign_print(rows, count, triton, text, len, why);
    mem_free(rows);
    return err;
}

/* What the merge changes, told beside the result. */
static cadre_err show_changes(const table_file *old, const char *text, size_t len, const char *name, json_out *js,
                              cadre_fail *why) {
    table_file merged = {0};
    table_changes c = {.json = js};
    cadre_err err = table_file_parse(name, text, len, &merged, why);
    if (!err) err = table_compare(old, &merged, &c, why);
    table_file_free(&merged);
    json_put_int(js, "added", c.added);
    json_put_int(js, "changed", c.changed);
    return err;
}

static cadre_err merge_files(const merge_opts *o, table_file *old, table_file *fresh, json_out *js, cadre_fail *why) {
    char *text = NULL;
    size_t len;
    cadre_err err = table_file_read_table(o->files.items[0], fresh, why);
    bool there = file_exists(o->files.items[1]);
    if (!err && there) err = table_file_read_table(o->files.items[1], old, why);
    if (!err && there && !old->native != !fresh->native)
        err =
            cadre_fail_set(why, CADRE_RANGE, "%.200s and %.200s are tables of different kinds", fresh->path, old->path);
    if (!err) err = merge_text(old, fresh, &text, &len, why);
    if (!err && there) err = show_changes(old, text, len, old->native ? old->native->path : old->path, js, why);
    if (!err) err = table_put(o->out, text, len, o->common.json, why);
    if (!err) table_put_text(js, o->out, text, len);
    mem_free(text);
    return err;
}

static int merge(void) {
    static merge_opts o;
    table_file old = {0}, fresh = {0};
    json_out js = {0};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&table_merge_command, &o, &status)) return status;
    if (!table_files(&o.files, 2, "NEW and OLD", &why)) return say_failed(&why);
    say_to_stderr(true); /* the result may go to standard output */
    say_json_open(&js, "table merge");
    cadre_err err = merge_files(&o, &old, &fresh, &js, &why);
    table_file_free(&old);
    table_file_free(&fresh);
    json_put_text(&js, "file", o.out);
    json_close(&js, '}');
    if (!err && o.common.json) return say_json(&js, EXIT_FINE);
    json_out_free(&js);
    return err ? say_failed(&why) : EXIT_FINE;
}

const opts_command table_merge_command = {
    "table merge", "lay one table over another", NULL, OPTS_TABLE(merge_defs), merge_examples, merge};
