/* expect: receipts asserted after a run of the demo model: what must appear, what must not; counters under batching. */
#include "command.h"

static void met(void **state) {
    (void)state;
    ran r = command("run -n 6 --expect 'experts*source=policy*' --refuse 'source=user*' --refuse 'source=override'");
    assert_int_equal(r.status, 0);
    assert_null(strstr(r.err, "a receipt like"));
    assert_null(strstr(r.err, "refused"));
    command_free(&r);
    r = command("run -n 6 --set experts.chunk=64 --expect 'experts kernel=*source=override config=*chunk=64'");
    assert_int_equal(r.status, 0);
    command_free(&r);
}

static void unmet(void **state) {
    (void)state;
    ran r = command("run -n 6 --expect 'experts*source=override'");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "cadre: expected a receipt like 'experts*source=override'; none of the "));
    command_free(&r);
    r = command("run -n 6 --refuse 'experts*source=policy'");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "cadre: refused 'experts*source=policy', and this ran: experts kernel="));
    command_free(&r);
    r = command("run -n 6 --refuse 'runs=0 '"); /* what never ran is no evidence */
    assert_int_equal(r.status, 0);
    command_free(&r);
}

static uint64_t runs_of(const json *receipts, const char *op, int rows) {
    uint64_t n = 0;
    for (const json *r = receipts->child; r; r = r->next) {
        if (!json_is(json_get(r, "op"), op)) continue;
        int64_t lo = json_get(r, "n_lo")->integer;
        const json *hi = json_get(r, "n_hi");
        if (lo <= rows && (hi->kind == JSON_NULL || hi->integer >= rows)) n += (uint64_t)json_get(r, "runs")->integer;
    }
    return n;
}

/* A batch of three is one call per layer and step, not three: the counters say so. */
static void batched(void **state) {
    (void)state;
    uint64_t runs[2];
    for (int i = 0; i < 2; i++) {
        ran r = command("run -p 'Once upon' -n 9 --ignore-eos --batch %d --json --expect 'experts'", i ? 3 : 1);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *all = json_get(json_root(doc), "receipts");
        runs[i] = 0;
        for (const json *one = all->child; one; one = one->next)
            if (json_is(json_get(one, "op"), "experts")) runs[i] += (uint64_t)json_get(one, "runs")->integer;
        assert_true(runs_of(all, "experts", i ? 3 : 1) > 0);
        json_free(doc);
        command_free(&r);
    }
    assert_true(runs[0] > 0);
    assert_int_equal(runs[0], runs[1]);
}

/* Every result names the switches in force, and they are told once. */
static void switches(void **state) {
    (void)state;
    static const char *const lines[] = {"run -n 2",
                                        "plan explain",
                                        "plan check",
                                        "doctor --quick",
                                        "plan explain --platform cuda",
                                        "plan check --platform musa"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        ran r = command("%s --set count.block=1024 --json", lines[i]);
        assert_int_equal(r.status, 0);
        const char *told = strstr(r.err, "cadre: switches in force: count.block=1024\n");
        assert_non_null(told);
        assert_null(strstr(told + 1, "cadre: switches in force"));
        json_doc *doc = command_json(&r);
        const json *list = json_get(json_root(doc), "switches");
        assert_non_null(list);
        assert_int_equal(list->count, 1);
        assert_true(json_is(list->child, "count.block=1024"));
        json_free(doc);
        command_free(&r);
    }
    command_refused(command("doctor --quick --set count.block=1000"), "expected a power of two in 64..1024");
    command_refused(command("doctor --quick --set count.block=32"), "expected a whole number in 64..1024");
}

/* small_m=0 brings back the defaults from before the tiers: BLOCK_SIZE_M 32 on BI-V100, four stages on MUSA. */
static void small_m(void **state) {
    (void)state;
    static const struct {
        const char *platform, *key;
        int now, before;
    } cases[] = {{"corex", "BLOCK_SIZE_M", 16, 32}, {"musa", "num_stages", 1, 4}};
    for (int i = 0; i < 4; i++) {
        ran r = command("plan explain --shape qwen3-30b-a3b --platform %s --m 2 --json --set small_m=%d",
                        cases[i / 2].platform, i % 2);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *config = json_get(json_get(json_root(doc), "rows")->child, "config");
        assert_int_equal(json_get(config, cases[i / 2].key)->integer, i % 2 ? cases[i / 2].now : cases[i / 2].before);
        json_free(doc);
        command_free(&r);
    }
}

static void memory(void **state) {
    (void)state;
    static const char *const lines[] = {"plan explain --shape qwen3-30b-a3b --m 1,32 --memory --json",
                                        "plan explain --shape nemotron-3-nano --platform musa --m 1,7 --memory --json"};
    for (int i = 0; i < 2; i++) {
        ran r = command("%s", lines[i]);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *list = json_get(json_root(doc), "memory");
        assert_int_equal(list->count, 2);
        command_has(list->child, "m total peak peak_stage parts");
        command_has(json_get(list->child, "parts")->child, "name bytes first last shares");
        assert_true(json_get(list->child, "peak")->integer <= json_get(list->child, "total")->integer);
        assert_true(json_get(list->child, "total")->integer < json_get(list->child->next, "total")->integer);
        if (i == 1) /* V22: 7 tokens, 6 experts each, blocks of 16: 672 entries */
            assert_int_equal(json_get(json_get(list->child->next, "parts")->child, "bytes")->integer, 672 * 4);
        json_free(doc);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(met),      cmocka_unit_test(unmet),   cmocka_unit_test(batched),
                                       cmocka_unit_test(switches), cmocka_unit_test(small_m), cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
