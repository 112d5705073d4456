/* bench_moe_gpu: `cadre bench moe --device cuda` with the stand-in of tests/dev/fake: what is queued, counted and told.
 * Times are the stand-in's and mean nothing. */
#include "command.h"

static char fake[300];

static int start(void **state) {
    const char *build = getenv("CADRE_BUILD");
    snprintf(fake, sizeof fake, "%s/fake/libfake.so", build ? build : "build");
    return command_setup(state);
}

static ran bench(const char *more) {
    return command("bench moe --device cuda --shape E=8,d=256,f=128,k=2 --repeat 3 --visit-ms 1 --json %s "
                   "--out %s/samples.jsonl --set cuda=%s --set nvrtc=%s --set cache=%s/kernels",
                   more, scratch, fake, fake, scratch);
}

/* Rows as on the CPU. Balanced routing touches min(m k, E) experts, each three bf16 matrices of 256 x 128. */
static void rows(void **state) {
    (void)state;
    ran r = bench("--layers 3 --m 1,3,300 --routing balanced");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *all = json_get(v, "rows");
    command_has(v, "schema rows samples shape desc routing layers cold numerics device switches run");
    assert_true(json_is(json_get(v, "numerics"), "sm90-bf16-k16"));
    assert_int_equal(all->count, 3);
    const int m[] = {1, 3, 300}, touched[] = {2, 6, 8};
    int at = 0;
    for (const json *row = all->child; row; row = row->next, at++) {
        assert_int_equal((int)command_number(row, "m"), m[at]);
        assert_true(command_number(row, "experts_touched") == touched[at]);
        assert_true(command_number(row, "bytes") == touched[at] * 3.0 * 256 * 128 * 2);
        assert_true(command_number(row, "us") > 0 && command_number(row, "floor_us") > 0);
        const char *config = json_get(row, "config")->text;
        assert_true(strstr(config, "router: tokens=") && strstr(config, "experts: "));
        assert_int_equal(json_get(row, "allocs_per_run")->kind, JSON_NULL);
        assert_int_equal(json_get(row, "sha256")->len, 64);
    }
    json_free(doc);
    command_free(&r);
}

/* The layer's own router runs too; other words and a GPU that is not there are refused. */
static void others(void **state) {
    (void)state;
    ran r = bench("--layers 2 --m 2 --routing router");
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = bench("--layers 2 --m 100 --set gpu.widths=511"); /* no layer here has so many tokens that wgmma runs */
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = bench("--layers 2 --m 100,200 --set gpu.widths=511");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "widths are one to five"));
    command_free(&r);
    r = bench("--layers 2 --m 2 --workspace fresh");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "--workspace fresh is for the CPU"));
    command_free(&r);
    r = bench("--layers 2 --m 2 --device cuda:7");
    assert_int_not_equal(r.status, 0);
    command_free(&r);
    command_refused(command("bench --device cuda"), "--device cuda is not in this version; it has cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(others)};
    return cmocka_run_group_tests(tests, start, command_teardown);
}
