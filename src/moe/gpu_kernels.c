/* gpu_kernels.c: the device texts compiled for a layer's shape and the rows of its plans, all when it is made. */
#include "moe/gpu.h"
#include "op/cuda/args.h"
#include "op/cuda/text.h"

#include <stdarg.h>
#include <stdio.h>

enum { OPTIONS = 24, HEADERS = 24, THREADS = 256 };

typedef struct option_list {
    char text[OPTIONS][40];
    const char *list[OPTIONS];
    int count;
} option_list;

static void define(option_list *o, const char *name, int value) {
    cadre_assert(o->count < OPTIONS);
    snprintf(o->text[o->count], sizeof o->text[0], "-D%s=%d", name, value);
    o->list[o->count] = o->text[o->count];
    o->count++;
}

cadre_err gpu_kernel_new(dev_cuda *gpu, const char *text, const char *name, const char *const *options, int count,
                         unsigned threads, size_t dynamic, gpu_kernel *out, cadre_fail *why) {
    dev_cuda_text headers[HEADERS];
    int n = 0;
    for (const op_cuda_text *t = op_cuda_texts; t->name; t++)
        if (op_cuda_text_is_header(t)) {
            cadre_assert(n < HEADERS);
            headers[n++] = (dev_cuda_text){t->name, t->text};
        }
    dev_cuda_source source = {{text, op_cuda_text_get(text)}, headers, n};
    gpu_kernel k = {.threads = threads, .dynamic = (unsigned)dynamic};
    cadre_err err = dev_cuda_module_new(gpu, &source, options, count, &k.module, why);
    if (err) return err;
    err = dev_cuda_kernel_get(gpu, k.module, name, dynamic, &k.kernel, why);
    if (err)
        dev_cuda_module_free(gpu, k.module);
    else
        *out = k;
    return err;
}

static void define_shape(option_list *o, const gpu_set *s, int engine) {
    define(o, "D_MODEL", s->d);
    define(o, "EXPERTS", s->e);
    define(o, "CHOSEN", s->k);
    if (!engine) define(o, "COPY_ENGINE", 0);
}

/* How many clusters of a kernel run at once. */
static cadre_err ask_clusters(moe_gpu *m, gpu_kernel *k, unsigned blocks, cadre_fail *why) {
    dev_cuda_launch l = {.kernel = &k->kernel, .block = {k->threads}, .dynamic = k->dynamic, .cluster = blocks};
    cadre_err err = dev_cuda_clusters(m->gpu, &l, &k->clusters, why);
    if (err || k->clusters > 0) return err;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "%s: no cluster of %u blocks has room on this GPU", k->kernel.name,
                          blocks);
}

static cadre_err compile_prefill(moe_gpu *m, gpu_set *s, int i, option_list *o, cadre_fail *why) {
    const plan_gpu_row *row = &s->plan.rows[i];
    define(o, "WIDTHS", row->knobs.widths);
    define(o, "ROOM", row->knobs.room * 1024);
    cadre_err err = gpu_kernel_new(m->gpu, "prefill.cu", "prefill", o->list, o->count, PREFILL_THREADS,
                                   plan_gpu_shared(&s->plan.key, row), &s->kernels[i], why);
    return err ? err : ask_clusters(m, &s->kernels[i], PREFILL_CLUSTER, why);
}

static cadre_err compile_experts(moe_gpu *m, gpu_set *s, int i, cadre_fail *why) {
    const plan_gpu_row *row = &s->plan.rows[i];
    const plan_gpu_knobs *k = &row->knobs;
    option_list o = {.count = 0};
    define_shape(&o, s, k->engine);
    define(&o, "F_EXPERT", s->f);
    define(&o, "ACT", (int)s->act);
    if (k->one) {
        plan_gpu_share share = plan_gpu_one(&s->plan.key, row);
        define(&o, "BLOCKS", s->plan.key.sms);
        define(&o, "STAGES", share.stages);
        define(&o, "FLYING", share.flying);
        return gpu_kernel_new(m->gpu, "one.cu", "one", o.list, o.count, 32 * (unsigned)share.warps,
                              plan_gpu_shared(&s->plan.key, row), &s->kernels[i], why);
    }
    define(&o, "TOKEN_TILES", k->tokens / 8);
    define(&o, "MOST_TASKS", plan_gpu_tasks(&s->plan.key, row));
    if (k->wgmma) return compile_prefill(m, s, i, &o, why);
    define(&o, "STAGES", k->stages);
    define(&o, "WARPS", k->warps);
    define(&o, "UP_TILES", k->up);
    define(&o, "DOWN_TILES", k->down);
    define(&o, "KC", k->kc);
    define(&o, "AHEAD", k->ahead);
    define(&o, "TOLD", k->told);
    return gpu_kernel_new(m->gpu, "experts.cu", "experts", o.list, o.count, EXPERTS_THREADS(k->warps),
                          plan_gpu_shared(&s->plan.key, row), &s->kernels[i], why);
}

static cadre_err compile_set(moe_gpu *m, gpu_set *s, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (int i = 0; i < gpu_rows(m, s) && !err; i++) err = compile_experts(m, s, i, why);
    return err;
}

static void define_rings(option_list *o, int tokens, plan_gpu_rings r) {
    define(o, "TOKEN_TILES", tokens / 8);
    define(o, "X_STAGES", r.x);
    define(o, "W_STAGES", r.w);
    define(o, "SIDES", r.sides);
}

static cadre_err compile_router(moe_gpu *m, int x_f32, int i, cadre_fail *why) {
    const plan_gpu *p = &m->experts.plan;
    option_list o = {.count = 0};
    define_shape(&o, &m->experts, p->routers[i].knobs.engine);
    define(&o, "X_F32", x_f32);
    const plan_gpu_row *row = &p->routers[i];
    bool many = plan_gpu_router_many(row);
    if (many) define_rings(&o, row->knobs.router, plan_gpu_router_rings(&p->key, row->knobs.router));
    unsigned threads = many ? ROUTER_MANY_THREADS : THREADS;
    gpu_kernel *k = &m->routers[x_f32][i];
    cadre_err err = gpu_kernel_new(m->gpu, many ? "router_many.cu" : "router.cu", many ? "router_many" : "router",
                                   o.list, o.count, threads, plan_gpu_router_shared(&p->key, row), k, why);
    return !err && many ? ask_clusters(m, k, ROUTER_CLUSTER, why) : err;
}

static cadre_err compile_routers(moe_gpu *m, cadre_fail *why) {
    const plan_gpu *p = &m->experts.plan;
    cadre_err err = CADRE_OK;
    for (int i = 0; i < p->router_count && !err && p->routers[i].n_lo <= m->desc.max_tokens; i++) {
        err = compile_router(m, 0, i, why);
        if (!err) err = compile_router(m, 1, i, why);
    }
    return err;
}

static cadre_err compile_lists(moe_gpu *m, cadre_fail *why) {
    const struct {
        const char *name;
        gpu_kernel *kernel;
    } all[] = {{"lists", &m->lists}, {"single", &m->single}, {"round_out", &m->round_out}};
    option_list o = {.count = 0};
    cadre_err err = CADRE_OK;
    if (!m->experts.plan.key.engine) define(&o, "COPY_ENGINE", 0);
    for (size_t i = 0; i < sizeof all / sizeof *all && !err; i++)
        err = gpu_kernel_new(m->gpu, "lists.cu", all[i].name, o.list, o.count, THREADS, 0, all[i].kernel, why);
    return err;
}

cadre_err gpu_compile(moe_gpu *m, cadre_fail *why) {
    cadre_err err = compile_set(m, &m->experts, why);
    if (!err && m->desc.shared_f) err = compile_set(m, &m->shared, why);
    if (!err) err = compile_routers(m, why);
    return err ? err : compile_lists(m, why);
}

static void drop(dev_cuda *gpu, gpu_kernel *k) {
    dev_cuda_module_free(gpu, k->module);
    *k = (gpu_kernel){0};
}

void gpu_compile_done(moe_gpu *m) {
    for (int i = 0; i < PLAN_GPU_ROWS; i++) {
        drop(m->gpu, &m->experts.kernels[i]), drop(m->gpu, &m->shared.kernels[i]);
        drop(m->gpu, &m->routers[0][i]), drop(m->gpu, &m->routers[1][i]);
    }
    drop(m->gpu, &m->lists), drop(m->gpu, &m->single), drop(m->gpu, &m->round_out);
}
