/* vec_avx512.h: vf on AVX-512, and its products; with AVX-512-BF16 the bf16 pair is one instruction.
 * Included by vec.h. */
#ifndef CADRE_OP_CPU_VEC_AVX512_H
#define CADRE_OP_CPU_VEC_AVX512_H

/* A verb a line: */
/* clang-format off */
typedef __m512 vf;

/* Accumulators of a register tile: 32 registers less the weights of a group, one input and slack. */
enum { VEC_TILE = 16 };

INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
INLINE vf v_set(float a) { return _mm512_set1_ps(a); }
INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
/* As x86 has it: the second operand when either is a NaN. */
INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf v_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
INLINE vf v_zero_where_le(vf a, vf x, vf limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLE_UQ), a);
}
/* 2^n for t = magic + n: n sits in the low bits of t. */
INLINE vf v_exponent(vf t) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(127 << 23)));
}

INLINE __m256 v_sum_to8(vf a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }

/* Sixteen sums at once, sum i in lane i: each step adds the halves of pairs and leaves half as many vectors. */
INLINE vf v_pair128(vf a, vf b, const int step) {
    return step == 0 ? v_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
                     : v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
INLINE vf v_pair32(vf a, vf b, const int step) {
    return step == 0 ? v_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee))
                     : v_add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
INLINE vf v_sum16x16(const vf v[16]) {
    vf quad[4]; /* of vectors c, c + 4, c + 8, c + 12: four lanes each */
    UNROLL for (int c = 0; c < 4; c++)
        quad[c] = v_pair128(v_pair128(v[c], v[c + 4], 0), v_pair128(v[c + 8], v[c + 12], 0), 1);
    return v_pair32(v_pair32(quad[0], quad[1], 0), v_pair32(quad[2], quad[3], 0), 1);
}

INLINE __mmask16 v_lanes(int n) { return (__mmask16)((1u << n) - 1); }
INLINE vf v_load_part(const float *p, int n) { return _mm512_maskz_loadu_ps(v_lanes(n), p); }
INLINE void v_store_part(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, v_lanes(n), a); }

/* ---- bf16 ---- */
INLINE vf v_from_bf16(__m256i b) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}
INLINE vf v_load_bf16(const uint16_t *p) { return v_from_bf16(_mm256_loadu_si256((const __m256i *)p)); }
INLINE vf v_load_part_bf16(const uint16_t *p, int n) {
    return v_from_bf16(_mm256_maskz_loadu_epi16(v_lanes(n), p));
}
INLINE __m256i v_to_bf16(vf a) {
#ifdef __AVX512BF16__
    return (__m256i)_mm512_cvtneps_pbh(a);
#else
    __m512i u = _mm512_castps_si512(a), high = _mm512_srli_epi32(u, 16);
    __m512i even = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
    __m512i abs = _mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff));
    __mmask16 tiny = _mm512_cmplt_epi32_mask(abs, _mm512_set1_epi32(0x00800000));
    __mmask16 nan = _mm512_cmpgt_epi32_mask(abs, _mm512_set1_epi32(0x7f800000));
    r = _mm512_mask_and_epi32(r, tiny, high, _mm512_set1_epi32(0x8000));
    r = _mm512_mask_or_epi32(r, nan, high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(r);
#endif
}
INLINE void v_store_bf16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, v_to_bf16(a)); }
INLINE void v_store_part_bf16(uint16_t *p, vf a, int n) { _mm256_mask_storeu_epi16(p, v_lanes(n), v_to_bf16(a)); }

/* ---- products ----
 * One step multiplies a line of weights (16 outputs x 4 bytes) with 4 bytes of input. A bf16 pair takes two phases, the
 * odd element first; what is one instruction takes one. */
#ifdef __AVX512BF16__
#define VEC_ONE_PHASE true
#else
#define VEC_ONE_PHASE false
#endif
typedef __m512i vw;

INLINE vw w_part(bool bf16, int phase, vw a) {
    if (!bf16 || VEC_ONE_PHASE) return a;
    return phase == 0 ? _mm512_and_si512(a, _mm512_set1_epi32((int)0xffff0000u)) : _mm512_slli_epi32(a, 16);
}
INLINE vw w_line(bool bf16, int phase, const void *p) { return w_part(bf16, phase, _mm512_loadu_si512(p)); }
INLINE vw w_input(bool bf16, int phase, const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return w_part(bf16, phase, _mm512_set1_epi32(x));
}
INLINE vf w_step(bool bf16, vf acc, vw w, vw x) {
#ifdef __AVX512BF16__
    if (bf16) return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
#endif
    (void)bf16;
    return _mm512_fmadd_ps(_mm512_castsi512_ps(w), _mm512_castsi512_ps(x), acc);
}
/* clang-format on */
#endif
