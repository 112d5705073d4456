/* experts.cuh: the arguments of the expert kernels, for device text and for the host that fills them in. */
typedef struct experts_args {
    int n, cap;                     /* tokens now; places of an expert's list */
    const void *w_up, *w_down;      /* packed tiles of all experts */
    const unsigned short *x;        /* [n][ldx] bf16; in lane order; as it is for prefill and one */
    unsigned short *h, *y;          /* [EXPERTS_ROWS][steps * 16 of f], [EXPERTS_ROWS][row tiles * 16 of d]; bf16 */
    unsigned short *xs;             /* prefill: [PREFILL_PLACES][tokens][steps * 16 of d], x by tasks */
    int *gathered;                  /* prefill: one per task, zero between launches */
    int *place;                     /* prefill: [n * k], the row of a pair */
    long long ldx, ldo;             /* elements */
    int *counts;                    /* [e] pairs of each expert; back to zero at the end */
    const int *list;                /* [e][cap] pairs */
    const int *ids;                 /* [n * k], -1: empty slot */
    const float *weights;           /* [n * k] */
    void *out;                      /* [n][ldo] */
    int *next, *done_up, *done_down, *left; /* counters, zero between launches: done_up one per expert (prefill: per task), the
                                               others alone on a line of 32; prefill uses three of next, four of done_down */
    float limit;
    int out_bf16, add;
    unsigned short *told_h[2], *told_y[2]; /* TOLD: as h and y, all ones where nothing is written */
    int *told_ids[2];                      /* TOLD: the ids of few tokens, before the router's launch ends */
    int *state;                            /* TOLD: which of the two is this launch's, pairs of the launch before */
    int x_f32;                             /* one: x is the caller's, fp32 or bf16 */
} experts_args;

/* Threads of a block: three warps, and four, that do not multiply. */
#define EXPERTS_THREADS(warps) (32 * (3 + (warps)))
#define PREFILL_THREADS        (32 * (4 + 8))
/* Blocks of a cluster of prefill: the grid is a multiple. */
#define PREFILL_CLUSTER 2

/* Bytes of dynamic shared memory of a block; `tiles`: the larger of UP_TILES and DOWN_TILES. The texts check that it is enough. */
#define EXPERTS_STAGE(tokens, tiles, kc) ((kc) / 64 * (tiles) * 2048 + (tokens) * (2 * (kc) + 64))
#define EXPERTS_SHARED(tokens, tiles, kc, stages, experts, tasks) \
    ((stages) * (EXPERTS_STAGE(tokens, tiles, kc) + 64) + ((stages) + 1) * (tokens) * 4 + (experts) * 5 + (tasks) * 4 + 512)
/* prefill: beside its ring. The helper has rows of x on their way (about 12 KB, one to eight rows), later a piece of y from all
 * slots. */
#define PREFILL_SLOTS   12
#define PREFILL_PLACES  48 /* tasks whose rows of x are there at a time */
#define PREFILL_ROW(d)  (((d) + 31) / 32 * 64)
#define PREFILL_ROWS(d) (PREFILL_ROW(d) > 6144 ? 1 : PREFILL_ROW(d) < 1536 ? 8 : 12288 / PREFILL_ROW(d))
#define PREFILL_HELP(d, chosen) \
    (PREFILL_ROWS(d) * PREFILL_ROW(d) > (chosen) * 512 ? PREFILL_ROWS(d) * PREFILL_ROW(d) : (chosen) * 512)
#define PREFILL_FIXED(experts, tasks, d, chosen) (PREFILL_HELP(d, chosen) + (experts) * 4 + (tasks) * 8 + 2048)
/* one */
#define ONE_CHUNK 2048
#define ONE_SHARED(warps, stages, d, chosen, downs) \
    ((warps) * (stages) * ONE_CHUNK + ((d) + 63) / 64 * 128 + (chosen) * (32 * (downs) + 8) + 16)
/* Most row tiles that a block has of so many; the warps of a block with so many of the up product, and of the down product of all
 * slots. */
#define ONE_EACH(tiles, blocks)       (((tiles) + (blocks) - 1) / (blocks))
#define ONE_MAX(a, b)                 ((a) > (b) ? (a) : (b))
#define ONE_WARPS(ups, downs, chosen) ONE_MAX(2, ONE_MAX(ups, (downs) * (chosen)))
/* Rows of h and y: every expert's pairs up to a multiple of 8. */
#define EXPERTS_ROWS(n, k, experts) ((long long)(n) * (k) + 8ll * (experts))
/* Most tasks that n tokens can make: every expert may have one that is not full. */
#define EXPERTS_TASKS(n, k, experts, tokens) ((experts) + (int)((long long)(n) * (k) / (tokens)))
