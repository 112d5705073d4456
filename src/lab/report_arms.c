/* report_arms.c: the arms' own figures, and the gates. */
#include "report.h"
#include <math.h>
#include <string.h>

/* ---- arms ---- */

static bool any_left_out(const lab_verdict *v) {
    for (int i = 0; i < v->arm_count; i++)
        if (v->arms[i].left_out || v->arms[i].unmeasured) return true;
    return false;
}

static void row_of_arm(rep_page *p, const lab_arm_figures *a, bool left_out) {
    char text[REP_NUMBER];
    int d = rep_value_decimals(p->verdict);
    const double figures[] = {a->mean, a->median, a->sd, a->within_sd, a->low, a->high};
    rep_cell(p, "%s%s", a->name, a == p->verdict->arms ? " (reference)" : "");
    rep_cell(p, "%d", a->n);
    rep_cell(p, "%d", a->visits);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) rep_cell(p, "%s", rep_number(text, figures[i], d));
    if (!left_out) return;
    rep_cell(p, "%d", a->left_out);
    rep_cell(p, "%d", a->unmeasured);
}

/* Warm-ups and samples without a value are never silently out. */
static void table_arms(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char caption[200];
    bool left_out = any_left_out(v);
    snprintf(caption, sizeof caption, "%.60s in %.40s; sd with n - 1, within: pooled over the visits", v->metric,
             rep_unit(v));
    rep_table(p, left_out ? "lrrrrrrrrrr" : "lrrrrrrrr", caption, "arm|n|visits|mean|median|sd|within sd|min|max");
    if (left_out) {
        rep_cell(p, "warm-ups, left out");
        rep_cell(p, "without a value");
    }
    for (int i = 0; i < v->arm_count; i++) row_of_arm(p, &v->arms[i], left_out);
}

static void lines_failed(rep_page *p) {
    const lab_verdict *v = p->verdict;
    for (int i = 0; i < v->arm_count; i++)
        if (v->arms[i].failed > 0) rep_line(p, "%s: %.0f requests failed.", v->arms[i].name, v->arms[i].failed);
    if (v->samples && lab_samples_torn(v->samples))
        rep_line(p, "The last line of the samples is torn (its writer was stopped) and was passed over.");
}

static bool has_acceptance(const lab_verdict *v) {
    for (int i = 0; i < v->arm_count; i++)
        if (isfinite(v->arms[i].acceptance_length)) return true;
    return false;
}

static bool has_steps(const lab_verdict *v) {
    for (int i = 0; i < v->arm_count; i++)
        if (isfinite(v->arms[i].per_step)) return true;
    return false;
}

/* Per token and per step side by side: at another acceptance the two tell different stories. */
static void table_acceptance(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    int d = rep_value_decimals(v);
    bool steps = has_steps(v);
    if (!has_acceptance(v)) return;
    rep_table(p, steps ? "lrrrrrr" : "lrrr", "Acceptance of drafts; per step = per token x acceptance length",
              "arm|acceptance length|accepted per draft|acceptance rate");
    if (steps) {
        rep_cell(p, "%s per token", rep_unit(v));
        rep_cell(p, "%s per step", rep_unit(v));
        rep_cell(p, "per step, to the reference");
    }
    for (int i = 0; i < v->arm_count; i++) {
        const lab_arm_figures *a = &v->arms[i];
        double ratio = i && v->contrasts[i - 1].outcome != LAB_REFUSED ? v->contrasts[i - 1].per_step_ratio : NAN;
        rep_cell(p, "%s", a->name);
        rep_cell(p, "%s", rep_number(text, a->acceptance_length, 3));
        rep_cell(p, "%s", rep_number(text, a->accepted_per_draft, 3));
        rep_cell(p, "%s%s", rep_number(text, a->acceptance_rate * 100, 1), isfinite(a->acceptance_rate) ? " %" : "");
        if (!steps) continue;
        rep_cell(p, "%s", rep_number(text, a->mean, d));
        rep_cell(p, "%s", rep_number(text, a->per_step, d));
        rep_cell(p, "%s", rep_percent(text, ratio - 1, 2));
    }
}

/* Every sample, for those who do not look at the plot. */
static void table_samples(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    int arm, rows = 0, d = rep_value_decimals(v);
    for (int i = 0; i < rep_samples(v); i++) rows += rep_sample(v, i, &arm) != NULL;
    if (!rows || rows > 4000) return;
    rep_table(p, "rlrrrl", "All samples in the order of the file", "order|arm|visit|iteration");
    rep_cell(p, "%s", rep_unit(v));
    rep_cell(p, "note");
    if (p->count) p->blocks[p->count - 1].folded = true;
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *s = rep_sample(v, i, &arm);
        if (!s) continue;
        rep_cell(p, "%d", s->order);
        rep_cell(p, "%s", s->arm);
        rep_cell(p, "%d", s->visit);
        rep_cell(p, "%d", s->iteration);
        rep_cell(p, "%s", rep_number(text, s->value, d));
        rep_cell(p, "%s", s->warmup ? "warm-up" : isfinite(s->value) ? "" : "not measured");
    }
}

void rep_add_arms(rep_page *p) {
    rep_heading(p, "Arms");
    rep_place(p, REP_STRIP);
    table_arms(p);
    lines_failed(p);
    table_acceptance(p);
    table_samples(p);
}

/* ---- gates ---- */

static void cell_failing(rep_page *p, const lab_gate *g) {
    const lab_verdict *v = p->verdict;
    rep_text t = {0};
    for (int i = 0; i < v->arm_count && i < 64 && !g->ok; i++)
        if (g->arms >> i & 1) {
            rep_put(&t, t.len ? ", " : "");
            rep_put_clean(&t, v->arms[i].name);
        }
    rep_cell(p, "%s", t.text ? t.text : "");
    p->failed = p->failed || t.failed;
    mem_free(t.text);
}

void rep_add_gates(rep_page *p) {
    const lab_verdict *v = p->verdict;
    if (!v->gate_count) return;
    rep_heading(p, "Gates");
    rep_table(p, "llll", "What must hold before a difference is told", "gate|state|failed by|what was found");
    for (int i = 0; i < v->gate_count; i++) {
        const lab_gate *g = &v->gates[i];
        rep_cell(p, "%s", g->name);
        rep_cell(p, "%s", !g->ok ? "FAILED" : g->told ? "ok" : "not told");
        cell_failing(p, g);
        rep_cell(p, "%s", g->why);
    }
}
