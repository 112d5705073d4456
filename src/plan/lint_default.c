/* lint_default.c: rows against the default that would run without them, and against the default before that. */
#include "plan/lint_subject.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* k and d are not in a table; no default of a type that is compared here looks at them. */
static gemm_key key_of(const lint_subject *s, int m) {
    const foreign_name *n = &s->t->name;
    return (gemm_key){.m = m,
                      .e = n->e,
                      .n = n->n,
                      .hidden = 4096,
                      .topk = 8,
                      .dtype = n->dtype,
                      .block_n = n->block_n,
                      .block_k = n->block_k,
                      .gated = true};
}

/* SGLang has another default for devices with less on-chip memory than this. */
enum { SGLANG_SMALL = 128 * 1024 };

static const gemm_policy *default_of(const lint_subject *s) {
    if (s->l->options.against) return s->l->options.against;
    if (s->system == FOREIGN_VLLM && s->platform == GEMM_CUDA) return gemm_policy_find("vllm");
    if (s->system == FOREIGN_VLLM && s->platform >= 0) return gemm_policy_of((gemm_platform)s->platform);
    if (s->platform == GEMM_MUSA) return gemm_policy_of(GEMM_MUSA);
    size_t smem = lint_device_smem(s->t->name.device, NULL);
    bool small = s->system == FOREIGN_SGLANG && s->platform == GEMM_CUDA && smem && smem < SGLANG_SMALL;
    return gemm_policy_find(small ? "sglang-small" : foreign_names[s->system]);
}

/* Weight-only types have a default that depends on k, and a down table falls back to its base, not to a default. */
static bool has_default(const lint_subject *s) {
    gemm_dtype t = s->t->name.dtype;
    return s->t->name.e && !*s->t->name.unknown && s->platform >= 0 && s->platform != GEMM_COREX && !s->t->name.down &&
           t != GEMM_INT8_W8A16 && t != GEMM_INT4_W4A16;
}

static bool default_at(const lint_subject *s, const gemm_policy *policy, int m, gemm_config *c) {
    gemm_key key = key_of(s, m);
    const char *rule;
    return policy && !gemm_default(policy, (gemm_platform)s->platform, &key, c, &rule, NULL);
}

/* The largest m up to `hi` for which the default stays what it is at lo: defaults change at a few places only. */
static int same_until(const lint_subject *s, const gemm_policy *policy, int lo, int hi) {
    gemm_config at, c;
    int most = hi == INT_MAX ? 1 << 20 : hi;
    if (!default_at(s, policy, lo, &at)) return lo;
    while (lo < most) {
        int mid = lo + (most - lo + 1) / 2;
        if (default_at(s, policy, mid, &c) && gemm_equal(&at, &c))
            lo = mid;
        else
            most = mid - 1;
    }
    return most == 1 << 20 && hi == INT_MAX ? hi : lo;
}

/* Which default followed which. targeted: the newer one was measured, for just the M where it differs. */
typedef struct succession {
    const char *older, *newer;
    bool targeted;
} succession;
static const succession successions[] = {
    {"vllm-0.27", "vllm", false}, {"vllm-13cb3e44", "vllm", false}, {"vllm", "vllm-musa-242", true}};

/* Is a field of the row neither what the older nor what the newer default says, where these two differ? */
static bool misses_change(const gemm_config *row, const gemm_config *older, const gemm_config *newer) {
    for (int j = 0; j < LINT_TILE; j++)
        if (older->v[lint_tile[j]] != newer->v[lint_tile[j]] && row->v[lint_tile[j]] != newer->v[lint_tile[j]])
            return true;
    return false;
}

static bool check_newer(lint_subject *s, const foreign_row *row, const gemm_policy *policy) {
    for (size_t i = 0; i < sizeof successions / sizeof *successions; i++) {
        const succession *x = &successions[i];
        gemm_config older, newer;
        char text[320], now[96];
        if (strcmp(x->newer, policy->name) || !default_at(s, gemm_policy_find(x->older), row->m, &older) ||
            !default_at(s, policy, row->m, &newer) || gemm_equal(&older, &newer))
            continue;
        gemm_text(&newer, now, sizeof now);
        if (gemm_equal(&row->config, &older))
            snprintf(text, sizeof text, "is what %s had for a default; %s (%s) has %s here", x->older, x->newer,
                     policy->version, now);
        else if (x->targeted && misses_change(&row->config, &older, &newer))
            snprintf(text, sizeof text, "%s was measured to be better with %s here, and the row has no newer evidence",
                     x->newer, now);
        else
            continue;
        lint_tell(s, "row-shadows-newer-default", row, text);
        return true;
    }
    return false;
}

void lint_default(lint_subject *s, const foreign_row *row) {
    const gemm_policy *policy = default_of(s);
    gemm_config now;
    foreign_match match;
    if (!has_default(s) || !default_at(s, policy, row->m, &now) ||
        foreign_lookup(s->system, s->t, row->m, &match, NULL))
        return;
    if (!gemm_equal(&row->config, &now)) {
        check_newer(s, row, policy);
        return;
    }
    char text[320], range[40], until[40];
    int same = same_until(s, policy, row->m, match.reach_hi);
    lint_range_text(range, sizeof range, match.reach_lo, match.reach_hi);
    lint_range_text(until, sizeof until, row->m, same);
    if (same == match.reach_hi)
        snprintf(text, sizeof text, "is the default of %s (%s) from its key to the end of its range (%s)", policy->name,
                 policy->version, range);
    else
        snprintf(text, sizeof text, "is the default of %s (%s) at M = %s of its range (%s)", policy->name,
                 policy->version, until, range);
    lint_tell(s, "row-equals-default", row, text);
}
