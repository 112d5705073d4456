/* cpu_vec_avx2.c: the vector verbs as compiled for avx2. */
#define CPU_VEC_ISA OP_ISA_AVX2
#include "cpu_vec.h"
