/* cuda.h: the words of CUDA that device texts use, for a C++ compiler, over emulate.h. */
#ifndef TESTS_OP_EMULATE_CUDA_H
#define TESTS_OP_EMULATE_CUDA_H
#include "emulate.h"
#include <math.h>
#include <string.h>

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes)
/* `extern __shared__ u8 memory[]` names what the running block has. */
#define __shared__
#define memory *emulate_memory

struct uint4 {
    unsigned x, y, z, w;
};
struct float4 {
    float x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

static inline int max(int a, int b) {
    return a > b ? a : b;
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}

template <class to, class from> static inline to same_bits(from v) {
    static_assert(sizeof(to) == sizeof(from), "as they lie");
    to r;
    memcpy(&r, &v, sizeof r);
    return r;
}
static inline float __uint_as_float(unsigned v) {
    return same_bits<float>(v);
}
static inline unsigned __float_as_uint(float v) {
    return same_bits<unsigned>(v);
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}

template <class type> static inline type __ldcg(const type *p) {
    return *p;
}
static inline int atomicAdd(int *p, int v) {
    int was = *p;
    emulate_told();
    *p += v;
    return was;
}

/* v of another lane; beyond the last, one's own. */
template <class type> static inline type from_other(const char *what, type v, unsigned lane) {
    const unsigned char *items = emulate_meet(what, &v, sizeof v);
    if (lane < 32) memcpy(&v, items + lane * EMULATE_ITEM, sizeof v);
    return v;
}
template <class type> static inline type __shfl_sync(unsigned, type v, int lane) {
    return from_other("__shfl_sync", v, (unsigned)lane % 32);
}
template <class type> static inline type __shfl_down_sync(unsigned, type v, unsigned by) {
    return from_other("__shfl_down_sync", v, threadIdx.x % 32 + by);
}
static inline void __syncwarp() {
    emulate_meet("__syncwarp", nullptr, 0);
}
static inline void __syncthreads() {
    emulate_sync(0, (int)blockDim.x);
}
#endif
