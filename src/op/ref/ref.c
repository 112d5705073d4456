/* ref.c: the sums every plain C kernel is made of, in the order of docs/numerics.md. */
#include "ref.h"

#include <math.h>

float ref_get(cadre_dtype t, const void *row, int i) {
    return t == CADRE_BF16 ? op_from_bf16(((const uint16_t *)row)[i]) : ((const float *)row)[i];
}

void ref_put(cadre_dtype t, void *row, int i, float v) {
    if (t == CADRE_BF16)
        ((uint16_t *)row)[i] = op_bf16(v);
    else
        ((float *)row)[i] = v;
}

const void *ref_row(cadre_dtype t, const void *data, size_t stride, int64_t i) {
    return (const char *)data + (size_t)i * stride * op_dtype_size(t);
}

void *ref_row_mut(cadre_dtype t, void *data, size_t stride, int64_t i) {
    return (char *)data + (size_t)i * stride * op_dtype_size(t);
}

bool ref_any_knobs(const op_knobs *knobs) {
    (void)knobs;
    return true;
}

/* Weights w[k] and w[k+1] of a lane are neighbours in its group; the odd one is multiplied first. */
static float chain_bf16(const uint16_t *w, size_t step, int in, const uint16_t *x) {
    float acc = 0.0f;
    for (int k = 0; k < in; k += 2, w += step) {
        acc = fmaf(op_from_bf16(w[1]), op_from_bf16(x[k + 1]), acc);
        acc = fmaf(op_from_bf16(w[0]), op_from_bf16(x[k]), acc);
    }
    return acc;
}

static float chain_f32(const float *w, size_t step, int in, const float *x) {
    float acc = 0.0f;
    for (int k = 0; k < in; k++, w += step) acc = fmaf(*w, x[k], acc);
    return acc;
}

float ref_chain(cadre_dtype t, const void *matrix, int in, bool gated, int part, int o, const void *x) {
    const char *panel = (const char *)matrix + (size_t)(o / OP_LANES) * op_panel_bytes(t, in, gated);
    const char *w = panel + 64 * part + 4 * (o % OP_LANES);
    size_t step = gated ? 128 : 64; /* bytes from one group to the next */
    if (t == CADRE_BF16) return chain_bf16((const uint16_t *)w, step / 2, in, x);
    return chain_f32((const float *)w, step / 4, in, x);
}

float ref_sum16(const float *a, cadre_dtype t, const void *b, int n) {
    float lane[16] = {0};
    for (int k = 0; k < n; k += 16) {
        for (int j = 0; j < 16; j++) {
            bool inside = k + j < n;
            lane[j] = fmaf(inside ? a[k + j] : 0.0f, inside ? ref_get(t, b, k + j) : 0.0f, lane[j]);
        }
    }
    for (int s = 8; s >= 1; s /= 2) {
        for (int j = 0; j < s; j++) lane[j] = lane[j] + lane[j + s];
    }
    return lane[0];
}
