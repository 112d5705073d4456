/* pool.h: a team of threads that walks through one function together (SPMD): no fork and join per operation.
 *
 *   pool_run(pool, step, ctx):   every member calls step(ctx, team) once; the caller is member 0.
 *   inside:  phase 1 work ... team_barrier(team); phase 2 work ... team_barrier(team); ...
 *
 * Members spin at barriers, and sleep between runs. If the pool is busy with another caller's run, the function runs in
 * the calling thread alone, as a team of one: law L1 makes the bits the same. Every member runs in the floating-point
 * mode of docs/numerics.md (denormals flushed, nearest even, no traps); the caller's mode is restored. A pool does not
 * live on in a forked child.
 */
#ifndef CADRE_BASE_POOL_H
#define CADRE_BASE_POOL_H
#include "cadre.h"
#include "profile.h"

typedef struct pool pool;
typedef struct team team; /* one member's view of the running team */

cadre_err pool_new(int threads, pool **out, cadre_fail *why); /* threads >= 1 */
/* Ties worker i to cpu[i], and from then on moves a caller that runs the pool to cpu[0] (its own mask is put back at
 * once). cpu: one for each member (cpus_place), each below 1024; read only here. Before any run. */
void pool_pin(pool *p, const int *cpu);
/* The mode of a run, for work outside one whose bits count. Leave gives the caller's back. */
uint64_t pool_enter_mode(void);
void pool_leave_mode(uint64_t mode);
void pool_free(pool *p);
int pool_threads(const pool *p);
void pool_run(pool *p, void (*fn)(void *ctx, team *t), void *ctx);

int team_id(const team *t);
int team_size(const team *t);
void team_barrier(team *t);
/* Member 0: from now on the ops of this run are timed into p. */
void team_watch(team *t, profiler *p);
bool team_watched(const team *t); /* false in every other member */
/* The barrier at the end of an op; when watched, the time since the op before is booked on it. */
void team_end(team *t, const profile_op *op);
/* Static split: this member's contiguous part [*lo, *hi) of `units`, cut at multiples of `grain`. */
void team_split(const team *t, int units, int grain, int *lo, int *hi);
/* Dynamic: takes the next `grain` of `units` units into [*lo, *hi), false when all are taken. All members of the team
 * must call it until it says false, and a team_barrier must follow before the next phase that uses it. */
bool team_take(team *t, int units, int grain, int *lo, int *hi);
/* The same, claimed one piece ahead, so that a member can fetch what it works on next:
 *   for (team_walk w = team_walk_start(t, units, grain); team_walk_on(t, &w);) units [w.lo, w.hi), later those from
 * w.next
 */
typedef struct team_walk {
    int units, grain, lo, hi;
    int next, end; /* the piece after [lo, hi); next == units: none, or not known (switch ahead) */
    bool ahead;
} team_walk;
team_walk team_walk_start(team *t, int units, int grain);
bool team_walk_on(team *t, team_walk *w);
#endif
