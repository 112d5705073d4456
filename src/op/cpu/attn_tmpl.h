/* attn_tmpl.h: causal attention of single rows over a cache in splits of 128 keys, and the kernels made of it.
 *
 *   heads of one kv head that go together        per split
 *     q [heads][dim] --- scores [heads][128] --- p = exp(s - m), l --- o = p . v, merged into the running o, l, m
 *
 * Every pass over keys or values serves all the heads that go together. Heads wider than ATTN_DIMS take their output
 * ATTN_DIMS at a time and score again. A file that includes this gets attn_f32, attn_bf16 and attn_ok, for the
 * instruction set it is compiled for; it adds the descriptors. Knobs: heads go together, keys are scored side by side;
 * grain is the caller's.
 */
#include "op/cpu/vec.h"

#include <math.h>

enum { ATTN_HEADS = 8, ATTN_DIMS = 256 };

/* Some heads of one row and one kv head. */
typedef struct attn_part {
    const float *q;    /* [heads][dim] */
    const char *k, *v; /* key and value 0 of the kv head */
    size_t step;       /* bytes from one key to the next */
    int heads, dim, keys;
    float scale;
} attn_part;

/* The running softmax; p holds the scores of a split, then their exponentials. */
typedef struct attn_state {
    float m[ATTN_HEADS], l[ATTN_HEADS];
    float old[ATTN_HEADS], new[ATTN_HEADS]; /* factors of the merge */
    _Alignas(64) float p[ATTN_HEADS][OP_ATTN_SPLIT];
    _Alignas(64) float o[ATTN_HEADS][ATTN_DIMS];
} attn_state;

/* ---- scores: heads and keys are constants ---- */

INLINE void attn_dots(cadre_dtype type, int heads, int keys, const attn_part *a, const char *k, int i, int lanes,
                      vf acc[ATTN_HEADS * ATTN_HEADS]) {
    vf q[ATTN_HEADS];
    bool full = lanes == OP_LANES;
    UNROLL for (int h = 0; h < heads; h++) {
        const float *at = a->q + (size_t)h * (size_t)a->dim + i;
        q[h] = full ? v_load(at) : v_load_part(at, lanes);
    }
    UNROLL for (int j = 0; j < keys; j++) {
        const char *at = k + (size_t)j * a->step + (size_t)i * op_dtype_size(type);
        vf v = full ? v_load_as(type, at) : v_load_part_as(type, at, lanes);
        UNROLL for (int h = 0; h < heads; h++) acc[h * keys + j] = v_fma(q[h], v, acc[h * keys + j]);
    }
}

INLINE void attn_score(cadre_dtype type, int heads, int keys, const attn_part *a, int key, float *p) {
    vf acc[ATTN_HEADS * ATTN_HEADS];
    float sums[ATTN_HEADS * ATTN_HEADS];
    const char *k = a->k + (size_t)key * a->step;
    int i = 0, n = heads * keys;
    UNROLL for (int s = 0; s < n; s++) acc[s] = v_zero();
    for (; i + OP_LANES <= a->dim; i += OP_LANES) attn_dots(type, heads, keys, a, k, i, OP_LANES, acc);
    if (i < a->dim) attn_dots(type, heads, keys, a, k, i, a->dim - i, acc);
    UNROLL for (int s = 0; s + 4 <= n; s += 4)
        _mm_storeu_ps(sums + s, v_sum16x4(acc[s], acc[s + 1], acc[s + 2], acc[s + 3]));
    UNROLL for (int s = n / 4 * 4; s < n; s++) sums[s] = v_sum16(acc[s]);
    UNROLL for (int s = 0; s < n; s++) p[s / keys * OP_ATTN_SPLIT + s % keys] = sums[s] * a->scale;
}

/* Keys [first, end) of one split. */
INLINE void attn_score_keys(cadre_dtype type, int heads, int most, const attn_part *a, int first, int end, float *p) {
    int reach = VEC_TILE / heads;
    for (int key = first, keys; key < end; key += keys, p += keys) {
        for (keys = most < reach ? most : reach; keys > end - key;) keys /= 2;
        if (reach >= 8 && keys == 8) attn_score(type, heads, 8, a, key, p);
        if (reach >= 4 && keys == 4) attn_score(type, heads, 4, a, key, p);
        if (reach >= 2 && keys == 2) attn_score(type, heads, 2, a, key, p);
        if (keys == 1) attn_score(type, heads, 1, a, key, p);
    }
}

/* ---- softmax of one split, and the factors that merge it ---- */

INLINE void attn_softmax(int head, int keys, bool merge, attn_state *s) {
    float *p = s->p[head], m, l = 0;
    vf top = v_set(-INFINITY);
    for (int j = keys; j % OP_LANES != 0; j++) p[j] = -INFINITY;
    for (int j = 0; j < keys; j += OP_LANES) top = v_max(v_load(p + j), top);
    m = v_max16(top);
    for (int j = 0; j < keys; j += OP_LANES) v_store(p + j, v_exp(v_sub(v_load(p + j), v_set(m))));
    for (int j = 0; j < keys; j++) l = l + p[j];
    if (!merge) {
        s->m[head] = m;
        s->l[head] = l;
        return;
    }
    float both = m > s->m[head] ? m : s->m[head];
    s->old[head] = op_exp(s->m[head] - both);
    s->new[head] = op_exp(m - both);
    s->m[head] = both;
    s->l[head] = fmaf(s->l[head], s->old[head], l * s->new[head]);
}

/* ---- values: heads and vectors (of 16 output dimensions) are constants ---- */

INLINE void attn_mix(cadre_dtype type, int heads, int vectors, const attn_part *a, int first, int keys, int dim, int at,
                     int lanes, bool merge, attn_state *s) {
    vf acc[ATTN_HEADS][ATTN_HEADS];
    const char *v = a->v + (size_t)first * a->step + (size_t)dim * op_dtype_size(type);
    UNROLL for (int h = 0; h < heads; h++) {
        UNROLL for (int c = 0; c < vectors; c++) acc[h][c] = v_zero();
    }
    for (int j = 0; j < keys; j++, v += a->step) {
        UNROLL for (int c = 0; c < vectors; c++) {
            const char *from = v + (size_t)c * OP_LANES * op_dtype_size(type);
            vf value = lanes == OP_LANES ? v_load_as(type, from) : v_load_part_as(type, from, lanes);
            UNROLL for (int h = 0; h < heads; h++) acc[h][c] = v_fma(v_set(s->p[h][j]), value, acc[h][c]);
        }
    }
    UNROLL for (int h = 0; h < heads; h++) {
        UNROLL for (int c = 0; c < vectors; c++) {
            float *o = s->o[h] + at + c * OP_LANES;
            vf sum = acc[h][c];
            if (merge) sum = v_fma(v_load(o), v_set(s->old[h]), v_mul(sum, v_set(s->new[h])));
            v_store(o, sum);
        }
    }
}

/* Output dimensions [lo, lo + dims) of one split. */
INLINE void attn_values(cadre_dtype type, int heads, const attn_part *a, int first, int keys, int lo, int dims,
                        attn_state *s) {
    const int most = VEC_TILE / heads < 8 ? VEC_TILE / heads : 8;
    int i = 0;
    for (; i + most * OP_LANES <= dims; i += most * OP_LANES)
        attn_mix(type, heads, most, a, first, keys, lo + i, i, OP_LANES, first > 0, s);
    for (; i + OP_LANES <= dims; i += OP_LANES)
        attn_mix(type, heads, 1, a, first, keys, lo + i, i, OP_LANES, first > 0, s);
    if (i < dims) attn_mix(type, heads, 1, a, first, keys, lo + i, i, dims - i, first > 0, s);
}

/* ---- heads that go together ---- */

INLINE void attn_heads(cadre_dtype type, int heads, int most, const attn_part *a, int lo, int dims, attn_state *s) {
    for (int first = 0; first < a->keys; first += OP_ATTN_SPLIT) {
        int keys = a->keys - first < OP_ATTN_SPLIT ? a->keys - first : OP_ATTN_SPLIT;
        attn_score_keys(type, heads, most, a, first, first + keys, s->p[0]);
        UNROLL for (int h = 0; h < heads; h++) attn_softmax(h, keys, first > 0, s);
        attn_values(type, heads, a, first, keys, lo, dims, s);
    }
}

#define APART static __attribute__((noinline, unused))
APART void attn_heads_f32(int most, const attn_part *a, int lo, int dims, attn_state *s) {
    if (a->heads == 8 && VEC_TILE >= 8) attn_heads(CADRE_F32, 8, most, a, lo, dims, s);
    if (a->heads == 4) attn_heads(CADRE_F32, 4, most, a, lo, dims, s);
    if (a->heads == 2) attn_heads(CADRE_F32, 2, most, a, lo, dims, s);
    if (a->heads == 1) attn_heads(CADRE_F32, 1, most, a, lo, dims, s);
}
APART void attn_heads_bf16(int most, const attn_part *a, int lo, int dims, attn_state *s) {
    if (a->heads == 8 && VEC_TILE >= 8) attn_heads(CADRE_BF16, 8, most, a, lo, dims, s);
    if (a->heads == 4) attn_heads(CADRE_BF16, 4, most, a, lo, dims, s);
    if (a->heads == 2) attn_heads(CADRE_BF16, 2, most, a, lo, dims, s);
    if (a->heads == 1) attn_heads(CADRE_BF16, 1, most, a, lo, dims, s);
}

/* o / l of `dims` output dimensions, rounded once. */
static inline void attn_store(cadre_dtype otype, char *out, const float *o, float l, int dims) {
    vf r = v_set(1.0f / l);
    for (int i = 0; i < dims; i += OP_LANES) {
        char *to = out + (size_t)i * op_dtype_size(otype);
        vf v = v_mul(v_load(o + i), r);
        if (dims - i >= OP_LANES)
            v_store_as(otype, to, v);
        else
            v_store_part_as(otype, to, v, dims - i);
    }
}

INLINE void attn_unit(cadre_dtype type, const op_attn *a, const attn_knobs *knobs, int row, int kv) {
    int group = a->heads / a->kv_heads, most = knobs->heads;
    size_t dim = (size_t)a->head_dim, size = op_dtype_size(type), osize = op_dtype_size(a->otype);
    const op_attn_row *r = &a->rows[row];
    attn_state s;
    for (int h = 0, heads; h < group; h += heads) {
        for (heads = most; heads > group - h;) heads /= 2;
        size_t head = (size_t)(kv * group + h);
        attn_part part = {.q = a->q + (size_t)row * a->ldq + head * dim,
                          .k = (const char *)r->k + (size_t)kv * dim * size,
                          .v = (const char *)r->v + (size_t)kv * dim * size,
                          .step = (size_t)a->kv_heads * dim * size,
                          .heads = heads,
                          .dim = a->head_dim,
                          .keys = r->position + 1,
                          .scale = a->scale};
        char *out = (char *)a->out + ((size_t)row * a->ldo + head * dim) * osize;
        for (int lo = 0; lo < a->head_dim; lo += ATTN_DIMS) {
            int dims = a->head_dim - lo < ATTN_DIMS ? a->head_dim - lo : ATTN_DIMS;
            (type == CADRE_F32 ? attn_heads_f32 : attn_heads_bf16)(knobs->keys, &part, lo, dims, &s);
            for (int i = 0; i < heads; i++)
                attn_store(a->otype, out + ((size_t)i * dim + (size_t)lo) * osize, s.o[i], s.l[i], dims);
        }
    }
}

INLINE void attn_run(cadre_dtype type, const op_attn *a, const attn_knobs *knobs, int lo, int hi) {
    for (int unit = lo; unit < hi; unit++) {
        int row = unit / a->kv_heads, kv = unit % a->kv_heads;
        attn_unit(type, a, knobs, row, kv);
        if (kv < a->kv_heads - 1) continue;
        size_t used = (size_t)a->heads * (size_t)a->head_dim, size = op_dtype_size(a->otype);
        memset((char *)a->out + ((size_t)row * a->ldo + used) * size, 0, (a->ldo - used) * size);
    }
}

static inline void attn_f32(const op_attn *a, const attn_knobs *knobs, int lo, int hi) {
    attn_run(CADRE_F32, a, knobs, lo, hi);
}
static inline void attn_bf16(const op_attn *a, const attn_knobs *knobs, int lo, int hi) {
    attn_run(CADRE_BF16, a, knobs, lo, hi);
}
static inline bool attn_ok(const op_knobs *knobs) {
    return knobs->attn.heads * knobs->attn.keys <= VEC_TILE;
}
