/* pool.c: the team of threads. Members wait for each other by spinning (a step has hundreds of short phases) and sleep
 * on a futex when no run comes for a while.
 *
 *   caller   busy? -> fn, ctx, epoch + 1, wake sleepers ------ member 0 ----- end barrier -> back
 *   worker   spin on epoch, then sleep on it ----------------- member i ----- end barrier -> spin on epoch ...
 */
#include "pool.h"
#include "clock.h"
#include "err.h"
#include "fault.h"
#include "mem.h"
#include "switch.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#    include <immintrin.h>
#endif

enum { LINE = 64, THREADS_MOST = 1024 };

/* What the members of one run share; each counter alone on its cache line. */
typedef struct meet {
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Alignas(LINE) _Atomic uint32_t turn; /* barriers passed */
    _Alignas(LINE) _Atomic int64_t taken; /* units handed out in this phase */
    _Alignas(LINE) int size;
    int spins; /* pauses before a waiting member offers its CPU to others; 0 in a pool of more members than CPUs */
} meet;

struct team {
    meet *meet;
    int id;
    profiler *watch; /* of member 0, NULL: nobody wants to know */
};

typedef struct worker {
    struct pool *pool;
    pthread_t thread;
    int id;
} worker;

struct pool {
    meet meet;
    _Alignas(LINE) _Atomic uint32_t epoch; /* runs so far; workers sleep on it */
    _Alignas(LINE) _Atomic int sleepers;
    _Atomic bool busy, quit;
    void (*fn)(void *, team *);
    void *ctx;
    int threads, started, cpu; /* cpu: member 0's, -1 when not pinned */
    worker *workers;
};

static void pause_cpu(void) {
#if defined __x86_64__
    _mm_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* ---- floating point mode: that of docs/numerics.md, whatever the caller's ---- */

uint64_t pool_enter_mode(void) {
#if defined __x86_64__
    unsigned mode = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* FTZ, DAZ, round to nearest, no traps */
    return mode;
#elif defined __aarch64__
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24)); /* FZ, round to nearest, no traps */
    return mode;
#else
    return 0;
#endif
}

void pool_leave_mode(uint64_t mode) {
#if defined __x86_64__
    _mm_setcsr((unsigned)mode);
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}

/* ---- inside a run ---- */

int team_id(const team *t) {
    return t->id;
}
int team_size(const team *t) {
    return t->meet->size;
}

/* The last to arrive opens the door, and starts the next phase's count of units before that. */
void team_barrier(team *t) {
    meet *m = t->meet;
    if (m->size == 1) {
        atomic_store_explicit(&m->taken, 0, memory_order_relaxed);
        return;
    }
    uint32_t turn = atomic_load_explicit(&m->turn, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)m->size) {
        atomic_store_explicit(&m->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&m->taken, 0, memory_order_relaxed);
        atomic_store_explicit(&m->turn, turn + 1, memory_order_release);
        return;
    }
    for (int i = 0; atomic_load_explicit(&m->turn, memory_order_acquire) == turn; i++) {
        if (i < m->spins)
            pause_cpu();
        else
            sched_yield();
    }
}

void team_watch(team *t, profiler *p) {
    t->watch = p;
    if (p) profile_start(p);
}

bool team_watched(const team *t) {
    return t->watch != NULL;
}

void team_end(team *t, const profile_op *op) {
    if (!t->watch) {
        team_barrier(t);
        return;
    }
    uint64_t arrived = clock_ns();
    team_barrier(t);
    profile_end(t->watch, op, arrived, clock_ns());
}

void team_split(const team *t, int units, int grain, int *lo, int *hi) {
    int64_t blocks = ((int64_t)units + grain - 1) / grain, id = t->id, size = t->meet->size;
    int64_t from = id * blocks / size * grain, to = (id + 1) * blocks / size * grain;
    if (to > units) to = units;
    if (id && from < to && fault_planted(FAULT_SPLIT)) from++;
    *lo = (int)from;
    *hi = (int)to;
}

bool team_take(team *t, int units, int grain, int *lo, int *hi) {
    int64_t from = atomic_fetch_add_explicit(&t->meet->taken, grain, memory_order_relaxed), to = from + grain;
    if (from >= units) return false;
    *lo = (int)from;
    *hi = (int)(to < units ? to : units);
    return true;
}

static void claim(team *t, team_walk *w) {
    if (!team_take(t, w->units, w->grain, &w->next, &w->end)) w->next = w->units;
}

team_walk team_walk_start(team *t, int units, int grain) {
    team_walk w = {.units = units, .grain = grain, .next = units, .ahead = switch_get(SWITCH_AHEAD) != 0};
    if (w.ahead) claim(t, &w);
    return w;
}

bool team_walk_on(team *t, team_walk *w) {
    if (!w->ahead) claim(t, w);
    if (w->next >= w->units) return false;
    w->lo = w->next;
    w->hi = w->end;
    w->next = w->units;
    if (w->ahead) claim(t, w);
    return true;
}

/* ---- workers ---- */

static void futex(_Atomic uint32_t *word, int what, uint32_t value) {
    syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Waits for a run after `seen`; spins as long as switch spin says. */
static uint32_t next_run(pool *p, uint32_t seen) {
    uint64_t spin = p->meet.spins ? (uint64_t)switch_get(SWITCH_SPIN) * 1000 : 0, until = clock_ns() + spin;
    uint32_t now;
    for (int i = 1; (now = atomic_load_explicit(&p->epoch, memory_order_acquire)) == seen; i++) {
        pause_cpu();
        if (i % 64 == 0 && clock_ns() >= until) break;
    }
    if (now != seen) return now;
    atomic_fetch_add(&p->sleepers, 1);
    while ((now = atomic_load(&p->epoch)) == seen) futex(&p->epoch, FUTEX_WAIT, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return now;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* a wish: a refusal costs speed alone */
}

static void *work(void *arg) {
    worker *w = arg;
    pool *p = w->pool;
    team t = {&p->meet, w->id, NULL};
    uint32_t seen = 0;
    pool_enter_mode();
    for (;;) {
        seen = next_run(p, seen);
        if (atomic_load_explicit(&p->quit, memory_order_relaxed)) return NULL;
        p->fn(p->ctx, &t);
        team_barrier(&t);
    }
}

static void wake(pool *p) {
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers)) futex(&p->epoch, FUTEX_WAKE, THREADS_MOST);
}

/* The caller runs as member 0 where no worker is pinned. It is moved there, not tied: its own mask is put back. */
static void move_caller(int cpu) {
    cpu_set_t mask;
    if (cpu < 0 || sched_getcpu() == cpu || sched_getaffinity(0, sizeof mask, &mask)) return;
    if (!CPU_ISSET(cpu, &mask)) return;
    pin(cpu);
    sched_setaffinity(0, sizeof mask, &mask);
}

void pool_run(pool *p, void (*fn)(void *ctx, team *t), void *ctx) {
    uint64_t mode = pool_enter_mode();
    if (p->threads == 1 || atomic_exchange_explicit(&p->busy, true, memory_order_acquire)) {
        meet alone = {.size = 1};
        team t = {&alone, 0, NULL};
        fn(ctx, &t);
    } else {
        team t = {&p->meet, 0, NULL};
        move_caller(p->cpu);
        p->fn = fn;
        p->ctx = ctx;
        wake(p);
        fn(ctx, &t);
        team_barrier(&t);
        atomic_store_explicit(&p->busy, false, memory_order_release);
    }
    pool_leave_mode(mode);
}

/* ---- making and ending ---- */

/* More members than CPUs: spinning would keep the member that is waited for from running. */
static int spins_of(int threads) {
    cpu_set_t mask;
    int allowed = sched_getaffinity(0, sizeof mask, &mask) ? THREADS_MOST : CPU_COUNT(&mask);
    return threads <= allowed ? 1 << 14 : 0;
}

void pool_pin(pool *p, const int *cpu) {
    if (p->threads == 1) return;
    p->cpu = cpu[0];
    for (int i = 0; i < p->started; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu[i + 1], &one);
        pthread_setaffinity_np(p->workers[i].thread, sizeof one, &one); /* a wish: a refusal costs speed alone */
    }
}

static bool start(pool *p) {
    sigset_t all, old; /* signals stay with the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; p->started < p->threads - 1; p->started++) {
        worker *w = &p->workers[p->started];
        w->pool = p;
        w->id = p->started + 1;
        if (pthread_create(&w->thread, NULL, work, w)) break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p->started == p->threads - 1;
}

cadre_err pool_new(int threads, pool **out, cadre_fail *why) {
    if (threads < 1 || threads > THREADS_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "%d threads, expected 1..%d", threads, THREADS_MOST);
    pool *p = mem_new(sizeof *p);
    worker *workers = p ? mem_new_array((size_t)threads, sizeof *workers) : NULL;
    if (!workers) {
        mem_free(p);
        return cadre_fail_set(why, CADRE_NOMEM, "out of memory for %d threads", threads);
    }
    p->threads = p->meet.size = threads;
    p->workers = workers;
    p->cpu = -1;
    p->meet.spins = spins_of(threads);
    if (!start(p)) {
        int got = p->started;
        pool_free(p);
        return cadre_fail_set(why, CADRE_DEVICE, "only %d of %d threads could be started", got + 1, threads);
    }
    *out = p;
    return CADRE_OK;
}

void pool_free(pool *p) {
    if (!p) return;
    atomic_store(&p->quit, true);
    wake(p);
    for (int i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    mem_free(p->workers);
    mem_free(p);
}

int pool_threads(const pool *p) {
    return p->threads;
}
