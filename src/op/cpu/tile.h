/* tile.h: the register tile under every matrix product: a few rows of x times a few panels of packed weights.
 *
 *             panel 0          panel 1
 *   x row 0   acc  acc(up)     acc  acc(up)      each acc: 16 outputs, one chain over the groups of k
 *   x row 1   acc  acc(up)     acc  acc(up)
 *
 * Each line of weights is loaded once per tile and meets every row; each 4 bytes of x are spread over the lanes. Rows
 * and panels are constants inside, so the accumulators are registers. Nothing here decides an order: a chain is the
 * same in every tile. What becomes of the sums is the business of dense_tmpl.h and experts_tmpl.h.
 */
#ifndef CADRE_OP_CPU_TILE_H
#define CADRE_OP_CPU_TILE_H
#include "op/cpu/vec.h"

#include <math.h>

enum { TILE_ROWS = 8, TILE_LINES = 8, TILE_BYTES = 64 };
/* How far ahead of the loads weights are asked for, over all panels; from how many rows on, and for how many bytes at
 * most, all of the next panels are asked for instead (these and the next should fit a second-level cache of 1 MiB). */
enum { TILE_NEAR = 4096, TILE_BUSY = 9, TILE_FAR = 384 * 1024 };

typedef struct tile {
    const char *w;            /* first panel */
    size_t panel;             /* bytes from one panel to the next */
    int groups;               /* steps of a chain */
    const char *x[TILE_ROWS]; /* rows of input */
    float *y;                 /* sums: row r, panel p, side g at y[r * ldy + (p * sides + g) * 16] */
    size_t ldy;
    const char *soon, *next; /* weights to ask for: from soon on, after `own` steps from next on */
    size_t stride;           /* bytes that soon moves in a step */
    int own;
    bool warm;  /* the previous panels' tiles have asked for all of w */
    bool order; /* fault: add in another order */
} tile;

/* Chooses what tile number `pass` of `passes` over the same panels asks for; rows: of all passes; next: the panels
 * after them, NULL: unknown. Few rows stream: they stay a little ahead of themselves and end with the head of next.
 * More rows share out the whole of next, so that memory works while they compute; unless w is warm, the first pass of
 * several streams w. */
static inline void tile_fetch(tile *t, int sides, int panels, int pass, int passes, int rows, const char *next) {
    size_t line = (size_t)sides * TILE_BYTES;
    int reach = TILE_NEAR / panels, near = reach / (int)line, first = t->warm ? 0 : 1;
    bool far = next && passes > 1 && rows >= TILE_BUSY && (size_t)panels * t->panel <= TILE_FAR;
    t->soon = t->w + reach, t->stride = line, t->own = t->groups, t->next = next;
    if (far && pass >= first) {
        t->stride = line / (size_t)(passes - first);
        t->soon = next + (size_t)(pass - first) * t->stride * (size_t)t->groups;
    } else if (next && pass == passes - 1) {
        t->own = t->groups > near ? t->groups - near : 0;
    }
    if (pass == passes - 1) t->warm = far;
}

/* ---- the hot loop: all but t, w, panel, x and at are constants; sides: 2 if gate and up lie side by side ---- */
INLINE void tile_prefetch(const char *at, size_t panel, int sides, int panels) {
    UNROLL for (int s = 0; s < panels * sides; s++)
        _mm_prefetch(at + (size_t)(s / sides) * panel + s % sides * TILE_BYTES, _MM_HINT_T0);
}

INLINE void tile_step(bool bf16, int phase, int sides, int panels, int rows, const char *w, size_t panel,
                      const char *const x[], size_t at, vf acc[TILE_ROWS][TILE_LINES]) {
    vw xs[TILE_ROWS];
    UNROLL for (int r = 0; r < rows; r++) xs[r] = w_input(bf16, phase, x[r] + at);
    UNROLL for (int s = 0; s < panels * sides; s++) {
        vw line = w_line(bf16, phase, w + (size_t)(s / sides) * panel + s % sides * TILE_BYTES);
        UNROLL for (int r = 0; r < rows; r++) acc[r][s] = w_step(bf16, acc[r][s], line, xs[r]);
    }
}

INLINE void tile_run(bool bf16, int sides, int panels, int rows, const tile *t) {
    vf acc[TILE_ROWS][TILE_LINES];
    const char *x[TILE_ROWS], *w = t->w, *soon = t->soon;
    size_t panel = t->panel, stride = t->stride;
    int lines = panels * sides, i = 0;
    UNROLL for (int r = 0; r < rows; r++) {
        x[r] = t->x[r];
        UNROLL for (int s = 0; s < lines; s++) acc[r][s] = v_zero();
    }
    for (int part = 0; part < 2; part++) {
        for (int end = part == 0 ? t->own : t->groups; i < end; i++) {
            tile_prefetch(soon, panel, sides, panels);
            tile_step(bf16, 0, sides, panels, rows, w, panel, x, (size_t)i * 4, acc);
            if (bf16 && !VEC_ONE_PHASE) {
                size_t at = (size_t)i * 4;
                __asm__("" : "+r"(w), "+r"(at)); /* load again: keeping lines and inputs would spill accumulators */
                tile_step(bf16, 1, sides, panels, rows, w, panel, x, at, acc);
            }
            w += sides * TILE_BYTES;
            soon += stride;
        }
        soon = t->next;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int s = 0; s < lines; s++) v_store(t->y + (size_t)r * t->ldy + s * OP_LANES, acc[r][s]);
    }
}

/* ---- from run-time sizes to constants ---- */
INLINE void tile_rows(bool bf16, int sides, int panels, int rows, const tile *t) {
    int reach = VEC_TILE / (sides * panels); /* rows whose accumulators fit the registers */
    if (reach >= 1 && rows == 1) tile_run(bf16, sides, panels, 1, t);
    if (reach >= 2 && rows == 2) tile_run(bf16, sides, panels, 2, t);
    if (reach >= 3 && rows == 3) tile_run(bf16, sides, panels, 3, t);
    if (reach >= 4 && rows == 4) tile_run(bf16, sides, panels, 4, t);
    if (reach >= 5 && rows == 5) tile_run(bf16, sides, panels, 5, t);
    if (reach >= 6 && rows == 6) tile_run(bf16, sides, panels, 6, t);
    if (reach >= 7 && rows == 7) tile_run(bf16, sides, panels, 7, t);
    if (reach >= 8 && rows == 8) tile_run(bf16, sides, panels, 8, t);
}

INLINE float tile_faulty_chain(bool bf16, int groups, const char *w, size_t step, const char *x) {
    float acc = 0, other = 0;
    for (int i = 0; i < groups; i++, w += step, x += 4) {
        if (bf16) {
            uint16_t a[2], b[2];
            memcpy(a, w, sizeof a);
            memcpy(b, x, sizeof b);
            acc = fmaf(op_from_bf16(a[0]), op_from_bf16(b[0]), acc);
            acc = fmaf(op_from_bf16(a[1]), op_from_bf16(b[1]), acc);
        } else {
            float a, b;
            memcpy(&a, w, sizeof a);
            memcpy(&b, x, sizeof b);
            if (i % 2)
                other = fmaf(a, b, other);
            else
                acc = fmaf(a, b, acc);
        }
    }
    return acc + other;
}

/* FAULT_ORDER: even elements first (bf16), two half chains (f32). Never fast. */
INLINE void tile_faulty(bool bf16, int sides, int panels, int rows, const tile *t) {
    size_t step = (size_t)sides * TILE_BYTES;
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < panels * sides * OP_LANES; j++) {
            int s = j / OP_LANES;
            const char *w = t->w + (size_t)(s / sides) * t->panel + s % sides * TILE_BYTES + j % OP_LANES * 4;
            t->y[(size_t)r * t->ldy + j] = tile_faulty_chain(bf16, t->groups, w, step, t->x[r]);
        }
}

INLINE void tile_panels(bool bf16, int sides, int panels, int rows, const tile *t) {
    if (t->order && rows > 1)
        tile_faulty(bf16, sides, panels, rows, t);
    else if (panels == 4)
        tile_rows(bf16, sides, 4, rows, t);
    else if (panels == 2)
        tile_rows(bf16, sides, 2, rows, t);
    else
        tile_rows(bf16, sides, 1, rows, t);
}

/* Kept apart from their callers, whose variables would take registers from the tiles. */
APART void tile_f32(int panels, int rows, const tile *t) {
    tile_panels(false, 1, panels, rows, t);
}
APART void tile_f32_gated(int panels, int rows, const tile *t) {
    tile_panels(false, 2, panels, rows, t);
}
APART void tile_bf16(int panels, int rows, const tile *t) {
    tile_panels(true, 1, panels, rows, t);
}
APART void tile_bf16_gated(int panels, int rows, const tile *t) {
    tile_panels(true, 2, panels, rows, t);
}

/* panels: 1, 2 or 4; rows * panels * (2 if gated) <= VEC_TILE. */
INLINE void tile_product(cadre_dtype type, bool gated, int panels, int rows, const tile *t) {
    if (type == CADRE_BF16)
        (gated ? tile_bf16_gated : tile_bf16)(panels, rows, t);
    else
        (gated ? tile_f32_gated : tile_f32)(panels, rows, t);
}

/* The largest legal number of panels that is neither above `panels` nor above what is left. */
static inline int tile_fit(int panels, int left) {
    while (panels > left) panels /= 2;
    return panels;
}
#endif
