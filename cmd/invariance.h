/* invariance.h: law L1 as cells: each cell runs the same sequences another way and must give the same bits. */
#ifndef CMD_INVARIANCE_H
#define CMD_INVARIANCE_H
#include "job.h"
#include "open.h"

enum { TRACKS = 4, TRACK_TOKENS_MAX = 256, CELL_ROWS = 8, CELLS_MAX = 160 };

/* A way to run. */
typedef struct cell {
    char name[64];
    const char *axis;
    int threads;             /* 0: all */
    int others;              /* other sequences in the batch */
    int chunk;               /* most prompt tokens in one step */
    int rows;                /* 0; else: a chunk of so many tokens against single steps */
    int isa;                 /* -1: as it is */
    int family, knob, value; /* knob override; family -1: none */
    int tracks, tokens;      /* how much of the baseline is run again */
} cell;

/* All cells for this many tokens; axes NULL: all, else a comma list. Returns how many. */
int cells_list(const char *axes, int tokens, cell *out);
extern const char cell_axes[]; /* "threads|batch|..." */

/* What a run of the sequences gave. */
typedef struct track {
    int32_t ids[TRACK_TOKENS_MAX];
    char logits[TRACK_TOKENS_MAX][65]; /* SHA-256 of each row that a token was drawn from */
    int count;
} track;
typedef struct trace {
    track tracks[TRACKS];
    char rows[CELL_ROWS][65]; /* logits of single steps, or of one chunk */
} trace;

/* Where two traces part; `what` NULL: nowhere. */
typedef struct parting {
    const char *what; /* "tokens", "logits", "count": one ended before the other */
    int sequence, step;
} parting;
/* `want` may hold more tokens than the cell runs, `got` exactly the cell's. */
parting trace_compare(const trace *want, const trace *got, const cell *c);

/* A device and a model, kept open while cells ask for the same. */
typedef struct bed {
    const opts_common *common;
    const char *dir, *weights;
    opened m;
    int threads, isa, family, knob, value;
    bool open;
} bed;
/* Opens what the cell needs, with its switches set only meanwhile. */
cadre_err bed_make(bed *b, const cell *c, cadre_fail *why);
void bed_close(bed *b);
/* Runs the sequences as the cell says; *out holds them alone. */
cadre_err bed_run(bed *b, const cell *c, uint64_t seed, trace *out, cadre_fail *why);
#endif
