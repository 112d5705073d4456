/* align.h: alignment and permutation of routed pairs: integer work with exact, named semantics.
 * A pair is token * k + slot; ids are expert ids, -1 = empty slot. All offsets that can pass 2^31 are int64. */
#ifndef CADRE_OP_ALIGN_H
#define CADRE_OP_ALIGN_H
#include "op/op.h"

/* Aligned prefix sums: each count rounded up to a multiple of a (0 stays 0). */
void align_prefix(const int32_t *counts, int n, int a, int64_t *exclusive, int64_t *inclusive);
/* Rows a permute needs at most: tokens * min(k, local) + a * local, rounded up to a. */
int64_t align_capacity(int64_t tokens, int k, int local, int a);
/* Index of a scale in the tiled layout of 128 x 4 blocks; columns = number of column blocks. */
int64_t align_scale_index(int64_t row, int64_t column, int64_t columns);

/* Block alignment (moe_align_block_size). */
typedef struct align_plan {
    int64_t capacity; /* entries of sorted: pairs + e * (block - 1), or min(pairs * block, that) if pairs < e */
    int64_t blocks;   /* entries of experts: ceil(capacity / block) */
} align_plan;
align_plan align_plan_of(int64_t pairs, int e, int block);
/* sorted [capacity]: pair ids, ascending inside an expert, filled up with the sentinel `pairs`; experts [blocks]: the
 * expert of each block, -1 past the end; *padded: used entries. map (NULL: none) gives each global expert its local id
 * or -1; ignore: pairs of experts mapped to -1 are dropped, else they are laid out and their blocks marked -1. Ids
 * outside 0..e-1 are no pairs. */
void align_blocks(const int32_t *ids, int64_t pairs, int e, int block, const int32_t *map, bool ignore, int32_t *sorted,
                  int32_t *experts, int64_t *padded, int64_t *scratch /* [2 * e + 1] */);
/* Is the path without sorting taken? pairs * 4 <= e and no map. */
bool align_naive(int64_t tokens, int k, int e, bool has_map);

/* What op_experts needs: offset [e + 1], pair [rows], row [pairs]; ids of -1 get row -1. Deterministic: rows of an
 * expert in ascending pair index. Returns the number of rows. */
int32_t align_rows(const int32_t *ids, int32_t pairs, int e, int32_t *offset, int32_t *pair, int32_t *row);

/* out [d] = sum over slots of y[slot][d], slot order, fp32, rounded once to `t` (F32 or BF16). */
void align_sum(const float *y, int slots, int d, cadre_dtype t, void *out);
#endif
