/* quant.c: making 8-bit rows of activations, and 8-bit and 4-bit matrices. quant.h draws both. */
#include "op/quant.h"

#include <math.h>
#include <string.h>

/* ---- activations ---- */

/* |v| <= 2^22, to the nearest whole number, ties to even. */
static float nearest(float v) {
    float t = v + 0x1.8p23f;
    return t - 0x1.8p23f;
}

/* The largest magnitude; a NaN counts as infinite. As bits, magnitudes order like whole numbers, a NaN above all: so
 * there is no branch, and the loop becomes vectors. */
static float largest(const float v[OP_BLOCK]) {
    int32_t bits[OP_BLOCK], m = 0;
    memcpy(bits, v, sizeof bits);
    for (int i = 0; i < OP_BLOCK; i++) {
        int32_t a = bits[i] & 0x7fffffff;
        m = a > m ? a : m;
    }
    float f;
    memcpy(&f, &m, sizeof f);
    return f < INFINITY ? f : INFINITY;
}

void quant_block(const float *v, int8_t q[OP_BLOCK], float *scale, int32_t *sum) {
    float m = largest(v);
    *sum = 0;
    if (!(m >= 0x1p-100f && m < INFINITY)) {
        *scale = m < INFINITY ? 0.0f : m;
        memset(q, 0, OP_BLOCK);
        return;
    }
    float inverse = 127.0f / m;
    int32_t whole[OP_BLOCK], total = 0;
    *scale = m / 127.0f;
    for (int i = 0; i < OP_BLOCK; i++) total += whole[i] = (int32_t)nearest(v[i] * inverse);
    for (int i = 0; i < OP_BLOCK; i++) q[i] = (int8_t)whole[i];
    *sum = total;
}

void quant_row(const float *v, int n, void *row) {
    int blocks = quant_blocks(n);
    int8_t *q = row;
    float *scales = (float *)(void *)(q + (size_t)blocks * OP_BLOCK);
    int32_t *sums = (int32_t *)(void *)(scales + blocks);
    for (int b = 0; b < blocks; b++) {
        float part[OP_BLOCK] = {0};
        int left = n - b * OP_BLOCK;
        if (left >= OP_BLOCK) {
            quant_block(v + b * OP_BLOCK, q + b * OP_BLOCK, &scales[b], &sums[b]);
            continue;
        }
        memcpy(part, v + b * OP_BLOCK, (size_t)left * sizeof *v);
        quant_block(part, q + b * OP_BLOCK, &scales[b], &sums[b]);
    }
}

/* ---- weights ---- */

/* A bf16 whose magnitude is not below v's, so that no value leaves the range. */
static uint16_t bf16_away(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return (uint16_t)((u + 0xffff) >> 16);
}

static int clamp_to(float v, int low, int high) {
    float r = nearest(v);
    return r < (float)low ? low : r > (float)high ? high : (int)r;
}

static void weights8(const float *w, float m, int8_t *q, uint16_t *scale) {
    *scale = bf16_away(m / 127.0f);
    float s = op_from_bf16(*scale);
    for (int i = 0; i < OP_BLOCK; i++) q[i] = (int8_t)clamp_to(w[i] / s, -127, 127);
}

/* Values of the block under scale s, as floats so that the loops below stay in vectors; their squared error. */
static float try4(const float *w, float s, float *q) {
    float inverse = 1.0f / s, error = 0.0f;
    for (int i = 0; i < OP_BLOCK; i++) {
        float v = nearest(w[i] * inverse);
        v = v < -8.0f ? -8.0f : v;
        q[i] = v > 7.0f ? 7.0f : v;
    }
    for (int i = 0; i < OP_BLOCK; i++) {
        float e = w[i] - s * q[i];
        error += e * e;
    }
    return error;
}

/* The scale that fits values q best. */
static float best_scale(const float *w, const float *q) {
    float wq = 0.0f, qq = 0.0f;
    for (int i = 0; i < OP_BLOCK; i++) wq += w[i] * q[i], qq += q[i] * q[i];
    return qq > 0.0f ? wq / qq : 0.0f;
}

/* Tries scales that put the largest value at so many steps, each refitted to the values it gives. */
static void weights4(const float *w, float m, int8_t *q, uint16_t *scale) {
    static const float steps[] = {-8.4f, -8.0f, -7.6f, -7.2f, -6.8f, -6.3f, 6.4f, 6.9f, 7.4f};
    float best = INFINITY;
    int at = 0;
    while (w[at] != m && w[at] != -m) at++;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        float trial[OP_BLOCK];
        try4(w, w[at] / steps[i], trial);
        uint16_t s = op_bf16(best_scale(w, trial));
        if ((s & 0x7fff) == 0) continue;
        float error = try4(w, op_from_bf16(s), trial);
        if (error >= best) continue;
        best = error;
        *scale = s;
        for (int j = 0; j < OP_BLOCK; j++) q[j] = (int8_t)trial[j];
    }
}

void quant_weights(cadre_dtype t, const float *w, int n, int8_t q[OP_BLOCK], uint16_t *scale) {
    float all[OP_BLOCK] = {0};
    memcpy(all, w, (size_t)n * sizeof *w);
    float m = largest(all);
    memset(q, 0, OP_BLOCK);
    *scale = m < INFINITY ? 0 : 0x7fc0; /* a block that is not finite gives NaN */
    if (!(m >= 0x1p-100f && m < INFINITY)) return;
    if (t == CADRE_Q8)
        weights8(all, m, q, scale);
    else
        weights4(all, m, q, scale);
}

/* ---- packing ---- */
size_t quant_panel_bytes(cadre_dtype t, int in, bool gated) {
    int blocks = quant_blocks(in), sides = gated ? 2 : 1;
    size_t scales = (size_t)blocks * (size_t)sides * OP_LANES * 2;
    return quant_scales_at(t, blocks, sides) + (scales + 63) / 64 * 64;
}

/* One lane of one block and side: q to its places in the lines at `dst`. */
static void put_lane(cadre_dtype t, const int8_t *q, int lane, uint8_t *dst) {
    for (int i = 0; i < OP_BLOCK; i++) {
        uint8_t v = (uint8_t)(q[i] + quant_offset(t));
        if (t == CADRE_Q8)
            dst[i / 4 * 64 + lane * 4 + i % 4] = v;
        else if (i % 8 < 4)
            dst[i / 8 * 64 + lane * 4 + i % 4] = v;
        else
            dst[i / 8 * 64 + lane * 4 + i % 4] |= (uint8_t)(v << 4);
    }
}

static void pack_side(cadre_dtype t, int out, int in, cadre_tensor w, int panel, int side, int sides, uint8_t *dst) {
    int blocks = quant_blocks(in);
    uint16_t *scales = (uint16_t *)(void *)(dst + quant_scales_at(t, blocks, sides));
    for (int lane = 0; lane < OP_LANES; lane++)
        for (int b = 0; b < blocks; b++) {
            int row = panel * OP_LANES + lane, n = in - b * OP_BLOCK < OP_BLOCK ? in - b * OP_BLOCK : OP_BLOCK;
            float v[OP_BLOCK] = {0};
            int8_t q[OP_BLOCK];
            for (int i = 0; row < out && i < n; i++)
                v[i] = op_load(w.dtype, w.data, (size_t)row * (size_t)in + (size_t)(b * OP_BLOCK + i));
            quant_weights(t, v, n, q, &scales[(b * sides + side) * OP_LANES + lane]);
            put_lane(t, q, lane, dst + (size_t)((b * sides + side) * quant_lines(t)) * 64);
        }
}

void quant_pack(cadre_dtype t, int out, int in, cadre_tensor w, cadre_tensor up, int lo, int hi, void *dst) {
    int sides = up.data ? 2 : 1;
    size_t bytes = quant_panel_bytes(t, in, sides == 2);
    for (int panel = lo; panel < hi; panel++) {
        uint8_t *p = (uint8_t *)dst + (size_t)panel * bytes;
        memset(p, 0, bytes);
        pack_side(t, out, in, w, panel, 0, sides, p);
        if (up.data) pack_side(t, out, in, up, panel, 1, sides, p);
    }
}
