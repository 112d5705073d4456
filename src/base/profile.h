/* profile.h: where the time of steps goes: one row per op and kernel, filled at the barriers that end ops (pool.h), or
 * from a GPU's events (dev/cuda.h).
 *
 *   start | op 1 .. barrier | op 2 .. barrier | ...      a row takes the time since the barrier before it: from the
 *           work   wait       work   wait                start to the last barrier the rows sum up to the whole
 *
 * Member 0 alone writes. It reads the clock when it arrives at a barrier and when the barrier opens: between the two it
 * waited for the others. Nothing here allocates. */
#ifndef CADRE_BASE_PROFILE_H
#define CADRE_BASE_PROFILE_H
#include "cadre.h"

/* What a stretch of time is booked on. The texts must outlive the profile: names of kernels, roles of plans. */
typedef struct profile_op {
    const char *op;     /* "experts" */
    const char *part;   /* "up+act", of an op that runs in several; NULL: it is one */
    const char *kernel; /* NULL: plain code, no kernel of the registry */
    size_t bytes;       /* that it had to read; 0: not known, or nothing that counts */
} profile_op;

typedef struct profile_row {
    profile_op what; /* bytes: of the first time */
    uint64_t launches, ns, waited;
    double bytes; /* of all times */
} profile_row;

enum { PROFILE_ROWS = 64 };
typedef struct profiler {
    profile_row rows[PROFILE_ROWS]; /* in the order in which they first came */
    int count, next;                /* next: the row that is likely to come */
    uint64_t at;                    /* when the last op ended */
    uint64_t unbooked;              /* ops that found no row left */
} profiler;

/* The time from now on belongs to the next op. */
void profile_start(profiler *p);
/* An op that began where the last ended, arrived at its barrier and passed it then. */
void profile_end(profiler *p, const profile_op *op, uint64_t arrived, uint64_t passed);
/* A stretch that was measured elsewhere. */
void profile_book(profiler *p, const profile_op *op, uint64_t ns, uint64_t waited);
void profile_clear(profiler *p);
/* Rows for cadre_profile_rows; returns how many there are. */
int profile_tell(const profiler *p, cadre_profile_row *rows, int cap);
#endif
