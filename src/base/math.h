/* math.h: elementary functions in double made of + - * / and sqrt alone, so that their bits are the same on every
 * machine (a C library's change with the CPU). For tables made at load (rotary angles) and for the sampler. The fp32
 * exp of the kernels is op's. Accurate to about 1e-15, relative (m_sin, m_cos: absolute), in the ranges given. NaN
 * gives NaN.
 */
#ifndef CADRE_BASE_MATH_H
#define CADRE_BASE_MATH_H

double m_exp(double x); /* |x| <= 700; beyond: 0 or infinity */
double m_log(double x); /* x normal; 0 and denormals: -infinity; below 0: NaN */
/* base >= 0, normal or 0. Results beyond exp(+-700) are 0 or infinity; base < 0 is NaN (but x == 0 gives 1). */
double m_pow(double base, double x);
double m_sin(double x); /* |x| <= 2^30; beyond: NaN */
double m_cos(double x);
#endif
