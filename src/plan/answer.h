/* answer.h: what a system of tables answers for one call: the row or the default, how far the key was, what the row
 * shadows, and whether the device's on-chip memory holds the tile. For explaining and checking; cadre's own plans are
 * plan.h.
 *
 *   table? --row by the system's look-up--> asked --clamp to the device--> config
 *     no  --default of the policy--------->
 */
#ifndef CADRE_PLAN_ANSWER_H
#define CADRE_PLAN_ANSWER_H
#include "plan/foreign.h"

typedef struct answer_setup {
    foreign_system rule;
    gemm_platform platform;
    const gemm_policy *policy;
    const foreign_table *table; /* NULL: none */
    gemm_key key;               /* m is that of the question */
    size_t smem;                /* of the device; 0: not known */
    bool wgmma;                 /* tensor cores that read on-chip memory themselves: one more tile is held */
} answer_setup;

typedef struct answer {
    gemm_config config;     /* what runs */
    gemm_config asked;      /* what the row or the default says */
    bool clamped;           /* config is not asked: it did not fit */
    const foreign_row *row; /* NULL: the policy answers */
    const foreign_row *tie; /* the row that lost a tie, NULL: none */
    int distance;           /* |key - m| */
    int reach_lo, reach_hi; /* of the row; reach_hi INT_MAX: no end */
    bool has_default;       /* the policy speaks of this call */
    gemm_config without;    /* the policy's, clamped too */
    const char *cell;       /* which cell of the policy's rule: static */
    size_t need;            /* bytes of on-chip memory of `config`; 0: a tile size is not known */
} answer;
/* Errors: RANGE (m < 1; nothing fits into smem), UNSUPPORTED (no table, and the policy does not speak of the call). */
cadre_err answer_at(const answer_setup *s, int m, answer *out, cadre_fail *why);
/* The same answer but for m, distance and tie: for ranges. */
bool answer_same(const answer *a, const answer *b);
/* Lowers stages to one, then halves the largest of BLOCK_SIZE_N, _M and _K, until the tile fits. false: it never does.
 */
bool answer_clamp(gemm_config *c, gemm_dtype dtype, size_t smem, bool wgmma);
#endif
