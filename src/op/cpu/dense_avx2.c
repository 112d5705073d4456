/* dense_avx2.c: dense products on AVX2 and FMA. */
#include "op/cpu/dense_tmpl.h"
#include "op/kernel.h"

extern const op_kernel dense_f32_avx2, dense_bf16_avx2;
const op_kernel dense_f32_avx2 = {
    .name = "dense_f32_avx2",
    .family = OP_DENSE,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX2,
    .ok = dense_ok,
    .run.dense = dense_f32,
};
const op_kernel dense_bf16_avx2 = {
    .name = "dense_bf16_avx2",
    .family = OP_DENSE,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX2,
    .ok = dense_ok,
    .run.dense = dense_bf16,
};
