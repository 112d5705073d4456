/* foreign_lookup: the row that M takes, against the vectors V14..V17 and a plain argmin, and pairs of tables (T04). */
#include "s5000.h"

#include <limits.h>

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}
static void field(const char *id) {
    printf("field %s ok\n", id);
}

enum { KEYS_MOST = 20 };
/* A table in memory: keys in file order, BLOCK_SIZE_M as given (0: the key). */
typedef struct made {
    foreign_table table;
    foreign_row rows[KEYS_MOST];
} made;

static void make(made *t, const char *path, const int *keys, const int *bm, int count) {
    *t = (made){.table = {.path = (char *)(uintptr_t)path, .count = count}};
    t->table.rows = t->rows;
    for (int i = 0; i < count; i++) {
        t->rows[i].m = keys[i];
        t->rows[i].config.v[GEMM_BM] = bm ? bm[i] : keys[i];
        t->rows[i].config.has = 1;
    }
}

static foreign_match look(const made *t, int m) {
    foreign_match match;
    must(foreign_lookup(FOREIGN_VLLM, &t->table, m, &match, fail_out));
    return match;
}

static int key_for(const made *t, int m) {
    return t->rows[look(t, m).index].m;
}

static const int default_keys[18] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

/* The middle of two neighbouring keys goes to the one that stands first in the file. */
static void ties(void **state) {
    (void)state;
    int descending[18];
    made up, down;
    for (int i = 0; i < 18; i++) descending[i] = default_keys[17 - i];
    make(&up, "up", default_keys, NULL, 18);
    make(&down, "down", descending, NULL, 18);
    int cases = 0;
    static const int want[16][3] = {{3, 2, 4},          {6, 4, 8},          {12, 8, 16},        {20, 16, 24},
                                    {28, 24, 32},       {40, 32, 48},       {56, 48, 64},       {80, 64, 96},
                                    {112, 96, 128},     {192, 128, 256},    {384, 256, 512},    {768, 512, 1024},
                                    {1280, 1024, 1536}, {1792, 1536, 2048}, {2560, 2048, 3072}, {3584, 3072, 4096}};
    for (int i = 0; i < 16; i++) {
        foreign_match a = look(&up, want[i][0]), b = look(&down, want[i][0]);
        assert_int_equal(up.rows[a.index].m, want[i][1]);
        assert_int_equal(up.rows[a.tie].m, want[i][2]);
        assert_int_equal(down.rows[b.index].m, want[i][2]);
        assert_int_equal(down.rows[b.tie].m, want[i][1]);
        cases += a.distance == b.distance && a.distance == want[i][2] - want[i][0];
    }
    assert_int_equal(cases, 16);
    assert_int_equal(look(&up, 5).tie, -1);
    assert_int_equal(key_for(&up, 5), 4);
    vector("V14");
}

/* T01's case: 1, 7, 14, 21, 28 take key 16, 115 and 120 key 113. */
static void s5000_map(void **state) {
    (void)state;
    static const int want[][2] = {
        {1, 16},    {7, 16},    {14, 16},   {21, 16},   {28, 16},   {32, 16},   {33, 49},    {49, 49},      {64, 49},
        {65, 80},   {80, 80},   {96, 80},   {97, 113},  {113, 113}, {115, 113}, {120, 113},  {128, 113},    {129, 144},
        {144, 144}, {327, 144}, {328, 511}, {511, 511}, {512, 512}, {513, 513}, {4096, 513}, {INT_MAX, 513}};
    size_t len;
    char *text = s5000_text(&len);
    foreign_table *t = NULL;
    must(foreign_parse(S5000_NAME, text, len, NULL, NULL, &t, fail_out));
    for (int rule = 0; rule < FOREIGN_SYSTEM_COUNT; rule++)
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            foreign_match match;
            must(foreign_lookup((foreign_system)rule, t, want[i][0], &match, fail_out));
            if (t->rows[match.index].m != want[i][1])
                fail_msg("M=%d takes %d, not %d", want[i][0], t->rows[match.index].m, want[i][1]);
        }
    foreign_match last;
    must(foreign_lookup(FOREIGN_TORCHADA, t, 4096, &last, fail_out));
    assert_int_equal(last.distance, 4096 - 513); /* no limit of distance: the range policy is for native tables */
    assert_int_equal(last.reach_lo, 513);
    assert_int_equal(last.reach_hi, INT_MAX);
    vector("V15");
    made without;
    int keys[7];
    for (int i = 0; i < 7; i++) keys[i] = s5000_values[i + 1][0];
    make(&without, "without 16", keys, NULL, 7);
    assert_int_equal(key_for(&without, 1), 49);
    assert_int_equal(key_for(&without, 64), 49);
    assert_int_equal(look(&without, 1).reach_lo, 1);
    assert_int_equal(look(&without, 1).reach_hi, 64);
    vector("V17");
    foreign_free(t);
    mem_free(text);
}

static void old_map(void **state) {
    (void)state;
    static const int keys[] = {1, 4, 6, 8, 16};
    static const int want[] = {1, 1, 4, 4, 4, 6, 6, 8, 8, 8, 8, 8, 16, 16}; /* M = 1..14 */
    made t;
    make(&t, "old", keys, NULL, 5);
    for (int m = 1; m <= 14; m++) assert_int_equal(key_for(&t, m), want[m - 1]);
    vector("V16");
}

/* T03's case: in every order of the same keys the rows differ only where a tie is, and the tie is told. */
static void file_order(void **state) {
    (void)state;
    static const int orders[][4] = {{1, 4, 6, 8}, {8, 6, 4, 1}, {6, 1, 8, 4}, {4, 8, 1, 6}};
    static const int seven[] = {6, 8, 6, 8}, five[] = {4, 6, 6, 4};
    for (int i = 0; i < 4; i++) {
        made t;
        make(&t, "t", orders[i], NULL, 4);
        assert_int_equal(key_for(&t, 7), seven[i]);
        assert_int_equal(key_for(&t, 5), five[i]);
        assert_true(look(&t, 7).tie >= 0 && look(&t, 5).tie >= 0);
        assert_int_equal(key_for(&t, 3), 4);
        assert_int_equal(look(&t, 3).tie, -1);
    }
}

/* For each m the index is the plain argmin's, and the reach is exactly the run of m around it with that index. */
static void reach_is_exact(void **state) {
    (void)state;
    rand_stream r = {.key = 14};
    for (int round = 0; round < 60; round++) {
        int keys[KEYS_MOST], count = 1 + (int)rand_below(&r, KEYS_MOST);
        for (int i = 0; i < count; i++) {
            bool again = true;
            while (again) {
                keys[i] = 1 + (int)rand_below(&r, 90);
                again = false;
                for (int j = 0; j < i; j++) again |= keys[j] == keys[i];
            }
        }
        made t;
        make(&t, "random", keys, NULL, count);
        int won[102] = {-1};
        for (int m = 1; m <= 100; m++) {
            int best = 0;
            for (int i = 1; i < count; i++)
                if (abs(keys[i] - m) < abs(keys[best] - m)) best = i;
            won[m] = best;
        }
        for (int m = 1; m <= 100; m++) {
            foreign_match match = look(&t, m);
            int lo = m, hi = m;
            while (lo > 1 && won[lo - 1] == won[m]) lo--;
            while (hi < 100 && won[hi + 1] == won[m]) hi++;
            assert_int_equal(match.index, won[m]);
            assert_int_equal(match.distance, abs(keys[won[m]] - m));
            assert_int_equal(match.reach_lo, lo);
            assert_int_equal(match.reach_hi, hi == 100 ? INT_MAX : hi);
        }
    }
}

/* A row may be beyond any sensible distance: these systems take it all the same, and the distance says so (T02's
 * case; the cure is a range, table.h). */
static void far_away(void **state) {
    (void)state;
    static const int keys[] = {1, 2, 4, 8}, huge[] = {INT_MAX, 1, INT_MAX - 1};
    made t;
    make(&t, "decode", keys, NULL, 4);
    static const int m[] = {9, 12, 16, 17, 2048};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(key_for(&t, m[i]), 8);
        assert_int_equal(look(&t, m[i]).distance, m[i] - 8);
    }
    make(&t, "huge", huge, NULL, 3);
    assert_int_equal(key_for(&t, 1), 1);
    assert_int_equal(key_for(&t, 1 << 30), INT_MAX - 1);
    assert_int_equal(key_for(&t, INT_MAX), INT_MAX);
    assert_int_equal(look(&t, 1).reach_hi, (1 << 30) - 1);
    assert_int_equal(look(&t, INT_MAX).reach_lo, INT_MAX);
    cadre_fail why = {0};
    foreign_match match;
    assert_int_equal(foreign_lookup(FOREIGN_VLLM, &t.table, 0, &match, &why), CADRE_RANGE);
    t.table.count = 0;
    assert_int_equal(foreign_lookup(FOREIGN_VLLM, &t.table, 1, &match, &why), CADRE_RANGE);
    assert_string_equal(why.text, "huge has no rows");
}

/* T09's property: lookup(k) is row k for every key, so no row is dead under this rule. */
static void keys_find_themselves(void **state) {
    (void)state;
    made t;
    make(&t, "defaults", default_keys, NULL, 18);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(key_for(&t, default_keys[i]), default_keys[i]);
        assert_int_equal(look(&t, default_keys[i]).distance, 0);
    }
    static const int late[] = {32, 64};
    make(&t, "late", late, NULL, 2);
    assert_int_equal(key_for(&t, 5), 32); /* a small miss is a distance, not silence */
    assert_int_equal(look(&t, 5).distance, 27);
}

static void pairs(void **state) {
    (void)state;
    static const int keys[] = {16, 64}, other[] = {16, 48}, bm[] = {16, 64}, same[] = {64, 64}, low[] = {16, 16};
    made base, down;
    cadre_fail why = {0};
    make(&base, "up.json", keys, bm, 2);
    make(&down, "down.json", keys, bm, 2);
    must(foreign_pair(FOREIGN_SGLANG, &base.table, &down.table, 4096, fail_out));
    must(foreign_pair(FOREIGN_SGLANG, &base.table, &down.table, INT_MAX, fail_out));
    /* One key differs: the two agree on every key of either, and not between them. */
    make(&down, "down.json", other, bm, 2);
    assert_int_equal(foreign_pair(FOREIGN_SGLANG, &base.table, &down.table, 4096, &why), CADRE_RANGE);
    assert_string_equal(why.text, "BLOCK_SIZE_M differs at M=33..40: 16 in up.json, 64 in down.json");
    must(foreign_pair(FOREIGN_SGLANG, &base.table, &down.table, 32, fail_out));
    assert_int_equal(foreign_pair(FOREIGN_SGLANG, &base.table, &down.table, 33, &why), CADRE_RANGE);
    assert_string_equal(why.text, "BLOCK_SIZE_M differs at M=33..33: 16 in up.json, 64 in down.json");
    /* Up 64, down 16 at M=33, and the reverse. */
    make(&base, "up.json", keys, same, 2);
    make(&down, "down.json", keys, low, 2);
    assert_int_equal(foreign_pair(FOREIGN_TORCHADA, &base.table, &down.table, 33, &why), CADRE_RANGE);
    assert_string_equal(why.text, "BLOCK_SIZE_M differs at M=1..33: 64 in up.json, 16 in down.json");
    assert_int_equal(foreign_pair(FOREIGN_TORCHADA, &down.table, &base.table, INT_MAX, &why), CADRE_RANGE);
    down.table.count = 0;
    assert_int_equal(foreign_pair(FOREIGN_TORCHADA, &base.table, &down.table, 1, &why), CADRE_RANGE);
    field("T04");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties),           cmocka_unit_test(s5000_map),
        cmocka_unit_test(old_map),        cmocka_unit_test(file_order),
        cmocka_unit_test(reach_is_exact), cmocka_unit_test(far_away),
        cmocka_unit_test(pairs),          cmocka_unit_test(keys_find_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
