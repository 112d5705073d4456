/* norm_avx2.c: RMS norm on AVX2 and FMA. */
#include "op/cpu/norm_tmpl.h"
#include "op/kernel.h"

extern const op_kernel norm_avx2;
const op_kernel norm_avx2 = {
    .name = "norm_avx2",
    .family = OP_NORM,
    .dtype = CADRE_F32,
    .isa = OP_ISA_AVX2,
    .ok = norm_ok,
    .run.norm = norm,
};
