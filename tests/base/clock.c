/* clock: it never goes back, and its unit is the nanosecond. */
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
