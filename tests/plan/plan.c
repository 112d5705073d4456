/* Policies, overrides and receipts. */
#include "plan/plan.h"
#include "plan/gpu.h"
#include "test.h"

#include <limits.h>

static const plan_key experts_key = {OP_EXPERTS, CADRE_BF16, 2048, 768, 128, 8, "experts", CADRE_SWIGLU};
static const plan_key dense_key = {OP_DENSE, CADRE_F32, 64, 96, 0, 0, "qkv", CADRE_SWIGLU};

/* Every n from 1 on has exactly one row, and its knobs are legal for the kernel. */
static void covers_every_n(void **state) {
    (void)state;
    static const char *const masks[] = {"isa=ref", "isa=avx2", "isa=avx512", "isa=avx512bf16"};
    for (int i = 0; i < 4; i++) {
        set_switch(masks[i]);
        cadre_device *device = open_device(1);
        for (int j = 0; j < 2; j++) {
            plan p;
            must(plan_make(device, j ? &experts_key : &dense_key, &p, fail_out));
            assert_true(p.kernel->isa <= (op_isa)i);
            assert_int_equal(p.rows[0].n_lo, 1);
            assert_int_equal(p.rows[p.count - 1].n_hi, INT_MAX);
            for (int r = 0; r < p.count; r++) {
                assert_true(p.kernel->ok(&p.rows[r].knobs));
                assert_true(p.rows[r].n_lo <= p.rows[r].n_hi);
                if (r) assert_int_equal(p.rows[r].n_lo, p.rows[r - 1].n_hi + 1);
                assert_ptr_equal(plan_row_for(&p, p.rows[r].n_lo), &p.rows[r]);
                assert_ptr_equal(plan_row_for(&p, p.rows[r].n_hi), &p.rows[r]);
            }
        }
        cadre_device_close(device);
    }
    set_switch("isa=9");
}

static void override_wins_and_says_so(void **state) {
    (void)state;
    cadre_device *device = open_device(1);
    plan p;
    set_switch("dense.rows=2");
    must(plan_make(device, &dense_key, &p, fail_out));
    for (int r = 0; r < p.count; r++) {
        assert_int_equal(p.rows[r].knobs.dense.rows, 2);
        assert_string_equal(p.rows[r].source, "override");
    }
    assert_string_equal(cadre_switch(0), "dense.rows=2");
    set_switch("dense.rows=0");
    must(plan_make(device, &dense_key, &p, fail_out));
    assert_string_equal(p.rows[0].source, "policy");
    assert_null(cadre_switch(0));
    cadre_device_close(device);
}

static void texts_are_switches_too(void **state) {
    (void)state;
    cadre_fail why = {0};
    set_switch("pin=0");
    set_switch("cache=/tmp/x");
    assert_string_equal(cadre_switch(0), "pin=0");
    assert_string_equal(cadre_switch(1), "cache=/tmp/x");
    assert_null(cadre_switch(2));
    assert_int_equal(cadre_set("nvrtc", &why), CADRE_RANGE);
    set_switch("pin=1");
    set_switch("cache=");
    assert_null(cadre_switch(0));
}

static void bad_switches_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"dense.rows=3",
                                      "dense.rows=16",
                                      "dense.rows=",
                                      "dense.rows=two",
                                      "dense.row=2",
                                      "dense",
                                      "isa=avx9",
                                      "isa=10",
                                      "plant=99",
                                      "plant=-1",
                                      "",
                                      "=1",
                                      "pin=2",
                                      "nothing=1",
                                      "experts.rows=4 ",
                                      "spin=1e3",
                                      "dense.rows=0x4",
                                      "huge_pages=yes"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cadre_fail why = {0};
        if (cadre_set(bad[i], &why) != CADRE_RANGE) fail_msg("'%s' was accepted", bad[i]);
        assert_true(why.text[0] != 0 && !strchr(why.text, '\n'));
    }
    assert_int_equal(cadre_set(NULL, NULL), CADRE_RANGE);
    assert_null(cadre_switch(0));
}

static void receipts_count_runs(void **state) {
    (void)state;
    cadre_device *device = open_device(1);
    plan p;
    must(plan_make(device, &experts_key, &p, fail_out));
    plan_use(&p, 1);
    plan_use(&p, 1);
    plan_use(&p, 100000);
    cadre_receipt r[PLAN_ROWS_MAX];
    int n = plan_receipts(&p, r, PLAN_ROWS_MAX);
    uint64_t runs = 0;
    for (int i = 0; i < n; i++) {
        runs += r[i].runs;
        assert_string_equal(r[i].op, "experts");
        assert_string_equal(r[i].shape, "d=2048 f=768 e=128 k=8 bf16");
        assert_non_null(strstr(r[i].config, "rows="));
    }
    assert_int_equal(runs, 3);
    assert_int_equal(plan_receipts(&p, r, 0), n);
    cadre_device_close(device);
}

static void every_switch_is_listed(void **state) {
    (void)state;
    switch_def def;
    long value;
    int n = 0, knobs = 0;
    for (; plan_switch_at(n, &def, &value); n++) {
        assert_true(def.name[0] && def.what[0]);
        if (n < SWITCH_COUNT) assert_string_equal(def.name, switch_defs[n].name);
        knobs += n >= SWITCH_COUNT && strchr(def.name, '.');
    }
    int all = PLAN_GPU_KNOB_COUNT + COUNT_KNOBS;
    for (int i = 0; i < OP_FAMILY_COUNT; i++) all += op_families[i].count;
    assert_int_equal(knobs, all);
    assert_int_equal(n, SWITCH_COUNT + all);
    assert_false(plan_switch_at(-1, &def, &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_every_n),         cmocka_unit_test(override_wins_and_says_so),
        cmocka_unit_test(texts_are_switches_too), cmocka_unit_test(bad_switches_are_refused),
        cmocka_unit_test(receipts_count_runs),    cmocka_unit_test(every_switch_is_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
