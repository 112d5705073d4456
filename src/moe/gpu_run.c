/* gpu_run.c: the launches of a run, and the device memory they share. */
#include "moe/gpu.h"
#include "op/cuda/args.h"

#include <stdint.h>

enum { THREADS = 256, LINE = 128 };

static int least(int a, int b) {
    return a < b ? a : b;
}
static int chunk_of(const moe_gpu *m) {
    return least(m->desc.max_tokens, PLAN_GPU_CHUNK);
}
static long long row_of(int width) { /* elements of a row of activations that tiles read */
    return cuda_steps(width) * 16;
}

/* ---- the space ---- */

static int *take_counters(arena *a, size_t n) {
    return arena_take(a, (n * sizeof(int) + LINE - 1) / LINE * LINE, 1);
}

static int most_tasks(const moe_gpu *m, const gpu_set *s) {
    int most = 1;
    for (int i = 0; i < gpu_rows(m, s); i++) {
        int tasks = plan_gpu_tasks(&s->plan.key, &s->plan.rows[i]);
        most = tasks > most ? tasks : most;
    }
    return most;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void take_zeros(gpu_lists *l, arena *a, const moe_gpu *m, const gpu_set *s) {
    size_t tasks = (size_t)most_tasks(m, s);
    l->next = take_counters(a, 1);
    l->left = take_counters(a, 1);
    l->done_down = take_counters(a, 1);
    l->done_up = take_counters(a, larger((size_t)s->e, tasks));
    l->counts = take_counters(a, (size_t)s->e);
    l->gathered = take_counters(a, tasks);
    l->state = take_counters(a, 1);
}

/* The largest launch of a row that waits for data. */
static int most_told(const moe_gpu *m, const gpu_set *s) {
    int most = 0;
    for (int i = 0; i < gpu_rows(m, s); i++)
        if (s->plan.rows[i].knobs.told || s->plan.rows[i].knobs.one) most = least(s->plan.rows[i].n_hi, chunk_of(m));
    return most;
}

static void take_ones(gpu_lists *l, arena *a, const moe_gpu *m, const gpu_set *s) {
    size_t pairs = (size_t)most_told(m, s) * (size_t)s->k, few = (size_t)PLAN_GPU_FEW * (size_t)s->k;
    for (int i = 0; i < 2; i++) {
        l->told_ids[i] = arena_take(a, few, sizeof(int));
        l->told_h[i] = arena_take(a, pairs * (size_t)row_of(s->f), sizeof *l->told_h[i]);
        l->told_y[i] = arena_take(a, pairs * (size_t)cuda_tiles(s->d) * 16, sizeof *l->told_y[i]);
    }
}

static void take_lists(gpu_lists *l, arena *a, const gpu_set *s, size_t n) {
    size_t pairs = n * (size_t)s->k;
    l->list = arena_take(a, (size_t)s->e * pairs, sizeof(int));
    l->ids = arena_take(a, pairs, sizeof(int));
    l->weights = arena_take(a, pairs, sizeof(float));
    l->place = arena_take(a, pairs, sizeof(int));
}

/* Rows of x by tasks, where wgmma takes them so. */
static size_t rows_of_x(const moe_gpu *m, const gpu_set *s) {
    size_t most = 0;
    for (int i = 0; i < gpu_rows(m, s); i++) {
        int tokens = s->plan.rows[i].knobs.tokens, tasks = EXPERTS_TASKS(chunk_of(m), s->k, s->e, tokens);
        if (s->plan.rows[i].knobs.wgmma) most = larger(most, (size_t)least(PREFILL_PLACES, tasks) * (size_t)tokens);
    }
    return most;
}

/* Rows of activations of both sets, by whichever is larger: they run one after the other. */
static void take_rows(moe_gpu_space *s, arena *a, const moe_gpu *m, size_t n) {
    const cadre_moe_desc *d = &m->desc;
    size_t rows = (size_t)EXPERTS_ROWS(n, d->k, d->e), shared = d->shared_f ? (size_t)EXPERTS_ROWS(n, 1, 1) : 0;
    size_t x = (size_t)row_of(d->d);
    s->xq = arena_take(a, n * x, sizeof *s->xq);
    s->xb = arena_take(a, n * x, sizeof *s->xb);
    s->xs =
        arena_take(a, larger(rows_of_x(m, &m->experts), d->shared_f ? rows_of_x(m, &m->shared) : 0) * x, sizeof *s->xs);
    s->h = arena_take(a, larger(rows * (size_t)row_of(d->f), shared * (size_t)row_of(d->shared_f)), sizeof *s->h);
    s->y = arena_take(a, larger(rows, shared) * (size_t)cuda_tiles(d->d) * 16, sizeof *s->y);
}

static void place(moe_gpu_space *s, arena *a, const moe_gpu *m) {
    const cadre_moe_desc *d = &m->desc;
    size_t n = (size_t)chunk_of(m), all = (size_t)d->max_tokens, side = (size_t)d->d;
    take_zeros(&s->experts, a, m, &m->experts);
    if (d->shared_f) take_zeros(&s->shared, a, m, &m->shared);
    s->zeros = a->used;
    take_ones(&s->experts, a, m, &m->experts);
    if (d->shared_f) take_ones(&s->shared, a, m, &m->shared);
    s->ones = a->used;
    take_lists(&s->experts, a, &m->experts, n);
    if (d->shared_f) take_lists(&s->shared, a, &m->shared, n);
    take_rows(s, a, m, n);
    s->scratch = a->used;
    s->sum = arena_take(a, d->shared_f ? n * side : 0, sizeof *s->sum);
    s->x = arena_take(a, all * side, sizeof *s->x);
    s->out = arena_take(a, all * side, sizeof *s->out);
    s->given = arena_take(a, all * (size_t)d->k, sizeof *s->given);
    s->given_weights = arena_take(a, all * (size_t)d->k, sizeof *s->given_weights);
}

bool moe_gpu_space_bytes(const moe_gpu *m, size_t *bytes) {
    moe_gpu_space s = {0};
    arena count = {0};
    place(&s, &count, m);
    *bytes = count.used;
    return !count.overflow;
}

/* What runs expect of each other. */
static cadre_err fill_first(const moe_gpu_space *s, void *stream, cadre_fail *why) {
    cadre_err err = dev_cuda_fill_async(s->gpu, s->block, 0, s->zeros, stream, why);
    if (err || s->ones == s->zeros) return err;
    return dev_cuda_fill_async(s->gpu, (char *)s->block + s->zeros, 0xff, s->ones - s->zeros, stream, why);
}

cadre_err moe_gpu_space_new(const moe_gpu *m, moe_gpu_space **out, cadre_fail *why) {
    moe_gpu_space *s = mem_new(sizeof *s);
    if (!s) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a workspace");
    s->gpu = m->gpu;
    moe_gpu_space_bytes(m, &s->bytes);
    cadre_err err = dev_cuda_alloc(m->gpu, s->bytes, &s->block, why);
    if (!err) err = dev_cuda_stream_new(m->gpu, &s->stream, why);
    arena a = {.base = s->block, .size = s->bytes};
    if (!err) place(s, &a, m);
    if (!err) err = fill_first(s, s->stream, why);
    if (!err) err = dev_cuda_sync(m->gpu, s->stream, why);
    if (err)
        moe_gpu_space_free(s);
    else
        *out = s;
    return err;
}

void moe_gpu_space_free(moe_gpu_space *s) {
    if (!s) return;
    dev_cuda_stream_free(s->gpu, s->stream);
    dev_cuda_free(s->gpu, s->block);
    mem_free(s);
}

/* ---- launches ---- */

/* A part of a run: tokens that go in one launch. */
typedef struct part {
    moe_gpu *m;
    moe_gpu_space *s;
    const moe_gpu_run *run;
    int n, before; /* tokens of it; of the parts before it */
    const void *x;
    const int *ids, *forced;
    const float *weights;
    void *out;
    bool own; /* wgmma reads the caller's rows as they are */
    bool want_q, want_b;
    bool early; /* the experts take the choice before the router ends */
    cadre_fail *why;
} part;

/* NULL: what comes now is not told. */
static cadre_err stamp(const part *p, const profile_op *op) {
    return p->s->stamps ? dev_cuda_stamp(p->s->stamps, op, p->run->stream, p->why) : CADRE_OK;
}

static cadre_err launch(const part *p, const profile_op *op, const gpu_kernel *k, size_t blocks, void **args) {
    dev_cuda_launch l = {.kernel = &k->kernel,
                         .grid = {(unsigned)blocks},
                         .block = {k->threads},
                         .dynamic = k->dynamic,
                         .overlap =
                             !p->s->stamps && p->m->experts.plan.key.engine, /* texts with it wait before they read */
                         .stream = p->run->stream,
                         .args = args};
    cadre_err err = dev_cuda_run(p->m->gpu, &l, p->why);
    return err ? err : stamp(p, op);
}

static cadre_err route(const part *p) {
    moe_gpu *m = p->m;
    const cadre_moe_desc *d = &m->desc;
    const gpu_lists *l = &p->s->experts;
    plan_gpu *pl = &m->experts.plan;
    int i = plan_gpu_at(pl->routers, pl->router_count, p->n), tokens = pl->routers[i].knobs.router;
    router_args a = {.n = p->n,
                     .cap = chunk_of(m) * d->k,
                     .valid = p->run->valid,
                     .before = p->before,
                     .x = p->x,
                     .ldx = d->d,
                     .ldq = row_of(d->d),
                     .w = m->w_router,
                     .bias = m->bias,
                     .xq = p->want_q ? p->s->xq : NULL,
                     .xb = p->want_b ? p->s->xb : NULL,
                     .sigmoid = d->gate == CADRE_SIGMOID,
                     .renormalize = d->renormalize,
                     .groups = d->groups,
                     .topk_groups = d->topk_groups,
                     .scale = d->scale,
                     .forced = p->forced,
                     .soon = m->experts.w_up,
                     .soon_kb = p->run->out ? plan_gpu_soon(&pl->key, p->n) : 0,
                     .counts = l->counts,
                     .list = l->list,
                     .ids = l->ids,
                     .weights = l->weights};
    if (p->early) a.told[0] = l->told_ids[0], a.told[1] = l->told_ids[1], a.state = l->state;
    void *args[] = {&a};
    atomic_fetch_add_explicit(&pl->routers[i].runs, 1, memory_order_relaxed);
    profile_op op = {"router", NULL, plan_gpu_kernel(&pl->routers[i]), (size_t)d->e * (size_t)d->d * sizeof(uint16_t)};
    const gpu_kernel *k = &m->routers[p->run->x_type == CADRE_F32][i];
    int groups = (p->n + tokens - 1) / tokens;
    if (k->clusters) groups = least(groups, k->clusters); /* by turns */
    return launch(p, &op, k, (size_t)(pl->routers[i].knobs.engine ? ROUTER_CLUSTER * groups : groups), args);
}

static lists_args lists_of(const part *p, const gpu_set *set, const gpu_lists *l) {
    return (lists_args){.n = p->n,
                        .d = set->d,
                        .e = set->e,
                        .k = set->k,
                        .cap = chunk_of(p->m) * set->k,
                        .valid = p->run->valid,
                        .before = p->before,
                        .x_f32 = p->run->x_type == CADRE_F32,
                        .x = p->x,
                        .ldx = set->d,
                        .ldq = row_of(set->d),
                        .counts = l->counts,
                        .list = l->list,
                        .ids = l->ids,
                        .weights = l->weights};
}

static size_t blocks_for(const part *p, size_t threads) {
    size_t blocks = (threads + THREADS - 1) / THREADS, most = (size_t)dev_cuda_about(p->m->gpu)->sms * 8;
    return blocks < most ? blocks : most;
}

static cadre_err take_given(const part *p) {
    const gpu_lists *l = &p->s->experts;
    lists_args a = lists_of(p, &p->m->experts, l);
    a.given = p->ids;
    if (p->early) a.told[0] = l->told_ids[0], a.told[1] = l->told_ids[1], a.state = l->state;
    a.xq = p->want_q ? p->s->xq : NULL, a.xb = p->want_b ? p->s->xb : NULL;
    void *args[] = {&a};
    size_t pairs = (size_t)p->n * (size_t)a.k, parts = (size_t)p->n * (size_t)(a.ldq / 8);
    return launch(p, &(profile_op){.op = "lists"}, &p->m->lists, blocks_for(p, pairs > parts ? pairs : parts), args);
}

static const plan_gpu_row *row_for(const gpu_set *set, int n) {
    return &set->plan.rows[plan_gpu_at(set->plan.rows, set->plan.count, n)];
}

/* out (+)= the set's experts. */
static cadre_err run_set(const part *p, gpu_set *set, const gpu_lists *l, const float *weights, void *out, bool bf16,
                         bool add) {
    int i = plan_gpu_at(set->plan.rows, set->plan.count, p->n);
    const plan_gpu_knobs *k = &set->plan.rows[i].knobs;
    bool wgmma = k->wgmma, own = k->one || (wgmma && p->own);
    experts_args a = {.n = p->n,
                      .cap = chunk_of(p->m) * set->k,
                      .w_up = set->w_up,
                      .w_down = set->w_down,
                      .x = own     ? p->x
                           : wgmma ? p->s->xb
                                   : p->s->xq,
                      .h = p->s->h,
                      .y = p->s->y,
                      .xs = p->s->xs,
                      .gathered = l->gathered,
                      .place = l->place,
                      .ldx = own ? set->d : row_of(set->d),
                      .ldo = set->d,
                      .counts = l->counts,
                      .list = l->list,
                      .ids = l->ids,
                      .weights = weights,
                      .out = out,
                      .next = l->next,
                      .done_up = l->done_up,
                      .done_down = l->done_down,
                      .left = l->left,
                      .told_h = {l->told_h[0], l->told_h[1]},
                      .told_y = {l->told_y[0], l->told_y[1]},
                      .told_ids = {l->told_ids[0], l->told_ids[1]},
                      .state = l->state,
                      .x_f32 = p->run->x_type == CADRE_F32,
                      .limit = p->m->desc.limit,
                      .out_bf16 = bf16,
                      .add = add};
    void *args[] = {&a};
    atomic_fetch_add_explicit(&set->plan.rows[i].runs, 1, memory_order_relaxed);
    profile_op op = {set->plan.key.role, NULL, plan_gpu_kernel(&set->plan.rows[i]),
                     set->e == 1 ? set->up_stride + set->down_stride : 0};
    const gpu_kernel *kernel = &set->kernels[i]; /* blocks that wait for each other: all of them run at once */
    size_t blocks = (size_t)(wgmma ? kernel->clusters * PREFILL_CLUSTER : dev_cuda_about(p->m->gpu)->sms);
    return launch(p, &op, kernel, blocks, args);
}

static cadre_err run_shared(const part *p, float *sum) {
    moe_gpu *m = p->m;
    const gpu_lists *l = &p->s->shared;
    lists_args a = lists_of(p, &m->shared, l);
    a.gate = m->shared_gate;
    void *args[] = {&a};
    cadre_err err = launch(p, &(profile_op){.op = "shared expert", .part = "lists"}, &m->single,
                           ((size_t)p->n * 32 + THREADS - 1) / THREADS, args);
    return err ? err : run_set(p, &m->shared, l, l->weights, sum, false, true);
}

static cadre_err round_sum(const part *p, float *sum) {
    void *out = p->out;
    size_t count = (size_t)p->n * (size_t)p->m->desc.d;
    void *args[] = {&out, &sum, &count};
    return launch(p, &(profile_op){.op = "round"}, &p->m->round_out, blocks_for(p, count), args);
}

static cadre_err run_experts(const part *p) {
    moe_gpu *m = p->m;
    bool bf16 = p->run->out_type == CADRE_BF16, shared = m->desc.shared_f > 0;
    float *sum = bf16 && shared ? p->s->sum : p->out;
    const float *weights = p->weights ? p->weights : p->s->experts.weights;
    cadre_err err = run_set(p, &m->experts, &p->s->experts, weights, sum, bf16 && !shared, false);
    if (!err && shared) err = run_shared(p, sum);
    if (!err && shared && bf16) err = round_sum(p, sum);
    return err;
}

/* ---- a run ---- */

/* Which forms of x the experts of this part read. */
static void choose_forms(part *p) {
    const moe_gpu *m = p->m;
    const plan_gpu_row *row = row_for(&m->experts, p->n);
    bool wide = row->knobs.wgmma, q = !wide && !row->knobs.one, b = wide;
    p->early = plan_gpu_early(row) && p->run->out;
    if (m->desc.shared_f) {
        wide = row_for(&m->shared, p->n)->knobs.wgmma;
        q |= !wide, b |= wide;
    }
    p->own = p->run->x_type == CADRE_BF16 && m->desc.d == row_of(m->desc.d);
    p->want_q = q && p->run->out;
    p->want_b = b && !p->own && p->run->out;
}

/* Whatever a run leaves, the next one must not need it. */
static cadre_err poison(const part *p) {
    const moe_gpu_space *s = p->s;
    if (!switch_get(SWITCH_POISON)) return CADRE_OK;
    return dev_cuda_fill_async(s->gpu, (char *)s->block + s->ones, 0xff, s->scratch - s->ones, p->run->stream, p->why);
}

static cadre_err run_part(part *p) {
    moe_gpu *m = p->m;
    choose_forms(p);
    cadre_err err = poison(p);
    if (!err) err = stamp(p, NULL);
    if (!err) err = p->ids ? take_given(p) : route(p);
    if (!err && p->run->out) return run_experts(p);
    if (!err) /* what the experts do when they leave */
        err = dev_cuda_fill_async(m->gpu, p->s->experts.counts, 0, (size_t)m->desc.e * sizeof(int), p->run->stream,
                                  p->why);
    return err;
}

static const void *step(const void *p, size_t bytes) {
    return p ? (const char *)p + bytes : NULL;
}

static cadre_err run_parts(moe_gpu *m, moe_gpu_space *s, const moe_gpu_run *run, cadre_fail *why) {
    size_t k = (size_t)m->desc.k, d = (size_t)m->desc.d;
    cadre_err err = CADRE_OK;
    if (s->dirty) err = fill_first(s, run->stream, why);
    s->dirty = true;
    for (int at = 0; at < run->n && !err; at += PLAN_GPU_CHUNK) {
        size_t tokens = (size_t)at;
        part p = {.m = m, .s = s, .run = run, .n = least(run->n - at, PLAN_GPU_CHUNK), .before = at, .why = why};
        p.x = step(run->x, tokens * d * op_dtype_size(run->x_type));
        p.ids = step(run->ids, tokens * k * sizeof(int));
        p.forced = step(run->forced, tokens * k * sizeof(int));
        p.weights = step(run->weights, tokens * k * sizeof(float));
        p.out = run->out ? (char *)run->out + tokens * d * op_dtype_size(run->out_type) : NULL;
        err = run_part(&p);
    }
    if (!err) s->dirty = false;
    return err;
}

cadre_err moe_gpu_enqueue(moe_gpu *m, moe_gpu_space *s, const moe_gpu_run *run, cadre_fail *why) {
    cadre_err err = dev_cuda_turn_begin(m->gpu, run->stream, why);
    if (err) return err;
    err = run_parts(m, s, run, why);
    cadre_err end = dev_cuda_turn_end(m->gpu, run->stream, err ? NULL : why);
    return err ? err : end;
}
