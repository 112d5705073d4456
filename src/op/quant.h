/* quant.h: 8-bit and 4-bit matrices and the 8-bit rows they meet. Blocks are 32 inputs with one scale.
 *
 * A weight w of block b is scale * q, q in -127..127 (Q8) or -8..7 (Q4), stored without sign as q + 128 or q + 8; the
 * scale is a bf16. A panel (16 outputs; gate and up of a gated pair are two sides):
 *
 *   block 0: side 0: lines of 64 bytes: 16 outputs x 4 inputs each. Q8: 8 lines. Q4: 4 lines, line j holds inputs
 *            8j..8j+3 in the low halves of its bytes and 8j+4..8j+7 in the high halves
 *            side 1: ...
 *   block 1: ...
 *   scales:  block 0: side 0: 16 bf16 | side 1: 16 bf16; block 1: ...     (padded to 64 bytes)
 *
 * A row of activations is in blocks too: int8 values -127..127, then one float scale per block, then one int32 sum of
 * the values per block (unsigned weights need it: sum (q + 128) x = sum q x + 128 sum x).
 */
#ifndef CADRE_OP_QUANT_H
#define CADRE_OP_QUANT_H
#include "op/op.h"

static inline int quant_blocks(int in) {
    return (in + OP_BLOCK - 1) / OP_BLOCK;
}
/* Lines of one block and side. */
static inline int quant_lines(cadre_dtype t) {
    return t == CADRE_Q8 ? 8 : 4;
}
static inline int quant_offset(cadre_dtype t) {
    return t == CADRE_Q8 ? 128 : 8;
}
/* Where the scales of a panel begin. */
static inline size_t quant_scales_at(cadre_dtype t, int blocks, int sides) {
    return (size_t)blocks * (size_t)(quant_lines(t) * sides) * 64;
}
size_t quant_panel_bytes(cadre_dtype t, int in, bool gated);

/* Parts of an activation row of `blocks` blocks. */
static inline const float *quant_row_scales(const void *row, int blocks) {
    return (const float *)(const void *)((const char *)row + (size_t)blocks * OP_BLOCK);
}
static inline const int32_t *quant_row_sums(const void *row, int blocks) {
    return (const int32_t *)(const void *)((const char *)row + (size_t)blocks * (OP_BLOCK + 4));
}
/* One block of a row: m = largest magnitude; below 2^-100 all is zero; scale = m / 127, values round(v * (127 / m)). A
 * block with an infinity or a NaN has an infinite scale and zeros: what is made of it is NaN. */
void quant_block(const float *v, int8_t q[OP_BLOCK], float *scale, int32_t *sum);
/* A row of n values, padded with zeros to whole blocks. */
void quant_row(const float *v, int n, void *row);

/* One block of weights: q without the stored offset, scale a bf16 value. n <= 32 values, the rest zero. */
void quant_weights(cadre_dtype t, const float *w, int n, int8_t q[OP_BLOCK], uint16_t *scale);
/* op_pack for quantized types. */
void quant_pack(cadre_dtype t, int out, int in, cadre_tensor w, cadre_tensor up, int lo, int hi, void *dst);
#endif
