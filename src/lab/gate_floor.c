/* gate_floor.c: what the judged metric cannot go below: the same measured with nothing to do, as a launch of an empty
 * kernel. It tells the most that any change could bring; an arm that is below it was not measured right. */
#include "verdict.h"
#include <math.h>
#include <string.h>

/* Mean over the reference's samples; *n: how many. */
static double mean_of(const lab_pick *p, int n, const char *arm, int *count) {
    double sum = 0;
    *count = 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].s->arm, arm)) sum += p[i].s->value, ++*count;
    return *count ? sum / *count : NAN;
}

static bool same_unit(const char *a, const char *b) {
    return !a || !b || !strcmp(a, b);
}

cadre_err lab_gate_floor(lab_box *b, cadre_fail *why) {
    const char *name = b->v.question.floor;
    lab_verdict *v = &b->v;
    char names[100];
    uint64_t below = 0;
    int n, count;
    if (!name) return CADRE_OK;
    lab_pick *p = lab_hold(b, (size_t)lab_samples_count(v->samples), sizeof *p);
    if (!p) return lab_no_memory(why);
    n = lab_measurements(b, name, p);
    v->floor = mean_of(p, n, v->arms[0].name, &count);
    if (!count) return cadre_fail_set(why, CADRE_RANGE, "no metric \"%.80s\" in the samples, which is the floor", name);
    if (!same_unit(p[0].s->unit, v->unit))
        return cadre_fail_set(why, CADRE_RANGE, "the floor %.60s is in %.20s, %.60s in %.20s", name, p[0].s->unit,
                              v->metric, v->unit);
    if (v->better != LAB_LOWER)
        return cadre_fail_set(why, CADRE_RANGE, "a floor is of times; of %.60s more is better", v->metric);
    for (int i = 0; i < v->arm_count; i++)
        if (v->arms[i].mean < v->floor) below |= (uint64_t)1 << i;
    if (below)
        lab_gate_add(b, "floor", true, below, "below %.60s, which does nothing and takes %.4g %.10s: %s", name,
                     v->floor, v->unit ? v->unit : "", lab_arm_names(b, below, names, sizeof names));
    else
        lab_gate_add(b, "floor", true, 0, "%.60s is %.4g %.10s, %.3g %% of %.40s: %.3g %% is the most to gain", name,
                     v->floor, v->unit ? v->unit : "", 100 * v->floor / v->arms[0].mean, v->arms[0].name,
                     100 * (v->floor / v->arms[0].mean - 1));
    return CADRE_OK;
}
