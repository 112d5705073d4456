/* math.h: elementary functions in double made of + - * / and sqrt alone, so that their bits are the same on every
 * machine (a C library's change with the CPU). For tables made at load (rotary angles) and for the sampler. The fp32 exp
 * of the kernels is op's. Accurate to about 1e-15 relative (m_cos, m_sin: absolute) in the ranges given. */
#ifndef CADRE_BASE_MATH_H
#define CADRE_BASE_MATH_H

double m_exp(double x); /* |x| <= 700; beyond: 0 or infinity */
double m_log(double x); /* x > 0, normal */
double m_pow(double base, double x);
double m_sin(double x); /* |x| <= 1e9 */
double m_cos(double x);
#endif
