/* claims_link.c: figures that several sentences or a table determine together.
 *
 *   Predicted 381.8 -> 99.7 us (-282 us). Measured TPOT fell 249 us, a 0.88 conversion.
 *   12.1 -> 11.0 ms .. sd 0.05 ms, so the win is 22x the noise
 *   K=128 is 3.83x faster at the decode shape and within 2.3 % of the best value at 4096 tokens    (a table by K) */
#include "claims.h"
#include <math.h>
#include <string.h>

/* ---- differences that a sentence states ---- */

typedef struct delta {
    int token, part;
    claims_span base; /* absolute, in seconds or the rate's unit */
    claims_shape shape;
    int metric; /* word before the figures; -1: none */
} delta;
enum { DELTAS_MOST = 128 };

/* The metric: a name in capitals, or one of a few words, up to four tokens before. */
static int metric_before(const claims_doc *d, const claims_part *p, int i) {
    for (int k = i - 1; k >= p->first && k >= i - 4; k--)
        if (claims_word(d, k, "tpot|ttft|itl|throughput|latency|e2el|step")) return k;
    return -1;
}

static bool same_word(const claims_doc *d, int a, int b) {
    const claims_token *x = &d->tokens[a], *y = &d->tokens[b];
    return x->len == y->len && !memcmp(d->text + x->at, d->text + y->at, x->len);
}

static int find_percents(const claims_doc *d, delta *out, int n) {
    for (int i = 0; i < d->token_count && n < DELTAS_MOST; i++)
        if (claims_figure(d, i) && d->tokens[i].is_signed && claims_shape_of(&d->tokens[i]) == CLAIMS_PERCENT)
            out[n++] = (delta){i, -1, claims_abs(claims_span_of(&d->tokens[i])), CLAIMS_PERCENT, -1};
    return n;
}

/* All "a -> b" of the text in times and rates, then its signed percentages. */
static int find_deltas(const claims_doc *d, delta *out) {
    int n = 0;
    for (int k = 0; k < d->part_count && n < DELTAS_MOST; k++) {
        const claims_part *p = &d->parts[k];
        for (int i = p->first + 1; i + 1 < p->end && n < DELTAS_MOST; i++) {
            if (d->tokens[i].kind != CLAIMS_ARROW || !claims_figure(d, i - 1) || !claims_figure(d, i + 1)) continue;
            claims_token a = d->tokens[i - 1], b = d->tokens[i + 1];
            if (!b.unit || (a.unit && !claims_same_shape(&a, &b))) continue;
            if (!a.unit) a.unit = b.unit;
            out[n++] = (delta){i, k, claims_abs(claims_sub(claims_base_of(&b), claims_base_of(&a))),
                               claims_shape_of(&b), metric_before(d, p, i - 1)};
        }
    }
    return find_percents(d, out, n);
}

/* "TPOT fell 249 us": as much as the only pair of that metric says. */
static void fell(claims_doc *d, const delta *deltas, int count, const claims_part *p) {
    int verb = claims_find(d, p->first, p->end, "fell|falls|dropped|drops|rose|rises|grew|grows|improved|shrank");
    int figure = verb < 0 ? -1 : claims_next_figure(d, verb + 1, verb + 4 < p->end ? verb + 4 : p->end);
    int metric = verb < 0 ? -1 : metric_before(d, p, verb), only = -1;
    if (figure < 0 || metric < 0 || claims_word(d, figure - 1, "from|to") || claims_word(d, figure + 1, "to")) return;
    const claims_token *t = &d->tokens[figure];
    for (int i = 0; i < count; i++) {
        if (deltas[i].metric < 0 || !same_word(d, deltas[i].metric, metric) || deltas[i].shape != claims_shape_of(t))
            continue;
        if (only >= 0) return;
        only = i;
    }
    if (only < 0) return;
    claims_span v = claims_scaled(deltas[only].base, 1 / claims_scale_of(t));
    claims_settle(d, figure, "difference", v, "the change of line %d is %.5g", d->tokens[deltas[only].token].line,
                  claims_mid(v));
}

/* ---- predicted and measured ---- */

/* The difference that a sentence gives in words or by a pair; the unit scale is applied. */
static claims_span told_delta(const claims_doc *d, const claims_part *p, const delta *deltas, int count, int part) {
    for (int i = p->first; i < p->end; i++) {
        if (!claims_figure(d, i) || claims_shape_of(&d->tokens[i]) != CLAIMS_TIME) continue;
        bool words = claims_word(d, i - 1, "fell|dropped|saved|saves|by|of") || d->tokens[i].is_signed;
        if (words) return claims_abs(claims_base_of(&d->tokens[i]));
    }
    for (int i = 0; i < count; i++)
        if (deltas[i].part == part && deltas[i].shape == CLAIMS_TIME) return deltas[i].base;
    return (claims_span){NAN, NAN};
}

/* "predicted -282 us, measured -249 us": in one sentence. */
static void both_told(const claims_doc *d, const claims_part *p, claims_span *predicted, claims_span *measured) {
    for (int side = 0; side < 2; side++) {
        int word =
            claims_find(d, p->first, p->end, side ? "measured|got|fell" : "predicted|projected|expected|predicts");
        int f = word < 0 ? -1 : claims_next_figure(d, word + 1, word + 5 < p->end ? word + 5 : p->end);
        if (f >= 0 && d->tokens[f].unit) *(side ? measured : predicted) = claims_abs(claims_base_of(&d->tokens[f]));
    }
}

static void conversion(claims_doc *d, const delta *deltas, int count, int k) {
    const claims_part *p = &d->parts[k];
    int word = claims_find(d, p->first, p->end, "conversion");
    if (word < 0) return;
    int figure = claims_last_figure(d, word - 5 > p->first ? word - 5 : p->first, word);
    if (figure < 0 || d->tokens[figure].unit)
        figure = claims_next_figure(d, word + 1, word + 5 < p->end ? word + 5 : p->end);
    if (figure < 0 || d->tokens[figure].unit) return;
    claims_span predicted = {NAN, NAN}, measured = {NAN, NAN};
    for (int q = k > 4 ? k - 4 : 0; q <= k; q++) {
        const claims_part *s = &d->parts[q];
        if (s->block != p->block) continue;
        if (claims_find(d, s->first, s->end, "predicted|predicts|projected|expected") >= 0 && q != k)
            predicted = told_delta(d, s, deltas, count, q);
        if (claims_find(d, s->first, s->end, "measured|fell") >= 0) measured = told_delta(d, s, deltas, count, q);
    }
    if (!claims_known(measured) || !claims_known(predicted)) both_told(d, p, &predicted, &measured);
    claims_span ratio = claims_div(measured, predicted);
    claims_settle(d, figure, "conversion", ratio, "measured over predicted is %.4g", claims_mid(ratio));
}

/* ---- so many times the noise ---- */

static int noise_figure(const claims_doc *d, const claims_part *p, int before) {
    int at = claims_find(d, p->first, before, "sd|stdev|spread|noise|sigma");
    return at < 0 ? -1 : claims_next_figure(d, at + 1, before);
}

static bool nearer(claims_span a, claims_span b, double v) {
    return !claims_known(b) || fabs(claims_mid(a) - v) < fabs(claims_mid(b) - v);
}

/* Candidates: every difference of the text over every spread that the sentence gives before. */
static void noise(claims_doc *d, const delta *deltas, int count, const claims_part *p) {
    int figure = -1;
    for (int i = p->first; i < p->end; i++)
        if (claims_figure(d, i) && claims_shape_of(&d->tokens[i]) == CLAIMS_FOLD &&
            claims_find(d, i, i + 7 < p->end ? i + 7 : p->end, "noise|spread") >= 0)
            figure = i;
    int s = figure < 0 ? -1 : noise_figure(d, p, figure);
    claims_span best = {NAN, NAN};
    for (; s >= 0; s = claims_next_figure(d, s + 1, figure)) {
        claims_token spread = d->tokens[s];
        if (!isnan(spread.high)) spread.value = spread.high, spread.high = NAN;
        for (int i = 0; i < count; i++) {
            if (claims_shape_of(&spread) ? deltas[i].shape != claims_shape_of(&spread)
                                         : deltas[i].shape == CLAIMS_PERCENT)
                continue;
            claims_span ratio = claims_div(deltas[i].base, claims_base_of(&spread));
            bool met = claims_meet(best, claims_span_of(&d->tokens[figure]));
            if (claims_known(ratio) && !met && nearer(ratio, best, d->tokens[figure].value)) best = ratio;
        }
    }
    if (claims_known(best))
        claims_settle(d, figure, "noise", best, "the difference is %.3g times the spread", claims_mid(best));
}

/* ---- a setting and the table that varies it ---- */

typedef struct subject {
    const claims_table *table;
    int row, other; /* its row; the row "(before)", -1: none */
} subject;

/* "BLOCK_SIZE=128" and a table whose first header shares a word with the name and that has a row 128. */
static bool find_subject(const claims_doc *d, int name, subject *out) {
    const claims_token *w = &d->tokens[name], *v = &d->tokens[name + 1];
    for (int i = 0; i < d->table_count; i++) {
        const claims_table *t = &d->tables[i];
        const claims_cell *head = claims_cell_at(d, t, 0, 0);
        if (!head->len || head->len > w->len || head->len > 30) continue;
        char low[32];
        bool fits = false;
        for (uint32_t k = 0; k + head->len <= w->len && !fits; k++) {
            for (uint32_t q = 0; q < head->len; q++) low[q] = d->text[w->at + k + q];
            low[head->len] = 0;
            fits = !strchr(low, '|') && claims_text_has(d->text + head->at, head->len, low);
        }
        int row = -1, other = -1;
        for (int r = 1; r < t->rows && fits; r++) {
            int f = claims_cell_figure(d, t, r, 0, true);
            const claims_cell *c = claims_cell_at(d, t, r, 0);
            if (f >= 0 && d->tokens[f].value == v->value) row = r;
            if (claims_text_has(d->text + c->at, c->len, "before|old|default|shipped")) other = r;
        }
        if (row > 0) return *out = (subject){t, row, other}, true;
    }
    return false;
}

static claims_span value_at(const claims_doc *d, const subject *s, int row, int column) {
    int f = claims_cell_figure(d, s->table, row, column, false);
    return f < 0 ? (claims_span){NAN, NAN} : claims_span_of(&d->tokens[f]);
}

/* The column of "at 4096 tokens" or "the largest"; 0: not told. */
static int column_of(const claims_doc *d, const claims_part *p, const subject *s, int i) {
    for (int k = i; k < p->end && k < i + 14; k++) {
        if (claims_word(d, k, "largest|longest")) return s->table->columns - 1;
        if (claims_word(d, k, "smallest|shortest")) return 1;
        for (int c = 1; c < s->table->columns && k > i && claims_figure(d, k); c++) {
            const claims_cell *h = claims_cell_at(d, s->table, 0, c);
            int f = h->part < 0 ? -1 : claims_next_figure(d, d->parts[h->part].first, d->parts[h->part].end);
            if (f >= 0 && d->tokens[f].value == d->tokens[k].value) return c;
        }
    }
    return 0;
}

static claims_span from_best(const claims_doc *d, const subject *s, int column) {
    claims_span best = {NAN, NAN};
    for (int r = 1; r < s->table->rows; r++) {
        claims_span v = value_at(d, s, r, column);
        if (claims_known(v) && !(claims_mid(v) >= claims_mid(best))) best = v;
    }
    return claims_change(best, value_at(d, s, s->row, column));
}

static void within_best(claims_doc *d, const claims_part *p, const subject *s, int figure) {
    int best = claims_find(d, figure + 1, figure + 5 < p->end ? figure + 5 : p->end, "best|fastest|minimum|optimum");
    int column = best < 0 ? 0 : column_of(d, p, s, best);
    if (column <= 0) return;
    claims_span off = from_best(d, s, column);
    claims_token t = d->tokens[figure];
    if (!claims_known(off)) return;
    if (t.decimals == 0 && claims_mid(off) <= t.value) off = claims_span_of(&t); /* a round bound that holds */
    claims_settle(d, figure, "within", off, "the table gives %.3g %% off the best in that column",
                  claims_mid(from_best(d, s, column)));
}

static void faster_than_before(claims_doc *d, const claims_part *p, const subject *s, int figure) {
    claims_span readings[64];
    int n = 0, column = column_of(d, p, s, figure);
    if (s->other < 0 || claims_find(d, figure, figure + 4 < p->end ? figure + 4 : p->end, "faster|speedup|quicker") < 0)
        return;
    for (int c = 1; c < s->table->columns && n < 64; c++)
        if (!column || c == column) readings[n++] = claims_div(value_at(d, s, s->other, c), value_at(d, s, s->row, c));
    claims_settle_any(d, figure, "ratio", readings, n, "the table gives %.4gx%s", claims_mid(readings[0]),
                      column ? "" : " in its first column, and no other column gives it either");
}

/* "beyond the 1.3 % shown at 16384 tokens": nothing there is that */
static void shown_at(claims_doc *d, const claims_part *p, const subject *s, int figure) {
    if (!claims_word(d, figure + 1, "shown") && !claims_word(d, figure + 1, "seen")) return;
    int column = column_of(d, p, s, figure + 1);
    if (column <= 0) return;
    claims_span readings[2] = {from_best(d, s, column), {NAN, NAN}};
    if (s->other > 0)
        readings[1] = claims_abs(claims_change(value_at(d, s, s->other, column), value_at(d, s, s->row, column)));
    claims_token *t = &d->tokens[figure];
    int bound = t->bound;
    t->bound = 0; /* what is shown is a figure, not a bound */
    claims_settle_any(d, figure, "within", readings, 2,
                      "the table shows %.3g %% off the best in that column, %.3g %% %s", claims_mid(readings[0]),
                      claims_mid(readings[1]), "off the row before");
    t->bound = bound;
}

static void subjects(claims_doc *d) {
    subject s = {NULL, 0, -1};
    for (int k = 0; k < d->part_count; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place == CLAIMS_CELL) continue;
        for (int i = p->first; i < p->end; i++) {
            subject found;
            bool setting = i + 1 < p->end && d->tokens[i].kind == CLAIMS_WORD && d->tokens[i + 1].named;
            bool is = claims_word(d, i + 2, "is|was|runs|beats|comes|wins");
            if (setting && is && find_subject(d, i, &found)) s = found;
            if (!s.table || !claims_figure(d, i)) continue;
            if (claims_shape_of(&d->tokens[i]) == CLAIMS_FOLD) faster_than_before(d, p, &s, i);
            if (claims_shape_of(&d->tokens[i]) != CLAIMS_PERCENT) continue;
            if (claims_word(d, i - 1, "within")) within_best(d, p, &s, i);
            shown_at(d, p, &s, i);
        }
    }
}

void claims_link_rules(claims_doc *d) {
    delta *deltas = mem_new_array(DELTAS_MOST, sizeof *deltas);
    if (!deltas) {
        d->failed = true;
        return;
    }
    int count = find_deltas(d, deltas);
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        if (d->parts[k].place == CLAIMS_CELL) continue;
        fell(d, deltas, count, &d->parts[k]);
        conversion(d, deltas, count, k);
        noise(d, deltas, count, &d->parts[k]);
    }
    mem_free(deltas);
    subjects(d);
    claims_serve_rules(d);
    claims_stack_rules(d);
}
