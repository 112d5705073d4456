/* ceiling_avx512bf16.c: pair products of bf16, 16 pairs at a time. */
#include "dev/ceiling.h"
#include <immintrin.h>

enum { LANES = 16, CHAINS = 16 };

double ceiling_pairs_avx512bf16(long rounds, volatile float *sink) {
    /* 1.0078125 and 0.5 against 0.5 and -1: each step adds 0.0039, far from overflow for any sensible time */
    __m512bh a = (__m512bh)_mm512_set1_epi32(0x3F003F81), b = (__m512bh)_mm512_set1_epi32((int)0xBF803F00);
    __m512 acc[CHAINS];
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (long r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink = _mm512_cvtss_f32(acc[0]);
    return (double)rounds * CHAINS * LANES * 4;
}
