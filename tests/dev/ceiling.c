/* ceiling: every read loop reads every byte; the figures are sane and agree with each other. */
#include "dev/ceiling.h"
#include "dev/dev.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Flipping any one bit must change the result: walk over one bit in each 8 bytes' neighbourhood of every cache line. */
static void reads(void **state) {
    (void)state;
    enum { BYTES = 3 * CEILING_STEP };
    unsigned char *p = mem_new(BYTES + CEILING_AHEAD);
    assert_non_null(p);
    uint64_t want = 0;
    for (size_t i = 0; i < BYTES; i++) p[i] = (unsigned char)(i * 31 >> 3);
    for (size_t i = 0; i < BYTES / 8; i++) want ^= ((const uint64_t *)p)[i];
    for (int k = 0; k < ceiling_read_count; k++) {
        const ceiling_read *r = &ceiling_reads[k];
        if ((dev_features() & r->features) != r->features) continue;
        assert_true(r->read(p, BYTES) == want);
        for (size_t i = 0; i < BYTES; i += 8) {
            p[i] ^= 1;
            assert_true(r->read(p, BYTES) == (want ^ 1));
            p[i] ^= 1;
        }
    }
    mem_free(p);
}

static void figures(void **state) {
    (void)state;
    cadre_device *d = NULL;
    assert_int_equal(cadre_device_open(&(cadre_device_options){"cpu", 0, false}, &d, NULL), CADRE_OK);
    dev_ceiling c = {0};
    cadre_fail why;
    assert_int_equal(dev_measure(d, 32 << 20, 3, &c, &why), CADRE_OK);
    print_message("read %.1f GB/s, one thread %.1f; fma %.0f GF/s, bf16 pairs %.0f GF/s\n", c.read_gbps, c.read1_gbps,
                  c.fma_gflops, c.bf16_gflops);
    assert_true(c.read_gbps > 0.1 && c.read_gbps < 100000);
    assert_true(c.read1_gbps > 0.1 && c.read1_gbps < 2000);
    assert_true(c.fma_gflops > 0.1 && c.fma_gflops < 1e6);
    assert_int_equal(c.bf16_gflops > 0, d->isa == 3);
    assert_int_equal(dev_measure(d, 10, 1, &c, &why), CADRE_RANGE);
    mem_fail_after(0);
    assert_int_equal(dev_measure(d, 1 << 20, 1, &c, &why), CADRE_NOMEM);
    mem_fail_after(-1);
    static _Alignas(64) char small[4 * CEILING_STEP];
    assert_true(dev_read_gbps(d, small, sizeof small, 1) > 0);
    assert_true(dev_read_gbps(d, small, 10, 1) == 0);
    cadre_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads), cmocka_unit_test(figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
