/* prefill.cu: the experts of a MoE layer in one launch, for many tokens (sm_90a): the same sums as experts.cu, bit for bit.
 *
 * Bound by arithmetic, or by what multiprocessors can read from the L2. wgmma.m64nNk16 takes the packed tiles of weights from
 * registers and the tokens from shared memory. Two blocks, a cluster, share an item's tokens: each brings half of them, for
 * both. A block has WARPS row tiles of the item, a ring of STAGES stages of 64 inputs, and
 *
 *     clerk         draws items ahead (one of the two blocks draws for both), and sees when an item's tokens are there:
 *                   gathered, or the task's up product complete everywhere. What it asks of the L2 takes microseconds
 *     copy          weights and tokens of items as stages become free
 *     tell          counts finished items where other blocks see it
 *     help          brings x into the order of tasks, and later combines what is complete
 *     multiply      two warpgroups, 64 rows each
 *
 * Before, the warps that multiply bring half of x themselves. Activations (xs of x, h of the up product) lie as wgmma reads them: a task's `wide` rows (its pairs, up to a multiple of 8)
 * by chunks of 64 inputs,
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
#define TASK_ROWS  MOST_TASKS
#include "experts_parts.cuh"
#include "wgmma.cuh"

#define PRODUCERS 4
#define THREADS   PREFILL_THREADS
#define LESS      72 /* registers of a producer; together no more than the block starts with */
#define MORE      216
#define STEPS     4                  /* of a stage */
#define W_BYTES   (WARPS * 2048)
#define STAGE     (W_BYTES + TOKENS * 128)
#define ITEMS     (STAGES + 4) /* that are known at a time */
#define UNIT      8                  /* rows that are gathered at a time */
#define COLUMNS   (DOWN_TILES * 16)  /* of an item of the down product */
#define Y_PITCH   (DOWN_ROWS * 16)
#define DEPTH     PREFILL_DEPTH(CHOSEN)
#define PARTS     (BLOCKS < 4 ? BLOCKS : 4) /* groups of columns; the last, which is combined when all else is done, is small */

struct shared {
    u64 full[STAGES], empty[STAGES]; /* barriers of the ring */
    u64 rows[DEPTH];                 /* of what the helper combines */
    /* Of items by turns: a letter from the block that draws; known; begun to be copied; its activations may be read. */
    u64 mail[ITEMS], known[ITEMS], begun[ITEMS], clear[ITEMS];
    int letter[ITEMS];
    int last;
    work next[ITEMS];  /* known */
    work item[STAGES]; /* of the item that begins in this stage */
    telling done;
    task_list list;
    __align__(16) u8 part[DEPTH][CHOSEN * COLUMNS * 2]; /* rows of y that the helper combines */
};
static_assert(PRODUCERS * LESS + WARPS * MORE <= THREADS / 32 * (65536 / THREADS / 8 * 8), "a block that asks for more waits for ever");
static_assert(STAGES * STAGE + sizeof(shared) <= PREFILL_SHARED(TOKENS, STAGES, EXPERTS, MOST_TASKS, CHOSEN), "experts.cuh");

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
/* The at-th of `pieces` times the tasks: an expert's tasks go piece by piece side by side, and find its weights in the L2. */
DEVICE int piece_of(const task_list &l, int at, int pieces, int *task) {
    int one = at / pieces, nth = (int)(l.task[one] & 0xffffu), tasks = ceil_div(l.counts[l.task[one] >> 16], TOKENS);
    at -= (one - nth) * pieces;
    *task = one - nth + at % tasks;
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
DEVICE int wide_of(int count) {
    return ceil_div(count, 8) * 8;
}

/* ---- between the blocks of a cluster ---- */
/* At a cluster_address. Released to this block alone, as far as the words go: what is handed over is that reads are done, and
 * a release to the cluster would wait for all of this thread's writes on their way to memory. */
DEVICE void arrive_there(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* A word into another block, counted by its barrier. */
DEVICE void send(u32 to, int word, u32 barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(word), "r"(barrier) : "memory");
}
/* Into the same place of all blocks; each block's barrier counts what it gets. */
DEVICE void bulk_copy_all(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((u16)((1 << CLUSTER) - 1))
                 : "memory");
}

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
        wait_count(&a.done_up[w.expert], ceil_div(s.list.counts[w.expert], TOKENS) * GROUPS * CLUSTER);
    fence_async();
}
/* Two items are drawn beyond the one looked at, and that is the one behind what weights are copied for. */
DEVICE void clerk(const experts_args &a, shared &s, u32 rank, int lane) {
    int items = s.list.tasks * (GROUPS + BLOCKS), drawn = 0, last = 0;
    turn t = {0, 0}, begun = {0, 0};
    if (rank == 0) {
        if (lane == 0) drawn = atomicAdd(a.next, 2);
        last = __shfl_sync(~0u, drawn, 0) + 1;
        post(s, 0, last - 1, lane);
        post(s, 1, last, lane);
    }
    for (bool first = true;; first = false) {
        if (!first) wait_turn(s.begun, begun), begun.next();
        if (rank == 0 && lane == 0) drawn = last < items ? atomicAdd(a.next, 1) : last; /* on its way while the next is looked at */
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
DEVICE void copy(const experts_args &a, shared &s, u32 stages, u32 rank, int lane) {
    ring r = {0, 1}; /* empty at first */
    turn t = {0, 0};
    u64 policy = policy_evict_first();
    for (;; t.next()) {
        wait_turn(s.known, t);
        work w = s.next[t.slot];
        if (w.kind == END) break;
        int steps = steps_of(w), rows = w.kind == UP ? UP_ROWS : DOWN_ROWS;
        int wide = wide_of(w.count), half = ceil_div(wide, 8 * CLUSTER) * 8, mine = min(half, wide - (int)rank * half);
        const u8 *from = (const u8 *)(w.kind == UP ? a.w_up : a.w_down) + ((size_t)w.expert * rows * steps + (size_t)w.tile * STEPS) * 512;
        const bf16 *from_rows = (w.kind == UP ? a.xs : a.h) + (size_t)s.list.row[w.task] * (steps * 16) + (int)rank * half * 64;
        bool once = s.list.counts[w.expert] <= TOKENS; /* nobody else reads these weights */
        u32 to_rows = stages + W_BYTES + rank * (u32)half * 128, bytes = (u32)w.tiles * 2048;
        for (int k = 0; k < steps; k += STEPS) {
            u32 full = shared_address(&s.full[r.stage]);
            barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity);
            if (lane == 0) {
                if (k == 0) {
                    s.item[r.stage] = w;
                    barrier_arrive(shared_address(&s.begun[t.slot]));
                }
                barrier_expect(full, bytes + (u32)wide * 128);
                if (bytes && once)
                    bulk_copy_hint(stages + (u32)r.stage * STAGE, from + (size_t)k * rows * 512, bytes, full, policy);
                else if (bytes)
                    bulk_copy(stages + (u32)r.stage * STAGE, from + (size_t)k * rows * 512, bytes, full);
            }
            if (k == 0) wait_turn(s.clear, t);
            if (lane == 0 && mine > 0)
                bulk_copy_all(to_rows + (u32)r.stage * STAGE, from_rows + (size_t)(k / STEPS) * wide * 64, (u32)mine * 128, full);
            __syncwarp();
            r.next();
        }
    }
    barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity);
    if (lane == 0) {
        s.item[r.stage].kind = END;
        barrier_arrive(shared_address(&s.full[r.stage]));
    }
}

/* ---- gathering ---- */
/* Elements from a task's start to an input of row r. */
DEVICE int swizzled(int wide, int r, int input) {
    return input / 64 * wide * 64 + r * 64 + ((input / 8 % 8) ^ (r & 7)) * 8 + input % 8;
}
/* The task that has a row: rows of tasks ascend. */
DEVICE int task_at(const task_list &l, int row) {
    int low = 0, high = l.tasks;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (l.row[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}
/* SOME rows, those of lanes' pairs: all loads first. */
template <int SOME> DEVICE void gather_rows(const experts_args &a, bf16 *to, int wide, int r, int pair, int lane) {
    const int parts = UP_STEPS * 2;
    const uint4 *from[SOME];
#pragma unroll
    for (int i = 0; i < SOME; i++) {
        int whose = __shfl_sync(~0u, pair, r % UNIT + i);
        from[i] = whose < 0 ? 0 : (const uint4 *)(a.x + (size_t)(whose / CHOSEN) * a.ldx);
    }
#pragma unroll 1
    for (int p = lane; p < parts; p += 256) {
        uint4 v[SOME][8];
#pragma unroll
        for (int i = 0; i < SOME; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (from[i] && p + j * 32 < parts) v[i][j] = from[i][p + j * 32];
#pragma unroll
        for (int i = 0; i < SOME; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (from[i] && p + j * 32 < parts) *(uint4 *)(to + swizzled(wide, r + i, (p + j * 32) * 8)) = v[i][j];
    }
}
/* By whole warps, UNIT rows at a time, in the order of tasks, until those below `enough` are all taken. */
template <int SOME> DEVICE void gather(const experts_args &a, const shared &s, int enough, int lane) {
    const task_list &l = s.list;
    int expert, first, count, next = 0, row;
    pairs_of(l, l.tasks - 1, &expert, &first, &count);
    int all = l.row[l.tasks - 1] + wide_of(count);
    if (lane == 0) next = atomicAdd(a.next + 1, UNIT);
    while ((row = __shfl_sync(~0u, next, 0)) < all) {
        bool more = row < enough;
        if (more && lane == 0) next = atomicAdd(a.next + 1, UNIT); /* on its way meanwhile */
        int task = task_at(l, row), r = row - l.row[task], pair = -1;
        pairs_of(l, task, &expert, &first, &count);
        if (lane < UNIT && r + lane < count) {
            pair = a.list[(size_t)expert * a.cap + first + r + lane];
            a.place[pair] = row + lane;
        }
        bf16 *to = a.xs + (size_t)l.row[task] * (UP_STEPS * 16);
        for (int i = 0; i < UNIT; i += SOME) gather_rows<SOME>(a, to, wide_of(count), r + i, pair, lane);
        __syncwarp();
        if (lane == 0) add_release(&a.gathered[task], 1);
        if (!more) break;
    }
}
/* Rows that are brought before the products; the helpers bring the rest beside them. */
DEVICE int first_rows(const shared &s) {
    int tasks = max(ceil_div((int)gridDim.x / CLUSTER, GROUPS), s.list.tasks / 2);
    return tasks < s.list.tasks ? s.list.row[tasks] : 0x7fffffff;
}

/* ---- combining ---- */
/* By whole warps, COLUMNS of a token at a time, eight a lane. */
struct slot {
    int row; /* of y, -1: empty */
    float weight;
};
DEVICE slot slot_of(const experts_args &a, int pair) {
    int id = a.ids[pair], row = a.place[pair]; /* together: neither waits for the other */
    float weight = a.weights[pair];
    return {id < 0 ? -1 : row, weight};
}
DEVICE void add_eight(float *sum, uint4 y, float weight) {
    add_two(sum, y.x, weight), add_two(sum + 2, y.y, weight), add_two(sum + 4, y.z, weight), add_two(sum + 6, y.w, weight);
}
/* Lane i has slot i. */
DEVICE void combine(const experts_args &a, const slot &s, int token, int column) {
    float sum[8] = {};
#pragma unroll
    for (int i = 0; i < CHOSEN; i += 8) {
        uint4 y[8];
#pragma unroll
        for (int j = 0; j < min(8, CHOSEN - i); j++) {
            int row = __shfl_sync(~0u, s.row, i + j);
            if (row >= 0 && column < Y_PITCH) y[j] = __ldcg((const uint4 *)(a.y + (size_t)row * Y_PITCH + column));
        }
#pragma unroll
        for (int j = 0; j < min(8, CHOSEN - i); j++) {
            float weight = __shfl_sync(~0u, s.weight, i + j);
            if (__shfl_sync(~0u, s.row, i + j) >= 0) add_eight(sum, y[j], weight);
        }
    }
    if (column < Y_PITCH) put_eight(a, token, column, sum);
}
/* A worker's share of `blocks` times COLUMNS of all tokens. */
DEVICE void combine_share(const experts_args &a, int first, int blocks, int worker, int workers, int lane) {
    int mine = min(lane, CHOSEN - 1), all = a.n * blocks;
    slot s, next;
    if (worker < all) s = slot_of(a, worker / blocks * CHOSEN + mine);
    for (int i = worker; i < all; i += workers, s = next) {
        if (i + workers < all) next = slot_of(a, (i + workers) / blocks * CHOSEN + mine); /* on its way while this one is combined */
        combine(a, s, i / blocks, (first + i % blocks) * COLUMNS + lane * 8);
    }
}
/* The last group is everybody's. */
DEVICE void combine_last(const experts_args &a, const shared &s, int warp, int lane) {
    int first = part_begin(PARTS - 1), blocks = BLOCKS - first;
    wait_count(&a.done_down[PARTS - 1], s.list.tasks * blocks * CLUSTER);
    combine_share(a, first, blocks, warp * (int)gridDim.x + (int)blockIdx.x, (WARPS + 1) * (int)gridDim.x, lane);
}
/* Those before are the helpers'. One warp takes FEW_OF tokens at a time, whose slots its lanes have, and has DEPTH pieces
 * (COLUMNS of a token) on their way by the copy engine. */
#define FEW_OF (32 / CHOSEN)
struct helper {
    shared *s;
    u32 turns; /* bit i: of place i */
    int lane;
};
DEVICE void ask(const experts_args &a, const helper &me, const slot &s, int of, int column, int at) {
    u32 bytes = (u32)min(COLUMNS, Y_PITCH - column) * 2, ready = shared_address(&me.s->rows[at]);
    int row = __shfl_sync(~0u, s.row, of * CHOSEN + min(me.lane, CHOSEN - 1));
    if (me.lane >= CHOSEN) row = -1;
    u32 pieces = __popc(__ballot_sync(~0u, row >= 0));
    if (me.lane == 0) barrier_expect(ready, pieces * bytes);
    __syncwarp();
    if (row >= 0) bulk_copy(shared_address(me.s->part[at]) + (u32)me.lane * COLUMNS * 2, a.y + (size_t)row * Y_PITCH + column, bytes, ready);
}
DEVICE void take(const experts_args &a, helper &me, const slot &s, int of, int token, int column, int at) {
    float sum[8] = {};
    barrier_wait(shared_address(&me.s->rows[at]), me.turns >> at & 1);
    me.turns ^= 1u << at;
#pragma unroll
    for (int j = 0; j < CHOSEN; j++) {
        float weight = __shfl_sync(~0u, s.weight, of * CHOSEN + j);
        if (__shfl_sync(~0u, s.row, of * CHOSEN + j) >= 0)
            add_eight(sum, load_shared16(shared_address(me.s->part[at]) + (u32)(j * COLUMNS * 2 + me.lane * 16)), weight);
    }
    if (column + me.lane * 8 < Y_PITCH) put_eight(a, token, column + me.lane * 8, sum);
    __syncwarp();
}
DEVICE void combine_few(const experts_args &a, helper &me, const slot &s, int token, int first, int blocks) {
    int all = min(FEW_OF, a.n - token) * blocks;
    for (int i = 0; i < all + DEPTH; i++) {
        int j = i - DEPTH;
        if (j >= 0) take(a, me, s, j / blocks, token + j / blocks, (first + j % blocks) * COLUMNS, j % DEPTH);
        if (i < all) ask(a, me, s, i / blocks, (first + i % blocks) * COLUMNS, i % DEPTH);
    }
}
DEVICE void help(const experts_args &a, shared &s, int lane) {
    helper me = {&s, 0, lane};
    gather<1>(a, s, 0x7fffffff, lane);
    int begin = (int)blockIdx.x * FEW_OF, step = (int)gridDim.x * FEW_OF, most = a.n * CHOSEN - 1, mine = min(lane, FEW_OF * CHOSEN - 1);
    for (int part = 0; part < PARTS - 1; part++) {
        int first = part_begin(part), blocks = part_begin(part + 1) - first;
        wait_count(&a.done_down[part], s.list.tasks * blocks * CLUSTER);
        fence_async();
        slot now = slot_of(a, min(begin * CHOSEN + mine, most)), next;
        for (int t = begin; t < a.n; t += step, now = next) {
            next = slot_of(a, min((t + step) * CHOSEN + mine, most));
            combine_few(a, me, now, t, first, blocks);
        }
    }
    combine_last(a, s, WARPS, lane);
}

/* ---- the warps that multiply ---- */
struct worker {
    int warp, lane;
    u32 empty; /* lane i < CLUSTER: block i's barriers */
};
DEVICE void give_back(const worker &me, int stage) {
    if (me.lane < CLUSTER) arrive_there(me.empty + 8 * (u32)stage);
}
/* N tokens of 64 rows by four warps. While the products of one stage run, the weights of the next are read into the other
 * registers; then the stage is given back. */
template <int N> DEVICE void stage_product(shared &s, u32 stages, const ring &r, float *c, uint4 *a, const worker &me) {
    u32 base = stages + (u32)r.stage * STAGE, weights = base + (u32)me.warp * 2048 + (u32)me.lane * 16;
    u64 tokens = wgmma_matrix(base + W_BYTES);
    barrier_wait(shared_address(&s.full[r.stage]), (u32)r.parity);
#pragma unroll
    for (int i = 0; i < STEPS; i++) a[i] = load_shared16(weights + (u32)i * 512);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < STEPS; i++) wgmma<N>(c, a[i], tokens + (u64)(2 * i));
    wgmma_commit();
}
template <int N> DEVICE void product(shared &s, u32 stages, ring &r, float *c, int steps, const worker &me) {
    uint4 even[STEPS], odd[STEPS];
    int before;
    stage_product<N>(s, stages, r, c, even, me);
    before = r.stage;
    r.next();
    for (int k = STEPS; k < steps; k += 2 * STEPS) {
        stage_product<N>(s, stages, r, c, odd, me);
        wgmma_wait<1>();
        give_back(me, before);
        before = r.stage;
        r.next();
        if (k + STEPS >= steps) break;
        stage_product<N>(s, stages, r, c, even, me);
        wgmma_wait<1>();
        give_back(me, before);
        before = r.stage;
        r.next();
    }
    wgmma_wait<0>();
    give_back(me, before);
}
/* The sums go out. A thread has tokens 2 q and 2 q + 1 of every 8, a feature or two of each. */
#if ACT == 2
template <int N> DEVICE void store_features(const experts_args &a, bf16 *to, int wide_step, const float *c, int count, int, int q) {
#pragma unroll
    for (int t = 0; t < N / 8; t++) {
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
#pragma unroll
    for (int i = 0; i < 2 * SIDE; i++) v[i] = activate(a, c[i / 2 * 4 + i % 2], c[i / 2 * 4 + i % 2 + 2]);
}
/* A lane has one feature of two tokens, its neighbour the next feature: they swap, and each stores two features. */
template <int N> DEVICE void store_features(const experts_args &a, bf16 *to, int wide_step, const float *c, int count, int g, int q) {
    int odd = g & 1;
    to += odd * wide_step;
#pragma unroll
    for (int t = 0; t < N / 8; t += SIDE) {
        float v[2 * SIDE];
        if (t * 8 >= count) break;
        activate_side(a, c + t * 4, v);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            float back = __shfl_xor_sync(~0u, odd ? v[2 * i] : v[2 * i + 1], 4);
            u32 two = odd ? to_bf16x2(back, v[2 * i + 1]) : to_bf16x2(v[2 * i], back);
            if ((t + i) * 8 + 2 * q + odd < count) *(u32 *)(to + (t + i) * 512) = two;
        }
    }
}
#endif
template <int N> DEVICE void store_columns(bf16 *to, const float *c, int count, int q) {
#pragma unroll
    for (int t = 0; t < N / 8; t++) {
        if (t * 8 + 2 * q < count) *(u32 *)(to + t * 8 * Y_PITCH) = to_bf16x2(c[t * 4], c[t * 4 + 2]);
        if (t * 8 + 2 * q + 1 < count) *(u32 *)(to + (t * 8 + 1) * Y_PITCH) = to_bf16x2(c[t * 4 + 1], c[t * 4 + 3]);
    }
}
template <int N> DEVICE void store(const experts_args &a, const shared &s, const work &w, const float *c, const worker &me) {
    int g = me.lane >> 2, q = me.lane & 3, row = w.tile + me.warp, base = s.list.row[w.task], wide = wide_of(w.count);
    if (me.warp >= w.tiles) return;
    if (w.kind == UP) {
        int input = lane_order(ACT == 2 ? row * 16 + 2 * g : row * 8 + (g & ~1)), at = swizzled(wide, 2 * q, input);
        store_features<N>(a, a.h + (size_t)base * (DOWN_STEPS * 16) + at, swizzled(wide, 2 * q + 1, input) - at, c, w.count, g, q);
    } else {
        store_columns<N>(a.y + (size_t)(base + 2 * q) * Y_PITCH + row * 16 + 2 * g, c, w.count, q);
    }
}
template <int N> DEVICE void make(const experts_args &a, const work &w, shared &s, u32 stages, ring &r, const worker &me) {
    float c[N / 2] = {};
    product<N>(s, stages, r, c, steps_of(w), me);
    store<N>(a, s, w, c, me);
}
DEVICE void multiply(const experts_args &a, shared &s, u32 stages, int warp, int lane) {
    ring r = {0, 0};
    teller done = {0, 0};
    worker me = {warp, lane, cluster_address(shared_address(s.empty), (u32)lane % CLUSTER)};
    gather<4>(a, s, first_rows(s), lane);
    for (;;) {
        barrier_wait(shared_address(&s.full[r.stage]), (u32)r.parity);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        /* Two sizes: ptxas gives the sums of each size registers of their own. */
        if (FEW_TOKENS < TOKENS && w.count <= FEW_TOKENS)
            make<FEW_TOKENS>(a, w, s, stages, r, me);
        else
            make<TOKENS>(a, w, s, stages, r, me);
        hand_over(s.done, &done, w.kind == UP ? &a.done_up[w.expert] : &a.done_down[part_of(w.tile / DOWN_TILES)], warp, lane);
    }
    hand_over(s.done, &done, 0, warp, lane);
    combine_last(a, s, warp, lane);
}

/* ---- the kernel ---- */
DEVICE void init(shared &s) {
    for (int i = 0; i < STAGES; i++) {
        barrier_init(shared_address(&s.full[i]), 1);
        barrier_init(shared_address(&s.empty[i]), CLUSTER * WARPS);
    }
    for (int i = 0; i < DEPTH; i++) barrier_init(shared_address(&s.rows[i]), 1);
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
    for (int i = (int)threadIdx.x; i < EXPERTS; i += THREADS) a.counts[i] = a.done_up[i] = 0;
    for (int i = (int)threadIdx.x; i < s.list.tasks; i += THREADS) a.gathered[i] = 0;
    for (int i = (int)threadIdx.x; i < PARTS; i += THREADS) a.done_down[i] = 0;
    if (threadIdx.x == 0) a.next[0] = 0, a.next[1] = 0, *a.left = 0;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) prefill(const __grid_constant__ experts_args a) {
    extern __shared__ __align__(1024) u8 memory[];
    shared &s = *(shared *)(memory + STAGES * STAGE);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    u32 stages = shared_address(memory), rank = cluster_rank();
    if (threadIdx.x == 0) init(s);
    grid_wait();
    grid_launch_next();
    if (warp == 0) list_tasks(a, s.list, lane);
    cluster_arrive(); /* the peers' barriers are ready */
    cluster_wait();
    if (s.list.tasks == 0) {
        combine_share(a, 0, BLOCKS, warp * (int)gridDim.x + (int)blockIdx.x, THREADS / 32 * (int)gridDim.x, lane);
    } else if (warp < PRODUCERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
        if (warp == 0)
            clerk(a, s, rank, lane);
        else if (warp == 1)
            copy(a, s, stages, rank, lane);
        else if (warp == 2)
            tell(s.done, lane);
        else
            help(a, s, lane);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MORE));
        multiply(a, s, stages, warp - PRODUCERS, lane);
    }
    leave(a, s);
}
