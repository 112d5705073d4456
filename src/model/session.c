/* session.c: sequences that grow: their cache, the scratch of a step, and the checks before it. */
#include "model/session.h"

#include "model/rope.h"

#include <stdio.h>
#include <string.h>

/* ---- sizes ---- */

/* Places (or, with a counting arena, sizes) everything a step touches. False when a size overflows. */
static bool take_step(cadre_session *s, arena *a) {
    const cadre_model *m = s->model;
    const model_config *c = &m->config;
    step *p = &s->step;
    size_t n = (size_t)s->max_rows, d = (size_t)c->d, size = op_dtype_size(m->dtype), logits = (size_t)s->max_logits;
    p->ldz = op_stride(m->dtype, c->d);
    p->ldm = op_stride(m->dtype, c->heads * c->head_dim);
    p->ldq = ((size_t)c->heads + 2 * (size_t)c->kv_heads) * (size_t)c->head_dim;
    p->id = arena_take(a, n, sizeof *p->id);
    p->slot = arena_take(a, n, sizeof *p->slot);
    p->position = arena_take(a, n, sizeof *p->position);
    p->chunk_first = arena_take(a, n, sizeof *p->chunk_first);
    p->logit_row = arena_take(a, logits, sizeof *p->logit_row);
    s->kept_bytes = a->used;
    p->attn = arena_take(a, n, sizeof *p->attn);
    p->x = arena_take(a, n, d * sizeof *p->x);
    p->y = arena_take(a, n, d * sizeof *p->y);
    p->z = arena_take(a, n > logits ? n : logits, p->ldz * size);
    p->qkv = arena_take(a, n, p->ldq * sizeof *p->qkv);
    p->mixed = arena_take(a, n, p->ldm * size);
    p->last = arena_take(a, logits, d * sizeof *p->last);
    p->logits = arena_take(a, logits, (size_t)c->vocab * sizeof *p->logits);
    moe_scratch_take(&p->moe, a, s->mlp, c->layers, s->max_rows, pool_threads(m->device->threads));
    return !a->overflow;
}

static bool size_cache(cadre_session *s) {
    const model_config *c = &s->model->config;
    size_t planes = 0;
    return mem_mul((size_t)c->kv_heads * (size_t)c->head_dim * op_dtype_size(s->model->dtype), (size_t)s->context,
                   &s->plane_bytes) &&
           mem_mul(2 * (size_t)c->layers, (size_t)s->slots, &planes) &&
           mem_mul(planes, s->plane_bytes, &s->cache_bytes) &&
           mem_mul((size_t)s->context, (size_t)c->head_dim / 2 * sizeof(float), &s->table_bytes);
}

/* ---- making ---- */
static int least(int a, int b) {
    return a < b ? a : b;
}

static cadre_err check_option(const char *name, int v, int high, cadre_fail *why) {
    if (v >= 1 && v <= high) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "session %s is %d, expected 1..%d", name, v, high);
}

static cadre_err read_options(cadre_session *s, const cadre_session_options *o, cadre_fail *why) {
    static const cadre_session_options none;
    if (!o) o = &none;
    s->slots = o->slots ? o->slots : 1;
    s->context = o->context ? o->context : s->model->config.max_context;
    s->max_rows = o->max_rows ? o->max_rows : 512;
    s->max_logits = o->max_logits ? o->max_logits : s->slots > 64 ? s->slots : 64;
    const model_config *c = &s->model->config;
    cadre_err err = check_option("slots", s->slots, 1 << 16, why);
    if (!err) err = check_option("context", s->context, s->model->config.max_context, why);
    if (!err) err = check_option("max_rows", s->max_rows, least(1 << 20, INT32_MAX / c->heads), why);
    if (!err) err = check_option("max_logits", s->max_logits, 1 << 20, why);
    return err;
}

static void list_masked(cadre_session *s) {
    const cadre_model *m = s->model;
    for (int id = 0; m->tokenizer && id < m->config.vocab; id++)
        if (!tokenizer_knows(m->tokenizer, id)) s->masked[s->masked_count++] = id;
}

/* Per id of the vocabulary: masked, candidates, weights. */
static size_t list_bytes(const cadre_session *s) {
    return (size_t)s->model->config.vocab * (sizeof *s->masked + sizeof *s->candidates + sizeof *s->weights);
}

/* The sizes of the blocks. False when memory is out or a size overflows. */
static bool size_blocks(cadre_session *s) {
    const model_config *c = &s->model->config;
    arena count = {0};
    s->mlp = mem_new_array((size_t)c->layers, sizeof(moe_layer *));
    if (!s->mlp || !size_cache(s)) return false;
    for (int l = 0; l < c->layers; l++) s->mlp[l] = &s->model->layer[l].mlp;
    if (!take_step(s, &count)) return false;
    s->block_bytes = count.used;
    return true;
}

static bool take_lists(cadre_session *s) {
    const model_config *c = &s->model->config;
    s->length = mem_new_array((size_t)s->slots, sizeof *s->length);
    s->seen = mem_new_array((size_t)s->slots, sizeof *s->seen);
    s->masked = mem_new_array((size_t)c->vocab, sizeof *s->masked);
    s->candidates = mem_new_array((size_t)c->vocab, sizeof *s->candidates);
    s->weights = mem_new_array((size_t)c->vocab, sizeof *s->weights);
    return s->length && s->seen && s->masked && s->candidates && s->weights;
}

/* Failure leaves what was taken for cadre_session_free. */
static bool take_blocks(cadre_session *s) {
    s->cache = mem_new_huge(s->cache_bytes);
    s->cos = mem_new_huge(s->table_bytes);
    s->sin = mem_new_huge(s->table_bytes);
    s->block = mem_new_huge(s->block_bytes);
    if (!s->cache || !s->cos || !s->sin || !s->block) return false;
    arena place = {.base = s->block, .size = s->block_bytes};
    return take_step(s, &place);
}

static cadre_err no_memory(const cadre_session *s, cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "no memory for a session of %d slots, %d positions, %d rows", s->slots,
                          s->context, s->max_rows);
}

cadre_err session_size(const cadre_model *model, const cadre_session_options *options, size_t *cache, size_t *scratch,
                       cadre_fail *why) {
    cadre_session s = {.model = (cadre_model *)(uintptr_t)model}; /* only read */
    cadre_err err = read_options(&s, options, why);
    if (!err && !size_blocks(&s)) err = no_memory(&s, why);
    if (!err) *cache = s.cache_bytes, *scratch = cadre_session_bytes(&s) - s.cache_bytes;
    mem_free(s.mlp);
    return err;
}

static cadre_err take_memory(cadre_session *s, cadre_fail *why) {
    char what[96];
    if (!size_blocks(s)) return no_memory(s, why);
    size_t all = cadre_session_bytes(s);
    cadre_memory need = {
        .cache = s->cache_bytes, .scratch = all - s->cache_bytes, .total = all, .available = dev_memory_available()};
    snprintf(what, sizeof what, "a session of %d slots, %d positions", s->slots, s->context);
    cadre_err err = cadre_memory_check(&need, what, why);
    if (err) return err;
    return take_lists(s) && take_blocks(s) ? CADRE_OK : no_memory(s, why);
}

cadre_err cadre_session_new(cadre_model *model, const cadre_session_options *options, cadre_session **out,
                            cadre_fail *why) {
    if (!model || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_session_new: an argument is NULL");
    if (!model->loaded) return cadre_fail_set(why, CADRE_RANGE, "cadre_session_new: the model is not loaded yet");
    cadre_session *s = mem_new(sizeof *s);
    if (!s) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a session");
    s->model = model;
    cadre_err err = read_options(s, options, why);
    if (!err) err = take_memory(s, why);
    if (err) {
        cadre_session_free(s);
        return err;
    }
    list_masked(s);
    rope_table(model->device, &model->config, s->context, s->cos, s->sin);
    *out = s;
    return CADRE_OK;
}

void cadre_session_free(cadre_session *s) {
    if (!s) return;
    if (s->cache) mem_free_huge(s->cache, s->cache_bytes);
    if (s->cos) mem_free_huge(s->cos, s->table_bytes);
    if (s->sin) mem_free_huge(s->sin, s->table_bytes);
    if (s->block) mem_free_huge(s->block, s->block_bytes);
    mem_free(s->mlp);
    mem_free(s->length);
    mem_free(s->seen);
    mem_free(s->masked);
    mem_free(s->candidates);
    mem_free(s->weights);
    mem_free(s);
}

/* ---- the step ---- */
static cadre_err check_chunk(const cadre_session *s, const cadre_chunk *c, cadre_fail *why) {
    if (c->slot < 0 || c->slot >= s->slots)
        return cadre_fail_set(why, CADRE_RANGE, "slot is %d, expected 0..%d", c->slot, s->slots - 1);
    if (s->seen[c->slot]) return cadre_fail_set(why, CADRE_RANGE, "slot %d is in the step twice", c->slot);
    if (c->n < 1 || c->n > s->max_rows)
        return cadre_fail_set(why, CADRE_RANGE, "slot %d: %d tokens, expected 1..%d", c->slot, c->n, s->max_rows);
    if (c->n > s->context - s->length[c->slot])
        return cadre_fail_set(why, CADRE_RANGE, "slot %d: context full (%d of %d positions used, %d more asked)",
                              c->slot, s->length[c->slot], s->context, c->n);
    if (!c->ids) return cadre_fail_set(why, CADRE_RANGE, "slot %d: its ids are NULL", c->slot);
    for (int i = 0; i < c->n; i++)
        if (c->ids[i] < 0 || c->ids[i] >= s->model->config.vocab)
            return cadre_fail_set(why, CADRE_RANGE, "slot %d: token id %d, expected 0..%d", c->slot, (int)c->ids[i],
                                  s->model->config.vocab - 1);
    return CADRE_OK;
}

static cadre_err check_step(cadre_session *s, const cadre_chunk *chunks, int count, cadre_fail *why) {
    int64_t rows = 0, logits = 0;
    cadre_err err = CADRE_OK;
    memset(s->seen, 0, (size_t)s->slots * sizeof *s->seen);
    for (int i = 0; i < count && !err; i++) {
        if ((err = check_chunk(s, &chunks[i], why))) break;
        s->seen[chunks[i].slot] = true;
        rows += chunks[i].n;
        logits += chunks[i].all_logits ? chunks[i].n : 1;
    }
    if (!err && rows > s->max_rows)
        err = cadre_fail_set(why, CADRE_RANGE, "a step of %lld tokens, expected at most %d (max_rows)", (long long)rows,
                             s->max_rows);
    if (!err && logits > s->max_logits)
        err = cadre_fail_set(why, CADRE_RANGE, "logits of %lld rows, expected at most %d (max_logits)",
                             (long long)logits, s->max_logits);
    return err;
}

static void place_chunk(cadre_session *s, const cadre_chunk *c) {
    step *p = &s->step;
    int start = s->length[c->slot];
    for (int i = 0; i < c->n; i++, p->n++) {
        p->id[p->n] = c->ids[i];
        p->slot[p->n] = c->slot;
        p->position[p->n] = start + i;
        p->chunk_first[p->n] = i == 0 && c->n > 1;
        if (c->all_logits || i == c->n - 1) p->logit_row[p->logit_rows++] = p->n;
    }
    s->length[c->slot] += c->n;
}

cadre_err cadre_session_step(cadre_session *s, const cadre_chunk *chunks, int count, cadre_fail *why) {
    if (!s || count < 0 || (count > 0 && !chunks))
        return cadre_fail_set(why, CADRE_RANGE, "cadre_session_step: %d chunks, or an argument is NULL", count);
    cadre_err err = check_step(s, chunks, count, why);
    if (err) return err;
    s->step.n = s->step.logit_rows = 0;
    s->step.moe.touched = 0;
    if (count == 0) return CADRE_OK;
    if (switch_get(SWITCH_POISON)) {
        arena a = {.base = s->block + s->kept_bytes,
                   .used = s->block_bytes - s->kept_bytes,
                   .size = s->block_bytes - s->kept_bytes};
        arena_poison(&a);
    }
    for (int i = 0; i < count; i++) place_chunk(s, &chunks[i]);
    pool_run(s->model->device->threads, forward_member, s);
    return CADRE_OK;
}

cadre_err cadre_session_rewind(cadre_session *s, int slot, int length, cadre_fail *why) {
    if (slot < 0 || slot >= s->slots)
        return cadre_fail_set(why, CADRE_RANGE, "slot is %d, expected 0..%d", slot, s->slots - 1);
    if (length < 0 || length > s->length[slot])
        return cadre_fail_set(why, CADRE_RANGE, "slot %d: rewind to %d, expected 0..%d", slot, length, s->length[slot]);
    s->length[slot] = length;
    return CADRE_OK;
}

/* ---- reading ---- */
/* Rows of a chunk share their keys and values, the last has them all. */
size_t session_positions_read(const step *p) {
    size_t sum = 0;
    for (int i = 0; i < p->n; i++)
        if (i == p->n - 1 || p->slot[i + 1] != p->slot[i]) sum += (size_t)p->position[i] + 1;
    return sum;
}

size_t session_position_bytes(const cadre_model *m) {
    return 2 * (size_t)m->config.kv_heads * (size_t)m->config.head_dim * op_dtype_size(m->dtype);
}

size_t cadre_session_step_bytes(const cadre_session *s) {
    const cadre_model *m = s->model;
    const model_config *c = &m->config;
    size_t d = (size_t)c->d, size = op_dtype_size(m->dtype);
    if (s->step.n == 0) return 0;
    size_t bytes = s->step.moe.touched + (size_t)s->step.n * d * size + (s->step.logit_rows ? m->head.bytes : 0);
    for (int l = 0; l < c->layers; l++)
        bytes += m->layer[l].qkv.bytes + m->layer[l].o.bytes + moe_layer_fixed_bytes(&m->layer[l].mlp);
    return bytes + (size_t)c->layers * session_positions_read(&s->step) * session_position_bytes(m);
}

void cadre_session_profile(cadre_session *s, cadre_profile *profile) {
    s->profile = profile ? &profile->rows : NULL;
}

const float *cadre_session_logits(const cadre_session *s, int i) {
    if (i < 0 || i >= s->step.logit_rows) return NULL;
    return s->step.logits + (size_t)i * (size_t)s->model->config.vocab;
}

int cadre_session_length(const cadre_session *s, int slot) {
    return slot >= 0 && slot < s->slots ? s->length[slot] : 0;
}
int cadre_session_context(const cadre_session *s) {
    return s->context;
}
size_t cadre_session_bytes(const cadre_session *s) {
    return s->cache_bytes + s->block_bytes + 2 * s->table_bytes + list_bytes(s);
}
