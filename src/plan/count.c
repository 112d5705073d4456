/* count.c: the switches of counting. What a value means is op/count.h's. */
#include "plan/count.h"

#include <string.h>

static const switch_def defs[COUNT_KNOBS] = {
#define X(name, def, low, high, what) {"count." #name, def, low, high, what},
    CADRE_COUNT_KNOBS(X)
#undef X
};
static int values[COUNT_KNOBS] = {
#define X(name, def, low, high, what) def,
    CADRE_COUNT_KNOBS(X)
#undef X
};

void plan_count_knobs(count_knobs *out) {
    int i = 0;
#define X(name, def, low, high, what) out->name = values[i++];
    CADRE_COUNT_KNOBS(X)
#undef X
}

int plan_count_ctas(const count_knobs *knobs, int units) {
    return knobs->ctas ? knobs->ctas : units;
}

bool plan_count_switch(int i, switch_def *def, long *value) {
    if (i < 0 || i >= COUNT_KNOBS) return false;
    *def = defs[i];
    *value = values[i];
    return true;
}

static bool doubles(int i) {
    return !strcmp(count_knob_defs[i].name, "block") || !strcmp(count_knob_defs[i].name, "warps");
}

bool plan_count_set(const char *assignment, cadre_err *err, cadre_fail *why) {
    int i;
    long v;
    if (strncmp(assignment, "count.", 6) != 0) return false;
    *err = switch_parse(defs, COUNT_KNOBS, assignment, &i, &v, why);
    if (!*err && doubles(i) && (v & (v - 1)))
        *err = cadre_fail_set(why, CADRE_RANGE, "switch %s is %ld, expected a power of two in %ld..%ld", defs[i].name,
                              v, defs[i].low, defs[i].high);
    if (!*err) values[i] = (int)v;
    return true;
}
