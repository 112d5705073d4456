/* pair_avx512bf16.c: vdpbf16ps against two fused multiply-adds with denormals flushed. The instruction's manual gives
 * the order and the flushing; this is the proof on the CPU at hand. */
#include "base/base.h"
#include "dev/pair.h"
#include <immintrin.h>
#include <string.h>

enum { LANES = 16 };

typedef struct inputs {
    uint32_t a[LANES], b[LANES], acc[LANES]; /* a, b: two bf16 each, even element in the low half */
} inputs;

/* A bf16 whose exponent lies in [low, low + span), with random sign and mantissa. */
static uint32_t half_in(uint32_t r, uint32_t low, uint32_t span) {
    uint32_t exponent = low + (r >> 8 & 0xFF) % span;
    return (r & 0x807F) | exponent << 7;
}

static uint32_t word_in(uint32_t r, uint32_t low, uint32_t span) {
    return half_in(r & 0xFFFF, low, span) | half_in(r >> 16, low, span) << 16;
}

static uint32_t float_in(uint32_t r, uint32_t low, uint32_t span) {
    return (r & 0x807FFFFF) | (low + (r >> 23 & 0xFF) % span) << 23;
}

/* Four kinds of case, by lane: any bits; ordinary sizes, where rounding and cancellation decide; products at the edge
 * of underflow (exponents that add up to about 127, the accumulator as small); denormals beside ordinary numbers. */
static void draw(inputs *in, rand_stream *r) {
    for (int i = 0; i < LANES; i++) {
        uint32_t a = rand_u32(r), b = rand_u32(r), c = rand_u32(r);
        switch (i % 4) {
        case 0:
            break;
        case 1:
            a = word_in(a, 120, 12), b = word_in(b, 120, 12), c = float_in(c, 118, 16);
            break;
        case 2:
            a = word_in(a, 50, 20), b = word_in(b, 55, 20), c = float_in(c, 0, 8);
            break;
        case 3:
            a = word_in(a, 0, 3), b = word_in(b, 110, 40), c = float_in(c, 0, 30);
            break;
        }
        in->a[i] = a, in->b[i] = b, in->acc[i] = c;
    }
}

/* Alone in a function so that no arithmetic moves across the change of mode. */
static __attribute__((noinline)) __mmask16 differ(const inputs *in) {
    __m512i a = _mm512_loadu_si512(in->a), b = _mm512_loadu_si512(in->b);
    __m512 acc = _mm512_loadu_ps(in->acc);
    __m512i high = _mm512_set1_epi32((int)0xFFFF0000);
    __m512 a0 = _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), a1 = _mm512_castsi512_ps(_mm512_and_si512(a, high));
    __m512 b0 = _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), b1 = _mm512_castsi512_ps(_mm512_and_si512(b, high));
    __m512 want = _mm512_fmadd_ps(a0, b0, _mm512_fmadd_ps(a1, b1, acc));
    __m512 got = _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
    __mmask16 bits = _mm512_cmpneq_epi32_mask(_mm512_castps_si512(want), _mm512_castps_si512(got));
    __mmask16 nan_want = _mm512_cmp_ps_mask(want, want, _CMP_UNORD_Q);
    __mmask16 nan_got = _mm512_cmp_ps_mask(got, got, _CMP_UNORD_Q);
    return bits & (__mmask16) ~(nan_want & nan_got);
}

uint64_t pair_differences_avx512bf16(uint64_t cases, uint64_t seed) {
    rand_stream r = {seed, 0};
    uint64_t bad = 0;
    for (uint64_t i = 0; i < cases; i += LANES) {
        inputs in;
        draw(&in, &r);
        uint64_t mode = pool_enter_mode(); /* vdpbf16ps itself ignores it */
        bad += (unsigned)__builtin_popcount(differ(&in));
        pool_leave_mode(mode);
    }
    return bad;
}
