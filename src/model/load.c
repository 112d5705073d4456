/* load.c: the walk over a checkpoint that turns named tensors into packed weights. Which names a layer has is said by
 * the arch files; what is public is model.c's.
 *
 *   walk 1 (planning): names and shapes checked, bytes counted -> leftovers refused -> does it fit?
 *   walk 2:            read ahead -> read piece by piece -> packed, so that memory stays near the packed size */
#include "model/model.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256 };
static const char *const EMBEDDING = "model.embed_tokens.weight";

/* ---- pieces ---- */

static cadre_err no_memory(const loader *l, const char *what, cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "%.250s: no memory for %.150s", l->dir, what);
}

static cadre_err need(loader *l, const char *name, int rows, int cols, cadre_tensor *out, cadre_fail *why) {
    cadre_err err = tensors_need(l->tensors, name, rows, cols, out, why);
    if (!err && !l->planning) tensors_soon(l->tensors, out, rows, cols);
    return err;
}

static void say_rounding(loader *l, const char *name, cadre_dtype found) {
    if (l->said || l->model->dtype != CADRE_BF16 || found == CADRE_BF16) return;
    l->said = true;
    log_once("%.250s: %s weights are rounded to bfloat16 (first: %.150s)", l->dir,
             found == CADRE_F32 ? "float32" : "float16", name);
}

/* A matrix that is packed in the model's type: prefix.what.weight [rows][cols]. */
static cadre_err need_matrix(loader *l, const char *prefix, const char *what, int rows, int cols, cadre_tensor *out,
                             cadre_fail *why) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, what);
    cadre_err err = need(l, name, rows, cols, out, why);
    if (!err) say_rounding(l, name, out->dtype);
    return err;
}

/* Counts `times` packed matrices as a part. */
static cadre_err count(loader *l, size_t *part, cadre_dtype type, int out, int in, bool gated, int times,
                       cadre_fail *why) {
    size_t bytes = 0;
    bool fits = op_packed_bytes(type, out, in, gated, &bytes) && mem_mul(bytes, (size_t)times, &bytes) &&
                mem_add(*part, bytes, part);
    if (fits) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "%.250s: %d matrices of %d x %d are too large", l->dir, times, out, in);
}

/* ---- vectors and dense matrices ---- */

cadre_err load_vector(loader *l, const char *prefix, const char *what, int n, float **out, cadre_fail *why) {
    char name[NAME_SIZE];
    cadre_tensor t;
    snprintf(name, sizeof name, "%s.%s.weight", prefix, what);
    cadre_err err = need(l, name, 0, n, &t, why);
    if (err) return err;
    if (l->planning) {
        l->model->memory.norms += (size_t)n * sizeof(float);
        return CADRE_OK;
    }
    return moe_vector(t, n, &l->source, out, why);
}

cadre_err load_dense(loader *l, const char *role, const char *prefix, const char *what, bool bias, int out, int in,
                     moe_dense *d, cadre_fail *why) {
    char name[NAME_SIZE];
    cadre_tensor w, b = {0};
    snprintf(name, sizeof name, "%s.%s.bias", prefix, what);
    cadre_err err = need_matrix(l, prefix, what, out, in, &w, why);
    if (!err && bias) err = need(l, name, 0, out, &b, why);
    if (err) return err;
    if (l->planning) return count(l, &l->model->memory.attention, l->model->dtype, out, in, false, 1, why);
    return moe_dense_init(d, l->model->device, role, l->model->dtype, out, in, w, b, &l->source, why);
}

/* One of three below each other: its n values to `to`, as they are or in fp32. */
static cadre_err stack_one(loader *l, const cadre_tensor *part, size_t n, bool same, char *to, cadre_fail *why) {
    if (same) return l->source.read(l->source.ctx, part->data, n * op_dtype_size(part->dtype), to, why);
    float *v = NULL;
    cadre_err err = moe_vector(*part, (int)n, &l->source, &v, why);
    if (!err) memcpy(to, v, n * sizeof *v);
    mem_free(v);
    return err;
}

/* Three matrices of `cols` columns below each other in one block: in their own type if they share it, else in fp32.
 * *bytes is what mem_free_huge must be told, on failure too. */
static cadre_err stack(loader *l, const cadre_tensor part[3], const int rows[3], int cols, cadre_tensor *out,
                       size_t *bytes, cadre_fail *why) {
    bool same = part[0].dtype == part[1].dtype && part[1].dtype == part[2].dtype;
    cadre_dtype type = same ? part[0].dtype : CADRE_F32;
    size_t size = op_dtype_size(type), at = 0;
    *bytes = ((size_t)rows[0] + (size_t)rows[1] + (size_t)rows[2]) * (size_t)cols * size;
    char *block = mem_new_huge(*bytes);
    if (!block) return no_memory(l, "the stacked projections", why);
    *out = (cadre_tensor){block, type};
    for (int i = 0; i < 3; i++) {
        size_t n = (size_t)rows[i] * (size_t)cols;
        cadre_err err = stack_one(l, &part[i], n, same, block + at, why);
        if (err) return err;
        at += n * size;
    }
    return CADRE_OK;
}

static cadre_err pack_qkv(loader *l, const cadre_tensor w[3], const cadre_tensor b[3], const int rows[3], bool bias,
                          moe_dense *out, cadre_fail *why) {
    int d = l->model->config.d;
    cadre_tensor all = {0}, all_bias = {0};
    size_t bytes = 0, bias_bytes = 0;
    cadre_err err = stack(l, w, rows, d, &all, &bytes, why);
    if (!err && bias) err = stack(l, b, rows, 1, &all_bias, &bias_bytes, why);
    if (!err)
        err = moe_dense_init(out, l->model->device, "qkv", l->model->dtype, rows[0] + rows[1] + rows[2], d, all,
                             all_bias, NULL, why);
    mem_free_huge((void *)(uintptr_t)all.data, bytes);
    mem_free_huge((void *)(uintptr_t)all_bias.data, bias_bytes);
    return err;
}

cadre_err load_qkv(loader *l, const char *prefix, bool bias, moe_dense *out, cadre_fail *why) {
    static const char *const what[3] = {"q_proj", "k_proj", "v_proj"};
    const model_config *c = &l->model->config;
    const int kv = c->kv_heads * c->head_dim, rows[3] = {c->heads * c->head_dim, kv, kv};
    cadre_tensor w[3] = {0}, b[3] = {0};
    cadre_err err = CADRE_OK;
    for (int i = 0; i < 3 && !err; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "%s.%s.bias", prefix, what[i]);
        err = need_matrix(l, prefix, what[i], rows[i], c->d, &w[i], why);
        if (!err && bias) err = need(l, name, 0, rows[i], &b[i], why);
    }
    if (err) return err;
    if (l->planning)
        return count(l, &l->model->memory.attention, l->model->dtype, rows[0] + rows[1] + rows[2], c->d, false, 1, why);
    return pack_qkv(l, w, b, rows, bias, out, why);
}

/* ---- MLPs ---- */

/* One expert, shared expert or plain MLP: prefix.<gate|up|down>.weight. */
static cadre_err need_mlp(loader *l, const char *prefix, const moe_names *names, int f, bool gated, cadre_tensor *gate,
                          cadre_tensor *up, cadre_tensor *down, cadre_fail *why) {
    int d = l->model->config.d;
    cadre_err err = gated ? need_matrix(l, prefix, names->gate, f, d, gate, why) : CADRE_OK;
    if (!err) err = need_matrix(l, prefix, names->up, f, d, up, why);
    if (!err) err = need_matrix(l, prefix, names->down, d, f, down, why);
    return err;
}

static cadre_err count_mlp(loader *l, size_t *part, int f, bool gated, int times, cadre_fail *why) {
    int d = l->model->config.d;
    cadre_err err = count(l, part, l->model->expert_dtype, f, d, gated, times, why);
    return err ? err : count(l, part, l->model->expert_dtype, d, f, false, times, why);
}

static cadre_err plan_mlp(loader *l, int f, moe_layer *out, cadre_fail *why) {
    cadre_model *m = l->model;
    cadre_moe_desc desc = moe_layer_mlp(m->expert_dtype, m->config.d, f, 1, CADRE_SWIGLU);
    cadre_err err = count_mlp(l, &m->memory.experts, f, true, 1, why);
    return err ? err : moe_layer_plan(out, m->device, &desc, why);
}

cadre_err load_mlp(loader *l, const char *prefix, moe_layer *out, cadre_fail *why) {
    static const moe_names names = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
    const cadre_model *m = l->model;
    int d = m->config.d, f = m->config.f_dense;
    cadre_tensor gate, up, down;
    cadre_err err = need_mlp(l, prefix, &names, f, true, &gate, &up, &down, why);
    if (err) return err;
    if (l->planning) return plan_mlp(l, f, out, why);
    return moe_layer_init_mlp(out, m->device, m->expert_dtype, d, f, 1, CADRE_SWIGLU, gate, up, down, &l->source, why);
}

/* prefix.experts.N.<gate|up|down>.weight; list: e gates, e ups, e downs. */
static cadre_err need_experts(loader *l, const char *prefix, const moe_names *names, cadre_tensor *list,
                              cadre_fail *why) {
    const cadre_moe_desc *m = &l->model->config.moe;
    cadre_err err = CADRE_OK;
    for (int i = 0; i < m->e && !err; i++) {
        char expert[NAME_SIZE];
        snprintf(expert, sizeof expert, "%s.experts.%d", prefix, i);
        err = need_mlp(l, expert, names, m->f, m->act != CADRE_RELU2, &list[i], &list[m->e + i], &list[2 * m->e + i],
                       why);
    }
    return err;
}

/* prefix.experts.gate_up_proj [e][2f][d], gate rows first, and .down_proj [e][d][f]. */
static cadre_err need_stacked(loader *l, const char *prefix, cadre_tensor *list, cadre_fail *why) {
    const cadre_moe_desc *m = &l->model->config.moe;
    const int64_t up_shape[3] = {m->e, 2 * (int64_t)m->f, m->d}, down_shape[3] = {m->e, m->d, m->f};
    char name[NAME_SIZE];
    cadre_tensor up, down;
    snprintf(name, sizeof name, "%s.experts.gate_up_proj", prefix);
    cadre_err err = tensors_need_shape(l->tensors, name, up_shape, 3, &up, why);
    if (!err) say_rounding(l, name, up.dtype);
    snprintf(name, sizeof name, "%s.experts.down_proj", prefix);
    if (!err) err = tensors_need_shape(l->tensors, name, down_shape, 3, &down, why);
    if (err) return err;
    say_rounding(l, name, down.dtype);
    if (!l->planning) {
        tensors_soon(l->tensors, &up, 2 * (int64_t)m->e * m->f, m->d);
        tensors_soon(l->tensors, &down, (int64_t)m->e * m->d, m->f);
    }
    size_t step_up = (size_t)m->f * (size_t)m->d * op_dtype_size(up.dtype);
    size_t step_down = (size_t)m->f * (size_t)m->d * op_dtype_size(down.dtype);
    for (int i = 0; i < m->e; i++) {
        const char *pair = (const char *)up.data + 2 * (size_t)i * step_up;
        list[i] = (cadre_tensor){pair, up.dtype};
        list[m->e + i] = (cadre_tensor){pair + step_up, up.dtype};
        list[2 * m->e + i] = (cadre_tensor){(const char *)down.data + (size_t)i * step_down, down.dtype};
    }
    return CADRE_OK;
}

static bool is_stacked(const loader *l, const char *prefix) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.experts.gate_up_proj", prefix);
    return tensors_find(l->tensors, name) != NULL;
}

/* The router (kept in fp32, so never rounded), its bias, and the shared expert. */
static cadre_err need_rest(loader *l, const char *prefix, const moe_names *names, cadre_moe_weights *w,
                           cadre_fail *why) {
    const cadre_moe_desc *m = &l->model->config.moe;
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, names->router);
    cadre_err err = need(l, name, m->e, m->d, &w->router, why);
    if (!err && names->bias) {
        snprintf(name, sizeof name, "%s.%s", prefix, names->bias);
        err = need(l, name, 0, m->e, &w->bias, why);
    }
    if (err || !m->shared_f) return err;
    snprintf(name, sizeof name, "%s.%s", prefix, names->shared);
    err = need_mlp(l, name, names, m->shared_f, m->act != CADRE_RELU2, &w->shared_gate, &w->shared_up, &w->shared_down,
                   why);
    if (err || !names->shared_gate) return err;
    snprintf(name, sizeof name, "%s.%s.weight", prefix, names->shared_gate);
    return need(l, name, 1, m->d, &w->shared_expert_gate, why);
}

static cadre_err plan_moe(loader *l, const cadre_moe_desc *desc, const cadre_moe_weights *w, moe_layer *out,
                          cadre_fail *why) {
    cadre_memory *m = &l->model->memory;
    bool gated = desc->act != CADRE_RELU2;
    cadre_err err = count_mlp(l, &m->experts, desc->f, gated, desc->e, why);
    if (!err) err = count(l, &m->router, CADRE_F32, desc->e, desc->d, false, 1, why);
    if (!err && desc->shared_f) err = count_mlp(l, &m->shared, desc->shared_f, gated, 1, why);
    if (!err && w->shared_expert_gate.data) err = count(l, &m->shared, CADRE_F32, 1, desc->d, false, 1, why);
    return err ? err : moe_layer_plan(out, l->model->device, desc, why);
}

cadre_err load_moe(loader *l, const char *prefix, const moe_names *names, moe_layer *out, cadre_fail *why) {
    cadre_moe_desc desc = l->model->config.moe;
    desc.dtype = l->model->expert_dtype;
    cadre_tensor *list = mem_new_array(3 * (size_t)desc.e, sizeof *list);
    if (!list) return no_memory(l, prefix, why);
    cadre_moe_weights w = {
        .gate = desc.act == CADRE_RELU2 ? NULL : list, .up = list + desc.e, .down = list + 2 * desc.e};
    cadre_err err = need_rest(l, prefix, names, &w, why);
    if (!err)
        err = is_stacked(l, prefix) ? need_stacked(l, prefix, list, why) : need_experts(l, prefix, names, list, why);
    if (!err && l->planning) err = plan_moe(l, &desc, &w, out, why);
    if (!err && !l->planning) err = moe_layer_init(out, l->model->device, &desc, &w, &l->source, why);
    mem_free(list);
    return err;
}

/* ---- a whole layer, as most families name it ---- */

static cadre_err load_attention(loader *l, const char *prefix, model_layer *layer, cadre_fail *why) {
    const model_config *c = &l->model->config;
    cadre_err err = load_qkv(l, prefix, c->qkv_bias, &layer->qkv, why);
    if (!err && c->qk_norm) err = load_vector(l, prefix, "q_norm", c->head_dim, &layer->q_norm, why);
    if (!err && c->qk_norm) err = load_vector(l, prefix, "k_norm", c->head_dim, &layer->k_norm, why);
    if (!err)
        err = load_dense(l, "o", prefix, "o_proj", c->attention_bias, c->d, c->heads * c->head_dim, &layer->o, why);
    return err;
}

cadre_err load_block(loader *l, int i, const moe_names *names, cadre_fail *why) {
    const model_config *c = &l->model->config;
    model_layer *layer = &l->model->layer[i];
    char base[64], attn[80], mlp[80];
    snprintf(base, sizeof base, "model.layers.%d", i);
    snprintf(attn, sizeof attn, "%s.self_attn", base);
    snprintf(mlp, sizeof mlp, "%s.mlp", base);
    cadre_err err = load_vector(l, base, "input_layernorm", c->d, &layer->norm_attn, why);
    if (!err) err = load_attention(l, attn, layer, why);
    if (!err) err = load_vector(l, base, "post_attention_layernorm", c->d, &layer->norm_mlp, why);
    if (err) return err;
    return c->is_moe[i] ? load_moe(l, mlp, names, &layer->mlp, why) : load_mlp(l, mlp, &layer->mlp, why);
}

/* ---- what is outside the layers ---- */

/* Rows as they are: each member reads its own; or by way of fp32, a row at a time. */
typedef struct copy_job {
    loader *l;
    cadre_tensor from;
    cadre_dtype to;
    char *dst;
    int rows;
    size_t cols;
    _Atomic bool failed;
    cadre_fail why; /* of the first that failed */
} copy_job;

static cadre_err copy_row(copy_job *j, int row, cadre_fail *why) {
    size_t at = (size_t)row * j->cols, size = op_dtype_size(j->from.dtype);
    char *dst = j->dst + at * op_dtype_size(j->to);
    moe_source *from = &j->l->source;
    if (j->from.dtype == j->to)
        return from->read(from->ctx, (const char *)j->from.data + at * size, j->cols * size, dst, why);
    float *v = NULL;
    cadre_tensor one = {(const char *)j->from.data + at * size, j->from.dtype};
    cadre_err err = moe_vector(one, (int)j->cols, from, &v, why);
    for (size_t i = 0; i < j->cols && !err; i++)
        if (j->to == CADRE_F32)
            ((float *)(void *)dst)[i] = v[i];
        else
            ((uint16_t *)(void *)dst)[i] = op_bf16(v[i]);
    mem_free(v);
    return err;
}

static void copy_member(void *ctx, team *t) {
    copy_job *j = ctx;
    cadre_fail why = {0};
    int lo, hi;
    team_split(t, j->rows, 1, &lo, &hi);
    for (int row = lo; row < hi && !atomic_load_explicit(&j->failed, memory_order_relaxed); row++)
        if (copy_row(j, row, &why) && !atomic_exchange(&j->failed, true)) j->why = why;
    team_barrier(t);
}

static cadre_err load_embedding(loader *l, cadre_fail *why) {
    cadre_model *m = l->model;
    int vocab = m->config.vocab, d = m->config.d;
    size_t bytes = (size_t)vocab * (size_t)d * op_dtype_size(m->dtype); /* at most 2^46: config's limits */
    cadre_tensor t;
    cadre_err err = need(l, EMBEDDING, vocab, d, &t, why);
    if (err) return err;
    say_rounding(l, EMBEDDING, t.dtype);
    m->memory.embedding = bytes;
    if (l->planning) return CADRE_OK;
    m->embedding_bytes = bytes;
    m->embedding = mem_new_huge(bytes);
    if (!m->embedding) return no_memory(l, EMBEDDING, why);
    copy_job job = {.l = l, .from = t, .to = m->dtype, .dst = m->embedding, .rows = vocab, .cols = (size_t)d};
    pool_run(m->device->threads, copy_member, &job);
    return job.failed ? cadre_fail_set(why, job.why.code, "%s", job.why.text) : CADRE_OK;
}

/* Tied: the embedding is the head, even if the checkpoint holds another one. */
static cadre_err load_head(loader *l, cadre_fail *why) {
    cadre_model *m = l->model;
    int vocab = m->config.vocab, d = m->config.d;
    const char *name = m->config.tied ? EMBEDDING : "lm_head.weight";
    cadre_tensor w;
    cadre_err err = need(l, name, vocab, d, &w, why);
    if (err) return err;
    say_rounding(l, name, w.dtype);
    if (l->planning) return count(l, &m->memory.head, m->dtype, vocab, d, false, 1, why);
    return moe_dense_init(&m->head, m->device, "head", m->dtype, vocab, d, w, (cadre_tensor){0}, &l->source, why);
}

static cadre_err walk(loader *l, cadre_fail *why) {
    cadre_model *m = l->model;
    const model_arch *arch = model_arch_find(m->config.arch);
    cadre_err err = load_embedding(l, why);
    if (!err) err = load_head(l, why);
    if (!err) err = load_vector(l, "model", "norm", m->config.d, &m->norm, why);
    for (int i = 0; i < m->config.layers && !err; i++) err = arch->load_layer(l, i, why);
    return err;
}

/* ---- what the first walk found ---- */

/* N of "model.layers.N.", or -1. */
static long layer_of(const char *name) {
    static const char start[] = "model.layers.";
    char *end;
    if (strncmp(name, start, sizeof start - 1) || name[sizeof start - 1] < '0' || name[sizeof start - 1] > '9')
        return -1;
    long n = strtol(name + sizeof start - 1, &end, 10);
    return *end == '.' ? n : -1;
}

/* Old checkpoints store tables that are computed anyway. */
static bool harmless(const loader *l, const char *name) {
    const char *last = strstr(name, ".rotary_emb.inv_freq");
    return (last && !strcmp(last, ".rotary_emb.inv_freq")) ||
           (l->model->config.tied && !strcmp(name, "lm_head.weight"));
}

typedef struct leftovers {
    int later, beyond, others; /* tensors of prediction layers, of further layers, of no layer */
    const char *first;         /* of the others */
} leftovers;

static void say_leftovers(const loader *l, const leftovers *x) {
    const model_config *c = &l->model->config;
    if (x->later)
        log_once("%.300s: its multi-token-prediction module (%d tensors) is not used in this version", l->dir,
                 x->later);
    if (x->beyond)
        log_once("%.300s: config.json says %d layers: %d tensors of others are not used", l->dir, c->layers, x->beyond);
    if (x->others) log_once("%.250s: %d tensors are not used (first: %.150s)", l->dir, x->others, x->first);
}

/* A tensor of a layer that no one asked for means that this layer is not what we think it is: an expert too many, a
 * bias, a scale. Those of further layers and others are left alone, but said. */
static cadre_err check_leftovers(const loader *l, cadre_fail *why) {
    const model_config *c = &l->model->config;
    leftovers x = {0};
    for (int i = 0; i < tensors_count(l->tensors); i++) {
        const tensor_entry *e = tensors_at(l->tensors, i);
        if (tensors_used(l->tensors, i) || harmless(l, e->name)) continue;
        long n = layer_of(e->name);
        if (n >= 0 && n < c->layers)
            return cadre_fail_set(why, CADRE_FORMAT,
                                  "%.200s: tensor '%.120s' has no place in this %s (%d experts, %d layers)", e->file,
                                  e->name, c->arch, c->moe.e, c->layers);
        if (n < 0 && !x.first) x.first = e->name;
        x.others += n < 0;
        x.later += n >= 0 && n < c->layers + c->mtp_layers;
        x.beyond += n >= c->layers + c->mtp_layers;
    }
    say_leftovers(l, &x);
    return CADRE_OK;
}

cadre_err load_check(cadre_model *m, cadre_fail *why) {
    loader l = {.model = m, .tensors = m->tensors, .dir = m->dir, .planning = true};
    m->layer = mem_new_array((size_t)m->config.layers, sizeof *m->layer);
    if (!m->layer) return no_memory(&l, "its layers", why);
    cadre_err err = walk(&l, why);
    const cadre_memory *n = &m->memory;
    m->weight_bytes = n->embedding + n->head + n->attention + n->experts + n->shared + n->router;
    return err ? err : check_leftovers(&l, why);
}

static cadre_err read_source(void *ctx, const void *from, size_t n, void *dst, cadre_fail *why) {
    return tensors_read(ctx, from, n, dst, why);
}

cadre_err load_weights(cadre_model *m, cadre_fail *why) {
    loader l = {.model = m,
                .tensors = m->tensors,
                .dir = m->dir,
                .source = {.read = read_source, .ctx = m->tensors},
                .said = true};
    cadre_memory memory;
    cadre_err err = cadre_memory_plan(m, NULL, &memory, why);
    if (!err) err = cadre_memory_check(&memory, m->dir, why);
    if (!err) err = walk(&l, why);
    moe_source_done(&l.source);
    return err;
}
