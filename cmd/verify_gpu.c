/* verify_gpu.c: one layer made anew for each configuration; its outputs lie in poisoned memory before each run. */
#include "verify_gpu.h"
#include "dev/cuda.h"
#include "op/check.h"
#include "op/op.h"
#include "plan/gpu.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 33, SHIFT = 32 };
static const int counts[] = {1, 8, MOST};
static const cadre_moe_desc shapes[] = {
    {.d = 128, .f = 64, .e = 16, .k = 2, .shared_f = 192, .act = CADRE_SWIGLU_CLAMP, .limit = 0.7f},
    {.d = 2048, .f = 768, .e = 128, .k = 8, .renormalize = true},
    {.d = 2176, .f = 448, .e = 8, .k = 8, .act = CADRE_RELU2}, /* one.cu: two row tiles a block, a ring that turns */
};

typedef struct rig {
    cadre_device *device;
    dev_cuda *gpu;
    cadre_moe_desc desc;
    uint16_t *pool; /* bf16: weights are windows into it, SHIFT apart */
    cadre_tensor *lists;
    cadre_moe_weights weights;
    cadre_moe *moe;
    cadre_moe_workspace *space;
    float *x, *out, *want; /* host [MOST][d] */
    void *dx, *dout, *stream;
    gpu_proofs *p;
    cadre_fail *why;
} rig;

/* ---- a layer ---- */

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static cadre_err no_memory(rig *g) {
    return cadre_fail_set(g->why, CADRE_NOMEM, "out of memory for the proofs");
}

static cadre_err make_weights(rig *g) {
    const cadre_moe_desc *d = &g->desc;
    rand_stream r = {.key = 11};
    size_t e = (size_t)d->e, width = most(most((size_t)d->f, (size_t)d->shared_f), e), n = width * (size_t)d->d;
    size_t all = n + 3 * e * SHIFT;
    g->pool = mem_new_array(all, sizeof *g->pool);
    g->lists = mem_new_array(3 * e, sizeof *g->lists);
    if (!g->pool || !g->lists) return no_memory(g);
    for (size_t i = 0; i < all; i++) g->pool[i] = op_bf16(rand_float(&r) * 3 / sqrtf((float)d->d));
    for (size_t i = 0; i < 3 * e; i++) g->lists[i] = (cadre_tensor){g->pool + i * SHIFT, CADRE_BF16};
    cadre_tensor one = {g->pool, CADRE_BF16};
    g->weights = (cadre_moe_weights){.router = one, .up = g->lists + e, .down = g->lists + 2 * e};
    if (d->act != CADRE_RELU2) g->weights.gate = g->lists;
    if (d->shared_f)
        g->weights.shared_gate = g->weights.shared_up = g->weights.shared_down = g->weights.shared_expert_gate = one;
    return CADRE_OK;
}

static cadre_err make_rows(rig *g) {
    rand_stream r = {.key = 12};
    size_t n = MOST * (size_t)g->desc.d;
    g->x = mem_new_array(n, sizeof *g->x), g->out = mem_new_array(n, sizeof *g->out);
    g->want = mem_new_array(n, sizeof *g->want);
    if (!g->x || !g->out || !g->want) return no_memory(g);
    for (size_t i = 0; i < n; i++) g->x[i] = op_from_bf16(op_bf16(rand_float(&r) * 2)); /* as the layer rounds it */
    cadre_err err = dev_cuda_stream_new(g->gpu, &g->stream, g->why);
    if (!err) err = dev_cuda_alloc(g->gpu, n * sizeof *g->x, &g->dx, g->why);
    if (!err) err = dev_cuda_alloc(g->gpu, n * sizeof *g->out, &g->dout, g->why);
    return err ? err : dev_cuda_put(g->gpu, g->dx, g->x, n * sizeof *g->x, g->why);
}

static void drop_layer(rig *g) {
    cadre_moe_workspace_free(g->space);
    cadre_moe_free(g->moe);
    g->space = NULL, g->moe = NULL;
}

static cadre_err make_layer(rig *g) {
    drop_layer(g);
    cadre_err err = cadre_moe_new(g->device, &g->desc, &g->weights, &g->moe, g->why);
    return err ? err : cadre_moe_workspace_new(g->moe, &g->space, g->why);
}

static void rig_done(rig *g) {
    drop_layer(g);
    dev_cuda_free(g->gpu, g->dx), dev_cuda_free(g->gpu, g->dout);
    dev_cuda_stream_free(g->gpu, g->stream);
    mem_free(g->pool), mem_free(g->lists), mem_free(g->x), mem_free(g->out), mem_free(g->want);
}

/* ---- runs ---- */

static cadre_err enqueue(rig *g, int n) {
    return cadre_moe_enqueue(g->moe, g->space, g->stream, n, g->dx, CADRE_F32, NULL, NULL, g->dout, CADRE_F32, g->why);
}

static cadre_err replay(rig *g, int n) {
    void *graph = NULL;
    cadre_fail second;
    cadre_err err = dev_cuda_capture_begin(g->gpu, g->stream, g->why);
    if (err) return err;
    err = enqueue(g, n);
    cadre_err end = dev_cuda_capture_end(g->gpu, g->stream, &graph, err ? &second : g->why);
    if (!err) err = end;
    if (!err) err = dev_cuda_graph_launch(g->gpu, graph, g->stream, g->why);
    if (!err) err = dev_cuda_sync(g->gpu, g->stream, g->why);
    dev_cuda_graph_free(g->gpu, graph);
    return err;
}

static cadre_err run(rig *g, int n, bool graph, float *out) {
    size_t bytes = (size_t)n * (size_t)g->desc.d * sizeof *out;
    cadre_err err = dev_cuda_fill_async(g->gpu, g->dout, 0xff, bytes, g->stream, g->why);
    if (!err) err = graph ? replay(g, n) : enqueue(g, n);
    if (!err) err = dev_cuda_sync(g->gpu, g->stream, g->why);
    return err ? err : dev_cuda_get(g->gpu, out, g->dout, bytes, g->why);
}

/* What is still poison was left out. */
static bool alike(const float *out, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isnan(out[i])) return false;
    return !memcmp(out, want, n * sizeof *out);
}

static bool same(const rig *g, int n) {
    return alike(g->out, g->want, (size_t)n * (size_t)g->desc.d);
}

static cadre_err compare(rig *g) {
    cadre_err err = CADRE_OK;
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts && !err; i++) {
        int n = counts[i / 2];
        err = run(g, n, i % 2, g->out);
        if (!err) g->p->runs++, g->p->runs_bad += !same(g, n);
    }
    return err;
}

/* ---- rows: alone, and in another order ---- */

static void keep_row(rig *g, const float *out, const float *want) {
    g->p->rows++;
    g->p->rows_bad += !alike(out, want, (size_t)g->desc.d);
}

static cadre_err rows_alone(rig *g) {
    size_t d = (size_t)g->desc.d;
    float *all = g->dx;
    cadre_err err = CADRE_OK;
    for (size_t row = 0; row < MOST && !err; row++) {
        g->dx = all + row * d;
        err = run(g, 1, false, g->out);
        if (!err) keep_row(g, g->out, g->want + row * d);
    }
    g->dx = all;
    return err;
}

/* 10 has no divisor in common with 33: every row moves but the first. */
static int moved(int row) {
    return row * 10 % MOST;
}

static cadre_err rows_moved(rig *g) {
    size_t d = (size_t)g->desc.d, bytes = d * sizeof *g->x;
    cadre_err err = CADRE_OK;
    for (int row = 0; row < MOST && !err; row++)
        err = dev_cuda_put(g->gpu, (float *)g->dx + (size_t)row * d, g->x + (size_t)moved(row) * d, bytes, g->why);
    if (!err) err = run(g, MOST, false, g->out);
    for (int row = 0; row < MOST && !err; row++)
        keep_row(g, g->out + (size_t)row * d, g->want + (size_t)moved(row) * d);
    return err ? err : dev_cuda_put(g->gpu, g->dx, g->x, MOST * bytes, g->why);
}

/* ---- the meaning ---- */

/* The experts that the first n tokens chose, as fp32 and one after the other; ids are counted anew among them. */
typedef struct chosen {
    int n, count;
    int32_t *ids;             /* [n * k] */
    float *weights, *list[3]; /* [n * k]; gate, up, down [count][f * d] */
    float *shared;            /* [shared_f][d], which is gate, up and down of the shared expert */
    double *want, *more;      /* [n][d] */
} chosen;

static float *plain(const rig *g, cadre_tensor t, size_t n, float *to) {
    (void)g;
    for (size_t i = 0; i < n; i++) to[i] = op_load(t.dtype, t.data, i);
    return to;
}

static cadre_err take_chosen(rig *g, chosen *c) {
    size_t pairs = (size_t)c->n * (size_t)g->desc.k, size = (size_t)g->desc.f * (size_t)g->desc.d,
           e = (size_t)g->desc.e;
    size_t most_of = pairs < e ? pairs : e, shared = (size_t)g->desc.shared_f * (size_t)g->desc.d;
    c->ids = mem_new_array(pairs, sizeof *c->ids), c->weights = mem_new_array(pairs, sizeof *c->weights);
    c->list[0] = mem_new_array(3 * most_of * size + shared + 1, sizeof(float));
    c->want = mem_new_array(2 * (size_t)c->n * (size_t)g->desc.d, sizeof *c->want);
    if (!c->ids || !c->weights || !c->list[0] || !c->want) return no_memory(g);
    c->list[1] = c->list[0] + most_of * size, c->list[2] = c->list[1] + most_of * size;
    c->shared = plain(g, g->weights.router, shared, c->list[2] + most_of * size);
    c->more = c->want + (size_t)c->n * (size_t)g->desc.d;
    cadre_err err = cadre_moe_route(g->moe, g->space, c->n, g->x, c->ids, c->weights, g->why);
    if (err) return err;
    int32_t *of = mem_new_array(e, sizeof *of);
    if (!of) return no_memory(g);
    for (size_t i = 0; i < e; i++) of[i] = -1;
    for (size_t p = 0; p < pairs; p++) {
        size_t id = (size_t)c->ids[p] < e ? (size_t)c->ids[p] : 0; /* what is no id shows as an error */
        if (of[id] < 0) {
            for (size_t l = 0; l < 3; l++) plain(g, g->lists[l * e + id], size, c->list[l] + (size_t)c->count * size);
            of[id] = c->count++;
        }
        c->ids[p] = of[id];
    }
    mem_free(of);
    return CADRE_OK;
}

/* One expert that every token goes to, weighed by the sigmoid of its gate's row, which is the pool's start too. */
static void add_shared(rig *g, chosen *c) {
    const cadre_moe_desc *d = &g->desc;
    size_t side = (size_t)d->d;
    for (int t = 0; t < c->n; t++) {
        double sum = 0;
        for (size_t i = 0; i < side; i++) sum += (double)c->shared[i] * g->x[(size_t)t * side + i];
        c->weights[t] = (float)(1 / (1 + m_exp(-sum)));
        c->ids[t] = 0;
    }
    check_experts(c->n, d->d, d->shared_f, 1, d->act, d->limit, g->x, c->shared, c->shared, c->shared, c->ids,
                  c->weights, c->more);
    for (size_t i = 0; i < (size_t)c->n * side; i++) c->want[i] += c->more[i];
}

static cadre_err against_meaning(rig *g) {
    const cadre_moe_desc *d = &g->desc;
    chosen c = {.n = d->d * d->f > 100000 ? 1 : MOST};
    cadre_err err = take_chosen(g, &c);
    if (!err) {
        check_experts(c.n, d->d, d->f, d->k, d->act, d->limit, g->x, c.list[0], c.list[1], c.list[2], c.ids, c.weights,
                      c.want);
        if (d->shared_f) add_shared(g, &c);
        double error = check_relative(g->want, c.want, (size_t)c.n * (size_t)d->d);
        if (!(error <= g->p->error)) g->p->error = error;
        g->p->most = check_tolerance(OP_EXPERTS, CADRE_BF16, d->d);
    }
    mem_free(c.ids), mem_free(c.weights), mem_free(c.list[0]), mem_free(c.want);
    return err;
}

/* ---- configurations ---- */

/* Every switch gpu.NAME; knobs NULL: to the policy. */
static void set_knobs(const int *knobs) {
    switch_def def;
    long value;
    char line[64];
    for (int i = 0; plan_gpu_switch(i, &def, &value); i++) {
        snprintf(line, sizeof line, "%s=%d", def.name, knobs ? knobs[i] : PLAN_GPU_POLICY);
        cadre_set(line, NULL);
    }
}

/* A row's knobs for every n. Its range holds fewer tasks than all n do, whose list takes shared memory: so a stage less
 * where that is too much. */
static cadre_err try_row(rig *g, plan_gpu_knobs knobs) {
    cadre_err err;
    do {
        set_knobs((const int *)&knobs);
        err = make_layer(g);
    } while (err == CADRE_RANGE && --knobs.stages >= 2);
    return err ? err : compare(g);
}

static cadre_err make_plan(const rig *g, plan_gpu *plan) {
    const dev_cuda_traits *t = dev_cuda_about(g->gpu);
    plan_gpu_key key = {.d = g->desc.d,
                        .f = g->desc.f,
                        .e = g->desc.e,
                        .k = g->desc.k,
                        .act = g->desc.act,
                        .sms = t->sms,
                        .smem = t->smem_block,
                        .engine = t->major >= 9,
                        .role = "experts",
                        .router = true};
    return plan_gpu_make(&key, plan, g->why);
}

static cadre_err every_row(rig *g) {
    plan_gpu plan;
    cadre_err err = make_plan(g, &plan);
    if (!err) err = make_layer(g);
    if (!err) err = run(g, MOST, false, g->want);
    if (!err) err = against_meaning(g);
    if (!err) err = rows_alone(g);
    if (!err) err = rows_moved(g);
    if (!err) err = compare(g);
    for (int i = 0; i < plan.count && !err; i++) {
        plan_gpu_knobs knobs = plan.rows[i].knobs;
        knobs.router = plan.routers[i % plan.router_count].knobs.router;
        err = try_row(g, knobs);
        set_knobs(NULL);
    }
    return err;
}

static cadre_err prove(rig *g, const cadre_moe_desc *shape) {
    g->desc = *shape;
    g->desc.dtype = CADRE_BF16, g->desc.max_tokens = MOST;
    cadre_err err = make_weights(g);
    if (!err) err = make_rows(g);
    return err ? err : every_row(g);
}

cadre_err verify_gpu(cadre_device *device, gpu_proofs *out, cadre_fail *why) {
    int before[PLAN_GPU_KNOB_COUNT];
    switch_def def;
    long value;
    cadre_err err = CADRE_OK;
    *out = (gpu_proofs){0};
    for (int i = 0; plan_gpu_switch(i, &def, &value); i++) before[i] = (int)value;
    set_knobs(NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !err; i++) {
        rig g = {.device = device, .gpu = device->gpu, .p = out, .why = why};
        err = prove(&g, &shapes[i]);
        rig_done(&g);
    }
    set_knobs(before);
    return err;
}
