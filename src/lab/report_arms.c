/* report_arms.c: the arms' own figures, the gates, and what a refused difference was refused for. */
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

/* ---- why a difference was refused ---- */

static bool failed(const lab_verdict *v, const char *gate) {
    for (int i = 0; i < v->gate_count; i++)
        if (!strcmp(v->gates[i].name, gate)) return !v->gates[i].ok;
    return false;
}

/* Adds a sample to the row of its arm, visit and text; a new row when it is the first of these. */
static rep_visit *row_of(rep_visit *rows, int *count, int arm, const lab_sample *s, const char *text, bool whole) {
    for (int i = *count - 1; i >= 0; i--)
        if (rows[i].arm == arm && rows[i].first->visit == s->visit && (whole || rows[i].first->active == s->active) &&
            !strcmp(rows[i].text, text))
            return &rows[i];
    rows[*count] = (rep_visit){.arm = arm, .first = s, .text = text};
    return &rows[(*count)++];
}

static double known(double v) {
    return isfinite(v) ? v : 0;
}

rep_visit *rep_visits(rep_page *p, rep_by by, int *count) {
    const lab_verdict *v = p->verdict;
    int arm, n = rep_samples(v);
    rep_visit *rows = n ? mem_new_array((size_t)n, sizeof *rows) : NULL;
    *count = 0;
    if (n && !rows) p->failed = true;
    for (int i = 0; rows && i < n; i++) {
        const lab_sample *s = rep_sample(v, i, &arm);
        if (!s || (s->warmup && by != REP_BY_VISIT)) continue;
        const char *text = by == REP_BY_FAMILY ? s->family : by == REP_BY_WHY ? s->why : NULL;
        rep_visit *row = row_of(rows, count, arm, s, text ? text : "", by == REP_BY_VISIT);
        row->samples++;
        row->accepted += known(s->accepted);
        row->drafts += known(s->drafts);
        row->tokens += known(s->tokens);
        row->failed += known(s->failed);
    }
    return rows;
}

static void table_families(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    rep_table(p, "lrlrrr", "Outputs by arm and visit: arms of different families wrote different tokens",
              "arm|visit|family|samples|tokens|failed requests");
    for (int i = 0; i < count; i++) {
        rep_cell(p, "%s", v->arms[rows[i].arm].name);
        rep_cell(p, "%d", rows[i].first->visit);
        rep_cell(p, "%.16s", *rows[i].text ? rows[i].text : "not told");
        rep_cell(p, "%d", rows[i].samples);
        rep_cell(p, "%.0f", rows[i].tokens);
        rep_cell(p, "%.0f", rows[i].failed);
    }
}

static void table_accepted(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    rep_table(p, "lrrrr", "Acceptance by arm and visit", "arm|visit|drafts|accepted|acceptance length");
    for (int i = 0; i < count; i++) {
        const rep_visit *r = &rows[i];
        rep_cell(p, "%s", v->arms[r->arm].name);
        rep_cell(p, "%d", r->first->visit);
        rep_cell(p, "%.0f", r->drafts);
        rep_cell(p, "%.0f", r->accepted);
        rep_cell(p, "%s", rep_number(text, r->drafts > 0 ? 1 + r->accepted / r->drafts : NAN, 3));
    }
}

static void table_active(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    rep_table(p, "lrlrl", "Was what the arm is about at work?", "arm|visit|activation|samples|what was not met");
    for (int i = 0; i < count; i++) {
        rep_cell(p, "%s", v->arms[rows[i].arm].name);
        rep_cell(p, "%d", rows[i].first->visit);
        rep_cell(p, "%s", rep_active(rows[i].first->active));
        rep_cell(p, "%d", rows[i].samples);
        rep_cell(p, "%s", rows[i].text);
    }
}

static void table_order(rep_page *p, const rep_visit *rows, int count) {
    rep_table(p, "rlrl", "Visits in the order of the file", "order|arm|visit|started");
    for (int i = 0; i < count; i++) {
        const lab_sample *s = rows[i].first;
        rep_cell(p, "%d", s->order);
        rep_cell(p, "%s", s->arm);
        rep_cell(p, "%d", s->visit);
        rep_cell(p, "%s", s->started ? s->started : "");
    }
}

/* What is different between the arms stands under Scope: a failed gate "protocol" points there. */
void rep_add_evidence(rep_page *p) {
    const lab_verdict *v = p->verdict;
    bool family = failed(v, "family") || failed(v, "tokens") || failed(v, "failed");
    bool accepted = failed(v, "acceptance"), active = failed(v, "activation"), order = failed(v, "interleaved");
    int count;
    if (!family && !accepted && !active && !order) return;
    rep_heading(p, "Why no difference is told");
    rep_visit *rows = rep_visits(p, REP_BY_FAMILY, &count);
    if (rows && family) table_families(p, rows, count);
    if (rows && accepted) table_accepted(p, rows, count);
    mem_free(rows);
    rows = rep_visits(p, REP_BY_WHY, &count);
    if (rows && active) table_active(p, rows, count);
    mem_free(rows);
    rows = rep_visits(p, REP_BY_VISIT, &count);
    if (rows && order) table_order(p, rows, count);
    mem_free(rows);
}
