/* recipe_foreign.c: entries of foreign recipes: what they may say, and the table they make. */
#include "plan/recipe_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char entry_keys[] =
    "name|comment|device|system|triton_version|num_experts|hidden_size|shard_intermediate_size|topk|is_gated|"
    "activation|dtype|tp|ep|tp_size|ep_size|block_shape|per_channel_quant|batch_sizes|pinned_rows";
static const char row_keys[] = "config|source|policy|measured|comment";

/* An entry's shape, in the words of tables. */
typedef struct shape {
    foreign_system system;
    foreign_name name;
    gemm_key key; /* m is the row's */
    const char *triton;
    bool has_device;
} shape;

/* ---- the shape ---- */

static cadre_err read_flag(const recipe *r, const json *object, const char *key, bool *out, cadre_fail *why) {
    const json *v = json_get(object, key);
    if (!v) return CADRE_OK;
    if (v->kind != JSON_BOOL) return recipe_fault(r, v, why, "expected true or false");
    *out = v->truth;
    return CADRE_OK;
}

/* Index of the text of `key` in names; absent keeps *out. */
static cadre_err read_name(const recipe *r, const json *object, const char *key, const char *const *names, int count,
                           int *out, cadre_fail *why) {
    const char *text = NULL;
    cadre_err err = recipe_text(r, object, key, false, &text, why);
    if (err || !text) return err;
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], text)) {
            *out = i;
            return CADRE_OK;
        }
    return recipe_fault(r, json_get(object, key), why, "'%.40s' is not known", text);
}

static cadre_err read_dtype(const recipe *r, const json *entry, shape *s, cadre_fail *why) {
    const char *text = NULL;
    int v = GEMM_BF16;
    cadre_err err = recipe_text(r, entry, "dtype", false, &text, why);
    if (err) return err;
    if (!text || !strcmp(text, "auto"))
        return recipe_fault(r, text ? json_get(entry, "dtype") : entry, why,
                            "dtype %s: without a checkpoint it must be named", text ? "is auto" : "is missing");
    err = read_name(r, entry, "dtype", gemm_dtype_names, GEMM_DTYPE_COUNT, &v, why);
    s->key.dtype = s->name.dtype = (gemm_dtype)v;
    s->name.dtype_written = v != GEMM_BF16 && v != GEMM_FP16;
    return err;
}

static cadre_err read_block(const recipe *r, const json *entry, shape *s, cadre_fail *why) {
    const json *v = json_get(entry, "block_shape");
    if (!v) return CADRE_OK;
    int n[2], i = 0;
    bool good = v->kind == JSON_ARRAY && v->count == 2;
    for (const json *c = good ? v->child : NULL; c; c = c->next) {
        good = good && c->kind == JSON_NUMBER && c->whole && c->integer >= 1 && c->integer <= 1 << 16;
        n[i++] = good ? (int)c->integer : 0;
    }
    if (!good) return recipe_fault(r, v, why, "expected two whole numbers from 1 on");
    s->name.block_n = s->key.block_n = n[0];
    s->name.block_k = s->key.block_k = n[1];
    s->name.block_spaced = s->system == FOREIGN_SGLANG;
    return CADRE_OK;
}

static cadre_err read_sizes(const recipe *r, const json *entry, shape *s, int *shard, cadre_fail *why) {
    int unused = 1;
    const struct {
        const char *key;
        bool must;
        int *to;
    } sizes[] = {{"num_experts", true, &s->key.e},
                 {"hidden_size", true, &s->key.hidden},
                 {"shard_intermediate_size", true, shard},
                 {"topk", true, &s->key.topk},
                 {"tp", false, &unused},
                 {"ep", false, &unused},
                 {"tp_size", false, &unused},
                 {"ep_size", false, &unused}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cadre_err err = recipe_int(r, entry, sizes[i].key, sizes[i].must, 1, 1 << 24, sizes[i].to, why);
        if (err) return err;
    }
    return CADRE_OK;
}

static cadre_err read_shape(const recipe *r, const json *entry, shape *s, cadre_fail *why) {
    int shard = 0, system = FOREIGN_TORCHADA;
    const char *device = NULL, *text = NULL;
    *s = (shape){.key = {.gated = true}};
    cadre_err err = recipe_known(r, entry, entry_keys, why);
    if (!err) err = recipe_text(r, entry, "name", true, &text, why);
    if (!err) err = read_sizes(r, entry, s, &shard, why);
    if (!err) err = read_flag(r, entry, "is_gated", &s->key.gated, why);
    if (!err) err = recipe_text(r, entry, "activation", false, &text, why);
    if (!err) err = read_name(r, entry, "system", foreign_names, FOREIGN_SYSTEM_COUNT, &system, why);
    s->system = (foreign_system)system;
    if (!err) err = read_dtype(r, entry, s, why);
    if (!err) err = read_block(r, entry, s, why);
    if (!err) err = read_flag(r, entry, "per_channel_quant", &s->name.per_channel, why);
    if (!err) err = recipe_text(r, entry, "triton_version", false, &s->triton, why);
    if (!err) err = recipe_text(r, entry, "device", false, &device, why);
    if (err) return err;
    s->has_device = device != NULL;
    snprintf(s->name.device, sizeof s->name.device, "%s", device ? device : "");
    s->name.e = s->key.e;
    s->name.n = s->key.n = foreign_n(s->system, s->key.dtype, shard, s->key.gated);
    if (device && (strlen(device) >= sizeof s->name.device || strchr(device, '/')))
        return recipe_fault(r, json_get(entry, "device"), why, "is no part of a file's name");
    if (s->key.n < 1) return recipe_fault(r, entry, why, "shard_intermediate_size leaves an N of 0");
    return CADRE_OK;
}

/* ---- buckets ---- */

static bool is_size(const json *v) {
    return v->kind == JSON_NUMBER && v->whole && v->integer >= 1 && v->integer <= INT32_MAX;
}

static cadre_err check_sizes(const recipe *r, const json *v, cadre_fail *why) {
    if (!v || is_size(v)) return CADRE_OK;
    if (v->kind != JSON_ARRAY) return recipe_fault(r, v, why, "expected a whole number from 1 on, or a list of them");
    if (!v->count) return recipe_fault(r, v, why, "is an empty list");
    for (const json *c = v->child; c; c = c->next)
        if (!is_size(c)) return recipe_fault(r, c, why, "expected a whole number from 1 on");
    return CADRE_OK;
}

static int rising(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int recipe_sizes(const json *v, int *out, int cap) {
    int n = 0, kept = 0;
    if (!v) return 0;
    if (v->kind == JSON_NUMBER) {
        if (cap) out[0] = (int)v->integer;
        return 1;
    }
    for (const json *c = v->child; c && n < cap; c = c->next) out[n++] = (int)c->integer;
    qsort(out, (size_t)n, sizeof *out, rising);
    for (int i = 0; i < n; i++)
        if (!kept || out[i] != out[kept - 1]) out[kept++] = out[i];
    return kept;
}

/* "16", without sign, blanks or leading zeros; 0 if it is none. */
static int bucket(const json *v) {
    int m = 0;
    if (!v->key_len || v->key[0] == '0') return 0;
    for (size_t i = 0; i < v->key_len; i++) {
        int digit = v->key[i] - '0';
        if (digit < 0 || digit > 9 || m > (INT32_MAX - digit) / 10) return 0;
        m = m * 10 + digit;
    }
    return m;
}

/* ---- rows ---- */

static cadre_err read_config(const recipe *r, const json *v, gemm_config *config, cadre_fail *why) {
    if (v->kind != JSON_OBJECT) return recipe_fault(r, v, why, "expected an object of tile fields");
    *config = (gemm_config){.has = 0};
    for (const json *c = v->child; c; c = c->next) {
        int f = 0;
        while (f < GEMM_FIELD_COUNT && strcmp(gemm_field_names[f], c->key)) f++;
        if (f == GEMM_FIELD_COUNT) return recipe_fault(r, c, why, "no kernel has this field");
        int truth = c->kind == JSON_BOOL && f == GEMM_TMA ? c->truth : -1;
        if (truth < 0 && (c->kind != JSON_NUMBER || !c->whole || c->integer < gemm_field_least[f] ||
                          c->integer > gemm_field_most[f]))
            return recipe_fault(r, c, why, "expected a whole number in %d..%d", gemm_field_least[f],
                                gemm_field_most[f]);
        config->v[f] = truth < 0 ? (int)c->integer : truth;
        config->has |= 1u << f;
    }
    for (int f = 0; f < GEMM_FIELD_COUNT; f++)
        if (gemm_field_must[f] && !(config->has & 1u << f))
            return recipe_fault(r, v, why, "%s is missing", gemm_field_names[f]);
    return CADRE_OK;
}

/* A row as it is built, with who owns it. */
typedef struct owned {
    foreign_row row;
    char source[400];
} owned;

static cadre_err read_policy(const recipe *r, const json *v, const shape *s, owned *out, cadre_fail *why) {
    const char *name = NULL, *rule;
    int platform = GEMM_CUDA;
    gemm_key key = s->key;
    cadre_fail bad = {0};
    key.m = out->row.m;
    cadre_err err = recipe_known(r, v, "name|platform|m", why);
    if (!err) err = recipe_text(r, v, "name", true, &name, why);
    if (!err) err = read_name(r, v, "platform", gemm_platform_names, GEMM_PLATFORM_COUNT, &platform, why);
    if (!err) err = recipe_int(r, v, "m", false, 1, INT32_MAX, &key.m, why);
    if (err) return err;
    const gemm_policy *policy = gemm_policy_find(name);
    if (!policy) return recipe_fault(r, json_get(v, "name"), why, "no policy is called '%.40s'", name);
    if (gemm_default(policy, (gemm_platform)platform, &key, &out->row.config, &rule, &bad))
        return recipe_fault(r, v, why, "%.200s", bad.text);
    for (int f = 0; f < GEMM_FIELD_COUNT; f++)
        if (gemm_field_must[f] && !(out->row.config.has & 1u << f))
            return recipe_fault(r, v, why, "policy %s leaves %s to its kernel: that makes no row", name,
                                gemm_field_names[f]);
    snprintf(out->source, sizeof out->source, "policy %s@%s on %s at M=%d: %s", policy->name, policy->version,
             gemm_platform_names[platform], key.m, rule);
    return CADRE_OK;
}

/* The sentence is made from the figures. */
static cadre_err add_measured(const recipe *r, const json *v, owned *out, cadre_fail *why) {
    const char *what = NULL, *unit = NULL;
    double with = 0, without = 0;
    int runs = 0;
    cadre_err err = recipe_known(r, v, "what|unit|with|without|runs", why);
    if (!err) err = recipe_text(r, v, "what", true, &what, why);
    if (!err) err = recipe_text(r, v, "unit", true, &unit, why);
    if (!err) err = recipe_real(r, v, "with", &with, why);
    if (!err) err = recipe_real(r, v, "without", &without, why);
    if (!err) err = recipe_int(r, v, "runs", true, 1, 1 << 20, &runs, why);
    size_t n = strlen(out->source);
    if (!err)
        snprintf(out->source + n, sizeof out->source - n, "; %s %g %s with the row, %g without: %+.2f %%, %d runs",
                 what, with, unit, without, 100 * (with / without - 1), runs);
    return err;
}

static cadre_err read_row(const recipe *r, const json *v, const shape *s, owned *out, cadre_fail *why) {
    const char *source = NULL;
    *out = (owned){.row = {.m = bucket(v), .line = v->line}};
    if (!out->row.m) return recipe_fault(r, v, why, "a bucket is a whole number from 1 on");
    cadre_err err = recipe_known(r, v, row_keys, why);
    const json *policy = json_get(v, "policy"), *config = json_get(v, "config"), *m = json_get(v, "measured");
    if (!err) err = recipe_text(r, v, "source", !policy, &source, why);
    if (err) return err;
    if (!policy == !config) return recipe_fault(r, v, why, "expected either config and source, or policy");
    err = policy ? read_policy(r, policy, s, out, why) : read_config(r, config, &out->row.config, why);
    size_t n = strlen(out->source);
    if (!err && source) snprintf(out->source + n, sizeof out->source - n, "%s%s", n ? "; " : "", source);
    return !err && m ? add_measured(r, m, out, why) : err;
}

cadre_err recipe_check_entry(const recipe *r, const json *entry, cadre_fail *why) {
    shape s;
    owned o;
    const json *rows = json_get(entry, "pinned_rows");
    if (json_get(entry, "model")) return recipe_fault(r, entry, why, "needs a checkpoint; only shapes are known here");
    cadre_err err = read_shape(r, entry, &s, why);
    if (!err) err = check_sizes(r, json_get(entry, "batch_sizes"), why);
    if (!err && rows && rows->kind != JSON_OBJECT) err = recipe_fault(r, rows, why, "expected an object");
    for (const json *v = rows ? rows->child : NULL; v && !err; v = v->next) err = read_row(r, v, &s, &o, why);
    return err;
}

/* ---- building ---- */

static cadre_err check_complete(const recipe *r, const json *entry, const json *rows, cadre_fail *why) {
    const json *sizes = json_get(entry, "batch_sizes");
    const json *one = sizes && sizes->kind == JSON_ARRAY ? sizes->child : sizes;
    for (; one; one = one == sizes ? NULL : one->next) {
        char key[16];
        snprintf(key, sizeof key, "%d", (int)one->integer);
        if (!json_get(rows, key)) return recipe_fault(r, one, why, "bucket %s has no row in pinned_rows", key);
    }
    return CADRE_OK;
}

static int by_m(const void *a, const void *b) {
    return rising(&((const foreign_row *)a)->m, &((const foreign_row *)b)->m);
}

static cadre_err build(const recipe *r, const json *rows, const shape *s, foreign_row *out, recipe_owner *tell,
                       void *ctx, cadre_fail *why) {
    int i = 0;
    for (const json *v = rows->child; v; v = v->next) {
        owned o;
        cadre_err err = read_row(r, v, s, &o, why);
        if (err) return err;
        if (tell) tell(ctx, v->key, o.source);
        out[i++] = o.row;
    }
    qsort(out, (size_t)rows->count, sizeof *out, by_m);
    return CADRE_OK;
}

cadre_err recipe_build_entry(const recipe *r, const json *entry, recipe_owner *tell, void *ctx, recipe_output *out,
                             cadre_fail *why) {
    shape s;
    const json *pinned = json_get(entry, "pinned_rows");
    cadre_err err = read_shape(r, entry, &s, why);
    if (err) return err;
    if (!pinned || !pinned->count) return recipe_fault(r, entry, why, "has no pinned_rows: there is nothing to build");
    if (!s.has_device) return recipe_fault(r, entry, why, "device is missing: the table is named after it");
    if (!foreign_name_print(s.system, &s.name, out->name, sizeof out->name))
        return recipe_fault(r, entry, why, "%s has no tables of this kind", foreign_names[s.system]);
    if ((err = check_complete(r, entry, pinned, why))) return err;
    foreign_row *rows = mem_new_array((size_t)pinned->count, sizeof *rows);
    if (!rows) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for rows", r->path);
    err = build(r, pinned, &s, rows, tell, ctx, why);
    if (!err) err = foreign_print(rows, pinned->count, s.triton, &out->text, &out->len, why);
    out->rows = pinned->count;
    mem_free(rows);
    return err;
}
