/* count_matrix.h: the matrix that a counting kernel must pass bit for bit: seeds x (valid tokens, capacity) x offsets
 * of local experts x blocks, each cell against block 1024 and against the meaning. Pure: whoever owns a device counts.
 * A neighbour's header. */
#ifndef CADRE_OP_COUNT_MATRIX_H
#define CADRE_OP_COUNT_MATRIX_H
#include "op/count.h"

enum {
    MATRIX_K = 8,
    MATRIX_EXPERTS = 128,
    MATRIX_LOCAL = 32,
    MATRIX_SEEDS = 10,
    MATRIX_MOST = 16384,
    MATRIX_SKIPS = 8
};

/* The subject. put: from now on the ids are these, [tokens][k], the host's. count: a->ids is the host's too (of the
 * last put), a->valid and a->counts are the host's: counts [local] are set, not added to. */
typedef struct count_subject {
    cadre_err (*put)(void *ctx, const int64_t *ids, size_t pairs, cadre_fail *why); /* NULL: not needed */
    cadre_err (*count)(void *ctx, const op_count *a, const count_knobs *knobs, cadre_fail *why);
    void *ctx;
} count_subject;

typedef struct count_skip {
    int valid, capacity, cells;
} count_skip;

typedef struct count_matrix {
    int full, cells, equal; /* cells of the full product; those that can be; of them equal to both */
    count_skip skips[MATRIX_SKIPS];
    int skip_count, skipped;
    /* Not vacuous: experts with a token, of all counts of all cells; their sum; the same of the cell that decoding
     * looks like (seed 0, 256 tokens in 16384, offset 0, block 128). */
    int64_t populated, sum;
    int decode_populated, decode_sum;
    /* The same cells with one pair too many: how many there are, and how many of them differ from the meaning. A pair
     * past the limit need not be local, so about a quarter do. */
    int planted, caught;
    char first[160]; /* the first cell that differs; "" */
} count_matrix;

/* knobs: all but block. seeds: 1..MATRIX_SEEDS. Errors: NOMEM, and the subject's own; what differs is no error. */
cadre_err count_matrix_run(const count_subject *subject, const count_knobs *knobs, int seeds, count_matrix *out,
                           cadre_fail *why);
/* Whether it shows what it should: all cells equal, experts populated, planted faults found. */
bool count_matrix_ok(const count_matrix *m);
/* Row p of the ids is k distinct experts. Those past the valid ones are as good: whoever counts them is found out. */
void count_matrix_ids(uint64_t seed, int tokens, int experts, int k, int64_t *ids);
#endif
