/* workspace.c: what a step needs, and the hazards of kept buffers: two live users of one, growth by distinct M, a key
 * without device, stream, type or graph. */
#include "plan/workspace.h"

#include "op/align.h"
#include "test.h"

static void sums(void **state) {
    (void)state;
    static const work_part parts[] = {
        {"a", 100, 0, 3, NULL}, {"b", 40, 1, 2, "s"}, {"c", 60, 3, 4, "s"}, {"d", 7, 4, 4, NULL}};
    int stage;
    must(work_check(parts, 4, fail_out));
    assert_int_equal(work_total(parts, 4), 100 + 60 + 7); /* b and c share */
    assert_int_equal(work_peak(parts, 4, 5, &stage), 160);
    assert_int_equal(stage, 3);
    assert_int_equal(work_total(parts, 0), 0);
    static const work_part equal[] = {{"b", 40, 1, 2, "s"}, {"c", 40, 3, 4, "s"}};
    assert_int_equal(work_total(equal, 2), 40);
}

/* Two live users of one buffer. */
static void two_users(void **state) {
    (void)state;
    static const work_part parts[] = {{"up output", 40, 1, 3, "s"}, {"down output", 60, 3, 4, "s"}};
    cadre_fail why = {0};
    assert_int_equal(work_check(parts, 2, &why), CADRE_RANGE);
    assert_string_equal(why.text, "up output and down output share s and both live at stage 3");
}

static size_t bytes_at(gemm_key key, int m) {
    work_part parts[WORK_FOREIGN_PARTS];
    key.m = m;
    align_plan p = align_plan_of((int64_t)m * key.topk, key.e, 16);
    int n = work_foreign(&key, p.capacity, p.blocks, parts);
    must(work_check(parts, n, fail_out));
    return work_total(parts, n);
}

/* Kept by exact M, buffers grow with every M that comes; sized once for the largest, they do not. */
static void growth(void **state) {
    (void)state;
    gemm_key key = {.e = 128, .n = 768, .hidden = 2048, .topk = 8, .gated = true};
    size_t by_m = 0, most = bytes_at(key, 64);
    for (int m = 1; m <= 64; m++) {
        size_t one = bytes_at(key, m);
        assert_true(one <= most);
        by_m += one;
    }
    assert_true(by_m > 30 * most);
}

static void foreign(void **state) {
    (void)state;
    work_part parts[WORK_FOREIGN_PARTS];
    gemm_key key = {.m = 7, .e = 128, .n = 1856, .hidden = 2688, .topk = 6};
    assert_int_equal(work_foreign(&key, 672, 42, parts), WORK_FOREIGN_PARTS);
    assert_int_equal(parts[0].bytes, 2688);
    assert_int_equal(parts[1].bytes, 168);
    assert_int_equal(parts[3].bytes, 42 * 1856 * 2);
    assert_int_equal(parts[5].bytes, 42 * 2688 * 2);
    key.gated = true;
    work_foreign(&key, 672, 42, parts);
    assert_int_equal(parts[3].bytes, 42 * 2 * 1856 * 2);
    key.m = 56000, key.topk = 8, key.hidden = 7168; /* A03: past 2^31 */
    work_foreign(&key, 1, 1, parts);
    assert_true(parts[5].bytes == (size_t)3211264000u * 2);
    printf("field A03 ok\n");
}

/* What is missing from a key lets a step use buffers that are not its own. */
static void keys(void **state) {
    (void)state;
    const work_key have = {.device = 0, .stream = 1, .dtype = 2, .capacity = 64};
    work_key want = have;
    assert_true(work_fits(&have, &want, 1) && work_fits(&have, &want, 64));
    assert_false(work_fits(&have, &want, 65));
    want.device = 1;
    assert_false(work_fits(&have, &want, 1));
    want = have, want.stream = 2;
    assert_false(work_fits(&have, &want, 1));
    want = have, want.dtype = 3;
    assert_false(work_fits(&have, &want, 1));
    want = have, want.captured = true;
    assert_false(work_fits(&have, &want, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(two_users), cmocka_unit_test(growth),
                                       cmocka_unit_test(foreign), cmocka_unit_test(keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
