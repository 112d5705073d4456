/* gemm.c: the defaults of other systems, as data. A policy is a list of parts, of which the first whose scope holds
 * counts; a part is a list of rows, of which the first that holds is the default.
 *
 *   policy "vllm" -> part (fp8 with block scales) -> row  M <= 16 ...
 *                 -> part (always)                -> row  M <= 32   BM 16  BN 64 ...
 *                                                 -> row  M <= 64   BM 32  BN 64 ...
 *
 * To change a default, change a row; to add a version, add a policy.
 */
#include "plan/gemm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *const gemm_field_names[GEMM_FIELD_COUNT] = {
#define X(id, name, must, least, most) name,
    GEMM_FIELDS(X)
#undef X
};
const bool gemm_field_must[GEMM_FIELD_COUNT] = {
#define X(id, name, must, least, most) must,
    GEMM_FIELDS(X)
#undef X
};
const int gemm_field_least[GEMM_FIELD_COUNT] = {
#define X(id, name, must, least, most) least,
    GEMM_FIELDS(X)
#undef X
};
const int gemm_field_most[GEMM_FIELD_COUNT] = {
#define X(id, name, must, least, most) most,
    GEMM_FIELDS(X)
#undef X
};
const char *const gemm_platform_names[GEMM_PLATFORM_COUNT] = {"cuda", "rocm", "musa", "corex"};
const char *const gemm_dtype_names[GEMM_DTYPE_COUNT] = {"bf16",      "fp16",       "float32",    "fp8_w8a8",
                                                        "int8_w8a8", "int8_w8a16", "int4_w4a16", "fp8_w8a16"};

/* ---- the form of a rule ---- */

/* What a row measures. */
typedef enum measure {
    M,
    M_PER_E,  /* M div E */
    M_OVER_E, /* M - E: at most 0 means M <= E */
    PAIRS,    /* M * topk */
} measure;

/* Which calls a part speaks of. */
typedef enum scope {
    ALWAYS,
    INVARIANT,   /* batch-invariant mode */
    FP8,         /* fp8, one scale per tensor or channel */
    FP8_BLOCK,   /* fp8 with block scales */
    FP8_BLOCK64, /* the same with blocks of a multiple of 64 columns, elsewhere than on ROCm */
    WNA16_SMALL, /* int4 in groups of 32, 64 or 128, and at most 6 pairs per expert: a CUDA kernel of its own */
    WNA16,       /* int4 or int8 weights with group scales */
} scope;

/* Values that are not constants: the call's block sizes; min(16, M), and the same of the next power of two; 64, or 128
 * with fp8; 1, or 16 if M div E > 128. */
enum { BN = -1, BK = -2, M_16 = -3, M_UP = -4, K_64 = -5, BY_E = -6 };
enum { NO = 0 }; /* absent: the kernel decides */
enum { ANY = INT_MAX };

typedef struct row {
    measure by;
    int most;                                            /* holds while the measure is at most this */
    int bm, bn, bk, group, split_k, warps, stages, rocm; /* rocm: stages there */
    const char *text;
} row;

typedef struct part {
    scope scope;
    const row *rows; /* the last one's most is ANY */
} part;

/* ---- the rules ---- */

/* clang-format off */
/* vLLM since the tiles follow M: bf16, fp16 and everything without a part of its own.
 *                   BM  BN   BK    G     S  w  st rocm */
static const row by_m[] = {
    {M, 32,          16, 64,  128,  BY_E, 1, 4, 4, 2, "M <= 32"},
    {M, 64,          32, 64,  128,  BY_E, 1, 4, 3, 2, "32 < M <= 64"},
    {M, 96,          32, 128, K_64, BY_E, 1, 4, 3, 2, "64 < M <= 96"},
    {M, 128,         64, 128, K_64, BY_E, 1, 4, 3, 2, "96 < M <= 128"},
    {M, 512,         64, 128, K_64, BY_E, 1, 8, 3, 2, "128 < M <= 512"},
    {M_PER_E, 128,  128, 128, K_64, 1,    1, 8, 3, 2, "M > 512"},
    {M, ANY,        128, 128, K_64, 16,   1, 8, 3, 2, "M > 512 and M div E > 128"},
};
/* vllm-musa #242: with one tile of rows a second buffer only costs resident blocks. */
static const row by_m_242[] = {
    {M, 32,          16, 64,  128,  BY_E, 1, 4, 1, 1, "M <= 32, one stage"},
    {M, 64,          32, 64,  128,  BY_E, 1, 4, 3, 3, "32 < M <= 64"},
    {M, 96,          32, 128, K_64, BY_E, 1, 4, 3, 3, "64 < M <= 96"},
    {M, 128,         64, 128, K_64, BY_E, 1, 4, 3, 3, "96 < M <= 128"},
    {M, 512,         64, 128, K_64, BY_E, 1, 8, 3, 3, "128 < M <= 512"},
    {M_PER_E, 128,  128, 128, K_64, 1,    1, 8, 3, 3, "M > 512"},
    {M, ANY,        128, 128, K_64, 16,   1, 8, 3, 3, "M > 512 and M div E > 128"},
};
static const row block[] = {
    {M, 16,          16, BN,  BK,   1,    1, 4, 3, 2, "block scales, M <= 16"},
    {M, 64,          16, BN,  BK,   32,   1, 4, 3, 2, "block scales, 16 < M <= 64"},
    {M, ANY,         64, BN,  BK,   32,   1, 4, 3, 2, "block scales, M > 64"},
};
/* vLLM since narrow tiles spread the smallest batches over more of the device. */
static const row block64[] = {
    {M, 4,           16, 64,  BK,   1,    1, 4, 4, NO, "block scales, M <= 4"},
    {M, 8,           16, 64,  BK,   1,    1, 4, 3, NO, "block scales, 4 < M <= 8"},
    {M, 16,          16, BN,  BK,   1,    1, 4, 3, NO, "block scales, 8 < M <= 16"},
    {M, 64,          16, BN,  BK,   32,   1, 4, 3, NO, "block scales, 16 < M <= 64"},
    {M, ANY,         64, BN,  BK,   32,   1, 4, 3, NO, "block scales, M > 64"},
};
/* BLOCK_SIZE_N and BLOCK_SIZE_K are computed at the launch. */
static const row wna16_up[] = {
    {M, ANY,       M_UP, NO,  NO,   1,    1, NO, NO, NO, "group scales, at most 6 pairs per expert"},
};
static const row wna16_small[] = {
    {M, ANY,       M_16, NO,  NO,   NO,   1, NO, NO, NO, "group scales, at most 6 pairs per expert"},
};
static const row wna16[] = {
    {M, 20,          16, NO,  NO,   1,    1, NO, NO, NO, "group scales, M <= 20"},
    {M, 40,          32, NO,  NO,   1,    1, NO, NO, NO, "group scales, 20 < M <= 40"},
    {M, ANY,         64, NO,  NO,   1,    1, NO, NO, NO, "group scales, M > 40"},
};
static const row invariant[] = {
    {M, ANY,         64, 64,  32,   8,    1, NO, NO, NO, "batch-invariant"},
};

static const row sglang_invariant[] = {
    {M, ANY,         64, 64,  32,   8,    NO, NO, NO, NO, "deterministic"},
};

/* Before that: two tiles, chosen by whether there are more tokens than experts. */
static const row by_e[] = {
    {M_OVER_E, 0,    16, 32,  64,   1,    NO, NO, NO, NO, "M <= E"},
    {M, ANY,         64, 64,  32,   8,    NO, NO, NO, NO, "M > E"},
};
static const row vllm_by_e[] = {
    {M_OVER_E, 0,    16, 32,  64,   1,    1, NO, NO, NO, "M <= E"},
    {M, ANY,         64, 64,  32,   8,    1, NO, NO, NO, "M > E"},
};
static const row vllm_block_old[] = {
    {M, ANY,         64, BN,  BK,   32,   1, 4, 3, 2, "block scales"},
};
static const row sglang_block[] = {
    {M, ANY,         64, BN,  BK,   32,   NO, 4, 3, 2, "block scales"},
};
static const row torchada_block[] = {
    {M, ANY,         64, BN,  BK,   32,   NO, 4, 2, 2, "block scales"},
};
static const row sglang_fp8[] = {
    {M_OVER_E, 0,    64, 128, 128,  1,    NO, 4, 4, 2, "fp8, M <= E"},
    {M, ANY,        128, 256, 128,  32,   NO, 8, 4, 2, "fp8, M > E"},
};
/* SGLang where a block of threads has less than 128 KiB of shared memory. */
static const row sglang_fp8_small[] = {
    {M_OVER_E, 0,    32, 64,  256,  1,    NO, 4, 4, NO, "fp8, M <= E, small shared memory"},
    {M, ANY,         64, 128, 256,  64,   NO, 4, 2, NO, "fp8, M > E, small shared memory"},
};
static const row torchada_fp8[] = {
    {M_OVER_E, 0,    64, 128, 128,  1,    NO, 4, 2, 2, "fp8, M <= E"},
    {M, ANY,        128, 256, 128,  32,   NO, 8, 2, 2, "fp8, M > E"},
};

/* The BI-V100 fork reads BLOCK_SIZE_M alone. */
static const row by_pairs[] = {
    {PAIRS, 16,      16, NO,  NO,   NO,   NO, NO, NO, NO, "pairs <= 16"},
    {PAIRS, 64,      32, NO,  NO,   NO,   NO, NO, NO, NO, "16 < pairs <= 64"},
    {PAIRS, 1024,    64, NO,  NO,   NO,   NO, NO, NO, NO, "64 < pairs <= 1024"},
    {PAIRS, ANY,    256, NO,  NO,   NO,   NO, NO, NO, NO, "pairs > 1024"},
};
static const row by_pairs_old[] = {
    {PAIRS, 64,      32, NO,  NO,   NO,   NO, NO, NO, NO, "pairs <= 64"},
    {PAIRS, 1024,    64, NO,  NO,   NO,   NO, NO, NO, NO, "64 < pairs <= 1024"},
    {PAIRS, ANY,    256, NO,  NO,   NO,   NO, NO, NO, NO, "pairs > 1024"},
};
/* clang-format on */

/* ---- the policies ---- */

enum { CUDA = 1 << GEMM_CUDA, ROCM = 1 << GEMM_ROCM, MUSA = 1 << GEMM_MUSA, COREX = 1 << GEMM_COREX };

const gemm_policy gemm_policies[] = {
    {"vllm", "4f819f8", "vLLM's get_default_config: the tile follows M", CUDA | ROCM | MUSA},
    {"vllm-0.27", "0.27", "the same before block scales had tiles for M <= 8", CUDA | ROCM | MUSA},
    {"vllm-13cb3e44", "13cb3e44", "vLLM's get_default_config before that: M against E", CUDA | ROCM | MUSA},
    {"vllm-musa-242", "pull request 242", "vLLM on MUSA with one stage up to M = 32", MUSA},
    {"sglang", "0.5.23", "SGLang's get_default_config: M against E", CUDA | ROCM | MUSA},
    {"sglang-small", "0.5.23", "the same on a device with less than 128 KiB of shared memory", CUDA},
    {"torchada", "c6a7df03", "torchada's get_default_config: SGLang's with two stages", CUDA | MUSA},
    {"bi-v100", "small tier", "the BI-V100 fork of vLLM: pairs, with a tier for up to 16", COREX},
    {"bi-v100-old", "before the small tier", "the BI-V100 fork of vLLM: pairs", COREX},
    {NULL, NULL, NULL, 0},
};
enum { POLICY_COUNT = sizeof gemm_policies / sizeof *gemm_policies - 1, PARTS_MAX = 6 };

/* clang-format off */
/* In the order of gemm_policies; each list ends in ALWAYS. */
static const part parts[POLICY_COUNT][PARTS_MAX] = {
    {{INVARIANT, invariant}, {FP8_BLOCK64, block64}, {FP8_BLOCK, block}, {WNA16_SMALL, wna16_up}, {WNA16, wna16}, {ALWAYS, by_m}},
    {{INVARIANT, invariant}, {FP8_BLOCK, block}, {WNA16_SMALL, wna16_small}, {WNA16, wna16}, {ALWAYS, by_m}},
    {{INVARIANT, invariant}, {FP8_BLOCK, vllm_block_old}, {WNA16_SMALL, wna16_small}, {WNA16, wna16}, {ALWAYS, vllm_by_e}},
    {{INVARIANT, invariant}, {FP8_BLOCK, block}, {WNA16, wna16}, {ALWAYS, by_m_242}},
    {{INVARIANT, sglang_invariant}, {FP8_BLOCK, sglang_block}, {FP8, sglang_fp8}, {ALWAYS, by_e}},
    {{INVARIANT, sglang_invariant}, {FP8_BLOCK, sglang_block}, {FP8, sglang_fp8_small}, {ALWAYS, by_e}},
    {{FP8_BLOCK, torchada_block}, {FP8, torchada_fp8}, {ALWAYS, by_e}},
    {{ALWAYS, by_pairs}},
    {{ALWAYS, by_pairs_old}},
};
/* clang-format on */

const gemm_policy *gemm_policy_of(gemm_platform platform) {
    static const char *const today[GEMM_PLATFORM_COUNT] = {"vllm", "vllm", "vllm-musa-242", "bi-v100"};
    static const char *const before[GEMM_PLATFORM_COUNT] = {"vllm", "vllm", "vllm", "bi-v100-old"};
    return gemm_policy_find(switch_get(SWITCH_SMALL_M) ? today[platform] : before[platform]);
}

const gemm_policy *gemm_policy_find(const char *name) {
    for (const gemm_policy *p = gemm_policies; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

/* ---- reading a rule ---- */

static int64_t measured(measure by, const gemm_key *k) {
    switch (by) {
    case M_PER_E:
        return k->m / k->e;
    case M_OVER_E:
        return (int64_t)k->m - k->e;
    case PAIRS:
        return (int64_t)k->m * k->topk;
    default:
        return k->m;
    }
}

static const row *row_for(const part *p, const gemm_key *k) {
    const row *r = p->rows;
    while (r->most != ANY && measured(r->by, k) > r->most) r++;
    return r;
}

static bool is_group(int size) {
    return size == 32 || size == 64 || size == 128;
}

static bool in_scope(scope s, gemm_platform platform, const gemm_key *k) {
    bool scaled = k->block_k > 0, fp8 = k->dtype == GEMM_FP8_W8A8, int4 = k->dtype == GEMM_INT4_W4A16;
    bool weights_only = (int4 || k->dtype == GEMM_INT8_W8A16) && scaled;
    switch (s) {
    case INVARIANT:
        return k->batch_invariant;
    case FP8:
        return fp8 && !scaled;
    case FP8_BLOCK:
        return fp8 && scaled;
    case FP8_BLOCK64:
        return fp8 && scaled && k->block_n % 64 == 0 && platform != GEMM_ROCM;
    case WNA16_SMALL:
        return weights_only && int4 && platform == GEMM_CUDA && is_group(k->block_k) &&
               (int64_t)k->m * k->topk <= (int64_t)6 * k->e;
    case WNA16:
        return weights_only;
    default:
        return true;
    }
}

static int power_to_16(int m) {
    int p = 1;
    while (p < m && p < 16) p *= 2;
    return p;
}

static int value_of(int value, const gemm_key *k) {
    switch (value) {
    case BN:
        return k->block_n;
    case BK:
        return k->block_k;
    case M_16:
        return k->m < 16 ? k->m : 16;
    case M_UP:
        return power_to_16(k->m);
    case K_64:
        return k->dtype == GEMM_FP8_W8A8 ? 128 : 64;
    case BY_E:
        return k->m / k->e > 128 ? 16 : 1;
    default:
        return value;
    }
}

static void fill(const row *r, gemm_platform platform, const gemm_key *k, gemm_config *config) {
    const int values[] = {
        r->bm, r->bn, r->bk, r->group, r->split_k, r->warps, platform == GEMM_ROCM ? r->rocm : r->stages};
    memset(config, 0, sizeof *config);
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) {
        if (values[i] == NO) continue;
        config->v[GEMM_BM + i] = value_of(values[i], k);
        config->has |= 1u << (GEMM_BM + i);
    }
}

static const part *part_for(const gemm_policy *policy, gemm_platform platform, const gemm_key *k) {
    const part *p = parts[policy - gemm_policies];
    while (!in_scope(p->scope, platform, k)) p++; /* every list ends in ALWAYS */
    return p;
}

/* What a policy would silently misread. */
static cadre_err check(const gemm_policy *policy, gemm_platform platform, const gemm_key *k, cadre_fail *why) {
    bool scaled = k->block_n || k->block_k, fp8 = k->dtype == GEMM_FP8_W8A8;
    if ((unsigned)platform >= GEMM_PLATFORM_COUNT || (unsigned)k->dtype >= GEMM_DTYPE_COUNT)
        return cadre_fail_set(why, CADRE_RANGE, "platform %d and type %d, expected 0..%d and 0..%d", (int)platform,
                              (int)k->dtype, GEMM_PLATFORM_COUNT - 1, GEMM_DTYPE_COUNT - 1);
    if (k->m < 1 || k->e < 1 || k->topk < 1)
        return cadre_fail_set(why, CADRE_RANGE, "M=%d E=%d topk=%d, expected each to be at least 1", k->m, k->e,
                              k->topk);
    if (k->block_n < 0 || k->block_k < 0 || (scaled && fp8 && !(k->block_n && k->block_k)))
        return cadre_fail_set(why, CADRE_RANGE, "block scales [%d,%d], expected two sizes of at least 1", k->block_n,
                              k->block_k);
    if (!(policy->platforms & 1u << platform))
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "policy %s does not speak of platform %s", policy->name,
                              gemm_platform_names[platform]);
    if (k->batch_invariant && parts[policy - gemm_policies][0].scope != INVARIANT)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "policy %s has no batch-invariant mode", policy->name);
    return CADRE_OK;
}

cadre_err gemm_default(const gemm_policy *policy, gemm_platform platform, const gemm_key *key, gemm_config *config,
                       const char **rule, cadre_fail *why) {
    cadre_err err = check(policy, platform, key, why);
    if (err) return err;
    const row *r = row_for(part_for(policy, platform, key), key);
    fill(r, platform, key, config);
    if (rule) *rule = r->text;
    return CADRE_OK;
}

/* ---- a configuration ---- */

int gemm_tiles_held(const gemm_config *config, bool wgmma) {
    int held = config->v[GEMM_STAGES] - 1;
    return (held > 1 ? held : 1) + (wgmma && config->v[GEMM_STAGES] > 1);
}

size_t gemm_smem(const gemm_config *config, int bytes_a, int bytes_b, int held) {
    const int *v = config->v;
    size_t a, b, sum, all;
    bool fits = mem_mul((size_t)v[GEMM_BM] * (size_t)v[GEMM_BK], (size_t)bytes_a, &a) &&
                mem_mul((size_t)v[GEMM_BK] * (size_t)v[GEMM_BN], (size_t)bytes_b, &b) && mem_add(a, b, &sum) &&
                mem_mul(sum, (size_t)held, &all);
    return fits ? all : SIZE_MAX;
}

/* What an absent field stands for; -1: nothing, the kernel decides. */
static int absent(int field) {
    return field == GEMM_SPLIT_K ? 1 : field == GEMM_TMA ? 0 : -1;
}

static int value_or_absent(const gemm_config *c, int field) {
    return c->has & 1u << field ? c->v[field] : absent(field);
}

void gemm_text(const gemm_config *config, char *text, size_t size) {
    static const char *const labels[GEMM_FIELD_COUNT] = {"BM",     "BN",  "BK",    "G",    "split_k", "warps",
                                                         "stages", "tma", "waves", "mfma", "kpack",   "ctas"};
    size_t len = 0;
    if (size) *text = 0;
    for (int i = 0; i < GEMM_FIELD_COUNT; i++) {
        if (value_or_absent(config, i) == absent(i)) continue;
        int n = snprintf(text + len, size - len, "%s%s=%d", len ? " " : "", labels[i], config->v[i]);
        if (n < 0 || (size_t)n >= size - len) return;
        len += (size_t)n;
    }
}

bool gemm_equal(const gemm_config *a, const gemm_config *b) {
    for (int i = 0; i < GEMM_FIELD_COUNT; i++)
        if (value_or_absent(a, i) != value_or_absent(b, i)) return false;
    return true;
}
