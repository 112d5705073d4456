/* experts_avx512bf16.c: grouped products on AVX-512 with the bf16 pair as one instruction. */
#include "op/cpu/experts_tmpl.h"
#include "op/kernel.h"

extern const op_kernel experts_bf16_avx512bf16;
const op_kernel experts_bf16_avx512bf16 = {
    .name = "experts_bf16_avx512bf16",
    .family = OP_EXPERTS,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX512BF16,
    .ok = experts_ok,
    .run.experts = {up_bf16, down_bf16},
};
