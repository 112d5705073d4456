/* experts_quant_ref.c: the two products of a MoE layer over quantized experts, in the order of docs/numerics.md. */
#include "op/quant.h"
#include "ref.h"

#include <math.h>

/* The stored value of input i of a block, sign restored. */
static int weight(cadre_dtype t, const uint8_t *lines, int lane, int i) {
    if (t == CADRE_Q8) return lines[i / 4 * 64 + lane * 4 + i % 4] - 128;
    uint8_t two = lines[i / 8 * 64 + lane * 4 + i % 4];
    return (i % 8 < 4 ? two & 15 : two >> 4) - 8;
}

/* Output o of a side against one row: an exact integer sum per block, then one fma. */
static float chain(cadre_dtype t, const void *matrix, int in, int side, int sides, int o, const int8_t *x) {
    int blocks = quant_blocks(in), lane = o % OP_LANES;
    const uint8_t *panel = (const uint8_t *)matrix + (size_t)(o / OP_LANES) * quant_panel_bytes(t, in, sides == 2);
    const uint16_t *scales = (const uint16_t *)(const void *)(panel + quant_scales_at(t, blocks, sides));
    float acc = 0.0f;
    for (int b = 0; b < blocks; b++) {
        int32_t sum = 0;
        const uint8_t *lines = panel + (size_t)((b * sides + side) * quant_lines(t)) * 64;
        for (int i = 0; i < OP_BLOCK; i++) sum += weight(t, lines, lane, i) * x[b * OP_BLOCK + i];
        float scale = op_from_bf16(scales[(b * sides + side) * OP_LANES + lane]) * quant_row_scales(x, blocks)[b];
        acc = fmaf(scale, (float)sum, acc);
    }
    return acc;
}

static const int8_t *quant_row_at(const void *data, size_t stride, int64_t i) {
    return (const int8_t *)data + (size_t)i * stride;
}

/* Block b of one row of h, from its 32 outputs. */
static void up_block(cadre_dtype t, const op_experts *a, const void *w, const int8_t *x, int8_t *h, int b) {
    int sides = a->act == CADRE_RELU2 ? 1 : 2, blocks = quant_blocks(a->f);
    float v[OP_BLOCK] = {0};
    for (int i = 0, o = b * OP_BLOCK; i < OP_BLOCK && o < a->f; i++, o++) {
        float gate = sides == 2 ? chain(t, w, a->d, 0, sides, o, x) : 0.0f;
        v[i] = ref_activate(a, gate, chain(t, w, a->d, sides - 1, sides, o, x));
    }
    float *scales = (float *)(void *)(h + (size_t)blocks * OP_BLOCK);
    quant_block(v, h + b * OP_BLOCK, &scales[b], (int32_t *)(void *)(scales + blocks) + b);
}

static void up_product(cadre_dtype t, const op_experts *a, int expert, int lo, int hi) {
    const char *w = (const char *)a->w_up + (size_t)expert * a->up_stride;
    for (int row = a->offset[expert]; row < a->offset[expert + 1]; row++)
        for (int b = lo / 2; b * 2 < hi; b++)
            up_block(t, a, w, quant_row_at(a->x, a->ldx, a->pair[row] / a->k), (int8_t *)a->h + (size_t)row * a->ldh,
                     b);
}

static void down_product(cadre_dtype t, const op_experts *a, int lo, int hi) {
    size_t stride = (size_t)(hi - lo) * OP_LANES;
    for (int expert = 0; expert < a->e; expert++)
        for (int row = a->offset[expert]; row < a->offset[expert + 1]; row++) {
            const char *w = (const char *)a->w_down + (size_t)expert * a->down_stride;
            float *slot = a->slots + (size_t)row * stride;
            for (int o = lo * OP_LANES; o < hi * OP_LANES && o < a->d; o++)
                slot[o - lo * OP_LANES] = chain(t, w, a->f, 0, 1, o, quant_row_at(a->h, a->ldh, row));
        }
    ref_combine(a, lo, hi);
}

#define QUANT(type, tag)                                                                                \
    static void up_##tag(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) { \
        (void)knobs;                                                                                    \
        up_product(type, a, expert, lo, hi);                                                            \
    }                                                                                                   \
    static void down_##tag(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {           \
        (void)knobs;                                                                                    \
        down_product(type, a, lo, hi);                                                                  \
    }                                                                                                   \
    const op_kernel experts_##tag##_ref = {.name = "experts_" #tag "_ref",                              \
                                           .family = OP_EXPERTS,                                        \
                                           .dtype = type,                                               \
                                           .isa = OP_ISA_REF,                                           \
                                           .ok = ref_any_knobs,                                         \
                                           .run.experts = {up_##tag, down_##tag}};
extern const op_kernel experts_q8_ref, experts_q4_ref;
QUANT(CADRE_Q8, q8)
QUANT(CADRE_Q4, q4)
