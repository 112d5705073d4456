/* stat: known answers, from tables and from another implementation, and what has no answer. */
#include "lab/stat.h"
#include "lab_samples.h"

static void means(void **state) {
    (void)state;
    const double v[] = {2, 4, 4, 4, 5, 5, 7, 9}, w[] = {1, 2, 3}, one[] = {7};
    assert_near(lab_mean(v, 8), 5, 0);
    assert_near(lab_sd(v, 8), sqrt(32.0 / 7), 1e-15);
    assert_true(isnan(lab_mean(v, 0)) && isnan(lab_sd(v, 1)));
    const double *groups[] = {v, w, one};
    assert_near(lab_pooled_sd(groups, (const int[]){8, 3, 1}, 3), sqrt((32 + 2) / 9.0), 1e-15);
    assert_true(isnan(lab_pooled_sd(groups + 2, (const int[]){1}, 1)));
    /* values far from 0 keep their spread */
    const double far[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    assert_near(lab_sd(far, 3), 1, 1e-12);
}

static void beta(void **state) {
    (void)state;
    assert_near(lab_beta(0.5, 0.5, 0.25), 1 / 3.0, 1e-14);
    assert_near(lab_beta(2, 3, 0.4), 0.5248, 1e-14);
    assert_near(lab_beta(10, 0.5, 0.9), 0.15164090963471, 1e-13);
    assert_near(lab_beta(50, 60, 0.5), 0.830907293901669, 1e-13);
    assert_near(lab_beta(500, 0.5, 0.99), 0.00152735787905299, 1e-14);
    assert_near(lab_beta(1, 1, 0), 0, 0);
    assert_near(lab_beta(1, 1, 1), 1, 0);
}

static void student(void **state) {
    (void)state;
    assert_near(lab_t_tails(1, 1), 0.5, 1e-14);
    assert_near(lab_t_tails(-2.5, 3.7), 0.0718220229118268, 1e-14);
    assert_near(lab_t_tails(0.1, 10), 0.922320718564408, 1e-13);
    assert_near(lab_t_tails(5, 1000) / 6.76725636464863e-07, 1, 1e-10);
    assert_near(lab_t_tails(30, 4) / 7.35285609766132e-06, 1, 1e-10);
    assert_near(lab_t_tails(0, 5), 1, 1e-15);
    assert_near(lab_t_tails(INFINITY, 5), 0, 0);
    assert_true(isnan(lab_t_tails(1, 0)) && isnan(lab_t_tails(NAN, 3)));
    const double known[][3] = {{0.05, 1, 12.7062047361747},  {0.05, 1.7, 5.11883898825306},
                               {0.05, 10, 2.22813885198628}, {0.01, 2.5, 7.16372813894879},
                               {0.5, 30, 0.682755693321293}, {1e-6, 5, 28.4784734629842},
                               {0.05, 1e6, 1.95996635681411}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_near(lab_t_quantile(known[i][0], known[i][1]) / known[i][2], 1, 1e-9);
    for (double df = 0.3; df < 1e5; df *= 3)
        for (double level = 1e-8; level < 1; level *= 7)
            assert_near(lab_t_tails(lab_t_quantile(level, df), df) / level, 1, 1e-9);
    assert_true(isnan(lab_t_quantile(0, 3)) && isnan(lab_t_quantile(1, 3)) && isnan(lab_t_quantile(0.05, 0)));
}

static void normal(void **state) {
    (void)state;
    assert_near(lab_normal(1.959963984540054), 0.975, 1e-14);
    assert_near(lab_normal_of_tails(0.05), 1.95996398454005, 1e-10);
    assert_near(lab_normal_of_tails(0.5), 0.674489750196082, 1e-10);
    assert_near(lab_normal_of_tails(1e-10), 6.46695108724052, 1e-9);
    assert_near(lab_normal_of_tails(1), 0, 1e-9);
}

static const double a[] = {10.1, 9.8, 10.4, 10.0, 9.9}, b[] = {10.9, 11.2, 10.7, 11.1};

static void welch(void **state) {
    (void)state;
    lab_welch w = lab_welch_of(a, 5, b, 4);
    double interval[2];
    assert_near(w.difference, 0.935, 1e-12);
    assert_near(w.difference / w.se, 6.179778430401317, 1e-11);
    assert_near(w.df, 6.679631809266909, 1e-11);
    assert_near(lab_welch_p(&w), 0.0005460786615922396, 1e-13);
    lab_welch_interval(&w, 0.05, interval);
    assert_near(interval[0], 0.5737244812274206, 1e-10);
    assert_near(interval[1], 1.2962755187725805, 1e-10);
    lab_log_ratio(a, 5, b, 4, 0.05, interval);
    assert_near(interval[0], 1.05653999756, 1e-10);
    assert_near(interval[1], 1.13110599018, 1e-10);
}

static void welch_at_the_edges(void **state) {
    (void)state;
    const double same[] = {3, 3, 3}, other[] = {4, 4}, negative[] = {1, -1};
    double interval[2];
    lab_welch w = lab_welch_of(same, 3, other, 2);
    assert_near(lab_welch_p(&w), 0, 0);
    lab_welch_interval(&w, 0.05, interval);
    assert_near(interval[0], 1, 0);
    assert_near(interval[1], 1, 0);
    w = lab_welch_of(same, 3, same, 2);
    assert_near(lab_welch_p(&w), 1, 0);
    w = lab_welch_of(same, 3, b, 4); /* all variance in one: its degrees of freedom */
    assert_near(w.df, 3, 1e-12);
    w = lab_welch_of(a, 5, b, 1);
    assert_true(isnan(lab_welch_p(&w)));
    lab_log_ratio(same, 3, negative, 2, 0.05, interval);
    assert_true(isnan(interval[0]) && isnan(interval[1]));
    lab_log_ratio(a, 1, b, 4, 0.05, interval);
    assert_true(isnan(interval[0]));
}

/* On smooth data the percentiles lie near the normal interval; the seed alone moves them a little. */
static void bootstrap(void **state) {
    (void)state;
    double x[40], y[40], first[2], again[2], other[2];
    rand_stream r = {5, 0};
    for (int i = 0; i < 40; i++) {
        x[i] = 100 + (double)rand_normal(&r);
        y[i] = 110 + (double)rand_normal(&r);
    }
    double ratio = lab_mean(y, 40) / lab_mean(x, 40);
    double se =
        ratio * sqrt(pow(lab_sd(x, 40) / lab_mean(x, 40), 2) / 40 + pow(lab_sd(y, 40) / lab_mean(y, 40), 2) / 40);
    lab_bootstrap_ratio(x, 40, y, 40, 0.05, 10000, 1, first);
    lab_bootstrap_ratio(x, 40, y, 40, 0.05, 10000, 1, again);
    lab_bootstrap_ratio(x, 40, y, 40, 0.05, 10000, 2, other);
    assert_near(first[0], ratio - 1.96 * se, 0.15 * se);
    assert_near(first[1], ratio + 1.96 * se, 0.15 * se);
    assert_true(first[0] == again[0] && first[1] == again[1]);
    assert_true(first[0] != other[0]);
    assert_near(first[0], other[0], 0.15 * se);
    lab_bootstrap_ratio(x, 40, y, 40, 0.05, 0, 1, first);
    assert_true(isnan(first[0]));
    lab_bootstrap_ratio(x, 0, y, 40, 0.05, 10, 1, first);
    assert_true(isnan(first[1]));
    const double zero[] = {0, 0};
    lab_bootstrap_ratio(zero, 2, y, 40, 0.05, 10, 1, first);
    assert_true(isnan(first[0]));
}

static void draws(void **state) {
    (void)state;
    enum { N = 7, ALL = 70000 };
    int seen[N] = {0};
    lab_draws d = {.key = 9};
    for (int i = 0; i < ALL; i++) seen[lab_draw_below(&d, N)]++;
    double chi = 0;
    for (int i = 0; i < N; i++) chi += (seen[i] - ALL / N) * (double)(seen[i] - ALL / N) / (ALL / N);
    assert_true(chi < 22.5); /* 6 degrees of freedom, p 0.001 */
    for (int i = 0; i < 100; i++) {
        int v = lab_draw_below(&d, 2000000000);
        assert_true(v >= 0 && v < 2000000000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means),     cmocka_unit_test(beta),  cmocka_unit_test(student),
        cmocka_unit_test(normal),    cmocka_unit_test(welch), cmocka_unit_test(welch_at_the_edges),
        cmocka_unit_test(bootstrap), cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests_name("stat", tests, NULL, NULL);
}
