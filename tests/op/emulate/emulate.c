/* emulate.c: fibers, their turns, and what they wait for. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to leave for another stack */
#include "emulate.h"
#include "base/base.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#    define SANITIZED 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define SANITIZED 1
#    endif
#endif
#ifdef SANITIZED
#    include <sanitizer/common_interface_defs.h>
#endif

enum {
    LANES = 32,
    BARRIERS = 16,
    COPIES = 256,      /* of a thread, on their way */
    STACK = 64 * 1024, /* of a fiber */
    PATIENCE = 1000,   /* turns of everyone in which nobody got on */
    ALIGN = 1024,      /* of shared memory */
};

typedef struct copy {
    unsigned char *to;
    const void *from;
    long group;
} copy;

typedef struct fiber {
    jmp_buf at;
    ucontext_t start;
    bool started, ended;
    int block, thread;
    struct warp *warp;   /* NULL: the launch before */
    const char *waits;   /* for what */
    unsigned met;        /* collectives so far */
    int first, count;    /* of the copies on their way */
    long groups;         /* that were ended */
    void *fake;          /* the sanitizer's */
    copy copies[COPIES]; /* from here on left as it was by the launch before */
    _Alignas(64) unsigned char stack[STACK];
} fiber;

typedef struct warp {
    fiber *lanes; /* [LANES] */
    int arrived[2];
    const char *what[2]; /* which collective */
    _Alignas(16) unsigned char items[2][LANES * EMULATE_ITEM];
} warp;

typedef struct barrier {
    int arrived, expected;
    unsigned turns;
} barrier;

static const emulate_launch *launch;
static fiber *fibers, *self; /* one per thread, the launch before behind them */
static warp *warps;
static barrier (*barriers)[BARRIERS];
static unsigned char *memory;
static size_t memory_stride;
static long steps; /* of anybody: while it grows, someone gets on */
static bool copies_at_once;
static char trouble[200];
static jmp_buf home;
static rand_stream draws;
static int late; /* a block that has its turn only when nobody else gets on; behind the last: the launch before */

emulate_dim threadIdx, blockIdx, blockDim, gridDim;
unsigned char *emulate_memory[1];

/* ---- from fiber to fiber ---- */

#ifdef SANITIZED
static const void *home_stack;
static size_t home_size;
static void *home_fake;
static void leave_home(fiber *f) {
    __sanitizer_start_switch_fiber(&home_fake, f->stack, STACK);
}
static void enter_home(void) {
    __sanitizer_finish_switch_fiber(home_fake, NULL, NULL);
}
static void leave_fiber(fiber *f) {
    __sanitizer_start_switch_fiber(f->ended ? NULL : &f->fake, home_stack, home_size);
}
static void enter_fiber(fiber *f) {
    __sanitizer_finish_switch_fiber(f->fake, &home_stack, &home_size);
}
#else
static void leave_home(fiber *f) {
    (void)f;
}
static void enter_home(void) {}
static void leave_fiber(fiber *f) {
    (void)f;
}
static void enter_fiber(fiber *f) {
    (void)f;
}
#endif

static _Noreturn void go_home(void) {
    leave_fiber(self);
    _longjmp(home, 1);
}

static _Noreturn void fail(const char *what) {
    snprintf(trouble, sizeof trouble, "block %d, thread %d: %s", self->block, self->thread, what);
    self->ended = true;
    go_home();
}

static void body(void) {
    enter_fiber(self);
    if (self->warp)
        launch->text(launch->args);
    else if (launch->before)
        launch->before(launch->before_args);
    if (self->count) fail("a copy was on its way at the end");
    self->ended = true;
    steps++;
    go_home();
}

/* Until it waits. */
static void resume(fiber *f) {
    self = f;
    threadIdx.x = (unsigned)f->thread, blockIdx.x = (unsigned)f->block;
    emulate_memory[0] = memory + (size_t)f->block * memory_stride;
    leave_home(f);
    if (!_setjmp(home)) {
        if (f->started) _longjmp(f->at, 1);
        f->started = true;
        setcontext(&f->start);
    }
    enter_home();
}

void emulate_wait(const char *why) {
    fiber *f = self;
    f->waits = why;
    if (_setjmp(f->at)) {
        enter_fiber(self);
        return;
    }
    go_home();
}

void emulate_told(void) {
    steps++;
}

/* ---- what threads wait for ---- */

const unsigned char *emulate_meet(const char *what, const void *item, size_t bytes) {
    fiber *f = self;
    warp *w = f->warp;
    unsigned turn = f->met++;
    int side = (int)(turn & 1);
    if (w->arrived[side] == LANES) w->arrived[side] = 0; /* of two meetings ago: all have left it */
    if (w->arrived[side] == 0)
        w->what[side] = what;
    else if (strcmp(w->what[side], what))
        fail("lanes of a warp meet in different collectives");
    if (bytes) memcpy(w->items[side] + (f->thread % LANES) * EMULATE_ITEM, item, bytes);
    w->arrived[side]++;
    while (w->arrived[side] < LANES) emulate_wait(what);
    steps++;
    return w->items[side];
}

static void arrive(barrier *b, int threads) {
    if (b->arrived && b->expected != threads) fail("one barrier, and threads that disagree on how many it is for");
    b->expected = threads;
    steps++;
    if (++b->arrived == threads) b->arrived = 0, b->turns++;
}
void emulate_arrive(int id, int threads) {
    arrive(&barriers[self->block][id], threads);
}
void emulate_sync(int id, int threads) {
    barrier *b = &barriers[self->block][id];
    unsigned turns = b->turns;
    arrive(b, threads);
    while (b->turns == turns) emulate_wait(id ? "the warps of a barrier" : "its block");
}

void emulate_wait_before(void) {
    const fiber *before = &fibers[launch->blocks * launch->threads];
    while (!before->ended) emulate_wait("the launch before");
}

/* ---- shared memory, and copies to it ---- */

unsigned char *emulate_shared(uint32_t address) {
    if (address % 16 || address + 16 > (uint32_t)launch->shared) fail("outside shared memory, or on no 16 bytes");
    return emulate_memory[0] + address;
}

static void land(fiber *f) {
    copy *c = &f->copies[f->first];
    memcpy(c->to, c->from, 16);
    f->first = (f->first + 1) % COPIES, f->count--;
}
void emulate_copy16(uint32_t to, const void *from) {
    fiber *f = self;
    if (f->count == COPIES) fail("more copies on their way than there is room for");
    if ((uintptr_t)from % 16) fail("a copy from no 16 bytes");
    copy *c = &f->copies[(f->first + f->count++) % COPIES];
    *c = (copy){emulate_shared(to), from, f->groups};
    memset(c->to, 0xff, 16);
    if (copies_at_once) land(f);
}
void emulate_copies_end(void) {
    self->groups++;
}
void emulate_copies_wait(int left) {
    fiber *f = self;
    while (f->count && f->copies[f->first].group < f->groups - left) land(f);
}

/* ---- turns ---- */

static void turn_of(warp *w) {
    int rounds = 1 << rand_below(&draws, 7), last = rand_below(&draws, 2) ? LANES - 1 : 0;
    for (int r = 0; r < rounds && !*trouble; r++) {
        long before = steps;
        for (int i = 0; i < LANES && !*trouble; i++)
            if (!w->lanes[i ^ last].ended) resume(&w->lanes[i ^ last]);
        if (steps == before) return;
    }
}

/* Of everyone, in a new order; some are passed over. idle: nobody got on in the last one. */
static void turn_of_all(int *order, int count, bool idle) {
    enum { PASSED = 4 };
    fiber *before = &fibers[launch->blocks * launch->threads];
    for (int i = count - 1; i > 0; i--) {
        int j = (int)rand_below(&draws, (uint32_t)i + 1), was = order[i];
        order[i] = order[j], order[j] = was;
    }
    for (int i = 0; i < count && !*trouble; i++)
        if (rand_below(&draws, PASSED) && (idle || warps[order[i]].lanes->block != late)) turn_of(&warps[order[i]]);
    if (!before->ended && !*trouble && (idle || late < launch->blocks)) resume(before);
}

/* The first that has not ended; NULL: all have. */
static const fiber *waiting(void) {
    for (int i = 0; i <= launch->blocks * launch->threads; i++)
        if (!fibers[i].ended) return &fibers[i];
    return NULL;
}

/* Barriers that some threads of a block reached, and others never will. */
static void check_barriers(void) {
    for (int i = 0; i < launch->blocks * BARRIERS && !*trouble; i++)
        if (barriers[i / BARRIERS][i % BARRIERS].arrived)
            snprintf(trouble, sizeof trouble, "block %d: too few threads came to barrier %d", i / BARRIERS,
                     i % BARRIERS);
}

static void run(void) {
    int count = launch->blocks * launch->threads / LANES, idle = 0;
    int *order = mem_new_array((size_t)count, sizeof *order);
    for (int i = 0; i < count; i++) order[i] = i;
    for (const fiber *f; (f = waiting()) && !*trouble;) {
        long before = steps;
        turn_of_all(order, count, idle > 0);
        idle = steps == before ? idle + 1 : 0;
        if (idle > PATIENCE)
            snprintf(trouble, sizeof trouble, "block %d, thread %d waits for ever: for %s", f->block, f->thread,
                     f->waits);
    }
    mem_free(order);
}

/* ---- a launch ---- */

static void make_fiber(fiber *f, int i) {
    int threads = launch->blocks * launch->threads;
    memset(f, 0, offsetof(fiber, copies));
    f->waits = "nothing yet";
    if (i < threads) f->warp = &warps[i / LANES], f->block = i / launch->threads, f->thread = i % launch->threads;
    getcontext(&f->start);
    f->start.uc_stack.ss_sp = f->stack;
    f->start.uc_stack.ss_size = STACK;
    makecontext(&f->start, body, 0);
}

/* Kept for the next launch. */
static bool take_fibers(int count) {
    static int have;
    if (count <= have) return true;
    if (have) munmap(fibers, (size_t)have * sizeof *fibers);
    fibers = mmap(NULL, (size_t)count * sizeof *fibers, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    have = fibers == MAP_FAILED ? 0 : count;
    return have > 0;
}

static bool make_all(int count) {
    size_t blocks = (size_t)launch->blocks;
    memory_stride = ((size_t)launch->shared + ALIGN - 1) / ALIGN * ALIGN;
    memory = aligned_alloc(ALIGN, blocks * memory_stride);
    warps = mem_new_array((size_t)count / LANES, sizeof *warps);
    barriers = mem_new_array(blocks, sizeof *barriers);
    bool room = take_fibers(count);
    if (!memory || !warps || !barriers || !room) return false;
    memset(memory, 0xff, blocks * memory_stride);
    for (int i = 0; i < count / LANES; i++) warps[i].lanes = &fibers[i * LANES];
    for (int i = 0; i < count; i++) make_fiber(&fibers[i], i);
    return true;
}

const char *emulate(const emulate_launch *l) {
    int count = l->blocks * l->threads + 1;
    launch = l;
    blockDim = (emulate_dim){(unsigned)l->threads, 1, 1}, gridDim = (emulate_dim){(unsigned)l->blocks, 1, 1};
    draws = (rand_stream){.key = l->seed};
    late = (int)rand_below(&draws, (uint32_t)l->blocks + 1);
    copies_at_once = l->at_once;
    *trouble = 0;
    if (!make_all(count)) return "no memory for so many threads";
    run();
    check_barriers();
    mem_free(barriers), mem_free(warps);
    free(memory);
    return *trouble ? trouble : NULL;
}
