/* count.h: counting local tokens (op/count.h) on a GPU: one kernel, compiled for its knobs, and its launches. A
 * neighbour's header. */
#ifndef CADRE_MOE_COUNT_H
#define CADRE_MOE_COUNT_H
#include "dev/cuda.h"
#include "op/count.h"

typedef struct moe_count moe_count;

/* ctas of the knobs 0: one per multiprocessor. Errors: COMPILE, UNSUPPORTED (no NVRTC), NOMEM, DEVICE. */
cadre_err moe_count_new(dev_cuda *gpu, const count_knobs *knobs, moe_count **out, cadre_fail *why);
void moe_count_free(moe_count *c); /* NULL is fine */
int moe_count_ctas(const moe_count *c);

/* Queues the count; its pointers are the GPU's. Waits for nothing, allocates nothing, and may be captured: a replay
 * counts as many tokens as *valid says then. Errors: RANGE (sizes below 0, or more local experts than a histogram has
 * room for), DEVICE. */
cadre_err moe_count_enqueue(moe_count *c, const op_count *a, void *stream, cadre_fail *why);
/* A kernel that does nothing, in a launch of the same size: what counting costs at the least. */
cadre_err moe_count_empty(moe_count *c, void *stream, cadre_fail *why);
#endif
