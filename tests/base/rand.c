/* rand: Philox against the published known answers; ranges and moments of the rest. */
#include "base/rand.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Random123's kat_vectors, philox 4x32 10: counter words 0..3, key words 0..1, result. */
static void known(void **state) {
    (void)state;
    static const struct {
        uint64_t key, hi, lo;
        uint32_t out[4];
    } v[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        rand_philox(v[i].key, v[i].hi, v[i].lo, out);
        assert_memory_equal(out, v[i].out, sizeof out);
    }
}

static void unit(void **state) {
    (void)state;
    /* 53 bits of the first two words: 0xe169c58d6627e8d5 >> 11 */
    assert_true(rand_unit(0, 0, 0) == (double)(0xe169c58d6627e8d5u >> 11) * 0x1p-53);
    double sum = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        double u = rand_unit(7, 1, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(fabs(sum / 20000 - 0.5) < 0.01); /* 5 sigma of the mean */
    assert_true(rand_unit(7, 1, 0) != rand_unit(7, 2, 0) && rand_unit(7, 1, 0) != rand_unit(8, 1, 0));
}

static void stream(void **state) {
    (void)state;
    rand_stream r = {0, 0};
    uint32_t out[4];
    rand_philox(0, 0, 0, out);
    for (int i = 0; i < 4; i++) assert_int_equal(rand_u32(&r), out[i]);
    rand_philox(0, 0, 1, out);
    assert_int_equal(rand_u32(&r), out[0]);
}

static void below(void **state) {
    (void)state;
    rand_stream r = {3, 0};
    int hits[6] = {0};
    for (int i = 0; i < 60000; i++) {
        uint32_t x = rand_below(&r, 6);
        assert_in_range(x, 0, 5);
        hits[x]++;
    }
    for (int i = 0; i < 6; i++) assert_in_range(hits[i], 9500, 10500);
    for (int i = 0; i < 100; i++) assert_int_equal(rand_below(&r, 1), 0);
    for (int i = 0; i < 100; i++) assert_true(rand_below(&r, 0xC0000000u) < 0xC0000000u);
}

static void floats(void **state) {
    (void)state;
    rand_stream r = {4, 0};
    double sum = 0, square = 0;
    enum { N = 100000 };
    for (int i = 0; i < N; i++) {
        float x = rand_float(&r);
        assert_true(x >= -1 && x < 1);
        sum += x;
        square += (double)x * x;
    }
    assert_true(fabs(sum / N) < 0.01 && fabs(square / N - 1.0 / 3) < 0.01);
    sum = square = 0;
    for (int i = 0; i < N; i++) {
        float x = rand_normal(&r);
        assert_true(x >= -6 && x <= 6);
        sum += x;
        square += (double)x * x;
    }
    assert_true(fabs(sum / N) < 0.02 && fabs(square / N - 1) < 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known), cmocka_unit_test(unit),   cmocka_unit_test(stream),
        cmocka_unit_test(below), cmocka_unit_test(floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
