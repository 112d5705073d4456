/* claims_arm.c: figures of arms that a table, a list or the samples name.
 *
 *   arm | TPOT | acceptance          A -> B = -11.2 %          per step A -> B -12.9 %
 *   OFF | i1 .. i5 | mean            min(ON) = 23510.6, sd is 18.0 (OFF) and 23.1 (ON)
 *   - B1 = old table -> 5.9282 ms, TTFT 1513.5
 *   - B3 = new table -> 5.5659 ms, TTFT 1513.2
 *   - A/B = -6.11 %, TTFT -0.02 % */
#include "claims_arm.h"
#include <math.h>
#include <string.h>

/* ---- two rows of a table ---- */

typedef struct contrast {
    const claims_table *table;
    int a, b; /* rows */
} contrast;

static bool rows_of(claims_doc *d, const char *a, size_t na, const char *b, size_t nb, int line, contrast *out) {
    int best = -1;
    for (int i = 0; i < d->table_count; i++) {
        const claims_table *t = &d->tables[i];
        int ra = claims_row_named(d, t, a, na), rb = claims_row_named(d, t, b, nb);
        if (ra < 0 || rb < 0 || ra == rb) continue;
        bool closer = best < 0 || (t->line < line && t->line > d->tables[best].line);
        if (!closer) continue;
        best = i;
        *out = (contrast){t, ra, rb};
    }
    return best >= 0;
}

/* The column that the words before `i` name, else the first that holds times or rates; -1: none. */
static int column_for(const claims_doc *d, const claims_part *p, const contrast *x, int i) {
    const claims_table *t = x->table;
    int first = -1;
    for (int c = 1; c < t->columns; c++) {
        int f = claims_cell_figure(d, t, x->a, c, false);
        if (f < 0 || claims_cell_figure(d, t, x->b, c, false) < 0) continue;
        claims_shape s = claims_shape_of(&d->tokens[f]);
        if (first < 0 && (s == CLAIMS_TIME || s == CLAIMS_RATE)) first = c;
        for (int k = i - 1; k >= p->first && k >= i - 12; k--) {
            const claims_token *w = &d->tokens[k];
            char name[40];
            if (w->kind != CLAIMS_WORD || w->len < 3 || w->len >= sizeof name) continue;
            memcpy(name, d->text + w->at, w->len);
            name[w->len] = 0;
            if (!strchr(name, '|') && claims_header_has(d, t, c, name)) return c;
        }
    }
    return first;
}

static claims_span cell(const claims_doc *d, const claims_table *t, int row, int column) {
    int f = claims_cell_figure(d, t, row, column, false);
    return f < 0 ? (claims_span){NAN, NAN} : claims_base_of(&d->tokens[f]);
}

static int acceptance_column(const claims_doc *d, const claims_table *t) {
    for (int c = 1; c < t->columns; c++)
        if (claims_header_has(d, t, c, "acceptance|al")) return c;
    return -1;
}

/* Times per token of arms that accept differently differ otherwise per step. */
static void acceptance_note(claims_doc *d, const contrast *x, int column, int accepted, int figure) {
    if (accepted < 0 || figure < 0) return;
    for (int c = 1; c < x->table->columns; c++) /* told already */
        if (claims_header_has(d, x->table, c, "step|steps")) return;
    claims_span a = cell(d, x->table, x->a, accepted), b = cell(d, x->table, x->b, accepted),
                apart = claims_change(a, b);
    if (!claims_known(apart) || (apart.lo > -1 && apart.hi < 1)) return;
    claims_span up =
        claims_change(claims_mul(cell(d, x->table, x->a, column), a), claims_mul(cell(d, x->table, x->b, column), b));
    claims_tell(d, figure, "per-step", true, claims_mid(up),
                "per token; acceptance differs by %+.3g %%, so per step it is %+.3g %%", claims_mid(apart),
                claims_mid(up));
}

static void contrast_rule(claims_doc *d, const claims_part *p, const contrast *x, int figure) {
    int c = column_for(d, p, x, figure), accepted = acceptance_column(d, x->table);
    const claims_token *t = &d->tokens[figure];
    if (c < 0) return;
    claims_span a = cell(d, x->table, x->a, c), b = cell(d, x->table, x->b, c);
    bool step =
        claims_find(d, p->first, figure + 4 < p->end ? figure + 4 : p->end, "step|per-step") >= 0 && accepted > 0;
    bool per_step = claims_header_has(d, x->table, c, "step");
    if (step && !per_step) {
        a = claims_mul(a, cell(d, x->table, x->a, accepted));
        b = claims_mul(b, cell(d, x->table, x->b, accepted));
    }
    claims_span up = claims_change(a, b), fold = claims_div(a, b);
    if (claims_shape_of(t) == CLAIMS_FOLD) {
        claims_span readings[] = {fold, claims_div(b, a)};
        claims_settle_any(d, figure, "ratio", readings, 2, "the rows give %.4gx", claims_mid(fold));
        return;
    }
    claims_span readings[3] = {up, {NAN, NAN}, {NAN, NAN}};
    if (!t->is_signed) readings[1] = claims_abs(up), readings[2] = claims_abs(claims_change(b, a));
    claims_settle_any(d, figure, step ? "per-step" : "change", readings, 3, "the rows give %+.4g %%%s", claims_mid(up),
                      step ? " per step" : "");
    acceptance_note(d, x, c, accepted, step ? -1 : figure);
}

/* Two arms of the samples, or of rows of runs: their means. */
static bool runs_contrast(claims_doc *d, const claims_token *a, const claims_token *b, int figure) {
    claims_arm x, y;
    claims_token any = d->tokens[figure];
    any.unit = 0;
    if (!claims_arm_find(d, d->text + a->at, a->len, &any, NULL, &x)) return false;
    if (!claims_arm_find(d, d->text + b->at, b->len, &any, NULL, &y)) return claims_arm_free(&x), false;
    claims_span from = claims_arm_statistic(&x, CLAIMS_MEAN), to = claims_arm_statistic(&y, CLAIMS_MEAN);
    claims_span up = claims_change(from, to), fold = claims_div(from, to);
    claims_span readings[] = {up, {NAN, NAN}, {NAN, NAN}}, folds[] = {fold, claims_div(to, from)};
    if (!any.is_signed) readings[1] = claims_abs(up), readings[2] = claims_abs(claims_change(to, from));
    if (claims_shape_of(&d->tokens[figure]) == CLAIMS_FOLD)
        claims_settle_any(d, figure, "ratio", folds, 2, "the means give %.6gx", claims_mid(fold));
    else
        claims_settle_any(d, figure, "change", readings, 3, "the means give %+.6g %%", claims_mid(up));
    claims_arm_free(&x);
    claims_arm_free(&y);
    return true;
}

/* The figure that "A -> B" says something of: within six tokens, no other arrow before it. */
static int said_figure(const claims_doc *d, const claims_part *p, int i) {
    for (int k = i; k < p->end && k < i + 7 && d->tokens[k].kind != CLAIMS_ARROW; k++) {
        if (!claims_figure(d, k)) continue;
        claims_shape s = claims_shape_of(&d->tokens[k]);
        bool list = claims_kind_at(d, k + 1) == CLAIMS_COMMA && claims_figure(d, k + 2); /* of pairs, say */
        return !list && (s == CLAIMS_PERCENT || s == CLAIMS_FOLD) ? k : -1;
    }
    return -1;
}

/* "ON is 2.29 % faster than OFF" */
static void than(claims_doc *d, const claims_part *p, int i) {
    int f = claims_last_figure(d, i - 3 > p->first ? i - 3 : p->first, i), is = f < 0 ? -1 : f - 1;
    while (is > p->first && is > f - 3 && !claims_word(d, is, "is|was|runs|ran")) is--;
    if (is <= p->first || !claims_word(d, is, "is|was|runs|ran") || claims_kind_at(d, i + 1) != CLAIMS_WORD) return;
    if (!claims_word(d, i - 1, "faster|slower|higher|lower|less|more") || claims_kind_at(d, is - 1) != CLAIMS_WORD)
        return;
    claims_shape s = claims_shape_of(&d->tokens[f]);
    if (s != CLAIMS_PERCENT && s != CLAIMS_FOLD) return;
    const claims_token *a = &d->tokens[i + 1], *b = &d->tokens[is - 1];
    contrast x = {0};
    if (runs_contrast(d, a, b, f)) return;
    if (rows_of(d, d->text + a->at, a->len, d->text + b->at, b->len, a->line, &x)) contrast_rule(d, p, &x, f);
}

static void arrows(claims_doc *d, const claims_part *p) {
    for (int i = p->first + 1; i + 1 < p->end; i++) {
        bool versus = claims_word(d, i, "vs|versus|against");
        if (claims_word(d, i, "than")) than(d, p, i);
        if ((d->tokens[i].kind != CLAIMS_ARROW && !versus) || claims_kind_at(d, i - 1) != CLAIMS_WORD ||
            claims_kind_at(d, i + 1) != CLAIMS_WORD)
            continue;
        const claims_token *a = &d->tokens[i - 1], *b = &d->tokens[i + 1];
        contrast x = {0};
        int figure = said_figure(d, p, i + 2);
        if (figure >= 0 && runs_contrast(d, versus ? b : a, versus ? a : b, figure)) continue;
        if (figure < 0 || !rows_of(d, d->text + a->at, a->len, d->text + b->at, b->len, a->line, &x)) continue;
        if (versus) x = (contrast){x.table, x.b, x.a};
        contrast_rule(d, p, &x, figure);
    }
}

/* The row of a column that holds this very figure; -1: none. */
static int row_with(const claims_doc *d, const claims_table *t, int column, const claims_token *figure) {
    for (int r = 1; r < t->rows; r++) {
        int f = claims_cell_figure(d, t, r, column, false);
        if (f >= 0 && d->tokens[f].value == figure->value && d->tokens[f].decimals == figure->decimals) return r;
    }
    return -1;
}

/* "8.473 vs 8.511 ms" quotes two rows of a table that has acceptance, too. */
static void quoted_rows(claims_doc *d, const claims_part *p, int versus) {
    int a = claims_last_figure(d, versus - 3 > p->first ? versus - 3 : p->first, versus);
    int b = claims_next_figure(d, versus + 1, versus + 4 < p->end ? versus + 4 : p->end);
    if (a < 0 || b < 0 || d->tokens[a].decimals < 2 || d->tokens[b].decimals < 2) return;
    for (int i = 0; i < d->table_count; i++) {
        const claims_table *t = &d->tables[i];
        int accepted = acceptance_column(d, t);
        if (accepted < 0 || (d->budget -= t->rows) < 0) continue;
        for (int c = 1; c < t->columns; c++) {
            contrast x = {t, row_with(d, t, c, &d->tokens[a]), row_with(d, t, c, &d->tokens[b])};
            if (c != accepted && x.a > 0 && x.b > 0) acceptance_note(d, &x, c, accepted, a);
        }
    }
}

/* ---- list items as arms ---- */

enum { METRICS_MOST = 6, ITEMS_MOST = 12 };
typedef struct item {
    uint32_t at, len; /* its label */
    int block, figures[METRICS_MOST], names[METRICS_MOST], count;
} item;

/* "B1 = old table -> 5.93 ms, TTFT 1513.5, acceptance 4.1": a figure behind an arrow or colon is the arm's own, one
 * behind a name is the name's. */
static item read_item(const claims_doc *d, const claims_part *p) {
    item x = {.block = p->block};
    if (p->end - p->first < 4 || d->tokens[p->first].kind != CLAIMS_WORD) return x;
    claims_kind k = d->tokens[p->first + 1].kind;
    if (k != CLAIMS_EQUALS && k != CLAIMS_COLON) return x;
    x.at = d->tokens[p->first].at, x.len = d->tokens[p->first].len;
    for (int i = p->first + 2; i < p->end && x.count < METRICS_MOST; i++) {
        claims_kind was = claims_kind_at(d, i - 1);
        if (!claims_figure(d, i) || claims_shape_of(&d->tokens[i]) == CLAIMS_PERCENT) continue;
        bool own = was == CLAIMS_ARROW || was == CLAIMS_COLON || was == CLAIMS_EQUALS;
        if (!own && !claims_word(d, i - 1, "ttft|tpot|latency|throughput|acceptance|itl|mean|median|median*")) continue;
        x.figures[x.count] = i;
        x.names[x.count++] = own ? -1 : i - 1;
    }
    return x;
}

static bool same_name(const claims_doc *d, int a, int b) {
    if (a < 0 || b < 0) return a == b;
    const claims_token *x = &d->tokens[a], *y = &d->tokens[b];
    return x->len == y->len && !memcmp(d->text + x->at, d->text + y->at, x->len);
}

/* The metric of an item that is named just before `figure`, else its own. */
static int metric_of(const claims_doc *d, const claims_part *p, const item *x, int figure) {
    int own = -1;
    for (int m = 0; m < x->count; m++) {
        if (x->names[m] < 0 && own < 0) own = m;
        for (int k = figure - 1; k >= p->first && k >= figure - 4 && d->tokens[k].kind != CLAIMS_COMMA; k--)
            if (x->names[m] >= 0 && same_name(d, x->names[m], k)) return m;
    }
    return own;
}

static void items_contrast(claims_doc *d, const claims_part *p, const item *a, const item *b) {
    for (int i = p->first; i < p->end; i++) {
        if (!claims_figure(d, i) || claims_shape_of(&d->tokens[i]) != CLAIMS_PERCENT) continue;
        int ma = metric_of(d, p, a, i), mb = metric_of(d, p, b, i);
        if (ma < 0 || mb < 0 || !same_name(d, a->names[ma], b->names[mb])) continue;
        const claims_token *x = &d->tokens[a->figures[ma]], *y = &d->tokens[b->figures[mb]];
        claims_span up = claims_change(claims_base_of(x), claims_base_of(y));
        claims_span readings[] = {up, d->tokens[i].is_signed ? up : claims_abs(up)};
        claims_settle_any(d, i, "change", readings, 2, "from %g to %g is %+.4g %%", x->value, y->value, claims_mid(up));
    }
}

static void items(claims_doc *d) {
    item last[2] = {{.block = -9}, {.block = -9}};
    for (int k = 0; k < d->part_count; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place != CLAIMS_ITEM || (k && d->parts[k - 1].block == p->block)) continue;
        bool of_both = claims_word(d, p->first, "a/b|delta|change|difference|ratio|\xCE\x94");
        if (of_both && last[0].count && last[1].count && last[1].block == p->block - 1 &&
            last[0].block == p->block - 2) {
            items_contrast(d, p, &last[0], &last[1]);
            continue;
        }
        last[0] = last[1];
        last[1] = read_item(d, p);
    }
}

/* ---- statistics of an arm ---- */

static const char *const statistic_words[] = {"mean|average|means", "median", "sd|stdev|std|sds", "min", "max"};

static int statistic_at(const claims_doc *d, int i) {
    for (int s = 0; s < 5; s++)
        if (claims_word(d, i, statistic_words[s])) return s;
    return -1;
}

/* The statistic that governs token i: the last one before it in the sentence. */
static int statistic_before(const claims_doc *d, const claims_part *p, int i) {
    for (int k = i - 1; k >= p->first && k > i - 14; k--)
        if (statistic_at(d, k) >= 0) return statistic_at(d, k);
    return -1;
}

static void statistic_rule(claims_doc *d, int figure, int statistic, int arm) {
    claims_arm v;
    const claims_token *t = &d->tokens[arm], *f = &d->tokens[figure];
    if (claims_shape_of(f) == CLAIMS_PERCENT || !claims_arm_find(d, d->text + t->at, t->len, f, NULL, &v)) return;
    claims_span readings[2] = {claims_arm_statistic(&v, (claims_statistic)statistic), {NAN, NAN}};
    if (statistic == CLAIMS_SD) readings[1] = claims_arm_pooled(&v);
    bool pooled = claims_known(readings[1]);
    if (pooled)
        claims_settle_any(d, figure, "sd", readings, 2,
                          "the sd of all %d values is %.5g, pooled within rows it is %.5g", v.count,
                          claims_mid(readings[0]), claims_mid(readings[1]));
    else
        claims_settle(d, figure, claims_statistic_names[statistic], readings[0], "the %s of %d values is %.8g",
                      claims_statistic_names[statistic], v.count, claims_mid(readings[0]));
    if (pooled && claims_find(d, figure - 14, figure, "pooled") >= 0 && !claims_meet(claims_span_of(f), readings[1]))
        claims_mark(d, figure); /* the name is not the one of this figure */
    claims_arm_free(&v);
}

/* "min(ON) = 23510.6" */
static void function_of_arm(claims_doc *d, const claims_part *p, int i) {
    int s = statistic_at(d, i);
    if (s < 0 || i + 5 > p->end || claims_kind_at(d, i + 1) != CLAIMS_OPEN || claims_kind_at(d, i + 2) != CLAIMS_WORD ||
        claims_kind_at(d, i + 3) != CLAIMS_CLOSE)
        return;
    int figure = claims_kind_at(d, i + 4) == CLAIMS_EQUALS || claims_word(d, i + 4, "is") ? i + 5 : -1;
    if (figure > 0 && figure < p->end && claims_figure(d, figure)) statistic_rule(d, figure, s, i + 2);
}

/* "min(ON) - max(OFF) = 460.0" */
static void separation(claims_doc *d, const claims_part *p, int i) {
    int s = statistic_at(d, i), q = statistic_at(d, i + 5), f = i + 10;
    static const claims_kind shape[] = {CLAIMS_WORD, CLAIMS_OPEN, CLAIMS_WORD, CLAIMS_CLOSE, CLAIMS_MINUS,
                                        CLAIMS_WORD, CLAIMS_OPEN, CLAIMS_WORD, CLAIMS_CLOSE, CLAIMS_EQUALS};
    claims_arm a, b;
    for (int k = 0; k < 10; k++)
        if (claims_kind_at(d, i + k) != shape[k]) return;
    if (s < 0 || q < 0 || f >= p->end || !claims_figure(d, f)) return;
    const claims_token *x = &d->tokens[i + 2], *y = &d->tokens[i + 7];
    if (!claims_arm_find(d, d->text + x->at, x->len, &d->tokens[f], NULL, &a)) return;
    if (claims_arm_find(d, d->text + y->at, y->len, &d->tokens[f], NULL, &b)) {
        claims_span v =
            claims_sub(claims_arm_statistic(&a, (claims_statistic)s), claims_arm_statistic(&b, (claims_statistic)q));
        claims_settle(d, f, "difference", v, "the difference is %.7g", claims_mid(v));
        claims_arm_free(&b);
    }
    claims_arm_free(&a);
}

/* "sd is 18.0 (OFF) and 23.2 (ON)" */
static void figure_of_arm(claims_doc *d, const claims_part *p, int i) {
    if (!claims_figure(d, i) || i + 3 >= p->end + 1 || claims_kind_at(d, i + 1) != CLAIMS_OPEN ||
        claims_kind_at(d, i + 2) != CLAIMS_WORD || claims_kind_at(d, i + 3) != CLAIMS_CLOSE)
        return;
    int s = statistic_before(d, p, i);
    if (s >= 0) statistic_rule(d, i, s, i + 2);
}

/* "the mean of OFF is 23016.4", "OFF mean 23016.4", "OFF: mean 23016.4, sd 18.0" */
static void words_of_arm(claims_doc *d, const claims_part *p, int i) {
    int s = statistic_at(d, i), arm = -1, figure = i + 1;
    if (s < 0) return;
    if (claims_word(d, i + 1, "of") && claims_kind_at(d, i + 2) == CLAIMS_WORD) arm = i + 2, figure = i + 3;
    while (figure < p->end && (claims_word(d, figure, "is|was|at") || claims_kind_at(d, figure) == CLAIMS_EQUALS))
        figure++;
    if (figure >= p->end || !claims_figure(d, figure)) return;
    if (arm < 0 && claims_kind_at(d, i - 1) == CLAIMS_WORD) arm = i - 1;
    for (int k = i - 1; arm < 0 && k > p->first && k > i - 12; k--)
        if (d->tokens[k].kind == CLAIMS_COLON && d->tokens[k - 1].kind == CLAIMS_WORD) arm = k - 1;
    if (arm >= p->first) statistic_rule(d, figure, s, arm);
}

void claims_arm_rules(claims_doc *d) {
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place == CLAIMS_CELL) continue;
        arrows(d, p);
        for (int i = p->first; i < p->end; i++) {
            if (claims_word(d, i, "vs|versus|against")) quoted_rows(d, p, i);
            function_of_arm(d, p, i);
            separation(d, p, i);
            figure_of_arm(d, p, i);
            words_of_arm(d, p, i);
        }
    }
    items(d);
}
