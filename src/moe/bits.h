/* bits.h: do the tensor-core instructions that sm90-bf16-k16 lets stand for each other give the same bits on the GPU at
 * hand? mma.sync with either operand first, wgmma of 8 and of 32 tokens with the weights in registers, and with both in
 * shared memory. A neighbour's header. */
#ifndef CADRE_MOE_BITS_H
#define CADRE_MOE_BITS_H
#include "dev/cuda.h"

typedef struct moe_bits {
    int64_t outputs;                            /* of each way: widths of 16 .. 2688, values of three kinds */
    int64_t swapped, wgmma_8, wgmma_32, shared; /* how many differ in any bit from mma.sync with the weights first */
    int64_t backward, fma; /* the same of what must differ: the steps from the last to the first; one fma per input */
    int64_t could;         /* outputs of more than one step, which those two can change */
    double error, most;    /* of mma.sync against the meaning in double: the worst width's, and what may be */
} moe_bits;

/* Errors: UNSUPPORTED (not compute capability 9.0), COMPILE, NOMEM, DEVICE. What differs is no error. */
cadre_err moe_bits_compare(dev_cuda *gpu, uint64_t seed, moe_bits *out, cadre_fail *why);
/* The instructions agree, and the comparison would have shown it if they did not. */
bool moe_bits_ok(const moe_bits *b);
#endif
