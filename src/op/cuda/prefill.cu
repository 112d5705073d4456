/* prefill.cu: the experts of a MoE layer in one launch, for many tokens (sm_90a): the same sums as experts.cu, bit for bit.
 *
 * Bound by arithmetic, or by what multiprocessors can read from the L2. wgmma.m64nNk16 takes the packed tiles of weights from
 * registers and the tokens from shared memory. Two blocks, a cluster, share an item's tokens: each brings half of them, for
 * both. A block has WARPS row tiles of the item, a ring of STAGES stages of 64 inputs, and
 *
 *     weights       warp 0 draws items (one of the two blocks draws for both) and copies weights
 *     activations   warp 1 copies the tokens, when they are there: gathered, or the task's up product complete everywhere
 *     tell          warp 2 counts finished items where other blocks see it
 *     help          warp 3 brings x into the order of tasks, and later combines what is complete
 *     multiply      two warpgroups, 64 rows each. The second stays LAG stages behind: one stores while the other multiplies
 *
 * Activations (xs of x, h of the up product) lie as wgmma reads them: a task's `wide` rows (its pairs, up to a multiple of 8)
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
#define LESS      80 /* registers of a producer; the rest is for those that multiply */
#define MORE      216
#define STEPS     4                  /* of a stage */
#define W_BYTES   (WARPS * 2048)
#define STAGE     (W_BYTES + TOKENS * 128)
#define LAG       (STAGES > 3 ? 2 : 1)
#define LETTERS   (STAGES + 1)
#define UNIT      4                  /* rows that are gathered at a time */
#define COLUMNS   (DOWN_TILES * 16)  /* of an item of the down product */
#define PARTS     (BLOCKS < 4 ? BLOCKS : 4) /* groups of columns */

struct shared {
    u64 full[STAGES], empty[STAGES], posted[STAGES]; /* barriers of the ring */
    u64 lead[LETTERS];                               /* of items by turns: the first warpgroup is ahead */
    u64 mail[LETTERS];
    int letter[LETTERS]; /* items drawn, from the block that draws */
    int last;
    work item[STAGES]; /* of the item that begins in this stage */
    telling done;
    task_list list;
};
static_assert(STAGES * STAGE + sizeof(shared) <= PREFILL_SHARED(TOKENS, STAGES, EXPERTS, MOST_TASKS), "experts.cuh");

/* The first item column of a group. */
DEVICE int part_begin(int part) {
    return part * BLOCKS / PARTS;
}
DEVICE int part_of(int block) {
    int part = 0;
    while (part + 1 < PARTS && block >= part_begin(part + 1)) part++;
    return part;
}
DEVICE work work_of(const shared &s, int item, u32 rank) {
    work w;
    int tasks = s.list.tasks, ups = tasks * GROUPS, at, tiles;
    if (item < ups) {
        w.kind = UP, w.task = item / GROUPS, at = item % GROUPS, tiles = UP_ROWS;
    } else {
        int j = item - ups, part = part_of(j / tasks), first = part_begin(part), blocks = part_begin(part + 1) - first;
        j -= first * tasks;
        w.kind = DOWN, w.task = j / blocks, at = first + j % blocks, tiles = DOWN_ROWS;
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
DEVICE void arrive_there(u32 barrier) { /* a cluster_address */
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
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

/* ---- warp 0: items and weights ---- */
/* The next item: block 0 draws it and tells the other. The n-th by turns of letters. */
DEVICE int next_item(const experts_args &a, shared &s, u32 rank, int slot, u32 parity, int lane) {
    int item = 0;
    if (rank == 0) {
        if (lane == 0) item = atomicAdd(a.next, 1);
        item = __shfl_sync(~0u, item, 0);
        if (lane > 0 && lane < CLUSTER)
            send(cluster_address(shared_address(&s.letter[slot]), (u32)lane), item, cluster_address(shared_address(&s.mail[slot]), (u32)lane));
        return item;
    }
    if (lane == 0) barrier_expect(shared_address(&s.mail[slot]), 4);
    __syncwarp();
    barrier_wait(shared_address(&s.mail[slot]), parity);
    return *(volatile int *)&s.letter[slot];
}
DEVICE void copy_weights(const experts_args &a, shared &s, u32 stages, u32 rank, int lane) {
    ring r = {0, 1}; /* empty at first */
    u64 policy = policy_evict_first();
    int items = s.list.tasks * (GROUPS + BLOCKS), slot = 0;
    u32 parity = 0;
    for (;;) {
        barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity); /* drawn no sooner than there is room for it */
        int item = next_item(a, s, rank, slot, parity, lane);
        if (++slot == LETTERS) slot = 0, parity ^= 1;
        if (item >= items) break;
        work w = work_of(s, item, rank);
        int steps = steps_of(w), rows = w.kind == UP ? UP_ROWS : DOWN_ROWS;
        const u8 *from = (const u8 *)(w.kind == UP ? a.w_up : a.w_down) + ((size_t)w.expert * rows * steps + (size_t)w.tile * STEPS) * 512;
        for (int k = 0; k < steps; k += STEPS) {
            u32 full = shared_address(&s.full[r.stage]), bytes = (u32)w.tiles * 2048;
            if (k > 0) barrier_wait(shared_address(&s.empty[r.stage]), (u32)r.parity);
            if (lane == 0) {
                if (k == 0) s.item[r.stage] = w;
                barrier_arrive(shared_address(&s.posted[r.stage]));
                barrier_expect(full, bytes);
                if (bytes) bulk_copy_hint(stages + (u32)r.stage * STAGE, from + (size_t)k * rows * 512, bytes, full, policy);
            }
            __syncwarp();
            r.next();
        }
    }
    if (lane == 0) {
        s.item[r.stage].kind = END;
        barrier_arrive(shared_address(&s.posted[r.stage]));
        barrier_arrive(shared_address(&s.full[r.stage]));
    }
}

/* ---- warp 1: activations ---- */
DEVICE void wait_rows(const experts_args &a, const shared &s, const work &w, int wide) {
    if (w.kind == UP)
        wait_count(&a.gathered[w.task], wide / UNIT);
    else
        wait_count(&a.done_up[w.expert], ceil_div(s.list.counts[w.expert], TOKENS) * GROUPS * CLUSTER);
    fence_async();
}
DEVICE void copy_activations(const experts_args &a, shared &s, u32 stages, u32 rank, int lane) {
    ring r = {0, 0};
    for (;;) {
        barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        int steps = steps_of(w), wide = wide_of(w.count), half = ceil_div(wide, 8 * CLUSTER) * 8, mine = min(half, wide - (int)rank * half);
        const bf16 *from = (w.kind == UP ? a.xs : a.h) + (size_t)s.list.row[w.task] * (steps * 16) + (int)rank * half * 64;
        u32 to = stages + W_BYTES + rank * (u32)half * 128;
        wait_rows(a, s, w, wide);
        for (int k = 0; k < steps; k += STEPS) {
            u32 full = shared_address(&s.full[r.stage]);
            if (k > 0) barrier_wait(shared_address(&s.posted[r.stage]), (u32)r.parity);
            if (lane == 0) {
                barrier_expect(full, (u32)wide * 128);
                if (mine > 0) bulk_copy_all(to + (u32)r.stage * STAGE, from + (size_t)(k / STEPS) * wide * 64, (u32)mine * 128, full);
            }
            __syncwarp();
            r.next();
        }
    }
    if (lane == 0) barrier_arrive(shared_address(&s.full[r.stage]));
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
DEVICE void gather_row(const experts_args &a, bf16 *to, int wide, int r, int pair, int lane) {
    const int parts = UP_STEPS * 2;
    const uint4 *from = (const uint4 *)(a.x + (size_t)(pair / CHOSEN) * a.ldx);
#pragma unroll 1
    for (int p0 = lane; p0 < parts; p0 += 256) {
        uint4 v[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (p0 + i * 32 < parts) v[i] = from[p0 + i * 32];
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (p0 + i * 32 < parts) *(uint4 *)(to + swizzled(wide, r, (p0 + i * 32) * 8)) = v[i];
    }
}
/* By whole warps: UNIT rows at a time, in the order of tasks, until those below `enough` are all taken. */
DEVICE void gather(const experts_args &a, const shared &s, int enough, int lane) {
    const task_list &l = s.list;
    int expert, first, count;
    pairs_of(l, l.tasks - 1, &expert, &first, &count);
    int all = l.row[l.tasks - 1] + wide_of(count);
    for (int row = 0; row < min(enough, all);) {
        if (lane == 0) row = atomicAdd(a.next + 1, UNIT);
        row = __shfl_sync(~0u, row, 0);
        if (row >= all) break;
        int task = task_at(l, row), r = row - l.row[task];
        pairs_of(l, task, &expert, &first, &count);
        for (int i = r; i < min(r + UNIT, count); i++) {
            int pair = a.list[(size_t)expert * a.cap + first + i];
            if (lane == 0) a.place[pair] = l.row[task] + i;
            gather_row(a, a.xs + (size_t)l.row[task] * (UP_STEPS * 16), wide_of(count), i, pair, lane);
        }
        fence_async();
        __syncwarp();
        if (lane == 0) add_release(&a.gathered[task], 1);
    }
}
/* Rows that the first item of every cluster needs. */
DEVICE int first_rows(const shared &s) {
    int tasks = ceil_div((int)gridDim.x / CLUSTER, GROUPS);
    return tasks < s.list.tasks ? s.list.row[tasks] : 0x7fffffff;
}

/* ---- combining ---- */
/* By whole warps, COLUMNS of a token at a time: lane i has slot i. */
DEVICE void combine_columns(const experts_args &a, int token, int column, int lane) {
    int row = -1, all = DOWN_ROWS * 16;
    float weight = 0, sum[8] = {};
    if (lane < CHOSEN && a.ids[token * CHOSEN + lane] >= 0) row = a.place[token * CHOSEN + lane], weight = a.weights[token * CHOSEN + lane];
    column += lane * 8;
#pragma unroll
    for (int i = 0; i < CHOSEN; i += 8) {
        uint4 y[8];
#pragma unroll
        for (int j = 0; j < min(8, CHOSEN - i); j++) {
            int from = __shfl_sync(~0u, row, i + j);
            if (from >= 0 && column < all) y[j] = __ldcg((const uint4 *)(a.y + (size_t)from * all + column));
        }
#pragma unroll
        for (int j = 0; j < min(8, CHOSEN - i); j++) {
            float by = __shfl_sync(~0u, weight, i + j);
            if (__shfl_sync(~0u, row, i + j) >= 0) add_slot(sum, y[j], by);
        }
    }
    if (column < all) put_eight(a, token, column, sum);
}
/* A warp's share of a group of columns, when it is complete. */
DEVICE void combine_part(const experts_args &a, const shared &s, int part, int worker, int workers, int lane) {
    int first = part_begin(part), blocks = part_begin(part + 1) - first;
    wait_count(&a.done_down[part], s.list.tasks * blocks * CLUSTER);
    for (int i = worker; i < a.n * blocks; i += workers) combine_columns(a, i / blocks, (first + i % blocks) * COLUMNS, lane);
}
/* The last group is everybody's, those before are the helpers'. */
DEVICE void combine_last(const experts_args &a, const shared &s, int warp, int lane) {
    combine_part(a, s, PARTS - 1, warp * (int)gridDim.x + (int)blockIdx.x, (WARPS + 1) * (int)gridDim.x, lane);
}
DEVICE void help(const experts_args &a, const shared &s, int lane) {
    gather(a, s, 0x7fffffff, lane);
    for (int part = 0; part < PARTS - 1; part++) combine_part(a, s, part, (int)blockIdx.x, (int)gridDim.x, lane);
    combine_last(a, s, WARPS, lane);
}

/* ---- the warps that multiply ---- */
struct worker {
    int warp, lane;
    u32 empty; /* lane i < CLUSTER: block i's barriers */
    int item;  /* by turns of s.lead */
    u32 parity;
    DEVICE_METHOD void next() {
        if (++item == LETTERS) item = 0, parity ^= 1;
    }
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
    int before, ahead = me.warp < 4 ? min(LAG, steps / STEPS) : 0;
    auto behind = [&] {
        give_back(me, before);
        if (ahead > 0 && --ahead == 0 && me.lane == 0) barrier_arrive(shared_address(&s.lead[me.item]));
    };
    if (me.warp >= 4) barrier_wait(shared_address(&s.lead[me.item]), me.parity);
    stage_product<N>(s, stages, r, c, even, me);
    before = r.stage;
    r.next();
    for (int k = STEPS; k < steps; k += 2 * STEPS) {
        stage_product<N>(s, stages, r, c, odd, me);
        wgmma_wait<1>();
        behind();
        before = r.stage;
        r.next();
        if (k + STEPS >= steps) break;
        stage_product<N>(s, stages, r, c, even, me);
        wgmma_wait<1>();
        behind();
        before = r.stage;
        r.next();
    }
    wgmma_wait<0>();
    behind();
}
/* The sums go out. A thread has tokens 2 q and 2 q + 1 of every 8. */
template <int N> DEVICE void store(const experts_args &a, const shared &s, const work &w, const float *c, const worker &me) {
    int g = me.lane >> 2, q = me.lane & 3, row = w.tile + me.warp, base = s.list.row[w.task];
    if (me.warp >= w.tiles) return;
    bf16 *x, *y;
    size_t step;
    if (w.kind == UP) {
        int input = lane_order(ACT == 2 ? row * 16 + 2 * g : row * 8 + (g & ~1)), wide = wide_of(w.count);
        x = a.h + (size_t)base * (DOWN_STEPS * 16) + swizzled(wide, 2 * q, input);
        y = a.h + (size_t)base * (DOWN_STEPS * 16) + swizzled(wide, 2 * q + 1, input);
        step = 8 * 64;
    } else {
        x = a.y + (size_t)(base + 2 * q) * (DOWN_ROWS * 16) + row * 16 + 2 * g;
        y = x + DOWN_ROWS * 16;
        step = 8 * DOWN_ROWS * 16;
    }
#pragma unroll
    for (int t = 0; t < N / 8; t++) {
        if (t * 8 >= w.count) break;
        target to = {t * 8 + 2 * q < w.count ? x + t * step : 0, t * 8 + 2 * q + 1 < w.count ? y + t * step : 0};
        if (w.kind == UP)
            store_up(a, to, c + t * 4, g);
        else
            store_down(to, c + t * 4);
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
    worker me = {warp, lane, cluster_address(shared_address(s.empty), (u32)lane % CLUSTER), 0, 0};
    gather(a, s, first_rows(s), lane);
    for (;; me.next()) {
        barrier_wait(shared_address(&s.full[r.stage]), (u32)r.parity);
        work w = s.item[r.stage];
        if (w.kind == END) break;
        /* Two sizes: ptxas gives the sums of each size registers of their own. */
        if (FEW_TOKENS < TOKENS && w.count <= FEW_TOKENS)
            make<FEW_TOKENS>(a, w, s, stages, r, me);
        else
            make<TOKENS>(a, w, s, stages, r, me);
        hand_over(s.done, &done, w.kind == UP ? &a.done_up[w.expert] : &a.done_down[part_of(w.tile / DOWN_TILES)], lane);
    }
    hand_over(s.done, &done, 0, lane);
    combine_last(a, s, warp, lane);
}

/* ---- the kernel ---- */
DEVICE void init(shared &s) {
    for (int i = 0; i < STAGES; i++) {
        barrier_init(shared_address(&s.full[i]), 2);
        barrier_init(shared_address(&s.empty[i]), CLUSTER * WARPS);
        barrier_init(shared_address(&s.posted[i]), 1);
    }
    for (int i = 0; i < LETTERS; i++) {
        barrier_init(shared_address(&s.lead[i]), 4);
        barrier_init(shared_address(&s.mail[i]), 1);
    }
    telling_init(s.done);
    barriers_ready();
}
/* No pairs: zeros. */
DEVICE void nothing(const experts_args &a, int warp, int lane) {
    for (int i = warp * (int)gridDim.x + (int)blockIdx.x; i < a.n * BLOCKS; i += THREADS / 32 * (int)gridDim.x)
        combine_columns(a, i / BLOCKS, i % BLOCKS * COLUMNS, lane);
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
        nothing(a, warp, lane);
    } else if (warp < PRODUCERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LESS));
        if (warp == 0)
            copy_weights(a, s, stages, rank, lane);
        else if (warp == 1)
            copy_activations(a, s, stages, rank, lane);
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
