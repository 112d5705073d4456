/* pack.c: weight matrices from the order of a checkpoint into the order kernels stream them (op.h draws it).
 *
 * A panel is written front to back while 16 rows of the source (32 for a gated pair) are read side by side. */
#include <string.h>

#include "op/quant.h"

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

/* Lane `lane` of one 64-byte group, from row `row` of the source. Rows past the end and inputs past it are zero. */
static void put_bf16(uint16_t *dst, cadre_tensor w, size_t row, int in, int k) {
    for (int i = 0; i < 2; i++) {
        size_t index = row * (size_t)in + (size_t)k + (size_t)i;
        if (k + i >= in) {
            dst[i] = 0;
        } else if (w.dtype == CADRE_BF16) { /* kept bit for bit */
            memcpy(&dst[i], (const char *)w.data + 2 * index, 2);
        } else {
            dst[i] = op_bf16(op_load(w.dtype, w.data, index));
        }
    }
}

static void put_group(cadre_dtype t, int out, int in, cadre_tensor w, int panel, int k, char *dst) {
    for (int lane = 0; lane < OP_LANES; lane++, dst += 4) {
        size_t row = (size_t)panel * OP_LANES + (size_t)lane;
        if (row >= (size_t)out) {
            memset(dst, 0, 4);
        } else if (t == CADRE_BF16) {
            uint16_t pair[2];
            put_bf16(pair, w, row, in, k);
            memcpy(dst, pair, 4);
        } else if (w.dtype == CADRE_F32) {
            memcpy(dst, (const char *)w.data + 4 * (row * (size_t)in + (size_t)k), 4);
        } else {
            float v = op_load(w.dtype, w.data, row * (size_t)in + (size_t)k);
            memcpy(dst, &v, 4);
        }
    }
}

/* The common case, whole panels of bf16 from bf16, is a transpose of pairs; loading a model is mostly this loop. */
static void copy_group(const char *rows, size_t stride, char *dst) {
    for (int lane = 0; lane < OP_LANES; lane++) memcpy(dst + 4 * lane, rows + (size_t)lane * stride, 4);
}

static void pack_matrix(cadre_dtype t, int out, int in, cadre_tensor w, int panel, size_t step, char *dst) {
    int kp = op_group(t), k = 0;
    if (t == w.dtype && (panel + 1) * (int64_t)OP_LANES <= out) {
        size_t stride = (size_t)in * op_dtype_size(t);
        const char *rows = (const char *)w.data + (size_t)panel * OP_LANES * stride;
        for (; k + kp <= in; k += kp, rows += 4, dst += step) copy_group(rows, stride, dst);
    }
    for (; k < in; k += kp, dst += step) put_group(t, out, in, w, panel, k, dst);
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
