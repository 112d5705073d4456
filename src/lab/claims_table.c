/* claims_table.c: columns that other columns or rows determine, told by their headers.
 *
 *   arm | i1 | i2 | i3 | mean | sd         mean and sd of the runs of a row
 *   op | us | share      total | .. | 100  the last row; parts of it
 *   config | TPOT | delta                  against the row that has no delta
 *   case | before | after | speedup        against each other
 *
 * Where a header leaves open which columns are meant, the reading that most rows keep is taken, and rows that break it
 * are wrong; when most rows break every reading, the column is left alone. */
#include "claims_arm.h"
#include <math.h>
#include <string.h>

enum { COLUMNS = 64 };

typedef struct grid {
    claims_doc *d;
    const claims_table *t;
    claims_shape shapes[COLUMNS]; /* what a column holds, from its cells or its header */
    int units[COLUMNS];
    bool figures[COLUMNS];     /* most cells hold one figure */
    claims_span sums[COLUMNS]; /* the total row's, else of all rows */
} grid;

#define has(g, column, words) claims_header_has((g)->d, (g)->t, column, words)

static int figure_at(const grid *g, int row, int column) {
    return claims_cell_figure(g->d, g->t, row, column, false);
}

static bool label_has(const grid *g, int row, const char *words) {
    const claims_cell *c = claims_cell_at(g->d, g->t, row, 0);
    return claims_text_has(g->d->text + c->at, c->len, words);
}

static bool is_total(const grid *g, int row) {
    return label_has(g, row, "total|sum");
}

/* A unit in a header, "TPOT (ms)", "time, us", is that of cells that have none. */
static int header_unit(const grid *g, int column) {
    const claims_cell *c = claims_cell_at(g->d, g->t, 0, column);
    const char *text = g->d->text + c->at;
    size_t len;
    for (size_t i = 0; i < c->len; i++) {
        bool start = !i || strchr(" (,[/", text[i - 1]);
        int unit = start ? claims_unit_at(text + i, c->len - i, text[i] == '%', &len) : 0;
        if (unit && claims_units[unit].shape != CLAIMS_FOLD) return unit;
    }
    return 0;
}

static claims_span column_sum(const grid *g, int column) {
    claims_span sum = {0, 0};
    for (int r = 1; r < g->t->rows; r++) {
        int f = figure_at(g, r, column);
        if (f < 0) continue;
        if (is_total(g, r)) return claims_base_of(&g->d->tokens[f]);
        sum = claims_add(sum, claims_base_of(&g->d->tokens[f]));
    }
    return sum;
}

static void look(grid *g) {
    for (int c = 0; c < g->t->columns && c < COLUMNS; c++) {
        int n = 0, unit = 0;
        for (int r = 1; r < g->t->rows; r++) {
            int f = figure_at(g, r, c);
            if (f < 0) continue;
            n++;
            if (!unit) unit = g->d->tokens[f].unit;
        }
        int told = header_unit(g, c);
        g->figures[c] = n > 0 && 2 * n >= g->t->rows - 1;
        g->units[c] = unit ? unit : told;
        g->shapes[c] = claims_units[g->units[c]].shape;
        for (int r = 1; r < g->t->rows && told && !unit; r++) {
            int f = figure_at(g, r, c);
            if (f >= 0) g->d->tokens[f].unit = told;
        }
        g->sums[c] = column_sum(g, c);
    }
}

/* ---- runs of a row ---- */

static bool is_run(const grid *g, int column) {
    return g->figures[column] && claims_is_run(g->d, g->t, column);
}

typedef enum statistic { MEAN, MEDIAN, SD, LEAST, MOST, TOTAL, STATISTICS } statistic;
static const struct {
    const char *words, *name;
} statistics[STATISTICS] = {{"mean|avg|average", "mean"}, {"median", "median"},   {"sd|std|stdev|stddev", "sd"},
                            {"min|minimum", "min"},       {"max|maximum", "max"}, {"total|sum", "sum"}};

static claims_span statistic_of(statistic s, claims_span *v, int n) {
    if (s == TOTAL) return claims_scaled(claims_mean_of(v, n), n);
    if (s == MEAN) return claims_mean_of(v, n);
    if (s == SD) return claims_sd_of(v, n, 1);
    claims_sort(v, n);
    if (s == LEAST) return v[0];
    if (s == MOST) return v[n - 1];
    return n & 1 ? v[n / 2] : claims_scaled(claims_add(v[n / 2 - 1], v[n / 2]), 0.5);
}

static void row_statistic(grid *g, int row, int column, statistic s, const int *runs, int count) {
    claims_span v[COLUMNS];
    int figure = figure_at(g, row, column), n = 0;
    for (int i = 0; i < count; i++) {
        int f = figure_at(g, row, runs[i]);
        if (f >= 0) v[n++] = claims_span_of(&g->d->tokens[f]);
    }
    if (figure < 0 || n < 2) return;
    claims_span readings[2] = {statistic_of(s, v, n), {NAN, NAN}};
    if (s == SD) readings[1] = claims_sd_of(v, n, 0);
    claims_settle_any(g->d, figure, statistics[s].name, readings, 2, "the %s of the %d runs of this row is %.7g",
                      statistics[s].name, n, claims_mid(readings[0]));
}

static void row_statistics(grid *g) {
    int runs[COLUMNS], count = 0;
    for (int c = 1; c < g->t->columns; c++)
        if (is_run(g, c)) runs[count++] = c;
    if (count < 2) return;
    for (int c = 1; c < g->t->columns; c++)
        for (int s = 0; s < STATISTICS && !is_run(g, c); s++)
            for (int r = 1; r < g->t->rows && has(g, c, statistics[s].words); r++)
                row_statistic(g, r, c, (statistic)s, runs, count);
}

/* ---- totals ---- */

static bool addable(const grid *g, int c) {
    return g->figures[c] && g->shapes[c] != CLAIMS_FOLD && g->shapes[c] != CLAIMS_RATE &&
           !has(g, c, "mean|median|avg|ratio|speedup|min|max|sd|delta|change|each|of") &&
           (!has(g, c, "per") || has(g, c, "step|token|layer")) && claims_cell_at(g->d, g->t, 0, c)->len;
}

/* NaNs where there is nothing to add up, or the cell of `row` lies among those above: a mean of them, then. */
static claims_span sum_above(const grid *g, int row, int column) {
    const claims_token *total = &g->d->tokens[figure_at(g, row, column)];
    claims_span sum = {0, 0}, none = {NAN, NAN};
    double low = INFINITY, high = -INFINITY;
    int n = 0;
    for (int r = 1; r < row; r++) {
        int f = figure_at(g, r, column);
        if (f < 0 || is_total(g, r)) return none;
        sum = claims_add(sum, claims_base_of(&g->d->tokens[f]));
        low = fmin(low, g->d->tokens[f].value), high = fmax(high, g->d->tokens[f].value);
        n++;
    }
    bool among = n > 1 && high > low && total->value >= low && total->value <= high;
    return n < 2 || (among && low >= 0) ? none : sum;
}

/* "mean", "average": of the rows above, when most columns say so. */
static void mean_row(grid *g, int row) {
    claims_span means[COLUMNS];
    int fit = 0, miss = 0;
    for (int c = 1; c < g->t->columns; c++) {
        int f = g->figures[c] ? figure_at(g, row, c) : -1, n = 0;
        claims_span sum = {0, 0};
        for (int r = 1; r < row && f >= 0; r++) {
            int above = figure_at(g, r, c);
            if (above < 0) f = -1;
            if (above >= 0) sum = claims_add(sum, claims_base_of(&g->d->tokens[above])), n++;
        }
        means[c] =
            f < 0 || n < 2 ? (claims_span){NAN, NAN} : claims_scaled(sum, 1 / (n * claims_scale_of(&g->d->tokens[f])));
        if (claims_known(means[c])) *(claims_meet(claims_span_of(&g->d->tokens[f]), means[c]) ? &fit : &miss) += 1;
    }
    if (miss > fit || (miss == fit && miss > 1)) return;
    for (int c = 1; c < g->t->columns; c++)
        if (claims_known(means[c]))
            claims_settle(g->d, figure_at(g, row, c), "mean", means[c], "the mean of the rows above is %.8g",
                          claims_mid(means[c]));
}

static void total_row(grid *g, int row) {
    int fit = 0, miss = 0;
    claims_span sums[COLUMNS];
    for (int c = 1; c < g->t->columns; c++) {
        int f = addable(g, c) ? figure_at(g, row, c) : -1;
        sums[c] = (claims_span){NAN, NAN};
        if (f < 0) continue;
        sums[c] = claims_scaled(sum_above(g, row, c), 1 / claims_scale_of(&g->d->tokens[f]));
        if (!claims_known(sums[c])) continue;
        *(claims_meet(claims_span_of(&g->d->tokens[f]), sums[c]) ? &fit : &miss) += 1;
    }
    if (miss > 1 && miss >= fit) return; /* a total of more than is shown, or of something else */
    for (int c = 1; c < g->t->columns; c++)
        if (claims_known(sums[c]))
            claims_settle(g->d, figure_at(g, row, c), "sum", sums[c], "the rows above add up to %.8g",
                          claims_mid(sums[c]));
}

/* ---- columns against columns ---- */

#define DELTA \
    "delta|change|diff|difference|speedup|gain|faster|saved|saving|savings|reduction|improvement|increase|decrease"

/* What a column says of others, not a value of its own. */
static bool is_delta(const grid *g, int column) {
    const claims_cell *c = claims_cell_at(g->d, g->t, 0, column);
    return has(g, column, DELTA) || (c->len >= 2 && !memcmp(g->d->text + c->at, "\xCE\x94", 2));
}

/* One reading of a column: its cell in a row from others. */
typedef struct reading {
    enum { FROM_ROW, FROM_COLUMNS, SHARE, PRODUCT, QUOTIENT, PER_STEP, LENGTH, ACROSS } kind;
    enum { CHANGE, FOLD_DOWN, FOLD_UP, LESS, SPEED, MINUS } formula; /* of after against before */
    int a, b;                                                        /* columns; FROM_ROW: a is the row, b the column */
    const char *rule;
} reading;

static claims_span base_at(const grid *g, int row, int column) {
    int f = figure_at(g, row, column);
    return f < 0 ? (claims_span){NAN, NAN} : claims_base_of(&g->d->tokens[f]);
}

static claims_span apply(const reading *x, claims_span before, claims_span after, double scale) {
    switch (x->formula) {
    case CHANGE:
        return claims_change(before, after);
    case LESS:
        return claims_scaled(claims_change(before, after), -1);
    case SPEED:
        return claims_change(after, before);
    case FOLD_DOWN:
        return claims_div(before, after);
    case FOLD_UP:
        return claims_div(after, before);
    default:
        return claims_scaled(claims_sub(after, before), 1 / scale);
    }
}

/* Of all columns to the left that hold what this one holds. */
static claims_span sum_across(const grid *g, int row, int column) {
    claims_span sum = {0, 0};
    int n = 0;
    for (int c = 1; c < column; c++) {
        if (!g->figures[c] || g->shapes[c] != g->shapes[column] || is_delta(g, c)) continue;
        claims_span v = base_at(g, row, c);
        if (!claims_known(v)) return v;
        sum = claims_add(sum, v);
        n++;
    }
    return n < 2 ? (claims_span){NAN, NAN} : sum;
}

static claims_span reading_at(const grid *g, const reading *x, int row, int column) {
    double scale = claims_units[g->units[column]].scale;
    switch (x->kind) {
    case FROM_ROW:
        return apply(x, base_at(g, x->a, x->b), base_at(g, row, x->b), scale);
    case FROM_COLUMNS:
        return apply(x, base_at(g, row, x->a), base_at(g, row, x->b), scale);
    case SHARE:
        return claims_scaled(claims_div(base_at(g, row, x->a), g->sums[x->a]), 100);
    case PRODUCT:
    case PER_STEP:
        return claims_scaled(claims_mul(base_at(g, row, x->a), base_at(g, row, x->b)), 1 / scale);
    case ACROSS:
        return claims_scaled(sum_across(g, row, column), 1 / scale);
    case LENGTH:
        return claims_add(claims_whole(1), claims_div(base_at(g, row, x->a), base_at(g, row, x->b)));
    default: {
        claims_span q = claims_div(base_at(g, row, x->a), base_at(g, row, x->b));
        return claims_scaled(q, g->shapes[column] == CLAIMS_PERCENT ? 100 : 1);
    }
    }
}

static void count_fits(const grid *g, const reading *x, int column, int *fit, int *miss) {
    *fit = *miss = 0;
    for (int r = 1; r < g->t->rows; r++) {
        int f = figure_at(g, r, column);
        claims_span v = f < 0 ? (claims_span){NAN, NAN} : reading_at(g, x, r, column);
        if (f < 0 || !claims_known(v) || (x->kind == FROM_ROW && x->a == r)) continue;
        claims_token t = g->d->tokens[f];
        *(claims_meet(claims_span_of(&t), v) ? fit : miss) += 1;
    }
}

/* The best reading settles the column: when it fits most rows, or (`told`: the header says it) when nothing speaks
 * against it but one row or two. */
static void settle_column(grid *g, int column, const reading *readings, int count, bool told) {
    int best = -1, best_fit = -1, best_miss = 0;
    for (int i = 0; i < count; i++) {
        int fit, miss;
        count_fits(g, &readings[i], column, &fit, &miss);
        if (fit + miss && (fit > best_fit || (fit == best_fit && miss < best_miss)))
            best = i, best_fit = fit, best_miss = miss;
    }
    if (best < 0 || (told ? best_miss > best_fit + 1 : best_miss >= best_fit)) return;
    const reading *x = &readings[best];
    for (int r = 1; r < g->t->rows; r++) {
        int f = figure_at(g, r, column);
        if (f < 0 || (x->kind == FROM_ROW && x->a == r)) continue;
        claims_span v = reading_at(g, x, r, column);
        claims_settle(g->d, f, x->rule, v, "the %s by this table is %+.6g", x->rule, claims_mid(v));
    }
}

/* The row that others are compared with: its cell is empty or a dash, or says that it is the base. */
static int base_row(const grid *g, int column) {
    for (int r = 1; r < g->t->rows; r++) {
        const claims_cell *c = claims_cell_at(g->d, g->t, r, column);
        const char *text = g->d->text + c->at;
        if (figure_at(g, r, column) < 0 && (c->len <= 3 || claims_text_has(text, c->len, "base*|reference|ref")))
            return r;
    }
    for (int r = 1; r < g->t->rows; r++) {
        int f = figure_at(g, r, column);
        const claims_token *t = f < 0 ? NULL : &g->d->tokens[f];
        if (t && ((t->value == 0 && claims_shape_of(t) == CLAIMS_PERCENT) || (t->value == 1 && t->unit))) return r;
        if (label_has(g, r, "baseline|base|before|reference|control")) return r;
    }
    return -1;
}

static int column_left(const grid *g, int column, int skip) {
    for (int c = column - 1; c > 0; c--)
        if (g->figures[c] && g->shapes[c] != CLAIMS_PERCENT && g->shapes[c] != CLAIMS_FOLD && !is_delta(g, c) &&
            !skip--)
            return c;
    return -1;
}

#define BEFORE "before|old|off|base|baseline|reference|from|default|stock"
#define AFTER  "after|new|on|patched|this|to|tuned|now"

static int add_readings(const grid *g, int c, reading *out) {
    bool percent = g->shapes[c] == CLAIMS_PERCENT, fold = g->shapes[c] == CLAIMS_FOLD || has(g, c, "speedup|ratio");
    bool ahead = has(g, c, "faster|speedup|gain|saved|saving|less|reduction");
    int near = column_left(g, c, 0), far = column_left(g, c, 1), base = base_row(g, c), n = 0;
    int formulas[4] = {0}, count = 0;
    if (percent) formulas[count++] = CHANGE;
    if (percent && ahead) formulas[count++] = LESS, formulas[count++] = SPEED;
    if (!percent && fold) formulas[count++] = FOLD_DOWN, formulas[count++] = FOLD_UP;
    if (!percent && !fold) formulas[count++] = MINUS;
    for (int i = 0; i < count; i++) {
        const char *rule = percent ? "change" : fold ? "ratio" : "difference";
        if (near > 0 && far > 0 && g->shapes[near] == g->shapes[far])
            out[n++] = (reading){FROM_COLUMNS, formulas[i], far, near, rule};
        if (near > 0 && base > 0) out[n++] = (reading){FROM_ROW, formulas[i], base, near, rule};
    }
    for (int a = 1; a < c; a++) /* before and after stand anywhere to the left */
        for (int b = 1; b < c && n < 40; b++)
            if (a != b && g->figures[a] && g->figures[b] && has(g, a, BEFORE) && has(g, b, AFTER))
                for (int i = 0; i < count; i++)
                    out[n++] = (reading){FROM_COLUMNS, formulas[i], a, b,
                                         percent ? "change"
                                         : fold  ? "ratio"
                                                 : "difference"};
    return n;
}

static void delta_column(grid *g, int c) {
    reading readings[48];
    bool told = is_delta(g, c) || has(g, c, "vs|against|ratio");
    if (!told || !g->figures[c]) return;
    for (int r = 1; r < g->t->rows; r++) /* "0.965 [0.954, 0.994]": an estimate of its own */
        if (claims_cell_figure(g->d, g->t, r, c, true) >= 0 && figure_at(g, r, c) < 0) return;
    settle_column(g, c, readings, add_readings(g, c, readings), true);
}

static int column_named(const grid *g, const char *words, int besides) {
    for (int c = 1; c < g->t->columns; c++)
        if (c != besides && g->figures[c] && has(g, c, words)) return c;
    return -1;
}

/* ms per token x tokens per step = ms per step; 1 + accepted / drafts; shares of a column. */
static void named_column(grid *g, int c) {
    int time = column_named(g, "tpot|token|itl", c), accepted = column_named(g, "acceptance|al", c);
    if (has(g, c, "step") && g->shapes[c] == CLAIMS_TIME && time > 0 && accepted > 0)
        settle_column(g, c, &(reading){PER_STEP, 0, time, accepted, "per-step"}, 1, true);
    int taken = column_named(g, "accepted", c), drafts = column_named(g, "drafts|steps", c);
    if (has(g, c, "acceptance|al") && taken > 0 && drafts > 0 && g->shapes[c] != CLAIMS_PERCENT)
        settle_column(g, c, &(reading){LENGTH, 0, taken, drafts, "acceptance"}, 1, true);
    int tokens = column_named(g, "draft|drafted|proposed", c);
    if (has(g, c, "rate") && g->shapes[c] == CLAIMS_PERCENT && taken > 0 && tokens > 0)
        settle_column(g, c, &(reading){QUOTIENT, 0, taken, tokens, "ratio"}, 1, true);
    if (has(g, c, "total|sum") && !claims_is_run(g->d, g->t, 1))
        settle_column(g, c, &(reading){ACROSS, 0, 0, 0, "sum"}, 1, false);
    int predicted = column_named(g, "predicted", c), measured = column_named(g, "measured", c);
    if (has(g, c, "conversion") && predicted > 0 && measured > 0)
        settle_column(g, c, &(reading){QUOTIENT, 0, measured, predicted, "conversion"}, 1, true);
    if (g->shapes[c] != CLAIMS_PERCENT || !has(g, c, "share|of|%")) return;
    reading readings[COLUMNS];
    int n = 0;
    for (int a = 1; a < g->t->columns; a++)
        if (a != c && g->figures[a] &&
            (g->shapes[a] == CLAIMS_TIME || g->shapes[a] == CLAIMS_SIZE || g->shapes[a] == CLAIMS_PLAIN))
            readings[n++] = (reading){SHARE, 0, a, 0, "share"};
    settle_column(g, c, readings, n, has(g, c, "share") && n == 1);
}

static bool header_is(const grid *g, int column, const char *text, size_t len) {
    const claims_cell *c = claims_cell_at(g->d, g->t, 0, column);
    const char *name = g->d->text + c->at;
    return c->len >= len && !memcmp(name, text, len) && (c->len == len || strchr(",( ", name[len]));
}

/* "a / b" and "a x b" of two other columns by name */
static void formula_column(grid *g, int c) {
    const claims_cell *h = claims_cell_at(g->d, g->t, 0, c);
    const char *text = g->d->text + h->at;
    for (uint32_t i = 2; i + 2 < h->len; i++) {
        size_t sign = text[i] == '/' || text[i] == 'x' ? 1 : !memcmp(text + i, "\xC3\x97", 2) ? 2 : 0;
        if (!sign || text[i - 1] != ' ' || text[i + sign] != ' ') continue;
        int a = -1, b = -1;
        for (int k = 1; k < g->t->columns; k++) {
            if (k == c || !g->figures[k]) continue;
            if (header_is(g, k, text, i - 1)) a = k;
            if (header_is(g, k, text + i + sign + 1, h->len - i - sign - 1)) b = k;
        }
        reading x = {text[i] == '/' ? QUOTIENT : PRODUCT, 0, a, b, text[i] == '/' ? "ratio" : "product"};
        if (a > 0 && b > 0 && g->figures[c]) settle_column(g, c, &x, 1, false);
        return;
    }
}

void claims_header_units(claims_doc *d) {
    for (int i = 0; i < d->table_count; i++) {
        grid g = {.d = d, .t = &d->tables[i]};
        look(&g);
    }
}

void claims_table_rules(claims_doc *d) {
    for (int i = 0; i < d->table_count && !d->failed; i++) {
        grid g = {.d = d, .t = &d->tables[i]};
        if (g.t->rows < 2 || g.t->columns < 2) continue;
        look(&g);
        row_statistics(&g);
        for (int r = 2, n = 0; r < g.t->rows && n < 4; r++)
            if (is_total(&g, r)) total_row(&g, r), n++;
        if (g.t->rows > 3 && label_has(&g, g.t->rows - 1, "mean|average|avg") &&
            claims_cell_at(d, g.t, g.t->rows - 1, 0)->len < 16)
            mean_row(&g, g.t->rows - 1);
        for (int c = 1; c < g.t->columns; c++) {
            delta_column(&g, c);
            named_column(&g, c);
            formula_column(&g, c);
        }
    }
}
