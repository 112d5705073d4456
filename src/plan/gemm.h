/* gemm.h: tile configurations of a grouped GEMM as other systems write them (Triton's names), and the defaults those
 * systems compute when they have no table. Data that is looked up, explained and tested everywhere; cadre's own kernels
 * have knobs of their own (op/knobs.h).
 */
#ifndef CADRE_PLAN_GEMM_H
#define CADRE_PLAN_GEMM_H
#include "base/base.h"

/* Fields in the order files write them: X(id, name in files, must every row have it?, least, most). The last four are
 * launch options of the compiler: the first three of AMD devices, where 0 means "as the compiler likes" and stages were
 * once counted from 0; num_ctas of NVIDIA's. */
#define GEMM_FIELDS(X)                            \
    X(BM, "BLOCK_SIZE_M", true, 1, 65536)         \
    X(BN, "BLOCK_SIZE_N", true, 1, 65536)         \
    X(BK, "BLOCK_SIZE_K", true, 1, 65536)         \
    X(GROUP, "GROUP_SIZE_M", true, 1, 65536)      \
    X(SPLIT_K, "SPLIT_K", false, 1, 1024)         \
    X(WARPS, "num_warps", true, 1, 64)            \
    X(STAGES, "num_stages", true, 0, 64)          \
    X(TMA, "USE_TMA", false, 0, 1)                \
    X(WAVES, "waves_per_eu", false, 0, 64)        \
    X(MFMA, "matrix_instr_nonkdim", false, 0, 64) \
    X(KPACK, "kpack", false, 0, 64)               \
    X(CTAS, "num_ctas", false, 1, 64)
typedef enum gemm_field {
#define X(id, name, must, least, most) GEMM_##id,
    GEMM_FIELDS(X)
#undef X
        GEMM_FIELD_COUNT
} gemm_field;
extern const char *const gemm_field_names[GEMM_FIELD_COUNT];
extern const bool gemm_field_must[GEMM_FIELD_COUNT];
extern const int gemm_field_least[GEMM_FIELD_COUNT], gemm_field_most[GEMM_FIELD_COUNT];

typedef struct gemm_config {
    int v[GEMM_FIELD_COUNT];
    unsigned has; /* bit i: field i was written */
} gemm_config;

typedef enum gemm_platform { GEMM_CUDA, GEMM_ROCM, GEMM_MUSA, GEMM_COREX, GEMM_PLATFORM_COUNT } gemm_platform;
extern const char *const gemm_platform_names[GEMM_PLATFORM_COUNT]; /* "cuda", "rocm", "musa", "corex" */

/* Weight and activation types as tables name them; a file name that names none stands for bf16 and fp16. */
typedef enum gemm_dtype {
    GEMM_BF16,
    GEMM_FP16,
    GEMM_FP32,
    GEMM_FP8_W8A8,
    GEMM_INT8_W8A8,
    GEMM_INT8_W8A16,
    GEMM_INT4_W4A16,
    GEMM_FP8_W8A16,
    GEMM_DTYPE_COUNT
} gemm_dtype;
/* "bf16", "fp16", "float32", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16", "fp8_w8a16" */
extern const char *const gemm_dtype_names[GEMM_DTYPE_COUNT];

/* One call. n is the expert width f (w2's inner width); hidden is d; block {0, 0}: no block scales. */
typedef struct gemm_key {
    int m, e, n, hidden, topk;
    gemm_dtype dtype;
    int block_n, block_k;
    bool gated, batch_invariant;
} gemm_key;

/* The default of one system at one version. name: "vllm", "vllm-0.27", "vllm-13cb3e44", "vllm-musa-242", "sglang",
 * "sglang-small", "torchada", "bi-v100", "bi-v100-old"; gemm_policies lists them with what they are and where the rule
 * comes from. */
typedef struct gemm_policy {
    const char *name, *version, *what;
    unsigned platforms; /* bit per gemm_platform */
} gemm_policy;
extern const gemm_policy gemm_policies[]; /* name NULL ends it */
/* The policy a platform has today; with switch small_m=0 the one before it had tiers for few tokens. */
const gemm_policy *gemm_policy_of(gemm_platform platform);
const gemm_policy *gemm_policy_find(const char *name); /* NULL: none */
/* *rule: static text that says which cell of the rule was met ("M <= 32"). A field the system leaves to its kernel is
 * absent from *config. Errors: RANGE (m, e or topk < 1, ...), UNSUPPORTED (a platform, a type or a mode the policy does
 * not speak of). */
cadre_err gemm_default(const gemm_policy *policy, gemm_platform platform, const gemm_key *key, gemm_config *config,
                       const char **rule, cadre_fail *why);

/* Tiles that lie in shared memory at once. The loads of one stage are on their way while the tensor cores work from
 * another, so stages - 1 tiles are held, at least one; with wgmma (sm_90) the tensor cores read shared memory
 * themselves and hold one more. */
int gemm_tiles_held(const gemm_config *config, bool wgmma);
/* Shared memory of a launch: (BM BK bytes_a + BK BN bytes_b) times `held`. Field report T10: 128/256/128, four stages
 * of one-byte types, three tiles held: 147456. SIZE_MAX when it does not fit. */
size_t gemm_smem(const gemm_config *config, int bytes_a, int bytes_b, int held);
/* "BM=16 BN=64 BK=128 G=1 warps=4 stages=1". Left out: what is absent, and SPLIT_K 1 and USE_TMA 0, which say no more
 * than absence. Cut at size. */
void gemm_text(const gemm_config *config, char *text, size_t size);
bool gemm_equal(const gemm_config *a, const gemm_config *b); /* same values; an absent SPLIT_K is 1, USE_TMA 0 */
#endif
