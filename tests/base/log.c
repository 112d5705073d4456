/* log: lines reach the listener, once where asked, one line each. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int heard;
static char last[1024];
static void hear(void *ctx, const char *line) {
    heard += *(int *)ctx;
    snprintf(last, sizeof last, "%s", line);
}

static void lines(void **state) {
    (void)state;
    int one = 1, ten = 10;
    log_line("nobody %d", 1);
    log_once("early");
    cadre_listen(hear, &one);
    assert_int_equal(heard, 0);
    log_line("x=%d\n\t%s", 5, "y");
    assert_int_equal(heard, 1);
    assert_string_equal(last, "x=5??y");
    log_line("x=%d\n\t%s", 5, "y");
    assert_int_equal(heard, 2);
    log_once("early"); /* nobody heard it before */
    log_once("early");
    assert_int_equal(heard, 3);
    log_once("other %d", 1);
    log_once("other %d", 2);
    log_once("other %d", 1);
    assert_int_equal(heard, 5);
    cadre_listen(hear, &ten);
    log_once("other %d", 1); /* a new listener has not heard it */
    assert_int_equal(heard, 15);
    cadre_listen(NULL, NULL);
    log_line("silence");
    assert_int_equal(heard, 15);
    assert_string_equal(last, "other 1");
}

static void memory(void **state) {
    (void)state;
    int one = 1;
    cadre_listen(hear, &one);
    heard = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 64; i++) log_once("line %d", i);
    assert_int_equal(heard, 64);
    log_once("line 64"); /* pushes out the oldest alone */
    log_once("line 63");
    assert_int_equal(heard, 65);
    log_once("line 0");
    assert_int_equal(heard, 66);
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    log_line("%s", big);
    assert_int_equal(strlen(last), 511);
    cadre_listen(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
