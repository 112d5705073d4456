/* experts_parts.h: what the plain and the quantized grouped products share: the activation of a panel, the walk over
 * experts that have rows, and the weighted sum of a token's slots in slot order. */
#ifndef CADRE_OP_CPU_EXPERTS_PARTS_H
#define CADRE_OP_CPU_EXPERTS_PARTS_H
#include "op/cpu/vec.h"

INLINE vf experts_act(const op_experts *a, vf gate, vf up) {
    if (a->act == CADRE_RELU2) {
        vf v = v_max(v_zero(), up);
        return v_mul(v, v);
    }
    if (a->act == CADRE_SWIGLU_CLAMP) {
        vf limit = v_set(a->limit);
        gate = v_min(limit, gate);
        up = v_min(limit, v_max(v_neg(limit), up));
    }
    return v_mul(v_silu(gate), up);
}

/* The next expert after `expert` with rows, e: none. */
static inline int experts_active(const op_experts *a, int expert) {
    do expert++;
    while (expert < a->e && a->offset[expert] == a->offset[expert + 1]);
    return expert;
}

/* One panel of one token: its slots in order. */
INLINE vf experts_sum(const op_experts *a, int token, const float *slots, size_t stride) {
    const int32_t *row = a->row + (size_t)token * (size_t)a->k;
    const float *weight = a->weight + (size_t)token * (size_t)a->k;
    vf acc = v_zero();
    for (int s = 0; s < a->k; s++)
        if (row[s] >= 0) acc = v_fma(v_set(weight[s]), v_load(slots + (size_t)row[s] * stride), acc);
    return acc;
}

static inline void experts_combine(const op_experts *a, int lo, int hi) {
    size_t stride = (size_t)(hi - lo) * OP_LANES;
    for (int token = 0; token < a->n; token++)
        for (int p = lo; p < hi; p++) {
            float *out = a->out + (size_t)token * a->ldo + p * OP_LANES;
            int left = a->d - p * OP_LANES;
            vf v = experts_sum(a, token, a->slots + (p - lo) * OP_LANES, stride);
            if (left >= OP_LANES)
                v_store(out, a->add ? v_add(v_load(out), v) : v);
            else
                v_store_part(out, a->add ? v_add(v_load_part(out, left), v) : v, left);
        }
}

#endif
