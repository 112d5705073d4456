/* probe.h: what the tests of op share: cmocka, the floating-point mode of a team, buffers that end at a guard page,
 * seeded values of several flavours, and equality of bits. */
#ifndef TESTS_OP_PROBE_H
#define TESTS_OP_PROBE_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "op/kernel.h"
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

/* Denormals are zero, as in every member of a team. */
static inline void probe_flush(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

/* NULL if the CPU can run kernels of this level, else what it lacks. */
static inline const char *probe_lacks(op_isa isa) {
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    bool has[] = {true, avx2, avx2 && avx512, avx2 && avx512 && __builtin_cpu_supports("avx512bf16")};
#else
    bool has[] = {true, false, false, false};
#endif
    return has[isa] ? NULL : switch_isas[isa];
}

/* Memory whose end is where access ends. One slot is used for many sizes: a test asks again for each case. */
typedef struct guard {
    char *base;
    size_t size; /* without the guard page */
} guard;

/* `bytes` bytes that end at the guard page, so aligned as the size is. */
static inline void *guard_take(guard *g, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (g->base == NULL || bytes > g->size) {
        if (g->base != NULL) munmap(g->base, g->size + page);
        g->size = (bytes * 2 / page + 1) * page;
        g->base = mmap(NULL, g->size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(g->base != MAP_FAILED);
        assert_int_equal(mprotect(g->base + g->size, page, PROT_NONE), 0);
    }
    return g->base + g->size - bytes;
}

/* ---- values ---- */
typedef enum flavour {
    PLAIN, /* within -1..1 */
    TINY,  /* half of them zeros, denormals and values whose products are denormal */
    LARGE, /* a few so large that sums overflow, so infinities and NaNs appear */
    FLAVOURS
} flavour;

static inline float probe_bits(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline float probe_value(rand_stream *r, flavour f) {
    uint32_t u = rand_u32(r), kind = rand_u32(r) % 16;
    if (f == TINY && kind < 2) return probe_bits(u & 0x80000000u);
    if (f == TINY && kind < 5) return probe_bits(u & 0x807fffffu);
    if (f == TINY && kind < 8) return probe_bits((u & 0x807fffffu) | (1 + u % 64) << 23);
    if (f == LARGE && kind == 0) return probe_bits((u & 0x807fffffu) | (186 + u % 68) << 23);
    return (float)(int32_t)u * 0x1p-31f;
}

/* n values of type t; bf16 ones are cut, not rounded, so that denormals stay. Quantized rows are bytes. */
static inline void probe_fill(rand_stream *r, flavour f, cadre_dtype t, void *data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float v = probe_value(r, f);
        if (op_is_quant(t)) {
            ((uint8_t *)data)[i] = (uint8_t)rand_u32(r);
        } else if (t == CADRE_F32) {
            ((float *)data)[i] = v;
        } else {
            uint32_t u;
            memcpy(&u, &v, sizeof u);
            ((uint16_t *)data)[i] = (uint16_t)(u >> 16);
        }
    }
}

/* ---- equality: the same bits, or both NaN ---- */
static inline bool probe_same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Index of the first of n values of type t that differs, -1 if none. */
static inline int64_t probe_differs(cadre_dtype t, const void *a, const void *b, size_t n) {
    if (memcmp(a, b, n * op_dtype_size(t)) == 0) return -1;
    for (size_t i = 0; i < n; i++) {
        if (op_is_quant(t) && ((const uint8_t *)a)[i] != ((const uint8_t *)b)[i]) return (int64_t)i;
        if (!op_is_quant(t) && !probe_same(op_load(t, a, i), op_load(t, b, i))) return (int64_t)i;
    }
    return -1;
}
#endif
