/* quant_vec.h: exact integer products of 64-byte lines, the same verbs on every instruction set.
 *
 * A line holds 16 outputs x 4 inputs. Q8 lines are q + 128, one per 4 inputs; a Q4 line is two, in the low and the high
 * halves of its bytes, as q + 8. vi is 16 int32 lanes. VNNI multiplies unsigned by signed and sums in int32, so it
 * takes the stored bytes and starts from minus the offset times the sum of x; without it, 8-bit lines get their sign
 * back (pairs of products then fit int16) and 4-bit lines stay unsigned (15 * 127 * 2 fits). All of it is exact: the
 * order is free.
 */
#ifndef CADRE_OP_CPU_QUANT_VEC_H
#define CADRE_OP_CPU_QUANT_VEC_H
#include "op/cpu/vec.h"
#include "op/quant.h"

/* A verb a line: */
/* clang-format off */
#ifdef __AVX512F__
typedef __m512i vi;

INLINE vi i_set(int32_t v) { return _mm512_set1_epi32(v); }
INLINE vi i_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE vi i_low(vi v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE vi i_high(vi v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15)); }
INLINE vf i_float(vi v) { return _mm512_cvtepi32_ps(v); }
#ifdef __AVX512VNNI__
INLINE vi i_signed(vi v) { return v; }
INLINE vi i_dot8(vi acc, vi w, vi x) { return _mm512_dpbusd_epi32(acc, w, x); }
INLINE vi i_dot4(vi acc, vi w, vi x) { return _mm512_dpbusd_epi32(acc, w, x); }
#else
INLINE vi i_pairs(vi acc, vi p) { return _mm512_add_epi32(acc, _mm512_madd_epi16(p, _mm512_set1_epi16(1))); }
INLINE vi i_signed(vi v) { return _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)); }
INLINE vi i_dot8(vi acc, vi w, vi x) {
    vi turned = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    return i_pairs(acc, _mm512_maddubs_epi16(_mm512_abs_epi8(w), turned));
}
INLINE vi i_dot4(vi acc, vi w, vi x) { return i_pairs(acc, _mm512_maddubs_epi16(w, x)); }
#endif
/* To int8, stored; their sum. */
INLINE int32_t i_store8(int8_t *p, vf v) {
    __m512i n = _mm512_cvtps_epi32(v);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(n));
    return _mm512_reduce_add_epi32(n);
}
INLINE vf v_abs(vf a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
/* The largest lane; any, if one is a NaN. */
INLINE float v_max16(vf a) { return _mm512_reduce_max_ps(a); }
INLINE bool v_any_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0; }
#else
typedef struct vi {
    __m256i a, b;
} vi;

INLINE vi i_set(int32_t v) { return (vi){_mm256_set1_epi32(v), _mm256_set1_epi32(v)}; }
INLINE vi i_load(const void *p) {
    const __m256i *q = p;
    return (vi){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
INLINE __m256i i_low256(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
INLINE vi i_low(vi v) { return (vi){i_low256(v.a), i_low256(v.b)}; }
INLINE vi i_high(vi v) { return (vi){i_low256(_mm256_srli_epi16(v.a, 4)), i_low256(_mm256_srli_epi16(v.b, 4))}; }
INLINE vf i_float(vi v) { return (vf){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
INLINE __m256i i_pairs(__m256i acc, __m256i p) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(p, _mm256_set1_epi16(1)));
}
INLINE vi i_signed(vi v) {
    __m256i s = _mm256_set1_epi8((char)0x80);
    return (vi){_mm256_xor_si256(v.a, s), _mm256_xor_si256(v.b, s)};
}
INLINE __m256i i_dot8_256(__m256i acc, __m256i w, __m256i x) {
    return i_pairs(acc, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
}
INLINE vi i_dot8(vi acc, vi w, vi x) { return (vi){i_dot8_256(acc.a, w.a, x.a), i_dot8_256(acc.b, w.b, x.b)}; }
INLINE vi i_dot4(vi acc, vi w, vi x) {
    return (vi){i_pairs(acc.a, _mm256_maddubs_epi16(w.a, x.a)), i_pairs(acc.b, _mm256_maddubs_epi16(w.b, x.b))};
}
INLINE __m128i i_words(__m256i n) {
    return _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
}
INLINE int32_t i_store8(int8_t *p, vf v) {
    __m256i a = _mm256_cvtps_epi32(v.a), b = _mm256_cvtps_epi32(v.b), n = _mm256_add_epi32(a, b);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(i_words(a), i_words(b)));
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
INLINE vf v_abs(vf v) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, v.a), _mm256_andnot_ps(sign, v.b)};
}
INLINE float v_max16(vf v) {
    __m256 a = _mm256_max_ps(v.a, v.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
INLINE bool v_any_nan(vf v) {
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(v.a, v.a, _CMP_UNORD_Q), _mm256_cmp_ps(v.b, v.b, _CMP_UNORD_Q))) != 0;
}
#endif
/* clang-format on */

INLINE vi i_input(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return i_set(four);
}
/* What a block's sum starts from, given the sum of its inputs. */
INLINE vi i_start(bool q4, int32_t sum) {
#ifdef __AVX512VNNI__
    return i_set((q4 ? -8 : -128) * sum);
#else
    return i_set(q4 ? -8 * sum : 0);
#endif
}
#endif
