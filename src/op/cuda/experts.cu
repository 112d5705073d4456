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
 * TOLD: nothing is counted, h and y are told by their data (told.cuh). 2: the router's ids too, so that weights are on their
 * way before its launch ends.
 *
 * For few tokens: bound by memory. mma.m16n8k16, weights as its first operand, activations in lane order. prefill.cu is for
 * many, one.cu for one; all give the same bits (docs/numerics.md).
 */
#include "common.cuh"
#include "experts.cuh"
/* TOLD: other blocks wait for h and y by their data, not by counters; 2: and for the router's choice. */
#define FEW (TOLD == 2)
#include "experts_shape.cuh"
/* How many of an expert's pairs a task takes: its tasks are alike. */
DEVICE int task_size(int all) {
    int tasks = ceil_div(all, 8 * TOKEN_TILES);
    return tasks <= 1 ? all : ceil_div(ceil_div(all, tasks), 8) * 8;
}
#include "experts_parts.cuh"
#include "told.cuh"
#include "counted.cuh"
#define MOST_TILES (UP_TILES > DOWN_TILES ? UP_TILES : DOWN_TILES)

#define STEPS     (KC / 16)
#define PRODUCERS 3 /* one that copies weights, one activations, one tells what is done */
#define THREADS   EXPERTS_THREADS(WARPS)
#define PITCH   (2 * KC + 64) /* bytes of a token's part of a stage: neighbours fall into other banks */
#define CHUNK   (MOST_TILES * 4 * 512) /* of weights: 64 inputs */
#define W_BYTES (KC / 64 * CHUNK)
#define STAGE   (W_BYTES + TOKENS * PITCH)
#define VECTORS (DOWN_ROWS * 2) /* of 8 columns, of a token */
#define OWN     ((MOST_TILES + WARPS - 1) / WARPS) /* row tiles of one warp */

struct ring {
    int stage, parity;
    DEVICE_METHOD void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

#define EACH_LANE ((EXPERTS + 31) / 32)
/* Tasks in order of experts, by one warp, when their counts are there. first: where in a list of all pairs an expert's begin, or NULL. */
DEVICE void list_counted(task_list &l, u8 *first, int lane) {
    int n[EACH_LANE], pairs = 0, tasks = 0;
#pragma unroll
    for (int i = 0; i < EACH_LANE; i++) {
        int e = lane * EACH_LANE + i;
        n[i] = e < EXPERTS ? l.counts[e] : 0;
        pairs += n[i], tasks += ceil_div(n[i], TOKENS);
    }
    int sum = scan(first ? tasks << 16 | pairs : tasks, lane), all = first ? sum >> 16 : sum; /* few pairs, if they count */
    int task = all - tasks, at = (sum & 0xffff) - pairs;
#pragma unroll
    for (int i = 0; i < EACH_LANE; i++) {
        int e = lane * EACH_LANE + i;
        if (first && e < EXPERTS) first[e] = (u8)at;
        at += n[i];
        for (int j = 0; j < ceil_div(n[i], TOKENS); j++) l.task[task++] = (u32)e << 16 | (u32)j;
    }
    if (lane == 31) l.tasks = all;
}

struct shared {
    u64 weights[STAGES], tokens[STAGES], empty[STAGES], posted[STAGES]; /* barriers of the ring */
    work item[STAGES]; /* of the item that begins in this stage */
    int parity, before, drawn, last; /* drawn: the block's first item; a fixed one could wait for a block that has no room to start */
    telling done;
    int *counter[STORED]; /* that an item is counted in */
    task_list list;
#if FEW
    u8 begins[EXPERTS], order[FEW_PAIRS]; /* an expert's pairs: order[begins ...] */
#endif
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

#if TOLD
/* Who draws the very last number makes the counters ready for the next launch: nobody reads them any more. By one warp. */
DEVICE void last_drawn(const experts_args &a, const shared &s, int item, int lane) {
    if (item != s.list.tasks * (GROUPS + BLOCKS) + (int)gridDim.x - 1) return;
    for (int e = lane; e < EXPERTS && !FEW; e += 32) a.counts[e] = 0;
    if (lane == 0) turn_over(a, s.parity);
}
#endif

/* ---- the warp that copies weights ---- */
/* What is on its way delays every other answer from memory, what blocks tell each other too: no more than AHEAD KB are
 * asked for at a time, though STAGES stages may be full. */
DEVICE void copy_weights(const experts_args &a, shared &s, u32 stages, int lane) {
    ring r = {0, 1}, behind = {0, 0}; /* empty at first */
#if COPY_ENGINE
    u64 policy = policy_evict_first();
#endif
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
            }
            u32 to = stages + (u32)r.stage * STAGE;
#if COPY_ENGINE
            if (lane == 0) barrier_expect(ready, here * 512 * (u32)w.tiles);
            __syncwarp();
            if (4 * lane < (int)here) { /* a chunk a lane */
                int deep = min(4, steps - k - 4 * lane);
                bulk_copy_hint(to + (u32)lane * CHUNK,
                               from + ((size_t)(k + 4 * lane) * rows + w.tile * deep) * 512, (u32)(w.tiles * deep) * 512, ready, policy);
            }
#else
            for (int chunk = 0; 4 * chunk < (int)here; chunk++) {
                int deep = min(4, steps - k - 4 * chunk);
                const u8 *at = from + ((size_t)(k + 4 * chunk) * rows + w.tile * deep) * 512;
                for (int i = lane * 16; i < w.tiles * deep * 512; i += 512) copy16(to + (u32)(chunk * CHUNK + i), at + i);
            }
            copies_arrive(ready);
#endif
            r.next();
        }
    }
#if TOLD
    last_drawn(a, s, item, lane);
#endif
    if (lane == 0) {
        s.item[r.stage].kind = END;
        barrier_arrive(shared_address(&s.posted[r.stage]));
    }
#if COPY_ENGINE
    if (lane == 0)
#endif
        barrier_arrive(shared_address(&s.weights[r.stage]));
}

/* ---- the warp that copies activations ---- */
#if TOLD
#    define H_OF(a, s) ((s).parity ? (a).told_h[1] : (a).told_h[0])
#    define Y_OF(a, s) ((s).parity ? (a).told_y[1] : (a).told_y[0])
#else
#    define H_OF(a, s) ((a).h)
#    define Y_OF(a, s) ((a).y)
#endif
/* Where the rows of an item are, and which of them a pair has: an offset in elements would not fit into 32 bits. */
struct rows {
    const bf16 *base;
    size_t pitch;
};
DEVICE rows rows_of(const experts_args &a, const shared &s, int kind) {
    if (kind == DOWN) return {H_OF(a, s), DOWN_STEPS * 16};
    return {a.x, (size_t)a.ldx};
}
DEVICE int row_of(int kind, int pair) {
    return kind == DOWN ? max(pair, 0) : max(pair, 0) / CHOSEN;
}
DEVICE const bf16 *part_of(const rows &all, int row, int column) {
    return all.base + (size_t)(u32)row * all.pitch + column;
}
/* 16 bytes a lane and turn: lane l has part l % PARTS of tokens l / PARTS, l / PARTS + 32 / PARTS, ... Ordinary copies, not the
 * copy engine's: other blocks' results can be read by those without a fence that waits for all that is on its way. */
#define PARTS (KC / 8)
#define TURNS (TOKENS * PARTS / 32)
#if FEW
#define PAIR_OF(a, s, w, t) ((s).order[(s).begins[(w).expert] + (w).first + (t)])
#else
#define PAIR_OF(a, s, w, t) ((a).list[(size_t)(w).expert * (a).cap + (w).first + (t)])
#endif
#if TOLD
template <int T> DEVICE void copy_told(const experts_args &a, shared &s, u32 stages, const work &w, const rows &all, const int *row, ring &r, int part, int lane) {
    const int deep = 8 / T > 0 ? 8 / T : 1;
    int steps = DOWN_STEPS;
    for (int k = 0; k < steps; k += deep * STEPS) {
        uint4 v[deep][T];
#pragma unroll
        for (int d = 0; d < deep; d++)
#pragma unroll
            for (int i = 0; i < T; i++)
                if (lane / PARTS + i * (32 / PARTS) < w.count && part < 2 * (steps - k - d * STEPS)) v[d][i] = load_relaxed16(part_of(all, row[i], part * 8 + (k + d * STEPS) * 16));
#pragma unroll
        for (int d = 0; d < deep; d++) {
            int at = k + d * STEPS;
            if (at >= steps) break;
            if (at > 0) barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
            u32 to = stages + (u32)r.stage * STAGE + W_BYTES + (u32)(lane / PARTS) * PITCH + (u32)part * 16;
#pragma unroll
            for (int i = 0; i < T; i++)
                if (lane / PARTS + i * (32 / PARTS) < w.count && part < 2 * (steps - at)) {
                    while (!is_told(v[d][i])) v[d][i] = load_relaxed16(part_of(all, row[i], part * 8 + at * 16));
                    store_shared16(to + (u32)i * (32 / PARTS) * PITCH, v[d][i]);
                }
            barrier_arrive(shared_address(&s.tokens[r.stage]));
            r.next();
        }
    }
}
#endif
DEVICE void copy_activations(const experts_args &a, shared &s, u32 stages, int lane) {
    ring r = {0, 0};
    int turn = 0, part = lane % PARTS;
    for (;;) {
        barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        rows all = rows_of(a, s, w.kind);
        int row[TURNS];
        for (int t = lane; t < TOKENS; t += 32) s.pair[turn][t] = t < w.count ? PAIR_OF(a, s, w, t) : -1;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TURNS; i++) row[i] = row_of(w.kind, s.pair[turn][lane / PARTS + i * (32 / PARTS)]);
#if TOLD
        if (w.kind == DOWN) {
            if (w.count * PARTS <= 32)
                copy_told<1>(a, s, stages, w, all, row, r, part, lane);
            else
                copy_told<TURNS>(a, s, stages, w, all, row, r, part, lane);
            if (++turn > STAGES) turn = 0;
            continue;
        }
#else
        if (w.kind == DOWN) wait_up(a, s, w.expert);
#endif
        for (int k = 0; k < steps_of(w); k += STEPS) {
            if (k > 0) barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
            u32 to = stages + (u32)r.stage * STAGE + W_BYTES + (u32)(lane / PARTS) * PITCH + (u32)part * 16;
#pragma unroll
            for (int i = 0; i < TURNS; i++)
                if (lane / PARTS + i * (32 / PARTS) < w.count && part < 2 * (steps_of(w) - k))
                    copy16(to + (u32)i * (32 / PARTS) * PITCH, part_of(all, row[i], part * 8 + k * 16));
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
DEVICE bf16 *h_at(const experts_args &a, const shared &s, int pair, int place) {
    return pair < 0 ? 0 : H_OF(a, s) + (size_t)pair * (DOWN_STEPS * 16) + place;
}
/* Where a pair's part of the down product goes. */
DEVICE bf16 *y_at(const experts_args &a, const shared &s, int pair, int column) {
    return pair < 0 ? 0 : Y_OF(a, s) + (size_t)pair * (DOWN_ROWS * 16) + column;
}

/* c: rows g and g + 8 of a row tile, tokens 2q and 2q + 1. Where two neighbours of one of these tokens go: */
struct target {
    bf16 *x, *y; /* of token 2q, of 2q + 1; NULL: there is none */
};
DEVICE void store_two(bf16 *to, u32 two) {
    if (!to) return;
#if TOLD
    store_relaxed(to, two);
#else
    *(u32 *)to = two;
#endif
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

/* T: tiles of 8 tokens that there is room for; a task with few tokens multiplies fewer. */
#define FEWER ((TOKEN_TILES + 1) / 2)
/* The sums go out. pair: of the item's tokens, -1 behind the last. */
template <int T> DEVICE void store(const experts_args &a, const shared &s, const work &w, const float *c, const int *pair, int warp, int lane) {
    int g = lane >> 2;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (t * 8 >= w.count) break;
        int2 two = *(const int2 *)(pair + t * 8 + 2 * (lane & 3));
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            int tile = warp + o * WARPS, row = w.tile + tile, place = ACT == 2 ? row * 16 + 2 * g : row * 8 + (g & ~1);
            const float *sums = c + (o * T + t) * 4;
            if (tile >= w.tiles) continue;
            if (w.kind == UP)
                store_up(a, {h_at(a, s, two.x, place), h_at(a, s, two.y, place)}, sums, g);
            else
                store_down({y_at(a, s, two.x, row * 16 + 2 * g), y_at(a, s, two.y, row * 16 + 2 * g)}, sums);
        }
    }
}

/* How far behind the last row tile of a stage a warp's would be: it reads the last, and stores nothing. */
DEVICE u32 spare_tiles(int tile) {
    return OWN * WARPS > MOST_TILES ? (u32)max(0, tile - (MOST_TILES - 1)) : 0;
}
template <int T> DEVICE void make(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, int turn, int warp, int lane) {
    float c[OWN * T * 4] = {};
    int g = lane >> 2, q = lane & 3, steps = steps_of(w);
    for (int k = 0; k < steps; k += STEPS) {
        if (k > 0) wait_stage(s, r);
        u32 base = stages + (u32)r.stage * STAGE, weights = base + (u32)warp * 2048 + (u32)lane * 16;
        u32 tokens = base + W_BYTES + (u32)g * PITCH + (u32)q * 16;
        int here = min(STEPS, steps - k);
#pragma unroll 4
        for (int i = 0; i < here; i += 2) {
            uint4 w0[OWN], w1[OWN];
#pragma unroll
            for (int o = 0; o < OWN; o++) {
                u32 at = weights + (u32)(i / 4 * CHUNK + o * WARPS * 2048 + i % 4 * 512), spare = spare_tiles(o * WARPS + warp);
                if (spare) at -= spare * 2048;
                if (here - i / 4 * 4 < 4) at -= ((u32)(o * WARPS + warp) - spare) * 1024; /* the last chunk, of two steps */
                w0[o] = load_shared16(at), w1[o] = load_shared16(at + 512);
            }
#pragma unroll
            for (int t = 0; t < T; t += 2) {
                uint4 b[2];
#pragma unroll
                for (int j = 0; j < 2; j++)
                    if (t + j < T) b[j] = load_shared16(tokens + (u32)(t + j) * 8 * PITCH + (u32)i * 32);
#pragma unroll
                for (int o = 0; o < OWN * 2; o++)
                    if (t + o % 2 < T) mma(c + (o / 2 * T + t + o % 2) * 4, w0[o / 2], b[o % 2].x, b[o % 2].y);
#pragma unroll
                for (int o = 0; o < OWN * 2; o++)
                    if (t + o % 2 < T) mma(c + (o / 2 * T + t + o % 2) * 4, w1[o / 2], b[o % 2].z, b[o % 2].w);
            }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(shared_address(&s.empty[r.stage]));
        r.next();
    }
    store<T>(a, s, w, c, s.pair[turn], warp, lane);
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
#if TOLD
#define LOAD_Y(p) load_relaxed16(p)
#else
#define LOAD_Y(p) __ldcg((const uint4 *)(p))
#endif
/* Eight columns of a token: slots in order, fp32, one rounding at the end. */
DEVICE void combine_vector(const experts_args &a, const shared &sh, const slots &s, int token, int column) {
    float sum[8] = {};
    uint4 y[CHOSEN];
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.pair[i] >= 0) y[i] = LOAD_Y(y_at(a, sh, s.pair[i], column));
#if TOLD
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.pair[i] >= 0)
            while (!is_told(y[i])) y[i] = LOAD_Y(y_at(a, sh, s.pair[i], column));
#endif
#pragma unroll
    for (int i = 0; i < CHOSEN; i++)
        if (s.pair[i] >= 0) {
            u32 v[4] = {y[i].x, y[i].y, y[i].z, y[i].w};
            for (int j = 0; j < 4; j++) add_two(sum + 2 * j, v[j], s.weight[i]);
        }
    put_eight(a, token, column, sum);
}
/* This block's share of everything, when all `down` parts are there: 32 vectors a warp, warps of all blocks by turns. */
struct share {
    int at, all, step;
    slots first;
};
DEVICE share share_of(const experts_args &a, int warp, int warps, int lane) {
    share sh;
    sh.at = (warp * (int)gridDim.x + (int)blockIdx.x) * 32 + lane;
    sh.all = a.n * VECTORS, sh.step = warps * (int)gridDim.x * 32;
    if (sh.at < sh.all) sh.first = slots_of(a, sh.at / VECTORS);
    return sh;
}
DEVICE void combine_share(const experts_args &a, const shared &s, share sh, int down) {
#if !TOLD
    wait_count(a.done_down, down);
#endif
    for (int i = sh.at; i < sh.all; i += sh.step) {
        slots next = sh.first;
        if (i + sh.step < sh.all) next = slots_of(a, (i + sh.step) / VECTORS); /* on its way while this one is combined */
        combine_vector(a, s, sh.first, i / VECTORS, i % VECTORS * 8);
        sh.first = next;
    }
}

DEVICE void multiply(const experts_args &a, shared &s, u32 stages, int warp, int lane) {
    ring r = {0, 0};
    teller done = {0, 0};
    int turn = 0;
#if TOLD
    clear_other(a, s.parity, s.before, warp * 32 + lane, WARPS * 32);
    share sh = share_of(a, warp, WARPS, lane); /* early: the end waits for nothing but y */
#endif
    for (;;) {
        wait_stage(s, r);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        if (FEWER > 1 && w.count <= 8 * FEWER)
            make<FEWER>(a, w, s, stages, r, turn, warp, lane);
        else
            make<TOKEN_TILES>(a, w, s, stages, r, turn, warp, lane);
        if (!TOLD) hand_over(s.done, &done, s.counter, w.kind == UP ? &a.done_up[w.expert] : a.done_down, warp, lane);
        if (++turn > STAGES) turn = 0;
    }
    hand_over(s.done, &done, s.counter, {}, warp, lane);
#if !TOLD
    share sh = share_of(a, warp, WARPS, lane);
#endif
    combine_share(a, s, sh, s.list.tasks * BLOCKS);
}

#if !TOLD
/* The last block to leave makes the counters ready for the next layer. */
DEVICE void leave(const experts_args &a, shared &s) {
    __syncthreads();
    if (threadIdx.x == 0) s.last = atomicAdd(a.left, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    for (int i = (int)threadIdx.x; i < EXPERTS; i += THREADS) a.counts[i] = a.done_up[i] = 0;
    if (threadIdx.x == 0) *a.next = 0, *a.done_down = 0, *a.left = 0;
}
#endif

#if FEW
/* Tasks and pairs from the router's choice, which comes before its launch ends; by one warp. */
DEVICE void take_ids(const experts_args &a, shared &s, int lane) {
    const int rounds = (FEW_PAIRS + 31) / 32;
    int id[rounds], at[rounds], drawn = 0;
    if (lane == 0) drawn = atomicAdd(a.next, 1);
    int state = load_relaxed(a.state);
    const int *told = state & 1 ? a.told_ids[1] : a.told_ids[0];
    for (int e = lane; e < EXPERTS; e += 32) s.list.counts[e] = 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < rounds; i++) id[i] = lane + 32 * i < a.n * CHOSEN ? load_relaxed(told + lane + 32 * i) : -2;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        while (id[i] == -1) id[i] = load_relaxed(told + lane + 32 * i);
        at[i] = id[i] >= 0 ? atomicAdd(&s.list.counts[id[i]], 1) : 0;
    }
    if (lane == 0) s.drawn = drawn, s.parity = state & 1, s.before = state >> 1;
    __syncwarp();
    list_counted(s.list, s.begins, lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < rounds; i++)
        if (id[i] >= 0) s.order[s.begins[id[i]] + at[i]] = (u8)(lane + 32 * i);
    __syncwarp();
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) experts(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)(memory + STAGES * STAGE);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    u32 stages = shared_address(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&s.weights[i]), COPY_ENGINE ? 1 : 32);
            barrier_init(shared_address(&s.tokens[i]), 32);
            barrier_init(shared_address(&s.empty[i]), WARPS);
            barrier_init(shared_address(&s.posted[i]), 1);
        }
        telling_init(s.done);
        barriers_ready();
    }
#if FEW
    grid_launch_next();
    if (warp == 0) {
        take_ids(a, s, lane);
        arrive_warps(1, THREADS);
    } else {
        sync_warps(1, THREADS);
        grid_wait(); /* what else the router leaves */
    }
#else
    grid_wait();
    grid_launch_next();
    if (warp == 0) {
        for (int e = lane; e < EXPERTS; e += 32) s.list.counts[e] = a.counts[e];
        __syncwarp();
        list_counted(s.list, 0, lane);
    }
    if (threadIdx.x == 32) s.drawn = atomicAdd(a.next, 1);
#if TOLD
    if (threadIdx.x == 64) {
        int state = *(volatile int *)a.state;
        s.parity = state & 1, s.before = state >> 1;
    }
#endif
    __syncthreads();
#endif
    if (s.list.tasks == 0) {
        if (FEW && warp == 0) grid_wait();
#if TOLD
        if (warp == 0) last_drawn(a, s, s.drawn, lane);
#endif
        combine_share(a, s, share_of(a, warp, THREADS / 32, lane), 0);
    } else if (warp < PRODUCERS) {
        if (warp == 0)
            copy_weights(a, s, stages, lane);
        else if (warp == 1)
            tell(s.done, s.counter, lane);
        else
            copy_activations(a, s, stages, lane);
    } else {
        multiply(a, s, stages, warp - PRODUCERS, lane);
    }
#if !TOLD
    leave(a, s);
#endif
}
