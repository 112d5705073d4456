/* norm_ref.c: RMS norm of rows, kept in fp32, rounded to a type, or both. */
#include <math.h>

#include "ref.h"

static void norm_row(const op_norm *a, int row, bool weighted) {
    const float *x = a->x + (size_t)row * a->ldx;
    float *y = a->y != NULL ? a->y + (size_t)row * a->ldy : NULL;
    void *z = a->z != NULL ? ref_row_mut(a->ztype, a->z, a->ldz, row) : NULL;
    float s = ref_sum16(x, CADRE_F32, x, a->d);
    float v = s / (float)a->d;
    float r = 1.0f / sqrtf(v + a->eps);
    for (int i = 0; i < a->d; i++) {
        float out = x[i] * r;
        if (weighted) out = out * a->weight[i];
        if (y != NULL) y[i] = out;
        if (z != NULL) ref_put(a->ztype, z, i, out);
    }
    for (size_t i = (size_t)a->d; z != NULL && i < a->ldz; i++) ref_put(a->ztype, z, (int)i, 0.0f);
}

static void norm(const op_norm *a, const norm_knobs *knobs, int lo, int hi) {
    (void)knobs;
    bool weighted = !fault_planted(FAULT_NORM);
    for (int row = lo; row < hi; row++) norm_row(a, row, weighted);
}

const op_kernel norm_ref = {
    .name = "norm_ref",
    .family = OP_NORM,
    .dtype = CADRE_F32,
    .isa = OP_ISA_REF,
    .ok = ref_any_knobs,
    .run.norm = norm,
};
