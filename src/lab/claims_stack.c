/* claims_stack.c: what single changes predict for all of them together.
 *
 *   arm     | TPOT   | vs base          adding the differences:  11.635 + (10.761 - 11.635) + (9.553 - 11.635) = 8.679
 *   base    | 11.635 | -                multiplying the ratios:  11.635 x 0.9249 x 0.8211 = 8.835
 *   +a      | 10.761 | -7.51%
 *   +b      | 9.553  | -17.89%          measured:                8.594
 *   +a+b    | 8.594  | -26.13% */
#include "claims.h"
#include <math.h>
#include <string.h>

#define PREDICTED "predicted|predicts|predict|prediction|expects|expected|gives|give|null|would|estimate"

enum { READINGS_MOST = 32 };

typedef struct stack {
    const claims_table *table;
    int base, all, singles[4], count;
} stack;

static bool holds(const claims_doc *d, const claims_cell *whole, const claims_cell *part) {
    if (!part->len || part->len >= whole->len) return false;
    return memmem(d->text + whole->at, whole->len, d->text + part->at, part->len) != NULL;
}

/* The first row is the base; the last one's label holds the labels of two or more between. */
static bool read_stack(const claims_doc *d, const claims_table *t, stack *out) {
    stack s = {.table = t, .base = 1, .all = -1};
    for (int r = 3; r < t->rows && r < 16; r++) {
        int n = 0;
        for (int q = 2; q < r; q++)
            if (holds(d, claims_cell_at(d, t, r, 0), claims_cell_at(d, t, q, 0)) && n < 4) s.singles[n++] = q;
        const claims_cell *label = claims_cell_at(d, t, r, 0);
        if (!n && claims_text_has(d->text + label->at, label->len, "both|all|combined|together") && r <= 5)
            for (int q = 2; q < r; q++) s.singles[n++] = q;
        if (n >= 2) s.all = r, s.count = n;
    }
    *out = s;
    if (s.all < 0) return false;
    for (int i = 0, n = 0; i < s.count; i++) { /* "+a+b" holds "+a", and is no single change of "+a+b+c" */
        bool single = true;
        for (int k = 0; k < s.count; k++)
            single &= k == i || !holds(d, claims_cell_at(d, t, s.singles[i], 0), claims_cell_at(d, t, s.singles[k], 0));
        if (single) out->singles[n++] = s.singles[i];
        if (i == s.count - 1) out->count = n;
    }
    return out->count >= 2;
}

static claims_span at(const claims_doc *d, const stack *s, int row, int column) {
    int f = claims_cell_figure(d, s->table, row, column, false);
    return f < 0 ? (claims_span){NAN, NAN} : claims_base_of(&d->tokens[f]);
}

typedef enum means { MEASURED, ADDED, MULTIPLIED } means;

static claims_span together(const claims_doc *d, const stack *s, int column, means how) {
    claims_span base = at(d, s, s->base, column), v = base;
    if (how == MEASURED) return at(d, s, s->all, column);
    for (int i = 0; i < s->count; i++) {
        claims_span one = at(d, s, s->singles[i], column);
        v = how == ADDED ? claims_add(v, claims_sub(one, base)) : claims_mul(v, claims_div(one, base));
    }
    return v;
}

static bool is_value(const claims_doc *d, const stack *s, int column) {
    int f = claims_cell_figure(d, s->table, s->base, column, false);
    if (f < 0) return false;
    claims_shape shape = claims_shape_of(&d->tokens[f]);
    return shape == CLAIMS_TIME || shape == CLAIMS_RATE || (shape == CLAIMS_PLAIN && d->tokens[f].decimals > 0);
}

/* Every column of values may be meant. */
static void settle(claims_doc *d, const stack *s, int figure, means how) {
    claims_span readings[READINGS_MOST];
    const claims_token *t = &d->tokens[figure];
    bool percent = claims_shape_of(t) == CLAIMS_PERCENT;
    int n = 0;
    for (int c = 1; c < s->table->columns && n < READINGS_MOST; c++) {
        if (!is_value(d, s, c)) continue;
        bool bare = !d->tokens[claims_cell_figure(d, s->table, s->base, c, false)].unit;
        claims_span v = together(d, s, c, how);
        v = percent ? claims_change(at(d, s, s->base, c), v) : claims_scaled(v, bare ? 1 : 1 / claims_scale_of(t));
        if (percent && !t->is_signed) v = claims_abs(v);
        readings[n++] = v;
    }
    static const char *const told[] = {"measured together", "the single differences added",
                                       "the single ratios multiplied"};
    if (n)
        claims_settle_any(d, figure, "stack", readings, n, "%s: %.5g%s in the first column", told[how],
                          claims_mid(readings[0]), percent ? " %" : "");
}

/* The nearest figure to a word, before or behind it, that has a unit. */
static int figure_near(const claims_doc *d, const claims_part *p, int word) {
    for (int far = 1; far < 7; far++)
        for (int side = -1; side < 2; side += 2) {
            int i = word + side * far;
            if (i >= p->first && i < p->end && claims_figure(d, i) && d->tokens[i].unit) return i;
        }
    return -1;
}

static void sentence(claims_doc *d, const claims_part *p, const stack *s) {
    int product = claims_find(d, p->first, p->end, "multiply*|multipli*|product");
    int sum = claims_find(d, p->first, p->end, "adding|added|additive*|sum");
    int predicted = claims_find(d, p->first, p->end, PREDICTED);
    if (predicted < 0 || (product < 0 && sum < 0)) return;
    for (int i = p->first; i < p->end; i++) {
        if (!claims_word(d, i, PREDICTED "|measured")) continue;
        bool measured = claims_word(d, i, "measured");
        int f = figure_near(d, p, i);
        means how = measured                                                                         ? MEASURED
                    : product >= 0 && (sum < 0 || fabs((double)product - i) < fabs((double)sum - i)) ? MULTIPLIED
                                                                                                     : ADDED;
        if (f >= 0) settle(d, s, f, how);
    }
}

/* The last stack before a sentence is the one it speaks of. */
void claims_stack_rules(claims_doc *d) {
    stack s = {0};
    int t = 0;
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        const claims_part *p = &d->parts[k];
        for (; t < d->table_count && d->tables[t].block < p->block; t++) {
            stack found;
            if (read_stack(d, &d->tables[t], &found)) s = found;
        }
        if (s.table && p->place != CLAIMS_CELL) sentence(d, p, &s);
    }
}
