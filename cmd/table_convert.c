/* table_convert.c: `cadre table import` (a foreign table becomes a recipe that owns its rows) and `cadre table export`
 * (a foreign table as another system names and writes it). cadre's own kernels have other settings than tiles of
 * Triton: between native and foreign rows there is nothing to convert. */
#include "table.h"
#include <string.h>

static int system_of(const char *name) {
    int i = 0;
    while (strcmp(foreign_names[i], name)) i++;
    return i;
}

static cadre_err read_foreign(const opts_rest *files, table_file *f, cadre_fail *why) {
    if (!table_files(files, 1, "FILE", why)) return CADRE_RANGE;
    cadre_err err = table_file_read(files->items[0], f, why);
    if (err) return err;
    if (!f->foreign)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s: expected a table of another system; %s", f->path,
                              f->recipe ? "this is a recipe (table build)"
                                        : "cadre's own settings have no counterpart there");
    if (!f->foreign->name.e)
        return cadre_fail_set(why, CADRE_FORMAT,
                              "%.200s: the file name must say shape and device: E=..,N=..,device_name=..", f->path);
    if (*f->foreign->name.unknown)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s: '%s' of the name is not known, and would be lost",
                              f->path, f->foreign->name.unknown);
    return CADRE_OK;
}

/* ---- import ---- */

typedef struct import_opts {
    opts_common common;
    const char *out, *act;
    int hidden, topk;
    bool ungated;
    opts_rest files;
} import_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(import_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def import_defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "a table of vLLM, SGLang or torchada, under its own name"),
    O(0, "--hidden", OPTS_INT, "D", hidden, 1, 1 << 24, "model width, which the name does not tell"),
    O(0, "--topk", OPTS_INT, "K", topk, 1, 1 << 20, "experts per token, which the name does not tell"),
    O(0, "--not-gated", OPTS_FLAG, NULL, ungated, 0, 0, "experts have no gate (relu2)"),
    O(0, "--act", OPTS_WORD, "silu|gelu|relu2|swigluoai|silu_no_mul|gelu_no_mul|relu2_no_mul", act, 0, 0,
      "activation (default silu)"),
    O('o', "--out", OPTS_TEXT, "FILE", out, 0, 0, "the recipe (default: standard output)"),
    TABLE_EVERYWHERE(import_opts),
};
#undef O

static const char *const import_examples[] = {
    "cadre table import 'E=128,N=1856,device_name=MTT_S5000.json' --hidden 2688 --topk 6 --not-gated -o s5000.json",
    "a recipe whose rows are owned by that file, its digest and their lines",
    NULL,
};

static void put_row(json_out *o, const foreign_table *t, const foreign_row *row) {
    char key[16], source[600];
    const char *slash = strrchr(t->path, '/');
    snprintf(key, sizeof key, "%d", row->m);
    snprintf(source, sizeof source, "imported from %.300s, sha256 %s, line %d", slash ? slash + 1 : t->path, t->sha256,
             row->line);
    json_open(o, key, '{');
    json_open(o, "config", '{');
    for (int f = 0; f < GEMM_FIELD_COUNT; f++)
        if (row->config.has & 1u << f) json_put_int(o, gemm_field_names[f], row->config.v[f]);
    json_close(o, '}');
    json_put_text(o, "source", source);
    json_close(o, '}');
}

/* Whose names are like this one, so that the recipe makes it again. */
static foreign_system maker(const foreign_name *name) {
    if (name->block_n && !name->block_spaced) return FOREIGN_VLLM;
    return name->block_spaced || name->per_channel ? FOREIGN_SGLANG : FOREIGN_TORCHADA;
}

/* The width of gate and up that gives this N. */
static int64_t shard_of(const foreign_name *name, bool gated) {
    bool bytes = name->dtype == GEMM_INT4_W4A16 && maker(name) != FOREIGN_VLLM;
    return (int64_t)name->n * (gated ? 2 : 1) * (bytes ? 2 : 1);
}

static void put_recipe(json_out *o, const import_opts *opts, const foreign_table *t) {
    const foreign_name *n = &t->name;
    char name[64];
    snprintf(name, sizeof name, "imported_e%d_n%d", n->e, n->n);
    json_open(o, NULL, '[');
    json_open(o, NULL, '{');
    json_put_text(o, "name", name);
    json_put_text(o, "device", n->device);
    json_put_text(o, "system", foreign_names[maker(n)]);
    if (*t->triton) json_put_text(o, "triton_version", t->triton);
    json_put_int(o, "num_experts", n->e);
    json_put_int(o, "hidden_size", opts->hidden);
    json_put_int(o, "shard_intermediate_size", shard_of(n, !opts->ungated));
    json_put_int(o, "topk", opts->topk);
    json_put_bool(o, "is_gated", !opts->ungated);
    json_put_text(o, "activation", opts->act);
    json_put_text(o, "dtype", gemm_dtype_names[n->dtype]);
    if (n->block_n) {
        json_open(o, "block_shape", '[');
        json_put_int(o, NULL, n->block_n);
        json_put_int(o, NULL, n->block_k);
        json_close(o, ']');
    }
    if (n->per_channel) json_put_bool(o, "per_channel_quant", true);
    json_open(o, "batch_sizes", '[');
    for (int i = 0; i < t->count; i++) json_put_int(o, NULL, t->rows[i].m);
    json_close(o, ']');
    json_open(o, "pinned_rows", '{');
    for (int i = 0; i < t->count; i++) put_row(o, t, &t->rows[i]);
    json_close(o, '}');
    json_close(o, '}');
    json_close(o, ']');
}

/* What a recipe cannot say yet would be lost. */
static cadre_err check_import(const import_opts *o, const foreign_table *t, cadre_fail *why) {
    if (!o->hidden || !o->topk)
        return cadre_fail_set(why, CADRE_RANGE, "table import needs --hidden and --topk: the file name does not tell");
    if (o->topk > t->name.e)
        return cadre_fail_set(why, CADRE_RANGE, "--topk is %d, expected at most the table's E=%d", o->topk, t->name.e);
    if (t->name.down)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s: recipes of down tables are not in this version",
                              t->path);
    for (int i = 0; i < t->count; i++) {
        for (int f = 0; f < GEMM_FIELD_COUNT; f++)
            if (gemm_field_must[f] && !(t->rows[i].config.has & 1u << f))
                return cadre_fail_set(why, CADRE_FORMAT, "%.200s:%d: row %d has no %s, which a recipe must say",
                                      t->path, t->rows[i].line, t->rows[i].m, gemm_field_names[f]);
        if (t->rows[i].unknown)
            return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s:%d: row %d has a field \"%.40s\" that is not known",
                                  t->path, t->rows[i].line, t->rows[i].m, t->rows[i].unknown);
    }
    return CADRE_OK;
}

static int import(void) {
    static import_opts o = {.act = "silu"};
    table_file f = {0};
    json_out recipe_text = {0}, js = {0};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&table_import_command, &o, &status)) return status;
    cadre_err err = read_foreign(&o.files, &f, &why);
    if (!err) err = check_import(&o, f.foreign, &why);
    if (!err) put_recipe(&recipe_text, &o, f.foreign);
    if (!err && recipe_text.failed) err = cadre_fail_set(&why, CADRE_NOMEM, "out of memory for the recipe");
    char *line = err ? NULL : mem_new(recipe_text.len + 2);
    if (!err && !line) err = cadre_fail_set(&why, CADRE_NOMEM, "out of memory for the recipe");
    if (!err) {
        memcpy(line, recipe_text.text, recipe_text.len);
        line[recipe_text.len] = '\n';
        err = table_put(o.out, line, recipe_text.len + 1, o.common.json, &why);
    }
    say_json_open(&js, "table import");
    json_put_text(&js, "file", o.out);
    json_put_int(&js, "rows", f.foreign ? f.foreign->count : 0);
    if (!err) table_put_text(&js, o.out, line, recipe_text.len + 1);
    json_close(&js, '}');
    mem_free(line);
    json_out_free(&recipe_text);
    table_file_free(&f);
    if (!err && o.common.json) return say_json(&js, EXIT_FINE);
    json_out_free(&js);
    return err ? say_failed(&why) : EXIT_FINE;
}

const opts_command table_import_command = {
    "table import", "make a recipe of another system's table", NULL, OPTS_TABLE(import_defs), import_examples, import};

/* ---- export ---- */

typedef struct export_opts {
    opts_common common;
    const char *from, *to, *out, *triton;
    opts_rest files;
} export_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(export_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def export_defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "a table of vLLM, SGLang or torchada, under its own name"),
    O(0, "--to", OPTS_WORD, "vllm|sglang|torchada", to, 0, 0, "who shall read it"),
    O(0, "--from", OPTS_WORD, "vllm|sglang|torchada", from, 0, 0,
      "who wrote it; matters for int4, whose N they count differently (default vllm)"),
    O(0, "--triton", OPTS_TEXT, "VERSION", triton, 0, 0, "Triton version (default: as the file says)"),
    O('o', "--out", OPTS_TEXT, "DIR", out, 0, 0,
      "folder of the reader's tables; SGLang's and torchada's get triton_X_Y_Z in it (default: standard output)"),
    TABLE_EVERYWHERE(export_opts),
};
#undef O

static const char *const export_examples[] = {
    "cadre table export 'E=128,N=1856,device_name=MTT_S5000.json' --to sglang --triton 3.4.0 -o configs",
    "written to configs/triton_3_4_0/ under SGLang's name",
    NULL,
};

/* vLLM's kernel has no tensor descriptors; a row that only switches them off says nothing. */
static cadre_err drop_fields(const export_opts *o, foreign_table *t, cadre_fail *why) {
    if (strcmp(o->to, "vllm")) return CADRE_OK;
    for (int i = 0; i < t->count; i++) {
        gemm_config *c = &t->rows[i].config;
        if (!(c->has & 1u << GEMM_TMA)) continue;
        if (c->v[GEMM_TMA])
            return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s:%d: row %d uses USE_TMA, which vLLM's kernel lacks",
                                  t->path, t->rows[i].line, t->rows[i].m);
        c->has &= ~(1u << GEMM_TMA);
    }
    return CADRE_OK;
}

static cadre_err name_for(const export_opts *o, const foreign_table *t, char *name, size_t size, cadre_fail *why) {
    foreign_name n = t->name;
    bool bytes_from = strcmp(o->from, "vllm") != 0, bytes_to = strcmp(o->to, "vllm") != 0;
    if (n.dtype == GEMM_INT4_W4A16 && bytes_from != bytes_to) {
        if (bytes_to && n.n % 2) return cadre_fail_set(why, CADRE_RANGE, "N=%d is odd: no whole bytes of int4", n.n);
        n.n = bytes_to ? n.n / 2 : n.n * 2;
    }
    n.block_spaced = !strcmp(o->to, "sglang");
    if (!foreign_name_print((foreign_system)system_of(o->to), &n, name, size))
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s: %s has no tables of this kind", t->path, o->to);
    return CADRE_OK;
}

/* "3.4.0+git1" -> "triton_3_4_0"; false on what is no version. */
static bool version_folder(const char *triton, char *out, size_t size) {
    size_t n = strspn(triton, "0123456789."), at = 7;
    if (!n || n + 8 > size || (triton[n] && triton[n] != '+' && triton[n] != '-')) return false;
    memcpy(out, "triton_", 7);
    for (size_t i = 0; i < n; i++) out[at++] = triton[i] == '.' ? '_' : triton[i];
    out[at] = 0;
    return true;
}

static cadre_err export_path(const export_opts *o, const char *triton, const char *name, char *path, size_t size,
                             cadre_fail *why) {
    char version[64], dir[4096];
    bool fits;
    if (!*o->out) return cadre_fail_set(why, CADRE_RANGE, "-o is '', expected a folder");
    if (!strcmp(o->to, "vllm")) {
        fits = file_join(path, size, o->out, name) && file_join(dir, sizeof dir, o->out, "");
    } else {
        if (!version_folder(triton, version, sizeof version))
            return cadre_fail_set(why, CADRE_RANGE,
                                  "%s keeps tables by Triton version: --triton 3.4.0 says which%s%.40s", o->to,
                                  *triton ? ", not " : "", triton);
        fits = file_join(dir, sizeof dir, o->out, version) && file_join(path, size, dir, name);
    }
    return fits ? file_make_dir_for_all(dir, why) : cadre_fail_set(why, CADRE_RANGE, "%.200s: path too long", o->out);
}

static cadre_err export_table(const export_opts *o, foreign_table *t, json_out *js, cadre_fail *why) {
    const char *triton = o->triton ? o->triton : t->triton;
    char name[300], path[4096], *text = NULL;
    size_t len = 0;
    cadre_err err = drop_fields(o, t, why);
    if (!err) err = name_for(o, t, name, sizeof name, why);
    if (!err) err = foreign_print(t->rows, t->count, strcmp(o->to, "vllm") ? NULL : triton, &text, &len, why);
    if (!err && o->out) err = export_path(o, triton, name, path, sizeof path, why);
    if (!err) err = table_put(o->out ? path : NULL, text, len, o->common.json, why);
    if (!err) {
        say_note("%s: %d rows for %s", o->out ? path : name, t->count, o->to);
        json_put_text(js, "name", name);
        json_put_text(js, "file", o->out ? path : NULL);
        json_put_int(js, "rows", t->count);
        table_put_text(js, o->out, text, len);
    }
    mem_free(text);
    return err;
}

static int export(void) {
    static export_opts o = {.from = "vllm"};
    table_file f = {0};
    json_out js = {0};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&table_export_command, &o, &status)) return status;
    say_json_open(&js, "table export");
    cadre_err err = o.to ? read_foreign(&o.files, &f, &why)
                         : cadre_fail_set(&why, CADRE_RANGE, "table export needs --to vllm, sglang or torchada");
    if (!err) err = export_table(&o, f.foreign, &js, &why);
    table_file_free(&f);
    json_close(&js, '}');
    if (!err && o.common.json) return say_json(&js, EXIT_FINE);
    json_out_free(&js);
    return err ? say_failed(&why) : EXIT_FINE;
}

const opts_command table_export_command = {
    "table export", "write a foreign table as another system reads it", NULL, OPTS_TABLE(export_defs), export_examples,
    export};
