/* cpu_vec_avx512bf16.c: the vector verbs as compiled for avx512bf16. */
#define CPU_VEC_ISA OP_ISA_AVX512BF16
#include "cpu_vec.h"
