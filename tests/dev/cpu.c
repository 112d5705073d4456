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

static void field(const char *id) {
    printf("field %s ok\n", id);
}

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
    assert_int_equal(cadre_device_threads(d), cpus_threads(&d->cpus, 0));
    assert_in_range(d->cpus.count, 1, d->cpus.online);
    cadre_device_close(d);
    cadre_device_close(NULL);
}

static void refusals(void **state) {
    (void)state;
    cadre_device *d = NULL;
    cadre_fail why;
    assert_int_equal(cadre_device_open(&(cadre_device_options){"tpu:0", 0, false}, &d, &why), CADRE_UNSUPPORTED);
    assert_string_equal(why.text, "device 'tpu:0' is not known, expected cpu, cuda, cuda:N or cuda:current");
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

/* Without /sys no size is known, and the smallest models must not seem to come from memory. */
static void unknown_cache(void **state) {
    (void)state;
    cadre_device *device;
    assert_int_equal(cadre_device_open(&(cadre_device_options){.threads = 1}, &device, NULL), CADRE_OK);
    long l3 = device->l3;
    if (l3 > 0) assert_int_equal(dev_last_cache(device), l3);
    device->l3 = 0;
    assert_int_equal(dev_last_cache(device), 32 << 20);
    cadre_device_close(device);
}

/* Field reports P02 and P03: a CPU without AVX-512, without AVX2, without AVX, or under a system that does not save the
 * wide registers, gets a lower set, never an instruction it lacks; and where nothing is left, a line tells. */
static void masked(void **state) {
    (void)state;
    const dev_cpuid all = {.c1 = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29, /* FMA, OSXSAVE, AVX, F16C */
                           .b7 = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31,
                           .c7 = 1u << 11,
                           .a71 = 1u << 5,
                           .saved = 0xE7};
    const unsigned avx2 = DEV_AVX2_FMA, wide = avx2 | DEV_AVX512, best = wide | DEV_AVX512BF16;
    dev_cpuid r = all;
    char line[200];
    assert_int_equal(dev_features_of(&all), best);
    for (int bit = 0; bit < 32; bit++) { /* every bit alone: only those that a set needs count */
        r = all, r.c1 &= ~(1u << bit);
        assert_int_equal(dev_features_of(&r), bit == 12 || (bit >= 27 && bit <= 29) ? 0 : best);
        r = all, r.b7 &= ~(1u << bit);
        assert_int_equal(dev_features_of(&r), bit == 5                                           ? 0
                                              : bit == 16 || bit == 17 || bit == 30 || bit == 31 ? avx2
                                                                                                 : best);
        r = all, r.c7 &= ~(1u << bit);
        assert_int_equal(dev_features_of(&r), bit == 11 ? wide : best);
        r = all, r.a71 &= ~(1u << bit);
        assert_int_equal(dev_features_of(&r), bit == 5 ? wide : best);
        r = all, r.saved &= ~(1ull << bit);
        assert_int_equal(dev_features_of(&r), bit == 1 || bit == 2 ? 0 : bit >= 5 && bit <= 7 ? avx2 : best);
    }
    r = all, r.b7 = 1u << 5, r.c7 = r.a71 = 0, r.saved = 7; /* P02: AVX2 alone */
    assert_int_equal(dev_choose_isa(dev_features_of(&r), 9, 0, line, sizeof line), 1);
    assert_string_equal(line, "");
    assert_int_equal(dev_choose_isa(dev_features_of(&r), 2, 0, line, sizeof line), 1);
    assert_string_equal(line, "isa: avx2, because the CPU lacks avx512");
    field("P02");
    r = (dev_cpuid){.c1 = 1u << 19 | 1u << 20}; /* P03: SSE4.2 at most */
    assert_int_equal(dev_choose_isa(dev_features_of(&r), 9, 0, line, sizeof line), 0);
    assert_string_equal(line, "isa: ref (plain C, slow), because the CPU lacks AVX2 with FMA and F16C");
    field("P03");
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
    chooses(0, 9, 0, 0, "isa: ref (plain C, slow), because the CPU lacks AVX2 with FMA and F16C");
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
    switch_set(SWITCH_MEMORY, 3);
    assert_true(dev_memory_available() == 3000000);
    switch_set(SWITCH_MEMORY, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),       cmocka_unit_test(refusals),  cmocka_unit_test(features),
        cmocka_unit_test(unknown_cache), cmocka_unit_test(choice),    cmocka_unit_test(masked),
        cmocka_unit_test(memory),        cmocka_unit_test(said_once), cmocka_unit_test(pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
