/* claims_sample.c: cells of tables whose rows are arms of the samples, and p, from the samples. Sentences that name
 * arms are claims_arm.c's business: it asks the samples first. */
#include "claims_arm.h"
#include <math.h>
#include <string.h>

enum { METRICS_LOOKED_AT = 64 };
static const char *const headers[] = {"mean|average|avg", "median", "sd|std|stdev", "min", "max"};

/* Does the header name a metric of the samples? */
static bool names_metric(const claims_doc *d, const claims_table *t, int column) {
    const claims_cell *h = claims_cell_at(d, t, 0, column);
    for (int i = 0; i < lab_samples_count(d->samples) && i < METRICS_LOOKED_AT; i++)
        if (claims_names_metric(d->text + h->at, h->len, lab_samples_at(d->samples, i)->metric)) return true;
    return false;
}

static void cell(claims_doc *d, const claims_table *t, int column, int figure, const claims_arm *a) {
    if (claims_header_has(d, t, column, "n|samples|count") && claims_exact(&d->tokens[figure])) {
        claims_settle(d, figure, "samples", claims_whole(a->count), "the arm has %d samples", a->count);
        return;
    }
    for (int s = 0; s < 5; s++) {
        if (!claims_header_has(d, t, column, headers[s])) continue;
        bool pooled = s == CLAIMS_SD && claims_header_has(d, t, column, "within|pooled");
        claims_span v = pooled ? claims_arm_pooled(a) : claims_arm_statistic(a, (claims_statistic)s);
        claims_settle(d, figure, "samples", v, "the %s of %d samples is %.8g", claims_statistic_names[s], a->count,
                      claims_mid(v));
        return;
    }
    if (!names_metric(d, t, column) || claims_shape_of(&d->tokens[figure]) == CLAIMS_PERCENT) return;
    claims_span v[] = {claims_arm_statistic(a, CLAIMS_MEAN), claims_arm_statistic(a, CLAIMS_MEDIAN)};
    claims_settle_any(d, figure, "samples", v, 2, "%d samples: mean %.8g, median %.8g", a->count, claims_mid(v[0]),
                      claims_mid(v[1]));
}

/* ---- an arm against the first arm of the samples ---- */

static bool is_contrast(const claims_doc *d, const claims_table *t, int column) {
    const claims_cell *h = claims_cell_at(d, t, 0, column);
    return claims_header_has(d, t, column, "ratio|change|delta|difference") && h->len < 24;
}

/* What a percentage or a ratio is of has a unit of its own. */
static claims_token asked_of(const claims_token *figure) {
    claims_token t = *figure;
    if (claims_shape_of(&t) == CLAIMS_PERCENT || claims_shape_of(&t) == CLAIMS_FOLD) t.unit = 0;
    return t;
}

static void contrast(claims_doc *d, const claims_table *t, int column, int figure, const claims_arm *a) {
    const char *first = lab_samples_at(d->samples, 0)->arm;
    const claims_token *f = &d->tokens[figure];
    claims_arm b;
    claims_token as = asked_of(f);
    if (!claims_arm_find(d, first, strlen(first), &as, claims_cell_at(d, t, 0, column), &b)) return;
    claims_span readings[2];
    for (int s = 0; s < 2; s++) { /* of means, of medians */
        claims_span of = claims_arm_statistic(a, (claims_statistic)s),
                    base = claims_arm_statistic(&b, (claims_statistic)s);
        if (claims_shape_of(f) == CLAIMS_PERCENT)
            readings[s] = claims_change(base, of);
        else
            readings[s] = claims_header_has(d, t, column, "ratio") ? claims_div(of, base) : claims_sub(of, base);
    }
    claims_settle_any(d, figure, "samples", readings, 2, "the samples give %.6g against %.20s", claims_mid(readings[0]),
                      first);
    claims_arm_free(&b);
}

/* ---- p ---- */

/* The only two arms of the samples; false: fewer or more. */
static bool two_arms(claims_doc *d, int figure, claims_arm *a, claims_arm *b) {
    const char *names[2] = {NULL, NULL};
    claims_token any = d->tokens[figure];
    any.unit = 0;
    for (int i = 0; i < lab_samples_count(d->samples); i++) {
        const char *arm = lab_samples_at(d->samples, i)->arm;
        int k = 0;
        while (k < 2 && names[k] && strcmp(names[k], arm)) k++;
        if (k == 2) return false;
        names[k] = arm;
    }
    if (!names[1] || !claims_arm_find(d, names[0], strlen(names[0]), &any, NULL, a)) return false;
    if (claims_arm_find(d, names[1], strlen(names[1]), &any, NULL, b)) return true;
    claims_arm_free(a);
    return false;
}

static double *values_of(const claims_arm *a) {
    double *v = mem_new_array((size_t)a->count, sizeof *v);
    for (int i = 0; v && i < a->count; i++) v[i] = claims_mid(a->values[i]);
    return v;
}

static double permutation(const claims_arm *a, const claims_arm *b, bool *exact) {
    double *x = values_of(a), *y = values_of(b), p = NAN;
    if (x && y) p = lab_permutation_p(x, a->count, y, b->count, 1, exact);
    mem_free(x);
    mem_free(y);
    return p;
}

/* The figure is p of the samples' two arms; worked out once. */
static void p_value(claims_doc *d, int figure) {
    claims_arm a, b;
    if (!d->p_asked && two_arms(d, figure, &a, &b)) {
        d->p = permutation(&a, &b, &d->p_exact);
        claims_arm_free(&a);
        claims_arm_free(&b);
    }
    d->p_asked = true;
    if (d->p_exact)
        claims_settle(d, figure, "samples", claims_whole(d->p), "the exact permutation p of the samples is %.5g", d->p);
}

static void p_values(claims_doc *d) {
    for (int i = 0; i + 2 < d->token_count && !d->failed; i++) {
        if (!claims_word(d, i, "p")) continue;
        int f = claims_kind_at(d, i + 1) == CLAIMS_EQUALS ? i + 2 : d->tokens[i + 1].named ? i + 1 : -1;
        if (f >= 0 && claims_kind_at(d, f) == CLAIMS_FIGURE) p_value(d, f);
    }
}

/* ---- rows ---- */

/* "OFF (reference)" is OFF. */
static claims_cell label_of(const claims_doc *d, const claims_table *t, int r) {
    claims_cell label = *claims_cell_at(d, t, r, 0);
    const char *bracket = label.len ? memmem(d->text + label.at, label.len, " (", 2) : NULL;
    if (bracket) label.len = (uint32_t)(bracket - (d->text + label.at));
    return label;
}

static void row(claims_doc *d, const claims_table *t, int r) {
    claims_cell label = label_of(d, t, r);
    for (int c = 1; c < t->columns; c++) {
        claims_arm a;
        int f = claims_cell_figure(d, t, r, c, false);
        if (f < 0 || claims_is_run(d, t, c)) continue;
        claims_token as = asked_of(&d->tokens[f]);
        if (claims_cell_at(d, t, 0, c)->len == 1 && claims_header_has(d, t, c, "p")) p_value(d, f);
        if (!claims_arm_find(d, d->text + label.at, label.len, &as, claims_cell_at(d, t, 0, c), &a)) continue;
        if (is_contrast(d, t, c))
            contrast(d, t, c, f, &a);
        else
            cell(d, t, c, f, &a);
        claims_arm_free(&a);
    }
}

void claims_sample_rules(claims_doc *d) {
    for (int i = 0; i < d->table_count && !d->failed; i++)
        for (int r = 1; r < d->tables[i].rows && r < 200; r++) row(d, &d->tables[i], r);
    p_values(d);
}
