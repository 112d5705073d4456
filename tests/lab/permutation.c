/* permutation: floors, every relabelling counted, ties, arms of different sizes, Monte Carlo against the exact p. */
#include "lab/stat.h"
#include "lab_samples.h"

static void floors(void **state) {
    (void)state;
    assert_near(lab_permutation_floor(3, 3), 0.1, 1e-15);
    assert_near(lab_permutation_floor(4, 4), 0.0286, 5e-5);
    assert_near(lab_permutation_floor(5, 5), 0.0079, 5e-5);
    assert_near(lab_permutation_floor(10, 10), 2 / 184756.0, 1e-18);
    assert_near(lab_permutation_floor(1, 1), 1, 0);
    assert_near(lab_permutation_floor(1, 5), 1 / 6.0, 1e-15);
    assert_near(lab_permutation_floor(3, 4), 1 / 35.0, 1e-15);
    assert_true(isnan(lab_permutation_floor(0, 5)));
    assert_true(lab_permutation_floor(100000, 100000) < 1e-290);
    puts("vector V33 ok");
}

static double p_of(const double *a, int na, const double *b, int nb) {
    bool exact = false;
    double p = lab_permutation_p(a, na, b, nb, 1, &exact);
    assert_true(exact);
    return p;
}

static void exact_values(void **state) {
    (void)state;
    const double a[] = {10.1, 9.8, 10.4, 10.0, 9.9}, b[] = {10.9, 11.2, 10.7, 11.1};
    assert_near(p_of(a, 5, b, 4), 1 / 126.0, 1e-15);
    assert_near(p_of(b, 4, a, 5), 1 / 126.0, 1e-15);
    const double c[] = {1, 2, 3, 10}, d[] = {4, 5, 6};
    assert_near(p_of(c, 4, d, 3), 27 / 35.0, 1e-15);
    const double e[] = {1, 1, 2, 2}, f[] = {1, 2, 2, 2};
    assert_near(p_of(e, 4, f, 4), 1, 0);
    assert_near(p_of(e, 4, e, 4), 1, 0);
    const double low[] = {1, 2, 3}, high[] = {11, 12, 13};
    assert_near(p_of(low, 3, high, 3), 0.1, 1e-15); /* the farthest apart that three and three can be */
    assert_near(p_of(low, 1, high, 1), 1, 0);
    assert_true(isnan(lab_permutation_p(a, 0, b, 4, 1, NULL)));
}

/* Sums that differ in their last bits only, by the order of additions, are equal. */
static void ties(void **state) {
    (void)state;
    double a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = 0.1 * (i % 3), b[i] = 0.1 * (i % 3 + (i == 0));
    double scaled_a[8], scaled_b[8];
    for (int i = 0; i < 8; i++) scaled_a[i] = i % 3, scaled_b[i] = i % 3 + (i == 0);
    assert_near(p_of(a, 8, b, 8), p_of(scaled_a, 8, scaled_b, 8), 0);
}

static void monte_carlo(void **state) {
    (void)state;
    double a[13], b[13];
    rand_stream r = {11, 0};
    for (int i = 0; i < 13; i++) {
        a[i] = (double)rand_normal(&r);
        b[i] = (double)rand_normal(&r) + 0.8;
    }
    bool exact;
    double p11 = lab_permutation_p(a, 11, b, 11, 1, &exact); /* 705432 */
    assert_true(exact);
    double p = lab_permutation_p(a, 13, b, 13, 1, &exact); /* 10400600 */
    assert_false(exact);
    assert_near(p, lab_permutation_p(a, 13, b, 13, 1, &exact), 0);
    double other = lab_permutation_p(a, 13, b, 13, 2, &exact);
    assert_true(p != other && fabs(p - other) < 0.2 * p);
    /* 13 and 13 by the t test, which is near on normal values */
    lab_welch w = lab_welch_of(a, 13, b, 13);
    assert_near(p / lab_welch_p(&w), 1, 0.25);
    assert_true(p11 > 0 && p11 < 1);
    for (int i = 0; i < 13; i++) b[i] += 100; /* no relabelling is as extreme: the counted +1 */
    p = lab_permutation_p(a, 13, b, 13, 1, &exact);
    assert_near(p, 1 / 100001.0, 1e-15);
}

/* Under no difference every p is as likely as it says. */
static void uniform(void **state) {
    (void)state;
    rand_stream r = {12, 0};
    int below[3] = {0};
    enum { RUNS = 2000 };
    for (int i = 0; i < RUNS; i++) {
        double v[12];
        for (int k = 0; k < 12; k++) v[k] = (double)rand_normal(&r);
        double p = p_of(v, 6, v + 6, 6);
        below[0] += p <= 0.05, below[1] += p <= 0.2, below[2] += p <= 0.5;
    }
    assert_near(below[0] / (double)RUNS, 0.05, 0.015);
    assert_near(below[1] / (double)RUNS, 0.2, 0.027);
    assert_near(below[2] / (double)RUNS, 0.5, 0.034);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floors),      cmocka_unit_test(exact_values), cmocka_unit_test(ties),
        cmocka_unit_test(monte_carlo), cmocka_unit_test(uniform),
    };
    return cmocka_run_group_tests_name("permutation", tests, NULL, NULL);
}
