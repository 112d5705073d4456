/* cuda_measure.c: how fast this GPU reads its memory, and what a launch costs. As for the CPU, each figure is the best
 * of several passes of several kernels: a ceiling that a kernel can beat is none. */
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"
#include "dev/probe.h"

enum { THREADS = 512, SHAPES = 2, MOST_RESIDENT = 4, NODES = 200 };

typedef struct probing {
    dev_cuda *gpu;
    dev_cuda_module *module;
    dev_cuda_kernel fill, read[SHAPES], nothing;
    void *stream, *from, *to; /* events */
    void *words, *seen, *graph;
    uint64_t count; /* 16-byte words */
    int repeats;
    cadre_fail *why;
} probing;

/* ---- ready ---- */

static cadre_err kernels(probing *p) {
    static const char *const names[SHAPES] = {"read4", "read8"};
    dev_cuda_source source = PROBE_SOURCE;
    cadre_err err = dev_cuda_module_new(p->gpu, &source, NULL, 0, &p->module, p->why);
    for (int i = 0; i < SHAPES && !err; i++)
        err = dev_cuda_kernel_get(p->gpu, p->module, names[i], 0, &p->read[i], p->why);
    if (!err) err = dev_cuda_kernel_get(p->gpu, p->module, "fill", 0, &p->fill, p->why);
    if (!err) err = dev_cuda_kernel_get(p->gpu, p->module, "nothing", 0, &p->nothing, p->why);
    return err;
}

/* 32 x L2, so that almost nothing is found there; at most half of what is free, and 8 x L2 at least. */
static cadre_err memory(probing *p) {
    enum { TILE = 8 * THREADS * 16 };
    size_t has = 0, all, l2 = p->gpu->traits.l2 ? p->gpu->traits.l2 : 32 << 20, bytes = 32 * l2;
    cadre_err err = dev_cuda_memory(p->gpu, &has, &all, p->why);
    if (!err && bytes > has / 2) bytes = has / 2;
    if (!err && bytes < 8 * l2)
        return cadre_fail_set(p->why, CADRE_NOMEM, "%zu bytes of GPU memory are free, %zu are needed to measure", has,
                              16 * l2);
    bytes = bytes / TILE * TILE;
    p->count = bytes / 16;
    if (!err) err = dev_cuda_alloc(p->gpu, bytes, &p->words, p->why);
    size_t warps = (size_t)p->gpu->traits.sms * MOST_RESIDENT * (THREADS / 32);
    if (!err) err = dev_cuda_alloc(p->gpu, warps * 4, &p->seen, p->why);
    return err;
}

static cadre_err ready(probing *p) {
    cadre_err err = kernels(p);
    if (!err) err = dev_cuda_stream_new(p->gpu, &p->stream, p->why);
    if (!err) err = dev_cuda_event_new(p->gpu, &p->from, p->why);
    if (!err) err = dev_cuda_event_new(p->gpu, &p->to, p->why);
    return err ? err : memory(p);
}

static void done(probing *p) {
    dev_cuda_free(p->gpu, p->words);
    dev_cuda_free(p->gpu, p->seen);
    dev_cuda_graph_free(p->gpu, p->graph);
    dev_cuda_event_free(p->gpu, p->from);
    dev_cuda_event_free(p->gpu, p->to);
    dev_cuda_stream_free(p->gpu, p->stream);
    dev_cuda_module_free(p->gpu, p->module);
}

/* ---- reading ---- */

static cadre_err launch_words(probing *p, const dev_cuda_kernel *kernel, int resident) {
    void *args[] = {&p->words, &p->count, &p->seen};
    dev_cuda_launch l = {.kernel = kernel,
                         .grid = {(unsigned)(p->gpu->traits.sms * resident)},
                         .block = {THREADS},
                         .stream = p->stream,
                         .args = args};
    return dev_cuda_run(p->gpu, &l, p->why);
}

static cadre_err time_read(probing *p, const dev_cuda_kernel *kernel, int resident, double *ms) {
    cadre_err err = dev_cuda_event_record(p->gpu, p->from, p->stream, p->why);
    if (!err) err = launch_words(p, kernel, resident);
    if (!err) err = dev_cuda_event_record(p->gpu, p->to, p->stream, p->why);
    return err ? err : dev_cuda_event_ms(p->gpu, p->from, p->to, ms, p->why);
}

static cadre_err read_memory(probing *p, double *gbps) {
    cadre_err err = launch_words(p, &p->fill, MOST_RESIDENT);
    double ms, best = 0;
    for (int i = 0; i < SHAPES * MOST_RESIDENT * (p->repeats + 1) && !err; i++) {
        int shape = i % SHAPES, resident = 1 + i / SHAPES % MOST_RESIDENT;
        err = time_read(p, &p->read[shape], resident, &ms);
        bool warm = i >= SHAPES * MOST_RESIDENT; /* the first of each loads its code */
        if (!err && warm && ms > 0 && (best == 0 || ms < best)) best = ms;
    }
    if (!err) *gbps = best > 0 ? (double)p->count * 16 / (best * 1e6) : 0;
    return err;
}

/* ---- launching ---- */

static cadre_err launch_nothing(probing *p, int times) {
    dev_cuda_launch l = {.kernel = &p->nothing, .block = {32}, .stream = p->stream};
    cadre_err err = CADRE_OK;
    for (int i = 0; i < times && !err; i++) err = dev_cuda_run(p->gpu, &l, p->why);
    return err;
}

static cadre_err capture(probing *p, int nodes) {
    cadre_fail inner = {0};
    dev_cuda_graph_free(p->gpu, p->graph);
    p->graph = NULL;
    cadre_err err = dev_cuda_capture_begin(p->gpu, p->stream, p->why);
    if (err) return err;
    err = launch_nothing(p, nodes);
    cadre_err end = dev_cuda_capture_end(p->gpu, p->stream, &p->graph, err ? &inner : p->why);
    return err ? err : end;
}

typedef cadre_err work(probing *p);
static cadre_err launch_many(probing *p) {
    return launch_nothing(p, NODES);
}
static cadre_err launch_graph(probing *p) {
    return dev_cuda_graph_launch(p->gpu, p->graph, p->stream, p->why);
}

/* Microseconds from the first call to the end of what it started, by the host's clock; a first time is not counted. */
static cadre_err time_work(probing *p, work *w, double *us) {
    cadre_err err = CADRE_OK;
    double best = 0;
    for (int i = 0; i <= p->repeats && !err; i++) {
        uint64_t start = clock_ns();
        err = w(p);
        if (!err) err = dev_cuda_sync(p->gpu, p->stream, p->why);
        double took = (double)(clock_ns() - start) / 1e3;
        if (i && (best == 0 || took < best)) best = took;
    }
    if (!err) *us = best;
    return err;
}

static cadre_err launches(probing *p, dev_cuda_ceiling *c) {
    cadre_err err = time_work(p, launch_many, &c->launch_us);
    if (!err) err = capture(p, NODES);
    if (!err) err = time_work(p, launch_graph, &c->graph_us);
    if (!err) err = capture(p, 1);
    if (!err) err = time_work(p, launch_graph, &c->replay_us);
    c->launch_us /= NODES;
    c->graph_us /= NODES;
    return err;
}

cadre_err dev_cuda_measure(dev_cuda *gpu, int repeats, dev_cuda_ceiling *out, cadre_fail *why) {
    probing p = {.gpu = gpu, .repeats = repeats < 1 ? 1 : repeats, .why = why};
    dev_cuda_ceiling c = {0};
    cadre_err err = ready(&p);
    if (!err) err = read_memory(&p, &c.read_gbps);
    if (!err) err = launches(&p, &c);
    done(&p);
    if (!err) *out = c;
    return err;
}
