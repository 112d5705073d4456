/* gemm: the defaults of other systems cell by cell (V10..V13), and what a configuration needs and says. */
#include "plan/gemm.h"
#include "test.h"

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}

enum { NO = -1 }; /* the field is absent */

/* What `policy` gives on `platform`, against BM, BN, BK, GROUP, SPLIT_K, warps, stages. */
static void is(const char *policy, gemm_platform platform, const gemm_key *key, const int want[7]) {
    gemm_config config;
    const char *rule = NULL;
    const gemm_policy *p = gemm_policy_find(policy);
    assert_non_null(p);
    must(gemm_default(p, platform, key, &config, &rule, fail_out));
    assert_true(rule && *rule);
    for (int i = 0; i < 7; i++) {
        int got = config.has & 1u << i ? config.v[i] : NO;
        if (got != want[i])
            fail_msg("%s on %s, M=%d E=%d: %s is %d, not %d", policy, gemm_platform_names[platform], key->m, key->e,
                     gemm_field_names[i], got, want[i]);
    }
    assert_int_equal(config.has >> 7, 0);
}

static gemm_key call(int m, gemm_dtype dtype) {
    return (gemm_key){.m = m, .e = 128, .n = 1856, .hidden = 2688, .topk = 6, .dtype = dtype};
}

/* Column order: M, then the row, then stages on cuda, rocm, musa. */
static const int cells[][10] = {
    {1, 16, 64, 128, 1, 1, 4, 4, 2, 1},       {32, 16, 64, 128, 1, 1, 4, 4, 2, 1},
    {33, 32, 64, 128, 1, 1, 4, 3, 2, 3},      {64, 32, 64, 128, 1, 1, 4, 3, 2, 3},
    {65, 32, 128, 64, 1, 1, 4, 3, 2, 3},      {96, 32, 128, 64, 1, 1, 4, 3, 2, 3},
    {97, 64, 128, 64, 1, 1, 4, 3, 2, 3},      {128, 64, 128, 64, 1, 1, 4, 3, 2, 3},
    {129, 64, 128, 64, 1, 1, 8, 3, 2, 3},     {512, 64, 128, 64, 1, 1, 8, 3, 2, 3},
    {513, 128, 128, 64, 1, 1, 8, 3, 2, 3},    {16511, 128, 128, 64, 1, 1, 8, 3, 2, 3},
    {16512, 128, 128, 64, 16, 1, 8, 3, 2, 3},
};

static void default_cells(void **state) {
    (void)state;
    int count = 0;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        for (int platform = GEMM_CUDA; platform <= GEMM_MUSA; platform++, count++) {
            int want[7];
            gemm_key key = call(cells[i][0], GEMM_BF16), fp8 = call(cells[i][0], GEMM_FP8_W8A8);
            memcpy(want, cells[i] + 1, sizeof want);
            want[6] = cells[i][7 + platform];
            is(gemm_policy_of((gemm_platform)platform)->name, (gemm_platform)platform, &key, want);
            want[2] = 128; /* fp8 with one scale per tensor: BLOCK_SIZE_K everywhere */
            is(gemm_policy_of((gemm_platform)platform)->name, (gemm_platform)platform, &fp8, want);
        }
    assert_int_equal(count, 39);
    gemm_key few = call(400, GEMM_FP16); /* the group follows M div E at any M */
    few.e = 3;
    is("vllm", GEMM_CUDA, &few, (int[]){64, 128, 64, 16, 1, 8, 3});
    few.m = 386; /* 128 for each expert, and 129 */
    is("vllm", GEMM_CUDA, &few, (int[]){64, 128, 64, 1, 1, 8, 3});
    few.m = 387;
    is("vllm", GEMM_CUDA, &few, (int[]){64, 128, 64, 16, 1, 8, 3});
    gemm_key tiny = call(14, GEMM_BF16); /* MUSA before #242 is as CUDA */
    is("vllm", GEMM_MUSA, &tiny, (int[]){16, 64, 128, 1, 1, 4, 4});
    vector("V10");
}

static void old_heuristic(void **state) {
    (void)state;
    gemm_key below = call(128, GEMM_BF16), above = call(129, GEMM_BF16);
    is("vllm-13cb3e44", GEMM_CUDA, &below, (int[]){16, 32, 64, 1, 1, NO, NO});
    is("vllm-13cb3e44", GEMM_CUDA, &above, (int[]){64, 64, 32, 8, 1, NO, NO});
    is("sglang", GEMM_CUDA, &below, (int[]){16, 32, 64, 1, NO, NO, NO});
    is("sglang", GEMM_CUDA, &above, (int[]){64, 64, 32, 8, NO, NO, NO});
    is("torchada", GEMM_MUSA, &below, (int[]){16, 32, 64, 1, NO, NO, NO});
    is("torchada", GEMM_MUSA, &above, (int[]){64, 64, 32, 8, NO, NO, NO});
    gemm_key fp8 = call(129, GEMM_FP8_W8A8), small = call(128, GEMM_FP8_W8A8);
    is("sglang", GEMM_CUDA, &fp8, (int[]){128, 256, 128, 32, NO, 8, 4});
    is("sglang", GEMM_ROCM, &fp8, (int[]){128, 256, 128, 32, NO, 8, 2});
    is("torchada", GEMM_MUSA, &fp8, (int[]){128, 256, 128, 32, NO, 8, 2});
    is("sglang", GEMM_CUDA, &small, (int[]){64, 128, 128, 1, NO, 4, 4});
    is("sglang-small", GEMM_CUDA, &small, (int[]){32, 64, 256, 1, NO, 4, 4});
    is("sglang-small", GEMM_CUDA, &fp8, (int[]){64, 128, 256, 64, NO, 4, 2});
    is("sglang-small", GEMM_CUDA, &above, (int[]){64, 64, 32, 8, NO, NO, NO});
    is("torchada", GEMM_MUSA, &small, (int[]){64, 128, 128, 1, NO, 4, 2});
    is("vllm-13cb3e44", GEMM_CUDA, &fp8, (int[]){64, 64, 32, 8, 1, NO, NO}); /* vLLM had no part for it */
    vector("V11");
}

static void block_scales(void **state) {
    (void)state;
    static const int bm[] = {16, 16, 16, 64}, group[] = {1, 32, 32, 32}, m[] = {16, 17, 64, 65};
    for (int i = 0; i < 4; i++) {
        gemm_key key = call(m[i], GEMM_FP8_W8A8);
        key.block_n = 128, key.block_k = 64;
        is("vllm", GEMM_CUDA, &key, (int[]){bm[i], 128, 64, group[i], 1, 4, 3});
        is("vllm-0.27", GEMM_CUDA, &key, (int[]){bm[i], 128, 64, group[i], 1, 4, 3});
        is("vllm", GEMM_ROCM, &key, (int[]){bm[i], 128, 64, group[i], 1, 4, 2});
        is("vllm-musa-242", GEMM_MUSA, &key, (int[]){bm[i], 128, 64, group[i], 1, 4, 3});
        is("vllm-13cb3e44", GEMM_CUDA, &key, (int[]){64, 128, 64, 32, 1, 4, 3});
        is("sglang", GEMM_CUDA, &key, (int[]){64, 128, 64, 32, NO, 4, 3});
        is("sglang", GEMM_ROCM, &key, (int[]){64, 128, 64, 32, NO, 4, 2});
        is("torchada", GEMM_MUSA, &key, (int[]){64, 128, 64, 32, NO, 4, 2});
    }
    vector("V12");
    static const int few[][4] = {{1, 64, 4, 96}, {4, 64, 4, 96}, {5, 64, 3, 96}, {8, 64, 3, 96}, {9, 128, 3, 96}};
    for (int i = 0; i < 5; i++) { /* M, BLOCK_SIZE_N and stages for blocks of 128 columns, and of 96 */
        gemm_key key = call(few[i][0], GEMM_FP8_W8A8);
        key.block_n = 128, key.block_k = 64;
        is("vllm", GEMM_CUDA, &key, (int[]){16, few[i][1], 64, 1, 1, 4, few[i][2]});
        is("vllm", GEMM_ROCM, &key, (int[]){16, 128, 64, 1, 1, 4, 2});
        is("vllm-0.27", GEMM_CUDA, &key, (int[]){16, 128, 64, 1, 1, 4, 3});
        key.block_n = few[i][3];
        is("vllm", GEMM_CUDA, &key, (int[]){16, 96, 64, 1, 1, 4, 3});
    }
}

static void bi_v100(void **state) {
    (void)state;
    static const int tiers[][3] = {{8, 32, 16},  {16, 32, 16},   {17, 32, 32},    {64, 32, 32},
                                   {65, 64, 64}, {1024, 64, 64}, {1025, 256, 256}}; /* pairs, old, new */
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        gemm_key key = call(tiers[i][0], GEMM_FP16);
        key.topk = 1;
        is("bi-v100-old", GEMM_COREX, &key, (int[]){tiers[i][1], NO, NO, NO, NO, NO, NO});
        is("bi-v100", GEMM_COREX, &key, (int[]){tiers[i][2], NO, NO, NO, NO, NO, NO});
    }
    gemm_key eight = call(2, GEMM_FP16); /* pairs, not tokens */
    eight.topk = 8;
    is("bi-v100", GEMM_COREX, &eight, (int[]){16, NO, NO, NO, NO, NO, NO});
    assert_string_equal(gemm_policy_of(GEMM_COREX)->name, "bi-v100");
    vector("V13");
}

static void weights_only(void **state) {
    (void)state;
    static const int m[] = {1, 20, 21, 40, 41, 128, 129}, bm[] = {16, 16, 32, 32, 64, 64, 64};
    for (int i = 0; i < 7; i++) {
        gemm_key int4 = call(m[i], GEMM_INT4_W4A16), int8 = call(m[i], GEMM_INT8_W8A16);
        int4.block_k = int8.block_k = 64;
        bool small = m[i] <= 128; /* 128 * 6 pairs are 6 for each of 128 experts */
        int cuda = m[i] < 16 ? m[i] : 16;
        is("vllm", GEMM_CUDA, &int4, (int[]){small ? cuda : bm[i], NO, NO, 1, 1, NO, NO});
        is("vllm-0.27", GEMM_CUDA, &int4, (int[]){small ? cuda : bm[i], NO, NO, small ? NO : 1, 1, NO, NO});
        is("vllm", GEMM_ROCM, &int4, (int[]){bm[i], NO, NO, 1, 1, NO, NO});
        is("vllm", GEMM_CUDA, &int8, (int[]){bm[i], NO, NO, 1, 1, NO, NO});
        int4.block_k = 256; /* no group of that kernel's */
        is("vllm", GEMM_CUDA, &int4, (int[]){bm[i], NO, NO, 1, 1, NO, NO});
    }
    gemm_key three = call(3, GEMM_INT4_W4A16); /* a power of two today */
    three.block_k = 64;
    is("vllm-0.27", GEMM_CUDA, &three, (int[]){3, NO, NO, NO, 1, NO, NO});
    is("vllm", GEMM_CUDA, &three, (int[]){4, NO, NO, 1, 1, NO, NO});
    gemm_key plain = call(1, GEMM_INT4_W4A16); /* no groups: the general rule */
    is("vllm", GEMM_CUDA, &plain, (int[]){16, 64, 128, 1, 1, 4, 4});
}

static void batch_invariant(void **state) {
    (void)state;
    gemm_key key = call(1, GEMM_FP8_W8A8);
    key.block_n = key.block_k = 128, key.batch_invariant = true;
    for (int m = 1; m <= 1 << 20; m *= 32) {
        key.m = m;
        is("vllm", GEMM_CUDA, &key, (int[]){64, 64, 32, 8, 1, NO, NO});
        is("sglang", GEMM_CUDA, &key, (int[]){64, 64, 32, 8, NO, NO, NO});
    }
    gemm_config config;
    cadre_fail why = {0};
    assert_int_equal(gemm_default(gemm_policy_find("torchada"), GEMM_CUDA, &key, &config, NULL, &why),
                     CADRE_UNSUPPORTED);
    assert_string_equal(why.text, "policy torchada has no batch-invariant mode");
}

static void says_which_cell(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        int m;
        const char *rule;
    } want[] = {
        {"vllm", 32, "M <= 32"},   {"vllm", 33, "32 < M <= 64"}, {"vllm", 16511, "M > 512"},
        {"sglang", 128, "M <= E"}, {"torchada", 129, "M > E"},   {"vllm", 16512, "M > 512 and M div E > 128"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        gemm_config config;
        const char *rule;
        gemm_key key = call(want[i].m, GEMM_BF16);
        must(gemm_default(gemm_policy_find(want[i].policy), GEMM_MUSA, &key, &config, &rule, fail_out));
        assert_string_equal(rule, want[i].rule);
    }
}

static void refuses(void **state) {
    (void)state;
    gemm_config config;
    cadre_fail why = {0};
    const gemm_policy *vllm = gemm_policy_find("vllm");
    gemm_key bad[] = {call(0, GEMM_BF16),        call(-1, GEMM_BF16),    call(1, GEMM_BF16),    call(1, GEMM_BF16),
                      call(1, GEMM_DTYPE_COUNT), call(1, GEMM_FP8_W8A8), call(1, GEMM_FP8_W8A8)};
    bad[2].e = 0, bad[3].topk = 0, bad[5].block_n = 128, bad[6].block_k = -1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gemm_default(vllm, GEMM_CUDA, &bad[i], &config, NULL, &why), CADRE_RANGE);
    gemm_key key = call(1, GEMM_BF16);
    assert_int_equal(gemm_default(vllm, GEMM_PLATFORM_COUNT, &key, &config, NULL, &why), CADRE_RANGE);
    assert_int_equal(gemm_default(vllm, GEMM_COREX, &key, &config, NULL, &why), CADRE_UNSUPPORTED);
    assert_string_equal(why.text, "policy vllm does not speak of platform corex");
    assert_null(gemm_policy_find("vllm "));
}

/* Every policy answers every M on every platform it speaks of, with values that a table could hold. */
static void every_policy_answers(void **state) {
    (void)state;
    int answers = 0;
    for (const gemm_policy *p = gemm_policies; p->name; p++)
        for (int platform = 0; platform < GEMM_PLATFORM_COUNT; platform++)
            for (int dtype = 0; dtype < GEMM_DTYPE_COUNT; dtype++)
                for (int block = 0; block < 2; block++)
                    for (int m = 1; m < 40000; m += 1 + m / 7) {
                        gemm_key key = call(m, (gemm_dtype)dtype);
                        key.block_n = key.block_k = 128 * block;
                        gemm_config config;
                        cadre_err err = gemm_default(p, (gemm_platform)platform, &key, &config, NULL, NULL);
                        assert_int_equal(!err, p->platforms >> platform & 1);
                        if (err) continue;
                        answers++;
                        for (int i = 0; i < GEMM_FIELD_COUNT; i++)
                            if (config.has & 1u << i)
                                assert_in_range(config.v[i], gemm_field_least[i], gemm_field_most[i]);
                    }
    assert_true(answers > 10000);
}

static gemm_config tile(int bm, int bn, int bk, int stages) {
    gemm_config c = {.has = 1u << GEMM_BM | 1u << GEMM_BN | 1u << GEMM_BK | 1u << GEMM_STAGES};
    c.v[GEMM_BM] = bm, c.v[GEMM_BN] = bn, c.v[GEMM_BK] = bk, c.v[GEMM_STAGES] = stages;
    return c;
}

/* The source reports count 20 KiB a stage for 16/64/128 in bf16. T10 is a card with 101376 bytes. */
static void shared_memory(void **state) {
    (void)state;
    gemm_config small = tile(16, 64, 128, 4), wide = tile(128, 256, 128, 4), one = tile(16, 64, 128, 1);
    assert_int_equal(gemm_smem(&small, 2, 2, 1), 20 << 10);
    assert_int_equal(gemm_smem(&small, 2, 2, 4), 80 << 10);
    assert_int_equal(gemm_tiles_held(&small, false), 3);
    assert_int_equal(gemm_tiles_held(&small, true), 4);
    assert_int_equal(gemm_tiles_held(&one, false), 1);
    assert_int_equal(gemm_tiles_held(&one, true), 1);
    assert_int_equal(gemm_smem(&wide, 1, 1, gemm_tiles_held(&wide, false)), 147456);
    assert_true(gemm_smem(&wide, 1, 1, gemm_tiles_held(&wide, false)) > 101376);
    gemm_config most = tile(65536, 65536, 65536, 64);
    assert_true(gemm_smem(&most, 4, 4, 64) > (size_t)1 << 40);
}

static void text_and_equality(void **state) {
    (void)state;
    char text[120];
    gemm_config a, b;
    gemm_key key = call(1, GEMM_BF16);
    must(gemm_default(gemm_policy_find("vllm-musa-242"), GEMM_MUSA, &key, &a, NULL, fail_out));
    gemm_text(&a, text, sizeof text);
    assert_string_equal(text, "BM=16 BN=64 BK=128 G=1 warps=4 stages=1");
    b = a;
    b.has &= ~(1u << GEMM_SPLIT_K), b.v[GEMM_SPLIT_K] = 7; /* absent: 1, whatever lies there */
    assert_true(gemm_equal(&a, &b));
    b.has |= 1u << GEMM_SPLIT_K | 1u << GEMM_TMA;
    assert_false(gemm_equal(&a, &b));
    gemm_text(&b, text, sizeof text);
    assert_string_equal(text, "BM=16 BN=64 BK=128 G=1 split_k=7 warps=4 stages=1");
    b = a, b.has |= 1u << GEMM_TMA, b.v[GEMM_TMA] = 0;
    assert_true(gemm_equal(&a, &b));
    b.v[GEMM_TMA] = 1;
    assert_false(gemm_equal(&a, &b));
    b = a, b.has &= ~(1u << GEMM_STAGES);
    assert_false(gemm_equal(&a, &b));
    b = a, b.v[GEMM_BN] = 128;
    assert_false(gemm_equal(&a, &b));
    gemm_text(&a, text, 12);
    assert_string_equal(text, "BM=16 BN=64");
    gemm_text(&a, text, 1);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_cells),   cmocka_unit_test(old_heuristic),     cmocka_unit_test(block_scales),
        cmocka_unit_test(bi_v100),         cmocka_unit_test(weights_only),      cmocka_unit_test(batch_invariant),
        cmocka_unit_test(says_which_cell), cmocka_unit_test(refuses),           cmocka_unit_test(every_policy_answers),
        cmocka_unit_test(shared_memory),   cmocka_unit_test(text_and_equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
