/* power: against the noncentral t, against simulated Welch tests of few visits, and what has no answer. */
#include "lab_samples.h"

static void many_visits(void **state) {
    (void)state;
    assert_near(lab_power(100, 0.01, 0.025, 0.05), 0.799753857, 1e-6);
    assert_near(lab_power(80, 0.02, 0.05, 0.05), 0.7018242036, 1e-6);
}

/* 400000 simulated tests each: within three standard errors. */
static void few_visits(void **state) {
    (void)state;
    assert_near(lab_power(2, 0.30, 0.05, 0.05), 0.436635, 0.0025);
    assert_near(lab_power(3, 0.10, 0.03, 0.05), 0.7227575, 0.0025);
    assert_near(lab_power(5, 0.03, 0.015, 0.05), 0.75504, 0.0025);
    assert_near(lab_power(10, 0.03, 0.025, 0.05), 0.70106, 0.0025);
}

static void needed(void **state) {
    (void)state;
    const double cases[][4] = {{0.01, 0.01, 0.05, 0.8},
                               {0.01, 0.03, 0.05, 0.8},
                               {-0.05, 0.01, 0.01, 0.95},
                               {0.001, 0.02, 0.05, 0.9},
                               {0.02, 0.02, 0.05, 0.3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double *c = cases[i];
        int n = lab_visits_needed(c[0], c[1], c[2], c[3]);
        assert_true(n >= 2 && lab_power(n, c[0], c[1], c[2]) >= c[3]);
        if (n > 2) assert_true(lab_power(n - 1, c[0], c[1], c[2]) < c[3]);
    }
    assert_int_equal(lab_visits_needed(0.01, 0.01, 0.05, 0.8), 17);
    assert_int_equal(lab_visits_needed(0.5, 0.001, 0.05, 0.8), 2);
}

static void grows(void **state) {
    (void)state;
    double before = 0;
    for (int n = 2; n < 90; n++) { /* across the border where the formula changes */
        double p = lab_power(n, 0.01, 0.02, 0.05);
        assert_true(p > before && p < 1);
        before = p;
    }
    assert_near(lab_power(6, 0, 0.02, 0.05), 0.05, 0.006); /* Welch's test holds its level about */
}

static void nothing(void **state) {
    (void)state;
    assert_true(isnan(lab_power(1, 0.01, 0.01, 0.05)) && isnan(lab_power(5, 0.01, 0, 0.05)));
    assert_int_equal(lab_visits_needed(0, 0.01, 0.05, 0.8), 0);
    assert_int_equal(lab_visits_needed(0.01, 0, 0.05, 0.8), 0);
    assert_int_equal(lab_visits_needed(0.01, NAN, 0.05, 0.8), 0);
    assert_int_equal(lab_visits_needed(NAN, 0.01, 0.05, 0.8), 0);
    assert_int_equal(lab_visits_needed(0.01, 0.01, 0.05, 1), 0);
    assert_int_equal(lab_visits_needed(1e-6, 0.5, 0.05, 0.8), 0); /* more than LAB_VISITS_MOST */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_visits), cmocka_unit_test(few_visits), cmocka_unit_test(needed),
        cmocka_unit_test(grows),       cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
