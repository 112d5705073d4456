/* gpu.h: one MoE layer on a GPU: weights packed there once, kernels compiled for its shape, and the launches of a run.
 *
 *   x --router--> ids, weights, lists per expert; x as the experts want it --experts--> out
 *   x, ids, weights given: lists in the router's place
 *   shared expert: single --> experts (one expert, every token) added to out
 *
 * A run queues launches on one stream: it waits for nothing and allocates nothing. Private to moe. */
#ifndef CADRE_MOE_GPU_H
#define CADRE_MOE_GPU_H
#include "dev/cuda.h"
#include "moe/moe.h"
#include "plan/gpu.h"

typedef struct gpu_kernel {
    dev_cuda_module *module; /* NULL: not compiled, since no run needs it */
    dev_cuda_kernel kernel;
    unsigned threads, dynamic;
    int clusters; /* of router_many and prefill: so many run at once */
} gpu_kernel;

/* Experts of one width: those that are routed to, or the shared one. */
typedef struct gpu_set {
    int e, k, d, f;
    cadre_act act;
    void *w_up, *w_down; /* device: [e] packed matrices */
    size_t up_stride, down_stride;
    plan_gpu plan;
    gpu_kernel kernels[PLAN_GPU_ROWS]; /* one per row of the plan */
} gpu_set;

typedef struct moe_gpu {
    dev_cuda *gpu;
    cadre_moe_desc desc;
    gpu_set experts, shared;
    void *w_router;                       /* device, packed */
    float *bias, *shared_gate;            /* device, [e] and [d], or NULL */
    gpu_kernel routers[2][PLAN_GPU_ROWS]; /* [x is fp32][row] */
    gpu_kernel lists, single, round_out;
} moe_gpu;

/* Rows of a set's plan that runs can need: its first ones. */
static inline int gpu_rows(const moe_gpu *m, const gpu_set *s) {
    return plan_gpu_at(s->plan.rows, s->plan.count, m->desc.max_tokens) + 1;
}

/* Errors: UNSUPPORTED (this GPU, type or shape), COMPILE, NOMEM, DEVICE, RANGE (a switch). */
cadre_err moe_gpu_new(dev_cuda *gpu, const cadre_moe_desc *desc, const cadre_moe_weights *weights, moe_gpu **out,
                      cadre_fail *why);
void moe_gpu_free(moe_gpu *m);
int moe_gpu_receipts(const moe_gpu *m, cadre_receipt *out, int cap);

/* Parts of it: gpu_kernels.c, gpu_weights.c. */
cadre_err gpu_compile(moe_gpu *m, cadre_fail *why);
void gpu_compile_done(moe_gpu *m);
cadre_err gpu_weights(moe_gpu *m, const cadre_moe_weights *weights, cadre_fail *why);
void gpu_weights_done(moe_gpu *m);
/* One kernel of a text. */
cadre_err gpu_kernel_new(dev_cuda *gpu, const char *text, const char *name, const char *const *options, int count,
                         unsigned threads, size_t dynamic, gpu_kernel *out, cadre_fail *why);

/* ---- running ---- */

/* Device memory of one run at a time. Layers of one description may share it. */
typedef struct gpu_lists {
    int *next, *left, *done_down, *done_up, *counts, *gathered, *state; /* zero between runs; state: as it was left */
    int *list, *ids;
    float *weights;
    int *place;
    unsigned short *told_h[2], *told_y[2]; /* all ones where a run has written nothing, as told_ids */
    int *told_ids[2];
} gpu_lists;
typedef struct moe_gpu_space {
    dev_cuda *gpu;
    void *block, *stream; /* stream: of runs with host pointers */
    size_t bytes, zeros;  /* the counters come first: `zeros` bytes */
    size_t ones;          /* up to here what waits for data: all ones at first */
    size_t scratch;       /* up to here what a run makes anew */
    gpu_lists experts, shared;
    unsigned short *xq, *xb, *xs, *h, *y;
    float *sum;              /* [n][d] fp32 out, where two parts make a bf16 one */
    float *x, *out;          /* [n][d], of runs with host pointers */
    int *given;              /* [n][k], the same */
    float *given_weights;    /* the same */
    dev_cuda_stamps *stamps; /* NULL: runs are not watched */
    bool dirty;              /* a run stopped halfway: counters are not zero */
} moe_gpu_space;
/* False: too large to count. */
bool moe_gpu_space_bytes(const moe_gpu *m, size_t *bytes);
cadre_err moe_gpu_space_new(const moe_gpu *m, moe_gpu_space **out, cadre_fail *why);
void moe_gpu_space_free(moe_gpu_space *s);

typedef struct moe_gpu_run {
    void *stream;
    int n;
    const void *x; /* device, [n][d] */
    cadre_dtype x_type;
    const int *ids; /* device: given routing, or NULL */
    const float *weights;
    const int *forced; /* device: ids in place of those the router chooses, or NULL */
    void *out;         /* device, [n][d]; NULL: the router alone, and its ids and weights stay in the space */
    cadre_dtype out_type;
    const int *valid; /* device: how many of the tokens count, or NULL: all */
} moe_gpu_run;
/* Queues it. n <= max_tokens. out NULL: n <= PLAN_GPU_CHUNK. */
cadre_err moe_gpu_enqueue(moe_gpu *m, moe_gpu_space *s, const moe_gpu_run *run, cadre_fail *why);
#endif
