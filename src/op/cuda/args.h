/* args.h: the arguments of the kernels in the device texts, and what decides their sizes, for the host. The texts
 * include the same files. A neighbour's header. */
#ifndef CADRE_OP_CUDA_ARGS_H
#define CADRE_OP_CUDA_ARGS_H
#include "op/cuda/bits.cuh"
#include "op/cuda/count.cuh"
#include "op/cuda/experts.cuh"
#include "op/cuda/lists.cuh"
#include "op/cuda/router.cuh"

/* How pack.cu orders the rows of a matrix. */
enum { PACK_NATURAL, PACK_UP_GATED, PACK_UP, PACK_DOWN };

/* Steps of 16 inputs that `width` inputs take, and row tiles of 16 that `width` outputs of the down product take. */
static inline int cuda_steps(int width) {
    return (width + 31) / 32 * 2;
}
static inline int cuda_tiles(int width) {
    return (width + 15) / 16;
}
/* Row tiles of the up product: of width f, gated or not. */
static inline int cuda_up_tiles(int f, int gated) {
    return cuda_steps(f) * (gated ? 2 : 1);
}
#endif
