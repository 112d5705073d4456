/* claims_prose.c: two figures of one sentence, and what the sentence says of them: a change in percent, a ratio, a
 * difference.
 *
 *   11.635 -> 9.563 ms (-17.80 %)       from 62 to 47 GB/s, 24 % less       5.51 vs 4.66, 1.18x faster
 *
 * A percentage, fold or difference belongs to a pair when a sign, a word ("faster", "costs") or a bracket says so. */
#include "claims.h"
#include <math.h>

enum { PAIRS_MOST = 16, NEAR = 16, NEAR_COUNTS = 6 };

typedef struct pair {
    int a, b;     /* before and after, or one against the other */
    int from, to; /* tokens it spans */
    bool ordered; /* "->", "from .. to": b is what a became */
} pair;

#define SPEED "faster|quicker|speedup|speed-up|speed|cheaper"
#define SLOW  "slower|worse|cost|costs|regression|regresses|penalty|overhead|longer"
#define LESS                                                                                                         \
    "less|lower|fewer|smaller|reduction|drop|drops|dropped|fell|falls|saves|saved|saving|savings|decrease*|shorter|" \
    "reduc*|cut|cuts|down"
#define MORE "more|higher|larger|increase*|rose|rises|grew|grows|up"
#define GAIN "gain|gains|gained|improve*|win|wins|better|ahead"
#define APART                                                                                                         \
    "match|within|differ|differs|difference|apart|agree|agrees|agreement|off|same|spread|gap|change|changed|changes|" \
    "delta"

/* ---- pairs ---- */

static bool joins(const claims_doc *d, int a, int b) {
    if (a < 0 || b < 0 || !claims_figure(d, a) || !claims_figure(d, b)) return false;
    const claims_token *x = &d->tokens[a], *y = &d->tokens[b];
    claims_shape sx = claims_shape_of(x), sy = claims_shape_of(y);
    if (!isnan(x->high) || !isnan(y->high) || sx == CLAIMS_PERCENT || sy == CLAIMS_PERCENT || sx == CLAIMS_FOLD ||
        sy == CLAIMS_FOLD)
        return false;
    return !x->unit || !y->unit || claims_same_shape(x, y);
}

static void add(pair *pairs, int *count, const claims_doc *d, pair p) {
    if (*count < PAIRS_MOST && joins(d, p.a, p.b)) pairs[(*count)++] = p;
}

/* The next or last figure within `far` tokens. */
static int near_after(const claims_doc *d, int i, int far, int end) {
    return claims_next_figure(d, i, i + far < end ? i + far : end);
}

static int near_before(const claims_doc *d, int i, int far, int first) {
    return claims_last_figure(d, i - far > first ? i - far : first, i);
}

/* "against 40.9 and 35.7": two at once. */
static bool coordinated(const claims_doc *d, int b) {
    if (b < 0) return false;
    claims_kind next = claims_kind_at(d, b + 1);
    return (claims_word(d, b + 1, "and|or") || next == CLAIMS_COMMA || next == CLAIMS_SLASH) &&
           claims_figure(d, b + 2) && (!d->tokens[b + 2].unit || claims_same_shape(&d->tokens[b], &d->tokens[b + 2]));
}

/* "16 against 64: -4.7 %, -4.9 %": arms that are called by numbers, and a change for each visit. */
static bool called(const claims_doc *d, int a, int b) {
    if (a < 0 || b < 0 || d->tokens[a].unit || d->tokens[b].unit) return false;
    return claims_kind_at(d, b + 1) == CLAIMS_COLON && claims_figure(d, b + 2) &&
           claims_shape_of(&d->tokens[b + 2]) == CLAIMS_PERCENT && claims_kind_at(d, b + 3) == CLAIMS_COMMA &&
           claims_figure(d, b + 4) && claims_shape_of(&d->tokens[b + 4]) == CLAIMS_PERCENT;
}

/* "-> 9.563 x 3.98 = 38.06": what comes out; the figure itself where nothing is computed; -1: nothing comes out. */
static int result_of(const claims_doc *d, int i, int end) {
    claims_kind next = claims_kind_at(d, i + 1);
    if (next != CLAIMS_TIMES && next != CLAIMS_PLUS && next != CLAIMS_MINUS) return i;
    for (int k = i + 1; k < end && k < i + 8; k++)
        if (d->tokens[k].kind == CLAIMS_EQUALS) return claims_figure(d, k + 1) ? k + 1 : -1;
    return -1;
}

static void pair_at(const claims_doc *d, const claims_part *p, int i, pair *pairs, int *count) {
    int a, b;
    if (d->tokens[i].kind == CLAIMS_ARROW) {
        bool lists = claims_kind_at(d, i - 2) == CLAIMS_SLASH || claims_kind_at(d, i + 2) == CLAIMS_SLASH;
        b = result_of(d, i + 1, p->end);
        if (!lists && b > 0) add(pairs, count, d, (pair){i - 1, b, i - 1, b, true});
    } else if (claims_word(d, i, "vs|versus|against|compared")) {
        a = near_before(d, i, 6, p->first), b = near_after(d, i + 1, 5, p->end);
        if (!coordinated(d, b) && !called(d, a, b)) add(pairs, count, d, (pair){a, b, a, b, false});
    } else if (claims_word(d, i, "from") && claims_word(d, i - 1, "down|up")) {
        a = near_after(d, i + 1, 3, p->end), b = near_before(d, i - 1, 5, p->first);
        add(pairs, count, d, (pair){a, b, b, a, true});
    } else if (claims_word(d, i, "from")) {
        a = near_after(d, i + 1, 3, p->end), b = near_before(d, i, 3, p->first);
        if (claims_word(d, b - 1, "to") && !claims_word(d, a + 1, "to"))
            add(pairs, count, d, (pair){a, b, b, a, true}); /* "to 9.0 GB from 12.0 GB" */
        int to = a < 0 ? -1 : claims_find(d, a + 1, a + 6 < p->end ? a + 6 : p->end, "to");
        b = to < 0 ? -1 : near_after(d, to + 1, 3, p->end);
        add(pairs, count, d, (pair){a, b, a, b, true});
    } else if (claims_word(d, i, "was|before|previously|old") && claims_kind_at(d, i - 1) == CLAIMS_OPEN) {
        a = near_after(d, i + 1, 2, p->end), b = near_before(d, i - 1, 3, p->first);
        add(pairs, count, d, (pair){a, b, b, a, true});
    }
}

/* ---- what belongs to a pair ---- */

/* Tokens between a figure and a pair; -1 when another figure of the kind or a stop lies between. */
static int gap(const pair *p, int i) {
    if (i >= p->from && i <= p->to) return -1;
    return i < p->from ? p->from - i : i - p->to;
}

static bool in_bracket_after(const claims_doc *d, const pair *p, int i) {
    for (int k = p->to + 1; k < i && k <= p->to + 4; k++)
        if (d->tokens[k].kind == CLAIMS_OPEN) return true;
    return false;
}

/* Words beside a figure, up to three on either side, not past another figure. */
static bool said(const claims_doc *d, const claims_part *p, int i, const char *words) {
    for (int k = i + 1; k < p->end && k <= i + 4 && d->tokens[k].kind != CLAIMS_FIGURE; k++)
        if (claims_word(d, k, words)) return true;
    for (int k = i - 1; k >= p->first && k >= i - 5 && d->tokens[k].kind != CLAIMS_FIGURE; k--)
        if (claims_word(d, k, words) && !claims_word(d, k + 1, "than")) return true; /* "less than 1 %" bounds */
    return false;
}

/* "9 % of a step" is a share; "95 % interval" a level. */
static bool is_share(const claims_doc *d, const claims_part *p, int i) {
    if (claims_word(d, i + 1, "of|interval|confidence|level|ci|quantile|percentile|by"))
        return !said(d, p, i, "within|match");
    return false;
}

#define FILLER                                                                                                  \
    "a|an|the|that|which|is|are|so|or|by|for|of|about|around|roughly|nearly|only|i.e|e|i|just|some|=|and|with|" \
    "another|this|most|least|than"

/* "9.5 -> 9.4 ms, throughput +2 %": a word of its own before the figure, or before a pair that follows. */
static bool of_another(const claims_doc *d, const pair *p, int i) {
    int word = i > p->to ? i - 1 : p->from - 1;
    if (claims_kind_at(d, word) == CLAIMS_ARROW) return true;
    if (claims_kind_at(d, word) != CLAIMS_WORD || word == p->to || word == i) return false;
    if (claims_word(d, word, FILLER "|" SPEED "|" SLOW "|" LESS "|" MORE "|" GAIN "|" APART "|from|vs")) return false;
    if (i > p->to) return true;
    for (int k = i + 1; k < word; k++)
        if (d->tokens[k].kind == CLAIMS_COMMA || d->tokens[k].kind == CLAIMS_OPEN) return true;
    return false;
}

static const pair *nearest(const claims_doc *d, const pair *pairs, int count, int i) {
    const pair *best = NULL;
    for (int k = 0; k < count; k++) {
        int far = gap(&pairs[k], i);
        bool counted = claims_exact(&d->tokens[pairs[k].a]) && claims_exact(&d->tokens[pairs[k].b]);
        if (far < 0 || far > (counted ? NEAR_COUNTS : NEAR) || of_another(d, &pairs[k], i)) continue;
        if (!best || far < gap(best, i)) best = &pairs[k];
    }
    if (best && best->to < i)
        for (int k = best->to + 1; k < i; k++)
            if (d->tokens[k].kind == CLAIMS_DASH && !d->tokens[i].is_signed) return NULL;
    return best;
}

/* Both in one unit: what has none takes the other's. */
static void spans_of(const claims_doc *d, const pair *p, claims_span *a, claims_span *b) {
    claims_token x = d->tokens[p->a], y = d->tokens[p->b];
    if (!x.unit) x.unit = y.unit;
    if (!y.unit) y.unit = x.unit;
    *a = claims_base_of(&x);
    *b = claims_base_of(&y);
}

static claims_shape shape_of(const claims_doc *d, const pair *p) {
    claims_shape s = claims_shape_of(&d->tokens[p->a]);
    return s ? s : claims_shape_of(&d->tokens[p->b]);
}

static claims_span negative(claims_span s) {
    return claims_scaled(s, -1);
}

/* The readings of a percentage beside a pair; the conventions in use for "faster" differ, all of them pass. */
static int change_readings(const claims_doc *d, const claims_part *part, const pair *p, int i, claims_span out[8]) {
    claims_span a, b;
    int n = 0;
    bool time = shape_of(d, p) == CLAIMS_TIME, rate = shape_of(d, p) == CLAIMS_RATE;
    spans_of(d, p, &a, &b);
    claims_span up = claims_change(a, b), back = claims_change(b, a);
    if (said(d, part, i, "match|matches|agree|agrees|agreement")) {
        out[n++] = claims_abs(up), out[n++] = claims_abs(back);
    } else if (d->tokens[i].is_signed) {
        out[n++] = up;
        if (!p->ordered) out[n++] = back;
        if (said(d, part, i, SPEED "|" GAIN)) out[n++] = time ? back : up;
        if (said(d, part, i, LESS) && !rate) out[n++] = negative(up);
        if (claims_word(d, i + 1, "less|fewer")) out[0] = negative(up); /* a minus would deny it */
        return n;
    }
    if (!p->ordered || said(d, part, i, APART)) {
        out[n++] = claims_abs(up), out[n++] = claims_abs(back);
    } else if (said(d, part, i, SPEED "|" GAIN)) {
        out[n++] = rate ? up : negative(up);
        out[n++] = rate ? up : back;
        if (!rate && !time) out[n++] = up;
    } else if (said(d, part, i, LESS)) {
        out[n++] = negative(up);
    } else if (said(d, part, i, SLOW)) {
        out[n++] = rate ? negative(up) : up;
        if (rate) out[n++] = back;
        if (!rate && !time) out[n++] = negative(up);
    } else if (said(d, part, i, MORE)) {
        out[n++] = up;
    } else {
        out[n++] = claims_abs(up);
    }
    return n;
}

static void change(claims_doc *d, const claims_part *part, const pair *pairs, int count, int i) {
    const pair *p = nearest(d, pairs, count, i);
    claims_span readings[8];
    if (!p || is_share(d, part, i)) return;
    bool marked = d->tokens[i].is_signed || in_bracket_after(d, p, i) ||
                  said(d, part, i, SPEED "|" SLOW "|" LESS "|" MORE "|" GAIN "|" APART "|by") ||
                  claims_kind_at(d, i - 1) == CLAIMS_EQUALS;
    if (!marked) return;
    for (int k = 0; k < count; k++) { /* another pair of the sentence explains it */
        int n = change_readings(d, part, &pairs[k], i, readings);
        for (int r = 0; r < n && &pairs[k] != p; r++)
            if (claims_meet(claims_span_of(&d->tokens[i]), readings[r])) p = &pairs[k];
    }
    const claims_token *a = &d->tokens[p->a], *b = &d->tokens[p->b];
    int n = change_readings(d, part, p, i, readings);
    claims_settle_any(d, i, "change", readings, n, "from %g to %g is %+.4g %%", a->value, b->value,
                      claims_mid(readings[0]));
}

static void fold(claims_doc *d, const claims_part *part, const pair *pairs, int count, int i) {
    const pair *p = nearest(d, pairs, count, i);
    claims_span a, b;
    if (!p || claims_find(d, i, i + 6 < part->end ? i + 6 : part->end, "noise|atomics|spread") >= 0) return;
    if (!in_bracket_after(d, p, i) && claims_kind_at(d, i - 1) != CLAIMS_EQUALS &&
        !said(d, part, i, SPEED "|" SLOW "|" GAIN "|ratio|improvement|less|more|lower|higher|smaller|larger|fewer|by"))
        return;
    spans_of(d, p, &a, &b);
    claims_span ratio = claims_div(a, b), other = claims_div(b, a);
    if (claims_known(ratio) && claims_mid(ratio) < 1) ratio = other;
    claims_span readings[] = {ratio, claims_div(claims_whole(1), ratio)};
    claims_settle_any(d, i, "ratio", readings, d->tokens[i].value < 1 ? 2 : 1, "%g against %g is %.4gx",
                      d->tokens[p->a].value, d->tokens[p->b].value, claims_mid(ratio));
}

static void difference(claims_doc *d, const claims_part *part, const pair *pairs, int count, int i) {
    const pair *p = nearest(d, pairs, count, i);
    claims_span a, b;
    const claims_token *t = &d->tokens[i];
    if (!p || claims_shape_of(t) != shape_of(d, p)) return;
    bool words = said(d, part, i, "difference|saves|saving|saved|margin|less|more|fewer|faster|slower|by|delta");
    if (!(in_bracket_after(d, p, i) && (t->is_signed || words)) && !(words && gap(p, i) <= 6 && i > p->to) &&
        !(claims_word(d, i - 1, "by") && i < p->from && gap(p, i) <= 4))
        return;
    if (claims_word(d, i - 1, "at|per")) return;
    spans_of(d, p, &a, &b);
    claims_span delta = claims_scaled(claims_sub(b, a), 1 / claims_scale_of(t));
    if (!t->is_signed) delta = claims_abs(delta);
    claims_span readings[] = {delta, negative(delta)};
    claims_settle_any(d, i, "difference", readings, p->ordered || !t->is_signed ? 1 : 2, "%g less %g is %+.6g",
                      d->tokens[p->b].value, d->tokens[p->a].value, claims_mid(delta));
}

/* "min(ON) = 23510.6 > max(OFF) = 23050.6 .. a 460 tok/s margin" */
static void margin(claims_doc *d, const claims_part *p) {
    for (int i = p->first; i < p->end; i++) {
        if (d->tokens[i].kind != CLAIMS_GREATER && d->tokens[i].kind != CLAIMS_LESS) continue;
        int a = near_before(d, i, 2, p->first), b = near_after(d, i + 1, 7, p->end);
        int word = b < 0 ? -1 : claims_find(d, b + 1, p->end, "margin|gap|apart|separation");
        int m = word < 0 ? -1 : near_before(d, word, 4, b + 1);
        if (a < 0 || b < 0) continue;
        claims_span gap_of = claims_sub(claims_span_of(&d->tokens[a]), claims_span_of(&d->tokens[b]));
        if (m >= 0)
            claims_settle(d, m, "difference", claims_abs(gap_of), "%g less %g is %g", d->tokens[a].value,
                          d->tokens[b].value, claims_mid(gap_of));
    }
}

/* "17/20 (85 %)", "17 of 20 cases (85 %)", "85 % (17 of 20)" */
static void share(claims_doc *d, const claims_part *p, int i) {
    int b = i + 2, pct;
    if (!(d->tokens[i + 1].kind == CLAIMS_SLASH || claims_word(d, i + 1, "of")) || b >= p->end) return;
    if (!claims_figure(d, b)) return;
    bool counts = claims_exact(&d->tokens[i]) && claims_exact(&d->tokens[b]);
    bool measured = claims_word(d, i + 1, "of") && d->tokens[i].unit && claims_same_shape(&d->tokens[i], &d->tokens[b]);
    if (!counts && (!measured || claims_shape_of(&d->tokens[i]) == CLAIMS_PERCENT)) return;
    if (claims_kind_at(d, i - 1) == CLAIMS_SLASH || claims_kind_at(d, b + 1) == CLAIMS_SLASH) return;
    for (pct = b + 1; pct < p->end && pct < b + 5 && d->tokens[pct].kind != CLAIMS_OPEN; pct++) {
    }
    pct++;
    bool closed = claims_word(d, i + 1, "of") || claims_kind_at(d, b + 1) == CLAIMS_CLOSE;
    if (claims_kind_at(d, i - 1) == CLAIMS_OPEN && claims_figure(d, i - 2)) pct = closed ? i - 2 : p->end;
    if (!claims_figure(d, pct) || claims_shape_of(&d->tokens[pct]) != CLAIMS_PERCENT || pct >= p->end) return;
    claims_span of = claims_div(claims_base_of(&d->tokens[i]), claims_base_of(&d->tokens[b]));
    claims_settle(d, pct, "share", claims_scaled(of, 100), "%g of %g is %.4g %%", d->tokens[i].value,
                  d->tokens[b].value, 100 * claims_mid(of));
}

static void sentence(claims_doc *d, const claims_part *p) {
    pair pairs[PAIRS_MOST];
    int count = 0;
    for (int i = p->first; i < p->end; i++) pair_at(d, p, i, pairs, &count);
    for (int i = p->first; i < p->end; i++) {
        if (!claims_figure(d, i)) continue;
        claims_shape shape = claims_shape_of(&d->tokens[i]);
        if (i + 2 < p->end) share(d, p, i);
        if (count && shape == CLAIMS_PERCENT)
            change(d, p, pairs, count, i);
        else if (count && shape == CLAIMS_FOLD)
            fold(d, p, pairs, count, i);
        else if (count && (shape == CLAIMS_TIME || shape == CLAIMS_RATE))
            difference(d, p, pairs, count, i);
    }
    margin(d, p);
}

void claims_prose_rules(claims_doc *d) {
    for (int i = 0; i < d->part_count && !d->failed; i++) {
        claims_part p = d->parts[i];
        for (int end = d->parts[i].end; p.first < end; p.first = p.end) {
            for (p.end = p.first; p.end < end && d->tokens[p.end].kind != CLAIMS_STOP;) p.end++;
            if (p.end < end) p.end++;
            sentence(d, &p);
        }
    }
}
