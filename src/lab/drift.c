/* drift.c: did the machine change while the run lasted? The reference is measured at the start and at the end; what it
 * gained between is compared with its noise. Where the design allows, one straight line over the order of visits,
 * common to all arms, is fitted to the logs of visit means and taken out:
 *
 *   log mean of a visit = its arm + slope x its order + noise
 *
 * Its slope costs one degree of freedom and adds its own variance to each difference; contrast.c counts both. */
#include "stat.h"
#include "verdict.h"
#include <math.h>

enum { DF_LEAST = 3 }; /* a line through fewer residuals says nothing */
static const double limit = 2;

typedef struct fit {
    double slope, sxx, rss; /* rss: of the residuals */
    int visits, df;
} fit;

double lab_order_mean(const lab_arm_figures *a) {
    double sum = 0;
    for (int i = 0; i < a->visits; i++) sum += a->visit_orders[i];
    return a->visits ? sum / a->visits : 0;
}

static fit fit_line(const lab_box *b) {
    fit f = {0};
    double sxy = 0, syy = 0;
    int arms = 0;
    for (int i = 0; i < b->v.arm_count; i++) {
        const lab_arm_figures *a = &b->v.arms[i];
        double t = lab_order_mean(a), y = lab_mean(b->logs[i], a->visits);
        for (int k = 0; k < a->visits; k++) {
            double dt = a->visit_orders[k] - t, dy = b->logs[i][k] - y;
            f.sxx += dt * dt;
            sxy += dt * dy;
            syy += dy * dy;
        }
        f.visits += a->visits;
        arms += a->visits > 0;
    }
    f.slope = f.sxx > 0 ? sxy / f.sxx : 0;
    f.rss = syy - f.slope * sxy > 0 ? syy - f.slope * sxy : 0;
    f.df = f.visits - arms - 1;
    return f;
}

/* Relative variance of a visit's mean that its own samples account for. */
static double within(const lab_box *b, double *df) {
    double sum = 0;
    *df = 0;
    for (int i = 0; i < b->v.arm_count; i++) {
        const lab_arm_figures *a = &b->v.arms[i];
        double free = a->n - a->visits;
        if (!(free > 0) || !(a->mean > 0)) continue;
        double sd = a->within_sd / a->mean;
        sum += free * sd * sd * a->visits / a->n;
        *df += free;
    }
    return *df > 0 ? sum / *df : 0;
}

/* In sds of the difference of two visits: t turned into the normal deviate of the same probability. */
static double deviate(const lab_box *b, const fit *f, double gained) {
    double free, inner = within(b, &free), df = f->df, variance = f->df > 0 ? f->rss / f->df : 0;
    if (f->df <= 0) df = free;
    if (inner > variance) variance = inner;
    if (!(df > 0)) return NAN;
    if (!(variance > 0)) return gained == 0 ? 0 : INFINITY;
    return lab_normal_of_tails(lab_t_tails(gained / sqrt(2 * variance), df));
}

static void take_out(lab_box *b, const fit *f) {
    double sum = 0;
    for (int i = 0; i < b->v.arm_count; i++) sum += lab_order_mean(&b->v.arms[i]) * b->v.arms[i].visits;
    b->line_middle = sum / f->visits;
    for (int i = 0; i < b->v.arm_count; i++)
        for (int k = 0; k < b->v.arms[i].visits; k++)
            b->logs[i][k] -= f->slope * (b->v.arms[i].visit_orders[k] - b->line_middle);
    b->v.drift_corrected = true;
    b->v.drift_slope = f->slope;
    b->line_variance = f->rss / f->df / f->sxx;
    b->line_df = f->df;
    b->residual_scale = (f->df + 1.0) / f->df;
}

/* In blocks a line can still be told from the arms if the reference lies on both sides of each of them. */
static bool surrounded(const lab_verdict *v) {
    const lab_arm_figures *r = &v->arms[0];
    for (int i = 1; i < v->arm_count; i++) {
        const lab_arm_figures *a = &v->arms[i];
        if (a->visits && (a->visit_orders[0] < r->visit_orders[0] ||
                          a->visit_orders[a->visits - 1] > r->visit_orders[r->visits - 1]))
            return false;
    }
    return true;
}

static bool all_positive(const lab_box *b) {
    for (int i = 0; i < b->v.arm_count; i++)
        if (!b->logs[i]) return false;
    return true;
}

void lab_drift(lab_box *b, bool interleaved) {
    const lab_arm_figures *r = &b->v.arms[0];
    b->v.drift = b->v.drift_sd = NAN;
    if (r->visits < 2 || !all_positive(b)) {
        lab_gate_add(b, "drift", false, 0, "not known: %s",
                     r->visits < 2 ? "the reference was measured once" : "not all values are positive");
        return;
    }
    fit f = fit_line(b);
    double gained = b->logs[0][r->visits - 1] - b->logs[0][0];
    b->v.drift = m_exp(gained) - 1;
    b->v.drift_sd = deviate(b, &f, gained);
    double percent = 100 * b->v.drift, sds = b->v.drift_sd;
    if (isnan(sds))
        lab_gate_add(b, "drift", false, 0, "%s moved by %+.2f %%; nothing tells its noise", r->name, percent);
    else if (!(sds > limit))
        lab_gate_add(b, "drift", true, 0, "%s moved by %+.2f %% from its first to its last visit, %.1f sd of its noise",
                     r->name, percent, sds);
    else if (f.df >= DF_LEAST && f.sxx > 0 && (interleaved || surrounded(&b->v))) {
        take_out(b, &f);
        lab_gate_add(b, "drift", true, 0,
                     "%s moved by %+.2f %% (%.1f sd); a line over the order of visits was taken out", r->name, percent,
                     sds);
    } else
        lab_gate_add(b, "drift", true, 1, "%s moved by %+.2f %% (%.1f sd of its noise), and %s", r->name, percent, sds,
                     f.df < DF_LEAST ? "there are too few visits to take it out" : "the order of visits hides it");
}
