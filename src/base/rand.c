/* rand.c: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
#include "rand.h"

void rand_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u; /* the key's Weyl sequence: golden ratio, sqrt(3) - 1 */
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double rand_unit(uint64_t key, uint64_t counter_hi, uint64_t counter_lo) {
    uint32_t r[4];
    rand_philox(key, counter_hi, counter_lo, r);
    uint64_t bits = (uint64_t)r[1] << 32 | r[0];
    return (double)(bits >> 11) * 0x1p-53;
}

/* Four numbers come from each counter; the low two bits of the stream's counter choose among them. */
uint32_t rand_u32(rand_stream *r) {
    uint32_t out[4];
    rand_philox(r->key, 0, r->counter >> 2, out);
    return out[r->counter++ & 3];
}

/* Multiply and keep the high half; the few low products that would favour some results are drawn again. */
uint32_t rand_below(rand_stream *r, uint32_t n) {
    uint32_t floor = (0u - n) % n;
    uint64_t m;
    do m = (uint64_t)rand_u32(r) * n;
    while ((uint32_t)m < floor);
    return (uint32_t)(m >> 32);
}

float rand_float(rand_stream *r) {
    return (float)(rand_u32(r) >> 8) * 0x1p-23f - 1;
}

/* One counter for each: its 128 bits give 12 numbers of 10 bits. Their sum is whole, so no order of additions matters;
 * 12 * 1023 / 2 is its mean, and the variance of the result is 1 - 2^-20. */
float rand_normal(rand_stream *r) {
    uint32_t out[4], sum = 0;
    uint64_t block = (r->counter + 3) >> 2;
    rand_philox(r->key, 0, block, out);
    r->counter = (block + 1) << 2;
    for (int i = 0; i < 4; i++) sum += (out[i] >> 22) + (out[i] >> 12 & 1023) + (out[i] >> 2 & 1023);
    return (float)((int)sum - 6138) * 0x1p-10f;
}
