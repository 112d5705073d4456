/* exp_avx2.c: op_exp over an array, sixteen at a time; for the sampler, which needs one per token of the vocabulary. */
#include "op/cpu/exp.h"
#include "op/cpu/vec.h"

void exp_many_avx2(float *v, int n) {
    int i = 0;
    for (; i + OP_LANES <= n; i += OP_LANES) v_store(v + i, v_exp(v_load(v + i)));
    if (i < n) v_store_part(v + i, v_exp(v_load_part(v + i, n - i)), n - i);
}
