/* config.c: config.json and generation_config.json as checked numbers. Old and new spellings of a key are one key here;
 * a value that is not understood is refused, never guessed. What a family alone has is read by its arch file. */
#include "model/model.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PATH_SIZE = 4096,
    FILE_MAX = 16 << 20,
    SIDE_MAX = 1 << 20,
    VOCAB_MAX = 1 << 24,
    CONTEXT_MAX = 1 << 24,
    LAYERS_MAX = 1024,
    EXPERTS_MAX = 1 << 14
};

/* ---- pieces ---- */

/* The member of an object, NULL when it is absent or null: both mean the default. */
static const json *given(const json *object, const char *key) {
    const json *v = json_get(object, key);
    return v && v->kind != JSON_NULL ? v : NULL;
}

static cadre_err read_int(const json_doc *doc, const json *object, const char *key, int64_t def, int64_t low,
                          int64_t high, int *out, cadre_fail *why) {
    int64_t v = 0;
    cadre_err err = json_int(doc, object, key, def, low, high, &v, why);
    if (!err) *out = (int)v;
    return err;
}

cadre_err config_need_int(const json_doc *doc, const char *key, int64_t low, int64_t high, int *out, cadre_fail *why) {
    const json *root = json_root(doc);
    if (!given(root, key))
        return json_fail(doc, root, why, "has no %s, expected a whole number in %lld..%lld", key, (long long)low,
                         (long long)high);
    return read_int(doc, root, key, 0, low, high, out, why);
}

/* One number that has had several names. Two names with two values are refused. */
static cadre_err need_alias(const json_doc *doc, const char *const *keys, int count, int64_t low, int64_t high,
                            int *out, cadre_fail *why) {
    const json *root = json_root(doc);
    const char *first = NULL;
    int v = 0;
    for (int i = 0; i < count; i++) {
        if (!given(root, keys[i])) continue;
        cadre_err err = config_need_int(doc, keys[i], low, high, &v, why);
        if (err) return err;
        if (first && v != *out)
            return json_fail(doc, json_get(root, keys[i]), why, "is %d, but .%s is %d: expected the same", v, first,
                             *out);
        first = keys[i];
        *out = v;
    }
    if (first) return CADRE_OK;
    return json_fail(doc, root, why, "has no %s, expected a whole number in %lld..%lld", keys[0], (long long)low,
                     (long long)high);
}

/* ---- rotary angles ---- */

/* g(s, m) of YaRN. */
static double yarn_scale(double s, double m) {
    return s <= 1 ? 1 : 0.1 * m * m_log(s) + 1;
}

static cadre_err read_yarn(const json_doc *doc, const json *rope, model_config *c, cadre_fail *why) {
    double mscale = 0, mscale_all = 0;
    cadre_err err =
        read_int(doc, rope, "original_max_position_embeddings", c->max_context, 1, CONTEXT_MAX, &c->yarn_original, why);
    if (err) return err;
    double ratio = (double)c->max_context / c->yarn_original;
    err = json_real(doc, rope, "factor", ratio < 1 ? 1 : ratio, 1, 1e6, &c->yarn_factor, why);
    if (!err) err = json_real(doc, rope, "beta_fast", 32, 1e-3, 1e6, &c->yarn_beta_fast, why);
    if (!err) err = json_real(doc, rope, "beta_slow", 1, 1e-3, 1e6, &c->yarn_beta_slow, why);
    if (!err) err = json_flag(doc, rope, "truncate", true, &c->yarn_truncate, why);
    if (!err) err = json_real(doc, rope, "mscale", 0, 0, 1e3, &mscale, why);
    if (!err) err = json_real(doc, rope, "mscale_all_dim", 0, 0, 1e3, &mscale_all, why);
    if (err) return err;
    if (c->yarn_beta_fast <= c->yarn_beta_slow)
        return json_fail(doc, rope, why, "has beta_fast %g, expected more than beta_slow %g", c->yarn_beta_fast,
                         c->yarn_beta_slow);
    if (c->rope_theta < 2)
        return json_fail(doc, rope, why, "is yarn, but rope_theta is %g, expected at least 2", c->rope_theta);
    double s = c->yarn_factor;
    double factor =
        mscale != 0 && mscale_all != 0 ? yarn_scale(s, mscale) / yarn_scale(s, mscale_all) : yarn_scale(s, 1);
    err = json_real(doc, rope, "attention_factor", factor, 1e-3, 1e3, &c->yarn_attention_factor, why);
    if (err) return err;
    c->yarn = true;
    /* The factor stretches the context it was made for; checkpoints often keep the short one in
     * max_position_embeddings. */
    double stretched = c->yarn_original * s;
    if (stretched > c->max_context) c->max_context = stretched < CONTEXT_MAX ? (int)stretched : CONTEXT_MAX;
    return CADRE_OK;
}

/* rope_parameters (new: theta inside) or rope_scaling (old: theta beside); the kind is rope_type or, older, type. */
static cadre_err read_rope(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *root = json_root(doc), *rope = given(root, "rope_parameters");
    if (!rope) rope = given(root, "rope_scaling");
    const char *kind = NULL;
    double part = 1;
    cadre_err err = json_real(doc, root, "rope_theta", 10000, 1, 1e15, &c->rope_theta, why);
    if (!err) err = json_real(doc, rope, "rope_theta", c->rope_theta, 1, 1e15, &c->rope_theta, why);
    if (!err) err = json_real(doc, root, "partial_rotary_factor", 1, 0, 1, &part, why);
    if (!err) err = json_real(doc, rope, "partial_rotary_factor", part, 0, 1, &part, why);
    if (!err) err = json_text(doc, rope, "type", NULL, &kind, why);
    if (!err) err = json_text(doc, rope, "rope_type", kind, &kind, why);
    if (err) return err;
    if (part != 1)
        return json_refuse(doc, given(rope, "partial_rotary_factor") ? rope : root, why,
                           "has partial_rotary_factor %g, expected 1", part);
    for (const json *v = rope ? rope->child : NULL; v; v = v->next)
        if (v->kind == JSON_OBJECT)
            return json_refuse(doc, v, why, "has rotary settings of its own: expected one for all layers");
    if (!kind || !strcmp(kind, "default")) return CADRE_OK;
    if (!strcmp(kind, "yarn")) return read_yarn(doc, rope, c, why);
    return json_refuse(doc, rope, why, "is of type '%.40s', expected default or yarn", kind);
}

/* ---- sizes ---- */

static cadre_err read_heads(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *root = json_root(doc);
    cadre_err err = config_need_int(doc, "num_attention_heads", 1, SIDE_MAX, &c->heads, why);
    if (!err) err = read_int(doc, root, "num_key_value_heads", c->heads, 1, SIDE_MAX, &c->kv_heads, why);
    if (err) return err;
    if (c->heads % c->kv_heads)
        return json_fail(doc, json_get(root, "num_key_value_heads"), why,
                         "is %d, expected a divisor of num_attention_heads %d", c->kv_heads, c->heads);
    if (!given(root, "head_dim") && c->d % c->heads)
        return json_fail(doc, json_get(root, "num_attention_heads"), why,
                         "is %d, expected a divisor of hidden_size %d or a head_dim", c->heads, c->d);
    err = read_int(doc, root, "head_dim", c->d / c->heads, 1, SIDE_MAX, &c->head_dim, why);
    if (err) return err;
    const json *at = json_get(root, given(root, "head_dim") ? "head_dim" : "num_attention_heads");
    if (c->head_dim % 2)
        return json_fail(doc, at, why, "gives a head of %d, expected an even number (rotary pairs)", c->head_dim);
    if ((int64_t)c->heads * c->head_dim > SIDE_MAX)
        return json_fail(doc, at, why, "gives %d heads of %d, expected a product up to %d", c->heads, c->head_dim,
                         SIDE_MAX);
    return CADRE_OK;
}

static cadre_err read_dtype(const json_doc *doc, model_config *c, cadre_fail *why) {
    static const char *const names[] = {"float32", "bfloat16", "float16"};
    const json *root = json_root(doc);
    const char *name = NULL;
    cadre_err err = json_text(doc, root, "torch_dtype", NULL, &name, why);
    if (!err) err = json_text(doc, root, "dtype", name, &name, why);
    if (err || !name) return err;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            c->dtype = (cadre_dtype[]){CADRE_F32, CADRE_BF16, CADRE_F16}[i];
            return CADRE_OK;
        }
    return json_refuse(doc, given(root, "dtype") ? json_get(root, "dtype") : json_get(root, "torch_dtype"), why,
                       "is '%.40s', expected float32, bfloat16 or float16", name);
}

/* Features that would change the result and are not built. */
static cadre_err refuse_features(const json_doc *doc, cadre_fail *why) {
    const json *root = json_root(doc), *v;
    const char *act = NULL;
    bool window = false;
    cadre_err err = json_text(doc, root, "hidden_act", "silu", &act, why);
    if (!err) err = json_flag(doc, root, "use_sliding_window", false, &window, why);
    if (err) return err;
    if (strcmp(act, "silu"))
        return json_refuse(doc, json_get(root, "hidden_act"), why, "is '%.40s', expected silu", act);
    if (window)
        return json_refuse(doc, json_get(root, "use_sliding_window"), why,
                           "is true: sliding windows are not supported");
    if ((v = given(root, "quantization_config")))
        return json_refuse(doc, v, why, "is given: quantised checkpoints are not supported, expected float weights");
    v = given(root, "layer_types");
    if (v && v->kind != JSON_ARRAY) return json_fail(doc, v, why, "expected a list of texts");
    for (v = v ? v->child : NULL; v; v = v->next)
        if (!json_is(v, "full_attention"))
            return json_refuse(doc, v->parent, why,
                               "holds a kind of layer not known here, expected full_attention only");
    return CADRE_OK;
}

static cadre_err read_sizes(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *root = json_root(doc);
    cadre_err err = config_need_int(doc, "vocab_size", 1, VOCAB_MAX, &c->vocab, why);
    if (!err) err = config_need_int(doc, "hidden_size", 1, SIDE_MAX, &c->d, why);
    if (!err) err = config_need_int(doc, "num_hidden_layers", 1, LAYERS_MAX, &c->layers, why);
    if (!err) err = config_need_int(doc, "max_position_embeddings", 1, CONTEXT_MAX, &c->max_context, why);
    if (!err) err = read_heads(doc, c, why);
    if (!err) err = json_real(doc, root, "rms_norm_eps", 1e-6, 1e-30, 1, &c->eps, why);
    if (!err) err = json_flag(doc, root, "tie_word_embeddings", false, &c->tied, why);
    if (!err) err = json_flag(doc, root, "attention_bias", false, &c->attention_bias, why);
    if (!err) err = read_int(doc, root, "num_nextn_predict_layers", 0, 0, LAYERS_MAX, &c->mtp_layers, why);
    return err;
}

/* ---- experts ---- */

cadre_err config_moe(const json_doc *doc, model_config *c, cadre_fail *why) {
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    const json *root = json_root(doc);
    cadre_moe_desc *m = &c->moe;
    *m = (cadre_moe_desc){.d = c->d, .act = CADRE_SWIGLU, .gate = CADRE_SOFTMAX, .scale = 1};
    cadre_err err = need_alias(doc, experts, 3, 1, EXPERTS_MAX, &m->e, why);
    if (!err) err = config_need_int(doc, "num_experts_per_tok", 1, EXPERTS_MAX, &m->k, why);
    if (!err) err = config_need_int(doc, "moe_intermediate_size", 1, SIDE_MAX, &m->f, why);
    if (!err) err = json_flag(doc, root, "norm_topk_prob", false, &m->renormalize, why);
    if (!err && m->k > m->e)
        err = json_fail(doc, json_get(root, "num_experts_per_tok"), why,
                        "is %d, expected at most the number of experts, %d", m->k, m->e);
    return err;
}

static cadre_err mark_dense(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *list = given(json_root(doc), "mlp_only_layers");
    if (list && list->kind != JSON_ARRAY) return json_fail(doc, list, why, "expected a list of layer numbers");
    for (const json *v = list ? list->child : NULL; v; v = v->next) {
        if (v->kind != JSON_NUMBER || !v->whole || v->integer < 0 || v->integer >= c->layers)
            return json_fail(doc, v, why, "expected a layer number in 0..%d", c->layers - 1);
        c->is_moe[v->integer] = false;
    }
    return CADRE_OK;
}

cadre_err config_sparse(const json_doc *doc, model_config *c, cadre_fail *why) {
    int step = 1;
    bool dense = false;
    cadre_err err = read_int(doc, json_root(doc), "decoder_sparse_step", 1, 1, SIDE_MAX, &step, why);
    if (err) return err;
    for (int i = 0; i < c->layers; i++) c->is_moe[i] = (i + 1) % step == 0;
    err = mark_dense(doc, c, why);
    for (int i = 0; i < c->layers; i++) dense = dense || !c->is_moe[i];
    if (!err && dense) err = config_need_int(doc, "intermediate_size", 1, SIDE_MAX, &c->f_dense, why);
    return err;
}

/* ---- generation ---- */

static cadre_err add_end(const json_doc *doc, const json *v, model_config *c, cadre_fail *why) {
    if (v->kind != JSON_NUMBER || !v->whole || v->integer < 0 || v->integer >= VOCAB_MAX)
        return json_fail(doc, v, why, "expected a token id in 0..%d, or a list of them", VOCAB_MAX - 1);
    for (int i = 0; i < c->ends; i++)
        if (c->end[i] == v->integer) return CADRE_OK;
    if (c->ends == CONFIG_ENDS_MAX)
        return json_fail(doc, v, why, "is one more, expected at most %d ids", CONFIG_ENDS_MAX);
    c->end[c->ends++] = (int32_t)v->integer;
    return CADRE_OK;
}

/* A later file replaces what an earlier one said. */
static cadre_err read_ends(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *v = given(json_root(doc), "eos_token_id");
    if (!v) return CADRE_OK;
    c->ends = 0;
    if (v->kind != JSON_ARRAY) return add_end(doc, v, c, why);
    cadre_err err = CADRE_OK;
    for (v = v->child; v && !err; v = v->next) err = add_end(doc, v, c, why);
    return err;
}

static cadre_err read_generation(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *root = json_root(doc);
    bool sample = true;
    cadre_err err = root->kind == JSON_OBJECT ? CADRE_OK : json_fail(doc, root, why, "expected an object");
    if (!err) err = read_ends(doc, c, why);
    if (!err) err = json_flag(doc, root, "do_sample", true, &sample, why);
    if (!err) err = json_real(doc, root, "temperature", -1, 0, 100, &c->temperature, why);
    if (!err) err = json_real(doc, root, "top_p", -1, 0, 1, &c->top_p, why);
    if (!err) err = read_int(doc, root, "top_k", -1, 0, VOCAB_MAX, &c->top_k, why);
    if (!err && !sample) c->temperature = c->top_p = c->top_k = -1; /* greedy: the rest is not meant */
    return err;
}

/* ---- files ---- */

static cadre_err no_arch(const json_doc *doc, const char *type, cadre_fail *why) {
    char known[200] = "";
    size_t n = 0;
    for (int i = 0; model_archs[i] && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", model_archs[i]->model_type);
    return json_refuse(doc, json_get(json_root(doc), "model_type"), why, "is '%.60s', expected one of: %s", type,
                       known);
}

static cadre_err read_config(const json_doc *doc, model_config *c, cadre_fail *why) {
    const json *root = json_root(doc);
    const char *type = NULL;
    if (root->kind != JSON_OBJECT) return json_fail(doc, root, why, "expected an object");
    cadre_err err = json_text(doc, root, "model_type", NULL, &type, why);
    if (err) return err;
    if (!type) return json_fail(doc, root, why, "has no model_type, expected a text such as qwen3_moe");
    const model_arch *arch = model_arch_find(type);
    if (!arch) return no_arch(doc, type, why);
    snprintf(c->arch, sizeof c->arch, "%s", type);
    err = refuse_features(doc, why);
    if (!err) err = read_sizes(doc, c, why);
    if (!err) err = read_dtype(doc, c, why);
    if (!err) err = read_rope(doc, c, why);
    if (!err) err = read_ends(doc, c, why);
    if (err) return err;
    c->is_moe = mem_new_array((size_t)c->layers, sizeof *c->is_moe);
    if (!c->is_moe) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", json_name(doc));
    return arch->config(doc, c, why);
}

typedef cadre_err read_fn(const json_doc *doc, model_config *c, cadre_fail *why);

static cadre_err read_file(const char *dir, const char *name, bool needed, read_fn *fn, model_config *c,
                           cadre_fail *why) {
    char path[PATH_SIZE];
    if (!file_join(path, sizeof path, dir, name)) return cadre_fail_set(why, CADRE_IO, "%.300s: path too long", dir);
    if (!needed && !file_exists(path)) return CADRE_OK;
    json_doc *doc;
    cadre_err err = json_read_file(path, FILE_MAX, &doc, why);
    if (err) return err;
    err = fn(doc, c, why);
    json_free(doc);
    return err;
}

cadre_err config_read(const char *dir, model_config *c, cadre_fail *why) {
    model_config read = {.temperature = -1, .top_p = -1, .top_k = -1, .dtype = CADRE_F32};
    cadre_err err = read_file(dir, "config.json", true, read_config, &read, why);
    if (!err) err = read_file(dir, "generation_config.json", false, read_generation, &read, why);
    if (err) config_done(&read);
    *c = read;
    return err;
}

void config_done(model_config *c) {
    mem_free(c->is_moe);
    *c = (model_config){0};
}
