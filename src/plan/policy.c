/* policy.c: rules for the CPU kernels. A rule speaks of the rows one matrix sees: all n tokens for a dense matrix, the
 * mean n * k / e for an expert. plan turns that into ranges of n. */
#include "plan/policy.h"

#include <limits.h>
#include <string.h>

typedef struct rule {
    op_family family;
    op_isa isa;
    int rows_hi; /* the rule holds up to this many rows per matrix; INT_MAX ends a list */
    int knobs[OP_KNOBS_MAX];
    const char *text;
} rule;

/* Knobs in the order of op/knobs.h. */
static const rule rules[] = {
    /*                                    rows panels grain */
    {OP_DENSE, OP_ISA_AVX2, 1, {1, 4, 8}, "one row: more outputs in flight"},
    {OP_DENSE, OP_ISA_AVX2, INT_MAX, {4, 1, 4}, "rows share each weight load"},
    {OP_DENSE, OP_ISA_AVX512, 1, {1, 4, 8}, "one row: more outputs in flight"},
    {OP_DENSE, OP_ISA_AVX512, INT_MAX, {8, 2, 4}, "rows share each weight load"},
    /*                                    rows panels chunk columns */
    {OP_EXPERTS, OP_ISA_AVX2, 1, {1, 4, 8, 4}, "about one row per expert: more outputs in flight"},
    {OP_EXPERTS, OP_ISA_AVX2, INT_MAX, {2, 2, 8, 2}, "rows share each weight load"},
    {OP_EXPERTS, OP_ISA_AVX512, 1, {4, 4, 8, 4}, "about one row per expert: more outputs in flight"},
    {OP_EXPERTS, OP_ISA_AVX512, INT_MAX, {8, 2, 8, 2}, "rows share each weight load"},
};

/* Which rules a kernel follows: its own set's, else the next lower one's. */
static op_isa rules_isa(op_isa isa) {
    return isa >= OP_ISA_AVX512 ? OP_ISA_AVX512 : isa;
}

/* The largest n whose rows per matrix stay within rows_hi. */
static int tokens_for(const plan_key *key, int rows_hi) {
    if (rows_hi == INT_MAX) return INT_MAX;
    if (key->family != OP_EXPERTS) return rows_hi;
    int64_t n = (int64_t)rows_hi * key->e / key->k;
    return n > INT_MAX ? INT_MAX : (int)n;
}

int policy_rows(const plan_key *key, const op_kernel *kernel, plan_row *rows) {
    int count = 0, lo = 1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && count < PLAN_ROWS_MAX; i++) {
        const rule *r = &rules[i];
        if (r->family != key->family || r->isa != rules_isa(kernel->isa)) continue;
        int hi = tokens_for(key, r->rows_hi);
        if (hi < lo) continue;
        plan_row *row = &rows[count++];
        *row = (plan_row){.n_lo = lo, .n_hi = hi, .source = "policy", .rule = r->text};
        memcpy(row->knobs.v, r->knobs, sizeof r->knobs);
        op_knobs_fit(kernel, &row->knobs);
        if (hi == INT_MAX) return count;
        lo = hi + 1;
    }
    plan_row *row = &rows[count++];
    *row = (plan_row){.n_lo = lo, .n_hi = INT_MAX, .source = "policy", .rule = "defaults of the family"};
    op_knobs_default(key->family, &row->knobs);
    op_knobs_fit(kernel, &row->knobs);
    return count;
}
