/* router.cu: tokens to experts in one launch: gate product, scores, the k best, their weights, and each expert's list of
 * pairs; beside it the tokens' activations as the experts want them.
 *
 * A cluster of 8 blocks takes TOKENS tokens. Block r multiplies all experts by its eighth of the inputs: 8 partial chains
 * per logit, always the same eighths, added in ascending order. Then it finishes every eighth token, a warp a token: lane j
 * has the experts j, j + 32, ... in registers. Compiled for D_MODEL, EXPERTS, CHOSEN.
 */
#include "common.cuh"
#include "cluster.cuh"
#include "router.cuh"

#define TOKENS  (8 * TOKEN_TILES)
#define THREADS 256
#define BATCH   16                                     /* steps whose weights are in flight in registers */
#define QUADS   ((D_MODEL + 31) / 32)                  /* of 32 inputs */
#define EACH    ((QUADS + 7) / 8)                      /* of one block */
#if COPY_ENGINE
#    define HERE EACH                                  /* quads that a block has */
#    define SUMS (TOKENS * LINE)
#else
#    define HERE QUADS
#    define SUMS (TOKENS * 8 * LINE)
#endif
#define PITCH   (HERE * 64 + (HERE % 2 ? 0 : 64))      /* bytes of a token's inputs: neighbours in other banks */
#define ALONE   (COPY_ENGINE && TOKENS == 8 && EXPERTS >= 8) /* a block has one token */
#define OWN     ((EXPERTS + 31) / 32)                  /* experts of a lane */
#define TILES   ((EXPERTS + 15) / 16)
#define LINE    (TILES * 16)                           /* partial sums of a token, in floats */

#if COPY_ENGINE
#    define SOON 16384 /* bytes a copy */
/* By one thread of each block. */
DEVICE void fetch_soon(const router_args &a) {
    for (int i = (int)blockIdx.x; i < a.soon_kb / (SOON / 1024); i += (int)gridDim.x) bulk_prefetch((const u8 *)a.soon + (size_t)i * SOON, SOON);
}
#endif

static_assert(16 + TOKENS * PITCH + SUMS * 4 + 8 * EXPERTS * 8 <= ROUTER_SHARED(TOKENS, D_MODEL, EXPERTS, COPY_ENGINE), "router.cuh");

struct shared {
    u8 *x;         /* [TOKENS][PITCH] this block's inputs */
    float *part;   /* [TOKENS / 8][8][LINE] partial sums from all blocks, of this block's tokens */
    u64 *told;     /* barrier: they are there */
    float *choice; /* [warps][EXPERTS], for groups; then [warps][groups] */
};

#if COPY_ENGINE
/* To shared memory of a block of the cluster; its barrier there counts the bytes. */
DEVICE void store_peer(u32 to, u32 barrier, float a, float b) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(a), "f"(b), "r"(barrier) : "memory");
}
DEVICE void barrier_wait_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
#endif
/* Where expert e's sum is in a line: rows g and g + 8 of a tile are neighbours. */
DEVICE int line_place(int e) {
    return (e & ~15) + (e & 7) * 2 + (e >> 3 & 1);
}

#define INFINITE __int_as_float(0x7f800000)
DEVICE float no_nan(float v) {
    return v == v ? v : -INFINITE;
}

DEVICE shared shared_at(u8 *memory) {
    float *part = (float *)(memory + 16 + TOKENS * PITCH);
    return {memory + 16, part, (u64 *)memory, part + SUMS};
}

/* ---- activations ---- */
/* Inputs i .. i + 7 of a token as bf16. */
DEVICE uint4 load_x(const router_args &a, int token, int i) {
    if (token >= a.n || i >= D_MODEL) return make_uint4(0, 0, 0, 0);
    size_t at = (size_t)token * a.ldx + i;
#if D_MODEL % 8
    u32 w[8];
    for (int j = 0; j < 8; j++) {
        w[j] = 0;
        if (i + j < D_MODEL) w[j] = X_F32 ? to_bf16(((const float *)a.x)[at + j]) : ((const bf16 *)a.x)[at + j];
    }
    return make_uint4(w[0] | w[1] << 16, w[2] | w[3] << 16, w[4] | w[5] << 16, w[6] | w[7] << 16);
#elif X_F32
    float4 lo = *(const float4 *)((const float *)a.x + at), hi = *(const float4 *)((const float *)a.x + at + 4);
    return make_uint4(to_bf16x2(lo.x, lo.y), to_bf16x2(lo.z, lo.w), to_bf16x2(hi.x, hi.y), to_bf16x2(hi.z, hi.w));
#else
    return *(const uint4 *)((const bf16 *)a.x + at);
#endif
}

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
#if COPY_ENGINE /* token i of the cluster is block i % 8's */
    u32 owner = (u32)token % 8, to = shared_address(s.part + (token / 8 * 8 + eighth) * LINE + place);
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
        float c[TOKEN_TILES][4] = {};
        for (int k = 0; k < steps; k += BATCH) {
            if (tile != turn || k > 0) load_tiles(v, a.w, tile, step + k, steps - k, lane);
#pragma unroll
            for (int i = 0; i < BATCH; i += 2) {
                if (k + i >= steps) break;
#pragma unroll
                for (int t = 0; t < TOKEN_TILES; t++) {
                    uint4 b = load_shared16(tokens + (u32)(t * 8 * PITCH + (k + i) * 32));
                    mma(c[t], v[i], b.x, b.y);
                    mma(c[t], v[i + 1], b.z, b.w);
                }
            }
        }
#pragma unroll
        for (int t = 0; t < TOKEN_TILES; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (t * 8 + 2 * q + j < tokens_here) put_sums(s, t * 8 + 2 * q + j, eighth, tile * 16 + 2 * g, c[t][j], c[t][2 + j]);
    }
}

/* ---- one token by a warp ---- */
DEVICE float warp_max(float v) {
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    return v;
}
DEVICE float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v = __fadd_rn(v, __shfl_xor_sync(~0u, v, d));
    return v;
}
/* Order of floats as order of numbers; both zeros are one. */
DEVICE u32 order_key(float v) {
    u32 u = __float_as_uint(v + 0.0f);
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

/* score[i]: what expert lane + 32 i weighs, before it is divided by *sum; choice[i]: what it is chosen by. The softmax's sum:
 * each lane's experts in order, then a tree. */
DEVICE void score(const router_args &a, const float *logit, float *score, float *choice, float *sum, int lane) {
    float top = -INFINITE, all = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) top = fmaxf(top, no_nan(logit[i]));
    top = warp_max(top);
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float v = no_nan(logit[i]);
        score[i] = a.sigmoid ? sigmoid_id(v) : v == top ? 1.0f : exp_id(__fsub_rn(v, top));
        if (lane + 32 * i < EXPERTS) all = __fadd_rn(all, score[i]);
    }
    *sum = a.sigmoid ? 1.0f : warp_sum(all);
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        int e = lane + 32 * i;
        float c = score[i];
        if (a.bias && e < EXPERTS) c = __fadd_rn(__fdiv_rn(c, *sum), a.bias[e]);
        choice[i] = logit[i] == logit[i] ? no_nan(c) : -INFINITE;
    }
}

/* Experts of groups that are not kept go behind all others, by id. */
DEVICE void keep_groups(const router_args &a, const float *choice, u32 *key, float *scratch, int lane) {
    float *group = scratch + EXPERTS;
    int size = EXPERTS / a.groups;
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) scratch[lane + 32 * i] = choice[i];
    __syncwarp();
    for (int j = lane; j < a.groups; j += 32) {
        float first = -INFINITE, second = -INFINITE;
        for (int i = 0; i < size; i++) {
            float c = scratch[j * size + i];
            if (c > first)
                second = first, first = c;
            else if (c > second)
                second = c;
        }
        group[j] = !a.bias || size == 1 ? first : no_nan(__fadd_rn(first, second));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        int e = lane + 32 * i, mine = e / size, better = 0;
        if (e >= EXPERTS) continue;
        for (int j = 0; j < a.groups; j++) better += group[j] > group[mine] || (group[j] == group[mine] && j < mine);
        if (better >= a.topk_groups) key[i] = 1;
    }
}

/* Lane s gets the s-th best expert: largest key, then lowest id. */
DEVICE int choose(u32 *key, int lane) {
    int id = 0;
#pragma unroll 1
    for (int s = 0; s < CHOSEN; s++) { /* a loop: code that runs once is slow to fetch */
        u32 best = 0, at = ~0u;
#pragma unroll
        for (int i = 0; i < OWN; i++) best = max(best, key[i]);
        best = __reduce_max_sync(~0u, best);
#pragma unroll
        for (int i = OWN - 1; i >= 0; i--)
            if (key[i] == best) at = (u32)(lane + 32 * i);
        at = __reduce_min_sync(~0u, at);
#pragma unroll
        for (int i = 0; i < OWN; i++)
            if (at == (u32)(lane + 32 * i)) key[i] = 0;
        if (lane == s) id = (int)at;
    }
    return id;
}
/* v[] of expert `id`, wherever it is; each lane its own id. */
DEVICE float value_of(const float *v, int id) {
    float got = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float x = __shfl_sync(~0u, v[i], id & 31);
        if (id >> 5 == i) got = x;
    }
    return got;
}

/* Which of the two lists of ids this launch fills. */
DEVICE int side_of(const router_args &a) {
    return a.told[0] ? *(volatile const int *)a.state & 1 : 0;
}
/* Where the experts look for them; all ones would be nothing. */
DEVICE void tell_id(const router_args &a, int pair, int side, int id) {
    if (a.told[0]) store_relaxed((side ? a.told[1] : a.told[0]) + pair, (u32)(id < 0 ? -2 : id));
}
/* A token that does not count. */
DEVICE void no_choice(const router_args &a, int token, int side, int lane) {
    if (lane >= CHOSEN) return;
    a.ids[token * CHOSEN + lane] = -1;
    tell_id(a, token * CHOSEN + lane, side, -1);
}

/* Lane s has the s-th slot's expert: the one that was chosen, and the one it goes to. Returns the latter, -1: no slot. */
DEVICE int weigh(const router_args &a, int token, int id, float score, float all, int lane) {
    float weight = __fdiv_rn(score, all), sum = 0.0f;
    if (a.renormalize) {
        for (int j = 0; j < CHOSEN; j++) sum = __fadd_rn(sum, __shfl_sync(~0u, weight, j));
        if (a.sigmoid) sum = __fadd_rn(sum, 1e-20f);
        if (sum > 0.0f) weight = __fdiv_rn(weight, sum);
    }
    if (a.scale != 1.0f) weight = __fmul_rn(weight, a.scale);
    if (lane >= CHOSEN) return -1;
    a.ids[token * CHOSEN + lane] = id;
    a.weights[token * CHOSEN + lane] = weight;
    return id;
}

/* Returns the expert of slot `lane`, -1: there is none. */
DEVICE int route(const router_args &a, const shared &s, int t, int token, int side, int warp, int lane) {
    float logit[OWN], scores[OWN], choice[OWN], all, part[OWN][8];
    const float *mine = s.part + (COPY_ENGINE ? t / 8 : t) * 8 * LINE;
    int forced = a.forced && lane < CHOSEN ? a.forced[token * CHOSEN + lane] : 0;
    u32 key[OWN];
    int id;
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int r = 0; r < 8; r++)
            if (lane + 32 * i < EXPERTS) part[i][r] = mine[r * LINE + line_place(lane + 32 * i)];
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        logit[i] = part[i][0];
#pragma unroll
        for (int r = 1; r < 8; r++) logit[i] = __fadd_rn(logit[i], part[i][r]);
        if (a.logits && lane + 32 * i < EXPERTS) a.logits[(size_t)token * EXPERTS + lane + 32 * i] = logit[i];
    }
    score(a, logit, scores, choice, &all, lane);
#pragma unroll
    for (int i = 0; i < OWN; i++) key[i] = lane + 32 * i < EXPERTS ? order_key(choice[i]) : 0;
    if (a.groups > 1 && a.topk_groups < a.groups) keep_groups(a, choice, key, s.choice + warp * EXPERTS * 2, lane);
    int chosen = id = choose(key, lane);
    if (a.forced) id = forced;
    if (lane < CHOSEN) tell_id(a, token * CHOSEN + lane, side, id);
    return weigh(a, token, id, value_of(scores, chosen), all, lane);
}
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
    if (threadIdx.x == 0) {
        int tokens = 0; /* of this block */
        for (int t = rank; t < TOKENS && first + t < n; t += 8) tokens++;
        barrier_expect(shared_address(s.told), (u32)tokens * 8 * LINE * 4);
    }
    multiply(a, s, n - first, shared_address(s.x), rank, lo * 2, quads * 2, warp, 8, lane, ahead);
    int t = rank + 8 * warp, id = -1; /* TOKENS <= 64: at most one token a warp */
#if ALONE
    if (first + rank < n && !a.sigmoid && !a.bias && a.groups <= 1) {
        barrier_wait_cluster(shared_address(s.told), 0);
        id = route_alone(a, s, first + rank, side, warp, lane);
    } else
#endif
    if (t < TOKENS && first + t < n) {
        barrier_wait_cluster(shared_address(s.told), 0);
        id = route(a, s, t, first + t, side, warp, lane);
    } else if (t < TOKENS && first + t < a.n) {
        no_choice(a, first + t, side, lane);
    }
    list_pair(a, id, (first + t) * CHOSEN + lane);
}
#else
static_assert(TOKENS == 8, "a token a warp");
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
        int id = route(a, s, warp, first + warp, side, warp, lane);
        list_pair(a, id, (first + warp) * CHOSEN + lane);
    } else
        no_choice(a, first + warp, side, lane);
}
#endif
