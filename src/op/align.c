/* align.c: aligned offsets and the order of rows; integers only, but for align_sum.
 * Every function gives the same result on any scratch content, and rows of an expert come by rising pair. */
#include "op/align.h"

#include <string.h>

static int64_t round_up(int64_t v, int64_t a) {
    return (v + a - 1) / a * a;
}

/* ---- sizes ---- */

void align_prefix(const int32_t *counts, int n, int a, int64_t *exclusive, int64_t *inclusive) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        exclusive[i] = sum;
        sum += round_up(counts[i], a);
        inclusive[i] = sum;
    }
}

int64_t align_capacity(int64_t tokens, int k, int local, int a) {
    return round_up(tokens * (k < local ? k : local) + (int64_t)a * local, a);
}

int64_t align_scale_index(int64_t row, int64_t column, int64_t columns) {
    int64_t tile = row / 128 * columns + column / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}

align_plan align_plan_of(int64_t pairs, int e, int block) {
    int64_t capacity = pairs + (int64_t)e * (block - 1);
    if (pairs < e && pairs * block < capacity) capacity = pairs * block;
    return (align_plan){capacity, (capacity + block - 1) / block};
}

bool align_naive(int64_t tokens, int k, int e, bool has_map) {
    return !has_map && tokens * k * 4 <= e;
}

/* ---- block alignment ---- */

/* The bucket of a pair: its expert, or the local expert where others are dropped; -1 for none. */
static int bucket_of(int32_t id, int e, const int32_t *map, bool ignore) {
    if (id < 0 || id >= e) return -1;
    if (map == NULL || !ignore) return id;
    return map[id] >= 0 && map[id] < e ? map[id] : -1;
}

static int32_t label_of(int bucket, const int32_t *map, bool ignore) {
    if (map == NULL || ignore) return bucket;
    return map[bucket] >= 0 ? map[bucket] : -1;
}

void align_blocks(const int32_t *ids, int64_t pairs, int e, int block, const int32_t *map, bool ignore, int32_t *sorted,
                  int32_t *experts, int64_t *padded, int64_t *scratch) {
    align_plan plan = align_plan_of(pairs, e, block);
    int64_t *start = scratch, *next = scratch + e + 1; /* [e + 1], [e] */
    for (int i = 0; i < e; i++) next[i] = 0;
    for (int64_t p = 0; p < pairs; p++) {
        int b = bucket_of(ids[p], e, map, ignore);
        if (b >= 0) next[b]++;
    }
    start[0] = 0;
    for (int i = 0; i < e; i++) {
        start[i + 1] = start[i] + round_up(next[i], block);
        next[i] = start[i];
    }
    for (int64_t i = 0; i < plan.capacity; i++) sorted[i] = (int32_t)pairs;
    for (int64_t p = 0; p < pairs; p++) {
        int b = bucket_of(ids[p], e, map, ignore);
        if (b >= 0) sorted[next[b]++] = (int32_t)p;
    }
    for (int64_t i = 0; i < plan.blocks; i++) experts[i] = -1;
    for (int b = 0; b < e; b++) {
        for (int64_t i = start[b] / block; i < start[b + 1] / block; i++) experts[i] = label_of(b, map, ignore);
    }
    *padded = start[e];
}

/* ---- rows for op_experts ---- */

int32_t align_rows(const int32_t *ids, int32_t pairs, int e, int32_t *offset, int32_t *pair, int32_t *row) {
    memset(offset, 0, ((size_t)e + 1) * sizeof *offset);
    for (int32_t p = 0; p < pairs; p++) {
        if (ids[p] >= 0 && ids[p] < e) offset[ids[p] + 1]++;
    }
    for (int i = 0; i < e; i++) offset[i + 1] += offset[i];
    for (int32_t p = 0; p < pairs; p++) {
        row[p] = -1;
        if (ids[p] < 0 || ids[p] >= e) continue;
        row[p] = offset[ids[p]]++;
        pair[row[p]] = p;
    }
    /* Each offset has moved to its expert's end, which is the next one's start. */
    memmove(offset + 1, offset, (size_t)e * sizeof *offset);
    offset[0] = 0;
    return offset[e];
}

void align_sum(const float *y, int slots, int d, cadre_dtype t, void *out) {
    for (int i = 0; i < d; i++) {
        float sum = 0.0f;
        for (int s = 0; s < slots; s++) sum = sum + y[(size_t)s * (size_t)d + (size_t)i];
        if (t == CADRE_BF16)
            ((uint16_t *)out)[i] = op_bf16(sum);
        else
            ((float *)out)[i] = sum;
    }
}
