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
/* How far ahead of the loads a stream of weights is asked for, in bytes of each panel; how much of the next panels is
 * asked for where the CPU is left to find the stream, in blocks. */
enum { QTILE_NEAR = 2048, QTILE_HEAD = 2 };

typedef struct qtile {
    const uint8_t *w; /* first panel */
    size_t panel;     /* bytes from one panel to the next */
    int blocks;
    const int8_t *x[QTILE_ROWS]; /* rows (quant.h) */
    float *y;                    /* row r, panel p, side g at y[r * ldy + (p * sides + g) * 16] */
    size_t ldy;
    const uint8_t *next; /* the panels that come after these, NULL: unknown, or these again */
    int near;            /* what is asked for is so many blocks on, 0: nothing is */
    const uint8_t *soon; /* instead: `ask` lines of the next panels in each block, from soon on */
    int ask;
    bool warm;  /* the previous panels' tiles have asked for all of w */
    bool order; /* fault: odd blocks after even ones */
} qtile;

/* The rows of the next pass when `left` are left: passes over the same panels share them evenly. */
static inline int qtile_rows(int left, int most) {
    if (most > 4) return left >= 8 ? 8 : left > 4 ? 4 : left;
    int passes = (left + most - 1) / most;
    return (left + passes - 1) / passes;
}

/* ---- what is asked for ahead of time ---- */

/* A pass that streams its weights. With one row of 8 bits the loads themselves run far enough ahead: the CPU sees the
 * streams and is better left alone. */
static inline void qtile_stream(bool q4, int sides, int rows, const uint8_t *next, qtile *t) {
    t->next = next, t->ask = 0;
    t->near = q4 || rows > 1 ? QTILE_NEAR / ((q4 ? 4 : 8) * 64 * sides) : 0;
}

/* A pass of `rows` rows, `at` and on of `total`, over `panels` panels. Where there are several passes, all but a first
 * one that has to stream share out the next panels, so that memory works while they compute. */
static inline void qtile_fetch(bool q4, int sides, int panels, int at, int rows, int total, int most,
                               const uint8_t *next, qtile *t) {
    int lines = (int)((size_t)panels * t->panel / 64), cold = t->warm ? 0 : qtile_rows(total, most);
    bool far = next && total > most, last = at + rows == total;
    qtile_stream(q4, sides, rows, last ? next : NULL, t);
    if (at > 0 || t->warm) t->near = 0;
    if (far && at >= cold) {
        int lo = (int)((int64_t)lines * (at - cold) / (total - cold));
        int hi = (int)((int64_t)lines * (at + rows - cold) / (total - cold));
        t->ask = (hi - lo + t->blocks - 1) / t->blocks;
        t->soon = next + (size_t)lo * 64;
    }
    if (last) t->warm = far;
}

INLINE void qtile_ask(const qtile *t, int b) {
    const char *p = (const char *)t->soon + (size_t)b * (size_t)t->ask * 64;
    for (int i = 0; i < t->ask; i++) _mm_prefetch(p + i * 64, _MM_HINT_T0);
}

INLINE void qtile_head(int lines, int sides, int panels, const qtile *t) {
    size_t bytes = (size_t)(lines * sides) * 64;
    const char *p = (const char *)t->next;
    for (int i = 0; i < panels; i++, p += t->panel) {
        for (size_t j = 0; j < QTILE_HEAD * bytes; j += 64) _mm_prefetch(p + j, _MM_HINT_T0);
        _mm_prefetch(p + (size_t)t->blocks * bytes, _MM_HINT_T0);
    }
}

/* `bytes` per block, `near` blocks on from block b: in these panels, or at the head of the next ones. `at`: where in a
 * panel the stream begins. */
INLINE const uint8_t *qtile_soon(const qtile *t, size_t at, size_t bytes, int b) {
    int soon = b + t->near;
    if (soon < t->blocks) return t->w + at + (size_t)soon * bytes;
    return t->next ? t->next + at + (size_t)(soon - t->blocks) * bytes : t->w + at + (size_t)b * bytes;
}

/* ---- the hot loop ---- */

/* One line of four inputs (Q8), or two (Q4), of every panel and side against every row. */
INLINE void qtile_line(bool near, bool q4, int sides, int panels, int rows, const uint8_t *w, const uint8_t *soon,
                       size_t panel, size_t side, const int8_t *const x[], int at, vi sums[QTILE_ROWS][QTILE_LINES]) {
    UNROLL for (int s = 0; s < panels * sides; s++) {
        size_t off = (size_t)(s / sides) * panel + (size_t)(s % sides) * side;
        if (near) _mm_prefetch((const char *)soon + off, _MM_HINT_T0);
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

INLINE void qtile_block(bool near, bool q4, int sides, int panels, int rows, const qtile *t, int b,
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
    const uint8_t *soon = near ? qtile_soon(t, 0, side * (size_t)sides, b) : w;
    if (!near && t->ask) qtile_ask(t, b);
    UNROLL for (int j = 0; j < lines; j++) {
        size_t at = (size_t)j * 64;
        qtile_line(near, q4, sides, panels, rows, w + at, soon + at, t->panel, side, x, j * step, sums);
    }
    size_t scales_at = (size_t)t->blocks * side * (size_t)sides;
    const uint8_t *scales = t->w + scales_at + (size_t)b * (size_t)sides * 32;
    if (near) {
        soon = qtile_soon(t, scales_at, (size_t)sides * 32, b);
        UNROLL for (int p = 0; p < panels; p++) _mm_prefetch((const char *)soon + (size_t)p * t->panel, _MM_HINT_T0);
    }
    UNROLL for (int s = 0; s < panels * sides; s++) {
        vf scale =
            v_load_bf16((const uint16_t *)(const void *)(scales + (size_t)(s / sides) * t->panel + s % sides * 32));
        UNROLL for (int r = 0; r < rows; r++) {
            vf both = v_mul(scale, v_set(quant_row_scales(t->x[r], t->blocks)[b]));
            acc[r][s] = v_fma(both, i_float(sums[r][s]), acc[r][s]);
        }
    }
}

INLINE void qtile_run(bool near, bool q4, int sides, int panels, int rows, const qtile *t) {
    vf acc[QTILE_ROWS][QTILE_LINES];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int s = 0; s < panels * sides; s++) acc[r][s] = v_zero();
    }
    bool order = t->order && rows > 1;
    for (int i = 0; i < t->blocks; i++) {
        int half = (t->blocks + 1) / 2, b = !order ? i : i < half ? 2 * i : 2 * (i - half) + 1;
        qtile_block(near, q4, sides, panels, rows, t, b, acc);
    }
    if (!near && !t->ask && t->next) qtile_head(q4 ? 4 : 8, sides, panels, t);
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int s = 0; s < panels * sides; s++) v_store(t->y + (size_t)r * t->ldy + s * OP_LANES, acc[r][s]);
    }
}

/* ---- from run-time sizes to constants ---- */
INLINE void qtile_near(bool q4, int sides, int panels, int rows, const qtile *t) {
    if (t->near > 0)
        qtile_run(true, q4, sides, panels, rows, t);
    else
        qtile_run(false, q4, sides, panels, rows, t);
}

INLINE void qtile_pick(bool q4, int sides, int panels, int rows, const qtile *t) {
    int reach = QTILE / (sides * panels);
    switch (rows) {
    case 1:
        qtile_near(q4, sides, panels, 1, t);
        break;
    case 2:
        if (reach >= 2) qtile_near(q4, sides, panels, 2, t);
        break;
    case 3:
        if (reach >= 3) qtile_near(q4, sides, panels, 3, t);
        break;
    case 4:
        if (reach >= 4) qtile_near(q4, sides, panels, 4, t);
        break;
    case 8:
        if (reach >= 8) qtile_near(q4, sides, panels, 8, t);
        break;
    }
}

INLINE void qtile_panels(bool q4, int sides, int panels, int rows, const qtile *t) {
    if (sides == 1 && panels == 4)
        qtile_pick(q4, 1, 4, rows, t);
    else if (panels == 2)
        qtile_pick(q4, sides, 2, rows, t);
    else
        qtile_pick(q4, sides, 1, rows, t);
}

/* Kept apart from their callers, whose variables would take registers from the tiles. */
APART void qtile_q8(int panels, int rows, const qtile *t) {
    qtile_panels(false, 1, panels, rows, t);
}
APART void qtile_q8_gated(int panels, int rows, const qtile *t) {
    qtile_panels(false, 2, panels, rows, t);
}
APART void qtile_q4(int panels, int rows, const qtile *t) {
    qtile_panels(true, 1, panels, rows, t);
}
APART void qtile_q4_gated(int panels, int rows, const qtile *t) {
    qtile_panels(true, 2, panels, rows, t);
}

/* panels: 1, 2 or (without a gate) 4; rows: of qtile_rows; rows * panels * sides <= QTILE. */
INLINE void qtile_product(bool q4, int sides, int panels, int rows, const qtile *t) {
    if (q4)
        (sides == 2 ? qtile_q4_gated : qtile_q4)(panels, rows, t);
    else
        (sides == 2 ? qtile_q8_gated : qtile_q8)(panels, rows, t);
}
#endif
