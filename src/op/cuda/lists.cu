/* lists.cu: what the expert kernel needs where no router made it: each expert's list of pairs from ids that the caller
 * gives, and for a shared expert, which every token goes to; the tokens' activations as the experts want them. And the last
 * rounding of a sum of two parts. Shapes are arguments: this is compiled once.
 */
#include "common.cuh"
#include "lists.cuh"

DEVICE u32 load_one(const lists_args &a, size_t row, int i) {
    if (i >= a.d) return 0;
    if (!a.x_f32) return ((const bf16 *)a.x)[row + i];
    return to_bf16(((const float *)a.x)[row + i]);
}
/* Inputs i .. i + 7 of a token as bf16. */
DEVICE uint4 load_eight(const lists_args &a, int token, int i) {
    size_t row = (size_t)token * a.ldx;
    u32 v[4];
    for (int j = 0; j < 4; j++) v[j] = load_one(a, row, i + 2 * j) | load_one(a, row, i + 2 * j + 1) << 16;
    return make_uint4(v[0], v[1], v[2], v[3]);
}
DEVICE void take_x(const lists_args &a, int thread, int threads) {
    int parts = (int)(a.ldq / 8);
    for (int i = thread; i < a.n * parts; i += threads) {
        int token = i / parts, p = i % parts;
        uint4 v = load_eight(a, token, p * 8);
        if (a.xb) *(uint4 *)(a.xb + (size_t)token * a.ldq + p * 8) = v;
        if (!a.xq) continue;
        u32 *to = (u32 *)(a.xq + (size_t)token * a.ldq + p / 4 * 32 + p % 4 * 2);
        to[0] = v.x, to[4] = v.y, to[8] = v.z, to[12] = v.w;
    }
}

/* The caller's routing. */
extern "C" __global__ void __launch_bounds__(256) lists(const __grid_constant__ lists_args a) {
    int thread = (int)(blockIdx.x * blockDim.x + threadIdx.x), threads = (int)(gridDim.x * blockDim.x);
    grid_wait();
    grid_launch_next();
    int n = valid_tokens(a.n, a.valid, a.before);
    for (int i = thread; i < a.n * a.k; i += threads) {
        int id = a.given[i];
        if (id < 0 || id >= a.e || i >= n * a.k) id = -1;
        a.ids[i] = id;
        if (a.told[0]) store_relaxed((*(volatile const int *)a.state & 1 ? a.told[1] : a.told[0]) + i, (u32)(id < 0 ? -2 : id));
        if (id >= 0 && !a.told[0]) a.list[(size_t)id * a.cap + atomicAdd(&a.counts[id], 1)] = i;
    }
    if (a.xq || a.xb) take_x(a, thread, threads);
}

/* Every token to one expert, by a warp a token. The gate's sum: 32 chains over every 32nd input, then a tree. */
extern "C" __global__ void __launch_bounds__(256) single(const __grid_constant__ lists_args a) {
    int token = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = (int)threadIdx.x & 31;
    float sum = 0.0f;
    grid_wait();
    grid_launch_next();
    if (token >= a.n) return;
    if (a.gate) {
        for (int i = lane; i < a.d; i += 32) {
            size_t at = (size_t)token * a.ldx + i;
            bf16 x = a.x_f32 ? to_bf16(((const float *)a.x)[at]) : ((const bf16 *)a.x)[at];
            sum = __fmaf_rn(a.gate[i], from_bf16(x), sum);
        }
        for (int d = 16; d > 0; d /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, d));
    }
    if (lane > 0) return;
    int n = valid_tokens(a.n, a.valid, a.before);
    if (token == 0) a.counts[0] = n;
    a.list[token] = token;
    a.ids[token] = token < n ? 0 : -1;
    a.weights[token] = a.gate ? sigmoid_id(sum) : 1.0f;
}

/* to = from, fp32 rounded to bf16 once. */
extern "C" __global__ void __launch_bounds__(256) round_out(bf16 *to, const float *from, size_t count) {
    grid_wait();
    grid_launch_next();
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = to_bf16(from[i]);
}
