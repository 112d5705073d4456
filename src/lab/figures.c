/* figures.c: what each arm showed: its values, its visits, its spread between and within them, its acceptance. */
#include "verdict.h"
#include <math.h>
#include <string.h>
#include <strings.h>

static bool used(const lab_pick *p) {
    return !p->s->warmup && !isnan(p->s->value);
}

/* NaN stays until something is told. */
static void add(double *sum, double v) {
    if (!isnan(v)) *sum = isnan(*sum) ? v : *sum + v;
}

static void tally(const lab_box *b, int arm, lab_arm_figures *a) {
    double accepted = NAN, drafts = NAN, draft_tokens = NAN;
    a->failed = a->tokens = NAN;
    a->active = LAB_ACTIVE_YES;
    int spoken = 0;
    for (int i = 0; i < b->pick_count; i++) {
        const lab_pick *p = &b->picks[i];
        if (p->arm != arm) continue;
        add(&a->failed, p->s->failed);
        if (p->s->active < a->active) a->active = p->s->active, a->why = p->s->why;
        if (p->s->active == LAB_ACTIVE_NO) spoken = 1, a->why = p->s->why;
        a->left_out += p->s->warmup;
        a->unmeasured += !p->s->warmup && isnan(p->s->value);
        if (p->s->warmup) continue;
        a->n += used(p);
        add(&a->tokens, p->s->tokens);
        add(&accepted, p->s->accepted);
        add(&drafts, p->s->drafts);
        add(&draft_tokens, p->s->draft_tokens);
    }
    if (spoken) a->active = LAB_ACTIVE_NO;
    a->accepted_per_draft = drafts > 0 ? accepted / drafts : NAN;
    a->acceptance_length = 1 + a->accepted_per_draft;
    a->acceptance_rate = draft_tokens > 0 ? accepted / draft_tokens : NAN;
}

/* Values and visits in order of time: the samples of a visit follow each other. */
static cadre_err gather(lab_box *b, int arm, lab_arm_figures *a, cadre_fail *why) {
    double *values = lab_hold(b, (size_t)a->n, sizeof *values), *means = lab_hold(b, (size_t)a->n, sizeof *means);
    int *visit_of = lab_hold(b, (size_t)a->n, sizeof *visit_of), *orders = lab_hold(b, (size_t)a->n, sizeof *orders);
    int *counts = lab_hold(b, (size_t)a->n, sizeof *counts);
    const double **groups = lab_hold(b, (size_t)a->n, sizeof *groups);
    if (!values || !means || !visit_of || !orders || !counts || !groups) return lab_no_memory(why);
    int n = 0, visits = 0, visit = 0;
    for (int i = 0; i < b->pick_count; i++) {
        const lab_pick *p = &b->picks[i];
        if (p->arm != arm || !used(p)) continue;
        if (!visits || p->s->visit != visit) {
            visit = p->s->visit;
            orders[visits] = p->s->order;
            groups[visits++] = values + n;
        }
        visit_of[n] = visits - 1;
        values[n++] = p->s->value;
        counts[visits - 1]++;
    }
    for (int i = 0; i < visits; i++) means[i] = lab_mean(groups[i], counts[i]);
    a->values = values;
    a->visit_of = visit_of;
    a->visit_means = means;
    a->visit_orders = orders;
    a->visits = visits;
    a->within_sd = lab_pooled_sd(groups, counts, visits);
    return CADRE_OK;
}

/* Only what is a time for each token becomes a time for each step. */
static bool per_token(const lab_verdict *v) {
    if (strcasestr(v->metric, "tpot") || strcasestr(v->metric, "per_token")) return true;
    return v->unit && (strcasestr(v->unit, "s/tok") || strcasestr(v->unit, "s per tok"));
}

static cadre_err spread(lab_box *b, lab_arm_figures *a, cadre_fail *why) {
    a->mean = lab_mean(a->values, a->n);
    a->sd = lab_sd(a->values, a->n);
    a->median = a->low = a->high = NAN;
    if (a->n) {
        double *sorted = mem_new_array((size_t)a->n, sizeof *sorted);
        if (!sorted) return lab_no_memory(why);
        memcpy(sorted, a->values, (size_t)a->n * sizeof *sorted);
        a->median = stat_median(sorted, a->n);
        a->low = sorted[0];
        a->high = sorted[a->n - 1];
        mem_free(sorted);
    }
    a->per_step = per_token(&b->v) ? a->mean * a->acceptance_length : NAN;
    return CADRE_OK;
}

static cadre_err keep_logs(lab_box *b, int arm, cadre_fail *why) {
    const lab_arm_figures *a = &b->v.arms[arm];
    double *y = lab_hold(b, (size_t)a->visits, sizeof *y);
    if (!y) return lab_no_memory(why);
    b->logs[arm] = y;
    for (int i = 0; i < a->visits; i++) {
        if (!(a->visit_means[i] > 0)) b->logs[arm] = NULL;
        y[i] = a->visit_means[i] > 0 ? m_log(a->visit_means[i]) : NAN;
    }
    return CADRE_OK;
}

cadre_err lab_figures(lab_box *b, cadre_fail *why) {
    b->logs = lab_hold(b, (size_t)b->v.arm_count, sizeof *b->logs);
    if (!b->logs) return lab_no_memory(why);
    for (int i = 0; i < b->v.arm_count; i++) {
        lab_arm_figures *a = &b->v.arms[i];
        tally(b, i, a);
        cadre_err err = gather(b, i, a, why);
        if (!err) err = spread(b, a, why);
        if (!err) err = keep_logs(b, i, why);
        if (err) return err;
    }
    return CADRE_OK;
}
