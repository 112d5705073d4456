/* plan.h: shape -> kernel and knobs, with the reason. The one place where op (what) and dev (where) meet.
 * Order of look-up: override (a switch `family.knob=value`) over policy. Every choice leaves a receipt. */
#ifndef CADRE_PLAN_H
#define CADRE_PLAN_H
#include "dev/dev.h"
#include "op/kernel.h"

#include <stdatomic.h>

/* What is asked. Unused letters are 0. */
typedef struct plan_key {
    op_family family;
    cadre_dtype dtype;
    int d, f, e, k;   /* DENSE: d = in, f = out. ATTN: d = head_dim, f = heads, e = kv heads. NORM: d */
    const char *role; /* "gate", "qkv", "experts", ...: names the receipt */
} plan_key;

/* What runs for n in [n_lo, n_hi]. */
typedef struct plan_row {
    int n_lo, n_hi;
    op_knobs knobs;
    const char *source; /* "override" or "policy" */
    const char *rule;   /* static text: the policy's rule, or which switch */
    _Atomic uint64_t runs;
} plan_row;

enum { PLAN_ROWS_MAX = 6 };
typedef struct plan {
    plan_key key;
    const op_kernel *kernel;
    int count;
    plan_row rows[PLAN_ROWS_MAX]; /* ascending, contiguous from 1; the last has n_hi = INT_MAX */
} plan;

/* Fills *p (caller's storage). Errors: RANGE when an override is illegal for the kernel (named). */
cadre_err plan_make(const cadre_device *device, const plan_key *key, plan *p, cadre_fail *why);
/* The row for n >= 1 tokens, its run counter increased by one. */
const plan_row *plan_use(plan *p, int n);
/* The same for a member of a team that runs the kernel together: counted once, by member 0. */
const plan_row *plan_use_team(plan *p, const team *t, int n);
const plan_row *plan_row_for(const plan *p, int n);
/* Writes receipts of p into out[0..cap); returns the number of rows. */
int plan_receipts(const plan *p, cadre_receipt *out, int cap);

/* Switches beyond base's own: knobs, "dense.rows=4". cadre_set() tries base's first, then these. 0: not overridden. */
int plan_override(op_family family, int knob);
/* All switches there are, for `doctor --switches`: i-th of all, false past the end. value: in force. */
bool plan_switch_at(int i, switch_def *def, long *value);
#endif
