/* plan.h: shape -> kernel and knobs, with the reason. The one place where op (what) and dev (where) meet.
 * Order of look-up: override (a switch `family.knob=value`), row of a table (table.h: the user's, the shipped, one of
 * the device's class), policy. Every choice leaves a receipt. */
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
    cadre_act act;    /* EXPERTS */
} plan_key;

/* What runs for n in [n_lo, n_hi]. */
typedef struct plan_row {
    int n_lo, n_hi;
    op_knobs knobs;
    const char *source; /* "override", "user", "shipped", "class" or "policy" */
    const char *rule;   /* the policy's rule, which switch, a row's evidence, or why a row was passed over */
    /* The row that runs. Policy: the row that was passed over, or a table that could not be read. NULL and 0: none. */
    const char *file, *sha256; /* sha256: of the table, as its last line has it */
    int line;
    int distance;     /* letters of the row's key that differ from what was asked: 0, or 1 (the device) for "class" */
    bool shadowed;    /* something else would run without this override or row: */
    op_knobs shadows; /* its knobs */
    _Atomic uint64_t runs;
} plan_row;

enum { PLAN_ROWS_MAX = 12 };
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

/* ---- tables ---- */

/* The folders that are looked at (switches tables_dir and tables_shipped), and what lies in them. Borrowed texts. */
typedef struct plan_tables {
    const char *user, *shipped;    /* "": none */
    int user_files, shipped_files; /* that could be read */
    int rows;                      /* in all of them */
    int faults;                    /* files and folders that could not */
} plan_tables;
cadre_err plan_tables_look(plan_tables *out, cadre_fail *why);
/* Drops what was read; the next plan reads again. No plan that was made before may be used after it. */
void plan_tables_forget(void);
/* The device's class: what a table of another device must say to be used for this one. */
void plan_device_class(const cadre_device *device, char *text, size_t size);

/* Switches beyond base's own: knobs, "dense.rows=4". cadre_set() tries base's first, then these. 0: not overridden. */
int plan_override(op_family family, int knob);
/* All switches there are, for `doctor --switches`: i-th of all, false past the end. value: in force. */
bool plan_switch_at(int i, switch_def *def, long *value);
#endif
