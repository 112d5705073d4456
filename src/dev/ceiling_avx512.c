/* ceiling_avx512.c: reads and fused multiply-adds, 64 bytes at a time. */
#include "dev/ceiling.h"
#include <immintrin.h>

enum { LANES = 16, CHAINS = 16, STREAMS = 4 };

static inline uint64_t fold(const __m512i *acc, int n) {
    __m512i x = acc[0];
    for (int i = 1; i < n; i++) x = _mm512_xor_si512(x, acc[i]);
    uint64_t w[8], out = 0;
    _mm512_storeu_si512(w, x);
    for (int i = 0; i < 8; i++) out ^= w[i];
    return out;
}

static inline uint64_t sweep(const char *p, size_t bytes, size_t ahead) {
    __m512i acc[8];
    for (int i = 0; i < 8; i++) acc[i] = _mm512_setzero_si512();
    for (size_t at = 0; at < bytes; at += 512) {
        if (ahead)
            for (int i = 0; i < 8; i++) _mm_prefetch(p + at + ahead + 64 * i, _MM_HINT_T0);
        for (int i = 0; i < 8; i++) acc[i] = _mm512_xor_si512(acc[i], _mm512_load_si512(p + at + 64 * i));
    }
    return fold(acc, 8);
}

uint64_t ceiling_read_avx512(const void *from, size_t bytes) {
    return sweep(from, bytes, 0);
}
uint64_t ceiling_read_ahead_avx512(const void *from, size_t bytes) {
    return sweep(from, bytes, CEILING_AHEAD);
}

/* Four places at once: more pages open, more prefetchers at work. */
uint64_t ceiling_read_streams_avx512(const void *from, size_t bytes) {
    const char *p = from;
    size_t part = bytes / STREAMS;
    __m512i acc[8];
    for (int i = 0; i < 8; i++) acc[i] = _mm512_setzero_si512();
    for (size_t at = 0; at < part; at += 128)
        for (int s = 0; s < STREAMS; s++) {
            const char *q = p + (size_t)s * part + at;
            acc[2 * s] = _mm512_xor_si512(acc[2 * s], _mm512_loadu_si512(q));
            acc[2 * s + 1] = _mm512_xor_si512(acc[2 * s + 1], _mm512_loadu_si512(q + 64));
        }
    return fold(acc, 8);
}

double ceiling_fma_avx512(long rounds, volatile float *sink) {
    __m512 acc[CHAINS], scale = _mm512_set1_ps(0.75f), add = _mm512_set1_ps(0.3f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (long r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_fmadd_ps(acc[i], scale, add);
    for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink = _mm512_cvtss_f32(acc[0]);
    return (double)rounds * CHAINS * LANES * 2;
}
