/* quant_tile.h: the register tile over quantized panels: tile.h's, with an exact integer sum per block.
 *
 *   per block:  sums (int32) = lines . x;   acc = fma(weight scale * x scale, sums, acc)      for each row and line
 *
 * A chain over ascending blocks in every tile, so nothing here decides an order.
 */
#ifndef CADRE_OP_CPU_QUANT_TILE_H
#define CADRE_OP_CPU_QUANT_TILE_H
#include "op/cpu/quant_vec.h"

#include <math.h>

enum { QTILE_ROWS = 8, QTILE_LINES = 4 };
#ifdef __AVX512F__
enum { QTILE = 16 }; /* sums take 16 of 32 registers */
#else
enum { QTILE = 4 }; /* sums take 8 of 16: both are pairs */
#endif
/* How far ahead of the loads each panel's weights are asked for, in bytes, and its scales, in blocks. */
#ifndef QTILE_AHEAD
#    define QTILE_AHEAD 2048
#endif
#ifndef QTILE_SCALES_AHEAD
#    define QTILE_SCALES_AHEAD 8
#endif

typedef struct qtile {
    const uint8_t *w; /* first panel */
    size_t panel;     /* bytes from one panel to the next */
    int blocks;
    const int8_t *x[QTILE_ROWS]; /* rows (quant.h) */
    float *y;                    /* row r, panel p, side g at y[r * ldy + (p * sides + g) * 16] */
    size_t ldy;
    const uint8_t *next; /* the panels that come after these, NULL: unknown, or these again */
    bool order;          /* fault: odd blocks after even ones */
} qtile;

/* `bytes` per block, `ahead` blocks on from block b: in these panels, or at the head of the next ones. `at`: where in a
 * panel the stream begins. */
INLINE const uint8_t *qtile_soon(const qtile *t, size_t at, size_t bytes, int b, int ahead) {
    int soon = b + ahead;
    if (soon < t->blocks) return t->w + at + (size_t)soon * bytes;
    return t->next ? t->next + at + (size_t)(soon - t->blocks) * bytes : t->w + at + (size_t)b * bytes;
}

/* One line of four inputs (Q8), or two (Q4), of every panel and side against every row. */
INLINE void qtile_line(bool q4, int sides, int panels, int rows, const uint8_t *w, const uint8_t *soon, size_t panel,
                       size_t side, const int8_t *const x[], int at, vi sums[QTILE_ROWS][QTILE_LINES]) {
    UNROLL for (int s = 0; s < panels * sides; s++) {
        size_t off = (size_t)(s / sides) * panel + (size_t)(s % sides) * side;
        _mm_prefetch((const char *)soon + off, _MM_HINT_T0);
        vi line = i_load(w + off);
        if (q4) {
            vi low = i_low(line), high = i_high(line);
            UNROLL for (int r = 0; r < rows; r++) {
                sums[r][s] = i_dot4(sums[r][s], low, i_input(x[r] + at));
                sums[r][s] = i_dot4(sums[r][s], high, i_input(x[r] + at + 4));
            }
        } else {
            line = i_signed(line);
            UNROLL for (int r = 0; r < rows; r++) sums[r][s] = i_dot8(sums[r][s], line, i_input(x[r] + at));
        }
    }
}

INLINE void qtile_block(bool q4, int sides, int panels, int rows, const qtile *t, int b,
                        vf acc[QTILE_ROWS][QTILE_LINES]) {
    int lines = q4 ? 4 : 8, step = q4 ? 8 : 4;
    size_t side = (size_t)lines * 64;
    const uint8_t *w = t->w + (size_t)b * side * (size_t)sides;
    const int8_t *x[QTILE_ROWS];
    vi sums[QTILE_ROWS][QTILE_LINES];
    UNROLL for (int r = 0; r < rows; r++) {
        x[r] = t->x[r] + (size_t)b * OP_BLOCK;
        vi start = i_start(q4, quant_row_sums(t->x[r], t->blocks)[b]);
        UNROLL for (int s = 0; s < panels * sides; s++) sums[r][s] = start;
    }
    const uint8_t *soon = qtile_soon(t, 0, side * (size_t)sides, b, QTILE_AHEAD / (lines * 64 * sides));
    for (int j = 0; j < lines; j++)
        qtile_line(q4, sides, panels, rows, w + (size_t)j * 64, soon + (size_t)j * 64, t->panel, side, x, j * step,
                   sums);
    size_t scales_at = (size_t)t->blocks * side * (size_t)sides;
    const uint8_t *scales = t->w + scales_at + (size_t)b * (size_t)sides * 32;
    soon = qtile_soon(t, scales_at, (size_t)sides * 32, b, QTILE_SCALES_AHEAD);
    UNROLL for (int p = 0; p < panels; p++) _mm_prefetch((const char *)soon + (size_t)p * t->panel, _MM_HINT_T0);
    UNROLL for (int s = 0; s < panels * sides; s++) {
        vf scale =
            v_load_bf16((const uint16_t *)(const void *)(scales + (size_t)(s / sides) * t->panel + s % sides * 32));
        UNROLL for (int r = 0; r < rows; r++) {
            vf both = v_mul(scale, v_set(quant_row_scales(t->x[r], t->blocks)[b]));
            acc[r][s] = v_fma(both, i_float(sums[r][s]), acc[r][s]);
        }
    }
}

INLINE void qtile_run(bool q4, int sides, int panels, int rows, const qtile *t) {
    vf acc[QTILE_ROWS][QTILE_LINES];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int s = 0; s < panels * sides; s++) acc[r][s] = v_zero();
    }
    bool order = t->order && rows > 1;
    for (int i = 0; i < t->blocks; i++) {
        int half = (t->blocks + 1) / 2, b = !order ? i : i < half ? 2 * i : 2 * (i - half) + 1;
        qtile_block(q4, sides, panels, rows, t, b, acc);
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int s = 0; s < panels * sides; s++) v_store(t->y + (size_t)r * t->ldy + s * OP_LANES, acc[r][s]);
    }
}

/* The rows of a tile: the largest of these that is at most `rows`; a caller goes on with the rest. */
INLINE int qtile_rows(int rows) {
    return rows >= 8 ? 8 : rows > 4 ? 4 : rows;
}

INLINE void qtile_pick(bool q4, int sides, int panels, int rows, const qtile *t) {
    int reach = QTILE / (sides * panels);
    switch (rows) {
    case 1:
        qtile_run(q4, sides, panels, 1, t);
        break;
    case 2:
        if (reach >= 2) qtile_run(q4, sides, panels, 2, t);
        break;
    case 3:
        if (reach >= 3) qtile_run(q4, sides, panels, 3, t);
        break;
    case 4:
        if (reach >= 4) qtile_run(q4, sides, panels, 4, t);
        break;
    case 8:
        if (reach >= 8) qtile_run(q4, sides, panels, 8, t);
        break;
    }
}

/* panels: 1, 2 or (without a gate) 4; rows: of qtile_rows; rows * panels * sides <= QTILE. */
INLINE void qtile_product(bool q4, int sides, int panels, int rows, const qtile *t) {
    if (sides == 1 && panels == 4)
        qtile_pick(q4, 1, 4, rows, t);
    else if (panels == 2)
        qtile_pick(q4, sides, 2, rows, t);
    else
        qtile_pick(q4, sides, 1, rows, t);
}
#endif
