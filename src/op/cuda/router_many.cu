/* router_many.cu: router.cu's work for many tokens (sm_90a): the same choice, weights and lists, bit for bit.
 *
 * A cluster of 8 blocks takes groups of TOKENS tokens by turns. Each block has one eighth of the inputs; its weights stay in
 * shared memory if they fit. A block has warps that
 *
 *     multiply  two gangs of four, which take turns (one, where weights do not stay or inputs have one side): all experts by
 *               this eighth, two row tiles of 16 a warp; each token's
 *               sums go to the block that chooses for it, while the other gang multiplies
 *     load      groups' inputs in the order in which wgmma reads them, and write them out if somebody wants them
 *     choose    for every eighth token, a warp a token: add the eight sums of each expert in ascending order, and route
 *
 * Chosen pairs are counted here; at the end the block takes places in the experts' lists, once an expert. Inputs lie by chunks
 * of 64: [TOKENS][128 bytes], the 16-byte part c of row r at place c ^ (r & 7). Weights come by units: a chunk of up to 8 row
 * tiles.
 */
#include "common.cuh"
#include "cluster.cuh"
#include "router.cuh"
#include "router_parts.cuh"
#include "wgmma.cuh"

#define TOKENS    (8 * TOKEN_TILES)
#define MINE      TOKEN_TILES /* tokens of a group that a block chooses for */
#define RESIDENT  (W_STAGES >= PARTS * CHUNKS)
#define MULTIPLY  8                  /* warps */
#define LOAD      4
#define CHOOSE    8
#define THREADS   ROUTER_MANY_THREADS
#define MORE      120 /* registers of one that multiplies; together no more than the block starts with */
#define LESS      80
#define CHUNKS    ROUTER_CHUNKS(D_MODEL)
#define X_SIDES   (X_STAGES / CHUNKS)                          /* groups whose inputs there is room for, 1 or 2 */
#define GANGS     (RESIDENT && SIDES == 2 && X_SIDES == 2 ? 2 : 1) /* that multiply; each has a side of all that it waits for */
#define EVEN      (QUADS == 8 * EACH && EACH % 2 == 0) /* all eighths are CHUNKS whole chunks */
#define PARTS     ROUTER_PARTS(EXPERTS)                /* of 8 row tiles */
#define PAIR      (TILES <= 4 ? 1 : 2)                 /* row tiles of a warp */
#define X_BYTES   (TOKENS * 128)                       /* of a chunk */
#define UNIT      ROUTER_UNIT(EXPERTS)
#define HELD      8 /* turns whose pairs are not in lists yet */

struct shared {
    u64 full[X_STAGES], empty[X_STAGES];
    u64 weights[W_STAGES];
    u64 told[SIDES], free[SIDES]; /* the sums are there; they have been read, in all blocks */
    int count[EXPERTS], place[EXPERTS];
    short held[HELD][CHOOSE][CHOSEN];
    __align__(16) float sums[SIDES][MINE][8][LINE];
};
static_assert(X_SIDES == 1 || X_SIDES == 2, "plan/gpu.c");
static_assert(32 * (MULTIPLY + LOAD + CHOOSE) == THREADS, "router.cuh");
static_assert(MULTIPLY * MORE + (LOAD + CHOOSE) * LESS <= THREADS / 32 * (65536 / THREADS / 8 * 8), "a block that asks for more waits for ever");
static_assert(X_STAGES * X_BYTES + W_STAGES * UNIT + sizeof(shared) <= ROUTER_MANY_SHARED(TOKENS, EXPERTS, CHOSEN, X_STAGES, W_STAGES, SIDES), "router.cuh");

/* What a block does: by turns, groups of tokens; of their inputs the quads lo .. hi - 1, which lie in so many chunks. */
struct job {
    int lo, hi, first, chunks;
    int rank, group, step, groups; /* its groups: group, group + step, ... of so many */
    u32 x, w;                      /* rings */
};
DEVICE job job_of(const router_args &a, u8 *memory) {
    job j;
    j.rank = (int)cluster_rank(), j.group = (int)blockIdx.x / 8, j.step = (int)gridDim.x / 8;
    j.groups = (a.n + TOKENS - 1) / TOKENS;
    j.lo = min(j.rank * EACH, QUADS), j.hi = min(j.lo + EACH, QUADS);
    j.first = j.lo / 2, j.chunks = j.hi > j.lo ? (j.hi + 1) / 2 - j.first : 0;
    j.x = shared_address(memory), j.w = j.x + X_STAGES * X_BYTES;
    return j;
}
DEVICE int group_first(const job &j, int turn) { /* token */
    return (j.group + turn * j.step) * TOKENS;
}
DEVICE bool has(const job &j, int turn) {
    return j.group + turn * j.step < j.groups;
}

/* ---- barriers ---- */
/* Where the i-th chunk of a turn's inputs is, and how often others were there. */
DEVICE int x_stage(int turn, int i) {
    return turn % X_SIDES * CHUNKS + i;
}
DEVICE u32 x_parity(int turn) {
    return (u32)(turn / X_SIDES & 1);
}
DEVICE void init(shared &s, int lane) {
    for (int i = lane; i < X_STAGES; i += 32) barrier_init(shared_address(&s.full[i]), 1), barrier_init(shared_address(&s.empty[i]), 4);
    for (int i = lane; i < W_STAGES; i += 32) barrier_init(shared_address(&s.weights[i]), 1);
    for (int i = lane; i < SIDES; i += 32) barrier_init(shared_address(&s.told[i]), 1), barrier_init(shared_address(&s.free[i]), 8 * CHOOSE);
    barriers_ready();
}
DEVICE void ready() { /* this block's are there */
    sync_warps(3, THREADS);
}

/* ---- weights ---- */
/* Steps of 16 inputs in a chunk: the last may have 2. */
DEVICE int wide_of(int chunk) {
    return min(4, QUADS * 2 - chunk * 4);
}
/* The chunk-th of this block's, of a part, into a stage. */
DEVICE void fetch(const router_args &a, shared &s, const job &j, int part, int chunk, int stage) {
    int wide = wide_of(j.first + chunk);
    u32 bytes = (u32)(min(8, TILES - part * 8) * wide * 512), there = shared_address(&s.weights[stage]);
    barrier_expect(there, bytes);
    bulk_copy(j.w + (u32)stage * UNIT, (const u8 *)a.w + ((size_t)(j.first + chunk) * 4 * TILES + (size_t)part * 8 * wide) * 512, bytes, there);
}
/* The first ones, by the warp that made the barriers. */
DEVICE void fetch_first(const router_args &a, shared &s, const job &j, int lane) {
    if (j.chunks == 0) return;
    for (int i = lane; i < W_STAGES; i += 32) {
        int turn = i / (PARTS * j.chunks);
        if (RESIDENT ? turn == 0 : has(j, turn)) fetch(a, s, j, i / j.chunks % PARTS, i % j.chunks, i);
    }
}

/* ---- the warps that load ---- */
/* Lane order: in every 32 inputs, lane i's 16 bytes are the i-th words of all four. */
DEVICE uint4 turn_quad(uint4 v, int lane) {
    u32 a = lane & 1 ? v.x : v.y, b = lane & 1 ? v.z : v.w;
    a = __shfl_xor_sync(~0u, a, 1), b = __shfl_xor_sync(~0u, b, 1);
    if (lane & 1)
        v.x = a, v.z = b;
    else
        v.y = a, v.w = b;
    a = lane & 2 ? v.x : v.z, b = lane & 2 ? v.y : v.w;
    a = __shfl_xor_sync(~0u, a, 2), b = __shfl_xor_sync(~0u, b, 2);
    if (lane & 2)
        v.x = a, v.y = b;
    else
        v.z = a, v.w = b;
    return v;
}
DEVICE void write_out(const router_args &a, const job &j, uint4 v, int token, int input, int lane) {
    bool mine = token < a.n && input / 32 >= j.lo && input / 32 < j.hi;
    size_t at = (size_t)token * a.ldq + input;
    if (a.xb && mine) *(uint4 *)(a.xb + at) = v;
    if (!a.xq) return;
    v = turn_quad(v, lane);
    if (mine) *(uint4 *)(a.xq + at) = v;
}
/* The i-th chunk of a group, by a warp: from the caller's rows. */
DEVICE void read_chunk(const router_args &a, const job &j, uint4 *v, int turn, int i, int lane) {
    int token = group_first(j, turn) + lane / 8, input = (j.first + i) * 64 + lane % 8 * 8;
#pragma unroll
    for (int u = 0; u < TOKENS / 4; u++) v[u] = load_x(a, token + 4 * u, input);
}
/* And to where it is multiplied. */
DEVICE void put_chunk(const router_args &a, shared &s, const job &j, const uint4 *v, int turn, int i, int lane) {
    int stage = x_stage(turn, i), part = lane % 8, row = lane / 8;
    u32 to = j.x + (u32)(stage * X_BYTES + row * 128);
    barrier_wait(shared_address(&s.empty[stage]), x_parity(turn) ^ 1u);
#pragma unroll
    for (int u = 0; u < TOKENS / 4; u++) store_shared16(to + (u32)(u * 512 + ((part ^ ((row + 4 * u) & 7)) << 4)), v[u]);
    fence_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared_address(&s.full[stage]));
    if (!a.xb && !a.xq) return;
#pragma unroll
    for (int u = 0; u < TOKENS / 4; u++) write_out(a, j, v[u], group_first(j, turn) + row + 4 * u, (j.first + i) * 64 + part * 8, lane);
}
DEVICE void load(const router_args &a, shared &s, const job &j, int warp, int lane) {
    uint4 v[TOKENS / 4];
    read_chunk(a, j, v, 0, warp, lane);
    ready(); /* what is on its way needs no barrier yet */
    cluster_wait();
    for (int turn = 0; has(j, turn); turn++)
        for (int i = warp; i < j.chunks; i += LOAD) {
            if (turn > 0 || i > warp) read_chunk(a, j, v, turn, i, lane);
            put_chunk(a, s, j, v, turn, i, lane);
        }
}

/* ---- the warps that multiply ---- */
/* What a warp is at: a part of a turn, whose units begin at `unit` of all that this block reads. */
struct spot {
    int turn, part, unit, warp, lane;
};
/* Two steps, a quad of inputs by a warp's row tiles. */
DEVICE void quad_product(float (*c)[TOKENS / 2], uint4 (*w)[2], u32 weights, u32 x, int wide, int half, const spot &p) {
    u64 tokens = wgmma_matrix(x) + (u64)(half * 4);
#pragma unroll
    for (int t = 0; t < PAIR; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) /* past the last row tile: whatever, nobody asks for its sums */
            if (TILES % 8 == 0 || p.part * 8 + p.warp + 4 * t < TILES)
                w[t][i] = load_shared16(weights + (u32)(((p.warp + 4 * t) * wide + half * 2 + i) * 512 + p.lane * 16));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int t = 0; t < PAIR; t++) wgmma<TOKENS>(c[t], w[t][i], tokens + (u64)(2 * i), 1);
    wgmma_commit();
}
/* The i-th chunk has been read. */
DEVICE void give_back(const router_args &a, shared &s, const job &j, int i, const spot &p) {
    if (p.part == PARTS - 1 && p.lane == 0) barrier_arrive(shared_address(&s.empty[x_stage(p.turn, i)]));
    if (RESIDENT) return;
    int next = p.unit + i + W_STAGES;
    sync_warps(1, 128);
    if (threadIdx.x == 0 && has(j, next / (PARTS * j.chunks))) fetch(a, s, j, next / j.chunks % PARTS, next % j.chunks, next % W_STAGES);
}
/* While one quad's products run, the weights of the next are read into the other registers. */
DEVICE void product(const router_args &a, shared &s, const job &j, float (*c)[TOKENS / 2], const spot &p) {
    uint4 first[PAIR][2], second[PAIR][2];
#pragma unroll 1 /* unrolled, ptxas lets wgmma go one by one */
    for (int i = 0; i < j.chunks; i++) {
        int stage = x_stage(p.turn, i), w_stage = (p.unit + i) % W_STAGES, chunk = j.first + i, wide = EVEN ? 4 : wide_of(chunk);
        u32 weights = j.w + (u32)w_stage * UNIT, x = j.x + (u32)(stage * X_BYTES);
        barrier_wait(shared_address(&s.weights[w_stage]), RESIDENT ? 0 : (u32)((p.unit + i) / W_STAGES & 1));
        barrier_wait(shared_address(&s.full[stage]), x_parity(p.turn));
        if (EVEN || chunk * 2 >= j.lo) quad_product(c, first, weights, x, wide, 0, p);
        if (EVEN || chunk * 2 + 1 < j.hi) quad_product(c, second, weights, x, wide, 1, p);
        wgmma_wait<0>();
        give_back(a, s, j, i, p);
    }
}
/* To the blocks that choose: token i of a group is block i % 8's. */
DEVICE void send(shared &s, const job &j, const float *c, int side, int tile, int lane) {
    int g = lane >> 2, q = lane & 3;
    if (tile >= TILES) return;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        u32 to = cluster_address(shared_address(&s.sums[side][0][j.rank][tile * 16 + g * 2]), (u32)(2 * q + i));
        u32 told = cluster_address(shared_address(&s.told[side]), (u32)(2 * q + i));
#pragma unroll
        for (int t = 0; t < MINE; t++) /* of tokens that do not count, too: see choose_all */
            store_peer(to + (u32)(t * 8 * LINE * 4), told, c[t * 4 + i], c[t * 4 + 2 + i]);
    }
}
DEVICE void multiply(const router_args &a, shared &s, const job &j, int gang, int warp, int lane) {
    ready();
    for (int turn = gang; gang < GANGS && has(j, turn); turn += GANGS) {
        int side = turn % SIDES;
        for (int part = 0; part < PARTS; part++) {
            spot p = {turn, part, ((RESIDENT ? 0 : turn * PARTS) + part) * j.chunks, warp, lane};
            float c[PAIR][TOKENS / 2] = {};
            product(a, s, j, c, p);
            if (turn == gang && part == 0) cluster_wait();
            if (turn >= SIDES && part == 0 && warp < TILES) barrier_wait(shared_address(&s.free[side]), (u32)(turn / SIDES & 1) ^ 1u);
#pragma unroll
            for (int t = 0; t < PAIR; t++) send(s, j, c[t], side, part * 8 + warp + 4 * t, lane);
        }
    }
    if (gang >= GANGS || !has(j, gang)) cluster_wait();
}

/* ---- the warps that choose ---- */
static_assert(MINE <= CHOOSE, "a token of a turn a warp");
/* The t-th token of a turn that is this block's. */
DEVICE int token_of(const job &j, int turn, int t) {
    return group_first(j, turn) + t * 8 + j.rank;
}
/* Which of a turn's tokens a warp takes, by turns; MINE and more: none. */
DEVICE int share_of(int turn, int warp) {
    return (warp - turn * MINE) & (CHOOSE - 1);
}
/* What the warps hold of the last turns, up to this one, into the experts' lists. */
DEVICE void list_held(const router_args &a, shared &s, const job &j, int turn, int warp, int lane) {
    if (a.told[0]) return; /* the experts look there */
    sync_warps(2, CHOOSE * 32);
    for (int e = warp * 32 + lane; e < EXPERTS; e += CHOOSE * 32) {
        int count = s.count[e];
        if (count) s.place[e] = atomicAdd(&a.counts[e], count);
        s.count[e] = 0;
    }
    sync_warps(2, CHOOSE * 32);
    if (lane >= CHOSEN) return;
    for (int i = turn / HELD * HELD; i <= turn; i++) {
        int id = s.held[i % HELD][warp][lane];
        if (id >= 0) a.list[(size_t)id * a.cap + atomicAdd(&s.place[id], 1)] = token_of(j, i, share_of(i, warp)) * CHOSEN + lane;
    }
}
/* The expert of a token's slot `lane`, -1: none. */
DEVICE int choose_one(const router_args &a, float *sums, int token, int n, int lane) {
    float logit[OWN];
    if (token >= n) {
        if (token < a.n) no_choice(a, token, side_of(a), lane);
        return -1;
    }
    add_sums(sums, logit, lane);
    __syncwarp();
    return route(a, logit, sums, token, side_of(a), lane);
}
/* Every warp waits for every turn, and every turn brings all its bytes, whether its tokens count or not: so no barrier comes
 * round before all have seen it; one that came round twice would look as if it had not moved. What comes is written by st.async
 * of this cluster and counted by this block's barrier, which needs no acquire of the cluster. */
DEVICE void choose_all(const router_args &a, shared &s, const job &j, int n, int warp, int lane) {
    u32 free = cluster_address(shared_address(s.free), (u32)lane % 8);
    ready();
    cluster_wait();
    for (int turn = 0; has(j, turn); turn++) {
        int side = turn % SIDES, t = share_of(turn, warp), id = -1;
        u32 told = shared_address(&s.told[side]);
        if (warp == 0 && lane == 0) barrier_expect(told, MINE * 8 * LINE * 4);
        barrier_wait(told, (u32)(turn / SIDES & 1));
        if (t < MINE) id = choose_one(a, s.sums[side][t][0], token_of(j, turn, t), n, lane);
        __syncwarp();
        if (lane < 8 && has(j, turn + SIDES)) arrive_there(free + (u32)side * 8);
        if (lane < CHOSEN) s.held[turn % HELD][warp][lane] = (short)id;
        if (id >= 0) atomicAdd(&s.count[id], 1);
        if (turn % HELD == HELD - 1 || !has(j, turn + 1)) list_held(a, s, j, turn, warp, lane);
    }
}

/* ---- the kernel ---- */
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(THREADS, 1) router_many(const __grid_constant__ router_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)(memory + X_STAGES * X_BYTES + W_STAGES * UNIT);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    job j = job_of(a, memory);
    if (warp == 0) init(s, lane), fetch_first(a, s, j, lane);
    __syncwarp(); /* what follows is for whole warps */
    for (int e = (int)threadIdx.x; e < EXPERTS; e += THREADS) s.count[e] = 0;
    cluster_arrive_relaxed(); /* each role waits for it when it needs the others' barriers */
    grid_wait();
    grid_launch_next();
    int n = valid_tokens(a.n, a.valid, a.before);
    if (warp < MULTIPLY) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE));
        multiply(a, s, j, warp / 4, warp % 4, lane);
    } else if (warp < MULTIPLY + LOAD) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
        load(a, s, j, warp - MULTIPLY, lane);
        if (warp == MULTIPLY && lane == 0) fetch_soon(a);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
        choose_all(a, s, j, n, warp - MULTIPLY - LOAD, lane);
    }
}
