/* experts.cu: the experts of a MoE layer in one launch: up product with the activation, down product, combine.
 *
 * One block per multiprocessor. A *task* is an expert with up to TOKENS of its pairs; an *item* is some row tiles of one
 * task. Items come in a fixed order, all of the up product and then the down product, task by task; blocks draw them from a
 * counter. Inside a block a ring of STAGES stages holds KC inputs each of the item's weights and activations:
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
 * Few tokens (WGMMA 0): bound by memory. mma.m16n8k16, weights as its first operand, activations in lane order.
 * Many tokens (WGMMA 1, sm_90a): bound by arithmetic. wgmma.m64nNk16 with the same packed tiles from registers as its
 * first operand and the tokens in shared memory as its second. Both give the same bits (docs/numerics.md).
 */
#include "common.cuh"
#include "experts.cuh"
#if WGMMA
#    include "wgmma.cuh"
#endif

/* The shape, compiled in: D_MODEL, F_EXPERT, EXPERTS, CHOSEN. */
#define UP_STEPS   ((D_MODEL + 31) / 32 * 2)
#define DOWN_STEPS ((F_EXPERT + 31) / 32 * 2)
#define UP_ROWS    (DOWN_STEPS * (ACT == 2 ? 1 : 2)) /* row tiles of an expert */
#define DOWN_ROWS  ((D_MODEL + 15) / 16)
#define GROUPS     ((UP_ROWS + UP_TILES - 1) / UP_TILES)
#define BLOCKS     ((DOWN_ROWS + DOWN_TILES - 1) / DOWN_TILES)
#define MOST_TILES (UP_TILES > DOWN_TILES ? UP_TILES : DOWN_TILES)

#define TOKENS    (8 * TOKEN_TILES)
#define STEPS     (KC / 16)
/* COPIERS: warps that copy activations; wgmma: 2 or 6, so that they fill warpgroups with the other two. */
#define PRODUCERS (COPIERS + 2) /* these, one that copies weights, one that tells what is done */
#define THREADS   (32 * (PRODUCERS + WARPS))
/* Bytes of a token's part of a stage. mma: neighbours fall into other banks. wgmma: 128, swizzled. */
#define PITCH   (WGMMA ? 2 * KC : 2 * KC + 64)
#define CHUNK   (MOST_TILES * 4 * 512) /* of weights: 64 inputs */
#define W_BYTES (KC / 64 * CHUNK)
#define STAGE   (W_BYTES + TOKENS * PITCH)
#define OWN     ((MOST_TILES + WARPS - 1) / WARPS) /* row tiles of one warp */

/* What an item is. */
enum { UP, DOWN, END };
struct __align__(16) work {
    int kind, task, expert;
    int first, count; /* pairs list[first .. first + count) of the expert */
    int tile, tiles;  /* row tiles */
};
DEVICE int steps_of(const work &w) {
    return w.kind == UP ? UP_STEPS : DOWN_STEPS;
}

/* Items whose results are written and not told yet. */
#define STORED 4
struct shared {
    u64 weights[STAGES], tokens[STAGES], empty[STAGES], posted[STAGES]; /* barriers of the ring */
    u64 stored[STORED], told[STORED];                                   /* of items whose results are written */
    work item[STAGES]; /* of the item that begins in this stage */
    int tasks, drawn, last; /* drawn: the block's first item; a fixed one could wait for a block that has no room to start */
    int *counter[STORED]; /* that a stored item is counted in, NULL: no more */
    int counts[EXPERTS];
    u32 task[MOST_TASKS]; /* expert << 16 | which TOKENS of it */
#if WGMMA
    int row[MOST_TASKS];  /* the first of its rows of activations, a multiple of 8 */
#endif
    __align__(16) int pair[STAGES + 1][TOKENS]; /* of the items by turns: no more than STAGES are begun behind one that is being stored */
};

static_assert(STAGES * STAGE + sizeof(shared) <= EXPERTS_SHARED(WGMMA, TOKENS, MOST_TILES, KC, STAGES, EXPERTS, MOST_TASKS), "experts.cuh");
static_assert(KC % 64 == 0 && (!WGMMA || KC == 64), "chunks of 64 inputs");

DEVICE int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

/* Inclusive sum over the lanes. */
DEVICE int scan(int v, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        int below = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += below;
    }
    return v;
}
/* How many of an expert's pairs a task takes: its tasks are alike. */
DEVICE int task_size(int all) {
    int chunks = ceil_div(all, TOKENS);
    return chunks <= 1 ? all : ceil_div(ceil_div(all, chunks), 8) * 8;
}
DEVICE work work_of(const shared &s, int item) {
    work w;
    int ups = s.tasks * GROUPS;
    if (item < ups) {
        w.kind = UP, w.task = item / GROUPS;
        w.tile = item % GROUPS * UP_TILES;
        w.tiles = min(UP_TILES, UP_ROWS - w.tile);
    } else {
        w.kind = DOWN, w.task = (item - ups) / BLOCKS;
        w.tile = (item - ups) % BLOCKS * DOWN_TILES;
        w.tiles = min(DOWN_TILES, DOWN_ROWS - w.tile);
    }
    w.expert = (int)(s.task[w.task] >> 16);
    int all = s.counts[w.expert], each = task_size(all);
    w.first = (int)(s.task[w.task] & 0xffffu) * each;
    w.count = min(each, all - w.first);
    return w;
}

/* Tasks in order of experts, by one warp. */
DEVICE void list_tasks(const experts_args &a, shared &s, int lane) {
    const int rounds = (EXPERTS + 31) / 32;
    int tasks = 0, count[rounds];
#if WGMMA
    int rows = 0;
#endif
#pragma unroll
    for (int i = 0; i < rounds; i++) count[i] = i * 32 + lane < EXPERTS ? a.counts[i * 32 + lane] : 0;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        int e = i * 32 + lane, n = ceil_div(count[i], TOKENS), sum = scan(n, lane);
        if (e < EXPERTS) s.counts[e] = count[i];
        for (int j = 0; j < n; j++) s.task[tasks + sum - n + j] = (u32)e << 16 | (u32)j;
#if WGMMA
        int wide = ceil_div(count[i], 8) * 8, at = scan(wide, lane);
        for (int j = 0; j < n; j++) s.row[tasks + sum - n + j] = rows + at - wide + j * task_size(count[i]);
        rows += __shfl_sync(~0u, at, 31);
#endif
        tasks += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) s.tasks = tasks;
}

/* The registers that copying warps do not need go to those that multiply. */
#define LESS (THREADS > 512 ? 40 : 56)
#define MORE ((65536 - 32 * PRODUCERS * LESS) / (32 * WARPS) / 8 * 8)
DEVICE void registers_less() {
#if WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
#endif
}
DEVICE void registers_more() {
#if WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE > 232 ? 232 : MORE));
#endif
}

struct ring {
    int stage, parity;
    DEVICE_METHOD void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

/* ---- waiting for other blocks ---- */
/* By whole warps: until the counter is there, and what was written before it can be read. */
DEVICE void wait_count(const int *counter, int least) {
    if ((threadIdx.x & 31) == 0)
        while (load_acquire(counter) < least) {}
    __syncwarp();
}
/* An expert's up product is this many items, and each is told. */
DEVICE int up_parts(const shared &s, int expert) {
    return ceil_div(s.counts[expert], TOKENS) * GROUPS;
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
    int item = s.drawn, items = s.tasks * (GROUPS + BLOCKS), flying = 0;
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
#if WGMMA
        int wide = ceil_div(w.count, 8) * 8;
        const bf16 *rows_from = w.kind == UP ? a.xs + (size_t)s.row[w.task] * (UP_STEPS * 16) : a.h + (size_t)s.row[w.task] * (DOWN_STEPS * 16);
        if (w.kind == UP)
            wait_count(&a.gathered[w.task], COPIERS);
        else
            wait_up(a, s, w.expert);
        fence_async();
#endif
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
#if WGMMA
                barrier_expect(ready, here * 512 * (u32)w.tiles + (u32)wide * 128);
            }
            __syncwarp();
            if (lane == 31)
                bulk_copy(stages + (u32)r.stage * STAGE + W_BYTES, rows_from + (size_t)(k / 4) * wide * 64, (u32)wide * 128, ready);
#else
                barrier_arrive(shared_address(&s.posted[r.stage]));
                barrier_expect(ready, here * 512 * (u32)w.tiles);
            }
            __syncwarp();
#endif
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
#if !WGMMA
        barrier_arrive(shared_address(&s.posted[r.stage]));
#endif
        barrier_arrive(shared_address(&s.weights[r.stage]));
    }
}

/* ---- the warps that copy activations ---- */

#if WGMMA
/* Activations for wgmma lie as it reads them: a task's `wide` rows (its pairs, up to a multiple of 8) by chunks of 64 inputs,
 *
 *     chunk 0: row 0: 128 bytes | row 1: ...     chunk 1: row 0: ...
 *
 * and in row r the 16-byte part c at place c ^ (r & 7). Elements from the task's start: */
DEVICE int swizzled(int wide, int r, int input) {
    return input / 64 * wide * 64 + r * 64 + ((input / 8 % 8) ^ (r & 7)) * 8 + input % 8;
}
/* Tasks by turns of the blocks, rows by turns of the warps: x is brought into that order once, while the first products run. */
DEVICE void copy_activations(const experts_args &a, shared &s, u32, int mine, int lane) {
    const int parts = UP_STEPS * 2;
    for (int t = (int)blockIdx.x; t < s.tasks; t += (int)gridDim.x) {
        int e = (int)(s.task[t] >> 16), each = task_size(s.counts[e]), first = (int)(s.task[t] & 0xffffu) * each;
        int count = min(each, s.counts[e] - first), wide = ceil_div(count, 8) * 8;
        bf16 *to = a.xs + (size_t)s.row[t] * (UP_STEPS * 16);
        for (int r = mine; r < count; r += COPIERS) {
            const uint4 *from = (const uint4 *)(a.x + (size_t)(a.list[(size_t)e * a.cap + first + r] / CHOSEN) * a.ldx);
            for (int p0 = 0; p0 < parts; p0 += 256) {
                uint4 v[8];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (p0 + i * 32 + lane < parts) v[i] = from[p0 + i * 32 + lane];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (p0 + i * 32 + lane < parts) *(uint4 *)(to + swizzled(wide, r, (p0 + i * 32 + lane) * 8)) = v[i];
            }
        }
        fence_async();
        __syncwarp();
        if (lane == 0) add_release(&a.gathered[t], 1);
    }
}
#else
DEVICE const bf16 *row_of(const experts_args &a, int kind, int pair) {
    pair = max(pair, 0);
    return kind == DOWN ? a.h + (size_t)pair * (DOWN_STEPS * 16) : a.x + (size_t)(pair / CHOSEN) * a.ldx;
}
/* 16 bytes a lane and turn: lane l has part l % PARTS of tokens l / PARTS, l / PARTS + 32 / PARTS, ... Ordinary copies, not the
 * copy engine's: other blocks' results can be read by those without a fence that waits for all that is on its way. */
#define PARTS (KC / 8)
#define TURNS (TOKENS * PARTS / 32)
DEVICE void copy_activations(const experts_args &a, shared &s, u32 stages, int, int lane) {
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
#endif

/* ---- the warps that multiply ---- */
DEVICE void wait_stage(shared &s, const ring &r) {
    barrier_wait(shared_address(&s.weights[r.stage]), (u32)r.parity);
#if !WGMMA
    barrier_wait(shared_address(&s.tokens[r.stage]), (u32)r.parity);
#endif
}
#if ACT == 2
DEVICE float relu2(float v) {
    v = fmaxf(v, 0.0f);
    return __fmul_rn(v, v);
}
#else
DEVICE float activate(const experts_args &a, float gate, float up) {
#if ACT == 1
    gate = fminf(gate, a.limit), up = fminf(fmaxf(up, -a.limit), a.limit);
#endif
    return __fmul_rn(silu_id(gate), up);
}
#endif
/* c: rows g and g + 8 of a row tile, tokens 2q and 2q + 1. Where two neighbours of one of these tokens go: */
struct target {
    bf16 *x, *y; /* of token 2q, of 2q + 1; NULL: there is none */
};
DEVICE void store_two(bf16 *to, u32 two) {
    if (to) *(u32 *)to = two;
}
DEVICE void store_up(const experts_args &a, target to, const float *c, int g) {
#if ACT == 2
    store_two(to.x, to_bf16x2(relu2(c[0]), relu2(c[2])));
    store_two(to.y, to_bf16x2(relu2(c[1]), relu2(c[3])));
#else
    /* A lane has one feature of two tokens, its neighbour the next feature: they swap, and each stores two features. */
    float mine = activate(a, c[0], c[2]), other = activate(a, c[1], c[3]);
    float back = __shfl_xor_sync(~0u, g & 1 ? mine : other, 4);
    store_two(g & 1 ? to.y : to.x, g & 1 ? to_bf16x2(back, other) : to_bf16x2(mine, back));
#endif
}
DEVICE void store_down(target to, const float *c) {
    store_two(to.x, to_bf16x2(c[0], c[2]));
    store_two(to.y, to_bf16x2(c[1], c[3]));
}
/* The activations of token r of the item (its pair), from the place-th of the packed rows on. */
DEVICE bf16 *h_at(const experts_args &a, const shared &s, const work &w, int r, int pair, int place) {
#if WGMMA
    if (r >= w.count) return 0;
    return a.h + (size_t)s.row[w.task] * (DOWN_STEPS * 16) + swizzled(ceil_div(w.count, 8) * 8, r, lane_order(place));
#else
    return pair < 0 ? 0 : a.h + (size_t)pair * (DOWN_STEPS * 16) + place;
#endif
}

/* A token's slots: what each weighs, -1 and below in `pair`: empty. */
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
        if (s.pair[i] >= 0) y[i] = __ldcg((const uint4 *)(a.y + (size_t)s.pair[i] * (DOWN_ROWS * 16) + column));
#pragma unroll
    for (int i = 0; i < CHOSEN; i++) {
        if (s.pair[i] < 0) continue;
        u32 v[4] = {y[i].x, y[i].y, y[i].z, y[i].w};
#pragma unroll
        for (int j = 0; j < 8; j++) sum[j] = __fmaf_rn(s.weight[i], from_bf16((bf16)(v[j / 2] >> (16 * (j & 1)))), sum[j]);
    }
    for (int j = 0; j < 8 && column + j < D_MODEL; j++) {
        size_t at = (size_t)token * a.ldo + column + j;
        if (a.out_bf16)
            ((bf16 *)a.out)[at] = to_bf16(sum[j]);
        else
            ((float *)a.out)[at] = a.add ? __fadd_rn(((float *)a.out)[at], sum[j]) : sum[j];
    }
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

/* The sums go out. pair: of the item's tokens, -1 behind the last. */
template <int TILES>
DEVICE void store(const experts_args &a, const shared &s, const work &w, const float *c, const int *pair, int warp, int lane) {
    int g = lane >> 2;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        if (t * 8 >= w.count) break;
        int r = t * 8 + 2 * (lane & 3);
        int2 two = *(const int2 *)(pair + r);
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            int tile = warp + o * WARPS, row = w.tile + tile, place = ACT == 2 ? row * 16 + 2 * g : row * 8 + (g & ~1);
            const float *sums = c + (o * TILES + t) * 4;
            if (tile >= w.tiles) continue;
            if (w.kind == UP)
                store_up(a, {h_at(a, s, w, r, two.x, place), h_at(a, s, w, r + 1, two.y, place)}, sums, g);
            else {
                bf16 *y = a.y + row * 16 + 2 * g;
                store_down({two.x < 0 ? 0 : y + (size_t)two.x * (DOWN_ROWS * 16), two.y < 0 ? 0 : y + (size_t)two.y * (DOWN_ROWS * 16)}, sums);
            }
        }
    }
}

#if WGMMA
/* The sums of an item: N tokens of 64 rows by four warps; steps are a multiple of STEPS. While the products of one stage
 * run, the weights of the next are read into the other registers; then the stage is given back. */
template <int N> DEVICE void stage_product(shared &s, u32 stages, ring &r, float *c, uint4 *a, bool first, int warp, int lane) {
    u32 base = stages + (u32)r.stage * STAGE, weights = base + (u32)warp * 2048 + (u32)lane * 16;
    u64 tokens = wgmma_matrix(base + W_BYTES);
    if (!first) wait_stage(s, r);
#pragma unroll
    for (int i = 0; i < STEPS; i++) a[i] = load_shared16(weights + (u32)i * 512);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < STEPS; i++) wgmma<N>(c, a[i], tokens + (u64)(2 * i));
    wgmma_commit();
}
template <int N> DEVICE void product(shared &s, u32 stages, ring &r, float *c, int steps, int warp, int lane) {
    uint4 even[STEPS], odd[STEPS];
    u32 before;
    stage_product<N>(s, stages, r, c, even, true, warp, lane);
    before = shared_address(&s.empty[r.stage]);
    r.next();
    for (int k = STEPS; k < steps; k += 2 * STEPS) {
        stage_product<N>(s, stages, r, c, odd, false, warp, lane);
        wgmma_wait<1>();
        if (lane == 0) barrier_arrive(before);
        before = shared_address(&s.empty[r.stage]);
        r.next();
        if (k + STEPS >= steps) break;
        stage_product<N>(s, stages, r, c, even, false, warp, lane);
        wgmma_wait<1>();
        if (lane == 0) barrier_arrive(before);
        before = shared_address(&s.empty[r.stage]);
        r.next();
    }
    wgmma_wait<0>();
    if (lane == 0) barrier_arrive(before);
}
template <int N> DEVICE void make_item(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, int turn, int warp, int lane) {
    float c[N / 2] = {};
    for (int t = warp * 32 + lane; t < ceil_div(w.count, 8) * 8; t += WARPS * 32)
        s.pair[turn][t] = t < w.count ? a.list[(size_t)w.expert * a.cap + w.first + t] : -1;
    product<N>(s, stages, r, c, steps_of(w), warp, lane);
    sync_warps(1, WARPS * 32); /* the pairs are there */
    store<N / 8>(a, s, w, c, s.pair[turn], warp, lane);
}
/* Two sizes: ptxas gives the sums of each size registers of their own. */
DEVICE void make(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, int turn, int warp, int lane) {
    if (FEW_TOKENS < TOKENS && w.count <= FEW_TOKENS)
        make_item<FEW_TOKENS>(a, w, s, stages, r, turn, warp, lane);
    else
        make_item<TOKENS>(a, w, s, stages, r, turn, warp, lane);
}
#else
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
    store<TOKEN_TILES>(a, s, w, c, s.pair[turn], warp, lane);
}
#endif

/* An item's results are written: tells the teller, who may be busy with one STORED items back. */
DEVICE void hand_over(const experts_args &a, shared &s, const work &w, ring *done, int lane) {
    __syncwarp();
    barrier_wait(shared_address(&s.told[done->stage]), (u32)done->parity ^ 1u);
    if (lane == 0) {
        s.counter[done->stage] = w.kind == UP ? &a.done_up[w.expert] : a.done_down; /* all say the same */
        barrier_arrive(shared_address(&s.stored[done->stage]));
    }
    if (++done->stage == STORED) done->stage = 0, done->parity ^= 1;
}
/* The warp that tells other blocks. Its fences take long; those who multiply need not wait for them. */
DEVICE void tell(shared &s, int lane) {
    ring done = {0, 0};
    for (;;) {
        barrier_wait(shared_address(&s.stored[done.stage]), (u32)done.parity);
        int *counter = s.counter[done.stage];
        if (!counter) break;
        if (lane == 0) {
            add_release(counter, 1);
            barrier_arrive(shared_address(&s.told[done.stage]));
        }
        if (++done.stage == STORED) done.stage = 0, done.parity ^= 1;
    }
}

DEVICE void multiply(const experts_args &a, shared &s, u32 stages, int warp, int lane) {
    ring r = {0, 0}, done = {0, 0};
    int turn = 0;
    for (;;) {
        wait_stage(s, r);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        make(a, w, s, stages, r, turn, warp, lane);
        hand_over(a, s, w, &done, lane);
        if (++turn > STAGES) turn = 0;
    }
    barrier_wait(shared_address(&s.told[done.stage]), (u32)done.parity ^ 1u);
    if (lane == 0) {
        s.counter[done.stage] = 0;
        barrier_arrive(shared_address(&s.stored[done.stage]));
    }
    combine_share(a, s.tasks * BLOCKS, warp, WARPS, lane);
}

/* The last block to leave makes the counters ready for the next layer. */
DEVICE void leave(const experts_args &a, shared &s) {
    __syncthreads();
    if (threadIdx.x == 0) s.last = atomicAdd(a.left, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    for (int i = (int)threadIdx.x; i < EXPERTS; i += THREADS) a.counts[i] = a.done_up[i] = 0;
#if WGMMA
    for (int i = (int)threadIdx.x; i < s.tasks; i += THREADS) a.gathered[i] = 0;
#endif
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
        for (int i = 0; i < STORED; i++) {
            barrier_init(shared_address(&s.stored[i]), WARPS);
            barrier_init(shared_address(&s.told[i]), 1);
        }
        barriers_ready();
    }
    grid_wait();
    grid_launch_next();
    if (warp == 0) list_tasks(a, s, lane);
    if (threadIdx.x == 32) s.drawn = atomicAdd(a.next, 1);
    __syncthreads();
    if (s.tasks == 0) {
        combine_share(a, 0, warp, THREADS / 32, lane);
    } else if (warp < PRODUCERS) {
        registers_less();
        if (warp == 0)
            copy_weights(a, s, stages, lane);
        else if (warp == 1)
            tell(s, lane);
        else
            copy_activations(a, s, stages, warp - 2, lane);
    } else {
        registers_more();
        multiply(a, s, stages, warp - PRODUCERS, lane);
    }
    leave(a, s);
}
