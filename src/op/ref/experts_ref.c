/* experts_ref.c: the two products of a MoE layer over rows sorted by expert, and the combine in slot order. */
#include <math.h>

#include "ref.h"

float ref_activate(const op_experts *a, float gate, float up) {
    if (a->act == CADRE_RELU2) {
        float v = up < 0.0f ? 0.0f : up;
        return v * v;
    }
    if (a->act == CADRE_SWIGLU_CLAMP) {
        if (gate > a->limit) gate = a->limit;
        if (up < -a->limit) up = -a->limit;
        if (up > a->limit) up = a->limit;
    }
    return op_silu(gate) * up;
}

static void up_product(cadre_dtype t, const op_experts *a, int expert, int lo, int hi) {
    bool gated = a->act != CADRE_RELU2;
    const char *w = (const char *)a->w_up + (size_t)expert * a->up_stride;
    int end = hi * OP_LANES < a->f ? hi * OP_LANES : a->f;
    for (int row = a->offset[expert]; row < a->offset[expert + 1]; row++) {
        const void *x = ref_row(t, a->x, a->ldx, a->pair[row] / a->k);
        void *h = ref_row_mut(t, a->h, a->ldh, row);
        for (int o = lo * OP_LANES; o < end; o++) {
            float gate = gated ? ref_chain(t, w, a->d, gated, 0, o, x) : 0.0f;
            float up = ref_chain(t, w, a->d, gated, gated ? 1 : 0, o, x);
            ref_put(t, h, o, ref_activate(a, gate, up));
        }
        if (end == a->f) { /* the down product reads whole groups */
            for (int o = end; o < op_padded(t, a->f); o++) ref_put(t, h, o, 0.0f);
        }
    }
}

static void down_rows(cadre_dtype t, const op_experts *a, int expert, int lo, int hi) {
    const char *w = (const char *)a->w_down + (size_t)expert * a->down_stride;
    size_t stride = (size_t)(hi - lo) * OP_LANES;
    for (int row = a->offset[expert]; row < a->offset[expert + 1]; row++) {
        const void *h = ref_row(t, a->h, a->ldh, row);
        float *slot = a->slots + (size_t)row * stride;
        for (int o = lo * OP_LANES; o < hi * OP_LANES && o < a->d; o++)
            slot[o - lo * OP_LANES] = ref_chain(t, w, a->f, false, 0, o, h);
    }
}

void ref_combine(const op_experts *a, int lo, int hi) {
    size_t stride = (size_t)(hi - lo) * OP_LANES;
    for (int token = 0; token < a->n; token++) {
        float *out = a->out + (size_t)token * a->ldo;
        for (int o = lo * OP_LANES; o < hi * OP_LANES && o < a->d; o++) {
            float acc = 0.0f;
            for (int64_t p = (int64_t)token * a->k; p < (int64_t)(token + 1) * a->k; p++) {
                if (a->row[p] < 0) continue;
                acc = fmaf(a->weight[p], a->slots[(size_t)a->row[p] * stride + (size_t)(o - lo * OP_LANES)], acc);
            }
            out[o] = a->add ? out[o] + acc : acc;
        }
    }
}

static void down_product(cadre_dtype t, const op_experts *a, int lo, int hi) {
    for (int expert = 0; expert < a->e; expert++) down_rows(t, a, expert, lo, hi);
    ref_combine(a, lo, hi);
}

static void up_f32(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    (void)knobs;
    up_product(CADRE_F32, a, expert, lo, hi);
}

static void down_f32(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    (void)knobs;
    down_product(CADRE_F32, a, lo, hi);
}

static void up_bf16(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    (void)knobs;
    up_product(CADRE_BF16, a, expert, lo, hi);
}

static void down_bf16(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    (void)knobs;
    down_product(CADRE_BF16, a, lo, hi);
}

const op_kernel experts_f32_ref = {
    .name = "experts_f32_ref",
    .family = OP_EXPERTS,
    .dtype = CADRE_F32,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.experts = {up_f32, down_f32},
};
const op_kernel experts_bf16_ref = {
    .name = "experts_bf16_ref",
    .family = OP_EXPERTS,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.experts = {up_bf16, down_bf16},
};
