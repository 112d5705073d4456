/* load.c and model.c: what is packed is what the checkpoint holds, whatever its spelling; and folders made wrong. */
#include "model/folder.h"

#include <math.h>

#if defined(__SANITIZE_ADDRESS__)
#    define ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define ASAN 1
#    endif
#endif
#ifndef ASAN
#    define ASAN 0
#endif

#define GOLDEN "tests/golden/models/"

static cadre_device *device;
static char heard[4096];

static void hear(void *ctx, const char *line) {
    (void)ctx;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s\n", line);
}

static int make(void **state) {
    heard[0] = 0;
    cadre_listen(hear, NULL);
    return folder_make(state);
}

static int drop(void **state) {
    cadre_listen(NULL, NULL);
    return folder_drop(state);
}

static cadre_model *open_model(const char *path, const char *weights) {
    cadre_model *m = NULL;
    must(cadre_model_open(device, path, &(cadre_model_options){weights}, &m, fail_out));
    return m;
}

/* ---- packed values ---- */

/* Element [o][i] of a packed matrix (op.h draws it). half: 0 or 1 of a gated pair. */
static float packed(cadre_dtype t, const void *w, int in, bool gated, int half, int o, int i) {
    size_t step = gated ? 128 : 64, panel = op_panel_bytes(t, in, gated) * (size_t)(o / OP_LANES);
    const char *group = (const char *)w + panel + (size_t)(i / op_group(t)) * step + 64 * (size_t)half;
    return op_load(t, group, (size_t)(o % OP_LANES) * (size_t)op_group(t) + (size_t)(i % op_group(t)));
}

static float rounded(cadre_dtype t, float v) {
    return t == CADRE_F32 ? v : op_from_bf16(op_bf16(v));
}

typedef struct source {
    const tensors *t;
    cadre_dtype dtype;
} source;

/* Rows first.. of the packed matrix are the tensor. */
static void check_matrix(const source *s, const char *name, const void *w, int rows, int cols, bool gated, int half,
                         int first) {
    cadre_tensor t = {0};
    must(tensors_need(s->t, name, rows, cols, &t, fail_out));
    for (int o = 0; o < rows; o++)
        for (int i = 0; i < cols; i++) {
            float want = rounded(s->dtype, op_load(t.dtype, t.data, (size_t)o * (size_t)cols + (size_t)i));
            float got = packed(s->dtype, w, cols, gated, half, first + o, i);
            if (want != got) fail_msg("%s[%d][%d] is packed as %g, expected %g", name, o, i, (double)got, (double)want);
        }
}

static void check_vector(const source *s, const char *name, const float *v, int n) {
    cadre_tensor t = {0};
    assert_non_null(v);
    must(tensors_need(s->t, name, 0, n, &t, fail_out));
    for (int i = 0; i < n; i++) assert_true(v[i] == op_load(t.dtype, t.data, (size_t)i));
}

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static void check_attention(const source *s, const cadre_model *m, int l) {
    static const char *const what[] = {"q_proj", "k_proj", "v_proj"};
    char name[200];
    const model_config *c = &m->config;
    const model_layer *layer = &m->layer[l];
    int rows[] = {c->heads * c->head_dim, c->kv_heads * c->head_dim, c->kv_heads * c->head_dim}, first = 0;
    for (int i = 0; i < 3; first += rows[i++]) {
        check_matrix(s, NAME("model.layers.%d.self_attn.%s.weight", l, what[i]), layer->qkv.w, rows[i], c->d, false, 0,
                     first);
        if (c->qkv_bias)
            check_vector(s, NAME("model.layers.%d.self_attn.%s.bias", l, what[i]), layer->qkv.bias + first, rows[i]);
    }
    assert_int_equal(layer->qkv.out, first);
    assert_int_equal(layer->qkv.bias != NULL, c->qkv_bias);
    check_matrix(s, NAME("model.layers.%d.self_attn.o_proj.weight", l), layer->o.w, c->d, rows[0], false, 0, 0);
    assert_int_equal(layer->o.bias != NULL, c->attention_bias);
    if (c->attention_bias) check_vector(s, NAME("model.layers.%d.self_attn.o_proj.bias", l), layer->o.bias, c->d);
    if (c->qk_norm) check_vector(s, NAME("model.layers.%d.self_attn.q_norm.weight", l), layer->q_norm, c->head_dim);
    if (c->qk_norm) check_vector(s, NAME("model.layers.%d.self_attn.k_norm.weight", l), layer->k_norm, c->head_dim);
    assert_int_equal(layer->q_norm != NULL, c->qk_norm);
}

static void check_expert(const source *s, const char *prefix, const moe_experts *x, int e) {
    char name[200];
    const char *up = (const char *)x->w_up + (size_t)e * x->up_stride;
    check_matrix(s, NAME("%s.gate_proj.weight", prefix), up, x->f, x->d, true, 0, 0);
    check_matrix(s, NAME("%s.up_proj.weight", prefix), up, x->f, x->d, true, 1, 0);
    check_matrix(s, NAME("%s.down_proj.weight", prefix), (const char *)x->w_down + (size_t)e * x->down_stride, x->d,
                 x->f, false, 0, 0);
}

static void check_mlp(const source *s, const cadre_model *m, int l) {
    char name[200];
    const moe_layer *mlp = &m->layer[l].mlp;
    const source exact = {s->t, CADRE_F32};
    assert_int_equal(mlp->has_router, m->config.is_moe[l]);
    if (!m->config.is_moe[l]) {
        check_expert(s, NAME("model.layers.%d.mlp", l), &mlp->experts, 0);
        assert_int_equal(mlp->experts.e, 1);
        return;
    }
    assert_int_equal(mlp->experts.e, m->config.moe.e);
    assert_int_equal(mlp->desc.renormalize, m->config.moe.renormalize);
    check_matrix(&exact, NAME("model.layers.%d.mlp.gate.weight", l), mlp->router.w, m->config.moe.e, m->config.d, false,
                 0, 0);
    for (int e = 0; e < m->config.moe.e; e++)
        check_expert(s, NAME("model.layers.%d.mlp.experts.%d", l, e), &mlp->experts, e);
    assert_int_equal(mlp->has_shared, m->config.moe.shared_f > 0);
    if (!mlp->has_shared) return;
    check_expert(s, NAME("model.layers.%d.mlp.shared_expert", l), &mlp->shared, 0);
    assert_true(mlp->has_shared_gate);
    check_matrix(&exact, NAME("model.layers.%d.mlp.shared_expert_gate.weight", l), mlp->shared_gate.w, 1, m->config.d,
                 false, 0, 0);
}

static void check_ends_of_model(const source *s, const cadre_model *m) {
    const model_config *c = &m->config;
    cadre_tensor t = {0};
    const char *head = c->tied ? "model.embed_tokens.weight" : "lm_head.weight";
    check_vector(s, "model.norm.weight", m->norm, c->d);
    check_matrix(s, head, m->head.w, c->vocab, c->d, false, 0, 0);
    must(tensors_need(s->t, "model.embed_tokens.weight", c->vocab, c->d, &t, fail_out));
    for (size_t i = 0; i < (size_t)c->vocab * (size_t)c->d; i++)
        assert_true(op_load(m->dtype, m->embedding, i) == rounded(m->dtype, op_load(t.dtype, t.data, i)));
}

/* Every packed weight of the model in `path` against the tensors of `from`. */
static void check_model(const char *path, const char *from, const char *weights, const char *expected) {
    tensors *t = NULL;
    char name[200];
    cadre_model *m = open_model(path, weights);
    must(tensors_open(from, &t, fail_out));
    source s = {t, m->dtype};
    assert_string_equal(op_dtype_name(m->expert_dtype), expected);
    check_ends_of_model(&s, m);
    for (int l = 0; l < m->config.layers; l++) {
        check_vector(&s, NAME("model.layers.%d.input_layernorm.weight", l), m->layer[l].norm_attn, m->config.d);
        check_vector(&s, NAME("model.layers.%d.post_attention_layernorm.weight", l), m->layer[l].norm_mlp, m->config.d);
        check_attention(&s, m, l);
        check_mlp(&s, m, l);
    }
    tensors_close(t);
    cadre_model_close(m);
}

static void golden_models_are_packed(void **state) {
    (void)state;
    check_model(GOLDEN "qwen3_moe_base", GOLDEN "qwen3_moe_base", NULL, "f32");
    check_model(GOLDEN "qwen3_moe_sharded", GOLDEN "qwen3_moe_base", NULL, "f32");
    check_model(GOLDEN "qwen3_moe_stacked", GOLDEN "qwen3_moe_base", NULL, "f32");
    check_model(GOLDEN "qwen3_moe_dense_bias", GOLDEN "qwen3_moe_dense_bias", "auto", "f32");
    check_model(GOLDEN "qwen3_moe_sparse2_tied", GOLDEN "qwen3_moe_sparse2_tied", "f32", "f32");
    check_model(GOLDEN "qwen2_moe_base", GOLDEN "qwen2_moe_base", NULL, "f32");
}

static bool hears(const char *text) {
    return strstr(heard, text) != NULL;
}

static void types_are_converted_and_said(void **state) {
    (void)state;
    check_model(GOLDEN "qwen3_moe_bf16", GOLDEN "qwen3_moe_bf16", NULL, "bf16");
    check_model(GOLDEN "qwen3_moe_bf16", GOLDEN "qwen3_moe_bf16", "f32", "f32");
    assert_false(hears("weights"));
    check_model(GOLDEN "qwen3_moe_f16", GOLDEN "qwen3_moe_f16", NULL, "f32");
    assert_true(hears("qwen3_moe_f16: float16 weights become float32"));
    check_model(GOLDEN "qwen3_moe_base", GOLDEN "qwen3_moe_base", "bf16", "bf16");
    assert_true(hears("qwen3_moe_base: float32 weights are rounded to bfloat16 (first: model.embed_tokens.weight)"));
    check_model(GOLDEN "qwen3_moe_f16", GOLDEN "qwen3_moe_f16", "bf16", "bf16");
    assert_true(hears("qwen3_moe_f16: float16 weights are rounded to bfloat16"));
    check_model(GOLDEN "qwen3_moe_dense_bias", GOLDEN "qwen3_moe_dense_bias", "bf16", "bf16");
}

static void copy_golden(const char *from);

static size_t packed_bytes(const cadre_model *m) {
    size_t n = m->embedding_bytes + m->head.bytes;
    for (int i = 0; i < m->config.layers; i++)
        n += m->layer[i].qkv.bytes + m->layer[i].o.bytes + moe_layer_weight_bytes(&m->layer[i].mlp);
    return n;
}

/* Field report P05: what is planned before anything is packed is what is then taken, part by part. */
static void plan_is_kept(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_moe_base", "qwen3_moe_bf16",         "qwen3_moe_dense_bias",
                                         "qwen2_moe_base", "qwen3_moe_sparse2_tied", "qwen3_moe_stacked"};
    static const char *const types[] = {"auto", "bf16", "q8", "q4"};
    const cadre_session_options options = {.slots = 3, .context = 50, .max_rows = 7};
    for (int i = 0; i < 24; i++) {
        char path[200];
        cadre_memory weights, all;
        cadre_model *m = NULL;
        cadre_session *s = NULL;
        cadre_fail why;
        snprintf(path, sizeof path, GOLDEN "%s", models[i / 4]);
        must(cadre_model_prepare(device, path, &(cadre_model_options){types[i % 4]}, &m, fail_out));
        must(cadre_memory_plan(m, NULL, &weights, fail_out));
        must(cadre_memory_plan(m, &options, &all, fail_out));
        check_refusal(cadre_session_new(m, &options, &s, &why), &why, CADRE_RANGE, TEXTS("is not loaded yet"));
        assert_null(m->head.w);
        must(cadre_model_load(m, fail_out));
        must(cadre_model_load(m, fail_out)); /* a second time does nothing */
        must(cadre_session_new(m, &options, &s, fail_out));
        assert_int_equal(weights.total - weights.norms, packed_bytes(m));
        assert_int_equal(weights.head, m->head.bytes);
        assert_int_equal(weights.embedding, m->embedding_bytes);
        assert_int_equal(all.cache + all.scratch, cadre_session_bytes(s));
        assert_int_equal(all.total, weights.total + all.cache + all.scratch);
        assert_true((weights.shared > 0) == (m->config.moe.shared_f > 0) && weights.norms > 0 &&
                    all.available > all.total);
        cadre_session_free(s);
        cadre_model_close(m);
    }
    printf("field P05 ok\n");
}

/* Each part is named in the refusal, which comes before anything is packed; switch fit=0 only warns. */
static void what_does_not_fit(void **state) {
    (void)state;
    cadre_model *m = NULL;
    cadre_fail why;
    cadre_memory all;
    set_switch("memory=1");
    must(cadre_model_prepare(device, GOLDEN "qwen2_moe_base", NULL, &m, fail_out));
    must(cadre_memory_plan(m, &(cadre_session_options){.context = 256, .slots = 64}, &all, fail_out));
    check_refusal(cadre_memory_check(&all, "it", &why), &why, CADRE_NOMEM,
                  TEXTS("it: does not fit: needs ", "embedding ", "head ", "attention ", "experts ", "shared ",
                        "router ", "norms ", "cache ", "scratch ", ", have 1.0 MB"));
    set_switch("fit=0");
    assert_int_equal(cadre_memory_check(&all, "it", &why), CADRE_OK);
    assert_true(hears("it: needs ") && hears("have 1.0 MB: it will be swapped"));
    set_switch("fit=1");
    set_switch("memory=0");
    cadre_model_close(m);
}

/* A file that shrinks after its header was checked is one line, no signal: at each part of the walk. */
static void shrinking_files(void **state) {
    (void)state;
    char path[1024];
    size_t len;
    copy_golden("qwen2_moe_base");
    char *data = folder_read(dir, "model.safetensors", &len);
    folder_path(path, dir, "model.safetensors");
    for (int i = 0; i < 20; i++) {
        cadre_model *m = NULL;
        cadre_fail why;
        size_t left = 8 + 8000 + (len - 8 - 8000) / 20 * (size_t)i; /* the header has 7 kB */
        folder_write(dir, "model.safetensors", data, len);
        must(cadre_model_prepare(device, dir, NULL, &m, fail_out));
        assert_int_equal(truncate(path, (off_t)left), 0);
        check_refusal(cadre_model_load(m, &why), &why, CADRE_IO, TEXTS(path, "it shrank while it was read"));
        check_refusal(cadre_model_load(m, &why), &why, CADRE_RANGE, TEXTS("it has failed before"));
        cadre_model_close(m);
    }
    free(data);
}

static void info_tells_sizes(void **state) {
    (void)state;
    cadre_model_info info;
    cadre_model *m = open_model(GOLDEN "qwen3_moe_base", NULL);
    cadre_model_get_info(m, &info);
    assert_string_equal(info.arch, "qwen3_moe");
    assert_string_equal(info.numerics, "cpu-f32-chain");
    assert_string_equal(info.weights, "f32");
    assert_int_equal(info.vocab, 96);
    assert_int_equal(info.tokens, 96);
    assert_int_equal(info.layers, 2);
    assert_int_equal(info.d, 48);
    assert_int_equal(info.f, 20);
    assert_int_equal(info.e, 8);
    assert_int_equal(info.k, 3);
    assert_int_equal(info.max_context, 256);
    /* In panels of 16 outputs: embedding, head, then per layer qkv, o, router, experts (f 20 takes two panels). */
    size_t layer = 128 * 48 + 48 * 64 + 16 * 48 + 8 * (2 * 32 * 48 + 48 * 20);
    assert_int_equal(info.weight_bytes, 4 * (2 * 96 * 48 + 2 * layer));
    assert_int_equal(info.weight_bytes, packed_bytes(m));
    assert_true(cadre_model_is_end(m, 2));
    assert_false(cadre_model_is_end(m, 1));
    cadre_model_close(m);
    cadre_model_close(NULL);
    m = open_model(GOLDEN "qwen3_moe_bf16", NULL);
    cadre_model_get_info(m, &info);
    assert_string_equal(info.numerics, "cpu-bf16-pair");
    cadre_model_close(m);
}

static void no_tokenizer_means_ids_only(void **state) {
    (void)state;
    int32_t ids[4];
    size_t n;
    cadre_fail why;
    cadre_text *text;
    cadre_model *m = open_model(GOLDEN "qwen3_moe_base", NULL);
    assert_true(hears("no tokenizer.json: token ids only"));
    check_refusal(cadre_encode(m, "a", 1, false, ids, 4, &n, &why), &why, CADRE_UNSUPPORTED, TEXTS("tokenizer.json"));
    check_refusal(cadre_encode_chat(m, "a", 1, true, ids, 4, &n, &why), &why, CADRE_UNSUPPORTED,
                  TEXTS("tokenizer.json"));
    check_refusal(cadre_text_new(m, &text, &why), &why, CADRE_UNSUPPORTED, TEXTS("tokenizer.json"));
    cadre_model_close(m);
}

/* ---- folders of our own ---- */

static void copy_golden(const char *from) {
    char path[300];
    snprintf(path, sizeof path, GOLDEN "%s", from);
    folder_copy(path, "config.json", dir);
    folder_copy(path, "model.safetensors", dir);
}

/* Replaces the first occurrence of a text in a file; the new one may be longer only in config.json. */
static void edit(const char *file, const char *old, const char *text) {
    size_t len, a = strlen(old), b = strlen(text);
    char *data = folder_read(dir, file, &len);
    char *at = memmem(data, len, old, a), *out = malloc(len + b);
    assert_non_null(at);
    assert_non_null(out);
    size_t before = (size_t)(at - data);
    memcpy(out, data, before);
    memcpy(out + before, text, b);
    memcpy(out + before + b, at + a, len - before - a);
    folder_write(dir, file, out, len - a + b);
    free(data);
    free(out);
}

/* Adds an empty tensor to model.safetensors: an entry whose span is nothing, at the end. */
static void add_tensor(const char *name) {
    size_t len, n = 0;
    char entry[300];
    char *data = folder_read(dir, "model.safetensors", &len);
    for (int i = 7; i >= 0; i--) n = n << 8 | (unsigned char)data[i];
    size_t size = len - 8 - n;
    size_t more = (size_t)snprintf(
        entry, sizeof entry, "\"%s\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[%zu,%zu]},", name, size, size);
    char *out = malloc(len + more);
    assert_non_null(out);
    for (int i = 0; i < 8; i++) out[i] = (char)((n + more) >> 8 * i);
    out[8] = '{';
    memcpy(out + 9, entry, more);
    memcpy(out + 9 + more, data + 9, len - 9);
    folder_write(dir, "model.safetensors", out, len + more);
    free(data);
    free(out);
}

static void refuse(cadre_err code, const char *file, const char *text) {
    cadre_model *m = NULL;
    cadre_fail why = {0};
    cadre_err err = cadre_model_open(device, dir, NULL, &m, &why);
    print_message("%s\n", err ? why.text : "ok");
    check_refusal(err, &why, code, TEXTS(dir, file, text));
    assert_null(m);
}

/* ---- text ---- */

static void text_goes_in_and_out(void **state) {
    (void)state;
    static const char text[] = "Once upon a time, \xC3\xA9t\xC3\xA9.";
    int32_t ids[64];
    size_t n = 0, few = 0, len = 7;
    char back[256] = "";
    cadre_text *out = NULL;
    cadre_fail why;
    cadre_model_info info;
    cadre_model *m = open_model("models/demo", NULL);
    cadre_model_get_info(m, &info);
    assert_int_equal(info.vocab, 4096);
    assert_int_equal(info.tokens, 4096);
    assert_true(cadre_model_is_end(m, 4095));
    must(cadre_encode(m, text, strlen(text), true, ids, 64, &n, fail_out));
    assert_true(n > 3 && n < strlen(text));
    check_refusal(cadre_encode(m, text, strlen(text), true, ids, 2, &few, &why), &why, CADRE_RANGE, TEXTS("2"));
    assert_int_equal(few, n);
    must(cadre_encode(m, text, strlen(text), true, ids, 64, &n, fail_out));
    must(cadre_text_new(m, &out, fail_out));
    for (int round = 0; round < 2; round++) {
        back[0] = 0;
        for (size_t i = 0; i < n; i++) strcat(back, cadre_text_push(out, ids[i], i ? &len : NULL));
        strcat(back, cadre_text_end(out, NULL));
        assert_string_equal(back, text);
        assert_string_equal(cadre_text_push(out, 4095, &len), ""); /* the end token gives nothing */
        assert_int_equal(len, 0);
        cadre_text_reset(out);
    }
    must(cadre_encode(m, "<|endoftext|>", 13, true, ids, 64, &n, fail_out));
    assert_true(n == 1 && ids[0] == 4095);
    must(cadre_encode(m, "<|endoftext|>", 13, false, ids, 64, &n, fail_out));
    assert_true(n > 1);
    cadre_text_free(out);
    cadre_text_free(NULL);
    cadre_model_close(m);
}

static void tokenizer_may_be_larger(void **state) {
    (void)state;
    cadre_model_info info;
    copy_golden("qwen3_moe_base");
    folder_copy("models/demo", "tokenizer.json", dir);
    cadre_model *m = open_model(dir, NULL);
    assert_true(hears("tokenizer.json has ids up to 4095, but the model has 96 rows"));
    cadre_model_get_info(m, &info);
    assert_int_equal(info.tokens, 96);
    cadre_model_close(m);
    folder_text(dir, "tokenizer.json", "{}");
    refuse(CADRE_FORMAT, "tokenizer.json", "");
}

/* ---- folders made wrong ---- */

static void experts_are_all_there(void **state) {
    (void)state;
    copy_golden("qwen3_moe_base");
    edit("model.safetensors", "layers.1.mlp.experts.7.up_proj", "layers.1.mlp.experts.9.up_proj");
    refuse(CADRE_FORMAT, "model.safetensors", "no tensor 'model.layers.1.mlp.experts.7.up_proj.weight' among its");
    copy_golden("qwen3_moe_base");
    add_tensor("model.layers.0.mlp.experts.8.gate_proj.weight");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.layers.0.mlp.experts.8.gate_proj.weight' has no place in this");
    copy_golden("qwen3_moe_base");
    add_tensor("model.layers.1.mlp.experts.3.up_proj.bias");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.layers.1.mlp.experts.3.up_proj.bias' has no place");
    copy_golden("qwen3_moe_base");
    add_tensor("model.layers.1.self_attn.q_proj.bias");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.layers.1.self_attn.q_proj.bias' has no place");
    copy_golden("qwen3_moe_stacked");
    add_tensor("model.layers.1.mlp.experts.0.gate_proj.weight");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.layers.1.mlp.experts.0.gate_proj.weight' has no place");
    copy_golden("qwen2_moe_base");
    edit("model.safetensors", "layers.0.mlp.shared_expert_gate", "layers.0.mlp.shared_expert_gatf");
    refuse(CADRE_FORMAT, "model.safetensors", "no tensor 'model.layers.0.mlp.shared_expert_gate.weight'");
}

static void shapes_must_agree(void **state) {
    (void)state;
    copy_golden("qwen3_moe_base");
    edit("config.json", "\"hidden_size\": 48", "\"hidden_size\": 64");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.embed_tokens.weight' has shape [96, 48], expected [96, 64]");
    copy_golden("qwen3_moe_base");
    edit("config.json", "\"num_local_experts\": 8", "\"num_local_experts\": 7");
    refuse(CADRE_FORMAT, "model.safetensors", "'model.layers.0.mlp.gate.weight' has shape [8, 48], expected [7, 48]");
    copy_golden("qwen3_moe_stacked");
    edit("config.json", "\"moe_intermediate_size\": 20", "\"moe_intermediate_size\": 10");
    refuse(CADRE_FORMAT, "model.safetensors",
           "'model.layers.0.mlp.experts.gate_up_proj' has shape [8, 40, 48], expected [8, 20, 48]");
    copy_golden("qwen3_moe_base");
    edit("model.safetensors", "o_proj.weight\":{\"dtype\":\"F32\",\"shape\":[48,64]",
         "o_proj.weight\":{\"dtype\":\"F32\",\"shape\":[64,48]");
    refuse(CADRE_FORMAT, "model.safetensors", "has shape [64, 48], expected [48, 64] (transposed?)");
    copy_golden("qwen3_moe_sparse2_tied");
    edit("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    refuse(CADRE_FORMAT, "model.safetensors", "no tensor 'lm_head.weight'");
    copy_golden("qwen3_moe_bf16");
    edit("model.safetensors", "model.layers.1.mlp.gate.weight\":{\"dtype\":\"BF16\"",
         "model.layers.1.mlp.gate.weight\":{\"dtype\":\"I16\" ");
    refuse(CADRE_UNSUPPORTED, "model.safetensors",
           "'model.layers.1.mlp.gate.weight' is I16, expected F32, BF16 or F16");
}

static void leftovers_are_said(void **state) {
    (void)state;
    copy_golden("qwen3_moe_base");
    add_tensor("model.layers.0.self_attn.rotary_emb.inv_freq");
    cadre_model_close(open_model(dir, NULL));
    assert_false(hears("not used"));
    add_tensor("model.layers.2.enorm.weight");
    add_tensor("model.layers.10.mlp.gate.weight");
    add_tensor("visual.patch.weight");
    cadre_model_close(open_model(dir, NULL));
    assert_true(hears("config.json says 2 layers: 2 tensors of others are not used"));
    assert_true(hears("1 tensors are not used (first: visual.patch.weight)"));
    heard[0] = 0;
    copy_golden("qwen3_moe_base");
    add_tensor("model.layers.2.enorm.weight");
    edit("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2, \"num_nextn_predict_layers\": 1");
    cadre_model_close(open_model(dir, NULL));
    assert_true(hears("its multi-token-prediction module (1 tensors) is not used"));
    assert_false(hears("of others"));
    heard[0] = 0;
    copy_golden("qwen3_moe_sparse2_tied");
    add_tensor("lm_head.weight"); /* tied: the embedding wins, as elsewhere */
    cadre_model_close(open_model(dir, NULL));
    assert_false(hears("not used"));
}

static void arguments_are_checked(void **state) {
    (void)state;
    cadre_model *m = NULL;
    cadre_fail why;
    char path[1024];
    check_refusal(cadre_model_open(device, GOLDEN "qwen3_moe_base", &(cadre_model_options){"q5"}, &m, &why), &why,
                  CADRE_RANGE, TEXTS("weights is 'q5', expected auto, bf16, f32, q8 or q4"));
    check_refusal(cadre_model_open(device, NULL, NULL, &m, &why), &why, CADRE_RANGE, TEXTS("NULL"));
    check_refusal(cadre_model_open(NULL, dir, NULL, &m, &why), &why, CADRE_RANGE, TEXTS("NULL"));
    folder_path(path, dir, "absent");
    check_refusal(cadre_model_open(device, path, NULL, &m, &why), &why, CADRE_IO, TEXTS(path, "expected a folder"));
    refuse(CADRE_IO, "config.json", "");
    folder_copy(GOLDEN "qwen3_moe_base", "config.json", dir);
    refuse(CADRE_IO, "", "expected model.safetensors or model.safetensors.index.json");
    folder_copy(GOLDEN "qwen3_moe_sharded", "model.safetensors.index.json", dir);
    folder_copy(GOLDEN "qwen3_moe_sharded", "model-00001-of-00003.safetensors", dir);
    folder_copy(GOLDEN "qwen3_moe_sharded", "model-00003-of-00003.safetensors", dir);
    refuse(CADRE_IO, "model-00002-of-00003.safetensors", "missing");
    assert_null(m);
}

/* 4 TB of holes: refused by its plan, before a page of it is read. */
static void too_large_is_refused_first(void **state) {
    (void)state;
    char path[1024], header[4096];
    const long long v = 1 << 20, d = 1 << 20;
    size_t n = 0;
    long long at = 0;
    static const struct {
        const char *name;
        long long rows, cols;
    } list[] = {{"model.embed_tokens", 1 << 20, 1 << 20},
                {"lm_head", 1 << 20, 1 << 20},
                {"model.norm", 0, 1 << 20},
                {"model.layers.0.input_layernorm", 0, 1 << 20},
                {"model.layers.0.self_attn.q_proj", 2, 1 << 20},
                {"model.layers.0.self_attn.k_proj", 2, 1 << 20},
                {"model.layers.0.self_attn.v_proj", 2, 1 << 20},
                {"model.layers.0.self_attn.q_norm", 0, 2},
                {"model.layers.0.self_attn.k_norm", 0, 2},
                {"model.layers.0.self_attn.o_proj", 1 << 20, 2},
                {"model.layers.0.post_attention_layernorm", 0, 1 << 20},
                {"model.layers.0.mlp.gate", 1, 1 << 20},
                {"model.layers.0.mlp.experts.0.gate_proj", 1, 1 << 20},
                {"model.layers.0.mlp.experts.0.up_proj", 1, 1 << 20},
                {"model.layers.0.mlp.experts.0.down_proj", 1 << 20, 1}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        long long bytes = 2 * (list[i].rows ? list[i].rows : 1) * list[i].cols;
        n += (size_t)snprintf(header + n, sizeof header - n, "%c\"%s.weight\":{\"dtype\":\"BF16\",\"shape\":[",
                              i ? ',' : '{', list[i].name);
        if (list[i].rows) n += (size_t)snprintf(header + n, sizeof header - n, "%lld,", list[i].rows);
        n += (size_t)snprintf(header + n, sizeof header - n, "%lld],\"data_offsets\":[%lld,%lld]}", list[i].cols, at,
                              at + bytes);
        at += bytes;
    }
    snprintf(header + n, sizeof header - n, "}");
    folder_tensors(dir, "model.safetensors", header, 0);
    folder_path(path, dir, "model.safetensors");
    if (truncate(path, 8 + (long)strlen(header) + at)) skip(); /* a file system without such files */
    snprintf(header, sizeof header,
             "{\"model_type\":\"qwen3_moe\",\"vocab_size\":%lld,\"hidden_size\":%lld,\"num_hidden_layers\":1,"
             "\"num_attention_heads\":1,\"head_dim\":2,\"max_position_embeddings\":8,\"num_experts\":1,"
             "\"num_experts_per_tok\":1,\"moe_intermediate_size\":1}",
             v, d);
    folder_text(dir, "config.json", header);
    refuse(CADRE_NOMEM, "", "does not fit: needs 4398");
}

/* ---- running out of memory ---- */

static long mapped_pages(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pages), 1);
    fclose(f);
    return pages;
}

/* Fails the n-th allocation of an open for every n; returns how many there are. */
static int fail_each(const char *path, const char *weights) {
    cadre_err err = CADRE_NOMEM;
    int n = 0;
    for (; err && n < 5000; n++) {
        cadre_model *m = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        err = cadre_model_open(device, path, &(cadre_model_options){weights}, &m, &why);
        mem_fail_after(-1);
        if (err && err != CADRE_NOMEM) fail_msg("allocation %d: code %d, '%s'", n, err, why.text);
        if (err) assert_true(why.code == CADRE_NOMEM && *why.text && !m);
        cadre_model_close(m);
    }
    assert_false(err);
    return n;
}

static void every_failed_allocation_is_survived(void **state) {
    (void)state;
    copy_golden("qwen3_moe_base");
    folder_copy("tests/golden/tokenizers/bytes_missing", "tokenizer.json", dir);
    const char *const paths[] = {dir, GOLDEN "qwen3_moe_dense_bias", GOLDEN "qwen2_moe_base",
                                 GOLDEN "qwen3_moe_sharded"};
    for (int i = 0; i < 4; i++) {
        int n = fail_each(paths[i], i == 1 ? "bf16" : NULL);
        long before = mapped_pages();
        fail_each(paths[i], NULL);
        long grown = mapped_pages() - before;
        print_message("%s: %d allocations, %ld pages more\n", paths[i], n, grown);
        assert_true(n > 50);
#if !ASAN                         /* its own bookkeeping grows */
        assert_true(grown <= 64); /* a leaked block of weights per round would be hundreds */
#endif
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_models_are_packed),
        cmocka_unit_test_setup_teardown(types_are_converted_and_said, make, drop),
        cmocka_unit_test_setup_teardown(info_tells_sizes, make, drop),
        cmocka_unit_test_setup_teardown(plan_is_kept, make, drop),
        cmocka_unit_test_setup_teardown(what_does_not_fit, make, drop),
        cmocka_unit_test_setup_teardown(shrinking_files, make, drop),
        cmocka_unit_test_setup_teardown(no_tokenizer_means_ids_only, make, drop),
        cmocka_unit_test_setup_teardown(text_goes_in_and_out, make, drop),
        cmocka_unit_test_setup_teardown(tokenizer_may_be_larger, make, drop),
        cmocka_unit_test_setup_teardown(experts_are_all_there, make, drop),
        cmocka_unit_test_setup_teardown(shapes_must_agree, make, drop),
        cmocka_unit_test_setup_teardown(leftovers_are_said, make, drop),
        cmocka_unit_test_setup_teardown(arguments_are_checked, make, drop),
        cmocka_unit_test_setup_teardown(too_large_is_refused_first, make, drop),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, make, drop),
    };
    device = open_device(2);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cadre_device_close(device);
    return failed;
}
