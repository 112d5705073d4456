/* gpu_weights.c: a layer's weights brought to the GPU and packed there.
 *
 *   caller's tensor --pieces--> pinned buffer (two, by turns) --> row-major on the GPU --pack--> tiles
 *
 * All on one stream: a piece is copied out while the next is read in, and a matrix is packed while the next arrives. */
#include "moe/gpu.h"
#include "op/cuda/args.h"

#include <string.h>

enum { PIECE = 8 << 20, THREADS = 256 };

typedef struct loader {
    dev_cuda *gpu;
    gpu_kernel pack;
    void *stream, *pinned[2], *copied[2]; /* copied: events */
    void *rows;                           /* device: up to two matrices, row-major */
    int turn;
    cadre_fail *why;
} loader;

/* ---- from host to device ---- */

static cadre_err put(loader *l, void *to, const void *from, size_t bytes) {
    cadre_err err = CADRE_OK;
    for (size_t at = 0; at < bytes && !err; at += PIECE, l->turn ^= 1) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        err = dev_cuda_event_sync(l->gpu, l->copied[l->turn], l->why);
        if (err) break;
        memcpy(l->pinned[l->turn], (const char *)from + at, n);
        err = dev_cuda_put_async(l->gpu, (char *)to + at, l->pinned[l->turn], n, l->stream, l->why);
        if (!err) err = dev_cuda_event_record(l->gpu, l->copied[l->turn], l->stream, l->why);
    }
    return err;
}

/* w (and up beside it, of a gated pair) [rows][in] into tiles at `to`. */
static cadre_err pack(loader *l, void *to, int order, const cadre_tensor *w, const cadre_tensor *up, int rows, int in,
                      int tiles, int steps) {
    size_t bytes = (size_t)rows * (size_t)in * op_dtype_size(w->dtype);
    void *from = l->rows, *second = up ? (char *)l->rows + bytes : NULL;
    int type = (int)w->dtype;
    cadre_err err = put(l, from, w->data, bytes);
    if (!err && up) err = put(l, second, up->data, bytes);
    void *args[] = {&to, &from, &second, &type, &order, &rows, &in, &tiles, &steps};
    size_t threads = (size_t)tiles * (size_t)steps * 32;
    dev_cuda_launch launch = {.kernel = &l->pack.kernel,
                              .grid = {(unsigned)((threads + THREADS - 1) / THREADS)},
                              .block = {THREADS},
                              .stream = l->stream,
                              .args = args};
    return err ? err : dev_cuda_run(l->gpu, &launch, l->why);
}

/* ---- a set of experts ---- */

static cadre_err same_type(const cadre_tensor *a, const cadre_tensor *b, cadre_fail *why) {
    if (a->dtype == b->dtype) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "moe weights: gate is %s and up is %s, on a GPU they are of one type",
                          op_dtype_name(a->dtype), op_dtype_name(b->dtype));
}

static cadre_err load_set(loader *l, gpu_set *s, const cadre_tensor *gate, const cadre_tensor *up,
                          const cadre_tensor *down) {
    bool gated = s->act != CADRE_RELU2;
    int up_tiles = cuda_up_tiles(s->f, gated), down_tiles = cuda_tiles(s->d);
    int up_steps = cuda_steps(s->d), down_steps = cuda_steps(s->f);
    s->up_stride = (size_t)up_tiles * (size_t)up_steps * 512;
    s->down_stride = (size_t)down_tiles * (size_t)down_steps * 512;
    cadre_err err = dev_cuda_alloc(l->gpu, s->up_stride * (size_t)s->e, &s->w_up, l->why);
    if (!err) err = dev_cuda_alloc(l->gpu, s->down_stride * (size_t)s->e, &s->w_down, l->why);
    for (int i = 0; i < s->e && !err; i++) {
        char *to_up = (char *)s->w_up + s->up_stride * (size_t)i;
        char *to_down = (char *)s->w_down + s->down_stride * (size_t)i;
        if (gated) err = same_type(&gate[i], &up[i], l->why);
        if (!err)
            err = pack(l, to_up, gated ? PACK_UP_GATED : PACK_UP, gated ? &gate[i] : &up[i], gated ? &up[i] : NULL,
                       s->f, s->d, up_tiles, up_steps);
        if (!err) err = pack(l, to_down, PACK_DOWN, &down[i], NULL, s->d, s->f, down_tiles, down_steps);
    }
    return err;
}

static cadre_err load_vector(loader *l, cadre_tensor v, int n, float **out) {
    float *host = NULL;
    void *p = NULL;
    if (!v.data) return CADRE_OK;
    cadre_err err = moe_vector(v, n, NULL, &host, l->why);
    if (!err) err = dev_cuda_alloc(l->gpu, (size_t)n * sizeof *host, &p, l->why);
    *out = p;
    if (!err) err = put(l, p, host, (size_t)n * sizeof *host);
    if (!err) err = dev_cuda_sync(l->gpu, l->stream, l->why);
    mem_free(host);
    return err;
}

static cadre_err load_router(loader *l, moe_gpu *m, cadre_tensor w) {
    const cadre_moe_desc *d = &m->desc;
    int tiles = cuda_tiles(d->e), steps = cuda_steps(d->d);
    cadre_err err = dev_cuda_alloc(l->gpu, (size_t)tiles * (size_t)steps * 512, &m->w_router, l->why);
    return err ? err : pack(l, m->w_router, PACK_NATURAL, &w, NULL, d->e, d->d, tiles, steps);
}

/* ---- all of it ---- */

/* Room for two matrices of the widest kind, in fp32. */
static size_t rows_bytes(const cadre_moe_desc *d) {
    size_t f = (size_t)(d->f > d->shared_f ? d->f : d->shared_f), e = (size_t)d->e;
    return (2 * f > e ? 2 * f : e) * (size_t)d->d * sizeof(float);
}

static cadre_err start(loader *l, const cadre_moe_desc *d) {
    cadre_err err = gpu_kernel_new(l->gpu, "pack.cu", "pack", NULL, 0, THREADS, 0, &l->pack, l->why);
    if (!err) err = dev_cuda_stream_new(l->gpu, &l->stream, l->why);
    if (!err) err = dev_cuda_alloc(l->gpu, rows_bytes(d), &l->rows, l->why);
    for (int i = 0; i < 2 && !err; i++) {
        err = dev_cuda_alloc_host(l->gpu, PIECE, &l->pinned[i], l->why);
        if (!err) err = dev_cuda_event_new(l->gpu, &l->copied[i], l->why);
    }
    return err;
}

static void stop(loader *l) {
    for (int i = 0; i < 2; i++) {
        dev_cuda_event_free(l->gpu, l->copied[i]);
        dev_cuda_free_host(l->gpu, l->pinned[i]);
    }
    dev_cuda_free(l->gpu, l->rows);
    dev_cuda_stream_free(l->gpu, l->stream);
    dev_cuda_module_free(l->gpu, l->pack.module);
}

static cadre_err load_all(loader *l, moe_gpu *m, const cadre_moe_weights *w) {
    const cadre_moe_desc *d = &m->desc;
    cadre_err err = load_router(l, m, w->router);
    if (!err) err = load_vector(l, w->bias, d->e, &m->bias);
    if (!err) err = load_set(l, &m->experts, w->gate, w->up, w->down);
    if (!err && d->shared_f) err = load_set(l, &m->shared, &w->shared_gate, &w->shared_up, &w->shared_down);
    if (!err && d->shared_f) err = load_vector(l, w->shared_expert_gate, d->d, &m->shared_gate);
    return err;
}

cadre_err gpu_weights(moe_gpu *m, const cadre_moe_weights *weights, cadre_fail *why) {
    loader l = {.gpu = m->gpu, .why = why};
    cadre_fail inner = {0};
    cadre_err err = start(&l, &m->desc);
    if (!err) err = load_all(&l, m, weights);
    cadre_err end = l.stream ? dev_cuda_sync(m->gpu, l.stream, err ? &inner : why) : CADRE_OK;
    stop(&l);
    return err ? err : end;
}

void gpu_weights_done(moe_gpu *m) {
    void *parts[] = {m->experts.w_up, m->experts.w_down, m->shared.w_up, m->shared.w_down,
                     m->w_router,     m->bias,           m->shared_gate};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) dev_cuda_free(m->gpu, parts[i]);
}
