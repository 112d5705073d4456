/* claims_count.c: whole numbers: lists and their lengths, k of n, calls and what they save, rows that a sentence
 * counts.
 *
 *   7 token counts {0, 1, 7, 63, 256, 1000, 4096}       five arms (control, a, b, c, d)
 *   3 tensors per call .. called 64 times = 192 .. first call allocates, subsequent 63 calls reuse .. saves 189 */
#include "claims.h"
#include <math.h>
#include <string.h>

#define THINGS                                                                                                         \
    "arm|arms|seed|seeds|value|values|size|sizes|block|blocks|row|rows|key|keys|run|runs|count|counts|offset|offsets|" \
    "capacities|layers|variants|configurations|shapes|prompts|types|depths|lengths|buckets|kernels|models|hosts|"      \
    "changes"

enum { COUNT_MOST = 999 };

/* ---- lists ---- */

/* Short items alone: "(a, b and c)"; 0: no such list. */
static int items_in(const claims_doc *d, int open, int end, claims_kind close) {
    int n = 1, words = 0;
    for (int i = open + 1; i < end; i++) {
        claims_kind k = d->tokens[i].kind;
        if (k == close) return words ? n : 0;
        if (claims_word(d, i, "e.g|e|g|etc|others|more|including|such|like|each|i.e|incl|only|see|cf|by|from"))
            return 0;
        if (k == CLAIMS_COMMA || claims_word(d, i, "and|or") || (k == CLAIMS_SLASH && close == CLAIMS_CLOSE)) {
            if (k == CLAIMS_COMMA && claims_word(d, i + 1, "and|or")) continue;
            n++, words = 0;
        } else if (k == CLAIMS_WORD || k == CLAIMS_FIGURE) {
            if (++words > 3) return 0;
        } else if (k != CLAIMS_PLUS && k != CLAIMS_MINUS) {
            return 0;
        }
    }
    return 0;
}

/* A noun in the plural, or in capitals, with a space before the brace. */
static bool plural(const claims_doc *d, const claims_token *w, const claims_token *brace) {
    return w->at + w->len < brace->at && d->text[w->at + w->len - 1] == 's';
}

static void list(claims_doc *d, const claims_part *p, int open) {
    bool brace = d->tokens[open].kind == CLAIMS_LIST;
    int n = items_in(d, open, p->end, brace ? CLAIMS_LIST_END : CLAIMS_CLOSE), at = open - 1;
    if (brace && (claims_kind_at(d, at) != CLAIMS_WORD || !plural(d, &d->tokens[at], &d->tokens[open]))) return;
    if (n < (brace ? 2 : 3) || (!brace && !claims_word(d, open - 1, THINGS))) return;
    while (at >= p->first && at > open - 5 && !claims_word(d, at, "and|or|to|for|of|in|with|the|a|is|are|that") &&
           isnan(claims_count_at(d, at)) && claims_kind_at(d, at) == CLAIMS_WORD)
        at--;
    if (at < p->first || d->tokens[at].named || isnan(claims_count_at(d, at)) || at == open - 1) return;
    if (claims_kind_at(d, at - 1) == CLAIMS_SLASH || d->tokens[at].unit || claims_count_at(d, at) > COUNT_MOST) return;
    claims_settle(d, at, "count", claims_whole(n), "the list has %d", n);
}

/* "2281/2280 cases": more than all. */
static void fraction(claims_doc *d, const claims_part *p, int slash) {
    int a = slash - 1, b = slash + 1;
    if (a < p->first || b >= p->end || !claims_figure(d, a) || !claims_figure(d, b)) return;
    double x = claims_count_at(d, a), y = claims_count_at(d, b);
    if (claims_kind_at(d, a - 1) == CLAIMS_SLASH || claims_kind_at(d, b + 1) == CLAIMS_SLASH || !(x > y)) return;
    for (int i = b + 1; i <= b + 2 && i < p->end; i++)
        if (claims_word(d, i, "case|cases|tests|checks|runs|prompts|samples|cells|experts|passed"))
            claims_tell(d, a, "count", false, y, "%g of %g is more than all", x, y);
}

/* ---- calls ---- */

typedef struct calls {
    double times, each, later; /* called so often; each does so many; calls behind the first */
} calls;

static bool follows_word(const claims_doc *d, int i, int back, const char *words) {
    return claims_find(d, i - back, i, words) >= 0;
}

static void note_calls(const claims_doc *d, const claims_part *p, int i, calls *c) {
    double v = claims_count_at(d, i);
    if (isnan(v)) return;
    if (claims_word(d, i + 1, "times") && follows_word(d, i, 3, "called|calls|runs|run|launched|invoked")) {
        if (c->times != v) c->later = NAN;
        c->times = v;
    }
    int per = claims_find(d, i + 1, i + 4 < p->end ? i + 4 : p->end, "per");
    if (per >= 0 && claims_word(d, per + 1, "call|launch|layer")) c->each = v;
    if (follows_word(d, i, 4, "each") && follows_word(d, i, 3, "call|launch|layer")) c->each = v;
}

/* "first call allocates, subsequent 63 calls reuse" */
static void later_calls(claims_doc *d, const claims_part *p, int i, calls *c) {
    double v = claims_count_at(d, i);
    if (isnan(v) || !claims_word(d, i + 1, "calls|launches|layers") ||
        !claims_word(d, i - 1, "subsequent|other|remaining|later"))
        return;
    if (isnan(c->times) || claims_find(d, p->first, i, "first") < 0) return;
    claims_settle(d, i, "count", claims_whole(c->times - 1), "all but the first of %g are %g", c->times, c->times - 1);
    c->later = v;
}

/* "= 192 mallocs" with no arithmetic before it */
static void calls_made(claims_doc *d, const claims_part *p, int i, const calls *c) {
    int figure = i + 1;
    if (d->tokens[i].kind != CLAIMS_EQUALS || !claims_figure(d, figure) || figure >= p->end) return;
    if (isnan(c->times) || isnan(c->each) || isnan(claims_count_at(d, figure))) return;
    if (claims_find(d, p->first, i, "called|calls|call|launched|launch") < 0) return;
    if (claims_find(d, p->first, i, "saves|saved|savings|saving") >= 0) return;
    for (int k = p->first; k < i; k++)
        if (d->tokens[k].kind == CLAIMS_TIMES || d->tokens[k].kind == CLAIMS_PLUS) return;
    claims_settle(d, figure, "product", claims_whole(c->times * c->each), "%g x %g = %g", c->times, c->each,
                  c->times * c->each);
}

/* What is saved is what the later calls no longer do: a saving that counts the first call too is too large. */
static void savings(claims_doc *d, const claims_part *p, int word, const calls *c) {
    if (isnan(c->times) || isnan(c->each) || isnan(c->later)) return;
    double saved = c->later * c->each, all = c->times * c->each;
    for (int i = word + 1; i < p->end && i < word + 8; i++) {
        double v = claims_count_at(d, i);
        if (isnan(v) || d->tokens[i].unit) continue;
        if (v == all && saved != all)
            claims_tell(d, i, "saving", false, saved, "%g = %g x %g counts the first call too; %g x %g = %g", all,
                        c->times, c->each, c->later, c->each, saved);
        else if (claims_kind_at(d, i - 1) != CLAIMS_EQUALS || claims_kind_at(d, i + 1) == CLAIMS_PLUS)
            claims_settle(d, i, "saving", claims_whole(saved), "%g x %g = %g", c->later, c->each, saved);
        if (claims_kind_at(d, i + 1) != CLAIMS_PLUS) return;
    }
}

/* "189 mallocs per step = 74,655 mallocs/second at 395 TPS" */
static void per_second(claims_doc *d, const claims_part *p, int equals) {
    int b = equals + 1, a = claims_last_figure(d, equals - 6 > p->first ? equals - 6 : p->first, equals);
    if (a < 0 || !claims_figure(d, b) || b + 3 >= p->end || claims_kind_at(d, b + 1) != CLAIMS_WORD) return;
    const claims_token *w = &d->tokens[b + 1];
    if (!memchr(d->text + w->at, '/', w->len) && !claims_word(d, b + 2, "per")) return;
    int at = claims_find(d, b + 1, b + 6 < p->end ? b + 6 : p->end, "at");
    int r = at < 0 ? -1 : claims_next_figure(d, at + 1, at + 3 < p->end ? at + 3 : p->end);
    if (r < 0 || claims_shape_of(&d->tokens[r]) != CLAIMS_RATE || isnan(claims_count_at(d, a))) return;
    claims_token rate = d->tokens[r];
    rate.unit = 0; /* a chosen rate is exact */
    claims_span v = claims_mul(claims_span_of(&d->tokens[a]), claims_span_of(&rate));
    claims_settle(d, b, "product", v, "%g x %g = %.10g", d->tokens[a].value, rate.value, claims_mid(v));
}

static void call_rules(claims_doc *d) {
    calls c = {NAN, NAN, NAN};
    int block = -1;
    for (int k = 0; k < d->part_count; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place == CLAIMS_CELL) continue;
        if (p->block > block + 1) c = (calls){NAN, NAN, NAN};
        block = p->block;
        for (int i = p->first; i < p->end; i++) {
            note_calls(d, p, i, &c);
            later_calls(d, p, i, &c);
            calls_made(d, p, i, &c);
            if (claims_word(d, i, "saves|saved|saving|savings")) savings(d, p, i, &c);
            if (d->tokens[i].kind == CLAIMS_EQUALS) per_second(d, p, i);
        }
    }
}

/* ---- a sentence that counts the rows of the table behind it ---- */

static bool same_text(const claims_doc *d, const claims_cell *a, const claims_cell *b) {
    return a->len == b->len && !memcmp(d->text + a->at, d->text + b->at, a->len);
}

/* Cells of a column that differ; `vague`: how many of them are words without a figure or name in them. */
static int distinct(const claims_doc *d, const claims_table *t, int column, int *vague) {
    int n = 0;
    *vague = 0;
    for (int r = 1; r < t->rows && r < 64; r++) {
        const claims_cell *c = claims_cell_at(d, t, r, column);
        bool seen = false, digits = false;
        for (int q = 1; q < r; q++) seen |= same_text(d, c, claims_cell_at(d, t, q, column));
        for (uint32_t i = 0; i < c->len; i++) digits |= d->text[c->at + i] >= '0' && d->text[c->at + i] <= '9';
        n += !seen;
        *vague += !seen && !digits;
    }
    return n;
}

static void distinct_rows(claims_doc *d, const claims_part *p, const claims_table *t) {
    for (int i = p->first; i < p->end; i++) {
        if (isnan(claims_count_at(d, i)) || !claims_word(d, i + 1, "distinct|different")) continue;
        int vague, n = distinct(d, t, t->columns - 1, &vague), low = vague ? n - vague : n;
        double v = claims_count_at(d, i);
        if (v < low || v > n)
            claims_tell(d, i, "count", false, n, "the last column of the table has %d different entries", n);
        else if (low < n)
            claims_tell(d, i, "count", true, n, "the table allows %d or %d: an entry says only that it differs", low,
                        n);
        else
            claims_settle(d, i, "count", claims_whole(n), "the last column has %d different entries", n);
    }
}

static void rows_counted(claims_doc *d, const claims_part *p, const claims_table *t) {
    for (int i = p->first; i < p->end; i++) {
        double v = claims_count_at(d, i);
        if (isnan(v) || d->tokens[i].unit || d->tokens[i].named || claims_kind_at(d, i + 1) != CLAIMS_WORD) continue;
        const claims_cell *head = claims_cell_at(d, t, 0, 0);
        const claims_token *w = &d->tokens[i + 1];
        if (!head->len || (w->len != head->len && w->len != head->len + 1)) continue;
        char name[40];
        if (head->len >= sizeof name || memchr(d->text + head->at, '|', head->len)) continue;
        memcpy(name, d->text + head->at, head->len);
        name[head->len] = 0;
        if (w->len == head->len + 1 && d->text[w->at + w->len - 1] == 's') {
            claims_token saved = d->tokens[i + 1];
            d->tokens[i + 1].len--;
            bool same = claims_word(d, i + 1, name);
            d->tokens[i + 1] = saved;
            if (same) claims_settle(d, i, "count", claims_whole(t->rows - 1), "the table has %d", t->rows - 1);
        }
    }
}

void claims_count_rules(claims_doc *d) {
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        const claims_part *p = &d->parts[k];
        for (int i = p->first; i < p->end; i++) {
            claims_kind kind = d->tokens[i].kind;
            if (kind == CLAIMS_LIST || kind == CLAIMS_OPEN) list(d, p, i);
            if (kind == CLAIMS_SLASH) fraction(d, p, i);
        }
    }
    call_rules(d);
    for (int t = 0, k = 0; t < d->table_count && !d->failed; t++) {
        for (; k < d->part_count && d->parts[k].block < d->tables[t].block; k++) {
            const claims_part *p = &d->parts[k];
            bool leads = p->block == d->tables[t].block - 1 && p->place != CLAIMS_CELL && p->end > p->first &&
                         d->tokens[p->end - 1].kind == CLAIMS_COLON;
            if (leads) distinct_rows(d, p, &d->tables[t]), rows_counted(d, p, &d->tables[t]);
        }
    }
}
