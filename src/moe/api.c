/* api.c: the public MoE layer of cadre.h over moe_layer or moe_gpu: checks at the door, one workspace per run. */
#include "moe/api.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- checks ---- */
static cadre_err check_size(const char *name, int v, int low, int high, cadre_fail *why) {
    if (v >= low && v <= high) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "moe %s is %d, expected %d..%d", name, v, low, high);
}

static cadre_err check_gating(const cadre_moe_desc *d, cadre_fail *why) {
    if (d->gate != CADRE_SOFTMAX && d->gate != CADRE_SIGMOID)
        return cadre_fail_set(why, CADRE_RANGE, "moe gate is %d, expected softmax or sigmoid", (int)d->gate);
    if (!isfinite(d->scale)) return cadre_fail_set(why, CADRE_RANGE, "moe scale is not finite");
    if (d->groups <= 1) return CADRE_OK;
    if (d->e % d->groups != 0)
        return cadre_fail_set(why, CADRE_RANGE, "moe groups is %d, expected a divisor of e = %d", d->groups, d->e);
    cadre_err err = check_size("topk_groups", d->topk_groups, 1, d->groups, why);
    if (!err && d->k > d->e / d->groups * d->topk_groups)
        err = cadre_fail_set(why, CADRE_RANGE, "moe k is %d, but %d kept groups hold %d experts", d->k, d->topk_groups,
                             d->e / d->groups * d->topk_groups);
    return err;
}

static cadre_err check_desc(const cadre_moe_desc *d, cadre_fail *why) {
    enum { SIDE = 1 << 20, EXPERTS = 1 << 14 };
    cadre_err err = check_size("d", d->d, 1, SIDE, why);
    if (!err) err = check_size("f", d->f, 1, SIDE, why);
    if (!err) err = check_size("e", d->e, 1, EXPERTS, why);
    if (!err) err = check_size("k", d->k, 1, d->e, why);
    if (!err) err = check_size("max_tokens", d->max_tokens, 1, INT32_MAX / d->k, why);
    if (!err) err = check_size("shared_f", d->shared_f, 0, SIDE, why);
    if (err) return err;
    if (d->dtype != CADRE_BF16 && d->dtype != CADRE_F32 && !op_is_quant(d->dtype))
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "moe dtype is %d, expected f32, bf16, q8 or q4", (int)d->dtype);
    if (d->act != CADRE_SWIGLU && d->act != CADRE_SWIGLU_CLAMP && d->act != CADRE_RELU2)
        return cadre_fail_set(why, CADRE_RANGE, "moe act is %d, expected swiglu, swiglu-clamp or relu2", (int)d->act);
    if (d->act == CADRE_SWIGLU_CLAMP && !(d->limit > 0.0f && isfinite(d->limit)))
        return cadre_fail_set(why, CADRE_RANGE, "moe limit is %g, expected a positive number", (double)d->limit);
    return check_gating(d, why);
}

/* An absent tensor passes; a present one must be of a type that weights come in. */
static cadre_err check_source(const char *name, cadre_tensor t, cadre_fail *why) {
    if (!t.data || t.dtype == CADRE_F32 || t.dtype == CADRE_BF16 || t.dtype == CADRE_F16) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "moe weights: dtype of %s is %d, expected f32, bf16 or f16", name,
                          (int)t.dtype);
}

static cadre_err check_list(const char *name, const cadre_tensor *list, int e, cadre_fail *why) {
    if (!list) return cadre_fail_set(why, CADRE_RANGE, "moe weights have no %s", name);
    for (int i = 0; i < e; i++) {
        if (!list[i].data) return cadre_fail_set(why, CADRE_RANGE, "moe weights: %s of expert %d is missing", name, i);
        cadre_err err = check_source(name, list[i], why);
        if (err) return err;
    }
    return CADRE_OK;
}

static cadre_err check_sources(const cadre_moe_weights *w, cadre_fail *why) {
    const cadre_tensor list[] = {w->router,    w->bias,        w->shared_gate,
                                 w->shared_up, w->shared_down, w->shared_expert_gate};
    static const char *const names[] = {"router",    "bias",        "shared gate",
                                        "shared up", "shared down", "shared expert gate"};
    cadre_err err = CADRE_OK;
    for (size_t i = 0; i < sizeof list / sizeof *list && !err; i++) err = check_source(names[i], list[i], why);
    return err;
}

static cadre_err check_weights(const cadre_moe_desc *d, const cadre_moe_weights *w, cadre_fail *why) {
    if (!w->router.data) return cadre_fail_set(why, CADRE_RANGE, "moe weights have no router");
    bool gated = d->act != CADRE_RELU2;
    if (!gated && w->gate)
        return cadre_fail_set(why, CADRE_RANGE, "moe weights have gates, but relu2 experts take none");
    cadre_err err = gated ? check_list("gate", w->gate, d->e, why) : CADRE_OK;
    if (!err) err = check_list("up", w->up, d->e, why);
    if (!err) err = check_list("down", w->down, d->e, why);
    if (!err) err = check_sources(w, why);
    if (!err && d->shared_f && (!w->shared_up.data || !w->shared_down.data || (gated && !w->shared_gate.data)))
        err = cadre_fail_set(why, CADRE_RANGE, "moe weights of the shared expert are missing");
    return err;
}

/* ---- making ---- */
static bool place(const cadre_moe *moe, moe_scratch *s, arena *a) {
    const moe_layer *layer = &moe->layer;
    moe_scratch_take(s, a, &layer, 1, layer->desc.max_tokens, pool_threads(moe->device->threads));
    return !a->overflow;
}

static cadre_err make_gpu(cadre_moe *moe, const cadre_moe_weights *weights, bool *fits, cadre_fail *why) {
    cadre_err err = moe_gpu_new(moe->device->gpu, &moe->desc, weights, &moe->gpu, why);
    if (!err) *fits = moe_gpu_space_bytes(moe->gpu, &moe->workspace_bytes);
    return err;
}

static cadre_err make_cpu(cadre_moe *moe, const cadre_moe_weights *weights, bool *fits, cadre_fail *why) {
    moe_scratch s = {0};
    arena count = {0};
    cadre_err err = moe_layer_init(&moe->layer, moe->device, &moe->desc, weights, NULL, why);
    if (!err) *fits = place(moe, &s, &count);
    moe->workspace_bytes = count.used;
    return err;
}

cadre_err cadre_moe_new(cadre_device *device, const cadre_moe_desc *desc, const cadre_moe_weights *weights,
                        cadre_moe **out, cadre_fail *why) {
    if (!device || !desc || !weights || !out)
        return cadre_fail_set(why, CADRE_RANGE, "cadre_moe_new: an argument is NULL");
    cadre_err err = check_desc(desc, why);
    if (!err) err = check_weights(desc, weights, why);
    if (err) return err;
    cadre_moe *moe = mem_new(sizeof *moe);
    if (!moe) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a MoE layer");
    moe->device = device;
    moe->desc = *desc;
    bool fits = false;
    err = device->gpu ? make_gpu(moe, weights, &fits, why) : make_cpu(moe, weights, &fits, why);
    if (!err && !fits)
        err = cadre_fail_set(why, CADRE_RANGE, "moe max_tokens is %d: the workspace is too large", desc->max_tokens);
    if (err)
        cadre_moe_free(moe);
    else
        *out = moe;
    return err;
}

void cadre_moe_free(cadre_moe *moe) {
    if (!moe) return;
    if (moe->gpu)
        moe_gpu_free(moe->gpu);
    else
        moe_layer_done(&moe->layer);
    mem_free(moe);
}

size_t cadre_moe_workspace_bytes(const cadre_moe *moe) {
    return moe->workspace_bytes;
}

static cadre_err make_space(const cadre_moe *moe, cadre_moe_workspace *w, cadre_fail *why) {
    if (moe->gpu) return moe_gpu_space_new(moe->gpu, &w->space, why);
    w->block = mem_new(moe->workspace_bytes);
    if (!w->block)
        return cadre_fail_set(why, CADRE_NOMEM, "no memory for a workspace of %zu bytes", moe->workspace_bytes);
    arena a = {.base = w->block, .size = moe->workspace_bytes};
    place(moe, &w->scratch, &a);
    return CADRE_OK;
}

cadre_err cadre_moe_workspace_new(const cadre_moe *moe, cadre_moe_workspace **out, cadre_fail *why) {
    if (!moe || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_moe_workspace_new: an argument is NULL");
    cadre_moe_workspace *w = mem_new(sizeof *w);
    if (!w) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a workspace");
    w->device = moe->device;
    w->desc = moe->desc;
    w->bytes = moe->workspace_bytes;
    cadre_err err = make_space(moe, w, why);
    if (err)
        cadre_moe_workspace_free(w);
    else
        *out = w;
    return err;
}

void cadre_moe_workspace_free(cadre_moe_workspace *w) {
    if (!w) return;
    moe_gpu_space_free(w->space);
    mem_free(w->block);
    mem_free(w);
}

void cadre_moe_profile(cadre_moe_workspace *w, cadre_profile *profile) {
    w->profile = profile;
    if (w->space) w->space->stamps = profile ? profile->stamps : NULL;
}

/* ---- running ---- */
typedef struct run_job {
    cadre_moe *moe;
    moe_scratch *s;
    int n;
    const float *x;
    float *out;
    bool route, experts;
    profiler *watch; /* set by run */
} run_job;

static void run_member(void *ctx, team *t) {
    const run_job *j = ctx;
    moe_layer *m = &j->moe->layer;
    size_t d = (size_t)m->desc.d;
    if (j->watch && team_id(t) == 0) team_watch(t, j->watch);
    if (j->route) moe_route_team(m, t, j->s, j->n, j->x, d);
    if (j->experts) moe_experts_team(m, t, j->s, j->n, j->x, d, NULL, 0, j->out, d, false);
}

/* Sizes alone decide a workspace, and the settings of the plan, which switches and tables may have changed between two
 * layers; other members of a description do not. */
static bool same_sizes(const cadre_moe_desc *a, const cadre_moe_desc *b) {
    return a->d == b->d && a->f == b->f && a->e == b->e && a->k == b->k && a->max_tokens == b->max_tokens &&
           a->dtype == b->dtype && a->act == b->act && a->shared_f == b->shared_f;
}

cadre_err api_check(const cadre_moe *moe, const cadre_moe_workspace *w, int n, cadre_fail *why) {
    if (!moe || !w) return cadre_fail_set(why, CADRE_RANGE, "the layer or its workspace is NULL");
    if (w->device != moe->device || !same_sizes(&w->desc, &moe->desc) || w->bytes != moe->workspace_bytes)
        return cadre_fail_set(why, CADRE_RANGE, "the workspace is that of a layer of another description or plan");
    if (n < 0 || n > moe->desc.max_tokens)
        return cadre_fail_set(why, CADRE_RANGE, "n is %d, expected 0..%d", n, moe->desc.max_tokens);
    return CADRE_OK;
}

/* A workspace holds one run at a time: two users would overwrite each other's routing. */
cadre_err api_enter(cadre_moe_workspace *w, cadre_fail *why) {
    if (!atomic_exchange(&w->busy, true)) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "the workspace is in use by another run; each at a time needs its own");
}

void api_leave(cadre_moe_workspace *w) {
    atomic_store(&w->busy, false);
}

static cadre_err null_rows(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_RANGE, "input or output rows are NULL");
}

static void run(cadre_moe_workspace *w, run_job job) {
    if (job.n == 0) return;
    if (w->profile) job.watch = &w->profile->rows;
    if (switch_get(SWITCH_POISON) && job.route) {
        size_t bytes = job.moe->workspace_bytes;
        arena_poison(&(arena){.base = w->block, .used = bytes, .size = bytes});
    }
    pool_run(job.moe->device->threads, run_member, &job);
}

cadre_err cadre_moe_run(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, float *out,
                        cadre_fail *why) {
    cadre_err err = api_check(moe, workspace, n, why);
    if (err) return err;
    if (n > 0 && (!x || !out)) return null_rows(why);
    if (moe->gpu) return n ? api_gpu_run(moe, workspace, n, x, NULL, NULL, out, why) : CADRE_OK;
    if ((err = api_enter(workspace, why))) return err;
    run(workspace, (run_job){moe, &workspace->scratch, n, x, out, true, true, NULL});
    api_leave(workspace);
    return CADRE_OK;
}

cadre_err cadre_moe_route(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, int32_t *ids,
                          float *weights, cadre_fail *why) {
    cadre_err err = api_check(moe, workspace, n, why);
    if (err || n == 0) return err;
    if (!x || !ids || !weights) return null_rows(why);
    if (moe->gpu) return api_gpu_route(moe, workspace, n, x, ids, weights, why);
    if ((err = api_enter(workspace, why))) return err;
    const moe_scratch *s = &workspace->scratch;
    run(workspace, (run_job){moe, &workspace->scratch, n, x, NULL, true, false, NULL});
    size_t pairs = (size_t)n * (size_t)moe->desc.k;
    memcpy(ids, s->ids, pairs * sizeof *ids);
    memcpy(weights, s->weights, pairs * sizeof *weights);
    api_leave(workspace);
    return CADRE_OK;
}

cadre_err cadre_moe_experts(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, const int32_t *ids,
                            const float *weights, float *out, cadre_fail *why) {
    cadre_err err = api_check(moe, workspace, n, why);
    if (err || n == 0) return err;
    if (!x || !ids || !weights || !out) return null_rows(why);
    int k = moe->desc.k, e = moe->desc.e;
    for (int p = 0; p < n * k; p++)
        if (ids[p] < -1 || ids[p] >= e)
            return cadre_fail_set(why, CADRE_RANGE, "expert id of token %d, slot %d is %d, expected -1..%d", p / k,
                                  p % k, (int)ids[p], e - 1);
    if (moe->gpu) return api_gpu_run(moe, workspace, n, x, ids, weights, out, why);
    if ((err = api_enter(workspace, why))) return err;
    memcpy(workspace->scratch.ids, ids, (size_t)(n * k) * sizeof *ids);
    memcpy(workspace->scratch.weights, weights, (size_t)(n * k) * sizeof *weights);
    run(workspace, (run_job){moe, &workspace->scratch, n, x, out, false, true, NULL});
    api_leave(workspace);
    return CADRE_OK;
}

/* ---- explaining ---- */
int moe_receipts(const cadre_moe *moe, cadre_receipt *out, int cap) {
    return moe->gpu ? moe_gpu_receipts(moe->gpu, out, cap) : moe_layer_receipts(&moe->layer, out, cap);
}

enum { RECEIPTS = 4 * PLAN_ROWS_MAX };

void cadre_moe_explain(const cadre_moe *moe, int n, char *text, size_t size) {
    cadre_receipt r[RECEIPTS];
    int count = moe_receipts(moe, r, RECEIPTS);
    size_t used = 0;
    if (size) text[0] = 0;
    for (int i = 0; i < count && used < size; i++) {
        if (n < r[i].n_lo || n > r[i].n_hi) continue;
        int wrote = snprintf(text + used, size - used, "%s (%s): %s, %s; %s: %s\n", r[i].op, r[i].shape, r[i].kernel,
                             r[i].config, r[i].source, r[i].why);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}
