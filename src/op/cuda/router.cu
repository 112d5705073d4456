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
#define PITCH   (EACH * 64 + (EACH % 2 ? 0 : 64))      /* bytes of a token's inputs: neighbours in other banks */
#define OWN     ((EXPERTS + 31) / 32)                  /* experts of a lane */
#define LINE    ((EXPERTS + 31) / 32 * 32 + 4)         /* partial sums of a token, in floats: neighbours in other banks */
#define SHARED  (TOKENS * (PITCH + LINE * 4) + 8 * EXPERTS * 8) /* bytes */

struct shared {
    u8 *x;         /* [TOKENS][PITCH] this block's inputs */
    float *part;   /* [TOKENS][LINE] this block's partial sums */
    float *choice; /* [warps][EXPERTS], for groups; then [warps][groups] */
};

/* What block `rank` of the cluster has at the place of `mine`. */
DEVICE float load_peer(u32 mine, u32 rank) {
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(cluster_address(mine, rank)) : "memory");
    return v;
}

#define INFINITE __int_as_float(0x7f800000)
DEVICE float no_nan(float v) {
    return v == v ? v : -INFINITE;
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
    const int rounds = (TOKENS * EACH * 4 + THREADS - 1) / THREADS;
    int parts = quads * 4; /* of 8 inputs */
    uint4 v[rounds];
#pragma unroll
    for (int r = 0; r < rounds; r++) {
        int i = (int)threadIdx.x + r * THREADS, t = i / (EACH * 4), p = i % (EACH * 4);
        if (t < TOKENS && p < parts) v[r] = load_x(a, first + t, lo * 32 + p * 8);
    }
#pragma unroll
    for (int r = 0; r < rounds; r++) {
        int i = (int)threadIdx.x + r * THREADS, t = i / (EACH * 4), p = i % (EACH * 4);
        if (t >= TOKENS || p >= parts) continue;
        u8 *to = s.x + t * PITCH + p / 4 * 64 + p % 4 * 4;
        *(u32 *)to = v[r].x, *(u32 *)(to + 16) = v[r].y, *(u32 *)(to + 32) = v[r].z, *(u32 *)(to + 48) = v[r].w;
        if (a.xb && first + t < a.n) *(uint4 *)(a.xb + (size_t)(first + t) * a.ldq + lo * 32 + p * 8) = v[r];
    }
    __syncthreads();
    if (!a.xq) return;
    for (int i = (int)threadIdx.x; i < TOKENS * EACH * 4; i += THREADS) {
        int t = i / (EACH * 4), p = i % (EACH * 4);
        if (p < parts && first + t < a.n)
            *(uint4 *)(a.xq + (size_t)(first + t) * a.ldq + lo * 32 + p * 8) = *(const uint4 *)(s.x + t * PITCH + p * 16);
    }
}

/* ---- product ---- */
#define TILES ((EXPERTS + 15) / 16)
/* Up to BATCH steps of a row tile from step on; v[i] stays what it was past the last. */
DEVICE void load_tiles(uint4 *v, const void *w, int tile, int step, int steps, int lane) {
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int at = step + i, wide = min(4, QUADS * 2 - at / 4 * 4);
        if (i < steps) v[i] = ((const uint4 *)w)[((size_t)(at / 4 * 4) * TILES + tile * wide + at % 4) * 32 + lane];
    }
}
/* Partial logits of this block's steps. v: the first of this warp's tiles, already on their way. */
DEVICE void multiply(const router_args &a, const shared &s, int step, int steps, int warp, int lane, uint4 *v) {
    int g = lane >> 2, q = lane & 3;
    u32 tokens = shared_address(s.x) + (u32)(g * PITCH + q * 16);
    for (int tile = warp; tile < TILES; tile += 8) {
        float c[TOKEN_TILES][4] = {};
        for (int k = 0; k < steps; k += BATCH) {
            if (tile != warp || k > 0) load_tiles(v, a.w, tile, step + k, steps - k, lane);
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
            for (int j = 0; j < 2; j++) {
                int e = tile * 16 + g + j * 8;
                if (e >= EXPERTS) continue;
                s.part[(t * 8 + 2 * q) * LINE + e] = c[t][2 * j];
                s.part[(t * 8 + 2 * q + 1) * LINE + e] = c[t][2 * j + 1];
            }
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

DEVICE void route(const router_args &a, const shared &s, int t, int token, int warp, int lane) {
    float logit[OWN], scores[OWN], choice[OWN], weight, all, sum = 0.0f, part[OWN][8];
    u32 key[OWN], mine = shared_address(s.part) + (u32)(t * LINE + lane) * 4;
    int id;
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int r = 0; r < 8; r++)
            if (lane + 32 * i < EXPERTS) part[i][r] = load_peer(mine + (u32)(i * 32 * 4), (u32)r);
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        logit[i] = part[i][0];
#pragma unroll
        for (int r = 1; r < 8; r++) logit[i] = __fadd_rn(logit[i], part[i][r]);
        if (a.logits && lane + 32 * i < EXPERTS) a.logits[(size_t)token * EXPERTS + lane + 32 * i] = logit[i];
    }
    cluster_arrive(); /* what peers have is read */
    score(a, logit, scores, choice, &all, lane);
#pragma unroll
    for (int i = 0; i < OWN; i++) key[i] = lane + 32 * i < EXPERTS ? order_key(choice[i]) : 0;
    if (a.groups > 1 && a.topk_groups < a.groups) keep_groups(a, choice, key, s.choice + warp * EXPERTS * 2, lane);
    id = choose(key, lane);
    weight = __fdiv_rn(value_of(scores, id), all);
    if (a.renormalize) {
        for (int j = 0; j < CHOSEN; j++) sum = __fadd_rn(sum, __shfl_sync(~0u, weight, j));
        if (a.sigmoid) sum = __fadd_rn(sum, 1e-20f);
        if (sum > 0.0f) weight = __fdiv_rn(weight, sum);
    }
    if (a.scale != 1.0f) weight = __fmul_rn(weight, a.scale);
    if (lane >= CHOSEN) return;
    int pair = token * CHOSEN + lane;
    if (a.forced) id = a.forced[pair];
    a.ids[pair] = id;
    a.weights[pair] = weight;
    a.list[(size_t)id * a.cap + atomicAdd(&a.counts[id], 1)] = pair;
}

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(THREADS, 2) router(const __grid_constant__ router_args a) {
    extern __shared__ __align__(128) u8 memory[];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, rank = (int)cluster_rank();
    int first = (int)blockIdx.x / 8 * TOKENS, lo = min(rank * EACH, QUADS), quads = min(lo + EACH, QUADS) - lo;
    shared s = {memory, (float *)(memory + TOKENS * PITCH), (float *)(memory + TOKENS * PITCH) + TOKENS * LINE};
    uint4 ahead[BATCH];
    if (warp < TILES) load_tiles(ahead, a.w, warp, lo * 2, quads * 2, lane);
    grid_wait();
    grid_launch_next();
    take_x(a, s, first, lo, quads);
    multiply(a, s, lo * 2, quads * 2, warp, lane, ahead);
    cluster_arrive();
    cluster_wait();
    int t = rank + 8 * warp; /* TOKENS <= 64: at most one token a warp */
    if (t < TOKENS && first + t < a.n)
        route(a, s, t, first + t, warp, lane);
    else
        cluster_arrive();
    cluster_wait(); /* nobody reads this block's sums any more */
}
