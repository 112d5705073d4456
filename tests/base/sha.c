/* sha: the examples of FIPS 180-4, and every way to cut a message. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void is(const char *text, const char *want) {
    char hex[65];
    cadre_sha256(text, strlen(text), hex);
    assert_string_equal(hex, want);
}

static void known(void **state) {
    (void)state;
    is("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    is("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    is("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void million(void **state) {
    (void)state;
    char block[1000], hex[65];
    memset(block, 'a', sizeof block);
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < 1000; i++) sha256_add(&s, block, sizeof block);
    sha256_hex(&s, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces(void **state) {
    (void)state;
    char data[300], whole[65], cut[65];
    for (int i = 0; i < 300; i++) data[i] = (char)(i * 7);
    for (int len = 0; len <= 300; len++) {
        cadre_sha256(data, (size_t)len, whole);
        for (int step = 1; step < 130; step += 9) {
            sha256 s;
            sha256_init(&s);
            for (int at = 0; at < len; at += step)
                sha256_add(&s, data + at, (size_t)(len - at < step ? len - at : step));
            sha256_hex(&s, cut);
            assert_string_equal(cut, whole);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(million), cmocka_unit_test(pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
