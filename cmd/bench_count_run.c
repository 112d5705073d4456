/* bench_count_run.c: the cells of `cadre bench count` on the CPU's team or on a GPU.
 *
 *   GPU: graphs of LAUNCHES counts and of as many empty kernels, replayed, an event between any two
 *   CPU: LAUNCHES counts by the team, and as many runs of the team that do nothing, by the clock
 */
#include "bench_count.h"
#include <string.h>

enum { LAUNCHES = 48, BURST = 4 };

typedef struct runner runner;
struct runner {
    count_bench *b;
    cadre_fail *why;
    /* the CPU's */
    int32_t *counts, *own; /* [local], [threads][local] */
    const count_cell *cell;
    /* the GPU's */
    dev_cuda *gpu;
    void *stream, *events[BURST + 1], *ids, *valid, *dcounts;
};
typedef struct gpu_cell {
    moe_count *count;
    void *graph, *empty;
} gpu_cell;

static op_count count_of(const count_bench *b, const count_cell *c, int32_t *counts) {
    return (op_count){b->ids, &c->tokens, b->capacity, b->o->k, b->o->start, b->o->local, counts, 0};
}

/* ---- the CPU ---- */

static void share(void *ctx, team *t) {
    runner *r = ctx;
    const count_cell *c = r->cell;
    op_count a = count_of(r->b, c, r->counts);
    int32_t *own = r->own + (size_t)team_id(t) * (size_t)a.local;
    for (int cta = team_id(t); cta < c->ctas; cta += team_size(t))
        op_count_kernels[1].run(&a, &c->knobs, c->ctas, cta, own);
}
static void nothing(void *ctx, team *t) {
    (void)ctx, (void)t;
}

static cadre_err cpu_ready(runner *r) {
    size_t local = (size_t)r->b->o->local, threads = (size_t)cadre_device_threads(r->b->device);
    r->counts = mem_new_array(local * (threads + 1), sizeof *r->counts);
    if (!r->counts) return cadre_fail_set(r->why, CADRE_NOMEM, "out of memory for the counts");
    r->own = r->counts + local;
    return CADRE_OK;
}

static cadre_err cpu_once(runner *r, count_cell *c, int32_t *got) {
    size_t bytes = (size_t)r->b->o->local * sizeof *got;
    memset(r->counts, 0, bytes);
    r->cell = c;
    pool_run(r->b->device->threads, share, r);
    memcpy(got, r->counts, bytes);
    return CADRE_OK;
}

static double cpu_time(runner *r, void (*fn)(void *ctx, team *t)) {
    uint64_t start = clock_ns();
    for (int i = 0; i < LAUNCHES; i++) pool_run(r->b->device->threads, fn, r);
    return (double)(clock_ns() - start) / 1e3 / LAUNCHES;
}

static cadre_err cpu_visit(runner *r, count_cell *c, count_visit *v) {
    uint64_t least = (uint64_t)r->b->o->visit_ms * 1000000, start = clock_ns();
    r->cell = c;
    memset(r->counts, 0, (size_t)r->b->o->local * sizeof *r->counts);
    cpu_time(r, share); /* the team is awake, the ids where they will be */
    for (v->steps = 0; v->steps < COUNT_STEPS && (v->steps < 5 || clock_ns() - start < least); v->steps++) {
        v->us[v->steps] = cpu_time(r, share);
        v->empty[v->steps] = cpu_time(r, nothing);
    }
    return CADRE_OK;
}

/* ---- a GPU ---- */

static op_count count_there(const runner *r) {
    op_count a = count_of(r->b, &r->b->cells[0], r->dcounts);
    a.ids = r->ids, a.valid = r->valid;
    return a;
}

static cadre_err gpu_ready(runner *r) {
    size_t ids = (size_t)r->b->capacity * (size_t)r->b->o->k * sizeof *r->b->ids;
    r->gpu = r->b->device->gpu;
    cadre_err err = dev_cuda_stream_new(r->gpu, &r->stream, r->why);
    for (int i = 0; i <= BURST && !err; i++) err = dev_cuda_event_new(r->gpu, &r->events[i], r->why);
    if (!err) err = dev_cuda_alloc(r->gpu, ids, &r->ids, r->why);
    if (!err) err = dev_cuda_alloc(r->gpu, sizeof(int32_t), &r->valid, r->why);
    if (!err) err = dev_cuda_alloc(r->gpu, (size_t)r->b->o->local * sizeof(int32_t), &r->dcounts, r->why);
    return err ? err : dev_cuda_put(r->gpu, r->ids, r->b->ids, ids, r->why);
}

static cadre_err capture(runner *r, const gpu_cell *g, bool empty, void **graph) {
    cadre_fail inner = {0};
    op_count a = count_there(r);
    cadre_err err = dev_cuda_capture_begin(r->gpu, r->stream, r->why);
    if (err) return err;
    for (int i = 0; i < LAUNCHES && !err; i++)
        err = empty ? moe_count_empty(g->count, r->stream, r->why) : moe_count_enqueue(g->count, &a, r->stream, r->why);
    cadre_err end = dev_cuda_capture_end(r->gpu, r->stream, graph, err ? &inner : r->why);
    return err ? err : end;
}

static cadre_err gpu_cell_new(runner *r, count_cell *c) {
    gpu_cell *g = mem_new(sizeof *g);
    if (!g) return cadre_fail_set(r->why, CADRE_NOMEM, "out of memory for a cell");
    *g = (gpu_cell){0};
    c->of_device = g;
    cadre_err err = moe_count_new(r->gpu, &c->knobs, &g->count, r->why);
    if (!err) err = capture(r, g, false, &g->graph);
    return err ? err : capture(r, g, true, &g->empty);
}

static void gpu_cell_free(runner *r, count_cell *c) {
    gpu_cell *g = c->of_device;
    if (!g) return;
    dev_cuda_graph_free(r->gpu, g->graph), dev_cuda_graph_free(r->gpu, g->empty);
    moe_count_free(g->count);
    mem_free(g);
}

/* The number of tokens and zeroed counts, there when it returns. */
static cadre_err gpu_start(runner *r, const count_cell *c) {
    cadre_err err = dev_cuda_put(r->gpu, r->valid, &c->tokens, sizeof c->tokens, r->why);
    if (!err)
        err = dev_cuda_fill_async(r->gpu, r->dcounts, 0, (size_t)r->b->o->local * sizeof(int32_t), r->stream, r->why);
    return err ? err : dev_cuda_sync(r->gpu, r->stream, r->why);
}

static cadre_err gpu_once(runner *r, count_cell *c, int32_t *got) {
    op_count a = count_there(r);
    cadre_err err = gpu_cell_new(r, c);
    if (!err) err = gpu_start(r, c);
    if (!err) err = moe_count_enqueue(((gpu_cell *)c->of_device)->count, &a, r->stream, r->why);
    if (!err) err = dev_cuda_sync(r->gpu, r->stream, r->why);
    return err ? err : dev_cuda_get(r->gpu, got, r->dcounts, (size_t)a.local * sizeof *got, r->why);
}

/* A few at once, so that the GPU never waits for the host; the first is not counted. */
static cadre_err gpu_burst(runner *r, void *graph, double *us, double *spent_ms) {
    cadre_err err = dev_cuda_graph_launch(r->gpu, graph, r->stream, r->why);
    if (!err) err = dev_cuda_event_record(r->gpu, r->events[0], r->stream, r->why);
    for (int i = 0; i < BURST && !err; i++) {
        err = dev_cuda_graph_launch(r->gpu, graph, r->stream, r->why);
        if (!err) err = dev_cuda_event_record(r->gpu, r->events[i + 1], r->stream, r->why);
    }
    for (int i = 0; i < BURST && !err; i++) {
        double ms = 0;
        err = dev_cuda_event_ms(r->gpu, r->events[i], r->events[i + 1], &ms, r->why);
        us[i] = ms * 1e3 / LAUNCHES;
        *spent_ms += ms;
    }
    return err;
}

static cadre_err gpu_visit(runner *r, count_cell *c, count_visit *v) {
    const gpu_cell *g = c->of_device;
    double spent = 0;
    cadre_err err = gpu_start(r, c);
    for (v->steps = 0; v->steps <= COUNT_STEPS - BURST && !err; v->steps += BURST) {
        if (v->steps && spent >= r->b->o->visit_ms) break;
        err = gpu_burst(r, g->graph, v->us + v->steps, &spent);
        if (!err) err = gpu_burst(r, g->empty, v->empty + v->steps, &spent);
    }
    return err;
}

/* ---- all cells ---- */

/* Correct first: nothing is timed that counts otherwise than the meaning. */
static cadre_err hold(runner *r, count_cell *c, int32_t *want, int32_t *got) {
    char knobs[100];
    size_t local = (size_t)r->b->o->local;
    op_count a = count_of(r->b, c, want);
    memset(want, 0, local * sizeof *want);
    if (c->knobs.atomics != COUNT_NONE) op_count_kernels[0].run(&a, &c->knobs, 1, 0, NULL);
    cadre_err err = r->gpu ? gpu_once(r, c, got) : cpu_once(r, c, got);
    count_knobs_text(&c->knobs, knobs, sizeof knobs);
    for (size_t i = 0; i < local && !err; i++)
        if (got[i] != want[i])
            err = cadre_fail_set(r->why, CADRE_DEVICE, "%d tokens, %s: local expert %zu has %d, expected %d", c->tokens,
                                 knobs, i, got[i], want[i]);
    return err;
}

static cadre_err hold_all(runner *r) {
    count_bench *b = r->b;
    size_t local = (size_t)b->o->local;
    int32_t *both = mem_new_array(2 * local, sizeof *both);
    if (!both) return cadre_fail_set(r->why, CADRE_NOMEM, "out of memory for the counts");
    cadre_err err = CADRE_OK;
    for (int i = 0; i < b->count && !err; i++) {
        say_progress("cell %d of %d: compiled and checked", i + 1, b->count);
        err = hold(r, &b->cells[i], both, both + local);
    }
    mem_free(both);
    return err;
}

static cadre_err visit(runner *r, count_cell *c, int round, int order) {
    count_visit v = {.launches = LAUNCHES};
    double us[COUNT_STEPS], empty[COUNT_STEPS];
    cadre_err err = r->gpu ? gpu_visit(r, c, &v) : cpu_visit(r, c, &v);
    if (err) return err;
    memcpy(us, v.us, sizeof us), memcpy(empty, v.empty, sizeof empty);
    c->us[round] = stat_median(us, v.steps);
    c->empty[round] = stat_median(empty, v.steps);
    return count_bench_keep(r->b, c, round, order, &v, r->why);
}

static cadre_err visit_all(runner *r) {
    count_bench *b = r->b;
    cadre_err err = CADRE_OK;
    for (int round = 0; round < b->o->repeat && !err; round++)
        for (int i = 0; i < b->count && !err; i++) {
            int at = round % 2 ? b->count - 1 - i : i; /* up and down, so that no cell is always first */
            say_progress("visit %d of %d, cell %d of %d", round + 1, b->o->repeat, i + 1, b->count);
            err = visit(r, &b->cells[at], round, round * b->count + i);
        }
    return err;
}

static void runner_done(runner *r) {
    mem_free(r->counts);
    if (!r->gpu) return;
    for (int i = 0; i < r->b->count; i++) gpu_cell_free(r, &r->b->cells[i]);
    for (int i = 0; i <= BURST; i++) dev_cuda_event_free(r->gpu, r->events[i]);
    dev_cuda_free(r->gpu, r->ids), dev_cuda_free(r->gpu, r->valid), dev_cuda_free(r->gpu, r->dcounts);
    dev_cuda_stream_free(r->gpu, r->stream);
}

cadre_err count_bench_run(count_bench *b, cadre_fail *why) {
    runner r = {.b = b, .why = why};
    cadre_err err = b->device->gpu ? gpu_ready(&r) : cpu_ready(&r);
    if (!err) err = hold_all(&r);
    if (!err) err = visit_all(&r);
    say_progress_end();
    runner_done(&r);
    return err;
}
