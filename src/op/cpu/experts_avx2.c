/* experts_avx2.c: grouped products on AVX2 and FMA. */
#include "op/cpu/experts_tmpl.h"
#include "op/kernel.h"

extern const op_kernel experts_f32_avx2, experts_bf16_avx2;
const op_kernel experts_f32_avx2 = {
    .name = "experts_f32_avx2",
    .family = OP_EXPERTS,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX2,
    .ok = experts_ok,
    .run.experts = {up_f32, down_f32},
};
const op_kernel experts_bf16_avx2 = {
    .name = "experts_bf16_avx2",
    .family = OP_EXPERTS,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX2,
    .ok = experts_ok,
    .run.experts = {up_bf16, down_bf16},
};
