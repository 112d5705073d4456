/* gemm.h: tile configurations of a grouped GEMM as other systems write them (Triton's names), and the defaults those
 * systems compute when they have no table. Data that is looked up, explained and tested everywhere; cadre's own kernels
 * have knobs of their own (op/knobs.h).
 */
#ifndef CADRE_PLAN_GEMM_H
#define CADRE_PLAN_GEMM_H
#include "base/base.h"

/* Fields in the order files write them: X(id, name in files, must every row have it?). The last four are launch options
 * of the compiler: the first three of AMD devices, num_ctas of NVIDIA's. */
#define GEMM_FIELDS(X)                     \
    X(BM, "BLOCK_SIZE_M", true)            \
    X(BN, "BLOCK_SIZE_N", true)            \
    X(BK, "BLOCK_SIZE_K", true)            \
    X(GROUP, "GROUP_SIZE_M", true)         \
    X(SPLIT_K, "SPLIT_K", false)           \
    X(WARPS, "num_warps", true)            \
    X(STAGES, "num_stages", true)          \
    X(TMA, "USE_TMA", false)               \
    X(WAVES, "waves_per_eu", false)        \
    X(MFMA, "matrix_instr_nonkdim", false) \
    X(KPACK, "kpack", false)               \
    X(CTAS, "num_ctas", false)
typedef enum gemm_field {
#define X(id, name, must) GEMM_##id,
    GEMM_FIELDS(X)
#undef X
        GEMM_FIELD_COUNT
} gemm_field;
extern const char *const gemm_field_names[GEMM_FIELD_COUNT];
extern const bool gemm_field_must[GEMM_FIELD_COUNT];

typedef struct gemm_config {
    int v[GEMM_FIELD_COUNT];
    unsigned has; /* bit i: field i was written */
} gemm_config;

typedef enum gemm_platform { GEMM_CUDA, GEMM_ROCM, GEMM_MUSA, GEMM_COREX, GEMM_PLATFORM_COUNT } gemm_platform;

/* Weight and activation types as tables name them; "" in a file name stands for bf16 and fp16. */
typedef enum gemm_dtype {
    GEMM_BF16,
    GEMM_FP16,
    GEMM_FP32,
    GEMM_FP8_W8A8,
    GEMM_INT8_W8A8,
    GEMM_INT8_W8A16,
    GEMM_INT4_W4A16,
    GEMM_DTYPE_COUNT
} gemm_dtype;

/* One call. n is the expert width f (w2's inner width); hidden is d; block {0, 0}: no block scales. */
typedef struct gemm_key {
    int m, e, n, hidden, topk;
    gemm_dtype dtype;
    int block_n, block_k;
    bool gated, batch_invariant;
} gemm_key;

/* The default of one system at one version. name: "vllm", "vllm-13cb3e44", "sglang", "torchada", "vllm-musa-242",
 * "bi-v100", "bi-v100-old"; gemm_policies lists them with what they are and where the rule comes from. */
typedef struct gemm_policy {
    const char *name, *version, *what;
    unsigned platforms; /* bit per gemm_platform */
} gemm_policy;
extern const gemm_policy gemm_policies[]; /* name NULL ends it */
/* The policy a platform has today. */
const gemm_policy *gemm_policy_of(gemm_platform platform);
const gemm_policy *gemm_policy_find(const char *name); /* NULL: none */
/* *rule: static text that says which cell of the rule was met ("M <= 32"). Errors: RANGE (m < 1, ...), UNSUPPORTED
 * (a platform or type the policy does not speak of). */
cadre_err gemm_default(const gemm_policy *policy, gemm_platform platform, const gemm_key *key, gemm_config *config,
                       const char **rule, cadre_fail *why);

/* Shared memory of a launch: (BM BK bytes_a + BK BN bytes_b) times the stages that are held. */
size_t gemm_smem(const gemm_config *config, int bytes_a, int bytes_b);
/* "BM=16 BN=64 BK=128 G=1 warps=4 stages=1"; fields that are absent are left out. */
void gemm_text(const gemm_config *config, char *text, size_t size);
bool gemm_equal(const gemm_config *a, const gemm_config *b); /* same values; an absent SPLIT_K is 1, USE_TMA 0 */
#endif
