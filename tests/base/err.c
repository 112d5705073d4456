/* err: codes as text, and the line that travels. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void codes(void **state) {
    (void)state;
    assert_string_equal(cadre_err_text(CADRE_OK), "ok");
    assert_string_equal(cadre_err_text(CADRE_NOMEM), "out of memory");
    assert_string_equal(cadre_err_text(CADRE_BUSY), "in use");
    assert_string_equal(cadre_err_text((cadre_err)99), "unknown error");
    assert_string_equal(cadre_err_text((cadre_err)-1), "unknown error");
    assert_string_equal(cadre_version(), CADRE_VERSION);
}

static void lines(void **state) {
    (void)state;
    cadre_fail why;
    assert_int_equal(cadre_fail_set(&why, CADRE_RANGE, "d is %d, expected %s", 0, "1.."), CADRE_RANGE);
    assert_int_equal(why.code, CADRE_RANGE);
    assert_string_equal(why.text, "d is 0, expected 1..");
    assert_int_equal(cadre_fail_set(NULL, CADRE_IO, "%d", 1), CADRE_IO);
    /* one line, whatever a file's name holds; bytes beyond ASCII stay */
    cadre_fail_set(&why, CADRE_IO, "%s", "a\nb\x1b[0m\x7f \xc3\xa9");
    assert_string_equal(why.text, "a?b?[0m? \xc3\xa9");
    cadre_fail_set(&why, CADRE_IO, "%s", "\xff \xc3 \xe2\x82 \xed\xa0\x80.");
    assert_string_equal(why.text, "? ? ?? ???.");
    cadre_fail_set(&why, CADRE_IO, "%.3s", "ab\xc3\xa9"); /* a cut inside a character */
    assert_string_equal(why.text, "ab?");
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    cadre_fail_set(&why, CADRE_IO, "%s", big);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes), cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
