/* pool: every member runs, barriers hold, splits cover, the mode of denormals, busy pools, sleep and wake. */
#include "base/base.h"
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MANY = 5, PHASES = 300, UNITS = 1000 };

typedef struct job {
    _Atomic int in_phase[PHASES];
    _Atomic int units[UNITS];
    _Atomic int wrong, members, nested;
    _Atomic int seen[MANY];
    pool *pool;
    volatile float tiny;
} job;

static job fresh(pool *p) {
    return (job){.pool = p, .tiny = FLT_MIN};
}

static pool *make(int threads) {
    pool *p = NULL;
    cadre_fail why = {0};
    assert_int_equal(pool_new(threads, &p, &why), CADRE_OK);
    assert_int_equal(pool_threads(p), threads);
    return p;
}

/* After a barrier everyone must see all arrivals of the phase before it. */
static void phases(void *ctx, team *t) {
    job *j = ctx;
    j->seen[team_id(t)]++;
    for (int i = 0; i < PHASES; i++) {
        j->in_phase[i]++;
        team_barrier(t);
        if (j->in_phase[i] != team_size(t)) j->wrong++;
    }
}

static void barriers(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, MANY};
    for (int s = 0; s < 3; s++) {
        pool *p = make(sizes[s]);
        for (int run = 0; run < 3; run++) {
            job j = fresh(p);
            pool_run(p, phases, &j);
            assert_int_equal(j.wrong, 0);
            for (int i = 0; i < MANY; i++) assert_int_equal(j.seen[i], i < sizes[s]);
        }
        pool_free(p);
    }
}

static void take_all(void *ctx, team *t) {
    job *j = ctx;
    static const int grains[] = {1, 7, 64, 5000};
    for (int phase = 0; phase < 40; phase++) {
        int lo, hi, grain = grains[phase % 4];
        while (team_take(t, UNITS, grain, &lo, &hi)) {
            if (lo % grain || hi - lo > grain || hi > UNITS) j->wrong++;
            for (int i = lo; i < hi; i++) j->units[i]++;
        }
        team_barrier(t);
        /* as many visits as phases, no unit twice or never */
        for (int i = team_id(t); i < UNITS; i += team_size(t))
            if (j->units[i] != phase + 1) j->wrong++;
        team_barrier(t);
    }
}

/* Every unit once, nothing announced. */
static void walk_silent(void *ctx, team *t) {
    job *j = ctx;
    for (team_walk w = team_walk_start(t, UNITS, 7); team_walk_on(t, &w);) {
        if (w.next != UNITS) j->wrong++;
        for (int i = w.lo; i < w.hi; i++) j->units[i]++;
    }
    team_barrier(t);
    for (int i = team_id(t); i < UNITS; i += team_size(t))
        if (j->units[i] != 1) j->wrong++;
}

/* Every unit once, and each piece is the one that was announced before it. */
static void walk_all(void *ctx, team *t) {
    job *j = ctx;
    static const int grains[] = {1, 7, 64, 5000};
    for (int phase = 0; phase < 40; phase++) {
        int grain = grains[phase % 4], announced = -1;
        for (team_walk w = team_walk_start(t, UNITS, grain); team_walk_on(t, &w); announced = w.next) {
            if (w.lo % grain || w.hi - w.lo > grain || w.hi > UNITS) j->wrong++;
            if (announced >= 0 && w.lo != announced) j->wrong++;
            for (int i = w.lo; i < w.hi; i++) j->units[i]++;
        }
        if (announced >= 0 && announced != UNITS) j->wrong++;
        team_barrier(t);
        for (int i = team_id(t); i < UNITS; i += team_size(t))
            if (j->units[i] != phase + 1) j->wrong++;
        team_barrier(t);
    }
}

static void taking(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, MANY};
    for (int s = 0; s < 3; s++) {
        pool *p = make(sizes[s]);
        for (int run = 0; run < 3; run++) {
            job j = fresh(p), k = fresh(p);
            pool_run(p, take_all, &j);
            assert_int_equal(j.wrong, 0);
            pool_run(p, walk_all, &k);
            assert_int_equal(k.wrong, 0);
            switch_set(SWITCH_AHEAD, 0);
            k = fresh(p);
            pool_run(p, walk_silent, &k);
            assert_int_equal(k.wrong, 0);
            switch_set(SWITCH_AHEAD, 1);
        }
        pool_free(p);
    }
}

static void split(void *ctx, team *t) {
    job *j = ctx;
    static const int grains[] = {1, 3, 16, 999, 1000, 4000};
    for (int g = 0; g < 6; g++) {
        for (int units = 0; units <= UNITS; units += 37) {
            int lo, hi;
            team_split(t, units, grains[g], &lo, &hi);
            if (lo > hi || hi > units || (lo < units && lo % grains[g])) j->wrong++;
            for (int i = lo; i < hi; i++) j->units[i]++;
            team_barrier(t);
            for (int i = team_id(t); i < UNITS; i += team_size(t)) {
                if (j->units[i] != (i < units)) j->wrong++;
                j->units[i] = 0;
            }
            team_barrier(t);
        }
    }
}

static void splitting(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, MANY};
    for (int s = 0; s < 3; s++) {
        pool *p = make(sizes[s]);
        job j = fresh(p);
        pool_run(p, split, &j);
        assert_int_equal(j.wrong, 0);
        /* the planted fault must be seen by this very check, and only in a team */
        switch_set(SWITCH_PLANT, FAULT_SPLIT);
        pool_run(p, split, &j);
        assert_int_equal(j.wrong > 0, sizes[s] > 1);
        switch_set(SWITCH_PLANT, FAULT_NONE);
        pool_free(p);
    }
}

static void tiny(void *ctx, team *t) {
    job *j = ctx;
    volatile float half = j->tiny * 0.5f; /* FTZ: the result is a denormal */
    if (half != 0) j->wrong++;
    uint32_t bits = 1;
    float denormal;
    memcpy(&denormal, &bits, sizeof bits);
    volatile float in = denormal;
    if (in * 0x1p100f != 0) j->wrong++; /* DAZ: the input is one */
    j->members++;
    if (team_id(t) == 0) j->seen[0]++;
}

static void denormals(void **state) {
    (void)state;
    pool *p = make(3);
    job j = fresh(p);
    volatile float half = j.tiny * 0.5f;
    assert_true(half != 0);
    pool_run(p, tiny, &j);
    assert_int_equal(j.wrong, 0);
    assert_int_equal(j.members, 3);
    half = j.tiny * 0.5f;
    assert_true(half != 0);
    pool_free(p);
}

static void inner(void *ctx, team *t) {
    job *j = ctx;
    j->nested += team_size(t) == 1 && team_id(t) == 0 ? 1 : 100;
}

static void outer(void *ctx, team *t) {
    job *j = ctx;
    pool_run(j->pool, inner, j);
    volatile float half = j->tiny * 0.5f; /* the inner run has put back what it found: still flushed */
    if (half != 0) j->wrong++;
    team_barrier(t);
}

/* A run inside a run, and runs from two threads at once, go on alone. */
static void nested(void **state) {
    (void)state;
    pool *p = make(3);
    job j = fresh(p);
    pool_run(p, outer, &j);
    assert_int_equal(j.nested, 3);
    assert_int_equal(j.wrong, 0);
    pool_free(p);
}

static void count(void *ctx, team *t) {
    job *j = ctx;
    int lo, hi;
    team_split(t, UNITS, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) j->units[i]++;
    team_barrier(t);
    for (int i = 0; i < UNITS; i++)
        if (j->units[i] != 1) j->wrong++;
}

static void *caller(void *arg) {
    pool *p = arg;
    intptr_t wrong = 0;
    for (int i = 0; i < 200; i++) {
        job j = fresh(p);
        pool_run(p, count, &j);
        wrong += j.wrong;
    }
    return (void *)wrong;
}

static void two_callers(void **state) {
    (void)state;
    pool *p = make(2);
    pthread_t other;
    void *wrong;
    assert_int_equal(pthread_create(&other, NULL, caller, p), 0);
    assert_null(caller(p));
    pthread_join(other, &wrong);
    assert_null(wrong);
    pool_free(p);
}

static void sleeping(void **state) {
    (void)state;
    static const long spins[] = {0, 100};
    for (int s = 0; s < 2; s++) {
        switch_set(SWITCH_SPIN, spins[s]);
        pool *p = make(2);
        for (int i = 0; i < 30; i++) {
            job j = fresh(p);
            pool_run(p, count, &j);
            assert_int_equal(j.wrong, 0);
            nanosleep(&(struct timespec){0, i % 3 * 200000}, NULL);
        }
        pool_free(p);
    }
    switch_set(SWITCH_SPIN, 2000);
}

/* The program's own thread keeps its mask. */
static void masks(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    pool *p = make(CPU_COUNT(&before) < MANY ? CPU_COUNT(&before) : MANY);
    job j = fresh(p);
    pool_run(p, count, &j);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    pool_free(p);
}

static void refusals(void **state) {
    (void)state;
    pool *p = NULL;
    cadre_fail why;
    assert_int_equal(pool_new(0, &p, &why), CADRE_RANGE);
    assert_string_equal(why.text, "0 threads, expected 1..1024");
    assert_int_equal(pool_new(100000, &p, &why), CADRE_RANGE);
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(pool_new(2, &p, &why), CADRE_NOMEM);
        mem_fail_after(-1);
    }
    assert_null(p);
    pool_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers),  cmocka_unit_test(taking),   cmocka_unit_test(splitting),
        cmocka_unit_test(denormals), cmocka_unit_test(nested),   cmocka_unit_test(sleeping),
        cmocka_unit_test(masks),     cmocka_unit_test(refusals), cmocka_unit_test(two_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
