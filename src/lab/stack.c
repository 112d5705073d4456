/* stack.c: changes that are on together. With M the mean of an arm and L the mean of the logs of its visits, an arm of
 * several factors is held against what its single factors predict, in both ways:
 *
 *   additive         M0 + sum of (Mi - M0)        parts of one whole that each get shorter by so much
 *   multiplicative   M0 x product of (Mi / M0)    each change scales what the others leave
 *
 * Neither is the truth; where they disagree both are told, with the interval of what was measured against each. An arm
 * that a gate refuses has no figures here either. */
#include "verdict.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MASKS = 1 << LAB_FACTORS_MOST };

typedef struct stack {
    lab_stack s;     /* first: what callers hold */
    int arms[MASKS]; /* of each mask, into the verdict's; -1: not there, -2: refused */
    unsigned all;
    char names[LAB_FACTORS_MOST][64];
    lab_effect effects[MASKS];
} stack;

static const lab_box *box_of(const stack *k) {
    return (const lab_box *)k->s.verdict;
}

/* ---- sums of logs ---- */

/* A weighted sum of means of logs of visits, for its spread. */
typedef struct sum {
    double weights[MASKS]; /* by mask */
    double value;          /* of the logs */
} sum;

/* Satterthwaite's degrees of freedom; NaNs where an arm has one visit. */
static void interval_of(const stack *k, const sum *t, double interval[2]) {
    const lab_box *b = box_of(k);
    double variance = 0, parts = 0, apart = 0;
    interval[0] = interval[1] = NAN;
    for (unsigned m = 0; m <= k->all; m++) {
        if (t->weights[m] == 0) continue;
        const lab_arm_figures *a = &b->v.arms[k->arms[m]];
        const double *y = b->logs[k->arms[m]];
        if (!y || a->visits < 2) return;
        double sd = lab_sd(y, a->visits), part = t->weights[m] * t->weights[m] * sd * sd / a->visits;
        apart += t->weights[m] * lab_order_mean(a);
        variance += part;
        parts += part * part / (a->visits - 1);
    }
    lab_welch w = {t->value, 0, 0};
    if (variance > 0) {
        w.df = variance * variance / parts / b->residual_scale;
        w.se = sqrt(variance * b->residual_scale + b->line_variance * apart * apart);
    }
    lab_welch_interval(&w, b->v.question.level, interval);
    for (int i = 0; i < 2; i++) interval[i] = m_exp(interval[i]) - 1;
}

/* ---- effects ---- */

static double mean_of(const stack *k, unsigned mask) {
    const lab_box *b = box_of(k);
    int arm = k->arms[mask];
    if (arm < 0) return NAN;
    if (!b->v.drift_corrected) return b->v.arms[arm].mean;
    return m_exp(lab_mean(b->logs[arm], b->v.arms[arm].visits));
}

static void predict(const stack *k, lab_effect *e, int factors) {
    double none = mean_of(k, 0);
    e->additive = none;
    e->multiplicative = none;
    for (int i = 0; i < factors; i++) {
        if (!(e->mask >> i & 1)) continue;
        double one = mean_of(k, 1u << i);
        e->additive += one - none;
        e->multiplicative *= one / none;
    }
    double measured = mean_of(k, e->mask);
    e->additive_gap = measured / e->additive - 1;
    e->multiplicative_gap = measured / e->multiplicative - 1;
}

/* Weights of log measured - log predicted: of the product its factors' exactly, of the sum by the delta method. */
static void gap_intervals(const stack *k, lab_effect *e, int factors) {
    sum product = {.value = m_log(1 + e->multiplicative_gap)}, total = {.value = m_log(1 + e->additive_gap)};
    int on = 0;
    for (int i = 0; i < factors; i++) {
        if (!(e->mask >> i & 1)) continue;
        on++;
        product.weights[1u << i] = -1;
        total.weights[1u << i] = -mean_of(k, 1u << i) / e->additive;
    }
    product.weights[0] = on - 1;
    total.weights[0] = (on - 1) * mean_of(k, 0) / e->additive;
    product.weights[e->mask] = total.weights[e->mask] = 1;
    interval_of(k, &product, e->interval);
    interval_of(k, &total, e->additive_interval);
}

static bool predictable(const stack *k, unsigned mask) {
    bool ok = k->arms[mask] >= 0 && k->arms[0] >= 0;
    for (int i = 0; i < k->s.factor_count; i++)
        if (mask >> i & 1) ok = ok && k->arms[1u << i] >= 0;
    return ok;
}

static void effect(stack *k, unsigned mask) {
    lab_effect *e = &k->effects[mask - 1];
    size_t len = 0;
    e->mask = mask;
    for (int i = 0; i < k->s.factor_count; i++) {
        if (!(mask >> i & 1) || len >= sizeof e->name) continue;
        int n = snprintf(e->name + len, sizeof e->name - len, "%s%s", len ? " x " : "", k->names[i]);
        len += n > 0 ? (size_t)n : 0;
    }
    err_one_line(e->name);
    e->alone = mean_of(k, mask) / mean_of(k, 0) - 1;
    e->additive = e->multiplicative = e->additive_gap = e->multiplicative_gap = NAN;
    for (int i = 0; i < 2; i++) e->interval[i] = e->additive_interval[i] = NAN;
    if (!predictable(k, mask)) return;
    predict(k, e, k->s.factor_count);
    if (mask & (mask - 1)) gap_intervals(k, e, k->s.factor_count);
}

static void leave_out(stack *k, int factor) {
    unsigned rest = k->all & ~(1u << factor);
    double *interval = k->s.leave_interval[factor];
    interval[0] = interval[1] = NAN;
    k->s.leave_one_out[factor] = mean_of(k, k->all) / mean_of(k, rest) - 1;
    if (k->arms[k->all] < 0 || k->arms[rest] < 0) return;
    sum t = {.value = m_log(1 + k->s.leave_one_out[factor])};
    t.weights[k->all] = 1;
    t.weights[rest] = -1;
    interval_of(k, &t, interval);
}

/* ---- the design ---- */

static int arm_of(const lab_verdict *v, const char *name) {
    for (int i = 0; i < v->arm_count; i++)
        if (!strcmp(v->arms[i].name, name)) return i;
    return -1;
}

static cadre_err check(const char *const *factors, int factor_count, const char *const *arm_names,
                       const unsigned *arm_masks, int arm_count, cadre_fail *why) {
    uint64_t there = 0;
    if (factor_count < 1 || factor_count > LAB_FACTORS_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "%d factors: expected 1 to %d", factor_count, LAB_FACTORS_MOST);
    for (int i = 0; i < arm_count; i++) {
        if (arm_masks[i] >> factor_count)
            return cadre_fail_set(why, CADRE_RANGE, "arm %.60s has factors that are not named", arm_names[i]);
        if (there >> arm_masks[i] & 1)
            return cadre_fail_set(why, CADRE_RANGE, "two arms with the factors of %.60s", arm_names[i]);
        there |= (uint64_t)1 << arm_masks[i];
    }
    if (!(there & 1)) return cadre_fail_set(why, CADRE_RANGE, "no arm without any factor");
    for (int i = 0; i < factor_count; i++)
        if (!(there >> (1u << i) & 1)) return cadre_fail_set(why, CADRE_RANGE, "no arm with %.60s alone", factors[i]);
    if (!(there >> ((1u << factor_count) - 1) & 1)) return cadre_fail_set(why, CADRE_RANGE, "no arm with all factors");
    return CADRE_OK;
}

static cadre_err place_arms(stack *k, const char *const *arm_names, const unsigned *arm_masks, int arm_count,
                            cadre_fail *why) {
    for (unsigned m = 0; m < MASKS; m++) k->arms[m] = -1;
    for (int i = 0; i < arm_count; i++) {
        int arm = arm_of(k->s.verdict, arm_names[i]);
        if (arm < 0) return cadre_fail_set(why, CADRE_RANGE, "no arm \"%.80s\" in the samples", arm_names[i]);
        bool refused = false;
        for (int g = 0; g < k->s.verdict->gate_count; g++)
            refused = refused || (k->s.verdict->gates[g].arms & (1 | (uint64_t)1 << arm));
        k->arms[arm_masks[i]] = refused ? -2 : arm;
    }
    return CADRE_OK;
}

cadre_err lab_stack_new(const lab_samples *s, const lab_question *q, const char *const *factors, int factor_count,
                        const char *const *arm_names, const unsigned *arm_masks, int arm_count, lab_stack **out,
                        cadre_fail *why) {
    cadre_err err = check(factors, factor_count, arm_names, arm_masks, arm_count, why);
    if (err) return err;
    stack *k = mem_new(sizeof *k);
    if (!k) return lab_no_memory(why);
    lab_question question = q ? *q : lab_question_default();
    for (int i = 0; i < arm_count; i++)
        if (!arm_masks[i]) question.reference = arm_names[i];
    k->all = (1u << factor_count) - 1;
    k->s.factor_count = factor_count;
    k->s.effects = k->effects;
    for (int i = 0; i < factor_count; i++) {
        snprintf(k->names[i], sizeof k->names[i], "%s", factors[i]);
        k->s.factors[i] = k->names[i];
    }
    err = lab_verdict_new(s, &question, &k->s.verdict, why);
    if (!err) err = place_arms(k, arm_names, arm_masks, arm_count, why);
    if (err) {
        lab_stack_free(&k->s);
        return err;
    }
    for (unsigned m = 1; m <= k->all; m++) effect(k, m);
    for (int i = 0; i < factor_count; i++) leave_out(k, i);
    *out = &k->s;
    return CADRE_OK;
}

void lab_stack_free(lab_stack *s) {
    if (!s) return;
    lab_verdict_free(s->verdict);
    mem_free(s);
}
