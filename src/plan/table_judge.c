/* table_judge.c: what a row is worth to this build: is its kernel still the one that was measured, and is the default
 * it beat still the default? A row's evidence is against that default, so it ends with it. */
#include "plan/plan.h"
#include "plan/policy.h"
#include "plan/table.h"

#include <string.h>

static bool equal(op_family family, const op_knobs *a, const op_knobs *b) {
    return !memcmp(a->v, b->v, (size_t)op_families[family].count * sizeof a->v[0]);
}

static void default_at(const native_row *row, const op_kernel *kernel, int n, op_knobs *now) {
    plan_row rows[PLAN_ROWS_MAX];
    plan_key key = {.family = row->family, .dtype = row->dtype, .d = row->d, .f = row->f, .e = row->e, .k = row->k};
    int i = 0, count = policy_rows(&key, kernel, row->threads, rows);
    while (i < count - 1 && n > rows[i].n_hi) i++;
    *now = rows[i].knobs;
}

static native_verdict verdict_of(const native_row *row, int n, op_knobs *now) {
    const op_kernel *kernel = op_kernel_named(row->kernel);
    bool norm = row->family == OP_NORM; /* serves every type */
    if (!kernel || kernel->family != row->family || (!norm && kernel->dtype != row->dtype)) return NATIVE_NO_KERNEL;
    default_at(row, kernel, n, now);
    if (!kernel->ok(&row->knobs)) return NATIVE_ILLEGAL;
    if (strcmp(op_kernel_source(kernel), row->code)) return NATIVE_OTHER_CODE;
    if (!equal(row->family, now, &row->beaten)) return NATIVE_STALE;
    if (equal(row->family, now, &row->knobs)) return NATIVE_SAME;
    return row->ratio_hi < 1 ? NATIVE_GOOD : NATIVE_NO_GAIN;
}

native_verdict native_judge(const native_row *row, int n, op_knobs *now, const char **text) {
    static const char *const texts[] = {
        [NATIVE_GOOD] = "beats the default",
        [NATIVE_NO_KERNEL] = "this build has no such kernel",
        [NATIVE_OTHER_CODE] = "the kernel has changed since the row was measured",
        [NATIVE_ILLEGAL] = "the kernel cannot run these settings",
        [NATIVE_STALE] = "the default has changed since the row beat it",
        [NATIVE_NO_GAIN] = "the row was not shown to beat the default",
        [NATIVE_SAME] = "the row says what the default says",
    };
    op_knobs here = {.v = {0}};
    native_verdict v = verdict_of(row, n, &here);
    if (now && v != NATIVE_NO_KERNEL) *now = here;
    if (text) *text = texts[v];
    return v;
}
