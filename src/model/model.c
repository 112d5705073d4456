/* model.c: the public model of cadre.h: a folder opened, closed and asked; its text in and out is the tokenizer's. */
#include "model/model.h"
#include <string.h>

struct cadre_text {
    tokenizer_stream *stream;
};

/* ---- opening ---- */

/* What weights are packed as. The checkpoint's own type is that of its embedding: config.json may say another. A
 * quantized type is the experts' alone: projections, norms and head stay bf16, the router fp32. */
static cadre_err choose_type(cadre_model *m, const tensors *t, const char *dir, const char *asked, cadre_fail *why) {
    const tensor_entry *e = tensors_find(t, "model.embed_tokens.weight");
    cadre_dtype own = e && e->known ? e->dtype : m->config.dtype;
    bool none = !asked || !strcmp(asked, "auto");
    int type = none ? (int)(own == CADRE_BF16 ? CADRE_BF16 : CADRE_F32) : op_dtype_find(asked);
    if (type < 0 || type == CADRE_F16)
        return cadre_fail_set(why, CADRE_RANGE, "weights is '%.40s', expected auto, bf16, f32, q8 or q4", asked);
    m->expert_dtype = (cadre_dtype)type;
    m->dtype = type == CADRE_F32 ? CADRE_F32 : CADRE_BF16;
    m->config.moe.dtype = m->expert_dtype;
    if (own == CADRE_F16 && none) log_once("%.300s: float16 weights become float32", dir);
    return CADRE_OK;
}

/* A folder without one still runs on ids. */
static cadre_err open_tokenizer(cadre_model *m, const char *dir, cadre_fail *why) {
    char path[4096];
    if (!file_join(path, sizeof path, dir, "tokenizer.json"))
        return cadre_fail_set(why, CADRE_IO, "%.300s: path too long", dir);
    if (!file_exists(path)) {
        log_once("%.300s: no tokenizer.json: token ids only, no text", dir);
        return CADRE_OK;
    }
    cadre_err err = tokenizer_open(dir, &m->tokenizer, why);
    if (!err && tokenizer_size(m->tokenizer) > m->config.vocab)
        log_once("%.300s: tokenizer.json has ids up to %d, but the model has %d rows", dir,
                 tokenizer_size(m->tokenizer) - 1, m->config.vocab);
    return err;
}

static cadre_err make_plans(cadre_model *m, cadre_fail *why) {
    const model_config *c = &m->config;
    plan_key norm = {.family = OP_NORM, .dtype = CADRE_F32, .d = c->d, .role = "norm"};
    plan_key attn = {
        .family = OP_ATTN, .dtype = m->dtype, .d = c->head_dim, .f = c->heads, .e = c->kv_heads, .role = "attention"};
    cadre_err err = plan_make(m->device, &norm, &m->norm_plan, why);
    return err ? err : plan_make(m->device, &attn, &m->attn_plan, why);
}

static cadre_err prepare(cadre_model *m, const char *dir, const char *asked, cadre_fail *why) {
    m->dir = mem_copy_text(dir, strlen(dir));
    if (!m->dir) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", dir);
    cadre_err err = config_read(dir, &m->config, why);
    if (!err) err = tensors_open(dir, &m->tensors, why);
    if (!err) err = choose_type(m, m->tensors, dir, asked, why);
    if (!err) err = open_tokenizer(m, dir, why);
    if (!err) err = make_plans(m, why);
    return err ? err : load_check(m, why);
}

cadre_err cadre_model_load(cadre_model *m, cadre_fail *why) {
    if (!m) return cadre_fail_set(why, CADRE_RANGE, "cadre_model_load: an argument is NULL");
    if (m->loaded) return CADRE_OK;
    if (!m->tensors) return cadre_fail_set(why, CADRE_RANGE, "cadre_model_load: it has failed before");
    cadre_err err = load_weights(m, why);
    tensors_close(m->tensors);
    m->tensors = NULL;
    m->loaded = !err;
    return err;
}

cadre_err cadre_model_open(cadre_device *device, const char *dir, const cadre_model_options *options, cadre_model **out,
                           cadre_fail *why) {
    cadre_model *m = NULL;
    if (!out) return cadre_fail_set(why, CADRE_RANGE, "cadre_model_open: an argument is NULL");
    cadre_err err = cadre_model_prepare(device, dir, options, &m, why);
    if (!err) err = cadre_model_load(m, why);
    if (err)
        cadre_model_close(m);
    else
        *out = m;
    return err;
}

cadre_err cadre_model_prepare(cadre_device *device, const char *dir, const cadre_model_options *options,
                              cadre_model **out, cadre_fail *why) {
    if (!device || !dir || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_model_open: an argument is NULL");
    cadre_err gpu = dev_cpu_only(device, "a model", why);
    if (gpu) return gpu;
    if (!file_is_dir(dir)) return cadre_fail_set(why, CADRE_IO, "%.300s: expected a folder with a model", dir);
    cadre_model *m = mem_new(sizeof *m);
    if (!m) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", dir);
    m->device = device;
    cadre_err err = prepare(m, dir, options ? options->weights : NULL, why);
    if (err)
        cadre_model_close(m);
    else
        *out = m;
    return err;
}

static void close_layer(model_layer *layer) {
    mem_free(layer->norm_attn);
    mem_free(layer->norm_mlp);
    mem_free(layer->q_norm);
    mem_free(layer->k_norm);
    moe_dense_done(&layer->qkv);
    moe_dense_done(&layer->o);
    moe_layer_done(&layer->mlp);
}

void cadre_model_close(cadre_model *m) {
    if (!m) return;
    for (int i = 0; m->layer && i < m->config.layers; i++) close_layer(&m->layer[i]);
    mem_free(m->layer);
    if (m->embedding) mem_free_huge(m->embedding, m->embedding_bytes);
    mem_free(m->norm);
    moe_dense_done(&m->head);
    if (m->tokenizer) tokenizer_close(m->tokenizer);
    config_done(&m->config);
    tensors_close(m->tensors);
    mem_free(m->dir);
    mem_free(m);
}

/* ---- asking ---- */

void cadre_model_get_info(const cadre_model *m, cadre_model_info *info) {
    const model_config *c = &m->config;
    int known = m->tokenizer ? tokenizer_size(m->tokenizer) : c->vocab;
    *info = (cadre_model_info){.arch = c->arch,
                               .numerics = op_numerics(m->expert_dtype),
                               .weights = op_dtype_name(m->expert_dtype),
                               .vocab = c->vocab,
                               .tokens = known < c->vocab ? known : c->vocab,
                               .layers = c->layers,
                               .d = c->d,
                               .f = c->moe.e ? c->moe.f : c->f_dense,
                               .e = c->moe.e,
                               .k = c->moe.k,
                               .max_context = c->max_context,
                               .weight_bytes = m->weight_bytes};
}

bool cadre_model_is_end(const cadre_model *m, int32_t id) {
    for (int i = 0; i < m->config.ends; i++)
        if (m->config.end[i] == id) return true;
    return false;
}

/* ---- text ---- */

static cadre_err need_tokenizer(const cadre_model *m, cadre_fail *why) {
    if (m->tokenizer) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "the model has no tokenizer.json: token ids only, no text");
}

/* *n on success, and when the ids did not fit. */
static cadre_err give_count(cadre_err err, size_t count, size_t cap, size_t *n) {
    if (!err || (err == CADRE_RANGE && count > cap)) *n = count;
    return err;
}

cadre_err cadre_encode(const cadre_model *m, const char *text, size_t len, bool specials, int32_t *ids, size_t cap,
                       size_t *n, cadre_fail *why) {
    if (!m || !text || !n || (!ids && cap))
        return cadre_fail_set(why, CADRE_RANGE, "cadre_encode: an argument is NULL");
    cadre_err err = need_tokenizer(m, why);
    size_t count = 0;
    if (!err) err = tokenizer_encode(m->tokenizer, text, len, specials, specials, ids, cap, &count, why);
    return give_count(err, count, cap, n);
}

cadre_err cadre_encode_chat(const cadre_model *m, const char *user, size_t len, bool first, int32_t *ids, size_t cap,
                            size_t *n, cadre_fail *why) {
    if (!m || !user || !n || (!ids && cap))
        return cadre_fail_set(why, CADRE_RANGE, "cadre_encode_chat: an argument is NULL");
    cadre_err err = need_tokenizer(m, why);
    size_t count = 0;
    if (!err) err = chat_encode(m->tokenizer, m->config.arch, user, len, first, ids, cap, &count, why);
    return give_count(err, count, cap, n);
}

cadre_err cadre_text_new(const cadre_model *m, cadre_text **out, cadre_fail *why) {
    if (!m || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_text_new: an argument is NULL");
    cadre_err err = need_tokenizer(m, why);
    if (err) return err;
    cadre_text *text = mem_new(sizeof *text);
    if (!text) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a text");
    err = tokenizer_stream_new(m->tokenizer, true, &text->stream, why);
    if (err)
        mem_free(text);
    else
        *out = text;
    return err;
}

void cadre_text_free(cadre_text *text) {
    if (!text) return;
    tokenizer_stream_free(text->stream);
    mem_free(text);
}

void cadre_text_reset(cadre_text *text) {
    tokenizer_stream_reset(text->stream);
}

const char *cadre_text_push(cadre_text *text, int32_t id, size_t *len) {
    size_t n;
    return tokenizer_stream_push(text->stream, id, len ? len : &n);
}

const char *cadre_text_end(cadre_text *text, size_t *len) {
    size_t n;
    return tokenizer_stream_end(text->stream, len ? len : &n);
}
