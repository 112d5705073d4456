/* verify_gpu.c: one layer made anew for each configuration; its outputs lie in poisoned memory before each run. */
#include "verify_gpu.h"
#include "dev/cuda.h"
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
    int runs, bad;
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
    g->weights = (cadre_moe_weights){.router = one, .gate = g->lists, .up = g->lists + e, .down = g->lists + 2 * e};
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
    for (size_t i = 0; i < n; i++) g->x[i] = rand_float(&r) * 2;
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
static bool same(const rig *g, int n) {
    size_t all = (size_t)n * (size_t)g->desc.d;
    for (size_t i = 0; i < all; i++)
        if (isnan(g->out[i])) return false;
    return !memcmp(g->out, g->want, all * sizeof *g->out);
}

static cadre_err compare(rig *g) {
    cadre_err err = CADRE_OK;
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts && !err; i++) {
        int n = counts[i / 2];
        err = run(g, n, i % 2, g->out);
        if (!err) g->runs++, g->bad += !same(g, n);
    }
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
                        .wgmma = t->major == 9,
                        .role = "experts",
                        .router = true};
    return plan_gpu_make(&key, plan, g->why);
}

static cadre_err every_row(rig *g) {
    plan_gpu plan;
    cadre_err err = make_plan(g, &plan);
    if (!err) err = make_layer(g);
    if (!err) err = run(g, MOST, false, g->want);
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

cadre_err verify_gpu(cadre_device *device, int *runs, int *bad, cadre_fail *why) {
    int before[PLAN_GPU_KNOB_COUNT];
    switch_def def;
    long value;
    cadre_err err = CADRE_OK;
    *runs = *bad = 0;
    for (int i = 0; plan_gpu_switch(i, &def, &value); i++) before[i] = (int)value;
    set_knobs(NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !err; i++) {
        rig g = {.device = device, .gpu = device->gpu, .why = why};
        err = prove(&g, &shapes[i]);
        rig_done(&g);
        *runs += g.runs, *bad += g.bad;
    }
    set_knobs(before);
    return err;
}
