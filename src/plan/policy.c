/* policy.c: rules for the CPU kernels. A rule speaks of the rows one matrix sees: all n tokens for a dense matrix, the
 * mean n * k / e for an expert. plan turns that into ranges of n. */
#include "plan/policy.h"

#include <limits.h>
#include <string.h>

typedef struct rule {
    op_family family;
    op_isa isa;
    bool quant;  /* quantized experts */
    int rows_hi; /* the rule holds up to this many rows per matrix; INT_MAX ends a list */
    int knobs[OP_KNOBS_MAX];
    const char *text;
} rule;

/* Knobs in the order of op/knobs.h. */
static const rule rules[] = {
    /*                                          rows panels grain */
    {OP_DENSE, OP_ISA_AVX2, false, 1, {1, 2, 8}, "one row: two panels in flight"},
    {OP_DENSE, OP_ISA_AVX2, false, INT_MAX, {4, 1, 8}, "rows share each weight load"},
    {OP_DENSE, OP_ISA_AVX512, false, INT_MAX, {8, 2, 16}, "as many rows as registers hold share each weight load"},
    /*                                                rows panels chunk columns */
    {OP_EXPERTS, OP_ISA_AVX2, false, INT_MAX, {2, 1, 16, 8}, "two rows fill the registers"},
    {OP_EXPERTS, OP_ISA_AVX512, false, 1, {4, 2, 8, 4}, "about one row per expert: wide tiles"},
    {OP_EXPERTS, OP_ISA_AVX512, false, INT_MAX, {8, 1, 16, 8}, "rows share each weight load"},
    {OP_EXPERTS, OP_ISA_AVX2, true, INT_MAX, {2, 1, 8, 4}, "two rows fill the registers"},
    {OP_EXPERTS, OP_ISA_AVX512, true, INT_MAX, {4, 2, 16, 8}, "four rows and four lines of weights fill the registers"},
    /*                                         heads keys grain: by the size of a group of heads, see fit_attn */
    {OP_ATTN, OP_ISA_AVX2, false, INT_MAX, {4, 1, 1}, "heads of a group share each key"},
    {OP_ATTN, OP_ISA_AVX512, false, INT_MAX, {8, 2, 1}, "heads of a group share each key"},
};

/* Which rules a kernel follows: its own set's, else the next lower one's. */
static op_isa rules_isa(op_isa isa) {
    return isa >= OP_ISA_AVX512 ? OP_ISA_AVX512 : isa;
}

/* The largest power of two that is at most v, and at least 1. */
static int power_below(int v) {
    int p = 1;
    while (p <= v / 2) p *= 2;
    return p;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* heads * keys stays what the rule says: that many accumulators fill the registers. */
static void fit_attn(const plan_key *key, attn_knobs *knobs) {
    int product = knobs->heads * knobs->keys;
    knobs->heads = least(power_below(key->f / key->e), knobs->heads);
    knobs->keys = least(product / knobs->heads, 8);
}

/* No member takes so much at once that others wait: at least two pieces for each. */
static void fit_shape(const plan_key *key, int threads, op_knobs *knobs) {
    if (key->family == OP_ATTN) fit_attn(key, &knobs->attn);
    if (key->family == OP_DENSE)
        knobs->dense.grain = least(knobs->dense.grain, power_below(op_panels(key->f) / (2 * threads)));
    if (key->family == OP_EXPERTS)
        knobs->experts.columns = least(knobs->experts.columns, power_below(op_panels(key->d) / (2 * threads)));
}

/* The largest n whose rows per matrix stay within rows_hi. */
static int tokens_for(const plan_key *key, int rows_hi) {
    if (rows_hi == INT_MAX) return INT_MAX;
    if (key->family != OP_EXPERTS) return rows_hi;
    int64_t n = (int64_t)rows_hi * key->e / key->k;
    return n > INT_MAX ? INT_MAX : (int)n;
}

int policy_rows(const plan_key *key, const op_kernel *kernel, int threads, plan_row *rows) {
    int count = 0, lo = 1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && count < PLAN_ROWS_MAX; i++) {
        const rule *r = &rules[i];
        if (r->family != key->family || r->isa != rules_isa(kernel->isa) || r->quant != op_is_quant(key->dtype))
            continue;
        int hi = tokens_for(key, r->rows_hi);
        if (hi < lo) continue;
        plan_row *row = &rows[count++];
        *row = (plan_row){.n_lo = lo, .n_hi = hi, .source = "policy", .rule = r->text};
        memcpy(row->knobs.v, r->knobs, sizeof r->knobs);
        fit_shape(key, threads, &row->knobs);
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
