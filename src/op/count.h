/* count.h: counting how many tokens each local expert got: the meaning, the same in slices for a team, and how the work
 * is shared. The device text is cuda/count.cu, its launches moe/count.h. Integers only: neither the knobs nor the order
 * of the work can change a count.
 *
 *   ids [capacity][k]   row 0 |e e e .. e|                  counts [local]: counts[i] += pairs p < valid * k
 *                       ...                                                 with ids[p] == start + i
 *               valid-1 |e e e .. e|   <- valid lies where the ids do, so that a graph can be replayed for any number
 *                       |anything  |
 */
#ifndef CADRE_OP_COUNT_H
#define CADRE_OP_COUNT_H
#include "op/knobs.h"
#include "op/op.h"

/* One count. The pointers are of the memory that the kernel works in: the host's, or a GPU's. */
typedef struct op_count {
    const int64_t *ids;   /* [capacity][k] global expert ids; those outside the local range are ignored, -1 too */
    const int32_t *valid; /* tokens that count; below 0 is 0, above capacity is capacity */
    int64_t capacity;     /* tokens of the buffer, >= 0 */
    int k;                /* slots of a token, >= 1 */
    int64_t start;        /* the global id of local expert 0 */
    int local;            /* local experts, >= 0 */
    int32_t *counts;      /* [local], added to: the caller zeroes them */
    int extra;            /* pairs past the limit, 0: the fault that a check plants to show that it would be found */
} op_count;

/* How `ctas` persistent blocks of threads share pairs: `blocks` of `block` pairs, each CTA takes per_cta of them in a
 * row (the last may get fewer), `busy` CTAs get any. Sizes >= 1; pairs 0: nobody is busy. */
typedef struct count_grid {
    int64_t blocks, per_cta, busy;
} count_grid;
count_grid count_grid_of(int64_t pairs, int64_t block, int64_t ctas);
/* Pairs that one thread takes one after the other: of a block, times the blocks of its CTA. */
int64_t count_depth(int64_t pairs, const count_knobs *knobs, int64_t ctas);

void count_knobs_default(count_knobs *knobs);
void count_knobs_text(const count_knobs *knobs, char *text, size_t size); /* "block=128 warps=4 ..." */
extern const op_knob_def count_knob_defs[COUNT_KNOBS];

/* The share of CTA `cta` of `ctas`; all shares together are the count, in any order and at the same time. own: [local]
 * of scratch for each that runs at the same time, content of no matter. */
typedef void op_count_fn(const op_count *a, const count_knobs *knobs, int ctas, int cta, int32_t *own);
typedef struct op_count_kernel {
    const char *name;
    op_count_fn *run;
} op_count_kernel;
/* Versions on the CPU, the meaning (count_ref) first; a NULL name ends them. */
extern const op_count_kernel op_count_kernels[];
#endif
