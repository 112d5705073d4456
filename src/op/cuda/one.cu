/* one.cu: the experts of a MoE layer for one token in one launch: up product with the activation, down product, combine.
 *
 * Nothing is drawn, listed or counted: every block has its share. Of the up product a block has UPS row tiles of whichever
 * slot, one a warp; of the down product row tiles of all slots, a row tile of one slot a warp: DOWNS of them in the first FULL
 * blocks, one fewer in the others. (Up tiles are dealt from the last block on, so those left without one are full ones.) A
 * warp's weights are one stream of chunks (64 inputs, 2 KB), and each lane copies into the warp's ring what it will read itself:
 *
 *     ids --> up, up, up ... up, down, down ... down          FLYING chunks are on their way until the ring is full
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

#define UPS         ONE_EACH(CHOSEN * UP_ROWS, BLOCKS)
#define DOWNS       ONE_EACH(DOWN_ROWS, BLOCKS)
#define FULL        (DOWN_ROWS - (DOWNS - 1) * BLOCKS)
#define WARPS       ONE_WARPS(UPS, DOWNS, CHOSEN)
#define THREADS     (32 * WARPS)
#define CHUNK       ONE_CHUNK
#define UP_CHUNKS   (UP_STEPS / 4)
#define DOWN_CHUNKS (DOWN_STEPS / 4)
#define LAST        4 /* chunks of the ring that are asked for while h is on its way */
#define LATER       1 /* barrier: this block's part of the up product is done but for the activation */
#define PIECES      ((DOWN_STEPS * 2 + 31) / 32) /* of h: 16 bytes a lane, the inputs of 4 chunks */

/* A warp's ring in a full block has STAGES chunks; in the others, where they have a row tile of the down product too, fewer
 * warps may share the same memory. */
#define RING         (WARPS * STAGES)
#define STAGES_OTHER (DOWNS == 1 ? STAGES : RING / ONE_WARPS(UPS, DOWNS - 1, CHOSEN))

static_assert(UP_STEPS % 4 == 0 && DOWN_STEPS % 4 == 0 && D_MODEL % 16 == 0, "whole chunks, whole row tiles");
static_assert(FLYING >= 1 && FLYING <= STAGES && STAGES >= 2, "what is on its way has its place");

struct shared {
    u8 ring[RING][CHUNK];
    uint4 x[UP_STEPS * 2];   /* in lane order */
    u32 y[DOWNS][CHOSEN][8]; /* two columns each */
    float weight[CHOSEN];
    int id[CHOSEN], parity, before;
};
static_assert(sizeof(shared) <= ONE_SHARED(WARPS, STAGES, D_MODEL, CHOSEN, DOWNS), "experts.cuh");

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
template <int DEPTH> struct stream {
    const u8 *up, *down;   /* this lane's part of the first chunk of each */
    int up_chunks, chunks; /* of the up product, of both */
    u32 ring;              /* this lane's part of the first stage */
    int asked, to, from;   /* chunks so far; stages of the next to ask for and of the next to multiply */
    u64 policy;
};
/* up_id, down_id: experts, or -1; the row tiles: of theirs. */
template <int DEPTH> DEVICE stream<DEPTH> open_stream(const experts_args &a, shared &s, int up_id, int up_tile, int down_id, int down_tile) {
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    stream<DEPTH> w = {};
    w.up = (const u8 *)a.w_up + ((size_t)max(up_id, 0) * UP_CHUNKS * UP_ROWS + up_tile) * CHUNK + lane * 16;
    w.down = (const u8 *)a.w_down + ((size_t)max(down_id, 0) * DOWN_CHUNKS * DOWN_ROWS + down_tile) * CHUNK + lane * 16;
    w.up_chunks = up_id < 0 ? 0 : UP_CHUNKS, w.chunks = w.up_chunks + (down_id < 0 ? 0 : DOWN_CHUNKS);
    w.ring = shared_address(s.ring) + (u32)(warp * DEPTH) * CHUNK + (u32)lane * 16; /* a warp with nothing to do may have none */
    w.policy = policy_evict_first();
    return w;
}
/* A group of copies more, empty behind the last chunk. */
template <int DEPTH> DEVICE void ask(stream<DEPTH> &w) {
    if (w.asked < w.chunks) {
        const u8 *from = w.asked < w.up_chunks ? w.up + (size_t)w.asked * (UP_ROWS * CHUNK)
                                               : w.down + (size_t)(w.asked - w.up_chunks) * (DOWN_ROWS * CHUNK);
        u32 to = w.ring + (u32)w.to * CHUNK;
#pragma unroll
        for (u32 i = 0; i < CHUNK; i += 512) copy16_hint(to + i, from + i, w.policy);
    }
    copies_end();
    w.asked++;
    if (++w.to == DEPTH) w.to = 0;
}
struct chunk {
    uint4 v[4];
};
template <int DEPTH> DEVICE chunk take(stream<DEPTH> &w) {
    chunk k;
#pragma unroll
    for (u32 i = 0; i < 4; i++) k.v[i] = load_shared16(w.ring + (u32)w.from * CHUNK + i * 512);
    if (++w.from == DEPTH) w.from = 0;
    return k;
}
/* Four steps: x, y are the activations of two each. */
DEVICE void multiply(float *c, const chunk &k, uint4 x, uint4 y) {
    mma(c, k.v[0], x.x, x.y), mma(c, k.v[1], x.z, x.w);
    mma(c, k.v[2], y.x, y.y), mma(c, k.v[3], y.z, y.w);
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
template <int DEPTH> DEVICE void make_up(const experts_args &a, const shared &s, stream<DEPTH> &w, bf16 *h, int tile, int lane) {
    float c[4] = {};
    u32 x = shared_address(s.x) + (u32)(lane & 3) * 16;
#pragma unroll 1
    for (int i = 0; i < UP_CHUNKS; i++, x += 128) {
        copies_wait<FLYING - 1>();
        multiply(c, take(w), load_shared16(x), load_shared16(x + 64));
        ask(w);
    }
    arrive_warps(LATER, THREADS);
    store_up(a, h, tile, c, lane);
}

/* ---- the down product ---- */
DEVICE uint4 from_lane(uint4 v, int lane) {
    return make_uint4(__shfl_sync(~0u, v.x, lane), __shfl_sync(~0u, v.y, lane), __shfl_sync(~0u, v.z, lane), __shfl_sync(~0u, v.w, lane));
}
/* So many chunks more, no more on their way than before. */
template <int DEPTH> DEVICE void fill_ring(stream<DEPTH> &w, int chunks) {
#pragma unroll 1
    for (int i = 0; i < chunks; i++) {
        copies_wait<FLYING - 1>();
        ask(w);
    }
}
DEVICE bool has_piece(int i, int lane) {
    return i * 32 + lane < DOWN_STEPS * 2;
}
/* h: the slot's, from this lane's place on. All that is not told yet is read again at once. */
DEVICE void take_h(uint4 *v, const bf16 *h, int lane) {
    for (bool told = false; !told;) {
        told = true;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (has_piece(i, lane) && !is_told(v[i])) v[i] = load_relaxed16(h + i * 256), told = false;
    }
    __syncwarp();
}
/* h: the slot's. It is read first while the ring's last chunks are asked for. A chunk is taken while the one before it is
 * multiplied. */
template <int DEPTH> DEVICE void make_down(stream<DEPTH> &w, u32 *y, const bf16 *h, int lane) {
    enum { TAIL = DEPTH - FLYING < LAST ? DEPTH - FLYING : LAST };
    float c[4] = {};
    uint4 v[PIECES];
    int q = lane & 3;
    h += lane * 8;
    fill_ring(w, DEPTH - FLYING - TAIL);
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (has_piece(i, lane)) v[i] = load_relaxed16(h + i * 256);
    fill_ring(w, TAIL);
    take_h(v, h, lane);
    copies_wait<DEPTH - 1>();
    chunk k = take(w);
#pragma unroll 1
    for (int i = 0; i < DOWN_CHUNKS; i += 4) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (i + j >= DOWN_CHUNKS) break;
            copies_wait<DEPTH - 2>();
            chunk next = take(w);
            multiply(c, k, from_lane(v[0], j * 8 + q), from_lane(v[0], j * 8 + 4 + q));
            if (DEPTH < DOWN_CHUNKS)
                ask(w);
            else
                copies_end();
            k = next;
        }
#pragma unroll
        for (int j = 1; j < PIECES; j++) v[j - 1] = v[j];
    }
    if (q == 0) y[lane >> 2] = to_bf16x2(c[0], c[2]);
}
/* One column of the nth row tile, slots in order, fp32, rounded once. */
DEVICE void combine(const experts_args &a, const shared &s, int nth, int column) {
    int at = (nth * BLOCKS + (int)blockIdx.x) * 16 + column;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.id[i] >= 0) sum = __fmaf_rn(s.weight[i], from_bf16(((const bf16 *)s.y[nth][i])[column]), sum);
    if (a.out_bf16)
        ((bf16 *)a.out)[at] = to_bf16(sum);
    else
        ((float *)a.out)[at] = sum;
}

/* This block's share of both products. */
template <int DEPTH> DEVICE void make_share(const experts_args &a, shared &s, int downs) {
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, block = (int)blockIdx.x;
    int up = (BLOCKS - 1 - block) * UPS + warp, up_slot = up / UP_ROWS, up_tile = up % UP_ROWS;
    int nth = warp / CHOSEN, down_slot = warp % CHOSEN;
    int up_id = warp < UPS && up_slot < CHOSEN ? s.id[up_slot] : -1, down_id = nth < downs ? s.id[down_slot] : -1;
    bf16 *h = s.parity ? a.told_h[1] : a.told_h[0];
    stream<DEPTH> w = open_stream<DEPTH>(a, s, up_id, up_tile, down_id, nth * BLOCKS + block);
    if (up_id < 0) sync_warps(LATER, THREADS); /* the up product first: every block waits for it */
#pragma unroll 1
    for (int i = 0; i < FLYING; i++) ask(w);
    clear_other(a, s.parity, s.before, (int)threadIdx.x, THREADS);
    if (threadIdx.x == THREADS - 1 && atomicAdd(a.next, 1) == BLOCKS - 1) turn_over(a, s.parity);
    if (up_id >= 0) make_up(a, s, w, h + (size_t)up_slot * (DOWN_STEPS * 16), up_tile, lane);
    float weight = 0.0f;
    grid_wait(); /* what else the router writes */
    if (warp == 0 && lane < CHOSEN) weight = __ldcg(a.weights + lane);
    if (down_id >= 0) make_down(w, s.y[nth][down_slot], h + (size_t)down_slot * (DOWN_STEPS * 16), lane);
    if (warp == 0 && lane < CHOSEN) s.weight[lane] = weight;
    __syncthreads();
    if ((int)threadIdx.x < downs * 16) combine(a, s, (int)threadIdx.x / 16, (int)threadIdx.x % 16);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) one(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)memory;
    int block = (int)blockIdx.x;
    grid_launch_next();
    if (threadIdx.x < 32)
        take_ids(a, s, (int)threadIdx.x);
    else
        take_x(a, s, (int)threadIdx.x - 32, THREADS - 32);
    __syncthreads();
    int downs = block < FULL ? DOWNS : DOWNS - 1;
    if (STAGES == STAGES_OTHER || block < FULL)
        make_share<STAGES>(a, s, downs);
    else
        make_share<STAGES_OTHER>(a, s, downs);
}
