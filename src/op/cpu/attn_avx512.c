/* attn_avx512.c: attention on AVX-512. */
#include "op/cpu/attn_tmpl.h"
#include "op/kernel.h"

extern const op_kernel attn_f32_avx512, attn_bf16_avx512;
const op_kernel attn_f32_avx512 = {
    .name = "attn_f32_avx512",
    .family = OP_ATTN,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX512,
    .ok = attn_ok,
    .run.attn = attn_f32,
};
const op_kernel attn_bf16_avx512 = {
    .name = "attn_bf16_avx512",
    .family = OP_ATTN,
    .dtype = CADRE_BF16,
    .isa = OP_ISA_AVX512,
    .ok = attn_ok,
    .run.attn = attn_bf16,
};
