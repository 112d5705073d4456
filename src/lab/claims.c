/* claims.c: the checker of reports: reads the text, runs the rules, keeps what they settle. */
#include "claims.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 64 << 20, AROUND = 36, CLAIMS_MOST = 100000, BUDGET = 20000000 };

struct lab_claims {
    lab_claim *claims;
    int count, unchecked;
};

bool claims_grow(claims_doc *d, void **items, int count, size_t *cap, size_t size) {
    if ((size_t)count < *cap) return true;
    size_t more = *cap ? *cap * 2 : 64, bytes;
    void *p = d->failed || !mem_mul(more, size, &bytes) ? NULL : mem_resize(*items, *cap * size, bytes);
    if (!p) {
        d->failed = true;
        return false;
    }
    *items = p;
    *cap = more;
    return true;
}

/* ---- settling ---- */

/* The words around a token, in its line. */
static char *words_around(const claims_doc *d, const claims_token *t) {
    size_t from = t->at, to = (size_t)t->at + t->len;
    while (from && d->text[from - 1] != '\n' && t->at - from < AROUND) from--;
    while (to < d->len && d->text[to] != '\n' && to - t->at - t->len < AROUND) to++;
    while (from < t->at && from && d->text[from - 1] != '\n' && d->text[from] != ' ') from++;
    while (to > t->at + t->len && to < d->len && d->text[to] != '\n' && d->text[to] != ' ') to--;
    while (from < to && strchr(" \t\r", d->text[from])) from++;
    while (to > from && strchr(" \t\r", d->text[to - 1])) to--;
    char *text = mem_copy_text(d->text + from, to - from);
    for (char *p = text; p && *p; p++)
        if (*p == '\t') *p = ' ';
    if (text) err_one_line(text);
    return text;
}

static lab_claim *claim_of(claims_doc *d, int token) {
    claims_token *t = &d->tokens[token];
    if (t->claim) return &d->claims[t->claim - 1];
    if (d->claim_count >= CLAIMS_MOST) return NULL;
    if (!claims_grow(d, (void **)&d->claims, d->claim_count, &d->claim_cap, sizeof *d->claims)) return NULL;
    lab_claim *c = &d->claims[d->claim_count];
    *c = (lab_claim){.line = t->line, .text = words_around(d, t), .stated = t->value, .ok = false};
    if (!c->text) {
        d->failed = true;
        return NULL;
    }
    t->claim = ++d->claim_count;
    return c;
}

static void fill(claims_doc *d, lab_claim *c, const char *rule, double recomputed, bool ok, const char *format,
                 va_list args) {
    char why[400];
    vsnprintf(why, sizeof why, format, args);
    err_one_line(why);
    char *copy = mem_copy_text(why, strlen(why));
    mem_free((void *)(uintptr_t)c->why);
    c->why = copy;
    if (!copy) d->failed = true;
    c->rule = rule;
    c->recomputed = recomputed;
    c->ok = ok;
}

/* A remark behind what a claim says already. */
static void append(claims_doc *d, lab_claim *c, const char *more) {
    char why[700];
    snprintf(why, sizeof why, "%s; %s", c->why ? c->why : "", more);
    err_one_line(why);
    mem_free((void *)(uintptr_t)c->why);
    c->why = mem_copy_text(why, strlen(why));
    if (!c->why) d->failed = true;
}

static void remark(claims_doc *d, lab_claim *c, const char *format, va_list args) {
    char more[300];
    if (!c->ok || c->note) return;
    vsnprintf(more, sizeof more, format, args);
    append(d, c, more);
    c->note = true;
}

/* 16.53 printed as 16. */
static bool is_cut(const claims_token *t, claims_span reading) {
    claims_span s = claims_span_of(t);
    double half = (s.hi - s.lo) / 2;
    claims_span cut =
        t->value < 0 ? (claims_span){t->value - 2 * half, t->value} : (claims_span){t->value, t->value + 2 * half};
    return isnan(t->high) && !t->about && half > 0 && claims_meet(cut, reading);
}

static bool settle(claims_doc *d, int figure, const char *rule, const claims_span *readings, int count,
                   const char *format, va_list args) {
    const claims_token *t = &d->tokens[figure];
    claims_span stated = claims_span_of(t);
    int known = -1, met = -1;
    for (int i = 0; i < count; i++) {
        if (!claims_known(readings[i])) continue;
        if (known < 0) known = i;
        claims_span as = stated;
        if (claims_exact(t) && readings[i].lo < readings[i].hi) as = (claims_span){t->value - 0.5, t->value + 0.5};
        if (t->bound > 0 && readings[i].lo <= as.hi) as.lo = readings[i].lo;
        if (t->bound < 0 && readings[i].hi >= as.lo) as.hi = readings[i].hi;
        if (met < 0 && claims_meet(as, readings[i])) met = i;
    }
    if (known < 0) return true;
    if (t->claim && d->claims[t->claim - 1].ok && !d->claims[t->claim - 1].note) return met >= 0;
    if (t->claim && met < 0 && d->claims[t->claim - 1].rule) return false;
    lab_claim *c = claim_of(d, figure);
    if (c) fill(d, c, rule, claims_mid(readings[met >= 0 ? met : known]), met >= 0, format, args);
    if (c) c->note = false;
    if (c && met < 0 && is_cut(t, readings[known])) append(d, c, "cut, not rounded");
    return met >= 0;
}

bool claims_settle_any(claims_doc *d, int figure, const char *rule, const claims_span *readings, int count,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool ok = settle(d, figure, rule, readings, count, format, args);
    va_end(args);
    return ok;
}

bool claims_settle(claims_doc *d, int figure, const char *rule, claims_span recomputed, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool ok = settle(d, figure, rule, &recomputed, 1, format, args);
    va_end(args);
    return ok;
}

void claims_mark(claims_doc *d, int figure) {
    int claim = d->tokens[figure].claim;
    if (claim && d->claims[claim - 1].ok) d->claims[claim - 1].note = true;
}

void claims_tell(claims_doc *d, int figure, const char *rule, bool note, double recomputed, const char *format, ...) {
    va_list args;
    int known = d->tokens[figure].claim;
    lab_claim *c = claim_of(d, figure);
    if (!c) return;
    va_start(args, format);
    if (note && known) {
        remark(d, c, format, args);
    } else {
        fill(d, c, rule, recomputed, note, format, args);
        c->note = note;
    }
    va_end(args);
}

/* ---- the whole ---- */

/* Claims in the order of their figures. */
static bool sort(claims_doc *d) {
    lab_claim *sorted = mem_new_array((size_t)d->claim_count + 1, sizeof *sorted);
    int n = 0;
    if (!sorted) return false;
    for (int i = 0; i < d->token_count; i++)
        if (d->tokens[i].claim) sorted[n++] = d->claims[d->tokens[i].claim - 1];
    mem_free(d->claims);
    d->claims = sorted;
    return true;
}

static int count_unchecked(const claims_doc *d) {
    int n = 0;
    for (int i = 0; i < d->token_count; i++) n += claims_figure(d, i) && !d->tokens[i].claim;
    return n;
}

static void free_claims(lab_claim *claims, int count) {
    for (int i = 0; i < count; i++) {
        mem_free((void *)(uintptr_t)claims[i].text);
        mem_free((void *)(uintptr_t)claims[i].why);
    }
    mem_free(claims);
}

static void free_doc(claims_doc *d) {
    mem_free(d->tokens);
    mem_free(d->parts);
    mem_free(d->cells);
    mem_free(d->tables);
}

static cadre_err check(claims_doc *d, cadre_fail *why) {
    static void (*const rules[])(claims_doc *) = {claims_table_rules, claims_list_rules,  claims_prose_rules,
                                                  claims_sum_rules,   claims_count_rules, claims_arm_rules,
                                                  claims_link_rules};
    cadre_err err = claims_lay(d, why);
    if (err) return err;
    claims_header_units(d);
    if (d->samples) claims_sample_rules(d);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !d->failed; i++) rules[i](d);
    return d->failed ? cadre_fail_set(why, CADRE_NOMEM, "out of memory for a report") : CADRE_OK;
}

cadre_err lab_claims_new(const char *text, size_t len, const lab_samples *samples, lab_claims **out, cadre_fail *why) {
    claims_doc d = {.text = text, .len = len, .samples = samples, .budget = BUDGET};
    if (len > TEXT_MOST) return cadre_fail_set(why, CADRE_FORMAT, "more than %d MB: not a report", TEXT_MOST >> 20);
    const char *nul = len ? memchr(text, 0, len) : NULL;
    if (nul) return cadre_fail_set(why, CADRE_FORMAT, "byte %zu is zero: not a text", (size_t)(nul - text));
    cadre_err err = check(&d, why);
    lab_claims *c = err ? NULL : mem_new(sizeof *c);
    if (!err && (!c || !sort(&d))) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for a report");
    if (!err) {
        *c = (lab_claims){d.claims, d.claim_count, count_unchecked(&d)};
        *out = c;
    } else {
        free_claims(d.claims, d.claim_count);
        mem_free(c);
    }
    free_doc(&d);
    return err;
}

void lab_claims_free(lab_claims *c) {
    if (!c) return;
    free_claims(c->claims, c->count);
    mem_free(c);
}

int lab_claims_count(const lab_claims *c) {
    return c->count;
}

const lab_claim *lab_claims_at(const lab_claims *c, int i) {
    return i < 0 || i >= c->count ? NULL : &c->claims[i];
}

int lab_claims_unchecked(const lab_claims *c) {
    return c->unchecked;
}
