/* one.cu: the experts of a MoE layer for one token in one launch: up product with the activation, down product, combine.
 *
 * Nothing is drawn, listed or counted: every block has its share. Of the up product a block has row tiles of whichever slot,
 * one a warp; of the down product one row tile of all slots, one slot a warp. So a warp's weights are one stream of chunks
 * (64 inputs, 2 KB), and each lane copies into the warp's ring what it will read itself:
 *
 *     ids --> up, up, up ... up, down, down ... down          FLYING chunks are on their way, at any time
 *              '--> h (of every block) --> '--> y of all slots --> out
 *
 * While h is awaited the ring fills with the down product's weights. The router's ids and h are told by their data (told.cuh).
 * A block has all slots of its columns and combines them itself. Shares are fixed: a block that finds no free multiprocessor is
 * waited for by all others.
 *
 * The first of the 8 columns of mma.m16n8k16 is the token: the bits are those of experts.cu (docs/numerics.md).
 */
#include "common.cuh"
#include "experts.cuh"
#include "experts_shape.cuh"
#include "told.cuh"

#define THREADS     (32 * WARPS)
#define CHUNK       ONE_CHUNK
#define UP_CHUNKS   (UP_STEPS / 4)
#define DOWN_CHUNKS (DOWN_STEPS / 4)
#define LATER       1 /* barrier: this block's part of the up product is done but for the activation */
#define PIECES      ((DOWN_STEPS * 2 + 31) / 32) /* of h: 16 bytes a lane, the inputs of 4 chunks */

static_assert(UP_STEPS % 4 == 0 && DOWN_STEPS % 4 == 0 && D_MODEL % 16 == 0, "whole chunks, whole row tiles");
static_assert(WARPS >= CHOSEN && FLYING < STAGES && STAGES >= 4, "a slot a warp");

struct shared {
    u8 ring[WARPS][STAGES][CHUNK];
    uint4 x[UP_STEPS * 2]; /* in lane order */
    u32 y[CHOSEN][8];      /* two columns each */
    float weight[CHOSEN];
    int id[CHOSEN], parity, before;
};
static_assert(sizeof(shared) <= ONE_SHARED(WARPS, STAGES, D_MODEL, CHOSEN), "experts.cuh");

/* ---- what is there before the router's choice, and the choice ---- */
/* 8 inputs from the i-th on, as bf16. */
DEVICE uint4 load_x(const experts_args &a, int i) {
    if (!a.x_f32) return __ldcg((const uint4 *)(a.x + i));
    const float4 *x = (const float4 *)((const float *)a.x + i);
    return to_bf16x8(__ldcg(x), __ldcg(x + 1));
}
DEVICE void take_x(const experts_args &a, shared &s, int thread, int threads) {
    for (int i = thread; i < UP_STEPS * 2; i += threads) {
        uint4 v = load_x(a, i * 8);
        u32 *to = (u32 *)(s.x + i / 4 * 4) + i % 4;
        to[0] = v.x, to[4] = v.y, to[8] = v.z, to[12] = v.w;
    }
}
/* By one warp. */
DEVICE void take_ids(const experts_args &a, shared &s, int lane) {
    int state = load_relaxed(a.state), id = -1;
    const int *told = state & 1 ? a.told_ids[1] : a.told_ids[0];
    if (lane == 0) s.parity = state & 1, s.before = state >> 1;
    if (lane >= CHOSEN) return;
    while (id == -1) id = load_relaxed(told + lane);
    s.id[lane] = id;
}

/* ---- a warp's weights ---- */
struct stream {
    const u8 *up, *down; /* this lane's part of the first chunk of each */
    int ups, all;        /* chunks of the up product, of both */
    u32 ring;            /* this lane's part of the first stage */
    int asked, to, from; /* chunks so far; stages of the next to ask for and of the next to multiply */
    u64 policy;
};
/* A group of copies more, empty behind the last chunk. */
DEVICE void ask(stream &w) {
    if (w.asked < w.all) {
        const u8 *from = w.asked < w.ups ? w.up + (size_t)w.asked * (UP_ROWS * CHUNK) : w.down + (size_t)(w.asked - w.ups) * (DOWN_ROWS * CHUNK);
        u32 to = w.ring + (u32)w.to * CHUNK;
#pragma unroll
        for (u32 i = 0; i < CHUNK; i += 512) copy16_hint(to + i, from + i, w.policy);
    }
    copies_end();
    w.asked++;
    if (++w.to == STAGES) w.to = 0;
}
/* Four steps: x, y are the activations of two each. */
DEVICE void multiply(stream &w, float *c, uint4 x, uint4 y) {
    uint4 v[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) v[i] = load_shared16(w.ring + (u32)w.from * CHUNK + i * 512);
    mma(c, v[0], x.x, x.y), mma(c, v[1], x.z, x.w);
    mma(c, v[2], y.x, y.y), mma(c, v[3], y.z, y.w);
    if (++w.from == STAGES) w.from = 0;
}

/* ---- the up product ---- */
/* h: where the slot's activations go. */
DEVICE void store_up(const experts_args &a, bf16 *h, int tile, const float *c, int lane) {
    int g = lane >> 2;
    bool first = (lane & 3) == 0; /* lanes with the token's column */
#if ACT == 2
    if (first) store_relaxed(h + tile * 16 + 2 * g, to_bf16x2(relu2(c[0]), relu2(c[2])));
#else
    float mine = activate(a, c[0], c[2]), next = __shfl_down_sync(~0u, mine, 4);
    if (first && g % 2 == 0) store_relaxed(h + tile * 8 + g, to_bf16x2(mine, next));
#endif
}
DEVICE void make_up(const experts_args &a, const shared &s, stream &w, bf16 *h, int tile, int lane) {
    float c[4] = {};
    u32 x = shared_address(s.x) + (u32)(lane & 3) * 16;
#pragma unroll 1
    for (int i = 0; i < UP_CHUNKS; i++, x += 128) {
        copies_wait<FLYING - 1>();
        multiply(w, c, load_shared16(x), load_shared16(x + 64));
        ask(w);
    }
    arrive_warps(LATER, THREADS);
    store_up(a, h, tile, c, lane);
}

/* ---- the down product ---- */
DEVICE uint4 from_lane(uint4 v, int lane) {
    return make_uint4(__shfl_sync(~0u, v.x, lane), __shfl_sync(~0u, v.y, lane), __shfl_sync(~0u, v.z, lane), __shfl_sync(~0u, v.w, lane));
}
/* h: the slot's. */
DEVICE void make_down(shared &s, stream &w, const bf16 *h, int slot, int lane) {
    float c[4] = {};
    uint4 v[PIECES];
    int q = lane & 3;
#pragma unroll 1
    for (int i = FLYING; i < STAGES; i++) { /* no more on their way than before */
        copies_wait<FLYING - 1>();
        ask(w);
    }
    h += lane * 8;
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (i * 32 + lane < DOWN_STEPS * 2) v[i] = load_relaxed16(h + i * 256);
#pragma unroll 1
    for (int i = 0; i < DOWN_CHUNKS; i += 4, h += 256) {
        if (i * 8 + lane < DOWN_STEPS * 2)
            while (!is_told(v[0])) v[0] = load_relaxed16(h);
        __syncwarp();
        copies_wait<STAGES - 4>();
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < DOWN_CHUNKS) multiply(w, c, from_lane(v[0], j * 8 + q), from_lane(v[0], j * 8 + 4 + q));
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (STAGES < DOWN_CHUNKS)
                ask(w);
            else
                copies_end();
#pragma unroll
        for (int j = 1; j < PIECES; j++) v[j - 1] = v[j];
    }
    if (q == 0) s.y[slot][lane >> 2] = to_bf16x2(c[0], c[2]);
}
/* One column, slots in order, fp32, rounded once. */
DEVICE void combine(const experts_args &a, const shared &s, int column) {
    int at = (int)blockIdx.x * 16 + column;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.id[i] >= 0) sum = __fmaf_rn(s.weight[i], from_bf16(((const bf16 *)s.y[i])[column]), sum);
    if (a.out_bf16)
        ((bf16 *)a.out)[at] = to_bf16(sum);
    else
        ((float *)a.out)[at] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) one(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)memory;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, block = (int)blockIdx.x, blocks = (int)gridDim.x;
    grid_launch_next();
    if (warp == 0)
        take_ids(a, s, lane);
    else
        take_x(a, s, (int)threadIdx.x - 32, THREADS - 32);
    __syncthreads();
    int each = ceil_div(CHOSEN * UP_ROWS, blocks), up = block * each + warp, slot = up / UP_ROWS, tile = up % UP_ROWS;
    int up_id = warp < each && slot < CHOSEN ? s.id[slot] : -1, down_id = warp < CHOSEN && block < DOWN_ROWS ? s.id[warp] : -1;
    bf16 *h = s.parity ? a.told_h[1] : a.told_h[0];
    stream w = {};
    w.up = (const u8 *)a.w_up + ((size_t)max(up_id, 0) * UP_CHUNKS * UP_ROWS + tile) * CHUNK + lane * 16;
    w.down = (const u8 *)a.w_down + ((size_t)max(down_id, 0) * DOWN_CHUNKS * DOWN_ROWS + block) * CHUNK + lane * 16;
    w.ups = up_id < 0 ? 0 : UP_CHUNKS, w.all = w.ups + (down_id < 0 ? 0 : DOWN_CHUNKS);
    w.ring = shared_address(s.ring[warp]) + (u32)lane * 16;
    w.policy = policy_evict_first();
    if (up_id < 0) sync_warps(LATER, THREADS); /* the up product first: every block waits for it */
#pragma unroll 1
    for (int i = 0; i < FLYING; i++) ask(w);
    clear_other(a, s.parity, s.before, (int)threadIdx.x, THREADS);
    if (threadIdx.x == THREADS - 1 && atomicAdd(a.next, 1) == blocks - 1) turn_over(a, s.parity);
    if (up_id >= 0) make_up(a, s, w, h + (size_t)slot * (DOWN_STEPS * 16), tile, lane);
    float weight = 0.0f;
    grid_wait(); /* what else the router writes */
    if (warp == 0 && lane < CHOSEN) weight = __ldcg(a.weights + lane);
    if (down_id >= 0) make_down(s, w, h + (size_t)warp * (DOWN_STEPS * 16), warp, lane);
    if (warp == 0 && lane < CHOSEN) s.weight[lane] = weight;
    __syncthreads();
    if (block < DOWN_ROWS && threadIdx.x < 16) combine(a, s, (int)threadIdx.x);
}
