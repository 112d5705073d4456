/* vec_avx2.h: vf on AVX2 and FMA, two registers of eight lanes, and its products. Included by vec.h. */
#ifndef CADRE_OP_CPU_VEC_AVX2_H
#define CADRE_OP_CPU_VEC_AVX2_H

/* A verb a line: */
/* clang-format off */
typedef struct vf {
    __m256 a, b; /* lanes 0..7, 8..15 */
} vf;

/* Accumulators of a register tile: two of 16 registers each, less weights and inputs. */
enum { VEC_TILE = 4 };

INLINE vf v_both(__m256 a) { return (vf){a, a}; }
INLINE vf v_zero(void) { return v_both(_mm256_setzero_ps()); }
INLINE vf v_set(float a) { return v_both(_mm256_set1_ps(a)); }
INLINE vf v_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void v_store(float *p, vf v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
INLINE vf v_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE vf v_sub(vf x, vf y) { return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE vf v_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE vf v_div(vf x, vf y) { return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE vf v_fma(vf x, vf y, vf z) {
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
/* As x86 has it: the second operand when either is a NaN. */
INLINE vf v_min(vf x, vf y) { return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE vf v_max(vf x, vf y) { return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE vf v_neg(vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
INLINE vf v_zero_where_le(vf v, vf x, vf limit) {
    return (vf){_mm256_and_ps(v.a, _mm256_cmp_ps(x.a, limit.a, _CMP_NLE_UQ)),
                _mm256_and_ps(v.b, _mm256_cmp_ps(x.b, limit.b, _CMP_NLE_UQ))};
}
/* 2^n for t = magic + n: n sits in the low bits of t. */
INLINE __m256 v_exponent8(__m256 t) {
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32(127 << 23)));
}
INLINE vf v_exponent(vf t) { return (vf){v_exponent8(t.a), v_exponent8(t.b)}; }

INLINE __m256 v_sum_to8(vf v) { return _mm256_add_ps(v.a, v.b); }

/* Parts go through memory of their own: AVX2 has no masks for 16 bits, and these are never in a hot loop. */
INLINE vf v_load_part(const float *p, int n) {
    float all[OP_LANES] = {0};
    memcpy(all, p, (size_t)n * sizeof *p);
    return v_load(all);
}
INLINE void v_store_part(float *p, vf v, int n) {
    float all[OP_LANES];
    v_store(all, v);
    memcpy(p, all, (size_t)n * sizeof *p);
}

/* ---- bf16 ---- */
INLINE __m256 v_from_bf16(__m128i b) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16));
}
INLINE vf v_load_bf16(const uint16_t *p) {
    const __m128i *b = (const __m128i *)p;
    return (vf){v_from_bf16(_mm_loadu_si128(b)), v_from_bf16(_mm_loadu_si128(b + 1))};
}
INLINE vf v_load_part_bf16(const uint16_t *p, int n) {
    uint16_t all[OP_LANES] = {0};
    memcpy(all, p, (size_t)n * sizeof *p);
    return v_load_bf16(all);
}
INLINE __m256i v_to_bf16x8(__m256 a) {
    __m256i u = _mm256_castps_si256(a), high = _mm256_srli_epi32(u, 16);
    __m256i even = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
    __m256i abs = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), abs);
    __m256i nan = _mm256_cmpgt_epi32(abs, _mm256_set1_epi32(0x7f800000));
    r = _mm256_blendv_epi8(r, _mm256_and_si256(high, _mm256_set1_epi32(0x8000)), tiny);
    return _mm256_blendv_epi8(r, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
}
INLINE void v_store_bf16(uint16_t *p, vf v) {
    __m256i packed = _mm256_packus_epi32(v_to_bf16x8(v.a), v_to_bf16x8(v.b)); /* by halves of 128 bits */
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
}
INLINE void v_store_part_bf16(uint16_t *p, vf v, int n) {
    uint16_t all[OP_LANES];
    v_store_bf16(all, v);
    memcpy(p, all, (size_t)n * sizeof *p);
}

/* ---- products ----
 * One step multiplies a line of weights (16 outputs x 4 bytes) with 4 bytes of input. A bf16 pair takes two phases, the
 * odd element first. */
#define VEC_ONE_PHASE false
typedef vf vw;

INLINE __m256 w_part(bool bf16, int phase, __m256 a) {
    if (!bf16) return a;
    __m256i u = _mm256_castps_si256(a);
    u = phase == 0 ? _mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000u)) : _mm256_slli_epi32(u, 16);
    return _mm256_castsi256_ps(u);
}
INLINE vw w_line(bool bf16, int phase, const void *p) {
    vf v = v_load(p);
    return (vw){w_part(bf16, phase, v.a), w_part(bf16, phase, v.b)};
}
INLINE vw w_input(bool bf16, int phase, const void *p) {
    return v_both(w_part(bf16, phase, _mm256_broadcast_ss(p)));
}
INLINE vf w_step(bool bf16, vf acc, vw w, vw x) {
    (void)bf16;
    return v_fma(w, x, acc);
}
/* clang-format on */
#endif
