/* bench_moe_gpu.c: `cadre bench moe` on a GPU: router and experts of many layers in one graph per m.
 *
 *   graph of an m:  layer 0, 1, .. count-1, 0, 1, ..   each instance with a routing of its own
 *   a round:        probe | visits of all m, up or down | probe
 *   a visit:        one replay that is not counted, then replays back to back, an event between any two
 *
 * Given routings go through the router: it computes all it always does, and takes the ids as its choice.
 */
#include "bench_moe.h"
#include "dev/cuda.h"
#include "moe/moe.h"
#include "op/op.h"
#include <stdio.h>
#include <string.h>

enum { BURST = 8, REPLAYS_MOST = 64, WATCHED = 4, RECEIPTS = 64, PROBES = 3 };

typedef struct gpu_row {
    int instances, steps;
    double step_us[REPLAYS_MOST];
    void *graph;
    int32_t *ids;        /* device, as in the plan; NULL: the router's own */
    attribution watched; /* of this round */
} gpu_row;

typedef struct gpu_bench {
    moe_bench *b;
    dev_cuda *gpu;
    void *stream, *events[BURST + 1];
    void *x, *out; /* device, bf16 [max_tokens][d] */
    gpu_row rows[MOE_ROWS];
    cadre_fail *why;
} gpu_bench;

/* ---- what runs ---- */

static void take_receipt(moe_row *r, const cadre_receipt *c) {
    size_t used = strlen(r->config);
    snprintf(r->config + used, sizeof r->config - used, "%s%s: %s", used ? "; " : "", c->op, c->config);
    if (!r->source || !strcmp(c->source, "override")) r->source = c->source;
}

static cadre_err name_configs(gpu_bench *g) {
    moe_bench *b = g->b;
    cadre_receipt *all = mem_new_array(RECEIPTS, sizeof *all);
    if (!all) return cadre_fail_set(g->why, CADRE_NOMEM, "out of memory for receipts");
    int n = moe_receipts(b->layers.moe[0], all, RECEIPTS);
    for (int i = 0; i < b->count; i++)
        for (int k = 0; k < n && k < RECEIPTS; k++)
            if (b->rows[i].plan.m >= all[k].n_lo && b->rows[i].plan.m <= all[k].n_hi)
                take_receipt(&b->rows[i], &all[k]);
    mem_free(all);
    return CADRE_OK;
}

static void put_plan(json_out *o, const moe_bench *b, const moe_row *r) {
    const dev_cuda_traits *t = dev_cuda_about(b->device->gpu);
    const cadre_moe_desc *d = &b->shape.desc;
    json_open(o, "plan", '{');
    json_put_text(o, "op", "moe");
    json_put_text(o, "kernel", b->kernel);
    json_put_text(o, "dtype", op_dtype_name(d->dtype));
    json_put_int(o, "d", d->d);
    json_put_int(o, "f", d->f);
    json_put_int(o, "e", d->e);
    json_put_int(o, "k", d->k);
    json_put_text(o, "act", op_act_name(d->act));
    json_put_text(o, "gpu", t->name);
    json_put_text(o, "arch", t->arch);
    json_put_int(o, "driver", t->driver);
    json_put_text(o, "source", r->source);
    json_put_text(o, "config", r->config);
    json_close(o, '}');
}

/* ---- graphs ---- */

/* Whole rounds over the layers: at small m a launch is a large part of an instance, so that there are many. */
static int rounds_for(const moe_bench *b, int m) {
    int want = m <= 64 ? 48 : m <= 256 ? 16 : 8;
    return (want + b->layers.count - 1) / b->layers.count;
}

static cadre_err put_ids(gpu_bench *g, gpu_row *gr, const layer_plan *p) {
    size_t count = layers_ids_at(&g->b->layers, p, LAYER_SETS, 0);
    void *at = NULL;
    if (p->own) return CADRE_OK;
    cadre_err err = dev_cuda_alloc(g->gpu, count * sizeof(int32_t), &at, g->why);
    gr->ids = at;
    return err ? err : dev_cuda_put(g->gpu, at, p->ids, count * sizeof(int32_t), g->why);
}

static cadre_err queue(gpu_bench *g, const gpu_row *gr, const layer_plan *p, int set, int layer) {
    layers *l = &g->b->layers;
    const int32_t *ids = gr->ids ? gr->ids + layers_ids_at(l, p, set, layer) : NULL;
    return moe_enqueue_forced(l->moe[layer], l->scratch[layer], g->stream, p->m, g->x, CADRE_BF16, ids, g->out,
                              CADRE_BF16, g->why);
}

static cadre_err queue_all(gpu_bench *g, const gpu_row *gr, const layer_plan *p) {
    int count = g->b->layers.count;
    cadre_err err = CADRE_OK;
    for (int i = 0; i < gr->instances && !err; i++) err = queue(g, gr, p, i / count % LAYER_SETS, i % count);
    return err;
}

/* Of every layer's output, as on the CPU but rounded to bf16. */
static cadre_err hash_outputs(gpu_bench *g, const gpu_row *gr, moe_row *r) {
    size_t bytes = (size_t)r->plan.m * (size_t)g->b->layers.desc.d * sizeof(uint16_t);
    void *host = mem_new(bytes);
    cadre_err err = host ? CADRE_OK : cadre_fail_set(g->why, CADRE_NOMEM, "out of memory for outputs");
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < g->b->layers.count && !err; i++) {
        err = queue(g, gr, &r->plan, 0, i);
        if (!err) err = dev_cuda_sync(g->gpu, g->stream, g->why);
        if (!err) err = dev_cuda_get(g->gpu, host, g->out, bytes, g->why);
        if (!err) sha256_add(&s, host, bytes);
    }
    if (!err) sha256_hex(&s, r->sha);
    mem_free(host);
    return err;
}

static cadre_err capture(gpu_bench *g, const gpu_row *gr, const layer_plan *p, void **graph) {
    cadre_fail inner = {0};
    cadre_err err = dev_cuda_capture_begin(g->gpu, g->stream, g->why);
    if (err) return err;
    err = queue_all(g, gr, p);
    cadre_err end = dev_cuda_capture_end(g->gpu, g->stream, graph, err ? &inner : g->why);
    return err ? err : end;
}

static cadre_err make_graph(gpu_bench *g, gpu_row *gr, moe_row *r) {
    int rounds = rounds_for(g->b, r->plan.m);
    gr->instances = rounds * g->b->layers.count;
    r->touched = 0;
    for (int i = 0; i < rounds; i++) r->touched += r->plan.touched[i % LAYER_SETS] / rounds;
    cadre_err err = put_ids(g, gr, &r->plan);
    return err ? err : capture(g, gr, &r->plan, &gr->graph);
}

/* ---- measuring ---- */

static cadre_err replay(gpu_bench *g, const gpu_row *gr) {
    return dev_cuda_graph_launch(g->gpu, gr->graph, g->stream, g->why);
}

/* Several at once, so that the GPU never waits for the host. */
static cadre_err burst(gpu_bench *g, gpu_row *gr, double *spent_ms) {
    double ms = 0;
    cadre_err err = dev_cuda_event_record(g->gpu, g->events[0], g->stream, g->why);
    for (int i = 0; i < BURST && !err; i++) {
        err = replay(g, gr);
        if (!err) err = dev_cuda_event_record(g->gpu, g->events[i + 1], g->stream, g->why);
    }
    for (int i = 0; i < BURST && !err; i++) {
        err = dev_cuda_event_ms(g->gpu, g->events[i], g->events[i + 1], &ms, g->why);
        if (err) break;
        *spent_ms += ms;
        gr->step_us[gr->steps++] = ms * 1e3 / gr->instances;
    }
    return err;
}

/* ---- watching: a graph with events between its launches, which then do not overlap ---- */

/* The time of the second of two replays: the GPU does not wait for the host in it. */
static cadre_err watched_replay(gpu_bench *g, void *graph, double *us) {
    double ms = 0;
    cadre_err err = dev_cuda_graph_launch(g->gpu, graph, g->stream, g->why);
    if (!err) err = dev_cuda_event_record(g->gpu, g->events[0], g->stream, g->why);
    if (!err) err = dev_cuda_graph_launch(g->gpu, graph, g->stream, g->why);
    if (!err) err = dev_cuda_event_record(g->gpu, g->events[1], g->stream, g->why);
    if (!err) err = dev_cuda_event_ms(g->gpu, g->events[0], g->events[1], &ms, g->why);
    *us = ms * 1e3;
    return err ? err : cadre_profile_collect(g->b->profile, g->why);
}

/* How many experts have rows is known here alone. */
static void add_bytes(const moe_bench *b, attribution *a, double touched) {
    for (int i = 0; i < a->count; i++)
        if (!strcmp(a->rows[i].op, "experts"))
            a->rows[i].bytes = touched * shape_expert_bytes(&b->shape.desc) * a->steps;
}

static cadre_err watch(gpu_bench *g, gpu_row *gr, const moe_row *r) {
    moe_bench *b = g->b;
    void *graph = NULL;
    double us[WATCHED], total = 0;
    cadre_profile_clear(b->profile);
    layers_watch(&b->layers, b->profile);
    cadre_err err = capture(g, gr, &r->plan, &graph);
    layers_watch(&b->layers, NULL);
    for (int i = 0; i < WATCHED && !err; i++) {
        err = watched_replay(g, graph, &us[i]);
        total += us[i];
    }
    dev_cuda_graph_free(g->gpu, graph);
    if (err) return err;
    gr->watched = attribution_of(b->profile, (double)WATCHED * gr->instances, total);
    gr->watched.watched_us = stat_median(us, WATCHED) / gr->instances;
    add_bytes(b, &gr->watched, r->touched);
    return CADRE_OK;
}

static cadre_err visit(gpu_bench *g, int at, int round) {
    gpu_row *gr = &g->rows[at];
    double spent = 0, sorted[REPLAYS_MOST];
    gr->steps = 0;
    cadre_err err = replay(g, gr);
    while (!err && gr->steps <= REPLAYS_MOST - BURST && (gr->steps == 0 || spent < g->b->o->visit_ms))
        err = burst(g, gr, &spent);
    if (err) return err;
    memcpy(sorted, gr->step_us, sizeof sorted);
    g->b->rows[at].us[round] = stat_median(sorted, gr->steps);
    return g->b->profile ? watch(g, gr, &g->b->rows[at]) : CADRE_OK;
}

static cadre_err probe_memory(gpu_bench *g, double *gbps) {
    dev_cuda_ceiling c;
    cadre_err err = dev_cuda_measure(g->gpu, PROBES, &c, g->why);
    if (!err) *gbps = c.read_gbps;
    return err;
}

/* Up and down, so that no m is always first. */
static int place_in(const moe_bench *b, int round, int i) {
    return round % 2 ? b->count - 1 - i : i;
}

static cadre_err keep_round(gpu_bench *g, int round, const double gbps[2]) {
    moe_bench *b = g->b;
    cadre_err err = CADRE_OK;
    for (int i = 0; i < b->count && !err; i++) {
        int at = place_in(b, round, i);
        const gpu_row *gr = &g->rows[at];
        moe_visit v = {.visit = round,
                       .order = round * b->count + i,
                       .steps = gr->steps,
                       .instances = gr->instances,
                       .gbps = {gbps[0], gbps[1]},
                       .step_us = gr->step_us,
                       .watched = b->profile ? &gr->watched : NULL};
        err = moe_bench_keep(b, &b->rows[at], &v, g->why);
    }
    return err;
}

static cadre_err measure(gpu_bench *g) {
    moe_bench *b = g->b;
    double gbps[2] = {0, 0};
    cadre_err err = probe_memory(g, &gbps[0]);
    for (int round = 0; round < b->o->repeat && !err; round++) {
        for (int i = 0; i < b->count && !err; i++) {
            int at = place_in(b, round, i);
            say_progress("visit %d of %d, m = %d", round + 1, b->o->repeat, b->rows[at].plan.m);
            err = visit(g, at, round);
        }
        if (!err) err = probe_memory(g, &gbps[1]);
        if (!err) err = keep_round(g, round, gbps);
        gbps[0] = gbps[1];
    }
    say_progress_end();
    return err;
}

/* ---- all of it ---- */

static cadre_err put_x(gpu_bench *g) {
    const layers *l = &g->b->layers;
    size_t count = (size_t)l->desc.max_tokens * (size_t)l->desc.d, bytes = count * sizeof(uint16_t);
    uint16_t *host = mem_new_array(count, sizeof *host);
    if (!host) return cadre_fail_set(g->why, CADRE_NOMEM, "out of memory for the inputs");
    for (size_t i = 0; i < count; i++) host[i] = op_bf16(l->x[i]);
    cadre_err err = dev_cuda_alloc(g->gpu, bytes, &g->x, g->why);
    if (!err) err = dev_cuda_alloc(g->gpu, bytes, &g->out, g->why);
    if (!err) err = dev_cuda_put(g->gpu, g->x, host, bytes, g->why);
    mem_free(host);
    return err;
}

static cadre_err prepare(gpu_bench *g) {
    moe_bench *b = g->b;
    cadre_err err = dev_cuda_stream_new(g->gpu, &g->stream, g->why);
    for (int i = 0; i <= BURST && !err; i++) err = dev_cuda_event_new(g->gpu, &g->events[i], g->why);
    if (!err) err = put_x(g);
    if (!err) err = name_configs(g);
    for (int i = 0; i < b->count && !err; i++) err = make_graph(g, &g->rows[i], &b->rows[i]);
    return err;
}

static void done(gpu_bench *g) {
    for (int i = 0; i < g->b->count; i++) {
        dev_cuda_graph_free(g->gpu, g->rows[i].graph);
        dev_cuda_free(g->gpu, g->rows[i].ids);
    }
    dev_cuda_free(g->gpu, g->x);
    dev_cuda_free(g->gpu, g->out);
    for (int i = 0; i <= BURST; i++) dev_cuda_event_free(g->gpu, g->events[i]);
    dev_cuda_stream_free(g->gpu, g->stream);
}

cadre_err moe_bench_gpu(moe_bench *b, cadre_fail *why) {
    gpu_bench *g = mem_new(sizeof *g);
    if (!g) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the bench");
    *g = (gpu_bench){.b = b, .gpu = b->device->gpu, .why = why};
    b->kernel = "experts_bf16_sm90";
    b->numerics = moe_gpu_numerics(dev_cuda_about(g->gpu));
    b->put_plan = put_plan;
    cadre_err err = prepare(g);
    if (!err) err = measure(g);
    for (int i = 0; i < b->count && !err; i++) err = hash_outputs(g, &g->rows[i], &b->rows[i]);
    done(g);
    mem_free(g);
    return err;
}
