/* dense_tmpl.h: y = x . W^T (+ bias) for a slice of panels, and the kernels made of it.
 *
 * A file that includes this gets dense_f32 and dense_bf16 (op_dense_fn) and dense_ok, for the instruction set it is
 * compiled for; it adds the descriptors. Knobs: rows and panels are the register tile; grain is the caller's.
 */
#include "op/cpu/tile.h"

/* Adds bias and old contents to the sums of one panel and stores its `lanes` outputs. */
INLINE void dense_store_panel(const op_dense *a, const float *sum, float *y, const float *bias, int lanes) {
    bool full = lanes == OP_LANES;
    vf v = v_load(sum);
    if (bias) v = v_add(v, full ? v_load(bias) : v_load_part(bias, lanes));
    if (a->add) v = v_add(full ? v_load(y) : v_load_part(y, lanes), v);
    if (full)
        v_store(y, v);
    else
        v_store_part(y, v, lanes);
}

static inline void dense_store(const op_dense *a, const float *sums, int row, int rows, int panel, int panels) {
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < panels; p++) {
            int o = (panel + p) * OP_LANES, lanes = a->out - o < OP_LANES ? a->out - o : OP_LANES;
            dense_store_panel(a, sums + (r * panels + p) * OP_LANES, a->y + (size_t)(row + r) * a->ldy + o,
                              a->bias ? a->bias + o : NULL, lanes);
        }
}

/* All rows against the panels of t, a tile of rows at a time. */
INLINE void dense_rows(cadre_dtype type, const op_dense *a, int most, int panel, int panels, const char *next,
                       tile *t) {
    bool tail = fault_planted(FAULT_TAIL);
    size_t ldx = a->ldx * op_dtype_size(type);
    for (int row = 0, rows; row < a->n; row += rows) {
        rows = a->n - row < most ? a->n - row : most;
        for (int r = 0; r < rows; r++) t->x[r] = (const char *)a->x + (size_t)(row + r) * ldx;
        if (tail && rows < most && row > 0) t->x[rows - 1] -= ldx;
        tile_fetch(t, 1, panels, row / most, (a->n + most - 1) / most, a->n, next);
        tile_product(type, false, panels, rows, t);
        dense_store(a, t->y, row, rows, panel, panels);
    }
}

INLINE void dense_run(cadre_dtype type, const op_dense *a, const dense_knobs *knobs, int lo, int hi) {
    _Alignas(64) float sums[TILE_ROWS * TILE_LINES * OP_LANES];
    int groups = op_padded(type, a->in) / op_group(type);
    tile t = {.panel = (size_t)groups * TILE_BYTES, .groups = groups, .y = sums, .order = fault_planted(FAULT_ORDER)};
    for (int p = lo, panels; p < hi; p += panels) {
        panels = tile_fit(knobs->panels, hi - p);
        t.w = (const char *)a->w + (size_t)p * t.panel;
        t.ldy = (size_t)panels * OP_LANES;
        dense_rows(type, a, knobs->rows, p, panels, p + panels < hi ? t.w + (size_t)panels * t.panel : a->next, &t);
    }
}

static inline void dense_f32(const op_dense *a, const dense_knobs *knobs, int lo, int hi) {
    dense_run(CADRE_F32, a, knobs, lo, hi);
}
static inline void dense_bf16(const op_dense *a, const dense_knobs *knobs, int lo, int hi) {
    dense_run(CADRE_BF16, a, knobs, lo, hi);
}
static inline bool dense_ok(const op_knobs *knobs) {
    return knobs->dense.rows * knobs->dense.panels <= VEC_TILE;
}
