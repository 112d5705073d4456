/* prefill.cu: the experts of a MoE layer in one launch, for many tokens (sm_90a): the same sums as experts.cu, bit for bit.
 *
 * Bound by arithmetic, by the energy that it takes, or by what multiprocessors can read from the L2. wgmma.m64nNk16 takes the
 * packed tiles of weights from registers and the tokens from shared memory. Two blocks, a cluster, share an item's tokens:
 * each brings half of them, for both. A block has WARPS row tiles of the item, a ring of stages of 64 inputs, and
 *
 *     clerk         draws items ahead (one of the two blocks draws for both), and sees when an item's tokens are there:
 *                   gathered, or the task's up product complete everywhere. What it asks of the L2 takes microseconds
 *     copy          weights and tokens of items as the ring has room
 *     tell          takes results out of the ring, and counts finished items where other blocks see it
 *     help          brings x into the order of tasks, and later combines what is complete
 *     multiply      two warpgroups, 64 rows each
 *
 * A task is multiplied by as many tokens as the first of WIDTHS that is enough for it. Activations (xs of x, h of the up
 * product) lie as wgmma reads them: a task's `wide` rows (its pairs, up to a multiple of 8) by chunks of 64 inputs,
 *
 *     chunk 0: row 0: 128 bytes | row 1: ...     chunk 1: row 0: ...
 *
 * and in row r the 16-byte part c at place c ^ (r & 7). The down product goes by groups of columns, all tasks for one group
 * and then the next, so that what is combined is still in the L2 and is combined beside the products of the next.
 */
#include "common.cuh"
#include "cluster.cuh"
#include "experts.cuh"
#define CLUSTER    PREFILL_CLUSTER
#define WARPS      8
#define UP_TILES   (CLUSTER * WARPS) /* of an item: of both blocks */
#define DOWN_TILES (CLUSTER * WARPS)
#include "experts_shape.cuh"
/* Rows that `count` pairs take. */
DEVICE int wide_of(int count) {
    return ceil_div(count, 8) * 8;
}
/* Tokens that are multiplied for `count`: bit i of WIDTHS stands for 32 (i + 1). */
DEVICE int width_of(int count) {
    return 32 * __ffs(WIDTHS & ~0u << (count - 1) / 32);
}
/* How many of an expert's pairs a task takes: its tasks are alike, or full but for the last, whichever multiplies less. */
DEVICE int task_size(int all) {
    int most = 8 * TOKEN_TILES, others = ceil_div(all, most) - 1;
    if (others <= 0) return all;
    int alike = wide_of(ceil_div(all, others + 1));
    return others * most + width_of(all - others * most) < others * width_of(alike) + width_of(all - others * alike) ? most : alike;
}
#include "experts_parts.cuh"
#include "counted.cuh"
#include "wgmma.cuh"

#define PRODUCERS 4
#define THREADS   PREFILL_THREADS
#define LESS      56 /* registers of a producer; together no more than the block starts with */
#define MORE      224
#define STEPS     4                  /* of a stage */
#define W_BYTES   (WARPS * 2048)     /* of a stage; behind them the tokens */
#define SLOTS     PREFILL_SLOTS
#define ITEMS     (SLOTS + 4) /* that are known at a time */
#define UNIT      8                  /* rows that are gathered at a time */
#define COLUMNS   (DOWN_TILES * 16)  /* combined at a time: an item of the down product, eight a lane */
#define Y_PITCH   (DOWN_ROWS * 16)
#define PARTS     (BLOCKS < 4 ? BLOCKS : 4) /* groups of columns; the last, which nothing is beside when it is combined, is small */
#define X_BYTES   (UP_STEPS * 32)           /* of a row */
#define X_ROWS    PREFILL_ROWS(D_MODEL)     /* that are on their way to the helper at a time */
#define HELP      PREFILL_HELP(D_MODEL, CHOSEN)
#define STAGED    (ACT != 2)                /* a block's part of an up product is one chunk of h, and goes out through a stage */

struct row_list : task_list {
    int row[MOST_TASKS]; /* the first of a task's rows of activations, a multiple of 8 */
};
/* An item's results: taken out of a stage first, unless stage is -1; then counted. */
struct __align__(16) parcel {
    int *counter; /* NULL: no more */
    bf16 *to;
    u32 from, bytes;
    int stage;
};
struct shared {
    u64 full[SLOTS], empty[SLOTS]; /* barriers of the ring */
    telling done;
    /* Of items by turns: a letter from the block that draws; known; begun to be copied; its activations may be read. */
    u64 mail[ITEMS], known[ITEMS], begun[ITEMS], clear[ITEMS];
    int letter[ITEMS];
    int last;
    work next[ITEMS];  /* known */
    work item[SLOTS]; /* of the item that begins in this stage */
    parcel sent[STORED];
    row_list list;
    __align__(16) u8 help[HELP]; /* what the helper brings */
};
static_assert(PRODUCERS * LESS + WARPS * MORE <= THREADS / 32 * (65536 / THREADS / 8 * 8), "a block that asks for more waits for ever");
static_assert(sizeof(shared) <= PREFILL_FIXED(EXPERTS, MOST_TASKS, D_MODEL, CHOSEN), "experts.cuh");
static_assert(ROOM >= 2 * (W_BYTES + TOKENS * 128) && ROOM % 1024 == 0, "two stages at least, on 1024 bytes");
static_assert(WIDTHS >> (TOKENS / 32 - 1) == 1 && TOKENS % 32 == 0 && TOKENS <= 288, "a task takes the widest");

/* Tasks in order of experts, by one warp. */
DEVICE void list_tasks(const experts_args &a, row_list &l, int lane) {
    const int rounds = (EXPERTS + 31) / 32;
    int tasks = 0, rows = 0, count[rounds];
#pragma unroll
    for (int i = 0; i < rounds; i++) count[i] = i * 32 + lane < EXPERTS ? a.counts[i * 32 + lane] : 0;
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        int e = i * 32 + lane, n = ceil_div(count[i], TOKENS), sum = scan(n, lane);
        if (e < EXPERTS) l.counts[e] = count[i];
        for (int j = 0; j < n; j++) l.task[tasks + sum - n + j] = (u32)e << 16 | (u32)j;
        int wide = wide_of(count[i]), at = scan(wide, lane);
        for (int j = 0; j < n; j++) l.row[tasks + sum - n + j] = rows + at - wide + j * task_size(count[i]);
        rows += __shfl_sync(~0u, at, 31);
        tasks += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) l.tasks = tasks;
}
/* The first item column of a group. */
DEVICE int part_begin(int part) {
    const int last = (BLOCKS + 5) / 8;
    return BLOCKS <= 4 ? part : part < PARTS - 1 ? part * (BLOCKS - last) / (PARTS - 1) : part < PARTS ? BLOCKS - last : BLOCKS;
}
DEVICE int part_of(int block) {
    int part = 0;
    while (part + 1 < PARTS && block >= part_begin(part + 1)) part++;
    return part;
}
/* The at-th of `pieces` times the tasks: up to ABREAST tasks of an expert go piece by piece side by side, and find its weights
 * in the L2. No more, since each needs its place for x until its last piece. */
#define ABREAST 16
static_assert(ABREAST <= PREFILL_PLACES, "a task would wait for its own place");
DEVICE int piece_of(const task_list &l, int at, int pieces, int *task) {
    int one = at / pieces, nth = (int)(l.task[one] & 0xffffu), all = ceil_div(l.counts[l.task[one] >> 16], TOKENS);
    int first = one - nth % ABREAST, tasks = min(ABREAST, all - nth / ABREAST * ABREAST);
    at -= first * pieces;
    *task = first + at % tasks;
    return at / tasks;
}
DEVICE work work_of(const shared &s, int item, u32 rank) {
    work w;
    int tasks = s.list.tasks, ups = tasks * GROUPS, at, tiles;
    if (item < ups) {
        w.kind = UP, tiles = UP_ROWS;
        at = piece_of(s.list, item, GROUPS, &w.task);
    } else {
        int part = part_of((item - ups) / tasks), first = part_begin(part);
        w.kind = DOWN, tiles = DOWN_ROWS;
        at = first + piece_of(s.list, item - ups - first * tasks, part_begin(part + 1) - first, &w.task);
    }
    w.tile = (at * CLUSTER + (int)rank) * WARPS;
    w.tiles = max(0, min(WARPS, tiles - w.tile));
    pairs_of(s.list, w.task, &w.expert, &w.first, &w.count);
    return w;
}
#include "prefill_ring.cuh"

/* ---- items by turns ---- */
struct turn {
    int slot;
    u32 parity;
    DEVICE_METHOD void next() {
        if (++slot == ITEMS) slot = 0, parity ^= 1;
    }
};
DEVICE void wait_turn(u64 *barriers, const turn &t) {
    barrier_wait(shared_address(&barriers[t.slot]), t.parity);
}

/* ---- the clerk ---- */
DEVICE void post(shared &s, int slot, int item, int lane) { /* lane i < CLUSTER to block i */
    if (lane < CLUSTER)
        send(cluster_address(shared_address(&s.letter[slot]), (u32)lane), item, cluster_address(shared_address(&s.mail[slot]), (u32)lane));
}
DEVICE int open(shared &s, const turn &t, int lane) {
    if (lane == 0) barrier_expect(shared_address(&s.mail[t.slot]), 4);
    __syncwarp();
    wait_turn(s.mail, t);
    return *(volatile int *)&s.letter[t.slot];
}
DEVICE void wait_rows(const experts_args &a, const shared &s, const work &w) {
    if (w.kind == UP)
        wait_count(&a.gathered[w.task], wide_of(w.count) / UNIT);
    else
        wait_count(&a.done_up[w.task], GROUPS * CLUSTER);
    fence_async();
}
/* Two items are drawn beyond the one looked at, and that is the one behind what weights are copied for. */
DEVICE void clerk(const experts_args &a, shared &s, u32 rank, int lane) {
    int items = s.list.tasks * (GROUPS + BLOCKS), drawn = 0, last = 0, clusters = (int)gridDim.x / CLUSTER;
    turn t = {0, 0}, begun = {0, 0};
    if (rank == 0) {
        if (lane == 0) drawn = clusters + atomicAdd(a.next, 1);
        post(s, 0, (int)blockIdx.x / CLUSTER, lane);
        last = __shfl_sync(~0u, drawn, 0);
        post(s, 1, last, lane);
    }
    for (bool first = true;; first = false) {
        if (!first) wait_turn(s.begun, begun), begun.next();
        if (rank == 0 && lane == 0) drawn = last < items ? clusters + atomicAdd(a.next, 1) : last; /* on its way while the next is looked at */
        int item = open(s, t, lane);
        work w = work_of(s, min(item, items - 1), rank);
        if (item >= items) w.kind = END;
        if (lane == 0) {
            s.next[t.slot] = w;
            barrier_arrive(shared_address(&s.known[t.slot]));
        }
        if (item >= items) break;
        wait_rows(a, s, w);
        if (lane == 0) barrier_arrive(shared_address(&s.clear[t.slot]));
        if (rank == 0) {
            last = __shfl_sync(~0u, drawn, 0);
            post(s, (t.slot + 2) % ITEMS, last, lane);
        }
        t.next();
    }
    t.next();
    open(s, t, lane); /* the last letter is there before the block ends */
}

/* ---- copies ---- */
/* A task's rows of x: places are used again when a task's up product is complete, so that more of them stay in the L2. */
DEVICE bf16 *rows_of_x(const experts_args &a, int task) {
    return a.xs + (size_t)(task % PREFILL_PLACES) * TOKENS * (UP_STEPS * 16);
}
DEVICE void copy(const experts_args &a, shared &s, u32 stages, u32 rank, int lane) {
    fill f = {};
    turn t = {0, 0};
    u64 policy = policy_evict_first();
    for (;; t.next()) {
        wait_turn(s.known, t);
        work w = s.next[t.slot];
        if (w.kind == END) break;
        int steps = steps_of(w), rows = w.kind == UP ? UP_ROWS : DOWN_ROWS;
        int wide = wide_of(w.count), width = width_of(w.count), half = ceil_div(wide, 8 * CLUSTER) * 8, mine = min(half, wide - (int)rank * half);
        const u8 *from = (const u8 *)(w.kind == UP ? a.w_up : a.w_down) + ((size_t)w.expert * rows * steps + (size_t)w.tile * STEPS) * 512;
        const bf16 *from_rows = (w.kind == UP ? rows_of_x(a, w.task) : a.h + (size_t)s.list.row[w.task] * (DOWN_STEPS * 16)) + (int)rank * half * 64;
        bool once = s.list.counts[w.expert] <= TOKENS; /* nobody else reads these weights */
        u32 to_rows = W_BYTES + rank * (u32)half * 128, bytes = (u32)w.tiles * 2048;
        for (int k = 0; k < steps; k += STEPS) {
            u32 stage = stages + place(s, f, stage_bytes(wide), stage_bytes(width), lane), full = shared_address(&s.full[f.r.slot]);
            if (lane == 0) {
                if (k == 0) {
                    s.item[f.r.slot] = w;
                    barrier_arrive(shared_address(&s.begun[t.slot]));
                }
                barrier_expect(full, bytes + (u32)wide * 128);
                if (bytes && once)
                    bulk_copy_hint(stage, from + (size_t)k * rows * 512, bytes, full, policy);
                else if (bytes)
                    bulk_copy(stage, from + (size_t)k * rows * 512, bytes, full);
            }
            if (k == 0) wait_turn(s.clear, t);
            if (lane == 0 && mine > 0) bulk_copy_all(stage + to_rows, from_rows + (size_t)(k / STEPS) * wide * 64, (u32)mine * 128, full);
            __syncwarp();
            f.r.next();
        }
        if (STAGED && w.kind == UP) { /* for the results */
            place(s, f, (u32)wide * 128, (u32)wide * 128, lane);
            if (lane == 0) barrier_arrive(shared_address(&s.full[f.r.slot]));
            f.r.next();
        }
    }
    place(s, f, 0, 0, lane);
    if (lane == 0) {
        s.item[f.r.slot].kind = END;
        barrier_arrive(shared_address(&s.full[f.r.slot]));
    }
}

#include "prefill_help.cuh"

/* ---- the warps that multiply ---- */
/* The warp that tells, one lane of it. When it ends, nothing of this block is in the ring any more. */
DEVICE void tell(shared &s, int lane) {
    teller at = {0, 0};
    for (; lane == 0; at.next()) {
        barrier_wait(shared_address(&s.done.stored[at.slot]), (u32)at.parity);
        parcel p = s.sent[at.slot];
        if (!p.counter) break;
        if (p.stage >= 0) {
            if (p.bytes) bulk_store(p.to, p.from, p.bytes);
            bulk_read();
            for (u32 i = 0; i < CLUSTER; i++) arrive_there(cluster_address(shared_address(&s.empty[p.stage]), i), WARPS);
            bulk_written();
        }
        add_release(p.counter, 1);
        barrier_arrive(shared_address(&s.done.told[at.slot]));
    }
    __syncwarp();
    sync_warps(1, 32 * (WARPS + 1));
}
struct worker {
    int warp, lane;
    u32 empty; /* lane i < CLUSTER: block i's barriers */
};
DEVICE void give_back(const worker &me, int stage) {
    if (me.lane < CLUSTER) arrive_there(me.empty + 8 * (u32)stage);
}
/* 64 rows by four warps. Half a stage at a time, so that while its products run the weights of the next half are read into
 * the other registers. Sums of the first PART tokens have the same registers at every width, else ptxas waits for each product. */
#define HALF (STEPS / 2)
#define PART 128
template <int N> DEVICE void half_product(float *c, uint4 *a, u32 weights, u64 tokens, int more) {
#pragma unroll
    for (int i = 0; i < HALF; i++) a[i] = load_shared16(weights + (u32)i * 512);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        wgmma<(N < PART ? N : PART)>(c, a[i], tokens + (u64)(2 * i), i > 0 || more);
        if constexpr (N > PART) wgmma<N - PART>(c + PART / 2, a[i], tokens + (u64)(2 * i + PART * 8), i > 0 || more);
    }
    wgmma_commit();
    wgmma_wait<1>();
}
template <int N> DEVICE void product(shared &s, u32 stages, ring &r, float *c, int steps, int wide, const worker &me) {
    uint4 a[2][HALF];
    int before = -1;
#pragma unroll 1
    for (int k = 0; k < steps; k += STEPS) {
        u32 base = stages + r.begin(stage_bytes(wide), stage_bytes(N)), weights = base + (u32)me.warp * 2048 + (u32)me.lane * 16;
        u64 tokens = wgmma_matrix(base + W_BYTES);
        barrier_wait(shared_address(&s.full[r.slot]), (u32)r.parity);
        half_product<N>(c, a[0], weights, tokens, k);
        if (before >= 0) give_back(me, before);
        half_product<N>(c, a[1], weights + HALF * 512, tokens + 2 * HALF, 1);
        before = r.slot;
        r.next();
    }
    wgmma_wait<0>();
    give_back(me, before);
}
/* Sums go out. A thread has tokens 2 q and 2 q + 1 of every 8, a feature or two of each. */
#if ACT == 2
/* wide_step: to the next token's features. */
DEVICE void store_features(bf16 *to, int wide_step, const float *c, int count, int q) {
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; t++) {
        if (t * 8 >= count) break;
        if (t * 8 + 2 * q < count) *(u32 *)(to + t * 512) = to_bf16x2(relu2(c[t * 4]), relu2(c[t * 4 + 2]));
        if (t * 8 + 2 * q + 1 < count) *(u32 *)(to + wide_step + t * 512) = to_bf16x2(relu2(c[t * 4 + 1]), relu2(c[t * 4 + 3]));
    }
}
#else
/* SIDE times 8 tokens: their activations side by side, since each is a long chain. */
#define SIDE 4
DEVICE void activate_side(const experts_args &a, const float *c, float *v) {
    float gate[2 * SIDE];
    bool plain = true;
#pragma unroll
    for (int i = 0; i < 2 * SIDE; i++) {
        gate[i] = c[i / 2 * 4 + i % 2], v[i] = c[i / 2 * 4 + i % 2 + 2];
#if ACT == 1
        gate[i] = fminf(gate[i], a.limit), v[i] = fminf(fmaxf(v[i], -a.limit), a.limit);
#endif
    }
#pragma unroll
    for (int i = 0; i < 2 * SIDE; i++) v[i] = __fmul_rn(silu_plain(gate[i], &plain), v[i]);
    if (plain) return;
    float g[2 * SIDE], u[2 * SIDE];
#pragma unroll
    for (int i = 0; i < 2 * SIDE; i++) g[i] = c[i / 2 * 4 + i % 2], u[i] = c[i / 2 * 4 + i % 2 + 2];
#pragma unroll 1
    for (int i = 0; i < 2 * SIDE; i++) g[i] = activate(a, g[i], u[i]); /* seldom, and out of the way */
#pragma unroll
    for (int i = 0; i < 2 * SIDE; i++) v[i] = g[i];
}
DEVICE void store_shared4(u32 address, u32 v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
/* Into a stage, as h has it. A lane has one feature of two tokens, its neighbour the next feature: they swap, and each
 * stores two features. */
DEVICE void store_features(const experts_args &a, u32 to, const float *c, int count, int odd) {
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; t += SIDE) {
        float v[2 * SIDE];
        if (t * 8 >= count) break;
        activate_side(a, c + t * 4, v);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            float back = __shfl_xor_sync(~0u, odd ? v[2 * i] : v[2 * i + 1], 4);
            u32 two = odd ? to_bf16x2(back, v[2 * i + 1]) : to_bf16x2(v[2 * i], back);
            if ((t + i) * 8 < count) store_shared4(to + (u32)(t + i) * 1024, two);
        }
    }
}
#endif
DEVICE void store_columns(bf16 *to, const float *c, int count, int q) {
#pragma unroll
    for (int t = 0; t < TOKEN_TILES; t++) {
        if (t * 8 >= count) break;
        if (t * 8 + 2 * q < count) *(u32 *)(to + t * 8 * Y_PITCH) = to_bf16x2(c[t * 4], c[t * 4 + 2]);
        if (t * 8 + 2 * q + 1 < count) *(u32 *)(to + (t * 8 + 1) * Y_PITCH) = to_bf16x2(c[t * 4 + 1], c[t * 4 + 3]);
    }
}
/* An item's results, each warp's row tile of them; the stage for those of the up product is the next of the ring. */
DEVICE parcel store(const experts_args &a, shared &s, const work &w, u32 stages, ring &r, const float *c, const worker &me) {
    int g = me.lane >> 2, q = me.lane & 3, row = w.tile + me.warp, base = s.list.row[w.task];
    parcel p = {&a.done_down[part_of(w.tile / DOWN_TILES)], 0, 0, 0, -1};
    if (w.kind == DOWN) {
        if (me.warp < w.tiles) store_columns(a.y + (size_t)(base + 2 * q) * Y_PITCH + row * 16 + 2 * g, c, w.count, q);
        return p;
    }
    int wide = wide_of(w.count);
    bf16 *h = a.h + (size_t)base * (DOWN_STEPS * 16);
    p.counter = &a.done_up[w.task];
#if ACT == 2
    int input = lane_order(row * 16 + 2 * g), at = swizzled(wide, 2 * q, input);
    if (me.warp < w.tiles) store_features(h + at, swizzled(wide, 2 * q + 1, input) - at, c, w.count, q);
#else
    u32 bytes = (u32)wide * 128;
    int odd = g & 1, token = 2 * q + odd, input = lane_order(me.warp * 8 + g - odd);
    p.from = stages + r.begin(bytes, bytes), p.stage = r.slot, p.to = h + w.tile / WARPS * wide * 64, p.bytes = w.tiles ? bytes : 0;
    barrier_wait(shared_address(&s.full[r.slot]), (u32)r.parity);
    r.next();
    if (me.warp < w.tiles) store_features(a, p.from + (u32)(token * 128 + (input / 8 ^ token) * 16 + input % 8 * 2), c, w.count, odd);
    fence_async_shared();
#endif
    return p;
}
DEVICE parcel make(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, const worker &me) {
    float c[TOKENS / 2];
    int steps = steps_of(w), wide = wide_of(w.count), width = width_of(w.count);
#define IF_WIDE(i)                               \
    if constexpr ((WIDTHS >> ((i) - 1) & 1) > 0) \
        if (width == 32 * (i)) product<32 * (i)>(s, stages, r, c, steps, wide, me);
    IF_WIDE(1) IF_WIDE(2) IF_WIDE(3) IF_WIDE(4) IF_WIDE(5) IF_WIDE(6) IF_WIDE(7) IF_WIDE(8) IF_WIDE(9)
    return store(a, s, w, stages, r, c, me);
}
DEVICE void multiply(const experts_args &a, shared &s, u32 stages, int warp, int lane) {
    ring r = {0, 0, 0};
    teller done = {0, 0};
    worker me = {warp, lane, cluster_address(shared_address(s.empty), (u32)lane % CLUSTER)};
    for (;;) {
        barrier_wait(shared_address(&s.full[r.slot]), (u32)r.parity);
        work w = s.item[r.slot];
        if (w.kind == END) break;
        hand_over(s.done, &done, s.sent, make(a, w, s, stages, r, me), warp, lane);
    }
    hand_over(s.done, &done, s.sent, {0, 0, 0, 0, -1}, warp, lane);
    sync_warps(1, 32 * (WARPS + 1)); /* the stages are free now */
    combine_rest<LAST>(a, s, stages + (u32)(warp * LAST), lane);
}

/* ---- the kernel ---- */
DEVICE void init(shared &s) {
    for (int i = 0; i < SLOTS; i++) {
        barrier_init(shared_address(&s.full[i]), 1);
        barrier_init(shared_address(&s.empty[i]), CLUSTER * WARPS);
    }
    for (int i = 0; i < ITEMS; i++) {
        barrier_init(shared_address(&s.mail[i]), 1);
        barrier_init(shared_address(&s.known[i]), 1);
        barrier_init(shared_address(&s.begun[i]), 1);
        barrier_init(shared_address(&s.clear[i]), 1);
    }
    telling_init(s.done);
    barriers_ready();
}
/* The last block to leave makes the counters ready for the next layer. */
DEVICE void leave(const experts_args &a, shared &s) {
    cluster_arrive(); /* the peers write into this block no more */
    cluster_wait();
    if (threadIdx.x == 0) s.last = atomicAdd(a.left, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    for (int i = (int)threadIdx.x; i < EXPERTS; i += THREADS) a.counts[i] = 0;
    for (int i = (int)threadIdx.x; i < s.list.tasks; i += THREADS) a.gathered[i] = a.done_up[i] = 0;
    for (int i = (int)threadIdx.x; i < PARTS; i += THREADS) a.done_down[i] = 0;
    if (threadIdx.x == 0) a.next[0] = 0, a.next[1] = 0, a.next[2] = 0, *a.left = 0;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) prefill(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)(memory + ROOM);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    u32 stages = shared_address(memory), rank = cluster_rank();
    if (threadIdx.x == 0) init(s);
    grid_wait();
    grid_launch_next();
    if (warp == 0) list_tasks(a, s.list, lane);
    cluster_arrive(); /* the peers' barriers are ready */
    cluster_wait();
    if (s.list.tasks == 0) {
        if (warp < WARPS) combine_rest<LAST>(a, s, stages + (u32)(warp * LAST), lane);
    } else if (warp < PRODUCERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
        if (warp == 0)
            clerk(a, s, rank, lane);
        else if (warp == 1)
            copy(a, s, stages, rank, lane);
        else if (warp == 2)
            tell(s, lane);
        else
            gather(a, s, lane), combine_rest<HELP>(a, s, shared_address(s.help), lane);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE));
        multiply(a, s, stages, warp - PRODUCERS, lane);
    }
    leave(a, s);
}
