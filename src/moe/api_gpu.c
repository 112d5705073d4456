/* api_gpu.c: the public MoE layer on a GPU: with the caller's device pointers and stream, and with host pointers. */
#include "moe/api.h"

#include <stdint.h>

/* ---- device pointers ---- */

static cadre_err check_type(const char *name, cadre_dtype t, cadre_fail *why) {
    if (t == CADRE_F32 || t == CADRE_BF16) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "the type of %s is %d, expected f32 or bf16", name, (int)t);
}

/* Rows are read 16 bytes at a time where they are a multiple of that. */
static cadre_err check_place(const char *name, const void *p, size_t unit, cadre_fail *why) {
    if (!p) return cadre_fail_set(why, CADRE_RANGE, "%s is NULL", name);
    if ((uintptr_t)p % unit == 0) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "%s lies at %p, expected a multiple of %zu", name, (void *)(uintptr_t)p,
                          unit);
}

static cadre_err check_run(const cadre_moe *moe, const cadre_moe_workspace *w, const moe_gpu_run *r, cadre_fail *why) {
    cadre_err err = api_check(moe, w, r->n, why);
    if (!err && !moe->gpu)
        err = cadre_fail_set(why, CADRE_UNSUPPORTED, "the layer is on the CPU: cadre_moe_run takes its pointers");
    if (!err) err = check_type("x", r->x_type, why);
    if (!err) err = check_type("out", r->out_type, why);
    if (err || r->n == 0) return err;
    err = check_place("x", r->x, moe->desc.d % 8 ? op_dtype_size(r->x_type) : 16, why);
    if (!err) err = check_place("out", r->out, op_dtype_size(r->out_type), why);
    if (!err && !r->ids != !r->weights)
        err = cadre_fail_set(why, CADRE_RANGE, "ids and weights come together, one of them is NULL");
    return err;
}

static cadre_err enqueue(cadre_moe *moe, cadre_moe_workspace *w, const moe_gpu_run *r, cadre_fail *why) {
    cadre_err err = check_run(moe, w, r, why);
    if (err || r->n == 0) return err;
    if ((err = api_enter(w, why))) return err;
    err = moe_gpu_enqueue(moe->gpu, w->space, r, why);
    api_leave(w);
    return err;
}

cadre_err cadre_moe_enqueue(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n, const void *x,
                            cadre_dtype x_type, const int32_t *ids, const float *weights, void *out,
                            cadre_dtype out_type, cadre_fail *why) {
    moe_gpu_run r = {stream, n, x, x_type, ids, weights, NULL, out, out_type, NULL};
    return enqueue(moe, workspace, &r, why);
}

cadre_err cadre_moe_enqueue_valid(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n,
                                  const int32_t *n_valid, const void *x, cadre_dtype x_type, const int32_t *ids,
                                  const float *weights, void *out, cadre_dtype out_type, cadre_fail *why) {
    moe_gpu_run r = {stream, n, x, x_type, ids, weights, NULL, out, out_type, n_valid};
    cadre_err err = check_place("n_valid", n_valid, sizeof *n_valid, why);
    return err ? err : enqueue(moe, workspace, &r, why);
}

cadre_err moe_enqueue_forced(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n, const void *x,
                             cadre_dtype x_type, const int32_t *forced, void *out, cadre_dtype out_type,
                             cadre_fail *why) {
    moe_gpu_run r = {stream, n, x, x_type, NULL, NULL, forced, out, out_type, NULL};
    return enqueue(moe, workspace, &r, why);
}

/* ---- host pointers ---- */

static cadre_err run_host(cadre_moe *moe, cadre_moe_workspace *w, int n, const float *x, const int32_t *ids,
                          const float *weights, float *out, cadre_fail *why) {
    moe_gpu_space *s = w->space;
    dev_cuda *gpu = moe->gpu->gpu;
    size_t row = (size_t)moe->desc.d * sizeof *x, pairs = (size_t)n * (size_t)moe->desc.k;
    cadre_err err = dev_cuda_put_async(gpu, s->x, x, (size_t)n * row, s->stream, why);
    if (!err && ids) err = dev_cuda_put_async(gpu, s->given, ids, pairs * sizeof *ids, s->stream, why);
    if (!err && ids) err = dev_cuda_put_async(gpu, s->given_weights, weights, pairs * sizeof *weights, s->stream, why);
    moe_gpu_run r = {.stream = s->stream, .n = n, .x = s->x, .out = s->out};
    if (ids) r.ids = s->given, r.weights = s->given_weights;
    if (!err) err = moe_gpu_enqueue(moe->gpu, s, &r, why);
    if (!err) err = dev_cuda_get_async(gpu, out, s->out, (size_t)n * row, s->stream, why);
    if (!err) err = dev_cuda_sync(gpu, s->stream, why);
    return err || !w->profile ? err : cadre_profile_collect(w->profile, why);
}

cadre_err api_gpu_run(cadre_moe *moe, cadre_moe_workspace *w, int n, const float *x, const int32_t *ids,
                      const float *weights, float *out, cadre_fail *why) {
    cadre_err err = api_enter(w, why);
    if (err) return err;
    err = run_host(moe, w, n, x, ids, weights, out, why);
    api_leave(w);
    return err;
}

/* A launch at a time: its routing stays in the space until the next. */
static cadre_err route_part(cadre_moe *moe, moe_gpu_space *s, int n, const float *x, int32_t *ids, float *weights,
                            cadre_fail *why) {
    dev_cuda *gpu = moe->gpu->gpu;
    size_t row = (size_t)moe->desc.d * sizeof *x, pairs = (size_t)n * (size_t)moe->desc.k;
    cadre_err err = dev_cuda_put_async(gpu, s->x, x, (size_t)n * row, s->stream, why);
    moe_gpu_run r = {.stream = s->stream, .n = n, .x = s->x};
    if (!err) err = moe_gpu_enqueue(moe->gpu, s, &r, why);
    if (!err) err = dev_cuda_get_async(gpu, ids, s->experts.ids, pairs * sizeof *ids, s->stream, why);
    if (!err) err = dev_cuda_get_async(gpu, weights, s->experts.weights, pairs * sizeof *weights, s->stream, why);
    return err ? err : dev_cuda_sync(gpu, s->stream, why);
}

cadre_err api_gpu_route(cadre_moe *moe, cadre_moe_workspace *w, int n, const float *x, int32_t *ids, float *weights,
                        cadre_fail *why) {
    size_t d = (size_t)moe->desc.d, k = (size_t)moe->desc.k;
    cadre_err err = api_enter(w, why);
    if (err) return err;
    for (int at = 0; at < n && !err; at += PLAN_GPU_CHUNK) {
        int here = n - at < PLAN_GPU_CHUNK ? n - at : PLAN_GPU_CHUNK;
        err = route_part(moe, w->space, here, x + (size_t)at * d, ids + (size_t)at * k, weights + (size_t)at * k, why);
    }
    api_leave(w);
    return err;
}
