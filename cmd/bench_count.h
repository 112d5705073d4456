/* bench_count.h: what `cadre bench count` measures and reports: bench_count.c makes the cells, bench_count_run.c
 * measures them on the CPU or a GPU, bench_count_effects.c takes an experiment apart, bench_count_report.c tells, and
 * bench_count_check.c holds the kernel against its matrix instead. */
#ifndef CMD_BENCH_COUNT_H
#define CMD_BENCH_COUNT_H
#include "dev/dev.h"
#include "moe/count.h"
#include "open.h"

typedef struct count_opts {
    opts_common common;
    const char *blocks, *tokens, *factor, *out;
    int k, experts, local, start, capacity, repeat, visit_ms;
    bool check;
    uint64_t seed;
} count_opts;

enum { COUNT_CELLS = 128, COUNT_LIST = 32, COUNT_FACTORS_MOST = 6, COUNT_STEPS = 64 };

/* One arm: so many tokens, counted with these knobs. */
typedef struct count_cell {
    int tokens;
    count_knobs knobs;
    unsigned mask; /* of an experiment: bit i: factor i is high */
    int64_t pairs, depth;
    int ctas, busy;     /* blocks of threads, and those that get any pair */
    double *us, *empty; /* [repeat]: medians of the visits; empty: a launch of the same size that does nothing */
    void *of_device;    /* the runner's */
} count_cell;

/* A factor of an experiment, and its two levels. */
typedef struct count_factor {
    const char *name, *what;
    int low, high;
} count_factor;

typedef struct count_bench count_bench;
/* One visit of a cell: times of single launches, as many of each kind. */
typedef struct count_visit {
    int steps, launches; /* launches: of what was timed at once */
    double us[COUNT_STEPS], empty[COUNT_STEPS];
} count_visit;
struct count_bench {
    const count_opts *o;
    cadre_device *device;
    int tokens[COUNT_LIST], token_count, capacity;
    count_cell cells[COUNT_CELLS];
    int count;
    count_factor factors[COUNT_FACTORS_MOST];
    int factor_count;
    int64_t *ids; /* [capacity][k], the host's */
    double *figures;
    char run[13];
};

/* ---- running (bench_count_run.c) ---- */

/* Readies every cell and holds what it counts against the meaning (CADRE_DEVICE: it differs); then visits all by turns.
 */
cadre_err count_bench_run(count_bench *b, cadre_fail *why);
cadre_err count_bench_keep(const count_bench *b, const count_cell *c, int visit, int order, const count_visit *v,
                           cadre_fail *why); /* the raw sample */

/* ---- experiments (bench_count_effects.c) ---- */

/* "warps,block" -> factors; cells of all their levels. */
cadre_err count_bench_factors(count_bench *b, cadre_fail *why);

/* An effect: of one factor, high / low, the rest averaged (geometric means); of two, the ratio of the first's ratios at
 * the second's high and low. */
typedef struct count_effect {
    unsigned mask;
    char name[32];
    double ratio, interval[2]; /* over the visits */
    double us;                 /* difference of the means, or of the differences */
    double share;              /* of the variance of the logs of the cells' times */
} count_effect;
/* All single ones, then all pairs; *rest: the share of the others. Returns how many. */
int count_bench_effects(const count_bench *b, count_effect out[], double *rest);
enum { COUNT_EFFECTS_MOST = COUNT_FACTORS_MOST * (COUNT_FACTORS_MOST + 1) / 2 };

/* Cells that are alike but for one thing: pairs in a thread's turn with the busy CTAs equal, or the reverse. */
typedef struct count_contrast {
    bool depth; /* what differs: pairs per thread, else busy CTAs */
    int64_t from, to;
    int cells;                 /* pairs of cells */
    double ratio, least, most; /* to / from: geometric mean, extremes */
} count_contrast;
enum { COUNT_CONTRASTS = 64 };
int count_bench_contrasts(const count_bench *b, count_contrast out[COUNT_CONTRASTS]);

/* ---- telling ---- */

void count_bench_say(const count_bench *b);
int count_bench_json(const count_bench *b);
/* `--check`; an exit status. */
int count_bench_check(const count_opts *o, cadre_device *device);
#endif
