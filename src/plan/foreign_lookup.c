/* foreign_lookup.c: the row a system takes for M, how far that row reaches, and whether a pair of tables agrees.
 *
 *   keys        16              49              80
 *   M     1 ............. 32|33 ...... 64|65 ...........
 *                          halfway between two keys (their sum is even): to the key that stands first in the file
 */
#include "plan/foreign.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t distance(const foreign_row *row, int m) {
    return llabs((int64_t)row->m - m);
}

/* The keys next to row i's by value, -1: none. */
static void neighbours(const foreign_table *t, int i, int *below, int *above) {
    *below = *above = -1;
    for (int j = 0; j < t->count; j++) {
        int m = t->rows[j].m;
        if (m < t->rows[i].m && (*below < 0 || m > t->rows[*below].m)) *below = j;
        if (m > t->rows[i].m && (*above < 0 || m < t->rows[*above].m)) *above = j;
    }
}

/* The first m that takes the upper of two neighbouring keys. Halfway (an even sum) goes to the row that comes first. */
static int border(const foreign_table *t, int lower, int upper) {
    int64_t sum = (int64_t)t->rows[lower].m + t->rows[upper].m;
    bool halfway_up = sum % 2 == 0 && upper < lower;
    return (int)(sum / 2 + !halfway_up);
}

/* vLLM, SGLang and torchada all take min(keys, key=|key - M|) over a dictionary, which keeps file order. */
cadre_err foreign_lookup(foreign_system rule, const foreign_table *table, int m, foreign_match *out, cadre_fail *why) {
    (void)rule;
    if (m < 1) return cadre_fail_set(why, CADRE_RANGE, "M=%d, expected at least 1", m);
    if (!table->count) return cadre_fail_set(why, CADRE_RANGE, "%.300s has no rows", table->path);
    foreign_match match = {.tie = -1, .reach_lo = 1, .reach_hi = INT_MAX};
    for (int i = 1; i < table->count; i++)
        if (distance(&table->rows[i], m) < distance(&table->rows[match.index], m)) match.index = i;
    int i = match.index, below, above;
    match.distance = (int)distance(&table->rows[i], m);
    for (int j = i + 1; j < table->count && match.tie < 0; j++)
        if (distance(&table->rows[j], m) == match.distance) match.tie = j;
    neighbours(table, i, &below, &above);
    if (below >= 0) match.reach_lo = border(table, below, i);
    if (above >= 0) match.reach_hi = border(table, i, above) - 1;
    *out = match;
    return CADRE_OK;
}

/* ---- pairs ---- */

/* Both tables' BLOCK_SIZE_M at m, and the last m up to which that holds. */
typedef struct pair {
    int base, down, last;
} pair;

static cadre_err look(foreign_system rule, const foreign_table *base, const foreign_table *down, int m, pair *out,
                      cadre_fail *why) {
    foreign_match a, b;
    cadre_err err = foreign_lookup(rule, base, m, &a, why);
    if (!err) err = foreign_lookup(rule, down, m, &b, why);
    if (err) return err;
    out->base = base->rows[a.index].config.v[GEMM_BM];
    out->down = down->rows[b.index].config.v[GEMM_BM];
    out->last = a.reach_hi < b.reach_hi ? a.reach_hi : b.reach_hi;
    return CADRE_OK;
}

cadre_err foreign_pair(foreign_system rule, const foreign_table *base, const foreign_table *down, int m_max,
                       cadre_fail *why) {
    pair p;
    for (int m = 1; m <= m_max; m = p.last + 1) {
        cadre_err err = look(rule, base, down, m, &p, why);
        if (err) return err;
        if (p.last > m_max) p.last = m_max;
        if (p.base != p.down) {
            char end[16] = " and above";
            if (p.last < INT_MAX) snprintf(end, sizeof end, "..%d", p.last);
            return cadre_fail_set(why, CADRE_RANGE, "BLOCK_SIZE_M differs at M=%d%s: %d in %.150s, %d in %.150s", m,
                                  end, p.base, base->path, p.down, down->path);
        }
        if (p.last == INT_MAX) break;
    }
    return CADRE_OK;
}
