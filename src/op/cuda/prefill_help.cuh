/* prefill_help.cuh: what the helper of prefill.cu does: it brings x into the order of tasks before their products, and
 * combines what is complete after. At the end all warps combine what is left.
 */
/* ---- gathering ---- */
/* Elements from a task's start to an input of row r. */
DEVICE int swizzled(int wide, int r, int input) {
    return input / 64 * wide * 64 + r * 64 + ((input / 8 % 8) ^ (r & 7)) * 8 + input % 8;
}
/* The task that has a row: rows of tasks ascend. */
DEVICE int task_at(const row_list &l, int row) {
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
/* UNIT rows in the order of tasks; lane i < UNIT has the pair of row i, -1: there is none. */
struct unit {
    int task, row, wide; /* the first of its task's rows */
    int pair;
};
DEVICE unit unit_at(const experts_args &a, const row_list &l, int row, int lane) {
    int task = task_at(l, row), expert, first, count, r = row - l.row[task], pair = -1;
    pairs_of(l, task, &expert, &first, &count);
    if (lane < UNIT && r + lane < count) pair = a.list[(size_t)expert * a.cap + first + r + lane];
    return {task, r, wide_of(count), pair};
}
DEVICE void bring_x(const experts_args &a, u32 to, int i, int pair, int lane) {
    int whose = __shfl_sync(~0u, pair, i % UNIT);
    const u8 *from = (const u8 *)(a.x + (size_t)(whose / CHOSEN) * a.ldx);
    if (whose >= 0)
        for (int p = lane * 16; p < X_BYTES; p += 512) copy16(to + (u32)p, from + p);
    copies_end();
}
/* Until the counter is there: long, so that asking seldom costs nothing. */
DEVICE void wait_count_long(const int *counter, int least) {
    if ((threadIdx.x & 31) == 0)
        while (load_acquire(counter) < least) __nanosleep(500);
    __syncwarp();
}
/* By a whole warp: rows are on their way while one is put in place, the next unit's pairs and the number after that, too. */
DEVICE void gather(const experts_args &a, shared &s, int lane) {
    const row_list &l = s.list;
    int expert, first, count, drawn = 0, at = 0;
    pairs_of(l, l.tasks - 1, &expert, &first, &count);
    int all = l.row[l.tasks - 1] + wide_of(count);
    int row = (int)blockIdx.x * UNIT, given = (int)gridDim.x * UNIT;
    if (row >= all) return;
    if (lane == 0) drawn = given + atomicAdd(a.next + 1, UNIT);
    unit u = unit_at(a, l, row, lane), next;
    for (int i = 0; i < X_ROWS; i++) bring_x(a, shared_address(s.help) + (u32)i * X_BYTES, i, u.pair, lane);
    for (;; u = next) {
        row = __shfl_sync(~0u, drawn, 0);
        bool more = row < all;
        if (more && lane == 0) drawn = given + atomicAdd(a.next + 1, UNIT);
        if (more) next = unit_at(a, l, row, lane);
        if (u.pair >= 0) a.place[u.pair] = l.row[u.task] + u.row + lane;
        bf16 *to = rows_of_x(a, u.task);
        if (u.task >= PREFILL_PLACES) wait_count_long(&a.done_up[u.task - PREFILL_PLACES], GROUPS * CLUSTER);
        for (int i = 0; i < UNIT; i++) {
            u32 here = shared_address(s.help) + (u32)at * X_BYTES;
            if (++at == X_ROWS) at = 0;
            copies_wait<X_ROWS - 1>();
            __syncwarp();
            for (int p = lane; p < X_BYTES / 16; p += 32)
                *(uint4 *)(to + swizzled(u.wide, u.row + i, p * 8)) = load_shared16(here + (u32)p * 16);
            __syncwarp();
            bring_x(a, here, i + X_ROWS, i + X_ROWS < UNIT ? u.pair : more ? next.pair : -1, lane);
        }
        __syncwarp();
        if (lane == 0) add_release(&a.gathered[u.task], 1);
        if (!more) break;
    }
}
static_assert(X_ROWS <= UNIT, "no further than the next unit");

/* ---- combining ---- */
/* By whole warps. A piece is COLUMNS of a token, eight a lane, from all its rows of y. Pieces go by columns, so that they
 * follow the down products; FEW are drawn at a time, whose slots the lanes have, by whichever warp has time. */
#define FEW      (32 / CHOSEN)
#define ROW_PART (COLUMNS * 2)
#define ASIDE    (CHOSEN * ROW_PART)     /* bytes of a piece's rows */
#define LAST     (ROOM / WARPS / 16 * 16) /* of the ring, for each warp at the end */
static_assert(COLUMNS == 32 * 8, "a warp combines them");
struct slot {
    int row; /* of y, -1: empty */
    float weight;
};
DEVICE slot slot_of(const experts_args &a, int piece, int lane) {
    int pair = (piece + min(lane / CHOSEN, FEW - 1)) % a.n * CHOSEN + lane % CHOSEN;
    int id = a.ids[pair], row = a.place[pair]; /* together: neither waits for the other */
    float weight = a.weights[pair];
    return {id < 0 ? -1 : row, weight};
}
DEVICE void add_eight(float *sum, uint4 y, float weight) {
    add_two(sum, y.x, weight), add_two(sum + 2, y.y, weight), add_two(sum + 4, y.z, weight), add_two(sum + 6, y.w, weight);
}
/* A piece's rows on their way; `of`: which of the lanes' tokens. */
DEVICE void bring_y(const experts_args &a, u32 to, const slot &s, int of, int piece, int pieces, int lane) {
    int column = piece / a.n * COLUMNS + lane * 8;
#pragma unroll
    for (int j = 0; j < CHOSEN; j++) {
        int row = __shfl_sync(~0u, s.row, of * CHOSEN + j);
        if (piece < pieces && row >= 0 && column < Y_PITCH) copy16(to + (u32)(j * ROW_PART + lane * 16), a.y + (size_t)row * Y_PITCH + column);
    }
    copies_end();
}
DEVICE void combine(const experts_args &a, u32 from, const slot &s, int of, int piece, int lane) {
    int column = piece / a.n * COLUMNS + lane * 8;
    float sum[8] = {};
#pragma unroll
    for (int j = 0; j < CHOSEN; j++) {
        float weight = __shfl_sync(~0u, s.weight, of * CHOSEN + j);
        if (__shfl_sync(~0u, s.row, of * CHOSEN + j) >= 0) add_eight(sum, load_shared16(from + (u32)(j * ROW_PART + lane * 16)), weight);
    }
    if (column < Y_PITCH) put_eight(a, piece % a.n, column, sum);
}
/* Until the columns of a piece, and those before, are there everywhere. ready: the last group that is. */
DEVICE void wait_columns(const experts_args &a, const shared &s, int piece, int *ready) {
    int part = part_of(piece / a.n);
    while (*ready < part) {
        int next = ++*ready;
        wait_count_long(&a.done_down[next], s.list.tasks * (part_begin(next + 1) - part_begin(next)) * CLUSTER);
    }
}
/* As many pieces as BYTES hold, but no more than FEW, are on their way while one is combined; so are the slots of the next
 * few, and the number after. */
template <int BYTES> DEVICE void combine_rest(const experts_args &a, const shared &s, u32 buffer, int lane) {
    const int DEEP = BYTES / ASIDE < FEW ? BYTES / ASIDE : FEW;
    static_assert(DEEP > 0, "one piece at least");
    int pieces = a.n * BLOCKS, ready = -1, drawn = 0, at = 0;
    wait_columns(a, s, 0, &ready); /* all rows have their places, too */
    if (lane == 0) drawn = atomicAdd(a.next + 2, 2 * FEW);
    int now = __shfl_sync(~0u, drawn, 0), next = now + FEW;
    if (now >= pieces) return;
    slot have = slot_of(a, now, lane), then;
    wait_columns(a, s, min(now + FEW, pieces) - 1, &ready);
    for (int i = 0; i < DEEP; i++) bring_y(a, buffer + (u32)i * ASIDE, have, i, now + i, pieces, lane);
    for (; now < pieces; now = next, have = then, next = __shfl_sync(~0u, drawn, 0)) {
        if (lane == 0) drawn = atomicAdd(a.next + 2, FEW);
        then = slot_of(a, min(next, pieces - 1), lane);
        for (int i = 0; i < FEW; i++) {
            u32 part = buffer + (u32)at * ASIDE;
            if (++at == DEEP) at = 0;
            copies_wait<DEEP - 1>();
            __syncwarp();
            if (now + i < pieces) combine(a, part, have, i, now + i, lane);
            __syncwarp();
            int j = i + DEEP;
            if (j == FEW) wait_columns(a, s, min(next + FEW, pieces) - 1, &ready);
            if (j < FEW)
                bring_y(a, part, have, j, now + j, pieces, lane);
            else
                bring_y(a, part, then, j - FEW, next + j - FEW, pieces, lane);
        }
    }
}
