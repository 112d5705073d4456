/* experts_tmpl.h: the two grouped products of a MoE layer over rows sorted by expert, and the kernels made of it.
 *
 *   up:    x rows of one expert . (gate | up) -> activation in registers' reach -> h, rounded once
 *   down:  h rows of every expert . down -> slots [rows][columns] -> per token: weighted sum in slot order -> out
 *
 * A file that includes this gets up_f32, up_bf16, down_f32, down_bf16 and experts_ok, for the instruction set it is
 * compiled for; it adds the descriptors. Knobs: rows is the register tile's; panels is the tile's in the up product,
 * where each is gate and up side by side; a product that isn't gated takes twice as many. chunk and columns are the
 * caller's.
 */
#include "op/cpu/experts_parts.h"
#include "op/cpu/tile.h"

/* Panels of a tile when nothing is gated: as many sums as `panels` gated ones, at most 4. */
INLINE int experts_plain(int panels) {
    return panels < 4 ? 2 * panels : 4;
}

/* ---- up ---- */

/* Sums of `rows` rows and `panels` panels to h. The last panel also fills h up to a whole group with zeros. */
INLINE void experts_store_h(cadre_dtype type, const op_experts *a, const float *sums, int row, int rows, int panel,
                            int panels) {
    int sides = a->act == CADRE_RELU2 ? 1 : 2;
    size_t size = op_dtype_size(type);
    for (int r = 0; r < rows; r++) {
        char *h = (char *)a->h + (size_t)(row + r) * a->ldh * size;
        for (int p = 0; p < panels; p++, sums += sides * OP_LANES) {
            int o = (panel + p) * OP_LANES, left = a->f - o;
            vf v = experts_act(a, v_load(sums), v_load(sums + (sides - 1) * OP_LANES));
            if (left >= OP_LANES) {
                v_store_as(type, h + (size_t)o * size, v);
                continue;
            }
            v_store_part_as(type, h + (size_t)o * size, v, left);
            int pad = op_padded(type, a->f) - a->f;
            v_store_part_as(type, h + (size_t)(o + left) * size, v_zero(), pad);
        }
    }
}

/* All rows of one expert against the panels of t. */
INLINE void experts_up_rows(cadre_dtype type, const op_experts *a, int most, int expert, int panel, int panels,
                            const char *next, tile *t) {
    bool tail = fault_planted(FAULT_TAIL);
    int first = a->offset[expert], end = a->offset[expert + 1], passes = (end - first + most - 1) / most;
    size_t ldx = a->ldx * op_dtype_size(type);
    for (int row = first, rows; row < end; row += rows) {
        rows = end - row < most ? end - row : most;
        for (int r = 0; r < rows; r++) {
            int twin = tail && rows < most && row > first && r == rows - 1;
            t->x[r] = (const char *)a->x + (size_t)(a->pair[row + r - twin] / a->k) * ldx;
        }
        tile_fetch(t, a->act == CADRE_RELU2 ? 1 : 2, panels, (row - first) / most, passes, end - first, next);
        tile_product(type, a->act != CADRE_RELU2, panels, rows, t);
        experts_store_h(type, a, t->y, row, rows, panel, panels);
    }
}

INLINE void experts_up(cadre_dtype type, const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    _Alignas(64) float sums[TILE_ROWS * TILE_LINES * OP_LANES];
    int groups = op_padded(type, a->d) / op_group(type), sides = a->act == CADRE_RELU2 ? 1 : 2;
    int most = sides == 2 ? knobs->panels : experts_plain(knobs->panels);
    tile t = {.panel = (size_t)groups * (size_t)sides * TILE_BYTES,
              .groups = groups,
              .y = sums,
              .order = fault_planted(FAULT_ORDER)};
    for (int p = lo, panels; p < hi; p += panels) {
        panels = tile_fit(most, hi - p);
        t.w = (const char *)a->w_up + (size_t)expert * a->up_stride + (size_t)p * t.panel;
        t.ldy = (size_t)(panels * sides) * OP_LANES;
        const char *next = p + panels < hi ? t.w + (size_t)panels * t.panel : a->next;
        experts_up_rows(type, a, knobs->rows, expert, p, panels, next, &t);
    }
}

/* ---- down ---- */

/* All rows of one expert against the panels of t, into columns `at` and on of their slots. */
INLINE void experts_down_rows(cadre_dtype type, const op_experts *a, int most, int expert, int at, int panels,
                              const char *next, tile *t) {
    bool tail = fault_planted(FAULT_TAIL);
    int first = a->offset[expert], end = a->offset[expert + 1], passes = (end - first + most - 1) / most;
    size_t ldh = a->ldh * op_dtype_size(type);
    for (int row = first, rows; row < end; row += rows) {
        rows = end - row < most ? end - row : most;
        for (int r = 0; r < rows; r++) t->x[r] = (const char *)a->h + (size_t)(row + r) * ldh;
        if (tail && rows < most && row > first) t->x[rows - 1] -= ldh;
        t->y = a->slots + (size_t)row * t->ldy + at * OP_LANES;
        tile_fetch(t, 1, panels, (row - first) / most, passes, end - first, next);
        tile_product(type, false, panels, rows, t);
    }
}

INLINE void experts_down_slots(cadre_dtype type, const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    int groups = op_padded(type, a->f) / op_group(type), most = experts_plain(knobs->panels);
    tile t = {.panel = (size_t)groups * TILE_BYTES,
              .groups = groups,
              .ldy = (size_t)(hi - lo) * OP_LANES,
              .order = fault_planted(FAULT_ORDER)};
    for (int expert = experts_active(a, -1), after; expert < a->e; expert = after) {
        after = experts_active(a, expert);
        const char *w = (const char *)a->w_down + (size_t)expert * a->down_stride + (size_t)lo * t.panel;
        const char *w_after = after < a->e ? w + (size_t)(after - expert) * a->down_stride : a->next;
        for (int p = lo, panels; p < hi; p += panels) {
            panels = tile_fit(most, hi - p);
            t.w = w + (size_t)(p - lo) * t.panel;
            const char *next = p + panels < hi ? t.w + (size_t)panels * t.panel : w_after;
            experts_down_rows(type, a, knobs->rows, expert, p - lo, panels, next, &t);
        }
    }
}

/* ---- the kernels ---- */

static inline void up_f32(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    experts_up(CADRE_F32, a, knobs, expert, lo, hi);
}
static inline void up_bf16(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    experts_up(CADRE_BF16, a, knobs, expert, lo, hi);
}
static inline void down_f32(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    experts_down_slots(CADRE_F32, a, knobs, lo, hi);
    experts_combine(a, lo, hi);
}
static inline void down_bf16(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    experts_down_slots(CADRE_BF16, a, knobs, lo, hi);
    experts_combine(a, lo, hi);
}
static inline bool experts_ok(const op_knobs *knobs) {
    return knobs->experts.rows * knobs->experts.panels * 2 <= VEC_TILE;
}
