/* norm_avx512.c: RMS norm on AVX-512. */
#include "op/cpu/norm_tmpl.h"
#include "op/kernel.h"

extern const op_kernel norm_avx512;
const op_kernel norm_avx512 = {
    .name = "norm_avx512",
    .family = OP_NORM,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX512,
    .ok = norm_ok,
    .run.norm = norm,
};
