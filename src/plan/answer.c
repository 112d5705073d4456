/* answer.c: row or default, then the clamp to the device. */
#include "plan/answer.h"

#include <limits.h>

static int bytes_of(gemm_dtype t) {
    return t == GEMM_FP32 ? 4 : t == GEMM_FP8_W8A8 || t == GEMM_INT8_W8A8 ? 1 : 2;
}

/* Weight-only types are unpacked into 16 bits before the product. */
static size_t need_of(const gemm_config *c, gemm_dtype t, bool wgmma) {
    return gemm_smem(c, bytes_of(t), bytes_of(t), gemm_tiles_held(c, wgmma));
}

static gemm_field largest(const gemm_config *c) {
    gemm_field most = GEMM_BN;
    if (c->v[GEMM_BM] > c->v[most]) most = GEMM_BM;
    if (c->v[GEMM_BK] > c->v[most]) most = GEMM_BK;
    return most;
}

bool answer_clamp(gemm_config *c, gemm_dtype dtype, size_t smem, bool wgmma) {
    enum { LEAST = 16 }; /* the smallest tile of a tensor core */
    while (smem && need_of(c, dtype, wgmma) > smem) {
        gemm_field f = largest(c);
        if (c->v[GEMM_STAGES] > 1)
            c->v[GEMM_STAGES]--;
        else if (c->v[f] / 2 >= LEAST)
            c->v[f] /= 2;
        else
            return false;
    }
    return true;
}

static cadre_err from_table(const answer_setup *s, int m, answer *out, cadre_fail *why) {
    foreign_match match;
    cadre_err err = foreign_lookup(s->rule, s->table, m, &match, why);
    if (err) return err;
    out->row = &s->table->rows[match.index];
    out->tie = match.tie >= 0 ? &s->table->rows[match.tie] : NULL;
    out->distance = match.distance;
    out->reach_lo = match.reach_lo, out->reach_hi = match.reach_hi;
    out->asked = out->row->config;
    return CADRE_OK;
}

cadre_err answer_at(const answer_setup *s, int m, answer *out, cadre_fail *why) {
    answer a = {.reach_lo = 1, .reach_hi = INT_MAX};
    gemm_key key = s->key;
    cadre_fail inner = {0};
    key.m = m;
    if (m < 1) return cadre_fail_set(why, CADRE_RANGE, "M=%d, expected at least 1", m);
    a.has_default = !gemm_default(s->policy, s->platform, &key, &a.without, &a.cell, &inner);
    if (s->table && s->table->count) {
        cadre_err err = from_table(s, m, &a, why);
        if (err) return err;
    } else if (a.has_default) {
        a.asked = a.without;
    } else {
        return cadre_fail_set(why, inner.code, "%s", inner.text);
    }
    a.config = a.asked;
    bool fits = answer_clamp(&a.config, key.dtype, s->smem, s->wgmma);
    if (a.has_default) answer_clamp(&a.without, key.dtype, s->smem, s->wgmma);
    if (!fits)
        return cadre_fail_set(why, CADRE_RANGE, "M=%d: no tile fits into %zu bytes of on-chip memory", m, s->smem);
    a.clamped = !gemm_equal(&a.config, &a.asked);
    a.need = need_of(&a.config, key.dtype, s->wgmma);
    *out = a;
    return CADRE_OK;
}

bool answer_same(const answer *a, const answer *b) {
    return gemm_equal(&a->config, &b->config) && a->row == b->row && a->clamped == b->clamped &&
           a->has_default == b->has_default && gemm_equal(&a->without, &b->without) && (a->row || a->cell == b->cell);
}
