/* claims_stat.c: statistics of rounded values, and the values of an arm. */
#include "claims_arm.h"
#include <math.h>
#include <string.h>

const char *const claims_statistic_names[] = {"mean", "median", "sd", "min", "max"};

/* Rounds of a merge over halves: long arms come from samples. */
static void merge(claims_span *v, claims_span *spare, int n) {
    if (n < 2) return;
    int half = n / 2, i = 0, k = half, to = 0;
    merge(v, spare, half);
    merge(v + half, spare, n - half);
    while (i < half || k < n) {
        bool left = k == n || (i < half && claims_mid(v[i]) <= claims_mid(v[k]));
        spare[to++] = left ? v[i++] : v[k++];
    }
    memcpy(v, spare, (size_t)n * sizeof *v);
}

void claims_sort(claims_span *v, int n) {
    claims_span *spare = mem_new_array((size_t)n + 1, sizeof *spare);
    if (spare) merge(v, spare, n);
    mem_free(spare);
}

claims_span claims_mean_of(const claims_span *v, int n) {
    claims_span sum = {0, 0};
    for (int i = 0; i < n; i++) sum = claims_add(sum, v[i]);
    return claims_scaled(sum, 1.0 / n);
}

/* Near enough the least and the most: an sd moves by at most the root mean square of the moves of its values. */
claims_span claims_sd_of(const claims_span *v, int n, int less) {
    double mean = 0, sum = 0, slack = 0;
    if (n < 2) return (claims_span){NAN, NAN};
    for (int i = 0; i < n; i++) mean += claims_mid(v[i]) / n;
    for (int i = 0; i < n; i++) {
        double x = claims_mid(v[i]) - mean, h = (v[i].hi - v[i].lo) / 2;
        sum += x * x, slack += h * h;
    }
    double sd = sqrt(sum / (n - less)), by = sqrt(slack / (n - less));
    return (claims_span){fmax(sd - by, 0), sd + by};
}

/* ---- the values of an arm ---- */

static bool put(claims_doc *d, claims_arm *a, claims_span v, int group) {
    if (!claims_grow(d, (void **)&a->values, a->count, &a->cap, sizeof *a->values)) return false;
    if (!claims_grow(d, (void **)&a->groups, a->count, &a->group_cap, sizeof *a->groups)) return false;
    a->values[a->count] = v;
    a->groups[a->count++] = group;
    return true;
}

static bool same(const char *a, const char *b, size_t n) {
    return strlen(b) == n && !memcmp(a, b, n);
}

/* A sample in the unit of the figure; NaN: another kind of unit. */
static double in_unit(const lab_sample *s, const claims_token *as) {
    size_t len = 0, n = s->unit ? strlen(s->unit) : 0;
    int unit = n ? claims_unit_at(s->unit, n, true, &len) : 0;
    if (!as->unit || !unit || len != n) return s->value;
    if (claims_units[unit].shape != claims_shape_of(as) || claims_units[unit].bytes != claims_units[as->unit].bytes)
        return NAN;
    return s->value * claims_units[unit].scale / claims_scale_of(as);
}

/* Does the text name the metric: "TPOT" of "tpot_ms"? */
bool claims_names_metric(const char *text, size_t len, const char *metric) {
    char word[40];
    size_t n = strcspn(metric, "_");
    if (!n || n >= sizeof word || memchr(metric, '|', n)) return false;
    memcpy(word, metric, n);
    word[n] = 0;
    return claims_text_has(text, len, word);
}

/* Where the name of the figure's metric may stand: `near`, else the figure's line. */
static claims_cell place_of(const claims_doc *d, const claims_token *figure, const claims_cell *near) {
    size_t from = figure->at, to = figure->at;
    if (near) return *near;
    while (from && d->text[from - 1] != '\n') from--;
    while (to < d->len && d->text[to] != '\n') to++;
    return (claims_cell){(uint32_t)from, (uint32_t)(to - from), -1};
}

/* What the figure is of: the only metric of the arm in its unit, else the one that is named; NULL: not told.
 * Every run has wall_s: where something else was measured, figures are of that unless they are named so. */
static const char *metric_for(const claims_doc *d, const char *name, size_t len, const claims_token *as,
                              const claims_cell *near) {
    claims_cell place = place_of(d, as, near);
    const char *only = NULL, *named = NULL;
    bool several = false, both = false;
    for (int i = 0; i < lab_samples_count(d->samples); i++) {
        const lab_sample *s = lab_samples_at(d->samples, i);
        if (s->warmup || !same(name, s->arm, len) || isnan(in_unit(s, as))) continue;
        bool wall = !strcmp(s->metric, "wall_s");
        several |= only && !wall && strcmp(only, "wall_s") && strcmp(only, s->metric);
        if (!only || !wall) only = s->metric;
        if (!claims_names_metric(d->text + place.at, place.len, s->metric)) continue;
        both |= named && strcmp(named, s->metric);
        named = s->metric;
    }
    return both ? NULL : named ? named : several ? NULL : only;
}

/* Of the last run that has the arm. */
static void from_samples(claims_doc *d, const char *name, size_t len, const claims_token *as, const claims_cell *near,
                         claims_arm *a) {
    const char *metric, *run = NULL;
    int n = d->samples ? lab_samples_count(d->samples) : 0;
    if (!n || (d->budget -= n) < 0 || !(metric = metric_for(d, name, len, as, near))) return;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            const lab_sample *s = lab_samples_at(d->samples, i);
            double v = !s->warmup && same(name, s->arm, len) && !strcmp(metric, s->metric) ? in_unit(s, as) : NAN;
            if (isnan(v)) continue;
            if (!pass)
                run = s->run;
            else if (run == s->run || (run && s->run && !strcmp(run, s->run)))
                put(d, a, claims_whole(v), s->visit);
        }
}

bool claims_is_run(const claims_doc *d, const claims_table *t, int column) {
    const claims_cell *c = claims_cell_at(d, t, 0, column);
    const char *text = d->text + c->at;
    size_t n = 0, digits = 0;
    while (n < c->len && ((text[n] | 32) >= 'a' && (text[n] | 32) <= 'z')) n++;
    if (!claims_text_has(n ? text : "run", n ? n : 3, "i|r|s|n|t|v|x|run|rep|iter|iteration|sample|round|trial|visit"))
        return false;
    while (n < c->len && (text[n] == ' ' || text[n] == '#')) n++;
    while (n + digits < c->len && text[n + digits] >= '0' && text[n + digits] <= '9') digits++;
    return digits && digits < 4 && n + digits == c->len;
}

static void from_row(claims_doc *d, const claims_table *t, int row, claims_arm *a) {
    for (int c = 1; c < t->columns; c++) {
        int f = claims_is_run(d, t, c) ? claims_cell_figure(d, t, row, c, false) : -1;
        if (f >= 0) put(d, a, claims_span_of(&d->tokens[f]), row);
    }
}

static void from_tables(claims_doc *d, const char *name, size_t len, claims_arm *a) {
    for (int i = 0; i < d->table_count && !a->count && (d->budget -= d->tables[i].rows) > 0; i++) {
        const claims_table *t = &d->tables[i];
        for (int r = 1; r < t->rows; r++) {
            const claims_cell *c = claims_cell_at(d, t, r, 0);
            if (c->len == len && !memcmp(d->text + c->at, name, len)) from_row(d, t, r, a);
        }
    }
}

bool claims_arm_find(claims_doc *d, const char *name, size_t len, const claims_token *as, const claims_cell *near,
                     claims_arm *out) {
    claims_arm a = {0};
    from_samples(d, name, len, as, near, &a);
    if (!a.count) from_tables(d, name, len, &a);
    if (a.count < 2 || d->failed) {
        claims_arm_free(&a);
        return false;
    }
    *out = a;
    return true;
}

void claims_arm_free(claims_arm *a) {
    mem_free(a->values);
    mem_free(a->groups);
    *a = (claims_arm){0};
}

claims_span claims_arm_statistic(const claims_arm *a, claims_statistic s) {
    int n = a->count;
    claims_span none = {NAN, NAN}, v;
    if (s == CLAIMS_MEAN) return claims_mean_of(a->values, n);
    if (s == CLAIMS_SD) return claims_sd_of(a->values, n, 1);
    claims_span *sorted = mem_new_array((size_t)n, sizeof *sorted);
    if (!sorted) return none;
    memcpy(sorted, a->values, (size_t)n * sizeof *sorted);
    claims_sort(sorted, n);
    v = s == CLAIMS_MIN ? sorted[0] : s == CLAIMS_MAX ? sorted[n - 1] : sorted[n / 2];
    if (s == CLAIMS_MEDIAN && !(n & 1)) v = claims_scaled(claims_add(v, sorted[n / 2 - 1]), 0.5);
    mem_free(sorted);
    return v;
}

/* Values of a group follow each other. */
claims_span claims_arm_pooled(const claims_arm *a) {
    claims_span sum = {0, 0};
    int groups = 0, free = 0;
    for (int i = 0, n; i < a->count; i += n) {
        n = 1;
        while (i + n < a->count && a->groups[i + n] == a->groups[i]) n++;
        claims_span sd = claims_sd_of(a->values + i, n, 1);
        groups++;
        if (n < 2) continue;
        sum = claims_add(sum, claims_scaled(claims_mul(sd, sd), n - 1));
        free += n - 1;
    }
    if (groups < 2 || !free) return (claims_span){NAN, NAN};
    return (claims_span){sqrt(sum.lo / free), sqrt(sum.hi / free)};
}
