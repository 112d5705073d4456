/* plan.h: the options of `cadre plan explain` and `plan check`, and their two halves: cadre's own plans (plan.c), and
 * the tables and defaults of other systems (plan_foreign.c). */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H
#include "opts.h"
#include "plan/plan.h"
#include "say.h"
#include "shape.h"

typedef struct plan_opts {
    opts_common common;
    const char *shape, *list, *op, *platform, *table, *rule, *policy, *triton, *device_name, *dtype, *block;
    int tp, smem;
    bool memory, check;
} plan_opts;

/* A foreign platform, table or policy is asked for. */
bool plan_is_foreign(const plan_opts *o);
/* Prints the answer and returns the exit status. */
int plan_foreign(const plan_opts *o, cadre_fail *why);

/* The M of --m: for explain each, for check a range. */
enum { PLAN_LIST_MOST = 4096, PLAN_M_MOST = 1 << 20 };
cadre_err plan_range(const char *list, int *lo, int *hi, cadre_fail *why);
#endif
