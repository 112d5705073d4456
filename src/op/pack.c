/* pack.c: weight matrices from the order of a checkpoint into the order kernels stream them (op.h draws it).
 *
 * A panel is written front to back while 16 rows of the source (32 for a gated pair) are read side by side. */
#include <string.h>

#include "op/quant.h"

enum { BLOCK = 512 }; /* bytes of one row that are converted at a time */

static size_t groups_of(cadre_dtype t, int in) {
    size_t kp = (size_t)op_group(t);
    return ((size_t)in + kp - 1) / kp;
}

size_t op_panel_bytes(cadre_dtype t, int in, bool gated) {
    if (in <= 0) return 0;
    if (op_is_quant(t)) return quant_panel_bytes(t, in, gated);
    return groups_of(t, in) * 64 * (gated ? 2 : 1);
}

bool op_packed_bytes(cadre_dtype t, int out, int in, bool gated, size_t *bytes) {
    if (out < 0 || in < 0) return false;
    size_t panels = ((size_t)out + OP_LANES - 1) / OP_LANES;
    return mem_mul(panels, op_panel_bytes(t, in, gated), bytes);
}

/* n values from `index` on, in type t. Types that are equal keep every bit, and so the denormals of weights. */
static void convert(cadre_dtype t, cadre_tensor w, size_t index, int n, void *dst) {
    const char *from = (const char *)w.data + index * op_dtype_size(w.dtype);
    float *wide = dst;
    uint16_t *half = dst, v;
    if (w.dtype == t) {
        memcpy(dst, from, (size_t)n * op_dtype_size(t));
    } else if (t == CADRE_BF16) {
        for (int i = 0; i < n; i++) half[i] = op_bf16(op_load(w.dtype, from, (size_t)i));
    } else {
        for (int i = 0; i < n; i++) {
            memcpy(&v, from + 2 * i, 2);
            wide[i] = w.dtype == CADRE_BF16 ? op_from_bf16(v) : op_from_f16(v);
        }
    }
}

/* One group: 4 bytes of each of 16 rows. */
static void put_group(const char *rows, size_t stride, char *dst) {
    for (int lane = 0; lane < OP_LANES; lane++) memcpy(dst + 4 * lane, rows + (size_t)lane * stride, 4);
}

/* Inputs from k on, by way of a small block in the packed type; what the source does not have stays zero. */
static void pack_block(cadre_dtype t, int out, int in, cadre_tensor w, int panel, int k, size_t step, char *dst) {
    _Alignas(64) char block[OP_LANES][BLOCK] = {{0}};
    int n = BLOCK / (int)op_dtype_size(t), used = in - k < n ? in - k : n;
    for (int lane = 0; lane < OP_LANES; lane++) {
        size_t row = (size_t)panel * OP_LANES + (size_t)lane;
        if (row < (size_t)out) convert(t, w, row * (size_t)in + (size_t)k, used, block[lane]);
    }
    for (size_t i = 0; i < groups_of(t, used); i++) put_group(block[0] + 4 * i, BLOCK, dst + i * step);
}

static void pack_matrix(cadre_dtype t, int out, int in, cadre_tensor w, int panel, size_t step, char *dst) {
    int kp = op_group(t), k = 0, block = BLOCK / (int)op_dtype_size(t);
    /* The common case needs no block: whole panels of the same type. Loading a model is mostly this loop. */
    if (t == w.dtype && (panel + 1) * (int64_t)OP_LANES <= out) {
        size_t stride = (size_t)in * op_dtype_size(t);
        const char *rows = (const char *)w.data + (size_t)panel * OP_LANES * stride;
        for (; k + kp <= in; k += kp, rows += 4, dst += step) put_group(rows, stride, dst);
    }
    for (; k < in; k += block, dst += step * (size_t)(block / kp)) pack_block(t, out, in, w, panel, k, step, dst);
}

void op_pack(cadre_dtype t, int out, int in, cadre_tensor w, cadre_tensor up, int lo, int hi, void *dst) {
    if (op_is_quant(t)) {
        quant_pack(t, out, in, w, up, lo, hi, dst);
        return;
    }
    bool gated = up.data != NULL;
    size_t panel_bytes = op_panel_bytes(t, in, gated), step = gated ? 128 : 64;
    for (int panel = lo; panel < hi; panel++) {
        char *p = (char *)dst + (size_t)panel * panel_bytes;
        pack_matrix(t, out, in, w, panel, step, p);
        if (gated) pack_matrix(t, out, in, up, panel, step, p + 64);
    }
}
