// probe.cu: what the ceilings of a GPU are measured with. Not a part of any model.

typedef unsigned int u32;
typedef unsigned long long u64;

// Words that no memory can squeeze and that toggle as many lines as weights do. count: 16-byte words.
extern "C" __global__ void fill(uint4 *to, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        u64 x = (i + 1) * 0x9E3779B97F4A7C15ull, y = (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
        to[i] = make_uint4((u32)x, (u32)(x >> 32), (u32)y, (u32)(y >> 32));
    }
}

// 16 bytes of a stream that is read once: nothing stays in the L1.
static __device__ __forceinline__ uint4 load(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// Reads count 16-byte words, AHEAD per thread in flight. Every block takes tiles of AHEAD x its threads, in turns; the
// tail that fills no tile is left. Each warp writes the xor of what it read, so that nothing can be left out.
template <int AHEAD> static __device__ __forceinline__ void read(const uint4 *from, u64 count, u32 *seen) {
    u32 sum = 0;
    u64 tile = (u64)AHEAD * blockDim.x, tiles = count / tile;
    for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
        const uint4 *p = from + t * tile + threadIdx.x;
        uint4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) v[i] = load(p + i * blockDim.x);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    for (int lane = 16; lane; lane >>= 1) sum ^= __shfl_xor_sync(~0u, sum, lane);
    if (!(threadIdx.x & 31)) seen[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = sum;
}

extern "C" __global__ void __launch_bounds__(512) read4(const uint4 *from, u64 count, u32 *seen) {
    read<4>(from, count, seen);
}
extern "C" __global__ void __launch_bounds__(512) read8(const uint4 *from, u64 count, u32 *seen) {
    read<8>(from, count, seen);
}

// The price of a launch.
extern "C" __global__ void nothing() {}
