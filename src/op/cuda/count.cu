/* count.cu: tokens per local expert, from a buffer as large as its capacity and a number of tokens that lies on the GPU. Each
 * block of threads takes one run of blocks of BLOCK pairs (op/count.h has the meaning and the shares). Compiled with
 *
 *   BLOCK    pairs of a block          THREADS = 32 * WARPS, so that each thread takes BLOCK / THREADS pairs of it,
 *   WARPS    of a block of threads               or the last threads none
 *   ATOMICS  0: nothing is added; 1: relaxed; 2: acquire and release, which waits for each before the next
 *   PRIVATE  1: in shared memory first, then once for each expert
 *
 * All ids of a block are loaded before the first addition, so that a thread waits for memory once a block.
 */
#include "count.cuh"

enum { THREADS = 32 * WARPS, EACH = (BLOCK + THREADS - 1) / THREADS };

static __device__ __forceinline__ void add(int *to, int n) {
#if ATOMICS == 2
    asm volatile("{\n.reg .s32 before;\natom.acq_rel.gpu.global.add.s32 before, [%0], %1;\n}" ::"l"(to), "r"(n) : "memory");
#elif ATOMICS == 1
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(n) : "memory");
#endif
}

static __device__ __forceinline__ long long pairs_of(const count_args &a) {
    long long valid = *a.valid, all = a.capacity * a.k;
    valid = valid < 0 ? 0 : valid > a.capacity ? a.capacity : valid;
    return valid * a.k + a.extra < all ? valid * a.k + a.extra : all;
}

/* The local expert of an id, -1: none of them. */
static __device__ __forceinline__ int local_of(const count_args &a, long long id) {
    unsigned long long from = (unsigned long long)id - (unsigned long long)a.start;
    return id >= a.start && from < (unsigned long long)a.local ? (int)from : -1;
}

/* This thread's pairs of the block at `at`, as local experts. */
static __device__ __forceinline__ void load(const count_args &a, long long at, long long end, int (&expert)[EACH]) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int q = i * THREADS + (int)threadIdx.x;
        expert[i] = q < BLOCK && at + q < end ? local_of(a, a.ids[at + q]) : -1;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) count(const __grid_constant__ count_args a) {
    extern __shared__ int own[]; /* PRIVATE: [local] */
    long long pairs = pairs_of(a), blocks = (pairs + BLOCK - 1) / BLOCK;
    long long run = (blocks + gridDim.x - 1) / gridDim.x * BLOCK, at = run * blockIdx.x;
    long long end = at + run < pairs ? at + run : pairs;
    int expert[EACH], seen = 0;
    if (PRIVATE) {
        for (int i = (int)threadIdx.x; i < a.local; i += THREADS) own[i] = 0;
        __syncthreads();
    }
    for (; at < end; at += BLOCK) {
        load(a, at, end, expert);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (!ATOMICS)
                seen += expert[i];
            else if (expert[i] >= 0 && PRIVATE)
                atomicAdd(&own[expert[i]], 1);
            else if (expert[i] >= 0)
                add(&a.counts[expert[i]], 1);
        }
    }
    if (!ATOMICS && seen == 0x7fffffff) *a.never = seen;
    if (!PRIVATE) return;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < a.local; i += THREADS)
        if (own[i]) add(&a.counts[i], own[i]);
}

/* What a launch of this size costs that does nothing. */
extern "C" __global__ void __launch_bounds__(THREADS) empty(const __grid_constant__ count_args a) {
}
