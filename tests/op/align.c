/* align.c: prefix sums, capacities, block alignment and row order against the vectors V06..V09, V22..V26, V29
 * and the field reports A01..A08. */
#include <stdlib.h>

#include "op/align.h"
#include "probe.h"

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}
static void field(const char *id) {
    printf("field %s ok\n", id);
}

#define assert_ints(got, n, ...)                                                                                     \
    do {                                                                                                             \
        static const int64_t want[] = {__VA_ARGS__};                                                                 \
        assert_int_equal(n, sizeof want / sizeof want[0]);                                                           \
        for (int i = 0; i < (int)(n); i++) {                                                                         \
            if ((got)[i] != want[i]) fail_msg("[%d] is %lld, not %lld", i, (long long)(got)[i], (long long)want[i]); \
        }                                                                                                            \
    } while (0)

/* ---- sizes ---- */

static void prefixes(void **state) {
    (void)state;
    static const int32_t a[] = {0, 5, 0, 3}, b[] = {127, 0, 129, 0, 1, 0, 255, 0};
    static const int32_t big[] = {INT32_MAX, 1, INT32_MAX, INT32_MAX};
    int64_t exc[8], inc[8];
    align_prefix(a, 4, 32, exc, inc);
    assert_ints(exc, 4, 0, 0, 32, 32);
    assert_ints(inc, 4, 0, 32, 32, 64);
    vector("V06");
    align_prefix(b, 8, 128, exc, inc);
    assert_ints(exc, 8, 0, 128, 128, 384, 384, 512, 512, 768);
    assert_ints(inc, 8, 128, 128, 384, 384, 512, 512, 768, 768);
    vector("V07");
    align_prefix(big, 4, 128, exc, inc);
    assert_ints(exc, 4, 0, 2147483648, 2147483776, 4294967424);
    assert_ints(inc, 4, 2147483648, 2147483776, 4294967424, 6442451072);
}

static void capacities(void **state) {
    (void)state;
    assert_int_equal(align_capacity(256, 8, 32, 16), 2560);
    assert_int_equal(align_capacity(256, 8, 32, 128), 6144);
    assert_int_equal(align_capacity(3, 8, 2, 16), 48); /* k is cut to the local experts; 38 rounded up */
    assert_int_equal(align_capacity(1LL << 31, 8, 32, 128), (1LL << 34) + 4096);
    vector("V08");
    assert_int_equal(align_scale_index(0, 0, 1), 0);
    assert_int_equal(align_scale_index(33, 2, 1), 22);
    assert_int_equal(align_scale_index(130, 5, 2), 1569);
    assert_int_equal(align_scale_index(56000 * 8 - 1, 223, 56), (3499LL * 56 + 55) * 512 + 31 * 16 + 3 * 4 + 3);
    assert_int_equal(align_scale_index(1LL << 31, 0, 256), (1LL << 24) * 256 * 512);
    vector("V09");
}

static void plan_is(int64_t pairs, int e, int block, int64_t capacity, int64_t blocks) {
    align_plan plan = align_plan_of(pairs, e, block);
    assert_int_equal(plan.capacity, capacity);
    assert_int_equal(plan.blocks, blocks);
}

static void plans(void **state) {
    (void)state;
    plan_is(6, 128, 16, 96, 6);
    plan_is(42, 128, 16, 672, 42);
    plan_is(168, 128, 16, 2088, 131);
    plan_is(2048, 128, 64, 10112, 158);
    plan_is(0, 128, 64, 0, 0);
    plan_is(5, 5, 1, 5, 5);
    plan_is(3000000000, 256, 128, 3000032512, 23437754);
    vector("V22");
    assert_true(align_naive(1, 6, 128, false));
    assert_true(align_naive(5, 6, 128, false));
    assert_false(align_naive(6, 6, 128, false));
    assert_false(align_naive(1, 6, 128, true));
    assert_false(align_naive(1LL << 31, 8, 128, false));
    vector("V24");
}

static void offsets_past_2_31(void **state) {
    (void)state;
    size_t bytes = 0;
    assert_true(op_packed_bytes(CADRE_BF16, 56000 * 8, 7168, false, &bytes));
    assert_int_equal(bytes, 3211264000ULL * 2);
    assert_true(op_packed_bytes(CADRE_F32, 56000 * 8, 7168, true, &bytes));
    assert_int_equal(bytes, 3211264000ULL * 8);
    assert_int_equal(align_capacity(56000, 8, 7168, 1), 56000 * 8 + 7168);
    assert_int_equal(op_panel_bytes(CADRE_F32, 7168 * 8192, true), 7168ULL * 8192 * 128);
    field("A03");
}

/* ---- block alignment ---- */

/* Aligns with scratch and outputs full of 0xcd that end at guard pages. */
typedef struct aligned {
    int32_t *sorted, *experts;
    int64_t padded;
    align_plan plan;
} aligned;

static aligned align(const int32_t *ids, int64_t pairs, int e, int block, const int32_t *map, bool ignore) {
    static guard at[4];
    aligned a = {.plan = align_plan_of(pairs, e, block), .padded = -1};
    int64_t *scratch = guard_take(&at[0], (2 * (size_t)e + 1) * 8);
    a.sorted = guard_take(&at[1], (size_t)a.plan.capacity * 4);
    a.experts = guard_take(&at[2], (size_t)a.plan.blocks * 4);
    int32_t *in = guard_take(&at[3], (size_t)pairs * 4);
    memset(scratch, 0xcd, (2 * (size_t)e + 1) * 8);
    memset(a.sorted, 0xcd, (size_t)a.plan.capacity * 4);
    memset(a.experts, 0xcd, (size_t)a.plan.blocks * 4);
    if (pairs > 0) memcpy(in, ids, (size_t)pairs * 4);
    align_blocks(in, pairs, e, block, map, ignore, a.sorted, a.experts, &a.padded, scratch);
    return a;
}

/* Every pair of a known expert once, by rising pair in its expert, blocks labelled, the rest sentinels and -1. */
static void assert_aligned(aligned a, const int32_t *ids, int64_t pairs, int e, int block) {
    int64_t at = 0;
    for (int i = 0; i < e; i++) {
        int64_t first = at;
        for (int64_t p = 0; p < pairs; p++) {
            if (ids[p] == i) assert_int_equal(a.sorted[at++], p);
        }
        while (at % block) assert_int_equal(a.sorted[at++], pairs);
        for (int64_t b = first / block; b < at / block; b++) assert_int_equal(a.experts[b], i);
    }
    assert_int_equal(a.padded, at);
    for (int64_t b = at / block; b < a.plan.blocks; b++) assert_int_equal(a.experts[b], -1);
    while (at < a.plan.capacity) assert_int_equal(a.sorted[at++], pairs);
}

static void blocks_example(void **state) {
    (void)state;
    static const int32_t ids[] = {2, 3, 4, 1, 2, 4, 1, 3, 4, 1, 2, 3};
    aligned a = align(ids, 12, 5, 4, NULL, false);
    assert_int_equal(a.padded, 16);
    assert_ints(a.sorted, 16, 3, 6, 9, 12, 0, 4, 10, 12, 1, 7, 11, 12, 2, 5, 8, 12);
    assert_ints(a.experts, 4, 1, 2, 3, 4);
    assert_aligned(a, ids, 12, 5, 4);
    vector("V23");
}

static void blocks_map(void **state) {
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 1, 1, 2, -1}, map[] = {1, -1, 0, -1};
    aligned a = align(ids, 8, 4, 2, map, true); /* local order: expert 2, then 0 */
    assert_int_equal(a.padded, 4);
    assert_ints(a.sorted, 4, 2, 6, 0, 8);
    assert_ints(a.experts, 6, 0, 1, -1, -1, -1, -1);
    a = align(ids, 8, 4, 2, map, false); /* global order, foreign blocks kept but marked */
    assert_int_equal(a.padded, 10);
    assert_ints(a.sorted, 10, 0, 8, 1, 4, 5, 8, 2, 6, 3, 8);
    assert_ints(a.experts, 6, 1, -1, -1, 0, -1, -1);
    vector("V25");
}

static void blocks_all_tokens(void **state) {
    (void)state;
    static const int32_t zeros[] = {0, 0, 0, 0};
    aligned a = align(zeros, 4, 1, 16, NULL, false);
    assert_int_equal(a.padded, 16);
    assert_ints(a.sorted, 16, 0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4);
    assert_int_equal(a.experts[0], 0);
    field("A01");
}

static void empty_slots(void **state) {
    (void)state;
    static const int32_t some[] = {-1, -1, 3, -1}, none[] = {-1, -1, -1, -1}, wild[] = {8, INT32_MAX, INT32_MIN, 3};
    static const int32_t *lists[] = {some, none, wild};
    static const int rows_of[] = {1, 0, 1};
    for (int i = 0; i < 3; i++) {
        aligned a = align(lists[i], 4, 8, 16, NULL, false);
        assert_aligned(a, lists[i], 4, 8, 16);
        assert_int_equal(a.padded, 16 * rows_of[i]);
        guard at[3] = {0};
        int32_t *offset = guard_take(&at[0], 9 * 4), *pair = guard_take(&at[1], (size_t)rows_of[i] * 4);
        int32_t *row = guard_take(&at[2], 4 * 4);
        assert_int_equal(align_rows(lists[i], 4, 8, offset, pair, row), rows_of[i]);
        for (int p = 0; p < 4; p++) assert_int_equal(row[p], lists[i][p] == 3 ? 0 : -1);
        assert_int_equal(offset[3], 0);
        assert_int_equal(offset[8], rows_of[i]);
    }
    field("A02");
}

static void rows_are(const int32_t *ids, int32_t pairs, int e) {
    static guard at[3];
    int32_t known = 0, next = 0;
    for (int32_t p = 0; p < pairs; p++) known += ids[p] >= 0;
    int32_t *offset = guard_take(&at[0], ((size_t)e + 1) * 4), *pair = guard_take(&at[1], (size_t)known * 4);
    int32_t *row = guard_take(&at[2], (size_t)pairs * 4);
    memset(offset, 0xcd, ((size_t)e + 1) * 4);
    assert_int_equal(align_rows(ids, pairs, e, offset, pair, row), known);
    for (int i = 0; i < e; i++) {
        assert_int_equal(offset[i], next);
        for (int32_t p = 0; p < pairs; p++) {
            if (ids[p] != i) continue;
            assert_int_equal(pair[next], p);
            assert_int_equal(row[p], next++);
        }
    }
    assert_int_equal(offset[e], next);
    for (int32_t p = 0; p < pairs; p++) {
        if (ids[p] < 0) assert_int_equal(row[p], -1);
    }
}

/* Any number of experts and tokens; the order inside an expert is that of the pairs. */
static void any_sizes(void **state) {
    (void)state;
    static const int es[] = {1, 3, 48, 65, 128, 160, 192, 257, 5000}, ms[] = {1, 7, 64};
    static const int blocks[] = {1, 3, 16, 128};
    int32_t ids[64 * 8];
    rand_stream r = {26, 0};
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 3; j++) {
            int pairs = ms[j] * 8;
            for (int p = 0; p < pairs; p++) ids[p] = (int32_t)rand_below(&r, (uint32_t)es[i] + 1) - 1;
            for (int b = 0; b < 4; b++)
                assert_aligned(align(ids, pairs, es[i], blocks[b], NULL, false), ids, pairs, es[i], blocks[b]);
            rows_are(ids, pairs, es[i]);
        }
    }
    vector("V26");
    field("A04");
    field("A05"); /* counters are the caller's: no number of experts is too large */
}

static void dirty_scratch(void **state) {
    (void)state;
    int32_t ids[2 * 8];
    rand_stream r = {6, 0};
    for (int i = 0; i < 1000; i++) {
        for (int p = 0; p < 16; p++) ids[p] = (int32_t)rand_below(&r, 64);
        assert_aligned(align(ids, 16, 64, 16, NULL, false), ids, 16, 64, 16); /* align() fills with 0xcd */
    }
    field("A06");
}

static void nothing_to_do(void **state) {
    (void)state;
    static const int32_t none[] = {-1, -1, -1, -1, -1};
    aligned a = align(NULL, 0, 8, 16, NULL, false);
    assert_int_equal(a.padded, 0);
    assert_int_equal(a.plan.capacity, 0);
    a = align(none, 5, 8, 16, NULL, false);
    assert_aligned(a, none, 5, 8, 16);
    assert_int_equal(a.padded, 0);
    rows_are(none, 0, 8);
    rows_are(none, 5, 8);
    field("A07");
}

/* What a tile of 64 costs 8 pairs, and that the path without sorting would meet the same experts. */
static void small_batches(void **state) {
    (void)state;
    for (int m = 1; m <= 4; m++) {
        int32_t ids[4 * 8];
        for (int p = 0; p < m * 8; p++) ids[p] = (p * 37) % 128;
        aligned a = align(ids, m * 8, 128, 64, NULL, false);
        assert_int_equal(a.padded, m * 512);
        assert_true(align_naive(m, 8, 128, false));
        for (int64_t b = 0; b < a.padded / 64; b++) assert_int_equal(ids[a.sorted[b * 64]], a.experts[b]);
    }
    field("A08");
}

/* ---- sum ---- */

static void sums(void **state) {
    (void)state;
    static const float halves[3][1] = {{1}, {0x1p-9f}, {0x1p-9f}}, ties[3][1] = {{1}, {0x1p-8f}, {0x1p-8f}};
    static const float order[4][2] = {{0x1p24f, 1}, {1, 0x1p24f}, {1, -0x1p24f}, {-0x1p24f, 1}};
    uint16_t rounded;
    float exact, both[2];
    align_sum(&halves[0][0], 3, 1, CADRE_BF16, &rounded);
    assert_int_equal(rounded, 0x3f80); /* 1 + 2^-8 is midway and goes to even */
    align_sum(&halves[0][0], 3, 1, CADRE_F32, &exact);
    assert_true(exact == 1.00390625f);
    align_sum(&ties[0][0], 3, 1, CADRE_BF16, &rounded);
    assert_true(op_from_bf16(rounded) == 1.0078125f);
    /* In slot order 2^24 + 1 + 1 - 2^24 is 0, since 2^24 + 1 rounds back; 1 + 2^24 - 2^24 + 1 is 1. */
    align_sum(&order[0][0], 4, 2, CADRE_F32, both);
    assert_true(both[0] == 0.0f && both[1] == 1.0f);
    align_sum(&order[0][0], 0, 2, CADRE_F32, both);
    assert_true(both[0] == 0.0f && both[1] == 0.0f);
    vector("V29");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes),       cmocka_unit_test(capacities),
        cmocka_unit_test(plans),          cmocka_unit_test(offsets_past_2_31),
        cmocka_unit_test(blocks_example), cmocka_unit_test(blocks_map),
        cmocka_unit_test(any_sizes),      cmocka_unit_test(blocks_all_tokens),
        cmocka_unit_test(empty_slots),    cmocka_unit_test(dirty_scratch),
        cmocka_unit_test(nothing_to_do),  cmocka_unit_test(small_batches),
        cmocka_unit_test(sums),
    };
    probe_flush();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
