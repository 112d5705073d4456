/* bits.c: random problems through bits.cu, and what their outputs have in common. */
#include "moe/bits.h"
#include "moe/gpu.h"
#include "op/check.h"
#include "op/cuda/args.h"

#include <string.h>

enum { PROBLEMS = 4, MOST_K = 2688, KINDS = 3, SIZE = BITS_TOKENS * BITS_ROWS };
static const int widths[] = {16, 64, 768, 2048, MOST_K};

typedef struct rig {
    dev_cuda *gpu;
    gpu_kernel kernel;
    uint16_t *w, *x; /* host: [PROBLEMS][rows or tokens][k] */
    float *out;      /* host: [PROBLEMS][BITS_WAYS][SIZE] */
    float *plain;    /* host: one problem's weights and tokens as fp32 */
    double *want;    /* host: one problem's outputs */
    void *dw, *dx, *dout;
    moe_bits *b;
    cadre_fail *why;
} rig;

/* ---- values: even; of many sizes; large ones that cancel ---- */

static float value(rand_stream *r, int kind) {
    float v = rand_float(r);
    uint32_t u = rand_u32(r);
    if (kind == 1) return v * (float)(1u << u % 16) * 0x1p-8f;
    if (kind == 2 && u % 8 == 0) return u & 256 ? 1000.0f : -1000.0f;
    return v;
}

static void fill(uint16_t *to, size_t n, rand_stream *r, int kind) {
    for (size_t i = 0; i < n; i++) to[i] = op_bf16(value(r, kind));
}

/* ---- the outputs of one width and kind ---- */

static int64_t differing(const float *a, const float *b) {
    int64_t n = 0;
    for (int i = 0; i < SIZE; i++) n += memcmp(a + i, b + i, sizeof *a) != 0;
    return n;
}

static void against_meaning(rig *g, int problem, int k, const float *out) {
    const uint16_t *w = g->w + (size_t)problem * BITS_ROWS * (size_t)k,
                   *x = g->x + (size_t)problem * BITS_TOKENS * (size_t)k;
    float *fw = g->plain, *fx = fw + (size_t)BITS_ROWS * (size_t)k;
    for (size_t i = 0; i < (size_t)BITS_ROWS * (size_t)k; i++) fw[i] = op_from_bf16(w[i]);
    for (size_t i = 0; i < (size_t)BITS_TOKENS * (size_t)k; i++) fx[i] = op_from_bf16(x[i]);
    check_dense(BITS_TOKENS, k, BITS_ROWS, fx, fw, NULL, g->want);
    double error = check_relative(out, g->want, SIZE);
    if (error > g->b->error) g->b->error = error;
}

static void compare(rig *g, int k) {
    moe_bits *b = g->b;
    for (int p = 0; p < PROBLEMS; p++) {
        const float *way = g->out + (size_t)p * BITS_WAYS * SIZE, *first = way + BITS_MMA * SIZE;
        b->outputs += SIZE;
        b->swapped += differing(first, way + BITS_SWAPPED * SIZE);
        b->wgmma_8 += differing(first, way + BITS_WGMMA_8 * SIZE);
        b->wgmma_32 += differing(first, way + BITS_WGMMA_32 * SIZE);
        b->shared += differing(first, way + BITS_SHARED * SIZE);
        if (k > 16) {
            b->could += SIZE;
            b->backward += differing(first, way + BITS_BACKWARD * SIZE);
            b->fma += differing(first, way + BITS_FMA * SIZE);
        }
        against_meaning(g, p, k, first);
    }
}

static cadre_err run(rig *g, int k, rand_stream *r, int kind) {
    size_t rows = (size_t)PROBLEMS * BITS_ROWS * (size_t)k, tokens = (size_t)PROBLEMS * BITS_TOKENS * (size_t)k;
    size_t bytes = (size_t)PROBLEMS * BITS_WAYS * SIZE * sizeof *g->out;
    bits_args a = {g->dw, g->dx, g->dout, k};
    void *list[] = {&a};
    dev_cuda_launch l = {.kernel = &g->kernel.kernel, .grid = {PROBLEMS}, .block = {g->kernel.threads}, .args = list};
    fill(g->w, rows, r, kind);
    fill(g->x, tokens, r, kind);
    cadre_err err = dev_cuda_put(g->gpu, g->dw, g->w, rows * sizeof *g->w, g->why);
    if (!err) err = dev_cuda_put(g->gpu, g->dx, g->x, tokens * sizeof *g->x, g->why);
    if (!err) err = dev_cuda_fill_async(g->gpu, g->dout, 0xff, bytes, NULL, g->why); /* what is left out is NaN */
    if (!err) err = dev_cuda_run(g->gpu, &l, g->why);
    if (!err) err = dev_cuda_sync(g->gpu, NULL, g->why);
    if (!err) err = dev_cuda_get(g->gpu, g->out, g->dout, bytes, g->why);
    if (!err) compare(g, k);
    return err;
}

/* ---- all of it ---- */

static cadre_err ready(rig *g) {
    const dev_cuda_traits *t = dev_cuda_about(g->gpu);
    size_t w = (size_t)PROBLEMS * BITS_ROWS * MOST_K, x = (size_t)PROBLEMS * BITS_TOKENS * MOST_K;
    size_t out = (size_t)PROBLEMS * BITS_WAYS * SIZE;
    if (t->major != 9 || t->minor != 0)
        return cadre_fail_set(g->why, CADRE_UNSUPPORTED, "wgmma is there on compute capability 9.0 alone, %s has %d.%d",
                              t->name, t->major, t->minor);
    g->w = mem_new_array(w + x, sizeof *g->w);
    g->out = mem_new_array(out + (size_t)(BITS_ROWS + BITS_TOKENS) * MOST_K, sizeof *g->out);
    g->want = mem_new_array(SIZE, sizeof *g->want);
    if (!g->w || !g->out || !g->want) return cadre_fail_set(g->why, CADRE_NOMEM, "out of memory for the products");
    g->x = g->w + w, g->plain = g->out + out;
    cadre_err err = dev_cuda_alloc(g->gpu, w * sizeof *g->w, &g->dw, g->why);
    if (!err) err = dev_cuda_alloc(g->gpu, x * sizeof *g->x, &g->dx, g->why);
    if (!err) err = dev_cuda_alloc(g->gpu, out * sizeof *g->out, &g->dout, g->why);
    return err ? err : gpu_kernel_new(g->gpu, "bits.cu", "bits", NULL, 0, 128, 0, &g->kernel, g->why);
}

static void done(rig *g) {
    dev_cuda_module_free(g->gpu, g->kernel.module);
    dev_cuda_free(g->gpu, g->dw), dev_cuda_free(g->gpu, g->dx), dev_cuda_free(g->gpu, g->dout);
    mem_free(g->w), mem_free(g->out), mem_free(g->want);
}

cadre_err moe_bits_compare(dev_cuda *gpu, uint64_t seed, moe_bits *out, cadre_fail *why) {
    rig g = {.gpu = gpu, .b = out, .why = why};
    rand_stream r = {.key = seed};
    *out = (moe_bits){.most = check_tolerance(OP_EXPERTS, CADRE_BF16, MOST_K)};
    cadre_err err = ready(&g);
    for (size_t i = 0; i < sizeof widths / sizeof *widths && !err; i++)
        for (int kind = 0; kind < KINDS && !err; kind++) err = run(&g, widths[i], &r, kind);
    done(&g);
    return err;
}

bool moe_bits_ok(const moe_bits *b) {
    return b->outputs > 0 && !(b->swapped + b->wgmma_8 + b->wgmma_32 + b->shared) && b->error <= b->most &&
           b->backward > b->could / 4 && b->fma > b->could / 4;
}
