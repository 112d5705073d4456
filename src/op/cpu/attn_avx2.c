/* attn_avx2.c: attention on AVX2 and FMA. */
#include "op/cpu/attn_tmpl.h"
#include "op/kernel.h"

extern const op_kernel attn_f32_avx2, attn_bf16_avx2;
const op_kernel attn_f32_avx2 = {
    .name = "attn_f32_avx2",
    .family = OP_ATTN,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX2,
    .ok = attn_ok,
    .run.attn = attn_f32,
};
const op_kernel attn_bf16_avx2 = {
    .name = "attn_bf16_avx2",
    .family = OP_ATTN,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX2,
    .ok = attn_ok,
    .run.attn = attn_bf16,
};
