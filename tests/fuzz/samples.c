/* samples: any bytes either give samples that hang together, or one line that starts with the name and a line. Of what
 * can be judged no outcome goes beyond its figures, and a stack of the first four arms says no more than its verdict.
 */
#include "base/base.h"
#include "lab/lab.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool c) {
    if (!c) abort();
}

static void check_arm(const lab_arm_figures *a) {
    must(a->visits <= a->n && (a->n > 0) == (a->visits > 0));
    for (int i = 0; i < a->n; i++) must(a->visit_of[i] >= 0 && a->visit_of[i] < a->visits && isfinite(a->values[i]));
    for (int i = 1; i < a->visits; i++) must(a->visit_orders[i] >= a->visit_orders[i - 1]);
    if (a->n) must(a->low <= a->median && a->median <= a->high);
}

static void check_contrast(const lab_verdict *v, const lab_contrast *c) {
    must(*c->why && strlen(c->why) < sizeof c->why && utf8_valid(c->why, strlen(c->why)));
    must(isnan(c->p) || (c->p > 0 && c->p <= 1));
    must(isnan(c->p) || c->p >= c->p_floor * (1 - 1e-9));
    must(isnan(c->interval[0]) || c->interval[0] <= c->interval[1]);
    if (c->outcome != LAB_WIN && c->outcome != LAB_LOSS) return;
    must(c->arm->visits > 1 && c->reference->visits > 1);
    must(c->p < v->question.level && c->p_adjusted < v->question.level && c->p_floor < v->question.level);
    must(c->interval[0] > 1 || c->interval[1] < 1);
    must(fabs(c->ratio - 1) >= v->question.effect * 0.999);
    uint64_t arms = 1 | (uint64_t)1 << (c->arm - v->arms);
    for (int i = 0; i < v->gate_count; i++) must(!(v->gates[i].arms & arms));
}

static lab_question question_of(const char *metric, uint8_t bits) {
    lab_question q = lab_question_default();
    q.metric = metric;
    q.better_told = bits & 1;
    q.blocks_allowed = bits & 2;
    q.unproven_allowed = bits & 4;
    q.per_token = bits & 8;
    q.resamples = bits & 16 ? 50 : 0;
    q.ceilings = bits & 32 ? "b, on, new" : NULL;
    q.floor = bits & 64 ? "t" : NULL;
    return q;
}

static void stack(const lab_samples *s, const lab_verdict *v) {
    static const char *const factors[] = {"x", "y"};
    static const unsigned masks[] = {0, 1, 2, 3};
    if (v->arm_count < 4) return;
    const char *arms[] = {v->arms[0].name, v->arms[1].name, v->arms[2].name, v->arms[3].name};
    lab_stack *k = NULL;
    cadre_fail why = {0};
    if (lab_stack_new(s, &v->question, factors, 2, arms, masks, 4, &k, &why)) {
        must(why.code && *why.text);
        return;
    }
    for (int i = 0; i < 3; i++)
        must(isnan(k->effects[i].interval[0]) || k->effects[i].interval[0] <= k->effects[i].interval[1]);
    lab_stack_free(k);
}

static void judge(const lab_samples *s, const char *metric, uint8_t bits) {
    lab_question q = question_of(metric, bits);
    lab_verdict *v = NULL;
    cadre_fail why = {0};
    cadre_err err = lab_verdict_new(s, &q, &v, &why);
    if (err) {
        must(!v && why.code == err && *why.text);
        return;
    }
    must(v->arm_count >= 2 && v->arm_count <= LAB_ARMS_MOST && v->gate_count <= LAB_GATES_MOST);
    for (int i = 0; i < v->arm_count; i++) check_arm(&v->arms[i]);
    for (int i = 0; i + 1 < v->arm_count; i++) check_contrast(v, &v->contrasts[i]);
    for (int i = 0; i < v->gate_count; i++) must(v->gates[i].ok == !v->gates[i].arms && *v->gates[i].why);
    stack(s, v);
    lab_verdict_free(v);
}

/* Written and read again, it is the same sample. */
static void check_sample(const lab_sample *s) {
    must(s->arm && *s->arm && s->metric && *s->metric && s->visit >= 1 && s->order >= 1 && !isinf(s->value));
    json_out o = {0};
    lab_sample_write(s, &o);
    must(!o.failed && o.text[o.len - 1] == '\n');
    lab_samples *again = NULL;
    must(!lab_samples_parse("again", o.text, o.len, &again, NULL));
    must(lab_samples_count(again) == 1);
    const lab_sample *t = lab_samples_at(again, 0);
    must(!strcmp(s->arm, t->arm) && s->visit == t->visit && s->order == t->order && s->active == t->active);
    must(s->value == t->value || (isnan(s->value) && isnan(t->value)));
    lab_samples_free(again);
    json_out_free(&o);
}

/* The first byte holds answers to yes and no. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_samples *s = NULL;
    cadre_fail why = {0};
    if (!size) return 0;
    cadre_err err = lab_samples_parse("t", (const char *)data + 1, size - 1, &s, &why);
    if (err) {
        must(!s && why.code == err && !strncmp(why.text, "t:", 2));
        return 0;
    }
    int n = lab_samples_count(s);
    for (int i = 0; i < n && i < 50; i++) check_sample(lab_samples_at(s, i));
    judge(s, NULL, data[0]);
    if (n) judge(s, lab_samples_at(s, n - 1)->metric, data[0]);
    lab_samples_free(s);
    return 0;
}

#include "replay.h"
