/* router.cu: tokens to experts in one launch: gate product, scores, the k best, their weights, and each expert's list of
 * pairs; beside it the tokens' activations as the experts want them. For few tokens, and without what sm_90 has; many
 * tokens have router_many.cu.
 *
 * A cluster of 8 blocks takes 8 tokens. Block r multiplies all experts by its eighth of the inputs: 8 partial chains
 * per logit, always the same eighths, added in ascending order. Then it finishes one token. Compiled for
 * D_MODEL, EXPERTS, CHOSEN.
 */
#include "common.cuh"
#include "cluster.cuh"
#include "router.cuh"
#include "router_parts.cuh"

#define TOKENS  8
#define THREADS 256
#define BATCH   16                                     /* steps whose weights are in flight in registers */
#if COPY_ENGINE
#    define HERE EACH                                  /* quads that a block has */
#    define SUMS (8 * LINE)
#else
#    define HERE QUADS
#    define SUMS (TOKENS * 8 * LINE)
#endif
#define PITCH   (HERE * 64 + (HERE % 2 ? 0 : 64))      /* bytes of a token's inputs: neighbours in other banks */
#define ALONE   (COPY_ENGINE && EXPERTS >= 8)

static_assert(16 + TOKENS * PITCH + SUMS * 4 + 8 * EXPERTS * 8 <= ROUTER_SHARED(D_MODEL, EXPERTS, COPY_ENGINE), "router.cuh");

struct shared {
    u8 *x;         /* [TOKENS][PITCH] this block's inputs */
    float *part;   /* [8][LINE] partial sums from all blocks, of this block's token; without clusters [TOKENS][8][LINE] */
    u64 *told;     /* barrier: they are there */
    float *choice; /* [warps][EXPERTS], for groups; then [warps][groups] */
};

DEVICE shared shared_at(u8 *memory) {
    float *part = (float *)(memory + 16 + TOKENS * PITCH);
    return {memory + 16, part, (u64 *)memory, part + SUMS};
}

/* ---- activations ---- */
/* This block's inputs, `quads` of 32 from the lo-th, of every token: to shared memory in lane order, and out. */
DEVICE void take_x(const router_args &a, const shared &s, int first, int lo, int quads) {
    const int rounds = (TOKENS * HERE * 4 + THREADS - 1) / THREADS;
    int parts = quads * 4; /* of 8 inputs */
    uint4 v[rounds];
#pragma unroll
    for (int r = 0; r < rounds; r++) {
        int i = (int)threadIdx.x + r * THREADS, t = i / (HERE * 4), p = i % (HERE * 4);
        if (t < TOKENS && p < parts) v[r] = load_x(a, first + t, lo * 32 + p * 8);
    }
#pragma unroll
    for (int r = 0; r < rounds; r++) {
        int i = (int)threadIdx.x + r * THREADS, t = i / (HERE * 4), p = i % (HERE * 4);
        if (t >= TOKENS || p >= parts) continue;
        u8 *to = s.x + t * PITCH + p / 4 * 64 + p % 4 * 4;
        *(u32 *)to = v[r].x, *(u32 *)(to + 16) = v[r].y, *(u32 *)(to + 32) = v[r].z, *(u32 *)(to + 48) = v[r].w;
        if (a.xb && first + t < a.n) *(uint4 *)(a.xb + (size_t)(first + t) * a.ldq + lo * 32 + p * 8) = v[r];
    }
    __syncthreads();
    if (!a.xq) return;
    for (int i = (int)threadIdx.x; i < TOKENS * HERE * 4; i += THREADS) {
        int t = i / (HERE * 4), p = i % (HERE * 4);
        if (p < parts && first + t < a.n)
            *(uint4 *)(a.xq + (size_t)(first + t) * a.ldq + lo * 32 + p * 8) = *(const uint4 *)(s.x + t * PITCH + p * 16);
    }
}

/* ---- product ---- */
/* Up to BATCH steps of a row tile from step on; v[i] stays what it was past the last. */
DEVICE void load_tiles(uint4 *v, const void *w, int tile, int step, int steps, int lane) {
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int at = step + i, wide = min(4, QUADS * 2 - at / 4 * 4);
        if (i < steps) v[i] = ((const uint4 *)w)[((size_t)(at / 4 * 4) * TILES + tile * wide + at % 4) * 32 + lane];
    }
}
/* Where the sums of a token's eighth go. */
DEVICE void put_sums(const shared &s, int token, int eighth, int place, float a, float b) {
#if COPY_ENGINE /* token i of the cluster is block i's */
    u32 owner = (u32)token, to = shared_address(s.part + eighth * LINE + place);
    store_peer(cluster_address(to, owner), cluster_address(shared_address(s.told), owner), a, b);
#else
    *(float2 *)(s.part + (token * 8 + eighth) * LINE + place) = make_float2(a, b);
#endif
}
/* Sums of an eighth: `steps` from step on. x: its inputs; v: the first tile, already on its way. Tiles by turns. */
DEVICE void multiply(const router_args &a, const shared &s, int tokens_here, u32 x, int eighth, int step, int steps, int turn, int turns, int lane, uint4 *v) {
    int g = lane >> 2, q = lane & 3;
    u32 tokens = x + (u32)(g * PITCH + q * 16);
    for (int tile = turn; tile < TILES; tile += turns) {
        float c[4] = {};
        for (int k = 0; k < steps; k += BATCH) {
            if (tile != turn || k > 0) load_tiles(v, a.w, tile, step + k, steps - k, lane);
#pragma unroll
            for (int i = 0; i < BATCH; i += 2) {
                if (k + i >= steps) break;
                uint4 b = load_shared16(tokens + (u32)((k + i) * 32));
                mma(c, v[i], b.x, b.y);
                mma(c, v[i + 1], b.z, b.w);
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
            if (2 * q + j < tokens_here) put_sums(s, 2 * q + j, eighth, tile * 16 + 2 * g, c[j], c[2 + j]);
    }
}

/* ---- one token by a warp ---- */
/* A pair into its expert's list, if that is where the experts look. */
DEVICE void list_pair(const router_args &a, int id, int pair) {
    if (id >= 0 && !a.told[0]) a.list[(size_t)id * a.cap + atomicAdd(&a.counts[id], 1)] = pair;
}

#if ALONE
/* route for the common case, a softmax without groups or bias, by the whole block: it has one token, and waiting for one
 * warp would hold up everything. The same values: each thread has an expert, and counts which are better. */
#    define PARTS (EXPERTS <= 32 ? 8 : EXPERTS <= 64 ? 4 : EXPERTS <= 128 ? 2 : 1) /* threads that share this counting */
#    define KEYS  ((EXPERTS + 3) / 4 * 4)
DEVICE int route_alone(const router_args &a, const shared &s, int token, int side, int warp, int lane) {
    u32 *key = (u32 *)s.choice, *top = key + 2 * KEYS, best = 0;
    float *score = s.choice + KEYS, all = 0.0f;
    int *chosen = (int *)top + 8, *given = chosen + CHOSEN;
    if (a.forced && (int)threadIdx.x < CHOSEN) given[threadIdx.x] = a.forced[token * CHOSEN + threadIdx.x];
    for (int e = (int)threadIdx.x; e < EXPERTS; e += THREADS) {
        const float *mine = s.part + line_place(e);
        float logit = mine[0], part[8];
#pragma unroll
        for (int i = 1; i < 8; i++) part[i] = mine[i * LINE];
#pragma unroll
        for (int i = 1; i < 8; i++) logit = __fadd_rn(logit, part[i]);
        if (a.logits) a.logits[(size_t)token * EXPERTS + e] = logit;
        score[e] = logit;
        best = max(best, order_key(no_nan(logit)));
    }
    best = __reduce_max_sync(~0u, best);
    if (lane == 0) top[warp] = best;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) best = max(best, top[i]);
    float most = __uint_as_float(best >> 31 ? best ^ 0x80000000u : ~best);
    for (int e = (int)threadIdx.x; e < KEYS; e += THREADS) {
        float logit = e < EXPERTS ? score[e] : 0.0f, v = no_nan(logit), c = v == most ? 1.0f : exp_id(__fsub_rn(v, most));
        if (e < EXPERTS) score[e] = c;
        key[e] = e < EXPERTS ? order_key(logit == logit ? no_nan(c) : -INFINITE) : 0;
    }
    __syncthreads();
    for (int first = 0; first < EXPERTS; first += THREADS / PARTS) {
        int e = first + (int)threadIdx.x / PARTS, better = 0;
        u32 mine = e < EXPERTS ? key[e] : ~0u;
#pragma unroll 4
        for (int j = (int)threadIdx.x % PARTS * 4; j < KEYS; j += PARTS * 4) {
            uint4 k = *(const uint4 *)(key + j);
            better += (k.x > mine || (k.x == mine && j < e)) + (k.y > mine || (k.y == mine && j + 1 < e));
            better += (k.z > mine || (k.z == mine && j + 2 < e)) + (k.w > mine || (k.w == mine && j + 3 < e));
        }
#pragma unroll
        for (int d = PARTS / 2; d > 0; d /= 2) better += __shfl_xor_sync(~0u, better, d);
        if (e < EXPERTS && better < CHOSEN && threadIdx.x % PARTS == 0) {
            chosen[better] = e;
            tell_id(a, token * CHOSEN + better, side, a.forced ? given[better] : e);
        }
    }
    __syncthreads();
    if (warp > 0) return -1;
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) all = __fadd_rn(all, score[lane + 32 * i]);
    int id = chosen[lane < CHOSEN ? lane : 0];
    return weigh(a, token, a.forced && lane < CHOSEN ? given[lane] : id, score[id], warp_sum(all), lane);
}
#endif

#if COPY_ENGINE
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(THREADS, 2) router(const __grid_constant__ router_args a) {
    extern __shared__ __align__(128) u8 memory[];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, rank = (int)cluster_rank();
    int first = (int)blockIdx.x / 8 * TOKENS, lo = min(rank * EACH, QUADS), quads = min(lo + EACH, QUADS) - lo;
    shared s = shared_at(memory);
    uint4 ahead[BATCH];
    if (warp < TILES) load_tiles(ahead, a.w, warp, lo * 2, quads * 2, lane);
    if (threadIdx.x == 0) {
        barrier_init(shared_address(s.told), 1);
        barriers_ready();
    }
    cluster_arrive_relaxed(); /* does not wait for the weights */
    cluster_wait(); /* everyone's barrier is there */
    grid_wait();
    grid_launch_next();
    int n = valid_tokens(a.n, a.valid, a.before), side = side_of(a);
    take_x(a, s, first, lo, quads);
    if (threadIdx.x == THREADS - 1) fetch_soon(a);
    int token = first + rank, id = -1;
    if (threadIdx.x == 0) barrier_expect(shared_address(s.told), token < n ? 8 * LINE * 4 : 0);
    multiply(a, s, n - first, shared_address(s.x), rank, lo * 2, quads * 2, warp, 8, lane, ahead);
#if ALONE
    if (token < n && !a.sigmoid && !a.bias && a.groups <= 1) {
        barrier_wait_cluster(shared_address(s.told), 0);
        id = route_alone(a, s, token, side, warp, lane);
    } else
#endif
    if (warp == 0 && token < n) {
        float logit[OWN];
        barrier_wait_cluster(shared_address(s.told), 0);
        add_sums(s.part, logit, lane);
        id = route(a, logit, s.choice, token, side, lane);
    } else if (warp == 0 && token < a.n) {
        no_choice(a, token, side, lane);
    }
    list_pair(a, id, token * CHOSEN + lane);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1) router(const __grid_constant__ router_args a) {
    extern __shared__ __align__(128) u8 memory[];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, first = (int)blockIdx.x * TOKENS;
    int lo = min(warp * EACH, QUADS), quads = min(lo + EACH, QUADS) - lo; /* an eighth a warp */
    shared s = shared_at(memory);
    uint4 ahead[BATCH];
    load_tiles(ahead, a.w, 0, lo * 2, quads * 2, lane);
    grid_wait();
    grid_launch_next();
    int n = valid_tokens(a.n, a.valid, a.before), side = side_of(a);
    take_x(a, s, first, 0, QUADS);
    multiply(a, s, n - first, shared_address(s.x) + (u32)lo * 64, warp, lo * 2, quads * 2, 0, 1, lane, ahead);
    __syncthreads();
    if (first + warp >= a.n) return;
    if (first + warp < n) {
        float logit[OWN];
        add_sums(s.part + warp * 8 * LINE, logit, lane);
        int id = route(a, logit, s.choice + warp * EXPERTS * 2, first + warp, side, lane);
        list_pair(a, id, (first + warp) * CHOSEN + lane);
    } else
        no_choice(a, first + warp, side, lane);
}
#endif
