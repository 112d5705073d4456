/* math: errors against the C library's long double, special values, and bits that must never change. */
#include "base/math.h"
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 100000 };

static double between(rand_stream *r, double lo, double hi) {
    uint64_t bits = (uint64_t)rand_u32(r) << 21 ^ rand_u32(r);
    return lo + (hi - lo) * ((double)bits * 0x1p-53);
}

static double relative(double got, long double want) {
    return (double)fabsl((got - want) / want);
}

static void exponential(void **state) {
    (void)state;
    rand_stream r = {1, 0};
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double range = i % 2 ? 700 : 2, x = between(&r, -range, range);
        worst = fmax(worst, relative(m_exp(x), expl(x)));
    }
    assert_true(worst < 4e-16);
    assert_true(m_exp(0) == 1 && m_exp(701) == INFINITY && m_exp(-701) == 0);
    assert_true(m_exp(-INFINITY) == 0 && m_exp(INFINITY) == INFINITY && isnan(m_exp(NAN)));
    assert_true(relative(m_exp(700), expl(700)) < 4e-16 && relative(m_exp(-700), expl(-700)) < 4e-16);
}

static void logarithm(void **state) {
    (void)state;
    rand_stream r = {2, 0};
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double x = i % 2 ? between(&r, 0.5, 2) : exp(between(&r, -708, 709));
        if (x != 1) worst = fmax(worst, relative(m_log(x), logl(x)));
    }
    assert_true(worst < 3e-16);
    assert_true(m_log(1) == 0 && m_log(0) == -INFINITY && m_log(INFINITY) == INFINITY);
    assert_true(isnan(m_log(-1)) && isnan(m_log(NAN)));
    assert_true(relative(m_log(1 + 0x1p-52), logl(1 + 0x1p-52L)) < 3e-16);
    assert_true(relative(m_log(0x1p-1022), logl(0x1p-1022L)) < 3e-16);
}

static void power(void **state) {
    (void)state;
    rand_stream r = {3, 0};
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double b = exp(between(&r, -100, 100)), x = between(&r, -6, 6);
        if (i % 4 == 0) b = 1 + between(&r, -1e-8, 1e-8), x = between(&r, -1e10, 1e10);
        if (b == 1 || x == 0) continue;
        worst = fmax(worst, relative(m_pow(b, x), powl(b, x)));
    }
    assert_true(worst < 5e-16);
    /* what rotary tables ask for */
    for (int i = 0; i < 128; i += 2) {
        assert_true(relative(m_pow(1e6, i / 128.0), powl(1e6L, i / 128.0L)) < 5e-16);
        assert_true(relative(m_pow(10000, -i / 128.0), powl(10000.0L, -i / 128.0L)) < 5e-16);
    }
    assert_true(m_pow(2, 10) == 1024 && m_pow(3, 0) == 1 && m_pow(0, 2) == 0 && m_pow(0, -2) == INFINITY);
    assert_true(m_pow(1, 1e300) == 1 && m_pow(2, 1e300) == INFINITY && m_pow(2, -1e300) == 0);
    assert_true(m_pow(1 + 0x1p-52, 1e300) == INFINITY && isnan(m_pow(-2, 2)) && m_pow(-2, 0) == 1);
    assert_true(isnan(m_pow(NAN, 1)) && isnan(m_pow(2, NAN)));
}

static void circles(void **state) {
    (void)state;
    rand_stream r = {4, 0};
    static const double ranges[] = {1, 10, 1e4, 1e6, 1e9};
    double worst = 0;
    for (int i = 0; i < 2 * N; i++) {
        double range = ranges[i % 5], x = between(&r, -range, range);
        if (i % 3 == 0) x = nearbyint(x); /* positions are whole */
        /* near multiples of pi/2 nothing is left of x but its last bits */
        if (i % 7 == 0) x = nearbyint(x) * 1.5707963267948966;
        if (fabs(x) > 1e9) continue;
        worst = fmax(worst, (double)fabsl(m_sin(x) - sinl(x)));
        worst = fmax(worst, (double)fabsl(m_cos(x) - cosl(x)));
    }
    assert_true(worst < 4e-16);
    assert_true(m_sin(0) == 0 && m_cos(0) == 1 && m_sin(-1) == -m_sin(1) && m_cos(-1) == m_cos(1));
    assert_true(isnan(m_sin(INFINITY)) && isnan(m_cos(NAN)) && isnan(m_sin(1e10)));
}

/* The same bits from every compiler, CPU and C library: a digest of many results. */
static void bits(void **state) {
    (void)state;
    rand_stream r = {5, 0};
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < N; i++) {
        double x = between(&r, -1e9, 1e9), e = x * 7e-7, p = fabs(x) + 0.125;
        double y[5] = {m_exp(e), m_log(p), m_pow(p, e * 0.01), m_sin(x), m_cos(x)};
        sha256_add(&s, y, sizeof y);
    }
    char hex[65];
    sha256_hex(&s, hex);
    assert_string_equal(hex, "9be32ecd59ddcea939f4b67d9d87d7925da90b4c5e524294dd1e78c03efff2da");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential), cmocka_unit_test(logarithm), cmocka_unit_test(power),
        cmocka_unit_test(circles),     cmocka_unit_test(bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
