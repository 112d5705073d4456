/* pool.h: a team of threads that walks through one function together (SPMD): no fork and join per operation.
 *
 *   pool_run(pool, step, ctx):   every member calls step(ctx, team) once; the caller is member 0.
 *   inside:  phase 1 work ... team_barrier(team); phase 2 work ... team_barrier(team); ...
 *
 * Members spin at barriers, and sleep between runs. If the pool is busy with another caller's run, the function runs in
 * the calling thread alone, as a team of one: law L1 makes the bits the same. Every member runs with denormals flushed
 * (FTZ and DAZ), as docs/numerics.md asks; the caller's mode is restored.
 * A pool does not live on in a forked child.
 */
#ifndef CADRE_BASE_POOL_H
#define CADRE_BASE_POOL_H
#include "cadre.h"

typedef struct pool pool;
typedef struct team team; /* one member's view of the running team */

cadre_err pool_new(int threads, pool **out, cadre_fail *why); /* threads >= 1, pinned if switch pin is on */
void pool_free(pool *p);
int pool_threads(const pool *p);
void pool_run(pool *p, void (*fn)(void *ctx, team *t), void *ctx);

int team_id(const team *t);
int team_size(const team *t);
void team_barrier(team *t);
/* Static split: this member's contiguous part [*lo, *hi) of `units`, cut at multiples of `grain`. */
void team_split(const team *t, int units, int grain, int *lo, int *hi);
/* Dynamic: takes the next `grain` of `units` units into [*lo, *hi), false when all are taken. All members of the team
 * must call it until it says false, and a team_barrier must follow before the next phase that uses it. */
bool team_take(team *t, int units, int grain, int *lo, int *hi);

/* CPUs this process may use: the affinity mask, cut by the container's CPU quota (rounded up), at least 1. */
int pool_default_threads(void);
#endif
