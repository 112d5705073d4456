/* experts_quant_avx512.c: grouped products of quantized experts on AVX-512, without VNNI. */
#include "op/cpu/experts_quant_tmpl.h"
#include "op/kernel.h"

extern const op_kernel experts_q8_avx512, experts_q4_avx512;
const op_kernel experts_q8_avx512 = {
    .name = "experts_q8_avx512",
    .family = OP_EXPERTS,
    .dtype = CADRE_Q8,
    .isa = OP_ISA_AVX512,
    .ok = quant_ok,
    .run.experts = {up_q8, down_q8},
};
const op_kernel experts_q4_avx512 = {
    .name = "experts_q4_avx512",
    .family = OP_EXPERTS,
    .dtype = CADRE_Q4,
    .isa = OP_ISA_AVX512,
    .ok = quant_ok,
    .run.experts = {up_q4, down_q4},
};
