/* cpu: the device, the choice of a kernel set, and the proof of the bf16 pair. */
#include "dev/dev.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char heard[4][512];
static int lines;
static void hear(void *ctx, const char *line) {
    (void)ctx;
    if (lines < 4) snprintf(heard[lines], sizeof heard[0], "%s", line);
    lines++;
}

static cadre_device *open_device(int threads) {
    cadre_device *d = NULL;
    cadre_fail why = {0};
    cadre_err err = cadre_device_open(&(cadre_device_options){"cpu", threads, false}, &d, &why);
    if (err) print_error("%s\n", why.text);
    assert_int_equal(err, CADRE_OK);
    return d;
}

static void opening(void **state) {
    (void)state;
    cadre_device *d = open_device(3);
    assert_int_equal(cadre_device_threads(d), 3);
    char want[160];
    static const char *const isa[] = {"ref", "avx2", "avx512", "avx512bf16"};
    snprintf(want, sizeof want, "cpu %s, 3 threads, %s", isa[d->isa], d->cpu);
    assert_string_equal(cadre_device_name(d), want);
    assert_true(*d->cpu && d->cpu[0] != ' ' && d->cpu[strlen(d->cpu) - 1] != ' ');
    assert_int_equal(d->features, dev_features());
    cadre_device_close(d);
    assert_int_equal(cadre_device_open(NULL, &d, NULL), CADRE_OK);
    assert_int_equal(cadre_device_threads(d), pool_default_threads());
    cadre_device_close(d);
    cadre_device_close(NULL);
}

static void refusals(void **state) {
    (void)state;
    cadre_device *d = NULL;
    cadre_fail why;
    assert_int_equal(cadre_device_open(&(cadre_device_options){"cuda:0", 0, false}, &d, &why), CADRE_UNSUPPORTED);
    assert_string_equal(why.text, "device 'cuda:0' is not known, expected cpu");
    assert_int_equal(cadre_device_open(&(cadre_device_options){"cpu", -1, false}, &d, &why), CADRE_RANGE);
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        assert_int_equal(cadre_device_open(&(cadre_device_options){"cpu", 2, false}, &d, &why), CADRE_NOMEM);
        mem_fail_after(-1);
    }
    assert_null(d);
}

/* The kernel sets' features imply each other, and the C compiler's own probe agrees. */
static void features(void **state) {
    (void)state;
    unsigned f = dev_features();
    if (f & DEV_AVX512BF16) assert_true(f & DEV_AVX512);
    if (f & DEV_AVX512) assert_true(f & DEV_AVX2_FMA);
#ifdef __x86_64__
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(!!(f & DEV_AVX2_FMA), avx2);
    assert_int_equal(!!(f & DEV_AVX512), avx2 && wide);
#endif
}

static void chooses(unsigned features, long asked, uint64_t bad, int want, const char *why) {
    char line[200];
    assert_int_equal(dev_choose_isa(features, asked, bad, line, sizeof line), want);
    assert_string_equal(line, why);
}

static void choice(void **state) {
    (void)state;
    unsigned a = DEV_AVX2_FMA, w = a | DEV_AVX512, b = w | DEV_AVX512BF16;
    chooses(b, 9, 0, 3, "");
    chooses(w, 9, 0, 2, "");
    chooses(a, 9, 0, 1, "");
    chooses(0, 9, 0, 0, "");
    chooses(b, 3, 0, 3, "");
    chooses(b, 2, 0, 2, "isa: avx512 by switch isa; the CPU has avx512bf16");
    chooses(b, 0, 0, 0, "isa: ref by switch isa; the CPU has avx512bf16");
    chooses(a, 3, 0, 1, "isa: avx2, because the CPU lacks avx512bf16");
    chooses(0, 1, 0, 0, "isa: ref, because the CPU lacks avx2");
    chooses(b, 9, 5, 2, "isa: avx512, because vdpbf16ps of this CPU differs from docs/numerics.md in 5 cases");
    chooses(b, 1, 5, 1, "isa: avx2 by switch isa; the CPU has avx512bf16");
}

static void said_once(void **state) {
    (void)state;
    if (!dev_features()) skip();
    lines = 0;
    cadre_listen(hear, NULL);
    switch_set(SWITCH_ISA, 0);
    for (int i = 0; i < 2; i++) {
        cadre_device *d = open_device(1);
        assert_int_equal(d->isa, 0);
        assert_memory_equal(cadre_device_name(d), "cpu ref, 1 thread, ", 19);
        cadre_device_close(d);
    }
    switch_set(SWITCH_ISA, 9);
    cadre_listen(NULL, NULL);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(heard[0], "isa: ref by switch isa"));
}

static void pair(void **state) {
    (void)state;
    uint64_t bad = 7;
    if (!(dev_features() & DEV_AVX512BF16)) {
        assert_false(dev_bf16_pair_exact(100, 1, &bad));
        assert_int_equal(bad, 0);
        skip();
    }
    assert_true(dev_bf16_pair_exact(200000, 1, &bad));
    assert_int_equal(bad, 0);
    assert_true(dev_bf16_pair_exact(1, 2, &bad));
}

static void memory(void **state) {
    (void)state;
    uint64_t bytes = dev_memory_available();
    assert_true(bytes > 1 << 20 && bytes < (uint64_t)1 << 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening), cmocka_unit_test(refusals),  cmocka_unit_test(features), cmocka_unit_test(choice),
        cmocka_unit_test(memory),  cmocka_unit_test(said_once), cmocka_unit_test(pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
