/* ceiling_avx2.c: reads and fused multiply-adds, 32 bytes at a time. */
#include "dev/ceiling.h"
#include <immintrin.h>

enum { LANES = 8, CHAINS = 12 }; /* 2 units x latency 4 or 5, and registers to spare */

static inline uint64_t fold(const __m256i acc[4]) {
    __m256i x = _mm256_xor_si256(_mm256_xor_si256(acc[0], acc[1]), _mm256_xor_si256(acc[2], acc[3]));
    uint64_t w[4];
    _mm256_storeu_si256((__m256i *)w, x);
    return w[0] ^ w[1] ^ w[2] ^ w[3];
}

static inline uint64_t sweep(const char *p, size_t bytes, size_t ahead) {
    __m256i acc[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t at = 0; at < bytes; at += 256) {
        if (ahead)
            for (int i = 0; i < 4; i++) _mm_prefetch(p + at + ahead + 64 * i, _MM_HINT_T0);
        for (int i = 0; i < 8; i++)
            acc[i & 3] = _mm256_xor_si256(acc[i & 3], _mm256_load_si256((const __m256i *)(p + at + 32 * i)));
    }
    return fold(acc);
}

uint64_t ceiling_read_avx2(const void *from, size_t bytes) {
    return sweep(from, bytes, 0);
}
uint64_t ceiling_read_ahead_avx2(const void *from, size_t bytes) {
    return sweep(from, bytes, CEILING_AHEAD);
}

double ceiling_fma_avx2(long rounds, volatile float *sink) {
    __m256 acc[CHAINS], scale = _mm256_set1_ps(0.75f), add = _mm256_set1_ps(0.3f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (long r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_fmadd_ps(acc[i], scale, add);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm256_add_ps(acc[0], acc[i]);
    *sink = _mm256_cvtss_f32(acc[0]);
    return (double)rounds * CHAINS * LANES * 2;
}
