/* figures: the arithmetic of the benches against known answers: TTFT and TPOT, shapes, routings,
 * number lists. The files of cmd/ under test are compiled in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../cmd/generate.c"
#include "../../cmd/measure.c"
#include "../../cmd/opts.c"
#include "../../cmd/routing.c"
#include "../../cmd/say.c"
#include "../../cmd/shape.c"

/* Sent at 0, first token after 1.5 s, last after 7.5 s, 1001 tokens: 1500 ms and 6.0 ms. */
static void serve_metrics(void **state) {
    (void)state;
    gen_request r = {.count = 1001, .first_ns = 1500000000u, .last_ns = 7500000000u}, one = {.count = 1, .first_ns = 5};
    assert_true(fabs(gen_ttft_ms(&r) - 1500) < 1e-9 && fabs(gen_tpot_ms(&r) - 6) < 1e-12);
    assert_true(isnan(gen_tpot_ms(&one)) && !isnan(gen_ttft_ms(&one)));
    assert_true(isnan(gen_ttft_ms(&(gen_request){0})));
    puts("vector V40 ok");
}

/* echo -n | sha256sum, and the bytes 01 00 00 00 ff ff ff ff */
static void hashes(void **state) {
    (void)state;
    char hex[65];
    gen_sha(NULL, 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    gen_sha((int32_t[]){1, -1}, 2, hex);
    char want[65];
    cadre_sha256("\x01\0\0\0\xff\xff\xff\xff", 8, want);
    assert_string_equal(hex, want);
}

static void numbers(void **state) {
    (void)state;
    int v[8], n;
    assert_int_equal(opts_numbers("--m", "1,8,30..32", 1, 100, v, 8, &n, NULL), CADRE_OK);
    assert_int_equal(n, 5);
    int want[] = {1, 8, 30, 31, 32};
    assert_memory_equal(v, want, sizeof want);
    for (const char *bad = "0\0"
                           "101\0"
                           "1..9\0"
                           "3..2\0"
                           "1,\0"
                           "a\0"
                           "1.5\0"
                           "1...3\0"
                           "";
         *bad; bad += strlen(bad) + 1)
        if (!opts_numbers("--m", bad, 1, 100, v, 8, &n, NULL)) fail_msg("'%s' was taken", bad);
    assert_true(opts_word("a|bc|d", "bc") && !opts_word("a|bc|d", "b") && !opts_word("a|bc|d", "") &&
                !opts_word(NULL, "a"));
}

static void shapes(void **state) {
    (void)state;
    shape s;
    assert_int_equal(shape_read("qwen3-30b-a3b", &s, NULL), CADRE_OK);
    assert_true(shape_expert_bytes(&s.desc) == 9437184); /* 3 x 2048 x 768 bf16 */
    assert_int_equal(shape_read("nemotron-3-nano", &s, NULL), CADRE_OK);
    assert_true(shape_expert_bytes(&s.desc) == 19955712); /* two matrices */
    assert_int_equal(s.desc.act, CADRE_RELU2);
    assert_int_equal(shape_read("olmoe-1b-7b,dtype=f32", &s, NULL), CADRE_OK);
    assert_int_equal(s.desc.dtype, CADRE_F32);
    assert_int_equal(s.desc.k, 8);
    assert_int_equal(shape_read("E=6,d=10,f=4,k=3,act=swiglu-clamp,gate=sigmoid,shared=5", &s, NULL), CADRE_OK);
    assert_true(s.desc.limit > 0 && s.desc.shared_f == 5 && s.desc.gate == CADRE_SIGMOID);
    assert_true(shape_flops(&s.desc, 7) == 2.0 * 3 * 10 * 7 * (3 * 4 + 5));
}

static void draws(void **state) {
    (void)state;
    enum { E = 12, K = 4, N = 500 };
    static const char *const kinds[] = {"uniform", "balanced", "zipf:1.2"};
    int32_t ids[N * K], deal[E];
    for (int i = 0; i < E; i++) deal[i] = E - 1 - i;
    for (int kind = 0; kind < 3; kind++) {
        routing r;
        rand_stream random = {.key = 5};
        int counts[E] = {0};
        assert_int_equal(routing_read(kinds[kind], &r, NULL), CADRE_OK);
        assert_int_equal(routing_draw(&r, &random, deal, N, E, K, ids, NULL), CADRE_OK);
        for (int i = 0; i < N * K; i++) {
            assert_in_range(ids[i], 0, E - 1);
            counts[ids[i]]++;
            for (int j = i / K * K; j < i; j++) assert_int_not_equal(ids[i], ids[j]);
        }
        int low = counts[0], high = counts[0];
        for (int i = 1; i < E; i++) {
            low = counts[i] < low ? counts[i] : low;
            high = counts[i] > high ? counts[i] : high;
        }
        if (kind == 0) assert_true(low > 120 && high < 210); /* mean 166.7, sigma about 10.5 */
        if (kind == 1) assert_true(high - low <= 1);
        if (kind == 2)
            assert_true(counts[E - 1] == high && counts[E - 1] > 400 && counts[0] < 100); /* deal turns ranks */
    }
    routing_load load = {0};
    assert_int_equal(routing_load_add(&load, (int32_t[]){3, 3, 0, 5, -1, 3, 5, 3, 3}, 9, 8), 3);
    static const double want[] = {5, 1, 1, 0, 1}; /* five experts have none, one has 1, one 2, one 5..8 */
    for (int i = 0; i < 5; i++) assert_true(load.experts[i] == want[i]);
    assert_true(load.most == 5 && load.layers == 1);
    char text[400];
    assert_string_equal(routing_load_text(&load, text), "0: 5, 1: 1, 2: 1, 5..8: 1; most 5");
    for (int i = 0, low, high, next = 0; i < ROUTING_BUCKETS; i++, next = high + 1) {
        routing_bucket(i, &low, &high);
        assert_int_equal(low, next);
    }
}

static void sizes(void **state) {
    (void)state;
    char text[24];
    assert_string_equal(say_bytes(999, text), "999 B");
    assert_string_equal(say_bytes(9437184, text), "9.44 MB");
    assert_string_equal(say_bytes(61.07e9, text), "61.1 GB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serve_metrics), cmocka_unit_test(hashes), cmocka_unit_test(numbers),
        cmocka_unit_test(shapes),        cmocka_unit_test(draws),  cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
