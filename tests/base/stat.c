/* stat: order statistics against known answers. */
#include "base/base.h"
#include "test.h"
#include <math.h>

static void medians(void **state) {
    (void)state;
    double odd[] = {5, 1, 9}, even[] = {4, 1, 3, 2};
    assert_true(stat_median(odd, 3) == 5 && stat_median(even, 4) == 2.5);
    assert_true(isnan(stat_median(odd, 0)));
    double v[200];
    for (int i = 0; i < 200; i++) v[i] = 200 - i;
    assert_true(stat_quantile(v, 200, 0.99) == 198 && stat_quantile(v, 200, 1) == 200);
}

/* Ranks of the 95 % interval of a median, from tables of the binomial distribution. */
static void intervals(void **state) {
    (void)state;
    static const struct {
        int n, rank;
    } known[] = {{6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}};
    double v[50], interval[2];
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < known[i].n; k++) v[k] = known[i].n - k;
        stat_interval(v, known[i].n, interval);
        if (interval[0] != known[i].rank || interval[1] != known[i].n + 1 - known[i].rank)
            fail_msg("n = %d: ranks %g..%g, expected %d..%d", known[i].n, interval[0], interval[1], known[i].rank,
                     known[i].n + 1 - known[i].rank);
    }
    stat_interval(v, 5, interval);
    assert_true(isnan(interval[0]) && isnan(interval[1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(medians), cmocka_unit_test(intervals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
