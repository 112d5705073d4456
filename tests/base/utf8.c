/* utf8: every code point both ways, ill-formed sequences as the Unicode standard cuts them, held-back ends. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void round_trip(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char out[4];
        int n = utf8_encode(cp, out), len;
        uint32_t want = cp >= 0xD800 && cp < 0xE000 ? 0xFFFD : cp;
        assert_int_equal(n, want < 0x80 ? 1 : want < 0x800 ? 2 : want < 0x10000 ? 3 : 4);
        assert_true(utf8_decode((unsigned char *)out, (unsigned char *)out + n, &len) == want);
        assert_int_equal(len, n);
    }
    char out[4];
    assert_int_equal(utf8_encode(0x110000, out), 3);
    assert_memory_equal(out, "\xEF\xBF\xBD", 3);
    assert_int_equal(utf8_encode(0x20AC, out), 3);
    assert_memory_equal(out, "\xE2\x82\xAC", 3);
}

/* A second opinion: well-formed as table 3-7 of the Unicode standard lists it. */
static bool listed(const unsigned char *p, int n) {
    static const unsigned char rows[][9] = {
        {1, 0x00, 0x7F},
        {2, 0xC2, 0xDF, 0x80, 0xBF},
        {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
        {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
        {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
        {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        bool ok = rows[r][0] == n;
        for (int i = 0; ok && i < n; i++) ok = p[i] >= rows[r][1 + 2 * i] && p[i] <= rows[r][2 + 2 * i];
        if (ok) return true;
    }
    return false;
}

static void every_start(void **state) {
    (void)state;
    static const unsigned char tail[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            for (int c = 0; c < 10; c++)
                for (int d = 0; d < 10; d++) {
                    unsigned char p[4] = {(unsigned char)a, (unsigned char)b, tail[c], tail[d]};
                    int len, want = 0;
                    uint32_t cp = utf8_decode(p, p + 4, &len);
                    for (int n = 1; n <= 4; n++)
                        if (listed(p, n)) want = n;
                    assert_int_equal(cp != UTF8_BAD, want > 0);
                    if (want) assert_int_equal(len, want);
                }
}

/* The examples of the standard, section 3.9: U+FFFD for each maximal subpart. */
static void repairs(const char *text, size_t len, const char *want) {
    size_t n;
    char *out = utf8_repair(text, len, &n);
    assert_non_null(out);
    assert_string_equal(out, want);
    assert_int_equal(n, strlen(want));
    assert_true(utf8_valid(out, n));
    mem_free(out);
}

#define R "\xEF\xBF\xBD"
static void repair(void **state) {
    (void)state;
    repairs("", 0, "");
    repairs("plain \xC3\xA9 \xF0\x9F\x98\x80", 13, "plain \xC3\xA9 \xF0\x9F\x98\x80");
    repairs("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 9, R R R R R R R R "A");
    repairs("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 9, R R R R R R R R "A");
    repairs("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 9, R R R R R "A" R R "B");
    repairs("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, R R R R "A");
    repairs("ab\xF0\x9F\x98", 5, "ab" R);
    repairs("\xFF\xFF\xFF", 3, R R R);
    size_t n;
    mem_fail_after(0);
    assert_null(utf8_repair("a", 1, &n));
    mem_fail_after(-1);
    assert_null(utf8_repair("a", SIZE_MAX / 2, &n));
}

static void partial(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t held;
    } v[] = {
        {"", 0},
        {"a", 0},
        {"\xC3", 1},
        {"a\xC3", 1},
        {"\xC3\xA9", 0},
        {"\xE2", 1},
        {"\xE2\x82", 2},
        {"\xE2\x82\xAC", 0},
        {"\xF0", 1},
        {"\xF0\x9F", 2},
        {"\xF0\x9F\x98", 3},
        {"\xF0\x9F\x98\x80", 0},
        {"\x80", 0},
        {"\x80\x80\x80", 0},
        {"\xFF", 0},
        {"\xC0", 0},
        {"\xE0\x80", 0},
        {"\xED\xA0", 0},
        {"\xF4\x90", 0},
        {"\xE2\x28", 0},
        {"\xE2\x82\x28", 0},
        {"\xF0\x9F\x28", 0},
        {"\xE2\xE2", 1},
        {"\xF5\x80", 0},
    };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        assert_int_equal(utf8_partial(v[i].text, strlen(v[i].text)), v[i].held);
}

/* What partial holds back is what repair would spoil: cutting there and going on loses nothing. */
static void streaming(void **state) {
    (void)state;
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFFz\xE2\x82";
    size_t len = sizeof text - 1, whole_len;
    char *whole = utf8_repair(text, len, &whole_len);
    for (size_t cut = 0; cut <= len; cut++) {
        size_t a_len, b_len, held = utf8_partial(text, cut);
        char *a = utf8_repair(text, cut - held, &a_len), *b = utf8_repair(text + cut - held, len - cut + held, &b_len);
        assert_int_equal(a_len + b_len, whole_len);
        assert_memory_equal(whole, a, a_len);
        assert_memory_equal(whole + a_len, b, b_len);
        mem_free(a);
        mem_free(b);
    }
    mem_free(whole);
}

static void validity(void **state) {
    (void)state;
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("a\0b", 3));
    assert_true(utf8_valid("\xEF\xBF\xBF\xF4\x8F\xBF\xBF", 7));
    assert_false(utf8_valid("ok\xC3", 3));
    assert_false(utf8_valid("\xED\xA0\x80", 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(every_start), cmocka_unit_test(repair),
        cmocka_unit_test(partial),    cmocka_unit_test(streaming),   cmocka_unit_test(validity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
