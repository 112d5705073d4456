/* report_result.c: what came out: the question, a sentence for each arm, the differences and what they would need. */
#include "report.h"
#include <math.h>
#include <string.h>

static const char *better(const lab_verdict *v) {
    return v->better == LAB_HIGHER ? "higher" : "lower";
}

static const char *direction(double change) {
    return change > 0 ? "higher" : "lower";
}

/* "2.290 % higher" */
static void put_change(rep_text *t, double change, int decimals) {
    char text[REP_NUMBER];
    rep_putf(t, "%s %% %s", rep_number(text, fabs(change) * 100, decimals), direction(change));
}

static void put_interval(rep_text *t, const lab_verdict *v, const lab_contrast *c) {
    double level = v->question.level;
    char low[REP_NUMBER], high[REP_NUMBER], share[REP_NUMBER];
    int decimals = rep_ratio_decimals(v) - 2;
    if (!isfinite(c->interval[0]) || !isfinite(c->interval[1])) return;
    rep_putf(t, " (%s %% interval %s to %s)", rep_number(share, (1 - level) * 100, level * 1000 < 9.5 ? 1 : 0),
             rep_percent(low, c->interval[0] - 1, decimals), rep_percent(high, c->interval[1] - 1, decimals));
}

/* A gate that the reference fails refuses every contrast; one that an arm fails, its own. */
static bool refuses(const lab_verdict *v, const lab_gate *g, const lab_contrast *c) {
    size_t arm = (size_t)(c->arm - v->arms);
    return !g->ok && (!g->arms || g->arms & 1 || (g->arms >> (arm & 63) & 1));
}

static void put_refused(rep_text *t, const lab_verdict *v, const lab_contrast *c) {
    int failed = 0;
    rep_put(t, "Refused: no difference between ");
    rep_put_clean(t, c->arm->name);
    rep_put(t, " and ");
    rep_put_clean(t, c->reference->name);
    rep_put(t, " is told");
    for (int i = 0; i < v->gate_count; i++)
        if (refuses(v, &v->gates[i], c)) rep_putf(t, "%s%s", failed++ ? ", " : "; failed gates: ", v->gates[i].name);
    rep_put(t, ".");
}

/* "tpot_ms of ON is 5.41 % lower than of OFF (95 % interval ...)" */
static void put_measured(rep_text *t, const lab_verdict *v, const lab_contrast *c) {
    if (isnan(c->ratio)) rep_put(t, "it is not known how ");
    rep_put_clean(t, v->metric);
    rep_put(t, " of ");
    rep_put_clean(t, c->arm->name);
    if (isnan(c->ratio))
        rep_put(t, " compares with that of ");
    else {
        rep_put(t, " is ");
        put_change(t, c->ratio - 1, rep_ratio_decimals(v) - 2);
        rep_put(t, " than that of ");
    }
    rep_put_clean(t, c->reference->name);
    put_interval(t, v, c);
}

static void put_sentence(rep_text *t, const lab_verdict *v, const lab_contrast *c) {
    char text[REP_NUMBER];
    rep_number(text, v->question.effect * 100, rep_decimals(v->question.effect * 100) - 2);
    if (c->outcome == LAB_REFUSED) {
        put_refused(t, v, c);
        return;
    }
    if (c->ceiling)
        rep_put(t, "Ceiling: ");
    else
        rep_putf(t, "%c%s: ", rep_outcome(c->outcome)[0] - 'a' + 'A', rep_outcome(c->outcome) + 1);
    put_measured(t, v, c);
    if (c->ceiling && c->outcome == LAB_WIN) rep_put(t, "; what it leaves out can bring no more.");
    if (c->ceiling && c->outcome == LAB_LOSS) rep_put(t, "; it is slower without what it leaves out.");
    if (c->ceiling && c->outcome == LAB_WITHIN_NOISE)
        rep_put(t, "; what it leaves out can bring nothing that matters.");
    if (c->ceiling && c->outcome != LAB_UNDERPOWERED) return;
    if (c->outcome == LAB_WIN || c->outcome == LAB_LOSS) rep_putf(t, "; %s is better.", better(v));
    if (c->outcome == LAB_WITHIN_NOISE) rep_putf(t, "; no difference of %s %% or more.", text);
    if (c->outcome == LAB_UNDERPOWERED && c->visits_needed > 0)
        rep_putf(t, "; about %d visits per arm would tell a difference of %s %%.", c->visits_needed, text);
    else if (c->outcome == LAB_UNDERPOWERED)
        rep_put(t, isnan(c->ratio) ? "." : "; that is not enough to tell.");
}

void lab_verdict_say(const lab_verdict *v, int contrast, char *text, size_t size) {
    rep_text t = {0};
    put_sentence(&t, v, &v->contrasts[contrast]);
    snprintf(text, size, "%s", t.text && !t.failed ? t.text : lab_outcome_name(v->contrasts[contrast].outcome));
    mem_free(t.text);
}

static void put_question(rep_text *t, const lab_verdict *v) {
    char text[REP_NUMBER];
    rep_number(text, v->question.effect * 100, rep_decimals(v->question.effect * 100) - 2);
    rep_put(t, "Does ");
    for (int i = 1; i < v->arm_count; i++) {
        rep_put(t, i == 1 ? "" : i + 1 < v->arm_count ? ", " : " or ");
        rep_put_clean(t, v->arms[i].name);
    }
    rep_put(t, " change ");
    rep_put_clean(t, v->metric);
    rep_put(t, " by ");
    rep_put(t, text);
    rep_put(t, " % or more against ");
    rep_put_clean(t, v->arms[0].name);
    rep_put(t, "?");
}

static void make_head(rep_page *p) {
    const lab_report *r = p->report;
    const lab_verdict *v = p->verdict;
    const char *title = r->title ? r->title : r->experiment ? r->experiment->name : NULL;
    const char *asks = r->asks ? r->asks : r->experiment ? r->experiment->asks : NULL;
    if (title && *title)
        rep_put_clean(&p->title, title);
    else {
        rep_put_clean(&p->title, v->metric);
        rep_put(&p->title, " against ");
        rep_put_clean(&p->title, v->arms[0].name);
    }
    if (asks && *asks)
        rep_put_clean(&p->asks, asks);
    else
        put_question(&p->asks, v);
    for (int i = 0; i + 1 < v->arm_count; i++) {
        if (i) rep_put(&p->outcome, "\n");
        put_sentence(&p->outcome, v, &v->contrasts[i]);
    }
    if (!p->outcome.len) rep_put(&p->outcome, "Only one arm: nothing to compare.");
}

cadre_err rep_page_make(const lab_report *r, rep_page *p, cadre_fail *why) {
    *p = (rep_page){.report = r, .verdict = r->verdict};
    make_head(p);
    rep_add_result(p);
    rep_add_evidence(p);
    rep_add_stack(p);
    rep_add_arms(p);
    rep_add_profile(p);
    rep_add_gates(p);
    rep_add_scope(p);
    if (p->failed || p->title.failed || p->asks.failed || p->outcome.failed || p->words.failed)
        return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the report");
    return CADRE_OK;
}

/* ---- the differences ---- */

/* "0.98 to 1.02", by the decimals of the contrast. */
static void cell_interval(rep_page *p, const double interval[2], int decimals) {
    char low[REP_NUMBER], high[REP_NUMBER];
    if (rep_interval_known(interval))
        rep_cell(p, "%s to %s", rep_number(low, interval[0], decimals), rep_number(high, interval[1], decimals));
    else
        rep_cell(p, "-");
}

static void table_ratios(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER], change[REP_NUMBER];
    rep_table(p, "lllrrrr", "Ratio to the reference", "arm|outcome|estimator|change|ratio|low|high");
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        int d = rep_ratio_decimals(v);
        bool told = c->outcome != LAB_REFUSED;
        rep_cell(p, "%s", c->arm->name);
        rep_cell(p, "%s", told && c->ceiling ? "ceiling" : rep_outcome(c->outcome));
        rep_cell(p, "%s", told && c->estimator ? c->estimator : "-");
        rep_cell(p, "%s", rep_percent(change, told ? c->ratio - 1 : NAN, d - 2));
        rep_cell(p, "%s", rep_number(text, told ? c->ratio : NAN, d));
        rep_cell(p, "%s", rep_number(text, told ? c->interval[0] : NAN, d));
        rep_cell(p, "%s", rep_number(text, told ? c->interval[1] : NAN, d));
    }
}

static void table_chance(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    bool several = v->arm_count > 2;
    rep_table(p, several ? "lrrrrrrrr" : "lrrrrrrr", "Difference and chance", "arm");
    rep_cell(p, "difference in %s", rep_unit(v));
    rep_cell(p, "separation");
    rep_cell(p, "p");
    rep_cell(p, "its floor");
    rep_cell(p, "p over visits");
    rep_cell(p, "its floor");
    rep_cell(p, "p of the interval");
    if (several) rep_cell(p, "p, Holm");
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        double none = c->outcome == LAB_REFUSED ? NAN : 0;
        int d = rep_value_decimals(v);
        rep_cell(p, "%s", c->arm->name);
        rep_cell(p, "%s%s", c->delta > 0 && !none ? "+" : "", rep_number(text, c->delta + none, d));
        rep_cell(p, "%s", rep_number(text, c->separation + none, d));
        rep_cell(p, "%s", rep_p(text, c->p + none));
        rep_cell(p, "%s", rep_p(text, c->p_floor + none));
        rep_cell(p, "%s", rep_p(text, c->p_visits + none));
        rep_cell(p, "%s", rep_p(text, c->p_visits_floor + none));
        rep_cell(p, "%s", rep_p(text, c->p_interval + none));
        if (several) rep_cell(p, "%s", rep_p(text, c->p_adjusted + none));
    }
}

static void table_estimates(rep_page *p) {
    const lab_verdict *v = p->verdict;
    rep_table(p, "lll", "Other intervals of the ratio",
              "arm|bootstrap over samples, percentile|Welch t on logs, over samples");
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        if (c->outcome == LAB_REFUSED) continue;
        rep_cell(p, "%s", c->arm->name);
        cell_interval(p, c->bootstrap, rep_ratio_decimals(v));
        cell_interval(p, c->log_ratio, rep_ratio_decimals(v));
    }
}

/* "+2.300 %, +2.280 %", in time. */
static void put_pairs(rep_text *t, const lab_verdict *v, const lab_contrast *c) {
    char text[REP_NUMBER];
    for (int i = 0; i < c->pair_count; i++)
        rep_putf(t, "%s%s", i ? ", " : "", rep_percent(text, c->pairs[i], rep_ratio_decimals(v) - 2));
}

static bool has_pairs(const lab_contrast *c) {
    return c->outcome != LAB_REFUSED && c->pair_count > 1;
}

static void add_pairs(rep_page *p) {
    const lab_verdict *v = p->verdict;
    bool any = false;
    for (int i = 0; i + 1 < v->arm_count; i++) any = any || has_pairs(&v->contrasts[i]);
    if (any && v->arm_count > 2) rep_table(p, "ll", "Pairs: each visit against that of the reference", "arm|change");
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        rep_text t = {0};
        if (!has_pairs(c)) continue;
        put_pairs(&t, v, c);
        if (v->arm_count == 2)
            rep_line(p, "Pairs, %s against %s: %s.", c->arm->name, c->reference->name, t.text ? t.text : "");
        else {
            rep_cell(p, "%s", c->arm->name);
            rep_cell(p, "%s", t.text ? t.text : "");
        }
        p->failed = p->failed || t.failed;
        mem_free(t.text);
    }
}

/* ---- noise ---- */

static const char *share(char text[REP_NUMBER], double v) {
    return rep_number(text, v * 100, rep_decimals(v * 100));
}

static const char *effect_text(char text[REP_NUMBER], const lab_verdict *v) {
    return rep_number(text, v->question.effect * 100, rep_decimals(v->question.effect * 100) - 2);
}

static void line_noise(rep_page *p, const lab_contrast *c) {
    char noise[REP_NUMBER], effect[REP_NUMBER], power[REP_NUMBER], most[REP_NUMBER], floor[100] = "";
    if (!isfinite(c->noise)) return;
    rep_number(power, p->verdict->question.power * 100, 0);
    if (isfinite(c->noise_floor))
        snprintf(floor, sizeof floor, " Equal arms would show up to %s %%.", share(most, c->noise_floor));
    if (c->visits_needed > 0)
        rep_line(p,
                 "Noise between visits of %s and %s: %s %% (relative sd). A difference of %s %% is found with a power "
                 "of %s %% from %d visits per arm on; there are %d and %d.%s",
                 c->reference->name, c->arm->name, share(noise, c->noise), effect_text(effect, p->verdict), power,
                 c->visits_needed, c->reference->visits, c->arm->visits, floor);
    else
        rep_line(p, "Noise between visits of %s and %s: %s %% (relative sd).%s", c->arm->name, c->reference->name,
                 share(noise, c->noise), floor);
}

static void table_noise(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER], power[REP_NUMBER];
    rep_table(p, "lrrrr", "Noise: relative sd between visits of equal set-ups, in %",
              "arm|visits|noise|equal arms show up to");
    rep_cell(p, "visits needed for %s %%, power %s %%", effect_text(text, v),
             rep_number(power, v->question.power * 100, 0));
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        if (c->outcome == LAB_REFUSED || !isfinite(c->noise)) continue;
        rep_cell(p, "%s", c->arm->name);
        rep_cell(p, "%d + %d", c->reference->visits, c->arm->visits);
        rep_cell(p, "%s", share(text, c->noise));
        rep_cell(p, "%s", share(text, c->noise_floor));
        if (c->visits_needed > 0)
            rep_cell(p, "%d", c->visits_needed);
        else
            rep_cell(p, "-");
    }
}

static void add_noise(rep_page *p) {
    const lab_verdict *v = p->verdict;
    bool any = false;
    for (int i = 0; i + 1 < v->arm_count; i++)
        any = any || (v->contrasts[i].outcome != LAB_REFUSED && isfinite(v->contrasts[i].noise));
    if (any && v->arm_count == 2)
        line_noise(p, v->contrasts);
    else if (any)
        table_noise(p);
}

static void line_drift(rep_page *p) {
    const lab_verdict *v = p->verdict;
    char drift[REP_NUMBER], sds[REP_NUMBER];
    if (!isfinite(v->drift)) {
        rep_line(p, "Drift: not known, the reference has no later visit.");
        return;
    }
    rep_percent(drift, v->drift, rep_decimals(v->drift * 100));
    if (isfinite(v->drift_sd))
        rep_line(p, "Drift of %s from its first to its last visit: %s (%s sds of its noise); %s.", v->arms[0].name,
                 drift, rep_number(sds, v->drift_sd, 1),
                 v->drift_corrected ? "taken out as a straight line" : "not taken out");
    else
        rep_line(p, "Drift of %s from its first to its last visit: %s; %s.", v->arms[0].name, drift,
                 v->drift_corrected ? "taken out as a straight line" : "not taken out");
}

static bool any_told(const lab_verdict *v) {
    for (int i = 0; i + 1 < v->arm_count; i++)
        if (v->contrasts[i].outcome != LAB_REFUSED) return true;
    return false;
}

static bool any_estimate(const lab_verdict *v) {
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        if (c->outcome != LAB_REFUSED && (rep_interval_known(c->bootstrap) || rep_interval_known(c->log_ratio)))
            return true;
    }
    return false;
}

static int contrast_of(const lab_verdict *v, const char *arm) {
    for (int i = 0; i + 1 < v->arm_count; i++)
        if (!strcmp(v->contrasts[i].arm->name, arm)) return i;
    return -1;
}

/* A row of an arm that something is predicted of; the reference's has words alone. */
static void row_of_prediction(rep_page *p, const lab_arm *a, const lab_conversion *c) {
    char text[REP_NUMBER];
    rep_cell(p, "%s", a->name);
    rep_cell(p, "%s", a->prediction ? a->prediction : "-");
    rep_cell(p, "%s", rep_percent(text, c->predicted, 2));
    rep_cell(p, "%s", rep_percent(text, c->measured, rep_ratio_decimals(p->verdict) - 2));
    rep_cell(p, "%s", rep_number(text, c->conversion, 2));
}

/* What was written down before the run, beside what came. */
static void add_predictions(rep_page *p) {
    const lab_experiment *e = p->report->experiment;
    const lab_verdict *v = p->verdict;
    lab_conversion c;
    char text[400];
    int first = v->arm_count - 1;
    while (first-- > 0)
        if (lab_conversion_of(e, v, first, &c)) break;
    if (first < 0) return;
    rep_table(p, "llrrr",
              c.before_run ? "Predictions, written before the run"
                           : "Predictions; nothing shows that they are older than the samples",
              "arm|prediction|predicted|measured|measured / predicted");
    for (int i = 0; i < e->arm_count; i++) {
        int k = contrast_of(v, e->arms[i].name);
        if (k >= 0 && lab_conversion_of(e, v, k, &c))
            row_of_prediction(p, &e->arms[i], &c);
        else if (k < 0 && e->arms[i].prediction)
            row_of_prediction(p, &e->arms[i], &(lab_conversion){.predicted = NAN, .measured = NAN, .conversion = NAN});
    }
    for (int i = 0; i + 1 < v->arm_count; i++) {
        if (!lab_conversion_of(e, v, i, &c) || !(c.odd || c.below_floor)) continue;
        lab_conversion_say(&c, text, sizeof text);
        rep_line(p, "%s: %s.", v->contrasts[i].arm->name, text);
    }
}

void rep_add_result(rep_page *p) {
    const lab_verdict *v = p->verdict;
    if (v->arm_count < 2) return;
    rep_heading(p, "Result");
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const lab_contrast *c = &v->contrasts[i];
        bool plain = v->arm_count > 2 && (c->outcome == LAB_WIN || c->outcome == LAB_LOSS); /* the tables say it */
        if (*c->why && !plain) rep_line(p, "%s: %s", c->arm->name, c->why);
    }
    if (v->question.per_token)
        rep_line(p, "Values are per token: the arms may have emitted different numbers of tokens.");
    if (p->report->experiment && p->report->experiment->aa)
        rep_line(p, "The arms are equal on purpose: what is seen between them is noise.");
    add_predictions(p);
    if (!any_told(v)) return;
    rep_place(p, REP_INTERVALS);
    table_ratios(p);
    table_chance(p);
    if (any_estimate(v)) table_estimates(p);
    add_pairs(p);
    if (v->arm_count > 2 && !p->report->stack) rep_place(p, REP_LADDER);
    add_noise(p);
    line_drift(p);
}
