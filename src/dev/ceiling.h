/* ceiling.h: the loops that find the machine's ceilings, one set per instruction set. Private to dev.
 * A read loop returns the xor of all 64-bit words, so that a test can see that it read every byte. */
#ifndef CADRE_DEV_CEILING_H
#define CADRE_DEV_CEILING_H
#include <stddef.h>
#include <stdint.h>

enum { CEILING_STEP = 1024, CEILING_AHEAD = 2048 }; /* bytes: slices are multiples; how far prefetch runs ahead */

typedef uint64_t ceiling_read_fn(const void *from, size_t bytes); /* bytes % CEILING_STEP == 0, 64-byte aligned */
typedef struct ceiling_read {
    const char *name;
    unsigned features; /* dev_feature bits it needs */
    ceiling_read_fn *read;
} ceiling_read;

extern const ceiling_read ceiling_reads[];
extern const int ceiling_read_count;

uint64_t ceiling_read_avx2(const void *from, size_t bytes);
uint64_t ceiling_read_ahead_avx2(const void *from, size_t bytes);
uint64_t ceiling_read_avx512(const void *from, size_t bytes);
uint64_t ceiling_read_ahead_avx512(const void *from, size_t bytes);
uint64_t ceiling_read_streams_avx512(const void *from, size_t bytes);

/* `rounds` rounds of independent chains; returns the floating point operations done. sink keeps the work alive. */
typedef double ceiling_flops_fn(long rounds, volatile float *sink);
double ceiling_fma_avx2(long rounds, volatile float *sink);
double ceiling_fma_avx512(long rounds, volatile float *sink);
double ceiling_pairs_avx512bf16(long rounds, volatile float *sink);
#endif
