/* answer.c: rows, defaults and the clamp to the device; field reports T01, T02 and T10, vectors V15 and V17 as an
 * engine would meet them. */
#include "plan/answer.h"

#include "test.h"

#include <limits.h>

#define ROW(key, bm, bn, bk, g, warps, stages)                                                    \
    "\"" #key "\": {\"BLOCK_SIZE_M\": " #bm ", \"BLOCK_SIZE_N\": " #bn ", \"BLOCK_SIZE_K\": " #bk \
    ", \"GROUP_SIZE_M\": " #g ", \"num_warps\": " #warps ", \"num_stages\": " #stages "}"

static foreign_table *parse(const char *text) {
    foreign_table *t;
    must(foreign_parse("E=128,N=1856,device_name=MTT_S5000.json", text, strlen(text), NULL, NULL, &t, fail_out));
    return t;
}

static answer_setup setup_of(const char *policy, gemm_platform platform, const foreign_table *t) {
    return (answer_setup){.rule = FOREIGN_TORCHADA,
                          .platform = platform,
                          .policy = gemm_policy_find(policy),
                          .table = t,
                          .key = {.e = 128, .n = 1856, .hidden = 2688, .topk = 6, .dtype = GEMM_BF16}};
}

static answer ask(const answer_setup *s, int m) {
    answer a;
    must(answer_at(s, m, &a, fail_out));
    return a;
}

/* T01: an older row wins over the better default of tiny M, and the answer says so; without the table it runs. */
static void shadowed(void **state) {
    (void)state;
    foreign_table *t = parse("{" ROW(16, 32, 64, 64, 16, 8, 2) ",\n" ROW(49, 16, 64, 128, 1, 4, 4) "}");
    answer_setup s = setup_of("vllm-musa-242", GEMM_MUSA, t);
    static const int ms[] = {1, 7, 14, 21, 28};
    for (int i = 0; i < 5; i++) {
        answer a = ask(&s, ms[i]);
        assert_int_equal(a.row->m, 16);
        assert_int_equal(a.row->line, 1);
        assert_int_equal(a.distance, abs(16 - ms[i]));
        assert_int_equal(a.config.v[GEMM_STAGES], 2);
        assert_true(a.has_default);
        assert_int_equal(a.without.v[GEMM_STAGES], 1);
        assert_int_equal(a.without.v[GEMM_BK], 128);
    }
    s.table = NULL;
    answer a = ask(&s, 7);
    assert_null(a.row);
    assert_int_equal(a.config.v[GEMM_STAGES], 1);
    foreign_free(t);
    printf("field T01 ok\n");
}

/* T02: nearest key has no limit; what the row shadows is told for M far away. */
static void far(void **state) {
    (void)state;
    foreign_table *t = parse("{" ROW(1, 16, 32, 64, 1, 4, 2) "," ROW(8, 16, 32, 128, 1, 4, 2) "}");
    answer_setup s = setup_of("vllm", GEMM_CUDA, t);
    answer a = ask(&s, 2048);
    assert_int_equal(a.row->m, 8);
    assert_int_equal(a.distance, 2040);
    assert_int_equal(a.reach_hi, INT_MAX);
    assert_int_equal(a.without.v[GEMM_BM], 128);
    foreign_free(t);
    printf("field T02 ok\n");
}

/* T10: 128/256/128 of one byte in four stages needs 147456 of 101376 bytes: stages are lowered, then tiles. */
static void clamped(void **state) {
    (void)state;
    foreign_table *t = parse("{" ROW(1, 128, 256, 128, 1, 8, 4) "}");
    answer_setup s = setup_of("vllm", GEMM_CUDA, t);
    s.key.dtype = GEMM_FP8_W8A8;
    answer a = ask(&s, 1);
    assert_false(a.clamped);
    assert_int_equal(a.need, 147456);
    s.smem = 101376;
    a = ask(&s, 1);
    assert_true(a.clamped);
    assert_int_equal(a.config.v[GEMM_STAGES], 3);
    assert_int_equal(a.config.v[GEMM_BN], 256);
    assert_int_equal(a.asked.v[GEMM_STAGES], 4);
    assert_int_equal(a.need, 98304);
    s.smem = 40000; /* one tile of 49152 does not fit: BN is halved */
    a = ask(&s, 1);
    assert_int_equal(a.config.v[GEMM_STAGES], 1);
    assert_int_equal(a.config.v[GEMM_BN], 128);
    assert_int_equal(a.need, 32768);
    s.table = NULL; /* the default too */
    a = ask(&s, 1024);
    assert_true(a.need <= 40000);
    s.smem = 100;
    cadre_fail why = {0};
    assert_int_equal(answer_at(&s, 1, &a, &why), CADRE_RANGE);
    assert_non_null(strstr(why.text, "no tile fits into 100 bytes"));
    assert_int_equal(answer_at(&s, 0, &a, &why), CADRE_RANGE);
    foreign_free(t);
    printf("field T10 ok\n");
}

/* Equal answers are ranges: the S5000 keys. */
static void ranges(void **state) {
    (void)state;
    foreign_table *t = parse("{" ROW(16, 16, 64, 128, 1, 4, 1) "," ROW(49, 16, 64, 128, 1, 4, 4) "," ROW(
        80, 32, 128, 64, 1, 4, 3) "," ROW(512, 32, 64, 64, 16, 8, 2) "}");
    answer_setup s = setup_of("vllm-musa-242", GEMM_MUSA, t);
    answer before = ask(&s, 1);
    int starts[8], n = 0;
    for (int m = 2; m <= 64 + 232; m++) {
        answer a = ask(&s, m);
        if (!answer_same(&before, &a)) starts[n++] = m;
        before = a;
    }
    assert_int_equal(n, 4);
    assert_int_equal(starts[0], 33);
    assert_int_equal(starts[1], 65);
    assert_int_equal(starts[2], 97);  /* the default changes behind the row */
    assert_int_equal(starts[3], 129); /* and again; 297 is the row of 512 */
    assert_int_equal(ask(&s, 297).row->m, 512);
    foreign_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shadowed), cmocka_unit_test(far), cmocka_unit_test(clamped),
                                       cmocka_unit_test(ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
