/* dense_avx512.c: dense products on AVX-512. */
#include "op/cpu/dense_tmpl.h"
#include "op/kernel.h"

extern const op_kernel dense_f32_avx512, dense_bf16_avx512;
const op_kernel dense_f32_avx512 = {
    .name = "dense_f32_avx512",
    .family = OP_DENSE,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX512,
    .ok = dense_ok,
    .run.dense = dense_f32,
};
const op_kernel dense_bf16_avx512 = {
    .name = "dense_bf16_avx512",
    .family = OP_DENSE,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX512,
    .ok = dense_ok,
    .run.dense = dense_bf16,
};
