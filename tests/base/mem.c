/* mem: alignment, zeroes, the count, failing on purpose, checked sizes, arenas. */
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static bool zero(const unsigned char *p, size_t n) {
    while (n--)
        if (*p++) return false;
    return true;
}

static void blocks(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 1 << 20};
    for (int i = 0; i < 7; i++) {
        unsigned char *p = mem_new(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(zero(p, sizes[i]));
        memset(p, 0xA5, sizes[i]); /* so that the next block is not zero by luck */
        mem_free(p);
    }
    assert_null(mem_new(SIZE_MAX));
    assert_null(mem_new_array(SIZE_MAX / 2, 3));
    unsigned char *p = mem_new_array(3, 50);
    assert_true(zero(p, 150));
    mem_free(p);
    mem_free(NULL);
}

static void resize(void **state) {
    (void)state;
    char *p = mem_resize(NULL, 0, 5);
    assert_non_null(p);
    memcpy(p, "abcd", 5);
    p = mem_resize(p, 5, 5000);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_string_equal(p, "abcd");
    p = mem_resize(p, 5000, 2);
    assert_memory_equal(p, "ab", 2);
    assert_null(mem_resize(p, 2, SIZE_MAX));
    assert_memory_equal(p, "ab", 2);
    mem_free(p);
    p = mem_copy_text("hello", 3);
    assert_string_equal(p, "hel");
    mem_free(p);
    p = mem_copy_text(NULL, 0);
    assert_string_equal(p, "");
    mem_free(p);
}

static void huge(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    static const size_t sizes[] = {0, 1, 5000, (2 << 20) + 1, 5 << 20};
    for (int on = 0; on < 2; on++) {
        switch_set(SWITCH_HUGE_PAGES, on);
        for (int i = 0; i < 5; i++) {
            unsigned char *p = mem_new_huge(sizes[i]);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % (sizes[i] >= 2 << 20 ? 2 << 20 : page), 0);
            assert_true(zero(p, sizes[i]));
            memset(p, 1, sizes[i]);
            mem_free_huge(p, sizes[i]);
        }
    }
    assert_null(mem_new_huge(SIZE_MAX));
    assert_null(mem_new_huge(SIZE_MAX / 2));
    mem_free_huge(NULL, 7);
}

/* Blocks are spread over the nodes that were named, and over none when the switch or the caller says so. Node 0 stands
 * for several: every machine has it. */
static void spreading(void **state) {
    (void)state;
    enum { DEFAULT = 0, INTERLEAVE = 3, AT_ADDRESS = 2, SIZE = 3 << 20 };
    static const struct {
        uint64_t nodes;
        long on;
        int want;
    } cases[] = {{1, 1, INTERLEAVE}, {1, 0, DEFAULT}, {0, 1, DEFAULT}};
    for (int i = 0; i < 3; i++) {
        int mode = -1;
        uint64_t nodes[16] = {0};
        mem_spread(cases[i].nodes);
        switch_set(SWITCH_SPREAD, cases[i].on);
        char *p = mem_new_huge(SIZE);
        mem_spread(0);
        switch_set(SWITCH_SPREAD, 1);
        assert_non_null(p);
        memset(p, 1, SIZE);
        long refused = syscall(SYS_get_mempolicy, &mode, nodes, 1024, p + SIZE / 2, AT_ADDRESS);
        mem_free_huge(p, SIZE);
        if (refused) skip(); /* a sandbox without memory policies */
        assert_int_equal(mode, cases[i].want);
        assert_true(nodes[0] == (cases[i].want == INTERLEAVE));
    }
}

/* Field report P07: what is mapped, what is resident, what is the process's own, and faults, each by itself. */
static void usage(void **state) {
    (void)state;
    enum { SIZE = 24 << 20, SLACK = 2 << 20 };
    mem_use before, reserved, touched, gone;
    uint64_t minor[2], major[2];
    switch_set(SWITCH_HUGE_PAGES, 0);
    mem_usage(&before);
    if (!before.own) skip(); /* no /proc, or an old kernel */
    char *p = mem_new_huge(SIZE);
    mem_usage(&reserved);
    assert_true(reserved.mapped >= before.mapped + SIZE);
    assert_true(reserved.resident < before.resident + SLACK);
    mem_faults(&minor[0], &major[0]);
    memset(p, 1, SIZE);
    mem_faults(&minor[1], &major[1]);
    mem_usage(&touched);
    assert_true(touched.own >= before.own + SIZE - SLACK && touched.resident >= touched.own);
    assert_true(minor[1] - minor[0] >= SIZE / (size_t)sysconf(_SC_PAGESIZE) / 2 && major[1] >= major[0]);
    mem_free_huge(p, SIZE);
    mem_usage(&gone);
    assert_true(gone.own + SIZE - SLACK <= touched.own && gone.peak + SLACK >= touched.resident);
    switch_set(SWITCH_HUGE_PAGES, 1);
    printf("field P07 ok\n");
}

static void counting(void **state) {
    (void)state;
    uint64_t n = mem_count();
    assert_true(cadre_allocations() == n);
    void *a = mem_new(1), *b = mem_new_array(2, 2), *c = mem_copy_text("", 0), *d = mem_new_huge(1);
    a = mem_resize(a, 1, 2);
    assert_true(mem_count() == n + 5);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free_huge(d, 1);
    assert_true(mem_count() == n + 5);
}

static void failing(void **state) {
    (void)state;
    mem_fail_after(2);
    void *a = mem_new(1), *b = mem_new_huge(1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(mem_new(1));
    assert_null(mem_new_huge(1));
    assert_null(mem_resize(a, 1, 2));
    mem_fail_after(-1);
    void *c = mem_new(1);
    assert_non_null(c);
    mem_free(a);
    mem_free_huge(b, 1);
    mem_free(c);
}

static void sizes(void **state) {
    (void)state;
    size_t x = 7;
    assert_true(mem_mul(1 << 20, 3, &x));
    assert_int_equal(x, 3 << 20);
    assert_false(mem_mul(SIZE_MAX / 2 + 1, 2, &x));
    assert_int_equal(x, 3 << 20);
    assert_true(mem_add(SIZE_MAX - 1, 1, &x));
    assert_true(x == SIZE_MAX);
    assert_false(mem_add(SIZE_MAX, 1, &x));
    assert_true(x == SIZE_MAX);
}

static void arenas(void **state) {
    (void)state;
    arena plan = {0};
    assert_null(arena_take(&plan, 3, 10));
    assert_null(arena_take(&plan, 1, 1));
    assert_int_equal(plan.used, 128);
    assert_false(plan.overflow);
    char *block = mem_new(plan.used);
    arena a = {.base = block, .size = plan.used};
    char *p = arena_take(&a, 3, 10), *q = arena_take(&a, 1, 1);
    assert_ptr_equal(p, block);
    assert_ptr_equal(q, block + 64);
    assert_false(a.overflow);
    assert_null(arena_take(&a, 1, 1));
    assert_true(a.overflow);
    assert_null(arena_take(&a, 0, 0)); /* it stays overflown */
    arena wide = {0};
    arena_take(&wide, SIZE_MAX, 2);
    assert_true(wide.overflow);
    wide = (arena){.used = 64};
    arena_take(&wide, SIZE_MAX - 70, 1);
    assert_true(wide.overflow);
    mem_free(block);
}

static void poison(void **state) {
    (void)state;
    union {
        float f[16];
        double d[8];
        int32_t i[16];
        uint16_t h[32];
    } *u = mem_new(sizeof *u);
    arena a = {.base = (char *)u, .size = sizeof *u};
    arena_poison(&a);
    for (int i = 0; i < 16; i++) assert_true(isnan(u->f[i]) && u->i[i] > 1 << 30);
    for (int i = 0; i < 8; i++) assert_true(isnan(u->d[i]));
    for (int i = 0; i < 32; i++) assert_true((u->h[i] & 0x7F80) == 0x7F80 && (u->h[i] & 0x7F)); /* NaN as bf16 */
    mem_free(u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks), cmocka_unit_test(resize),   cmocka_unit_test(huge),    cmocka_unit_test(spreading),
        cmocka_unit_test(usage),  cmocka_unit_test(counting), cmocka_unit_test(failing), cmocka_unit_test(sizes),
        cmocka_unit_test(arenas), cmocka_unit_test(poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
