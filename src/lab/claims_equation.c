/* claims_equation.c: arithmetic that a text writes out.
 *
 *   189 + 192 = 381        M=8 x topk=8 = 64 tokens        M=1,2,4 x topk=8 = 8,16,32 tokens
 *   2280 cases: 10 seeds x 3 capacities {16384, 4096, 512} x 4 offsets x blocks {128, 256, 512}
 *   7.95 us per launch .. i.e. 381.8 us per step across 48 layers */
#include "claims.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OPERANDS_MOST = 12, LIST_MOST = 8 };

typedef struct operand {
    int figures[LIST_MOST], count; /* tokens; several: a list "1,2,4" */
    double counted;                /* of a bare list {..}: its length, no figure; else NaN */
    claims_kind operation;         /* before it */
} operand;
typedef struct expression {
    operand operands[OPERANDS_MOST];
    int count, first, end; /* tokens it spans */
} expression;

static bool is_operation(claims_kind k) {
    return k == CLAIMS_TIMES || k == CLAIMS_PLUS || k == CLAIMS_MINUS || k == CLAIMS_SLASH;
}

/* "+2" behind a figure is an operation that lacks its space. */
static bool operation_at(const claims_doc *d, int i) {
    return is_operation(claims_kind_at(d, i));
}

static bool tight_comma(const claims_doc *d, int i) {
    return claims_kind_at(d, i) == CLAIMS_COMMA && claims_kind_at(d, i + 1) == CLAIMS_FIGURE &&
           d->tokens[i + 1].at == d->tokens[i].at + 1;
}

/* The list of figures from `first` on; *end is behind it. */
static operand read_list(const claims_doc *d, int first, int *end) {
    operand o = {.counted = NAN};
    int i = first;
    o.figures[o.count++] = i++;
    while (o.count < LIST_MOST && tight_comma(d, i)) o.figures[o.count++] = i + 1, i += 2;
    *end = i;
    return o;
}

/* Behind a bracket or brace that opens at i; i itself when it does not close soon, or a bracket holds figures. */
static int past_bracket(const claims_doc *d, int i, int end) {
    for (int k = i + 1; k < end && k < i + 40; k++) {
        if (d->tokens[k].kind == CLAIMS_CLOSE || d->tokens[k].kind == CLAIMS_LIST_END) return k + 1;
        if (d->tokens[i].kind == CLAIMS_OPEN && claims_figure(d, k)) return i;
    }
    return i;
}

static int list_length(const claims_doc *d, int open, int end) {
    int n = 1, close = past_bracket(d, open, end);
    if (close <= open + 2) return 0;
    for (int k = open + 1; k < close; k++) n += d->tokens[k].kind == CLAIMS_COMMA;
    return n;
}

/* Words, settings' names and remarks in brackets between an operand and what follows it. */
static int skip_words(const claims_doc *d, int i, int end, int words) {
    for (; i < end; words--) {
        claims_kind k = claims_kind_at(d, i);
        if (k == CLAIMS_WORD && words > 0)
            i++;
        else if (k == CLAIMS_OPEN || k == CLAIMS_LIST) {
            int past = past_bracket(d, i, end);
            if (past == i) return i;
            i = past;
        } else
            return i;
    }
    return i;
}

/* One operand from i on: words, then a figure, or words and a list in braces. */
static bool read_operand(const claims_doc *d, int i, int end, operand *o, int *past) {
    int at = i, words = 0;
    while (at < end && words < 4 && claims_kind_at(d, at) == CLAIMS_WORD && isnan(d->tokens[at].value)) at++, words++;
    if (claims_kind_at(d, at) == CLAIMS_LIST && words) {
        *o = (operand){.counted = list_length(d, at, end)};
        *past = past_bracket(d, at, end);
        return *past > at && o->counted > 0;
    }
    if (isnan(at < end ? d->tokens[at].value : NAN)) return false;
    *o = read_list(d, at, past);
    *past = skip_words(d, *past, end, 5);
    return true;
}

/* operand (operation operand)* from i on; false with fewer than two. */
static bool read_forward(const claims_doc *d, int i, int end, expression *x) {
    int past;
    *x = (expression){.first = i};
    while (x->count < OPERANDS_MOST && read_operand(d, i, end, &x->operands[x->count], &past)) {
        x->operands[x->count++].operation = claims_kind_at(d, i - 1);
        x->end = i = past;
        if (i >= end || !operation_at(d, i)) break;
        i++;
    }
    return x->count >= 2;
}

/* The first token of the expression that ends before `equals`: back over words, figures, brackets and operations. */
static int expression_start(const claims_doc *d, int first, int equals) {
    int start = -1, words = 0;
    for (int i = equals - 1; i >= first && i > equals - 60; i--) {
        claims_kind k = d->tokens[i].kind;
        if (k == CLAIMS_FIGURE) {
            if (start >= 0 && !operation_at(d, i + 1) && !words && !tight_comma(d, i + 1)) break;
            start = i, words = 0;
            if (d->tokens[i].named && i > first) i--; /* its name */
            if (i > first && tight_comma(d, i - 1)) continue;
        } else if (k == CLAIMS_WORD) {
            if (++words > 4) break;
        } else if (k == CLAIMS_CLOSE) {
            while (i > first && d->tokens[i].kind != CLAIMS_OPEN && !claims_figure(d, i)) i--;
            if (d->tokens[i].kind != CLAIMS_OPEN) break;
        } else if (is_operation(k)) {
            words = 0;
        } else if (!tight_comma(d, i)) {
            break;
        }
    }
    return start;
}

/* ---- values ---- */

static claims_span value_of(const claims_doc *d, const operand *o, int element) {
    if (!isnan(o->counted)) return claims_whole(o->counted);
    const claims_token *t = &d->tokens[o->figures[o->count > 1 ? element : 0]];
    if (t->kind == CLAIMS_WORD) return claims_whole(t->value);
    claims_span s = claims_base_of(t);
    return claims_shape_of(t) == CLAIMS_PERCENT ? claims_scaled(s, 0.01) : s;
}

/* Products first, then sums. `seconds`, `bytes`: exponents of the result; INT: terms differ. */
static claims_span evaluate(const claims_doc *d, const expression *x, int element, int *seconds, int *bytes) {
    claims_span sum = {0, 0}, term = {0, 0};
    int s = 0, b = 0, sign = 1;
    *seconds = *bytes = 1000;
    for (int i = 0; i < x->count; i++) {
        const operand *o = &x->operands[i];
        const claims_unit *u = &claims_units[isnan(o->counted) ? d->tokens[o->figures[0]].unit : 0];
        claims_span v = value_of(d, o, element);
        if (i && o->operation == CLAIMS_TIMES) {
            term = claims_mul(term, v), s += u->seconds, b += u->bytes;
        } else if (i && o->operation == CLAIMS_SLASH) {
            term = claims_div(term, v), s -= u->seconds, b -= u->bytes;
        } else {
            if (i) sum = claims_add(sum, claims_scaled(term, sign)), *seconds = s, *bytes = b;
            term = v, s = u->seconds, b = u->bytes, sign = i && o->operation == CLAIMS_MINUS ? -1 : 1;
        }
    }
    if (*seconds != 1000 && (s != *seconds || b != *bytes)) s = 0, b = 0;
    *seconds = s, *bytes = b;
    return claims_add(sum, claims_scaled(term, sign));
}

static void write_expression(const claims_doc *d, const expression *x, int element, char text[200]) {
    size_t n = 0;
    for (int i = 0; i < x->count && n < 170; i++) {
        const operand *o = &x->operands[i];
        const char *by = o->operation == CLAIMS_TIMES   ? " x "
                         : o->operation == CLAIMS_SLASH ? " / "
                         : o->operation == CLAIMS_MINUS ? " - "
                                                        : " + ";
        double v = isnan(o->counted) ? d->tokens[o->figures[o->count > 1 ? element : 0]].value : o->counted;
        n += (size_t)snprintf(text + n, 200 - n, "%s%.10g", i ? by : "", v);
    }
}

/* Sizes in units of several names: "64 x 256 kB = 16 MB" may count in 1024s. */
static bool mixed_sizes(const claims_doc *d, const expression *x, const claims_token *result) {
    for (int i = 0; i < x->count; i++) {
        if (!isnan(x->operands[i].counted)) continue;
        const claims_token *t = &d->tokens[x->operands[i].figures[0]];
        if (claims_shape_of(t) == CLAIMS_SIZE && t->unit != result->unit) return true;
    }
    return false;
}

static void settle_result(claims_doc *d, int figure, const expression *x, int element, const char *rule) {
    const claims_token *t = &d->tokens[figure];
    const claims_unit *u = &claims_units[t->unit];
    char text[200] = "";
    int seconds, bytes;
    claims_span v = evaluate(d, x, element, &seconds, &bytes);
    bool plain = seconds == 0 && bytes == 0, fits = u->seconds == seconds && u->bytes == bytes;
    if (u->shape == CLAIMS_PERCENT) v = claims_scaled(v, 100);
    claims_span in_unit = claims_scaled(v, 1 / u->scale);
    write_expression(d, x, element, text);
    /* A unit that the result adds or drops ("64 x 3 = 192 mallocs/s"): the bare numbers */
    if (!fits && !(u->shape == CLAIMS_PERCENT)) {
        if (!plain && u->seconds + u->bytes) return;
        double scale = 1;
        for (int i = 0; i < x->count; i++)
            if (isnan(x->operands[i].counted) && (!i || x->operands[i].operation == CLAIMS_PLUS))
                scale = claims_scale_of(&d->tokens[x->operands[i].figures[0]]);
        in_unit = plain ? v : claims_scaled(v, 1 / scale);
    }
    if (mixed_sizes(d, x, t)) in_unit.hi *= 1.0738, in_unit.lo /= 1.0738; /* 1000 or 1024, up to G */
    bool whole = claims_exact(t) && in_unit.lo == in_unit.hi && x->operands[x->count - 1].operation == CLAIMS_SLASH;
    if (whole && t->value == floor(in_unit.lo)) in_unit.lo = t->value; /* a division of whole numbers */
    claims_settle(d, figure, rule, in_unit, "%s = %.10g", text, claims_mid(in_unit));
}

/* ---- equations ---- */

static const char *rule_of(const expression *x) {
    for (int i = 1; i < x->count; i++)
        if (x->operands[i].operation == CLAIMS_PLUS || x->operands[i].operation == CLAIMS_MINUS) return "sum";
    return x->operands[1].operation == CLAIMS_SLASH ? "ratio" : "product";
}

/* "58 / 103 / 180" is a list, "4.0 + these two fixes" no sum. */
static bool is_loose(const claims_doc *d, const expression *x) {
    int slashes = 0;
    for (int i = 0; i < x->count; i++) {
        slashes += i && x->operands[i].operation == CLAIMS_SLASH;
        if (isnan(x->operands[i].counted) && d->tokens[x->operands[i].figures[0]].kind == CLAIMS_WORD) return true;
    }
    return slashes > 1 || (slashes && x->count > 3);
}

/* "at M = 2": the name of a setting before the sign. */
static bool is_setting(const claims_doc *d, int equals) {
    const claims_token *w = &d->tokens[equals - 1];
    if (equals < 1 || w->kind != CLAIMS_WORD) return false;
    bool capitals = true;
    if (w->at + w->len == d->tokens[equals].at) return true; /* name= */
    for (uint32_t i = 0; i < w->len; i++) capitals &= !(d->text[w->at + i] >= 'a' && d->text[w->at + i] <= 'z');
    return w->len <= 2 || capitals || memchr(d->text + w->at, '_', w->len);
}

/* The sign stands in another line, and words lie between. */
static bool far_away(const claims_doc *d, const expression *x, int equals) {
    const operand *o = &x->operands[x->count - 1];
    if (!isnan(o->counted)) return false;
    int last = o->figures[o->count - 1];
    return d->tokens[last].line != d->tokens[equals].line && equals - last > 2;
}

static void equation(claims_doc *d, const claims_part *p, int equals) {
    expression x;
    int start = expression_start(d, p->first, equals), past;
    int right = equals + 1;
    while (right < p->end && right < equals + 3 && claims_word(d, right, "about|roughly|a|an|the|only")) right++;
    if (claims_kind_at(d, right) != CLAIMS_FIGURE || right >= p->end || is_setting(d, equals)) return;
    if (start >= 0 && read_forward(d, start, equals, &x) && x.end >= equals) {
        if (is_loose(d, &x) || far_away(d, &x, equals)) return;
        if (operation_at(d, right + 1) && claims_kind_at(d, right + 1) != CLAIMS_SLASH) return;
        operand result = read_list(d, right, &past);
        int lists = 0;
        for (int i = 0; i < x.count; i++) lists = x.operands[i].count > 1 ? x.operands[i].count : lists;
        for (int i = 0; i < result.count && (result.count == 1 || result.count == lists); i++)
            settle_result(d, result.figures[i], &x, i, rule_of(&x));
        return;
    }
    int left = equals - 1;
    if (claims_figure(d, left) && left >= p->first && read_forward(d, right, p->end, &x) &&
        !operation_at(d, left - 1) && !is_loose(d, &x))
        settle_result(d, left, &x, 0, rule_of(&x));
}

/* ---- cases: a x b x c ---- */

#define CASES                                                                                               \
    "case|cases|combinations|configurations|configs|runs|cells|points|tests|checks|comparisons|candidates|" \
    "measurements|"                                                                                         \
    "requests|samples|experiments|variants|launches|calls"

/* Every factor is counted and has a name; "128 x 2688" has none. */
static bool counts_things(const claims_doc *d, const expression *x) {
    for (int i = 0; i < x->count; i++) {
        const operand *o = &x->operands[i];
        if (i && o->operation != CLAIMS_TIMES) return false;
        if (!isnan(o->counted)) continue;
        if (o->count > 1 || isnan(claims_count_at(d, o->figures[0]))) return false;
        claims_kind next = claims_kind_at(d, o->figures[0] + 1);
        if (next != CLAIMS_WORD && next != CLAIMS_LIST) return false;
    }
    return true;
}

static void cases(claims_doc *d, const claims_part *p, int word) {
    int figure = claims_last_figure(d, word - 3 > p->first ? word - 3 : p->first, word), at = word + 1;
    expression x;
    if (figure < 0 || isnan(claims_count_at(d, figure))) return;
    claims_kind k = claims_kind_at(d, at);
    if (k != CLAIMS_COLON && k != CLAIMS_OPEN && k != CLAIMS_EQUALS && k != CLAIMS_DASH) return;
    if (!read_forward(d, at + 1, p->end, &x) || !counts_things(d, &x)) return;
    bool more = x.end < p->end && operation_at(d, x.end);
    if (more) return;
    settle_result(d, figure, &x, 0, "product");
    if (claims_kind_at(d, figure - 1) == CLAIMS_SLASH && claims_figure(d, figure - 2))
        settle_result(d, figure - 2, &x, 0, "product");
}

/* "5 seeds x 4 sizes, 20 cases in all": the count behind its factors. */
static void cases_behind(claims_doc *d, const claims_part *p, int times) {
    expression x;
    int first = times - 1;
    while (first > p->first && claims_kind_at(d, first) == CLAIMS_WORD) first--;
    if (claims_kind_at(d, first - 1) == CLAIMS_TIMES || !claims_figure(d, first)) return; /* the first factor alone */
    if (claims_kind_at(d, first - 1) == CLAIMS_OPEN || claims_kind_at(d, first - 1) == CLAIMS_COLON) return;
    if (!read_forward(d, first, p->end, &x) || !counts_things(d, &x)) return;
    if (claims_kind_at(d, x.end) != CLAIMS_COMMA && claims_kind_at(d, x.end) != CLAIMS_ARROW) return;
    int figure = claims_next_figure(d, x.end + 1, x.end + 4 < p->end ? x.end + 4 : p->end);
    if (figure < 0 || isnan(claims_count_at(d, figure)) || claims_find(d, figure + 1, figure + 3, CASES) < 0) return;
    settle_result(d, figure, &x, 0, "product");
}

/* ---- "A per launch, i.e. B per step across N layers" ---- */

static void per_rule(claims_doc *d, const claims_part *p) {
    int a = -1;
    for (int i = p->first; i + 1 < p->end; i++) {
        if (!claims_figure(d, i) || !claims_word(d, i + 1, "per|each|apiece")) continue;
        int over = claims_find(d, i + 1, p->end, "across|over|times|by|for|with"), b = i;
        if (a < 0) {
            a = i;
            continue;
        }
        int n = over < 0 ? -1 : claims_next_figure(d, over + 1, over + 4 < p->end ? over + 4 : p->end);
        bool joined =
            claims_find(d, a, b, "i.e|so|thus|or|which|hence|is") >= 0 || claims_kind_at(d, b - 1) == CLAIMS_EQUALS;
        if (n < 0 || !joined || isnan(claims_count_at(d, n)) || !claims_same_shape(&d->tokens[a], &d->tokens[b]) ||
            !d->tokens[a].unit)
            return;
        claims_span v =
            claims_scaled(claims_base_of(&d->tokens[a]), d->tokens[n].value / claims_scale_of(&d->tokens[b]));
        claims_settle(d, b, "product", v, "%g x %g = %.6g", d->tokens[a].value, d->tokens[n].value, claims_mid(v));
        return;
    }
}

/* "48 layers at 12.5 us each make 600 us" */
static void each_rule(claims_doc *d, const claims_part *p, int at) {
    int n = claims_last_figure(d, at - 3 > p->first ? at - 3 : p->first, at), a = at + 1;
    if (n < 0 || isnan(claims_count_at(d, n)) || !claims_figure(d, a) || !d->tokens[a].unit) return;
    if (!claims_word(d, a + 1, "each|apiece")) return;
    int verb = claims_find(d, a + 2, a + 5 < p->end ? a + 5 : p->end, "make|makes|is|are|cost|costs|take|takes");
    int b = verb < 0 ? -1 : claims_next_figure(d, verb + 1, verb + 3 < p->end ? verb + 3 : p->end);
    if (b < 0 || !claims_same_shape(&d->tokens[a], &d->tokens[b]) || !d->tokens[b].unit) return;
    claims_span v = claims_scaled(claims_base_of(&d->tokens[a]), d->tokens[n].value / claims_scale_of(&d->tokens[b]));
    claims_settle(d, b, "product", v, "%g x %g = %.6g", d->tokens[n].value, d->tokens[a].value, claims_mid(v));
}

void claims_sum_rules(claims_doc *d) {
    for (int i = 0; i < d->part_count && !d->failed; i++) {
        const claims_part *p = &d->parts[i];
        for (int t = p->first; t < p->end; t++) {
            if (d->tokens[t].kind == CLAIMS_EQUALS) equation(d, p, t);
            if (claims_word(d, t, CASES)) cases(d, p, t);
            if (claims_word(d, t, "at|of")) each_rule(d, p, t);
            if (d->tokens[t].kind == CLAIMS_TIMES && p->place != CLAIMS_CELL) cases_behind(d, p, t);
        }
        if (p->place != CLAIMS_CELL) per_rule(d, p);
    }
}
