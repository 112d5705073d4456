/* workspace.h: what one step needs in working memory: parts, from which stage to which they live, and which of them
 * share memory. An account of numbers; nothing is allocated here.
 *
 *   stage    0 align   1 up    2 act   3 down   4 sum
 *   sorted   [-----------------------------]
 *   first            [--------]                        slot a: the two never live at one stage
 *   third                             [--------------] slot a
 */
#ifndef CADRE_PLAN_WORKSPACE_H
#define CADRE_PLAN_WORKSPACE_H
#include "plan/gemm.h"

typedef struct work_part {
    const char *name;
    size_t bytes;
    int first, last;  /* stages, both inclusive */
    const char *slot; /* parts of one slot lie in the same memory; NULL: it has its own */
} work_part;

/* RANGE when two parts of a slot live at the same stage: the later would overwrite the earlier. Names both. */
cadre_err work_check(const work_part *parts, int count, cadre_fail *why);
/* Bytes to be held: each slot once, as large as its largest part. */
size_t work_total(const work_part *parts, int count);
/* Most bytes that live at one stage of 0..stages-1, and at which (the first). */
size_t work_peak(const work_part *parts, int count, int stages, int *stage);

/* The buffers of a grouped-GEMM layer of vLLM's kind for one call: tokens sorted by expert into blocks of BLOCK_SIZE_M,
 * up, activation, down, sum over the chosen experts; the outputs of up and down share memory, as there. */
enum { WORK_ALIGN, WORK_UP, WORK_ACT, WORK_DOWN, WORK_SUM, WORK_STAGES, WORK_FOREIGN_PARTS = 6 };
extern const char *const work_stages[WORK_STAGES];
/* sorted and experts: entries of the alignment (op/align.h), which plan may not compute with. Returns the number of
 * parts, 0 when a size does not fit. */
int work_foreign(const gemm_key *key, int64_t sorted, int64_t experts, work_part parts[WORK_FOREIGN_PARTS]);

/* A key of buffers that are kept: equal keys may share, all else may not. A buffer that one stream uses, or that a
 * graph holds, belongs to that stream or graph alone. */
typedef struct work_key {
    int device, stream, dtype, capacity; /* capacity: tokens it is sized for */
    bool captured;
} work_key;
/* May a step of n tokens under `want` (capacity ignored) use buffers kept under `have`? */
bool work_fits(const work_key *have, const work_key *want, int n);
#endif
