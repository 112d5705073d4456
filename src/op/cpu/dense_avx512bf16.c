/* dense_avx512bf16.c: dense products on AVX-512 with the bf16 pair as one instruction. */
#include "op/cpu/dense_tmpl.h"
#include "op/kernel.h"

extern const op_kernel dense_bf16_avx512bf16;
const op_kernel dense_bf16_avx512bf16 = {
    .name = "dense_bf16_avx512bf16",
    .family = OP_DENSE,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX512BF16,
    .ok = dense_ok,
    .run.dense = dense_bf16,
};
