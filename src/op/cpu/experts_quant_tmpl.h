/* experts_quant_tmpl.h: the two grouped products over quantized experts, and the kernels made of it.
 *
 *   up:    8-bit rows of x . (gate | up) -> activation -> blocks of 32 outputs quantized -> h
 *   down:  8-bit rows of h . down -> slots -> per token: weighted sum in slot order -> out
 *
 * A file that includes this gets up_q8, up_q4, down_q8, down_q4 and quant_ok. Knobs: rows is the register tile's; with
 * panels 1 a tile has 2 lines of weights (a gated panel, or two plain ones), else 4. chunk and columns are the
 * caller's; the up product is made two panels at a time, because they share a block of h.
 */
#include "op/cpu/experts_parts.h"
#include "op/cpu/quant_tile.h"

static inline int quant_tile_lines(const experts_knobs *knobs) {
    return knobs->panels >= 2 ? 4 : 2;
}

/* ---- up ---- */

/* One block of h of one row from the sums of its two panels. */
INLINE void quant_store_block(const op_experts *a, const float *sums, int sides, int8_t *h, int blocks, int b) {
    vf lo = experts_act(a, v_load(sums), v_load(sums + (sides - 1) * OP_LANES));
    sums += sides * OP_LANES;
    vf hi = experts_act(a, v_load(sums), v_load(sums + (sides - 1) * OP_LANES));
    float m = v_max16(v_max(v_abs(lo), v_abs(hi)));
    if (v_any_nan(lo) || v_any_nan(hi)) m = INFINITY;
    bool plain = m >= 0x1p-100f && m < INFINITY;
    float scale = plain ? m / 127.0f : m < INFINITY ? 0.0f : m, inverse = plain ? 127.0f / m : 0.0f;
    if (!plain) lo = hi = v_zero();
    int32_t sum = i_store8(h + b * OP_BLOCK, v_mul(lo, v_set(inverse)));
    sum += i_store8(h + b * OP_BLOCK + OP_LANES, v_mul(hi, v_set(inverse)));
    float *scales = (float *)(void *)(h + (size_t)blocks * OP_BLOCK);
    scales[b] = scale;
    ((int32_t *)(void *)(scales + blocks))[b] = sum;
}

/* Rows of one expert against block b of its outputs; `made`: panels the block has (2, or 1 at the end). */
INLINE void quant_up_rows(bool q4, int sides, const op_experts *a, const experts_knobs *knobs, int expert, int b,
                          int made, const uint8_t *next, qtile *t) {
    bool tail = fault_planted(FAULT_TAIL);
    int first = a->offset[expert], end = a->offset[expert + 1], most = knobs->rows;
    int panels = quant_tile_lines(knobs) / sides < made ? quant_tile_lines(knobs) / sides : made;
    const uint8_t *w = t->w;
    float *sums = t->y;
    for (int row = first, rows; row < end; row += rows) {
        rows = qtile_rows(end - row, most);
        for (int r = 0; r < rows; r++) {
            int twin = tail && rows < most && row > first && r == rows - 1;
            t->x[r] = (const int8_t *)a->x + (size_t)(a->pair[row + r - twin] / a->k) * a->ldx;
        }
        for (int p = 0; p < made; p += panels) {
            t->w = w + (size_t)p * t->panel;
            if (panels == made)
                qtile_fetch(q4, sides, made, row - first, rows, end - first, most, next, t);
            else
                qtile_stream(q4, sides, rows, p + panels < made ? t->w + (size_t)panels * t->panel : NULL, t);
            t->y = sums + p * sides * OP_LANES;
            qtile_product(q4, sides, panels, rows, t);
        }
        for (int r = 0; r < rows; r++)
            quant_store_block(a, sums + (size_t)r * t->ldy, sides, (int8_t *)a->h + (size_t)(row + r) * a->ldh,
                              quant_blocks(a->f), b);
    }
    t->w = w, t->y = sums;
}

INLINE void quant_up(cadre_dtype type, const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    _Alignas(64) float sums[QTILE_ROWS * 4 * OP_LANES] = {0};
    int sides = a->act == CADRE_RELU2 ? 1 : 2, panels = op_panels(a->f);
    qtile t = {.panel = quant_panel_bytes(type, a->d, sides == 2),
               .blocks = quant_blocks(a->d),
               .y = sums,
               .ldy = (size_t)sides * 2 * OP_LANES,
               .order = fault_planted(FAULT_ORDER)};
    for (int b = lo / 2; b * 2 < hi; b++) {
        int made = panels - b * 2 < 2 ? panels - b * 2 : 2;
        if (made == 1) memset(sums, 0, sizeof sums); /* the other half of the block does not exist */
        t.w = (const uint8_t *)a->w_up + (size_t)expert * a->up_stride + (size_t)(b * 2) * t.panel;
        const uint8_t *next = (b + 1) * 2 < hi ? t.w + 2 * t.panel : NULL;
        if (sides == 2)
            quant_up_rows(type == CADRE_Q4, 2, a, knobs, expert, b, made, next, &t);
        else
            quant_up_rows(type == CADRE_Q4, 1, a, knobs, expert, b, made, next, &t);
    }
}

/* ---- down ---- */

INLINE void quant_down_rows(bool q4, const op_experts *a, int most, int expert, int at, int panels, const uint8_t *next,
                            qtile *t) {
    bool tail = fault_planted(FAULT_TAIL);
    int first = a->offset[expert], end = a->offset[expert + 1];
    for (int row = first, rows; row < end; row += rows) {
        rows = qtile_rows(end - row, most);
        for (int r = 0; r < rows; r++) t->x[r] = (const int8_t *)a->h + (size_t)(row + r) * a->ldh;
        if (tail && rows < most && row > first) t->x[rows - 1] -= a->ldh;
        t->y = a->slots + (size_t)row * t->ldy + at * OP_LANES;
        qtile_fetch(q4, 1, panels, row - first, rows, end - first, most, next, t);
        qtile_product(q4, 1, panels, rows, t);
    }
}

INLINE void quant_down(cadre_dtype type, const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    qtile t = {.panel = quant_panel_bytes(type, a->f, false),
               .blocks = quant_blocks(a->f),
               .ldy = (size_t)(hi - lo) * OP_LANES,
               .order = fault_planted(FAULT_ORDER)};
    for (int expert = experts_active(a, -1), after; expert < a->e; expert = after) {
        after = experts_active(a, expert);
        const uint8_t *w = (const uint8_t *)a->w_down + (size_t)expert * a->down_stride;
        const uint8_t *w_after =
            after < a->e ? w + (size_t)(after - expert) * a->down_stride + (size_t)lo * t.panel : NULL;
        for (int p = lo, panels; p < hi; p += panels) {
            panels = quant_tile_lines(knobs);
            while (panels > hi - p) panels /= 2;
            t.w = w + (size_t)p * t.panel;
            const uint8_t *next = p + panels < hi ? t.w + (size_t)panels * t.panel : w_after;
            quant_down_rows(type == CADRE_Q4, a, knobs->rows, expert, p - lo, panels, next, &t);
        }
    }
    experts_combine(a, lo, hi);
}

/* ---- the kernels ---- */
static inline void up_q8(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    quant_up(CADRE_Q8, a, knobs, expert, lo, hi);
}
static inline void up_q4(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi) {
    quant_up(CADRE_Q4, a, knobs, expert, lo, hi);
}
static inline void down_q8(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    quant_down(CADRE_Q8, a, knobs, lo, hi);
}
static inline void down_q4(const op_experts *a, const experts_knobs *knobs, int lo, int hi) {
    quant_down(CADRE_Q4, a, knobs, lo, hi);
}
static inline bool quant_ok(const op_knobs *knobs) {
    return knobs->experts.rows * quant_tile_lines(&knobs->experts) <= QTILE;
}
