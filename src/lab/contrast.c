/* contrast.c: one arm against the reference. Iterations of one process are not independent, so the outcome is made from
 * visits; samples only add an exact p, which must be small too.
 *
 *   refused       a gate speaks against the arm or the reference
 *   underpowered  too few visits or samples, or the interval holds both no difference and one that matters
 *   within_noise  the interval lies inside +- effect; or what is told from none is under the effect or the noise floor
 *   win, loss     the rest: p < level after Holm, the interval without 1, the estimate at least the effect */
#include "stat.h"
#include "verdict.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- figures ---- */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double separation(const lab_arm_figures *a, const lab_arm_figures *r) {
    return larger(a->low - r->high, r->low - a->high);
}

static cadre_err pairs(lab_box *b, lab_contrast *c, cadre_fail *why) {
    int n = c->arm->visits < c->reference->visits ? c->arm->visits : c->reference->visits;
    double *p = lab_hold(b, (size_t)n, sizeof *p);
    if (!p) return lab_no_memory(why);
    for (int i = 0; i < n; i++) p[i] = c->arm->visit_means[i] / c->reference->visit_means[i] - 1;
    c->pairs = p;
    c->pair_count = n;
    return CADRE_OK;
}

/* The values less their drift, as the visits are compared without it; `out` is room for them. */
static const double *level_values(const lab_box *b, const lab_arm_figures *a, double *out) {
    if (!b->v.drift_corrected) return a->values;
    for (int i = 0; i < a->n; i++)
        out[i] = a->values[i] * m_exp(-b->v.drift_slope * (a->visit_orders[a->visit_of[i]] - b->line_middle));
    return out;
}

/* Fewer where there are so many samples that they would take a second: their percentiles are the steadier. */
static int resamples(const lab_question *q, int n) {
    enum { DRAWS_MOST = 100000000, LEAST = 1000 };
    int most = DRAWS_MOST / n < LEAST ? LEAST : DRAWS_MOST / n;
    return q->resamples < most ? q->resamples : most;
}

static void over_samples(lab_box *b, lab_contrast *c) {
    const lab_arm_figures *a = c->arm, *r = c->reference;
    const lab_question *q = &b->v.question;
    double *room = b->room + a->n + r->n;
    const double *x = level_values(b, r, b->room), *y = level_values(b, a, b->room + r->n);
    bool exact;
    c->p = lab_permutation_in(x, r->n, y, a->n, q->seed, &exact, room);
    c->p_floor = lab_permutation_floor(r->n, a->n);
    c->p_visits = c->p_visits_floor = NAN;
    if (a->visits > 1 && r->visits > 1) {
        c->p_visits = lab_permutation_in(r->visit_means, r->visits, a->visit_means, a->visits, q->seed, &exact, room);
        c->p_visits_floor = lab_permutation_floor(r->visits, a->visits);
    }
    lab_log_ratio_in(x, r->n, y, a->n, q->level, room, c->log_ratio);
    lab_bootstrap_in(x, r->n, y, a->n, q->level, resamples(q, r->n + a->n + 1), q->seed, room, c->bootstrap);
}

lab_welch lab_compare(const lab_box *b, int arm, int reference) {
    const lab_arm_figures *a = &b->v.arms[arm], *r = &b->v.arms[reference];
    lab_welch w = lab_welch_of(b->logs[reference], r->visits, b->logs[arm], a->visits);
    if (!b->v.drift_corrected || !(w.df > 0)) return w;
    double apart = lab_order_mean(a) - lab_order_mean(r);
    w.se = sqrt(w.se * w.se * b->residual_scale + b->line_variance * apart * apart);
    w.df /= b->residual_scale;
    return w;
}

static double pooled(const double *a, int na, const double *b, int nb) {
    return lab_pooled_sd((const double *const[]){a, b}, (const int[]){na, nb}, 2);
}

/* The interval of the ratio over visits. Where values are not all positive there are no logs: the difference relative
 * to the reference's mean takes their place. */
static cadre_err over_visits(lab_box *b, int arm, lab_contrast *c, cadre_fail *why) {
    const lab_arm_figures *a = c->arm, *r = c->reference;
    char *name = lab_hold(b, 96, 1);
    if (!name) return lab_no_memory(why);
    bool log = b->logs[0] && b->logs[arm];
    snprintf(name, 96, "Welch t on %s%s, %d + %d visits",
             log ? "logs of visit means" : "visit means over the reference's mean",
             log && b->v.drift_corrected ? " less their drift" : "", r->visits, a->visits);
    c->estimator = name;
    lab_welch w = log ? lab_compare(b, arm, 0) : lab_welch_of(r->visit_means, r->visits, a->visit_means, a->visits);
    c->p_interval = lab_welch_p(&w);
    lab_welch_interval(&w, b->v.question.level, c->interval);
    for (int i = 0; i < 2; i++) c->interval[i] = log ? m_exp(c->interval[i]) : 1 + c->interval[i] / r->mean;
    if (!log && !(r->mean > 0)) c->interval[0] = c->interval[1] = c->ratio = NAN;
    if (log && b->v.drift_corrected) c->ratio = m_exp(w.difference);
    c->noise = log ? pooled(b->logs[0], r->visits, b->logs[arm], a->visits) * sqrt(b->residual_scale)
                   : pooled(r->visit_means, r->visits, a->visit_means, a->visits) / r->mean;
    return CADRE_OK;
}

/* ---- the noise floor ---- */

static const json *set_up(const lab_box *b, int arm) {
    for (int i = 0; i < b->pick_count; i++)
        if (b->picks[i].arm == arm && b->picks[i].s->manifest) return b->picks[i].s->manifest;
    return NULL;
}

/* Equal in all that a manifest says of what ran: these two arms are a run of A/A. */
static bool twins(const json *a, const json *b) {
    static const char *const keys[] = {"command", "program", "env", "switches", "set", "tables", "files"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *x = json_get(a, keys[i]), *y = json_get(b, keys[i]);
        if ((x || y || !i) && !lab_same_json(x, y)) return false;
    }
    return true;
}

/* What other pairs of equal arms in this run showed. */
static double shown_by_twins(const lab_box *b, int arm) {
    double most = 0;
    for (int i = 0; i < b->v.arm_count; i++) {
        const json *own = set_up(b, i);
        for (int k = i + 1; own && k < b->v.arm_count; k++) {
            if ((!i && k == arm) || !twins(own, set_up(b, k))) continue;
            most = larger(most, fabs(b->v.arms[k].mean / b->v.arms[i].mean - 1));
        }
    }
    return most;
}

static void noise_floor(lab_box *b, int arm, lab_contrast *c) {
    const lab_question *q = &b->v.question;
    double na = c->arm->visits, nr = c->reference->visits, df = (na + nr - 2) / b->residual_scale;
    c->noise_floor = c->noise == 0 ? 0 : df > 0 ? lab_t_quantile(q->level, df) * c->noise * sqrt(1 / na + 1 / nr) : NAN;
    double shown = larger(shown_by_twins(b, arm), q->noise_floor);
    if (shown > 0 && !(c->noise_floor > shown)) c->noise_floor = shown;
    c->visits_needed = q->power > 0 ? lab_visits_needed(q->effect, c->noise, q->level, q->power) : 0;
}

static cadre_err one(lab_box *b, int arm, lab_contrast *c, cadre_fail *why) {
    const lab_arm_figures *a = &b->v.arms[arm], *r = &b->v.arms[0];
    *c = (lab_contrast){.arm = a, .reference = r, .ceiling = b->ceilings >> arm & 1, .p_adjusted = NAN};
    c->delta = a->mean - r->mean;
    c->ratio = a->mean / r->mean;
    c->separation = separation(a, r);
    c->per_step_ratio = a->per_step / r->per_step;
    over_samples(b, c);
    cadre_err err = pairs(b, c, why);
    if (!err) err = over_visits(b, arm, c, why);
    if (!err) noise_floor(b, arm, c);
    return err;
}

/* ---- several contrasts ---- */

static int by_p(const void *a, const void *b) {
    const lab_contrast *x = *(lab_contrast *const *)a, *y = *(lab_contrast *const *)b;
    return (x->p_adjusted > y->p_adjusted) - (x->p_adjusted < y->p_adjusted);
}

/* Holm's step-down: the k-th smallest of m times (m - k + 1), never less than the one before. A ceiling claims nothing,
 * so it costs the others nothing. */
static void holm(lab_verdict *v) {
    lab_contrast *sorted[LAB_ARMS_MOST];
    int m = 0;
    for (int i = 0; i + 1 < v->arm_count; i++) {
        lab_contrast *c = &v->contrasts[i];
        if (isnan(c->p) || isnan(c->p_interval)) continue;
        c->p_adjusted = larger(c->p, c->p_interval);
        if (!c->ceiling) sorted[m++] = c;
    }
    qsort(sorted, (size_t)m, sizeof(lab_contrast *), by_p);
    double before = 0;
    for (int k = 0; k < m; k++) {
        double p = sorted[k]->p_adjusted * (m - k);
        before = larger(before, p < 1 ? p : 1);
        sorted[k]->p_adjusted = before;
    }
}

/* ---- the outcome ---- */

static const lab_gate *objection(const lab_verdict *v, int arm) {
    for (int i = 0; i < v->gate_count; i++)
        if (!v->gates[i].ok && (v->gates[i].arms & (1 | (uint64_t)1 << arm))) return &v->gates[i];
    return NULL;
}

static double percent(double ratio) {
    return 100 * (ratio - 1);
}

static void say(lab_contrast *c, lab_outcome outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(lab_contrast *c, lab_outcome outcome, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    err_one_line(c->why);
    c->outcome = outcome;
}

/* What stands in the way of any statement: too little, or nothing to divide by. */
static bool too_little(lab_contrast *c, double level) {
    const lab_arm_figures *a = c->arm, *r = c->reference;
    if (!a->n || !r->n)
        say(c, LAB_UNDERPOWERED, "nothing was measured of %.80s", a->n ? r->name : a->name);
    else if (a->visits < 2 || r->visits < 2)
        say(c, LAB_UNDERPOWERED, "one visit of %.80s: samples of one process do not tell what the next one would give",
            a->visits < 2 ? a->name : r->name);
    else if (!(c->p_floor < level))
        say(c, LAB_UNDERPOWERED, "%d against %d samples give no p below %.3g, whatever they are", a->n, r->n,
            c->p_floor);
    else if (isnan(c->ratio) || isnan(c->interval[0]))
        say(c, LAB_UNDERPOWERED, "no ratio: the mean of %.80s is not positive", r->name);
    else
        return false;
    return true;
}

static void undecided(lab_contrast *c, const lab_question *q) {
    double low = percent(c->interval[0]), high = percent(c->interval[1]), effect = 100 * q->effect;
    char more[80] = "";
    if (c->visits_needed > c->arm->visits)
        snprintf(more, sizeof more, "; about %d visits of each would tell", c->visits_needed);
    if (low >= -effect - 1e-9 && high <= effect + 1e-9)
        say(c, LAB_WITHIN_NOISE, "the interval %+.2f .. %+.2f %% lies inside +-%g %%", low, high, effect);
    else if (c->interval[0] > 1 || c->interval[1] < 1)
        say(c, LAB_UNDERPOWERED, "%+.2f .. %+.2f %%, but p %.3g is not below %g%s", low, high, c->p_adjusted, q->level,
            more);
    else
        say(c, LAB_UNDERPOWERED, "%+.2f .. %+.2f %% holds no difference as well as more than %g %%%s", low, high,
            effect, more);
}

static void decide(const lab_verdict *v, int arm, lab_contrast *c) {
    const lab_question *q = &v->question;
    const lab_gate *g = objection(v, arm);
    if (g) {
        say(c, LAB_REFUSED, "%s: %s", g->name, g->why);
        return;
    }
    if (too_little(c, q->level)) return;
    double low = percent(c->interval[0]), high = percent(c->interval[1]), size = fabs(c->ratio - 1);
    bool told = (c->interval[0] > 1 || c->interval[1] < 1) && c->p_adjusted < q->level;
    bool better = (c->ratio > 1) == (v->better == LAB_HIGHER);
    if (!told)
        undecided(c, q);
    else if (size < q->effect * (1 - 1e-9))
        say(c, LAB_WITHIN_NOISE, "%+.2f %% (%+.2f .. %+.2f %%) is told from none, but under the %g %% that matter",
            percent(c->ratio), low, high, 100 * q->effect);
    else if (size < c->noise_floor)
        say(c, LAB_WITHIN_NOISE, "%+.2f %% is under the noise floor of %.2f %%, which equal set-ups show",
            percent(c->ratio), 100 * c->noise_floor);
    else
        say(c, better ? LAB_WIN : LAB_LOSS,
            "%+.2f %% (%+.2f .. %+.2f %%), %s; p %.2g over samples, %.2g of the interval", percent(c->ratio), low, high,
            better ? "better" : "worse", c->p, c->p_interval);
}

/* For two arms' values, and beside them two arms' values again or all resamples. */
static cadre_err make_room(lab_box *b, cadre_fail *why) {
    size_t most = (size_t)b->v.question.resamples, two = 0;
    for (int i = 0; i < b->v.arm_count; i++)
        if (2 * (size_t)b->v.arms[i].n > two) two = 2 * (size_t)b->v.arms[i].n;
    b->room = lab_hold(b, two + (most > two ? most : two), sizeof *b->room);
    return b->room ? CADRE_OK : lab_no_memory(why);
}

cadre_err lab_contrasts(lab_box *b, cadre_fail *why) {
    lab_verdict *v = &b->v;
    cadre_err err = make_room(b, why);
    v->contrasts = lab_hold(b, (size_t)v->arm_count - 1, sizeof *v->contrasts);
    if (!v->contrasts) return lab_no_memory(why);
    for (int i = 1; i < v->arm_count && !err; i++) err = one(b, i, &v->contrasts[i - 1], why);
    if (err) return err;
    holm(v);
    for (int i = 1; i < v->arm_count; i++) decide(v, i, &v->contrasts[i - 1]);
    return CADRE_OK;
}
