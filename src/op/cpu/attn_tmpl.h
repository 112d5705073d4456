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

enum { ATTN_HEADS = 8, ATTN_DIMS = 256, ATTN_AHEAD = 16, ATTN_NEAR = 512 * 1024 };

/* Some heads of one row and one kv head. */
typedef struct attn_part {
    const float *q;     /* [heads][dim] */
    const char *k, *v;  /* key and value 0 of the kv head */
    size_t step, fetch; /* bytes from one key to the next; bytes of one to ask for ahead */
    int heads, dim, keys;
    float scale;
} attn_part;

/* The running softmax. p: scores of a split, then their exponentials, [key][heads], so that a vector holds the same
 * heads again and again and nothing is summed across its lanes. */
typedef struct attn_state {
    _Alignas(64) float p[OP_ATTN_SPLIT * ATTN_HEADS];
    _Alignas(64) float o[ATTN_HEADS][ATTN_DIMS];
    float m[ATTN_HEADS], l[ATTN_HEADS];
    float fade[2 * ATTN_HEADS]; /* factors of a merge: [0, 8) of what was there, [8, 16) of the split */
} attn_state;

/* Rows of a cache lie apart, too far for the CPU to guess the next: values are asked for while their keys are scored,
 * the next split's keys while values are summed, and the first split's some keys ahead. */
INLINE void attn_prefetch(const attn_part *a, const char *row) {
    for (size_t i = 0; i < a->fetch; i += 64) _mm_prefetch(row + i, _MM_HINT_T0);
}

/* ---- scores: heads and keys are constants ---- */

INLINE void attn_dots(cadre_dtype type, int heads, int keys, const attn_part *a, const char *k, int i, int lanes,
                      vf acc[2 * ATTN_HEADS]) {
    vf q[ATTN_HEADS];
    bool full = lanes == OP_LANES;
    UNROLL for (int h = 0; h < heads; h++) {
        const float *at = a->q + (size_t)h * (size_t)a->dim + i;
        q[h] = full ? v_load(at) : v_load_part(at, lanes);
    }
    UNROLL for (int j = 0; j < keys; j++) {
        const char *at = k + (size_t)j * a->step + (size_t)i * op_dtype_size(type);
        vf v = full ? v_load_as(type, at) : v_load_part_as(type, at, lanes);
        UNROLL for (int h = 0; h < heads; h++) acc[j * heads + h] = v_fma(q[h], v, acc[j * heads + h]);
    }
}

INLINE void attn_score(cadre_dtype type, int heads, int keys, const attn_part *a, int key, float *p) {
    vf acc[2 * ATTN_HEADS];
    const char *k = a->k + (size_t)key * a->step;
    int i = 0, n = heads * keys;
    UNROLL for (int s = 0; s < n; s++) acc[s] = v_zero();
    for (; i + OP_LANES <= a->dim; i += OP_LANES) attn_dots(type, heads, keys, a, k, i, OP_LANES, acc);
    if (i < a->dim) attn_dots(type, heads, keys, a, k, i, a->dim - i, acc);
    if (n == 16) {
        v_store(p, v_mul(v_sum16x16(acc), v_set(a->scale)));
        return;
    }
    UNROLL for (int s = 0; s + 4 <= n; s += 4) {
        __m128 sums = v_sum16x4(acc[s], acc[s + 1], acc[s + 2], acc[s + 3]);
        _mm_storeu_ps(p + s, _mm_mul_ps(sums, _mm_set1_ps(a->scale)));
    }
    UNROLL for (int s = n / 4 * 4; s < n; s++) p[s] = v_sum16(acc[s]) * a->scale;
}

/* Keys [first, end) of one split. */
INLINE void attn_scores(cadre_dtype type, int heads, int most, const attn_part *a, int first, int end, float *p) {
    int reach = VEC_TILE / heads;
    for (int key = first, keys; key < end; key += keys, p += keys * heads) {
        for (keys = most < reach ? most : reach; keys > end - key;) keys /= 2;
        for (int j = key; j < key + keys; j++) {
            attn_prefetch(a, a->v + (size_t)j * a->step);
            if (first == 0 && j + ATTN_AHEAD < end) attn_prefetch(a, a->k + (size_t)(j + ATTN_AHEAD) * a->step);
        }
        if (reach >= 8 && keys == 8) attn_score(type, heads, 8, a, key, p);
        if (reach >= 4 && keys == 4) attn_score(type, heads, 4, a, key, p);
        if (reach >= 2 && keys == 2) attn_score(type, heads, 2, a, key, p);
        if (keys == 1) attn_score(type, heads, 1, a, key, p);
    }
}

/* ---- softmax of one split ---- */

/* Scores to exponentials in place; m [heads] is their largest score. */
INLINE void attn_softmax(int heads, int keys, float *p, float *m) {
    float top[OP_LANES];
    vf most = v_set(-INFINITY);
    int n = keys * heads;
    for (int i = n; i % OP_LANES != 0; i++) p[i] = -INFINITY;
    for (int i = 0; i < n; i += OP_LANES) most = v_max(v_load(p + i), most);
    v_store(top, most);
    for (int i = heads; i < OP_LANES; i++)
        if (top[i] > top[i % heads]) top[i % heads] = top[i];
    for (int i = heads; i < OP_LANES; i++) top[i] = top[i % heads];
    memcpy(m, top, (size_t)heads * sizeof *m);
    most = v_load(top);
    for (int i = 0; i < n; i += OP_LANES) v_store(p + i, v_exp(v_sub(v_load(p + i), most)));
}

/* l [heads]: one chain of additions per head, side by side. */
INLINE void attn_sums(int heads, int keys, const float *p, float *l) {
    __m128 sum[2] = {_mm_setzero_ps(), _mm_setzero_ps()};
    float one[2] = {0};
    for (int j = 0; j < keys; j++, p += heads) {
        UNROLL for (int c = 0; c < heads / 4; c++) sum[c] = _mm_add_ps(sum[c], _mm_loadu_ps(p + 4 * c));
        UNROLL for (int h = 0; h < heads % 4; h++) one[h] = one[h] + p[h];
    }
    UNROLL for (int c = 0; c < heads / 4; c++) _mm_storeu_ps(l + 4 * c, sum[c]);
    UNROLL for (int h = 0; h < heads % 4; h++) l[h] = one[h];
}

/* Takes the split's m and l into the state, and leaves the factors for o. */
INLINE void attn_merge(int heads, const float *m, const float *l, attn_state *s) {
    float both[ATTN_HEADS], below[2 * ATTN_HEADS] = {0};
    for (int h = 0; h < heads; h++) {
        both[h] = m[h] > s->m[h] ? m[h] : s->m[h];
        below[h] = s->m[h] - both[h];
        below[ATTN_HEADS + h] = m[h] - both[h];
        s->m[h] = both[h];
    }
    v_store(s->fade, v_exp(v_load(below)));
    for (int h = 0; h < heads; h++) s->l[h] = fmaf(s->l[h], s->fade[h], l[h] * s->fade[ATTN_HEADS + h]);
}

/* ---- values: heads and vectors (of 16 output dimensions) are constants ---- */

/* Output dimensions from `dim` on, into o from `at` on. */
INLINE void attn_mix(cadre_dtype type, int heads, int vectors, const attn_part *a, int first, int keys, int dim, int at,
                     int lanes, attn_state *s) {
    vf acc[ATTN_HEADS][ATTN_HEADS];
    const char *v = a->v + (size_t)first * a->step + (size_t)dim * op_dtype_size(type);
    const float *p = s->p;
    UNROLL for (int h = 0; h < heads; h++) {
        UNROLL for (int c = 0; c < vectors; c++) acc[h][c] = v_zero();
    }
    for (int j = 0; j < keys; j++, v += a->step, p += heads) {
        int later = first + OP_ATTN_SPLIT + j;
        if (at == 0 && later < a->keys) attn_prefetch(a, a->k + (size_t)later * a->step);
        UNROLL for (int c = 0; c < vectors; c++) {
            const char *from = v + (size_t)c * OP_LANES * op_dtype_size(type);
            vf value = lanes == OP_LANES ? v_load_as(type, from) : v_load_part_as(type, from, lanes);
            UNROLL for (int h = 0; h < heads; h++) acc[h][c] = v_fma(v_set(p[h]), value, acc[h][c]);
        }
    }
    UNROLL for (int h = 0; h < heads; h++) {
        UNROLL for (int c = 0; c < vectors; c++) {
            float *o = s->o[h] + at + c * OP_LANES;
            vf sum = acc[h][c];
            if (first > 0) sum = v_fma(v_load(o), v_set(s->fade[h]), v_mul(sum, v_set(s->fade[ATTN_HEADS + h])));
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
        attn_mix(type, heads, most, a, first, keys, lo + i, i, OP_LANES, s);
    for (; most > 1 && i + OP_LANES <= dims; i += OP_LANES)
        attn_mix(type, heads, 1, a, first, keys, lo + i, i, OP_LANES, s);
    if (i < dims) attn_mix(type, heads, 1, a, first, keys, lo + i, i, dims - i, s);
}

/* ---- heads that go together ---- */

INLINE void attn_heads(cadre_dtype type, int heads, int most, const attn_part *a, int lo, int dims, attn_state *s) {
    for (int first = 0; first < a->keys; first += OP_ATTN_SPLIT) {
        float m[ATTN_HEADS], l[ATTN_HEADS];
        int keys = a->keys - first < OP_ATTN_SPLIT ? a->keys - first : OP_ATTN_SPLIT;
        attn_scores(type, heads, most, a, first, first + keys, s->p);
        attn_softmax(heads, keys, s->p, first == 0 ? s->m : m);
        attn_sums(heads, keys, s->p, first == 0 ? s->l : l);
        if (first > 0) attn_merge(heads, m, l, s);
        attn_values(type, heads, a, first, keys, lo, dims, s);
    }
}

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
        bool near = h > 0 && 2 * dim * size * (size_t)part.keys < ATTN_NEAR; /* earlier heads have just read it all */
        part.fetch = near ? 0 : dim * size;
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
