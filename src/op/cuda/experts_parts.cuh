/* experts_parts.cuh: what the texts that take tokens by tasks share (experts.cu for few, prefill.cu for many): tasks and
 * items, the slots of a token. A *task* is an expert with up to TOKENS of its pairs; an *item* is some row tiles of
 * one task. Items come in a fixed order, all of the up product and then the down product; blocks draw them from a counter
 * (the first ones of prefill.cu are theirs without).
 */
/* What the text says before: experts_shape.cuh, and how many of an expert's pairs a task takes (task_size). */
#define GROUPS     ((UP_ROWS + UP_TILES - 1) / UP_TILES)
#define BLOCKS     ((DOWN_ROWS + DOWN_TILES - 1) / DOWN_TILES)
#define TOKENS     (8 * TOKEN_TILES)

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

/* What there is to do, the same in all blocks. */
struct task_list {
    int tasks;
    int counts[EXPERTS];
    u32 task[MOST_TASKS]; /* expert << 16 | which task of it */
};

/* Inclusive sum over the lanes. */
DEVICE int scan(int v, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        int below = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += below;
    }
    return v;
}
/* Which pairs of its expert a task has. */
DEVICE void pairs_of(const task_list &l, int task, int *expert, int *first, int *count) {
    *expert = (int)(l.task[task] >> 16);
    int all = l.counts[*expert], each = task_size(all);
    *first = (int)(l.task[task] & 0xffffu) * each;
    *count = min(each, all - *first);
}
/* ---- waiting for other blocks ---- */
/* By whole warps: until the counter is there, and what was written before it can be read. */
DEVICE void wait_count(const int *counter, int least) {
    if ((threadIdx.x & 31) == 0)
        while (load_acquire(counter) < least) {}
    __syncwarp();
}

/* ---- telling other blocks ---- */
/* Items whose results are written, STORED of them not told yet, by turns. */
#define STORED 4
struct teller {
    int slot, parity;
    DEVICE_METHOD void next() {
        if (++slot == STORED) slot = 0, parity ^= 1;
    }
};

/* ---- the combination ---- */
/* Two columns of one slot. Slots in order, fp32. */
DEVICE void add_two(float *sum, u32 two, float weight) {
    sum[0] = __fmaf_rn(weight, from_bf16((bf16)two), sum[0]);
    sum[1] = __fmaf_rn(weight, from_bf16((bf16)(two >> 16)), sum[1]);
}
/* Eight columns of a token go out, rounded once; one by one where the caller's rows are not on 16 bytes. */
DEVICE void put_eight(const experts_args &a, int token, int column, const float *sum) {
    if (column >= D_MODEL) return; /* row tiles go on behind the last column */
    size_t at = (size_t)token * a.ldo + column;
    if (D_MODEL % 8 == 0 && a.ldo % 8 == 0 && (size_t)a.out % 16 == 0 && !a.add) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            if (a.out_bf16)
                *(uint2 *)((bf16 *)a.out + at + j) = make_uint2(to_bf16x2(sum[j], sum[j + 1]), to_bf16x2(sum[j + 2], sum[j + 3]));
            else
                *(float4 *)((float *)a.out + at + j) = make_float4(sum[j], sum[j + 1], sum[j + 2], sum[j + 3]);
        }
        return;
    }
    for (int j = 0; j < 8 && column + j < D_MODEL; j++) {
        if (a.out_bf16)
            ((bf16 *)a.out)[at + j] = to_bf16(sum[j]);
        else
            ((float *)a.out)[at + j] = a.add ? __fadd_rn(((float *)a.out)[at + j], sum[j]) : sum[j];
    }
}
