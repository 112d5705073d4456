/* dense_ref.c: y = x . W^T, one chain per output. */
#include "ref.h"

static void dense(cadre_dtype t, const op_dense *a, int lo, int hi) {
    for (int row = 0; row < a->n; row++) {
        const void *x = ref_row(t, a->x, a->ldx, row);
        float *y = a->y + (size_t)row * a->ldy;
        for (int o = lo * OP_LANES; o < hi * OP_LANES && o < a->out; o++) {
            float v = ref_chain(t, a->w, a->in, false, 0, o, x);
            if (a->bias != NULL) v = v + a->bias[o];
            y[o] = a->add ? y[o] + v : v;
        }
    }
}

static void dense_f32(const op_dense *a, const dense_knobs *knobs, int lo, int hi) {
    (void)knobs;
    dense(CADRE_F32, a, lo, hi);
}

static void dense_bf16(const op_dense *a, const dense_knobs *knobs, int lo, int hi) {
    (void)knobs;
    dense(CADRE_BF16, a, lo, hi);
}

const op_kernel dense_f32_ref = {
    .name = "dense_f32_ref",
    .family = OP_DENSE,
    .dtype = CADRE_F32,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.dense = dense_f32,
};
const op_kernel dense_bf16_ref = {
    .name = "dense_bf16_ref",
    .family = OP_DENSE,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.dense = dense_bf16,
};
