/* json_index: finds what was added and nothing else, through every growth, with any seed. */
#include "base/json_index.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3000 };

static void many(void **state) {
    (void)state;
    static json members[N];
    static char keys[N][40];
    for (uint64_t seed = 0; seed < 3; seed++) {
        json_index *list = NULL, *x = json_index_new(seed, &list), *other = json_index_new(seed, &list);
        for (int i = 0; i < N; i++) {
            /* lengths around the 8-byte words of the hash; the last byte tells the keys apart too */
            snprintf(keys[i], sizeof keys[i], "%.*s%d", i % 20, "....................", i);
            members[i] = (json){.key = keys[i], .key_len = strlen(keys[i])};
            assert_null(json_index_find(x, keys[i], strlen(keys[i])));
            assert_true(json_index_add(x, &members[i]));
            for (int j = i; j >= 0; j -= 1 + i / 50)
                assert_ptr_equal(json_index_find(x, keys[j], strlen(keys[j])), &members[j]);
        }
        for (int i = 0; i < N; i++) {
            assert_ptr_equal(json_index_find(x, keys[i], members[i].key_len), &members[i]);
            assert_null(json_index_find(x, keys[i], members[i].key_len + 1)); /* with its NUL it is another key */
            assert_null(json_index_find(other, keys[i], members[i].key_len));
        }
        json_index_free(list);
    }
}

static void memory(void **state) {
    (void)state;
    json m = {.key = "a", .key_len = 1};
    for (int n = 0; n < 2; n++) {
        json_index *list = NULL;
        mem_fail_after(n);
        assert_null(json_index_new(1, &list));
        mem_fail_after(-1);
        json_index_free(list);
    }
    json_index *list = NULL, *x = json_index_new(1, &list);
    for (int i = 0; i < 32; i++) assert_true(json_index_add(x, &m)); /* half of 64 */
    mem_fail_after(0);
    assert_false(json_index_add(x, &m));
    mem_fail_after(-1);
    assert_ptr_equal(json_index_find(x, "a", 1), &m);
    json_index_free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many), cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
