/* report_json.c: a verdict and a stack for programs. Unrounded; what is not known or not told is null. */
#include "report.h"
#include <math.h>
#include <string.h>

static void put_pair(json_out *o, const char *key, const double pair[2], bool told) {
    if (!told || !isfinite(pair[0]) || !isfinite(pair[1])) {
        json_put_null(o, key);
        return;
    }
    json_open(o, key, '[');
    json_put_real(o, NULL, pair[0]);
    json_put_real(o, NULL, pair[1]);
    json_close(o, ']');
}

static void put_numbers(json_out *o, const char *key, const double *v, int n) {
    json_open(o, key, '[');
    for (int i = 0; i < n; i++) json_put_real(o, NULL, v[i]);
    json_close(o, ']');
}

static void put_active(json_out *o, lab_active a) {
    if (a == LAB_ACTIVE_UNKNOWN)
        json_put_null(o, "active");
    else
        json_put_bool(o, "active", a == LAB_ACTIVE_YES);
}

static void put_acceptance(json_out *o, const lab_arm_figures *a) {
    if (!isfinite(a->acceptance_length)) {
        json_put_null(o, "acceptance");
        return;
    }
    json_open(o, "acceptance", '{');
    json_put_real(o, "length", a->acceptance_length);
    json_put_real(o, "accepted_per_draft", a->accepted_per_draft);
    json_put_real(o, "rate", a->acceptance_rate);
    json_close(o, '}');
}

static void put_arm(json_out *o, const lab_arm_figures *a) {
    json_open(o, NULL, '{');
    json_put_text(o, "name", a->name);
    json_put_int(o, "n", a->n);
    json_put_int(o, "visits", a->visits);
    json_put_int(o, "left_out", a->left_out);
    json_put_int(o, "unmeasured", a->unmeasured);
    json_put_real(o, "mean", a->mean);
    json_put_real(o, "median", a->median);
    json_put_real(o, "sd", a->sd);
    json_put_real(o, "within_sd", a->within_sd);
    json_put_real(o, "min", a->low);
    json_put_real(o, "max", a->high);
    put_numbers(o, "values", a->values, a->values ? a->n : 0);
    put_numbers(o, "visit_means", a->visit_means, a->visit_means ? a->visits : 0);
    json_put_real(o, "failed", a->failed);
    json_put_real(o, "tokens", a->tokens);
    put_acceptance(o, a);
    json_put_real(o, "per_step", a->per_step);
    json_put_text(o, "family", a->family);
    json_put_int(o, "families", a->families);
    put_active(o, a->active);
    json_put_text(o, "why", a->why);
    json_close(o, '}');
}

/* The figures of a contrast; all null when its difference is not told, or when there is none. */
static void put_contrast(json_out *o, const lab_contrast *c) {
    bool told = c && c->outcome != LAB_REFUSED;
    static const double none[2] = {NAN, NAN};
#define REAL(name) json_put_real(o, #name, told ? c->name : NAN)
    REAL(ratio);
    put_pair(o, "interval", told ? c->interval : none, told);
    json_put_text(o, "estimator", told ? c->estimator : NULL);
    REAL(delta);
    REAL(p);
    REAL(p_floor);
    REAL(p_interval);
    REAL(p_visits);
    REAL(p_visits_floor);
    REAL(p_adjusted);
    put_pair(o, "bootstrap", told ? c->bootstrap : none, told);
    put_pair(o, "log_ratio", told ? c->log_ratio : none, told);
    REAL(separation);
    if (told)
        put_numbers(o, "pairs", c->pairs, c->pairs ? c->pair_count : 0);
    else
        json_put_null(o, "pairs");
    REAL(per_step_ratio);
    REAL(noise);
    REAL(noise_floor);
#undef REAL
    if (told && c->visits_needed > 0)
        json_put_int(o, "visits_needed", c->visits_needed);
    else
        json_put_null(o, "visits_needed");
}

/* What was predicted and how much of it came; null where the experiment predicts nothing. */
static void put_conversion(json_out *o, const lab_verdict *v, const lab_experiment *e, int contrast) {
    lab_conversion c = {NAN, NAN, NAN, {NAN, NAN}, false, false, false};
    bool told = lab_conversion_of(e, v, contrast, &c);
    json_put_real(o, "predicted", c.predicted);
    json_put_real(o, "conversion", c.conversion);
    put_pair(o, "conversion_interval", c.interval, true);
    if (!told || isnan(c.conversion))
        json_put_null(o, "conversion_odd");
    else
        json_put_bool(o, "conversion_odd", c.odd);
    if (told)
        json_put_bool(o, "predicted_before_run", c.before_run);
    else
        json_put_null(o, "predicted_before_run");
}

static void put_gates(json_out *o, const lab_verdict *v) {
    json_open(o, "gates", '[');
    for (int i = 0; i < v->gate_count; i++) {
        const lab_gate *g = &v->gates[i];
        json_open(o, NULL, '{');
        json_put_text(o, "name", g->name);
        json_put_bool(o, "ok", g->ok);
        json_put_bool(o, "told", g->told);
        json_open(o, "arms", '[');
        for (int j = 0; j < v->arm_count && j < 64 && !g->ok; j++)
            if (g->arms >> j & 1) json_put_text(o, NULL, v->arms[j].name);
        json_close(o, ']');
        json_put_text(o, "why", g->why);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_question(json_out *o, const lab_question *q) {
    json_open(o, "question", '{');
    json_put_real(o, "effect", q->effect);
    json_put_real(o, "noise_floor", q->noise_floor);
    json_put_real(o, "level", q->level);
    json_put_real(o, "power", q->power);
    json_put_real(o, "acceptance_bound", q->acceptance_bound);
    json_put_bool(o, "blocks_allowed", q->blocks_allowed);
    json_put_bool(o, "unproven_allowed", q->unproven_allowed);
    json_put_text(o, "untouched", q->untouched);
    json_put_text(o, "ceilings", q->ceilings);
    json_put_text(o, "floor", q->floor);
    json_put_bool(o, "per_token", q->per_token);
    json_put_int(o, "resamples", q->resamples);
    json_put_int(o, "seed", (int64_t)q->seed);
    json_close(o, '}');
}

void lab_verdict_json(const lab_verdict *v, const lab_experiment *e, json_out *o) {
    const lab_contrast *only = v->arm_count == 2 ? v->contrasts : NULL;
    json_put_text(o, "verdict", lab_outcome_name(v->outcome));
    json_put_text(o, "why", only ? only->why : NULL);
    json_put_text(o, "run", v->run);
    json_put_int(o, "runs", v->runs);
    json_put_text(o, "metric", v->metric);
    json_put_text(o, "unit", v->unit);
    json_put_text(o, "better", v->better == LAB_HIGHER ? "higher" : "lower");
    json_put_text(o, "reference", v->arm_count ? v->arms[0].name : NULL);
    put_contrast(o, only);
    put_gates(o, v);
    json_open(o, "contrasts", '[');
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        json_open(o, NULL, '{');
        json_put_text(o, "arm", c->arm->name);
        json_put_text(o, "reference", c->reference->name);
        json_put_text(o, "verdict", lab_outcome_name(c->outcome));
        json_put_text(o, "why", c->why);
        json_put_bool(o, "ceiling", c->ceiling);
        put_contrast(o, c);
        put_conversion(o, v, e, i);
        json_close(o, '}');
    }
    json_close(o, ']');
    json_open(o, "arms", '[');
    for (int i = 0; i < v->arm_count; i++) put_arm(o, &v->arms[i]);
    json_close(o, ']');
    json_put_real(o, "floor", v->question.floor ? v->floor : NAN);
    json_put_real(o, "drift", v->drift);
    json_put_real(o, "drift_sd", v->drift_sd);
    json_put_bool(o, "drift_corrected", v->drift_corrected);
    json_put_real(o, "drift_slope", v->drift_slope);
    put_question(o, &v->question);
}

static void put_effect(json_out *o, const lab_stack *s, const lab_effect *e) {
    bool told = !rep_refused(s->verdict);
    json_open(o, NULL, '{');
    json_put_text(o, "name", e->name);
    json_put_int(o, "mask", e->mask);
    json_put_real(o, "change", told ? e->alone : NAN);
    json_put_real(o, "measured", told ? rep_measured(s, e) : NAN);
    json_put_real(o, "additive", told ? e->additive : NAN);
    json_put_real(o, "additive_gap", told ? e->additive_gap : NAN);
    put_pair(o, "additive_interval", e->additive_interval, told);
    json_put_real(o, "multiplicative", told ? e->multiplicative : NAN);
    json_put_real(o, "multiplicative_gap", told ? e->multiplicative_gap : NAN);
    put_pair(o, "interval", e->interval, told);
    json_close(o, '}');
}

void lab_stack_json(const lab_stack *s, json_out *o) {
    json_open(o, "factors", '[');
    for (int i = 0; i < s->factor_count; i++) json_put_text(o, NULL, s->factors[i]);
    json_close(o, ']');
    json_open(o, "effects", '[');
    for (unsigned i = 0; i + 1 < 1u << s->factor_count; i++) put_effect(o, s, &s->effects[i]);
    json_close(o, ']');
    json_open(o, "leave_one_out", '[');
    for (int i = 0; i < s->factor_count; i++) {
        const double interval[2] = {s->leave_interval[i][0], s->leave_interval[i][1]};
        json_open(o, NULL, '{');
        json_put_text(o, "factor", s->factors[i]);
        json_put_real(o, "change", rep_refused(s->verdict) ? NAN : s->leave_one_out[i]);
        put_pair(o, "interval", interval, !rep_refused(s->verdict));
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_profile(json_out *o, const lab_report *r) {
    json_open(o, "profile", '[');
    for (int i = 0; i < r->profile_count; i++) {
        const lab_profile_row *x = &r->profile[i];
        json_open(o, NULL, '{');
        json_put_text(o, "op", x->op);
        json_put_text(o, "kernel", x->kernel);
        json_put_real(o, "launches", x->launches);
        json_put_real(o, "us", x->us);
        json_put_real(o, "share", x->share);
        json_put_real(o, "floor_us", x->floor_us);
        json_close(o, '}');
    }
    json_close(o, ']');
}

cadre_err rep_write_json(const lab_report *r, rep_text *out, cadre_fail *why) {
    json_out o = {0};
    json_open(&o, NULL, '{');
    json_put_int(&o, "schema", 1);
    json_put_text(&o, "kind", "ab report");
    json_put_text(&o, "title", r->title);
    json_put_text(&o, "asks", r->asks);
    json_put_text(&o, "recompute", r->command);
    lab_verdict_json(r->verdict, r->experiment, &o);
    if (r->stack) {
        json_open(&o, "stack", '{');
        lab_stack_json(r->stack, &o);
        json_close(&o, '}');
    }
    if (r->profile && r->profile_count > 0) put_profile(&o, r);
    json_close(&o, '}');
    if (!o.failed) rep_put_n(out, o.text, o.len);
    rep_put(out, "\n");
    bool failed = o.failed;
    json_out_free(&o);
    return failed ? cadre_fail_set(why, CADRE_NOMEM, "out of memory for the report") : CADRE_OK;
}
