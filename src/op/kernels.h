/* kernels.h: the kernels, one line each. A line makes the extern, the registry entry, its test, its bench arm and its
 * line in `plan explain`. Within a family and type, better ones come later. */
#define CADRE_KERNELS_REF(K) \
    K(dense_f32_ref)         \
    K(dense_bf16_ref)        \
    K(experts_f32_ref)       \
    K(experts_bf16_ref)      \
    K(experts_q8_ref)        \
    K(experts_q4_ref)        \
    K(norm_ref)              \
    K(attn_f32_ref)          \
    K(attn_bf16_ref)

#if defined(__x86_64__)
#    define CADRE_KERNELS_X86(K)   \
        K(dense_f32_avx2)          \
        K(dense_bf16_avx2)         \
        K(experts_f32_avx2)        \
        K(experts_bf16_avx2)       \
        K(experts_q8_avx2)         \
        K(experts_q4_avx2)         \
        K(norm_avx2)               \
        K(attn_f32_avx2)           \
        K(attn_bf16_avx2)          \
        K(dense_f32_avx512)        \
        K(dense_bf16_avx512)       \
        K(experts_f32_avx512)      \
        K(experts_bf16_avx512)     \
        K(experts_q8_avx512)       \
        K(experts_q4_avx512)       \
        K(norm_avx512)             \
        K(attn_f32_avx512)         \
        K(attn_bf16_avx512)        \
        K(dense_bf16_avx512bf16)   \
        K(experts_bf16_avx512bf16) \
        K(experts_q8_avx512bf16)   \
        K(experts_q4_avx512bf16)
#else
#    define CADRE_KERNELS_X86(K)
#endif

#define CADRE_KERNELS(K) CADRE_KERNELS_REF(K) CADRE_KERNELS_X86(K)

/* Of op/count.h, the meaning first. */
#define CADRE_COUNT_KERNELS(K) K(count_ref) K(count_cpu)
