/* experts.cu: the experts of a MoE layer in one launch: up product with the activation, down product, combine.
 *
 * One block per multiprocessor. Blocks draw items (experts_parts.cuh); inside a block a ring of STAGES stages holds KC inputs
 * each of the item's weights and activations:
 *
 *     weights         one warp draws items and copies weights; they depend on nothing, so it runs ahead
 *     activations     copied beside them, the pairs' rows gathered; those of the down product when the task's up product is
 *                     complete everywhere
 *     multiply        the other warps: each has its row tiles, their sums in registers, one chain over ascending k
 *     tell            one warp counts finished items where other blocks see it
 *
 * When all items are done every block combines its share, slots in order. The last block to leave puts the counters back to
 * zero. Rows of y (and of h) are pairs (token * k + slot), so no prefix sum over experts is needed.
 *
 * For few tokens: bound by memory. mma.m16n8k16, weights as its first operand, activations in lane order. prefill.cu is for
 * many; both give the same bits (docs/numerics.md).
 */
#include "common.cuh"
#include "experts.cuh"
#define TASK_ROWS 1
#include "experts_parts.cuh"

#define STEPS     (KC / 16)
#define PRODUCERS 3 /* one that copies weights, one activations, one tells what is done */
#define THREADS   EXPERTS_THREADS(WARPS)
#define PITCH   (2 * KC + 64) /* bytes of a token's part of a stage: neighbours fall into other banks */
#define CHUNK   (MOST_TILES * 4 * 512) /* of weights: 64 inputs */
#define W_BYTES (KC / 64 * CHUNK)
#define STAGE   (W_BYTES + TOKENS * PITCH)
#define OWN     ((MOST_TILES + WARPS - 1) / WARPS) /* row tiles of one warp */

struct shared {
    u64 weights[STAGES], tokens[STAGES], empty[STAGES], posted[STAGES]; /* barriers of the ring */
    work item[STAGES]; /* of the item that begins in this stage */
    int drawn, last; /* drawn: the block's first item; a fixed one could wait for a block that has no room to start */
    telling done;
    task_list list;
    __align__(16) int pair[STAGES + 1][TOKENS]; /* of the items by turns: no more than STAGES are begun behind one that is being stored */
};

static_assert(STAGES * STAGE + sizeof(shared) <= EXPERTS_SHARED(TOKENS, MOST_TILES, KC, STAGES, EXPERTS, MOST_TASKS), "experts.cuh");
static_assert(KC % 64 == 0, "chunks of 64 inputs");

DEVICE work work_of(const shared &s, int item) {
    work w;
    int ups = s.list.tasks * GROUPS;
    if (item < ups) {
        w.kind = UP, w.task = item / GROUPS;
        w.tile = item % GROUPS * UP_TILES;
        w.tiles = min(UP_TILES, UP_ROWS - w.tile);
    } else {
        w.kind = DOWN, w.task = (item - ups) / BLOCKS;
        w.tile = (item - ups) % BLOCKS * DOWN_TILES;
        w.tiles = min(DOWN_TILES, DOWN_ROWS - w.tile);
    }
    pairs_of(s.list, w.task, &w.expert, &w.first, &w.count);
    return w;
}

/* An expert's up product is this many items, and each is told. */
DEVICE int up_parts(const shared &s, int expert) {
    return ceil_div(s.list.counts[expert], TOKENS) * GROUPS;
}
/* What the other blocks made of an expert's up product can be read. */
DEVICE void wait_up(const experts_args &a, const shared &s, int expert) {
    wait_count(&a.done_up[expert], up_parts(s, expert));
}

/* ---- the warp that copies weights ---- */
/* What is on its way delays every other answer from memory, what blocks tell each other too: no more than AHEAD KB are
 * asked for at a time, though STAGES stages may be full. */
DEVICE void copy_weights(const experts_args &a, shared &s, u32 stages, int lane) {
    ring r = {0, 1}, behind = {0, 0}; /* empty at first */
    u64 policy = policy_evict_first();
    int item = s.drawn, items = s.list.tasks * (GROUPS + BLOCKS), flying = 0;
    bool asked = false;
    for (;;) {
        barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity);
        if (asked) { /* drawn no sooner than there is room for it: others may be quicker */
            if (lane == 0) item = atomicAdd(a.next, 1);
            item = __shfl_sync(~0u, item, 0);
        }
        if (item >= items) break;
        work w = work_of(s, item);
        int steps = steps_of(w), rows = w.kind == UP ? UP_ROWS : DOWN_ROWS;
        int most = max(1, min(STAGES, AHEAD * 1024 / (STEPS * 512 * w.tiles)));
        const u8 *from = (const u8 *)(w.kind == UP ? a.w_up : a.w_down) + (size_t)w.expert * rows * steps * 512;
        for (int k = 0; k < steps; k += STEPS) {
            u32 here = (u32)min(STEPS, steps - k), ready = shared_address(&s.weights[r.stage]);
            if (k > 0) barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity);
            for (asked = true; flying >= most; flying--, behind.next())
                barrier_wait(shared_address(&s.weights[behind.stage]), (u32)behind.parity);
            flying++;
            if (lane == 0) {
                if (k == 0) s.item[r.stage] = w;
                barrier_arrive(shared_address(&s.posted[r.stage]));
                barrier_expect(ready, here * 512 * (u32)w.tiles);
            }
            __syncwarp();
            if (4 * lane < (int)here) { /* a chunk a lane */
                int deep = min(4, steps - k - 4 * lane);
                bulk_copy_hint(stages + (u32)r.stage * STAGE + (u32)lane * CHUNK,
                               from + ((size_t)(k + 4 * lane) * rows + w.tile * deep) * 512, (u32)(w.tiles * deep) * 512, ready, policy);
            }
            r.next();
        }
    }
    if (lane == 0) {
        s.item[r.stage].kind = END;
        barrier_arrive(shared_address(&s.posted[r.stage]));
        barrier_arrive(shared_address(&s.weights[r.stage]));
    }
}

/* ---- the warp that copies activations ---- */
DEVICE const bf16 *row_of(const experts_args &a, int kind, int pair) {
    pair = max(pair, 0);
    return kind == DOWN ? a.h + (size_t)pair * (DOWN_STEPS * 16) : a.x + (size_t)(pair / CHOSEN) * a.ldx;
}
/* 16 bytes a lane and turn: lane l has part l % PARTS of tokens l / PARTS, l / PARTS + 32 / PARTS, ... Ordinary copies, not the
 * copy engine's: other blocks' results can be read by those without a fence that waits for all that is on its way. */
#define PARTS (KC / 8)
#define TURNS (TOKENS * PARTS / 32)
DEVICE void copy_activations(const experts_args &a, shared &s, u32 stages, int lane) {
    ring r = {0, 0};
    int turn = 0, part = lane % PARTS;
    for (;;) {
        barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        const bf16 *from[TURNS];
        for (int t = lane; t < TOKENS; t += 32) s.pair[turn][t] = t < w.count ? a.list[(size_t)w.expert * a.cap + w.first + t] : -1;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TURNS; i++) from[i] = row_of(a, w.kind, s.pair[turn][lane / PARTS + i * (32 / PARTS)]) + part * 8;
        if (w.kind == DOWN) wait_up(a, s, w.expert);
        for (int k = 0; k < steps_of(w); k += STEPS) {
            if (k > 0) barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
            u32 to = stages + (u32)r.stage * STAGE + W_BYTES + (u32)(lane / PARTS) * PITCH + (u32)part * 16;
#pragma unroll
            for (int i = 0; i < TURNS; i++)
                if (lane / PARTS + i * (32 / PARTS) < w.count && part < 2 * (steps_of(w) - k))
                    copy16(to + (u32)i * (32 / PARTS) * PITCH, from[i] + k * 16);
            copies_arrive(shared_address(&s.tokens[r.stage]));
            r.next();
        }
        if (++turn > STAGES) turn = 0;
    }
    copies_arrive(shared_address(&s.tokens[r.stage]));
}

/* ---- the warps that multiply ---- */
DEVICE void wait_stage(shared &s, const ring &r) {
    barrier_wait(shared_address(&s.weights[r.stage]), (u32)r.parity);
    barrier_wait(shared_address(&s.tokens[r.stage]), (u32)r.parity);
}
/* A pair's activations, from the place-th on. */
DEVICE bf16 *h_at(const experts_args &a, int pair, int place) {
    return pair < 0 ? 0 : a.h + (size_t)pair * (DOWN_STEPS * 16) + place;
}
/* Where a pair's part of the down product goes. */
DEVICE bf16 *y_at(const experts_args &a, int pair, int column) {
    return pair < 0 ? 0 : a.y + (size_t)pair * (DOWN_ROWS * 16) + column;
}

/* The sums go out. pair: of the item's tokens, -1 behind the last. */
DEVICE void store(const experts_args &a, const work &w, const float *c, const int *pair, int warp, int lane) {
    int g = lane >> 2;
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; t++) {
        if (t * 8 >= w.count) break;
        int2 two = *(const int2 *)(pair + t * 8 + 2 * (lane & 3));
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            int tile = warp + o * WARPS, row = w.tile + tile, place = ACT == 2 ? row * 16 + 2 * g : row * 8 + (g & ~1);
            const float *sums = c + (o * TOKEN_TILES + t) * 4;
            if (tile >= w.tiles) continue;
            if (w.kind == UP)
                store_up(a, {h_at(a, two.x, place), h_at(a, two.y, place)}, sums, g);
            else
                store_down({y_at(a, two.x, row * 16 + 2 * g), y_at(a, two.y, row * 16 + 2 * g)}, sums);
        }
    }
}

DEVICE void make(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, int turn, int warp, int lane) {
    float c[OWN * TOKEN_TILES * 4] = {};
    int g = lane >> 2, q = lane & 3, steps = steps_of(w);
    for (int k = 0; k < steps; k += STEPS) {
        if (k > 0) wait_stage(s, r);
        u32 base = stages + (u32)r.stage * STAGE, weights = base + (u32)warp * 2048 + (u32)lane * 16;
        u32 tokens = base + W_BYTES + (u32)g * PITCH + (u32)q * 16;
        int here = min(STEPS, steps - k);
#pragma unroll 4
        for (int i = 0; i < here; i += 2) {
            uint4 b[TOKEN_TILES];
#pragma unroll
            for (int t = 0; t < TOKEN_TILES; t++) b[t] = load_shared16(tokens + (u32)t * 8 * PITCH + (u32)i * 32);
#pragma unroll
            for (int o = 0; o < OWN; o++) {
                u32 at = weights + (u32)(i / 4 * CHUNK + o * WARPS * 2048 + i % 4 * 512);
                if (here - i / 4 * 4 < 4) at -= (u32)(o * WARPS + warp) * 1024; /* the last chunk, of two steps */
                uint4 a0 = load_shared16(at), a1 = load_shared16(at + 512);
#pragma unroll
                for (int t = 0; t < TOKEN_TILES; t++) mma(c + (o * TOKEN_TILES + t) * 4, a0, b[t].x, b[t].y);
#pragma unroll
                for (int t = 0; t < TOKEN_TILES; t++) mma(c + (o * TOKEN_TILES + t) * 4, a1, b[t].z, b[t].w);
            }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(shared_address(&s.empty[r.stage]));
        r.next();
    }
    store(a, w, c, s.pair[turn], warp, lane);
}

/* A token's slots: what each weighs, -1 in `pair`: empty. */
struct slots {
    int pair[CHOSEN];
    float weight[CHOSEN];
};
DEVICE slots slots_of(const experts_args &a, int token) {
    slots s;
#pragma unroll
    for (int i = 0; i < CHOSEN; i++) {
        s.pair[i] = a.ids[token * CHOSEN + i] < 0 ? -1 : token * CHOSEN + i;
        s.weight[i] = a.weights[token * CHOSEN + i];
    }
    return s;
}
/* Eight columns of a token: slots in order, fp32, one rounding at the end. */
DEVICE void combine_vector(const experts_args &a, const slots &s, int token, int column) {
    float sum[8] = {};
    uint4 y[CHOSEN];
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.pair[i] >= 0) y[i] = __ldcg((const uint4 *)y_at(a, s.pair[i], column));
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.pair[i] >= 0) {
            u32 v[4] = {y[i].x, y[i].y, y[i].z, y[i].w};
            for (int j = 0; j < 4; j++) add_two(sum + 2 * j, v[j], s.weight[i]);
        }
    put_out<8>(a, token, column, sum);
}
/* This block's share of everything, when all `down` parts are there: 32 vectors a warp, warps of all blocks by turns. */
DEVICE void combine_share(const experts_args &a, int down, int warp, int warps, int lane) {
    const int vectors = DOWN_ROWS * 2;
    int i = (warp * (int)gridDim.x + (int)blockIdx.x) * 32 + lane, all = a.n * vectors, step = warps * (int)gridDim.x * 32;
    slots s;
    if (i < all) s = slots_of(a, i / vectors);
    wait_count(a.done_down, down);
    for (; i < all; i += step) {
        slots next = s;
        if (i + step < all) next = slots_of(a, (i + step) / vectors); /* on its way while this one is combined */
        combine_vector(a, s, i / vectors, i % vectors * 8);
        s = next;
    }
}

DEVICE void multiply(const experts_args &a, shared &s, u32 stages, int warp, int lane) {
    ring r = {0, 0};
    teller done = {0, 0};
    int turn = 0;
    for (;;) {
        wait_stage(s, r);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        make(a, w, s, stages, r, turn, warp, lane);
        hand_over(s.done, &done, w.kind == UP ? &a.done_up[w.expert] : a.done_down, lane);
        if (++turn > STAGES) turn = 0;
    }
    hand_over(s.done, &done, 0, lane);
    combine_share(a, s.list.tasks * BLOCKS, warp, WARPS, lane);
}

/* The last block to leave makes the counters ready for the next layer. */
DEVICE void leave(const experts_args &a, shared &s) {
    __syncthreads();
    if (threadIdx.x == 0) s.last = atomicAdd(a.left, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    for (int i = (int)threadIdx.x; i < EXPERTS; i += THREADS) a.counts[i] = a.done_up[i] = 0;
    if (threadIdx.x == 0) *a.next = 0, *a.done_down = 0, *a.left = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) experts(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)(memory + STAGES * STAGE);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    u32 stages = shared_address(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&s.weights[i]), 1);
            barrier_init(shared_address(&s.tokens[i]), 32);
            barrier_init(shared_address(&s.empty[i]), WARPS);
            barrier_init(shared_address(&s.posted[i]), 1);
        }
        telling_init(s.done);
        barriers_ready();
    }
    grid_wait();
    grid_launch_next();
    if (warp == 0) list_tasks(a, s.list, lane);
    if (threadIdx.x == 32) s.drawn = atomicAdd(a.next, 1);
    __syncthreads();
    if (s.list.tasks == 0) {
        combine_share(a, 0, warp, THREADS / 32, lane);
    } else if (warp < PRODUCERS) {
        if (warp == 0)
            copy_weights(a, s, stages, lane);
        else if (warp == 1)
            tell(s.done, lane);
        else
            copy_activations(a, s, stages, lane);
    } else {
        multiply(a, s, stages, warp - PRODUCERS, lane);
    }
    leave(a, s);
}
