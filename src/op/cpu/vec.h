/* vec.h: sixteen fp32 lanes, the same verbs on every instruction set; what the kernel templates are written in.
 *
 * The flags a file is compiled with choose the header below: vf is one register with AVX-512 and a pair of them with
 * AVX2. Lanes are never summed but by v_sum16, so a template says the order of every sum. All of it is inlined.
 * Numbers follow docs/numerics.md; the caller runs with denormals flushed.
 */
#ifndef CADRE_OP_CPU_VEC_H
#define CADRE_OP_CPU_VEC_H
#include "op/exp.h"
#include "op/op.h"

#include <immintrin.h>
#include <string.h>

/* Templates take shapes as arguments that are constants once inlined, and then every trip of a loop over registers must
 * become its own code. Sanitizers check each access of all that, which takes compilers minutes: there shapes stay
 * arguments and loops stay loops. */
#ifndef __has_feature
#    define __has_feature(x) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#    define INLINE static inline
#    define UNROLL
#else
#    define INLINE static inline __attribute__((always_inline))
#    ifdef __clang__
#        define UNROLL _Pragma("clang loop unroll(full)")
#    else
#        define UNROLL _Pragma("GCC unroll 16")
#    endif
#endif

/* A function of its own, whatever the compiler thinks. */
#define APART static __attribute__((noinline, unused))

#ifdef __AVX512F__
#    include "op/cpu/vec_avx512.h"
#else
#    include "op/cpu/vec_avx2.h"
#endif

/* ---- loads and stores by type ---- */
INLINE vf v_load_as(cadre_dtype t, const void *p) {
    return t == CADRE_F32 ? v_load(p) : v_load_bf16(p);
}
/* The first n lanes, 0 <= n <= 16; the others are +0 and their memory is not touched. */
INLINE vf v_load_part_as(cadre_dtype t, const void *p, int n) {
    return t == CADRE_F32 ? v_load_part(p, n) : v_load_part_bf16(p, n);
}
INLINE void v_store_as(cadre_dtype t, void *p, vf v) {
    if (t == CADRE_F32)
        v_store(p, v);
    else
        v_store_bf16(p, v);
}
INLINE void v_store_part_as(cadre_dtype t, void *p, vf v, int n) {
    if (t == CADRE_F32)
        v_store_part(p, v, n);
    else
        v_store_part_bf16(p, v, n);
}

/* ---- sum16: lanes j and j + 8, then j and j + 4, 2, 1 ---- */
INLINE __m128 v_sum_to4(vf v) {
    __m256 h = v_sum_to8(v);
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
INLINE float v_sum16(vf v) {
    __m128 q = v_sum_to4(v);
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
/* Four sums at once: the last two steps run across vectors instead of across lanes. Same additions. */
INLINE __m128 v_sum16x4(vf a, vf b, vf c, vf d) {
    __m128 q0 = v_sum_to4(a), q1 = v_sum_to4(b), q2 = v_sum_to4(c), q3 = v_sum_to4(d);
    __m128 ab = _mm_add_ps(_mm_movelh_ps(q0, q1), _mm_movehl_ps(q1, q0)); /* a: 0+2, 1+3; b: 0+2, 1+3 */
    __m128 cd = _mm_add_ps(_mm_movelh_ps(q2, q3), _mm_movehl_ps(q3, q2));
    return _mm_add_ps(_mm_shuffle_ps(ab, cd, _MM_SHUFFLE(2, 0, 2, 0)), _mm_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 1, 3, 1)));
}
#ifndef __AVX512F__
INLINE vf v_sum16x16(const vf v[16]) {
    float sums[16];
    UNROLL for (int i = 0; i < 16; i += 4) _mm_storeu_ps(sums + i, v_sum16x4(v[i], v[i + 1], v[i + 2], v[i + 3]));
    return v_load(sums);
}
#endif

/* ---- exp and what is made of it ---- */
INLINE vf v_exp(vf x) {
    vf y = v_min(v_set(EXP_HIGH), x); /* a NaN passes */
    vf t = v_fma(y, v_set(EXP_LOG2E), v_set(EXP_MAGIC));
    vf n = v_sub(t, v_set(EXP_MAGIC));
    vf r = v_fma(n, v_set(-EXP_LN2_HI), y);
    r = v_fma(n, v_set(-EXP_LN2_LO), r);
    vf p = v_fma(v_set(EXP_C6), r, v_set(EXP_C5));
    p = v_fma(p, r, v_set(EXP_C4));
    p = v_fma(p, r, v_set(EXP_C3));
    p = v_fma(p, r, v_set(EXP_C2));
    p = v_fma(p, r, v_set(EXP_C1));
    p = v_fma(p, r, v_set(EXP_C0));
    return v_zero_where_le(v_mul(p, v_exponent(t)), x, v_set(EXP_LOW));
}
/* x / (1 + exp(-x)); with x = 1 in front: sigmoid. */
INLINE vf v_silu(vf x) {
    return v_div(x, v_add(v_set(1.0f), v_exp(v_neg(x))));
}
#endif
