/* attn_ref.c: one row of queries over a sequence's cache, in splits of 128 keys merged in ascending order.
 *
 * One head at a time. Output dimensions are taken DIMS at a time to bound the accumulator; the scores do not depend on
 * them and are computed again for the next DIMS, which only heads wider than DIMS ever need. */
#include <math.h>

#include "ref.h"

enum { DIMS = 256 };

/* A running softmax: the largest score, the sum of exponentials, and the weighted sum of values. */
typedef struct soft {
    float m, l, o[DIMS];
} soft;

typedef struct head {
    cadre_dtype t;
    const float *q;
    const char *k, *v; /* this kv head at position 0 */
    size_t step;       /* bytes from one position to the next */
    int dim, position;
    float scale;
} head;

static void one_split(const head *a, int first, int end, int lo, int dims, soft *s) {
    float p[OP_ATTN_SPLIT];
    s->m = -INFINITY;
    for (int j = first; j < end; j++) {
        p[j - first] = ref_sum16(a->q, a->t, a->k + (size_t)j * a->step, a->dim) * a->scale;
        if (p[j - first] > s->m) s->m = p[j - first];
    }
    s->l = 0.0f;
    for (int i = 0; i < dims; i++) s->o[i] = 0.0f;
    for (int j = first; j < end; j++) {
        const void *value = a->v + (size_t)j * a->step;
        float w = op_exp(p[j - first] - s->m);
        s->l = s->l + w;
        for (int i = 0; i < dims; i++) s->o[i] = fmaf(w, ref_get(a->t, value, lo + i), s->o[i]);
    }
}

static void merge(soft *s, const soft *b, int dims) {
    float m = b->m > s->m ? b->m : s->m;
    float old = op_exp(s->m - m), new = op_exp(b->m - m);
    s->m = m;
    s->l = fmaf(s->l, old, b->l * new);
    for (int i = 0; i < dims; i++) s->o[i] = fmaf(s->o[i], old, b->o[i] * new);
}

static void attend(const head *a, int lo, int dims, soft *s) {
    int keys = a->position + 1;
    for (int first = 0; first < keys; first += OP_ATTN_SPLIT) {
        int end = keys - first > OP_ATTN_SPLIT ? first + OP_ATTN_SPLIT : keys;
        soft part;
        one_split(a, first, end, lo, dims, first == 0 ? s : &part);
        if (first > 0) merge(s, &part, dims);
    }
    float r = 1.0f / s->l;
    for (int i = 0; i < dims; i++) s->o[i] = s->o[i] * r;
}

static void attend_head(const head *a, cadre_dtype otype, void *out, int at) {
    for (int lo = 0; lo < a->dim; lo += DIMS) {
        soft s;
        int dims = a->dim - lo < DIMS ? a->dim - lo : DIMS;
        attend(a, lo, dims, &s);
        for (int i = 0; i < dims; i++) ref_put(otype, out, at + lo + i, s.o[i]);
    }
}

static void attn(cadre_dtype t, const op_attn *a, int lo, int hi) {
    int group = a->heads / a->kv_heads;
    size_t size = op_dtype_size(t), width = (size_t)a->head_dim * size;
    for (int unit = lo; unit < hi; unit++) {
        int row = unit / a->kv_heads, kv = unit % a->kv_heads;
        void *out = ref_row_mut(a->otype, a->out, a->ldo, row);
        for (int h = kv * group; h < (kv + 1) * group; h++) {
            head one = {
                .t = t,
                .q = a->q + (size_t)row * a->ldq + (size_t)h * (size_t)a->head_dim,
                .k = (const char *)a->rows[row].k + (size_t)kv * width,
                .v = (const char *)a->rows[row].v + (size_t)kv * width,
                .step = (size_t)a->kv_heads * width,
                .dim = a->head_dim,
                .position = a->rows[row].position,
                .scale = a->scale,
            };
            attend_head(&one, a->otype, out, h * a->head_dim);
        }
        if (kv == a->kv_heads - 1) { /* the row's last unit owns its padding */
            for (size_t i = (size_t)a->heads * (size_t)a->head_dim; i < a->ldo; i++)
                ref_put(a->otype, out, (int)i, 0.0f);
        }
    }
}

static void attn_f32(const op_attn *a, const attn_knobs *knobs, int lo, int hi) {
    (void)knobs;
    attn(CADRE_F32, a, lo, hi);
}

static void attn_bf16(const op_attn *a, const attn_knobs *knobs, int lo, int hi) {
    (void)knobs;
    attn(CADRE_BF16, a, lo, hi);
}

const op_kernel attn_f32_ref = {
    .name = "attn_f32_ref",
    .family = OP_ATTN,
    .dtype = CADRE_F32,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.attn = attn_f32,
};
const op_kernel attn_bf16_ref = {
    .name = "attn_bf16_ref",
    .family = OP_ATTN,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.attn = attn_bf16,
};
