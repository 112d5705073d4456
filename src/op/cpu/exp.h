/* exp.h: op_exp over an array, on x86-64. Private to op. */
#ifndef CADRE_OP_CPU_EXP_H
#define CADRE_OP_CPU_EXP_H

void exp_many_avx2(float *v, int n);
#endif
