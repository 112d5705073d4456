/* clock: it never goes back, and its unit is the nanosecond. */
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static void forward(void **state) {
    (void)state;
    uint64_t last = clock_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_ns();
        assert_true(now >= last);
        last = now;
    }
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    uint64_t slept = clock_ns() - last;
    assert_true(slept >= 20000000 && slept < (uint64_t)60 * 1000000000);
}

static void date(void **state) {
    (void)state;
    char text[24];
    int year, month, day, hour, minute, second, end = 0;
    clock_date(text);
    assert_int_equal(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &end), 6);
    assert_int_equal(end, 20);
    assert_true(year >= 2025 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour < 24 && minute < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(date)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
