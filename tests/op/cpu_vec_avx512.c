/* cpu_vec_avx512.c: the vector verbs as compiled for avx512. */
#define CPU_VEC_ISA OP_ISA_AVX512
#include "cpu_vec.h"
