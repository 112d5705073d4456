/* plan.h: the options of `cadre plan explain` and `plan check`, and their two halves: cadre's own plans (plan.c), and
 * the tables and defaults of other systems (plan_foreign.c). */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H
#include "opts.h"
#include "plan/plan.h"
#include "plan/workspace.h"
#include "say.h"
#include "shape.h"

typedef struct plan_opts {
    opts_common common;
    const char *shape, *list, *op, *platform, *table, *rule, *policy, *triton, *device_name, *dtype, *block;
    int tp, smem; /* tp: 0 until options were checked, where --tp is not given */
    int gpu;      /* of --device: its number, or DEV_CPU */
    bool memory, check;
} plan_opts;

/* What one step needs, for one M. */
typedef struct plan_memory {
    int m, count, stage_count;
    const char *const *stages;
    work_part parts[16];
    const char *who;    /* shares it: static */
    char counting[160]; /* how tokens are counted; "" where nothing is to be said */
} plan_memory;
cadre_err plan_memory_own(plan_memory *a, cadre_device *device, const cadre_moe_desc *desc, int m, int threads,
                          cadre_fail *why);
cadre_err plan_memory_foreign(plan_memory *a, const gemm_key *key, const gemm_config *config, cadre_fail *why);
void plan_memory_say(const plan_memory *a);
void plan_memory_put(json_out *o, const plan_memory *a);

/* A foreign platform, table or policy is asked for. */
bool plan_is_foreign(const plan_opts *o);
/* Prints the answer and returns the exit status. */
int plan_foreign(const plan_opts *o, cadre_fail *why);

/* With --device cuda, likewise (plan_gpu.c). */
int plan_gpu_explain(const plan_opts *o, cadre_fail *why);

/* The M of --m: for explain each, for check a range. */
enum { PLAN_LIST_MOST = 4096, PLAN_M_MOST = 1 << 20 };
cadre_err plan_range(const char *list, int *lo, int *hi, cadre_fail *why);
#endif
