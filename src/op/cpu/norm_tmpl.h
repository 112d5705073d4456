/* norm_tmpl.h: RMS norm of rows, and the kernel made of it: norm and norm_ok for the instruction set the including file
 * is compiled for. Knobs: rows are summed side by side, since one row is one chain per lane; grain is the caller's.
 */
#include "op/cpu/vec.h"

#include <math.h>

/* scale[r] = 1 / root mean square of row + r. */
INLINE void norm_scales(int rows, const op_norm *a, int row, float *scale) {
    const float *x = a->x + (size_t)row * a->ldx;
    vf acc[4];
    int i = 0;
    UNROLL for (int r = 0; r < rows; r++) acc[r] = v_zero();
    for (; i + OP_LANES <= a->d; i += OP_LANES) {
        UNROLL for (int r = 0; r < rows; r++) {
            vf v = v_load(x + (size_t)r * a->ldx + i);
            acc[r] = v_fma(v, v, acc[r]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        if (i < a->d) {
            vf v = v_load_part(x + (size_t)r * a->ldx + i, a->d - i);
            acc[r] = v_fma(v, v, acc[r]);
        }
        float mean = v_sum16(acc[r]) / (float)a->d;
        scale[r] = 1.0f / sqrtf(mean + a->eps);
    }
}

/* One row, 16 values at a time: y and z of x * scale * weight. */
INLINE void norm_write(const op_norm *a, int row, float scale, bool weighted) {
    const float *x = a->x + (size_t)row * a->ldx;
    float *y = a->y ? a->y + (size_t)row * a->ldy : NULL;
    size_t size = op_dtype_size(a->ztype);
    char *z = a->z ? (char *)a->z + (size_t)row * a->ldz * size : NULL;
    for (int i = 0; i < a->d; i += OP_LANES) {
        int left = a->d - i < OP_LANES ? a->d - i : OP_LANES;
        bool full = left == OP_LANES;
        vf v = v_mul(full ? v_load(x + i) : v_load_part(x + i, left), v_set(scale));
        if (weighted) v = v_mul(v, full ? v_load(a->weight + i) : v_load_part(a->weight + i, left));
        if (full) {
            if (y) v_store(y + i, v);
            if (z) v_store_as(a->ztype, z + (size_t)i * size, v);
        } else {
            if (y) v_store_part(y + i, v, left);
            if (z) v_store_part_as(a->ztype, z + (size_t)i * size, v, left);
        }
    }
    if (z) memset(z + (size_t)a->d * size, 0, (a->ldz - (size_t)a->d) * size);
}

static inline void norm(const op_norm *a, const norm_knobs *knobs, int lo, int hi) {
    bool weighted = !fault_planted(FAULT_NORM);
    float scale[4];
    for (int row = lo, rows; row < hi; row += rows) {
        rows = hi - row >= 4 && knobs->rows >= 4 ? 4 : hi - row >= 2 && knobs->rows >= 2 ? 2 : 1;
        if (rows == 4)
            norm_scales(4, a, row, scale);
        else if (rows == 2)
            norm_scales(2, a, row, scale);
        else
            norm_scales(1, a, row, scale);
        for (int r = 0; r < rows; r++) norm_write(a, row + r, scale[r], weighted);
    }
}
static inline bool norm_ok(const op_knobs *knobs) {
    return knobs->norm.rows >= 1;
}
