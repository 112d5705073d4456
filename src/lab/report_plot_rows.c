/* report_plot_rows.c: the plots that are made of rows: intervals of the ratio, ladder, waterfall, profile. */
#include "report_plot.h"
#include <math.h>
#include <string.h>

static const char *clean(rep_text *t, const char *text) {
    t->len = 0;
    rep_put_clean(t, text);
    return t->failed || !t->text ? "" : t->text;
}

/* ---- intervals ---- */

static void change_text(char *text, size_t size, const lab_verdict *v, double ratio, const double interval[2]) {
    char change[REP_NUMBER], low[REP_NUMBER], high[REP_NUMBER];
    int d = rep_ratio_decimals(v) - 2;
    rep_percent(change, ratio - 1, d);
    if (!rep_interval_known(interval))
        snprintf(text, size, "%s", change);
    else
        snprintf(text, size, "%s (%s to %s)", change, rep_percent(low, interval[0] - 1, d),
                 rep_percent(high, interval[1] - 1, d));
}

static void interval_row(rep_text *out, const lab_verdict *v, const rep_scale *s, const char *label, const char *value,
                         double ratio, const double interval[2], int arm, bool main) {
    rep_row_open(out, label, value, main);
    rep_bar(out, s, -v->question.effect, v->question.effect, "band", 0);
    rep_line_v(out, s, 0, "zero");
    if (isfinite(interval[0]) && isfinite(interval[1]))
        rep_whisker(out, s, interval[0] - 1, interval[1] - 1, main ? "whisker strong" : "whisker");
    if (isfinite(ratio)) rep_mark(out, rep_place_of(s, ratio - 1), arm);
    rep_row_close(out);
}

static void contrast_rows(const rep_page *p, rep_text *out, const rep_scale *s, int i, rep_text *name) {
    const lab_verdict *v = p->verdict;
    const lab_contrast *c = &v->contrasts[i];
    char value[160], label[400];
    bool named = c->estimator && v->arm_count == 2;
    snprintf(label, sizeof label, "%.120s%s%.200s", clean(name, c->arm->name), named ? ": " : "",
             named ? c->estimator : "");
    change_text(value, sizeof value, v, c->ratio, c->interval);
    interval_row(out, v, s, label, value, c->ratio, c->interval, i + 1, true);
    if (v->arm_count > 2) return;
    if (rep_interval_known(c->bootstrap)) {
        change_text(value, sizeof value, v, c->ratio, c->bootstrap);
        interval_row(out, v, s, "bootstrap over samples, percentile", value, c->ratio, c->bootstrap, i + 1, false);
    }
    if (rep_interval_known(c->log_ratio)) {
        change_text(value, sizeof value, v, c->ratio, c->log_ratio);
        interval_row(out, v, s, "Welch t on logs, over samples", value, c->ratio, c->log_ratio, i + 1, false);
    }
}

void rep_draw_intervals(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    rep_scale s = rep_scale_none();
    rep_text name = {0};
    char caption[200], effect[REP_NUMBER];
    s.percent = true;
    rep_scale_add(&s, -v->question.effect);
    rep_scale_add(&s, v->question.effect);
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        if (c->outcome == LAB_REFUSED) continue;
        const double all[] = {c->ratio, c->interval[0], c->interval[1]};
        for (int j = 0; j < 3; j++) rep_scale_add(&s, all[j] - 1);
    }
    rep_scale_end(&s, false, 6);
    rep_number(effect, v->question.effect * 100, rep_decimals(v->question.effect * 100) - 2);
    snprintf(caption, sizeof caption,
             "Change against the reference. The shaded band is less than %s %%, the smallest effect that matters.",
             effect);
    rep_rows_open(out, "intervals", caption);
    for (int i = 0; i + 1 < v->arm_count; i++)
        if (v->contrasts[i].outcome != LAB_REFUSED) contrast_rows(p, out, &s, i, &name);
    snprintf(caption, sizeof caption, "change of %.60s (%s is better)", clean(&name, v->metric),
             v->better == LAB_HIGHER ? "higher" : "lower");
    rep_rows_axis(out, &s, caption);
    rep_rows_close(out);
    mem_free(name.text);
}

/* ---- ladder ---- */

void rep_draw_ladder(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    rep_scale s = rep_scale_none();
    rep_text name = {0};
    int d = rep_value_decimals(v);
    for (int i = 0; i < v->arm_count; i++) {
        rep_scale_add(&s, v->arms[i].low);
        rep_scale_add(&s, v->arms[i].high);
    }
    if (!rep_scale_end(&s, false, 5)) return;
    rep_rows_open(out, "ladder", "Arms in their order: mean, and the range from the least to the largest sample.");
    for (int i = 0; i < v->arm_count; i++) {
        const lab_arm_figures *a = &v->arms[i];
        char value[160], number[REP_NUMBER], change[REP_NUMBER];
        bool told = i && v->contrasts[i - 1].outcome != LAB_REFUSED;
        snprintf(value, sizeof value, "%s%s%s", rep_number(number, a->mean, d), told ? ", " : "",
                 told ? rep_percent(change, v->contrasts[i - 1].ratio - 1, 2) : "");
        rep_row_open(out, clean(&name, a->name), value, false);
        rep_whisker(out, &s, a->low, a->high, "whisker");
        rep_mark(out, rep_place_of(&s, a->mean), i);
        rep_row_close(out);
    }
    rep_rows_axis(out, &s, clean(&name, rep_unit(v)));
    rep_rows_close(out);
    mem_free(name.text);
}

/* ---- waterfall ---- */

static const lab_effect *effect_of(const lab_stack *s, unsigned mask) {
    return &s->effects[mask - 1];
}

static void gap_text(char *text, size_t size, double predicted, int d, double gap, const double interval[2]) {
    char number[REP_NUMBER], change[REP_NUMBER], low[REP_NUMBER], high[REP_NUMBER];
    rep_number(number, predicted, d);
    rep_percent(change, gap, 2);
    if (isfinite(interval[0]) && isfinite(interval[1]))
        snprintf(text, size, "%s; measured %s to it (%s to %s)", number, change, rep_percent(low, interval[0], 2),
                 rep_percent(high, interval[1], 2));
    else
        snprintf(text, size, "%s; measured %s to it", number, change);
}

static void total_row(rep_text *out, const rep_scale *s, const char *label, const char *value, double at,
                      double measured, int colour, bool main) {
    rep_row_open(out, label, value, main);
    rep_line_v(out, s, measured, "target");
    rep_mark(out, rep_place_of(s, at), colour);
    rep_row_close(out);
}

static double step_row(rep_text *out, const rep_scale *s, const lab_stack *k, int i, double from, double measured,
                       rep_text *name) {
    const lab_effect *e = effect_of(k, 1u << i);
    double to = from + rep_measured(k, e) - k->verdict->arms[0].mean;
    char value[120], label[300], number[REP_NUMBER], change[REP_NUMBER];
    int d = rep_value_decimals(k->verdict);
    rep_number(number, to - from, d);
    snprintf(value, sizeof value, "%s%s, %s", to > from ? "+" : "", number, rep_percent(change, e->alone, 2));
    snprintf(label, sizeof label, "%.250s alone", clean(name, k->factors[i]));
    rep_row_open(out, label, value, false);
    rep_line_v(out, s, measured, "target");
    rep_line_v(out, s, from, "step");
    rep_bar(out, s, from, to, to < from ? "fall" : "rise", 16);
    rep_row_close(out);
    return to;
}

static void waterfall_rows(rep_text *out, const rep_scale *s, const lab_stack *k, const lab_effect *all,
                           rep_text *name) {
    double none = k->verdict->arms[0].mean, measured = rep_measured(k, all), at = none;
    int d = rep_value_decimals(k->verdict);
    char value[200], number[REP_NUMBER], change[REP_NUMBER], label[300];
    snprintf(label, sizeof label, "none: %.250s", clean(name, k->verdict->arms[0].name));
    if (!strcmp(k->verdict->arms[0].name, "none")) label[4] = 0;
    total_row(out, s, label, rep_number(number, none, d), none, measured, 0, false);
    for (int i = 0; i < k->factor_count; i++) at = step_row(out, s, k, i, at, measured, name);
    gap_text(value, sizeof value, all->additive, d, all->additive_gap, all->additive_interval);
    total_row(out, s, "expected: sum of the singles", value, all->additive, measured, 3, false);
    gap_text(value, sizeof value, all->multiplicative, d, all->multiplicative_gap, all->interval);
    total_row(out, s, "expected: product of the singles", value, all->multiplicative, measured, 2, false);
    snprintf(value, sizeof value, "%s, %s", rep_number(number, measured, d), rep_percent(change, all->alone, 2));
    total_row(out, s, "measured: all together", value, measured, measured, 1, true);
}

void rep_draw_waterfall(const rep_page *p, rep_text *out) {
    const lab_stack *k = p->report->stack;
    const lab_effect *all = effect_of(k, (1u << k->factor_count) - 1);
    double none = k->verdict->arms[0].mean, at = none;
    rep_scale s = rep_scale_none();
    rep_text name = {0};
    rep_scale_add(&s, none);
    rep_scale_add(&s, rep_measured(k, all));
    rep_scale_add(&s, all->additive);
    rep_scale_add(&s, all->multiplicative);
    for (int i = 0; i < k->factor_count; i++) rep_scale_add(&s, at += rep_measured(k, effect_of(k, 1u << i)) - none);
    if (!rep_scale_end(&s, false, 6)) return;
    rep_rows_open(
        out, "waterfall",
        "From none to all. Two expectations: the sum of the single differences, and the product of the single "
        "ratios. The dashed line is what all of them measured together.");
    waterfall_rows(out, &s, k, all, &name);
    rep_rows_axis(out, &s, clean(&name, rep_unit(k->verdict)));
    rep_rows_close(out);
    mem_free(name.text);
}

/* ---- profile ---- */

void rep_draw_profile(const rep_page *p, rep_text *out) {
    const lab_report *r = p->report;
    rep_scale s = rep_scale_none();
    rep_text name = {0};
    for (int i = 0; i < r->profile_count; i++) rep_scale_add(&s, r->profile[i].us);
    if (!rep_scale_end(&s, true, 5)) return;
    rep_rows_open(out, "profile",
                  "Time per step by op. The dark part of a bar is its floor: what must be moved or "
                  "computed at the measured ceilings.");
    for (int i = 0; i < r->profile_count; i++) {
        const lab_profile_row *x = &r->profile[i];
        char value[160], us[REP_NUMBER], share[REP_NUMBER], floor_us[REP_NUMBER];
        rep_number(us, x->us, rep_decimals(x->us));
        rep_number(share, x->share * 100, 1);
        rep_number(floor_us, x->floor_us, rep_decimals(x->floor_us));
        snprintf(value, sizeof value, "%s us, %s %%%s%s", us, share, isfinite(x->floor_us) ? ", floor " : "",
                 isfinite(x->floor_us) ? floor_us : "");
        rep_row_open(out, clean(&name, x->op ? x->op : "-"), value, false);
        if (isfinite(x->us)) rep_bar(out, &s, 0, x->us, "time", 18);
        if (isfinite(x->floor_us)) rep_bar(out, &s, 0, x->floor_us, "floor", 10);
        rep_row_close(out);
    }
    rep_rows_axis(out, &s, "us per step");
    rep_rows_close(out);
    mem_free(name.text);
}
