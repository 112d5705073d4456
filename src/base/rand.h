/* rand.h: counter-based random numbers (Philox4x32-10): a pure function of key and counter, no state to carry. */
#ifndef CADRE_BASE_RAND_H
#define CADRE_BASE_RAND_H
#include <stdint.h>

void rand_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]);
/* In [0, 1), 53 bits. The same arguments give the same number on every machine. */
double rand_unit(uint64_t key, uint64_t counter_hi, uint64_t counter_lo);

/* A stream over it for tests and random weights. */
typedef struct rand_stream {
    uint64_t key, counter;
} rand_stream;
uint32_t rand_u32(rand_stream *r);
uint32_t rand_below(rand_stream *r, uint32_t n); /* 0..n-1, unbiased; n >= 1 */
float rand_float(rand_stream *r);                /* uniform in [-1, 1) */
float rand_normal(rand_stream *r); /* sum of 12 uniforms less its mean: cheap, within +-6, same bits everywhere */
#endif
