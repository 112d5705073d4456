/* report_stack.c: the tables of a stack (do single changes add up?) and of where a step's time goes. */
#include "report.h"
#include <math.h>
#include <string.h>

static void cell_gap(rep_page *p, double gap, const double interval[2]) {
    char text[REP_NUMBER], low[REP_NUMBER], high[REP_NUMBER];
    rep_percent(text, gap, 2);
    if (isfinite(gap) && isfinite(interval[0]) && isfinite(interval[1]))
        rep_cell(p, "%s (%s to %s)", text, rep_percent(low, interval[0], 2), rep_percent(high, interval[1], 2));
    else
        rep_cell(p, "%s", text);
}

int rep_factors(unsigned mask) {
    int n = 0;
    for (; mask; mask &= mask - 1) n++;
    return n;
}

double rep_measured(const lab_stack *s, const lab_effect *e) {
    return s->verdict->arms[0].mean * (1 + e->alone);
}

static void table_effects(rep_page *p, const lab_stack *s) {
    char text[REP_NUMBER];
    int d = rep_value_decimals(s->verdict);
    rep_table(p, "lrrrrrr", "Do single changes add up? Against none; intervals of the gaps in brackets",
              "factors on|change");
    rep_cell(p, "measured, %s", rep_unit(s->verdict));
    rep_cell(p, "sum of the singles");
    rep_cell(p, "measured to it");
    rep_cell(p, "product of the singles");
    rep_cell(p, "measured to it");
    for (unsigned i = 0; i + 1 < 1u << s->factor_count; i++) {
        const lab_effect *e = &s->effects[i];
        bool single = rep_factors(e->mask) < 2;
        if (!isfinite(e->alone)) continue;
        rep_cell(p, "%s", e->name);
        rep_cell(p, "%s", rep_percent(text, e->alone, 2));
        rep_cell(p, "%s", rep_number(text, rep_measured(s, e), d));
        rep_cell(p, "%s", rep_number(text, single ? NAN : e->additive, d));
        cell_gap(p, single ? NAN : e->additive_gap, e->additive_interval);
        rep_cell(p, "%s", rep_number(text, single ? NAN : e->multiplicative, d));
        cell_gap(p, single ? NAN : e->multiplicative_gap, e->interval);
    }
}

static void table_leave(rep_page *p, const lab_stack *s) {
    bool any = false;
    for (int i = 0; i < s->factor_count; i++) any = any || isfinite(s->leave_one_out[i]);
    if (!any) return;
    rep_table(p, "lr", "Leave one out: all factors against all but this one", "factor|change");
    for (int i = 0; i < s->factor_count; i++) {
        const double interval[2] = {s->leave_interval[i][0], s->leave_interval[i][1]};
        rep_cell(p, "%s", s->factors[i]);
        cell_gap(p, s->leave_one_out[i], interval);
    }
}

static void line_together(rep_page *p, const lab_stack *s) {
    const lab_effect *all = &s->effects[(1u << s->factor_count) - 2];
    char change[REP_NUMBER], sum[REP_NUMBER], product[REP_NUMBER], gaps[2][REP_NUMBER];
    int d = rep_value_decimals(s->verdict);
    if (!isfinite(all->alone)) return;
    rep_line(p, "All together: %s. The sum of the single changes expects %s (measured %s to it), the product %s (%s).",
             rep_percent(change, all->alone, 2), rep_number(sum, all->additive, d),
             rep_percent(gaps[0], all->additive_gap, 2), rep_number(product, all->multiplicative, d),
             rep_percent(gaps[1], all->multiplicative_gap, 2));
}

void rep_add_stack(rep_page *p) {
    const lab_stack *s = p->report->stack;
    if (!s) return;
    rep_heading(p, "Stack");
    if (rep_refused(s->verdict)) {
        rep_line(p, "No effect is told: a gate failed.");
        return;
    }
    line_together(p, s);
    rep_place(p, REP_WATERFALL);
    table_effects(p, s);
    rep_line(p,
             "The sum adds the differences of the single factors; it is the right expectation when they save parts of "
             "one step. The product multiplies their ratios. A gap below zero is less than expected, above zero more.");
    table_leave(p, s);
}

void rep_add_profile(rep_page *p) {
    const lab_report *r = p->report;
    char text[REP_NUMBER];
    if (!r->profile || r->profile_count < 1) return;
    rep_heading(p, "Where a step's time goes");
    rep_place(p, REP_PROFILE);
    rep_table(p, "llrrrrr", "Per step", "op|kernel|launches|us|share|floor, us|floor / time");
    for (int i = 0; i < r->profile_count; i++) {
        const lab_profile_row *x = &r->profile[i];
        rep_cell(p, "%s", x->op ? x->op : "-");
        rep_cell(p, "%s", x->kernel ? x->kernel : "-");
        rep_cell(p, "%s", rep_number(text, x->launches, x->launches < 10 && x->launches != floor(x->launches)));
        rep_cell(p, "%s", rep_number(text, x->us, rep_decimals(x->us)));
        rep_cell(p, "%s%s", rep_number(text, x->share * 100, 1), isfinite(x->share) ? " %" : "");
        rep_cell(p, "%s", rep_number(text, x->floor_us, rep_decimals(x->floor_us)));
        rep_cell(p, "%s", rep_number(text, x->us > 0 ? x->floor_us / x->us : NAN, 2));
    }
}
