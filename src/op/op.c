/* op.c: single values: conversions between the stored types, the scalar functions of an id, rope and argmax.
 * Not here: anything over a matrix (pack.c, ref/, cpu/). */
#include "op/quant.h"

#include <math.h>
#include <string.h>

#include "op/cpu/exp.h"
#include "op/exp.h"

static uint32_t bits_of(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* ---- conversions: integer work only, so that the mode of the floating-point unit can't reach them ---- */

uint16_t op_bf16(float v) {
    uint32_t u = bits_of(v);
    uint32_t size = u & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40); /* the payload's top may be 0: the quiet bit keeps it NaN */
    if (size < 0x00800000u) return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16); /* a carry out of the largest value makes infinity */
}

float op_from_f16(uint16_t v) {
    uint32_t sign = (uint32_t)(v & 0x8000) << 16;
    uint32_t exponent = v >> 10 & 0x1f, fraction = v & 0x3ff;
    if (exponent == 0x1f) return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    if (fraction == 0) return float_of(sign);
    /* A denormal half is a normal float: shift its highest bit up to the implicit one. */
    int shift = __builtin_clz(fraction) - 21;
    return float_of(sign | (uint32_t)(113 - shift) << 23 | (fraction << shift & 0x3ff) << 13);
}

/* Bytes from a file need not be aligned, hence memcpy. */
float op_load(cadre_dtype t, const void *data, size_t index) {
    const char *p = (const char *)data + index * op_dtype_size(t);
    if (t == CADRE_F32) {
        float v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return t == CADRE_BF16 ? op_from_bf16(v) : op_from_f16(v);
}

/* ---- scalar functions of the id ---- */

float op_exp(float x) {
    if (x != x) return x;
    if (x <= EXP_LOW) return 0.0f;
    if (x > EXP_HIGH) x = EXP_HIGH;
    float n = fmaf(x, EXP_LOG2E, EXP_MAGIC) - EXP_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = EXP_C6;
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, EXP_C1);
    p = fmaf(p, r, EXP_C0);
    return p * float_of((uint32_t)((int)n + 127) << 23); /* n is -126..127: 2^n and the product are normal */
}

void op_exp_many(bool vectors, float *v, int n) {
#ifdef __x86_64__
    if (vectors) {
        exp_many_avx2(v, n);
        return;
    }
#endif
    (void)vectors;
    for (int i = 0; i < n; i++) v[i] = op_exp(v[i]);
}

float op_sigmoid(float x) {
    return 1.0f / (1.0f + op_exp(-x));
}

float op_silu(float x) {
    return x / (1.0f + op_exp(-x));
}

/* ---- rope, argmax ---- */

void op_rope(float *x, int heads, int head_dim, int rotary, const float *cos, const float *sin) {
    int half = rotary / 2;
    bool neighbours = fault_planted(FAULT_ROPE);
    for (int h = 0; h < heads; h++, x += head_dim) {
        for (int i = 0; i < half; i++) {
            int a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + half;
            float first = x[a], second = x[b];
            x[a] = first * cos[i] - second * sin[i];
            x[b] = second * cos[i] + first * sin[i];
        }
    }
}

int op_argmax(const float *v, int n) {
    int best = 0;
    float top = -INFINITY;
    for (int i = 0; i < n; i++) { /* NaN is greater than nothing, so it loses like minus infinity */
        if (v[i] > top) {
            top = v[i];
            best = i;
        }
    }
    return best;
}

/* ---- types ---- */
static const char *const dtype_names[] = {
    [CADRE_F32] = "f32", [CADRE_BF16] = "bf16", [CADRE_F16] = "f16", [CADRE_Q8] = "q8", [CADRE_Q4] = "q4"};

const char *op_act_name(cadre_act a) {
    static const char *const names[] = {
        [CADRE_SWIGLU] = "swiglu", [CADRE_SWIGLU_CLAMP] = "swiglu-clamp", [CADRE_RELU2] = "relu2"};
    return names[a];
}

const char *op_dtype_name(cadre_dtype t) {
    return dtype_names[t];
}

int op_dtype_find(const char *name) {
    for (int t = 0; t < (int)(sizeof dtype_names / sizeof *dtype_names); t++)
        if (!strcmp(dtype_names[t], name)) return t;
    return -1;
}

void op_round(cadre_dtype t, const float *v, size_t n, void *out) {
    if (t == CADRE_F32)
        memcpy(out, v, n * sizeof *v);
    else
        for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i] = op_bf16(v[i]);
}

void op_round_row(cadre_dtype t, const float *v, int n, void *row) {
    if (op_is_quant(t)) {
        quant_row(v, n, row);
        return;
    }
    size_t used = (size_t)n, size = op_dtype_size(t);
    op_round(t, v, used, row);
    memset((char *)row + used * size, 0, (op_stride(t, n) - used) * size);
}
