/* moe.h: one MoE layer: router -> align -> experts -> combine for n tokens, and the plain MLP as its one-expert case.
 *
 *   x [n][d] --norm'd, fp32--+--> router (fp32) -> ids, weights [n][k] -> rows sorted by expert
 *                            '--> rounded to the layer's type -> up -> h [rows][f] -> down + combine -> out [n][d]
 *
 * Every function named *_team is called by all members of a running team with the same arguments, and ends with its
 * results visible to all (a barrier is inside).
 */
#ifndef CADRE_MOE_H
#define CADRE_MOE_H
#include "plan/plan.h"
#include "plan/workspace.h"

/* Where packing reads its tensors' bytes; NULL: they are in memory. `from` lies inside a tensor; several members of a
 * team read at the same time. Zero it, set read and ctx; one source serves one packing at a time. */
typedef struct moe_source {
    cadre_err (*read)(void *ctx, const void *from, size_t n, void *dst, cadre_fail *why);
    void *ctx;
    char *buffer; /* of all members, kept between matrices */
    size_t bytes;
} moe_source;
void moe_source_done(moe_source *s); /* the buffer alone is its own */
/* n values of any type as fp32 that the caller owns. */
cadre_err moe_vector(cadre_tensor v, int n, moe_source *from, float **out, cadre_fail *why);

/* A packed matrix with its plan: y = x . W^T. Shared with model for projections and the head. */
typedef struct moe_dense {
    int in, out;
    cadre_dtype dtype;
    void *w; /* packed, mem_new_huge */
    size_t bytes;
    float *bias; /* [out] or NULL, owned */
    plan plan;
} moe_dense;
/* Packs w [out][in] on the device's team. bias.data NULL: none. */
cadre_err moe_dense_init(moe_dense *m, cadre_device *device, const char *role, cadre_dtype dtype, int out, int in,
                         cadre_tensor w, cadre_tensor bias, moe_source *from, cadre_fail *why);
void moe_dense_done(moe_dense *m); /* a zeroed struct is fine */
/* y [n][ldy] (+)= x [n][ldx] . W^T. x in m->dtype with zero padding up to op_padded. */
void moe_dense_team(moe_dense *m, team *t, int n, const void *x, size_t ldx, float *y, size_t ldy, bool add);

/* The experts of a layer, packed. */
typedef struct moe_experts {
    int e, k, d, f;
    cadre_dtype dtype;
    cadre_act act;
    float limit;
    void *w_up, *w_down; /* [e] packed matrices */
    size_t up_stride, down_stride;
    plan plan;
} moe_experts;
cadre_err moe_experts_init(moe_experts *m, cadre_device *device, const char *role, cadre_dtype dtype, int e, int k,
                           int d, int f, cadre_act act, float limit, const cadre_tensor *gate, const cadre_tensor *up,
                           const cadre_tensor *down, moe_source *from, cadre_fail *why);
void moe_experts_done(moe_experts *m);

/* A whole layer. Also the layout behind the public cadre_moe. A dense MLP is e = k = 1 without a router. */
typedef struct moe_layer {
    cadre_moe_desc desc;
    moe_dense router; /* F32 always */
    float *bias;      /* [e] or NULL, owned */
    moe_experts experts;
    bool has_shared, has_shared_gate, has_router;
    moe_experts shared;    /* e = k = 1 */
    moe_dense shared_gate; /* F32, [1][d] */
} moe_layer;
cadre_err moe_layer_init(moe_layer *m, cadre_device *device, const cadre_moe_desc *desc,
                         const cadre_moe_weights *weights, moe_source *from, cadre_fail *why);
/* What the layer will be, before its weights: its shape and the plans that scratch is sized by. init starts anew. */
cadre_err moe_layer_plan(moe_layer *m, cadre_device *device, const cadre_moe_desc *desc, cadre_fail *why);
/* gate, up [f][d], down [d][f]: the plain MLP. */
cadre_err moe_layer_init_mlp(moe_layer *m, cadre_device *device, cadre_dtype dtype, int d, int f, int max_tokens,
                             cadre_act act, cadre_tensor gate, cadre_tensor up, cadre_tensor down, moe_source *from,
                             cadre_fail *why);
/* Its description. */
cadre_moe_desc moe_layer_mlp(cadre_dtype dtype, int d, int f, int max_tokens, cadre_act act);
void moe_layer_done(moe_layer *m);
size_t moe_layer_weight_bytes(const moe_layer *m); /* packed matrices */
size_t moe_layer_fixed_bytes(const moe_layer *m);  /* of what every run reads: router and shared gate */

/* Scratch for one run at a time, sized for the largest of several layers. Nothing in it outlives a run. Place it with
 * an arena: moe_scratch_take on a counting arena tells the size, on a real one it places. */
typedef struct moe_scratch {
    void *x;             /* [n][op_stride] rows rounded to the layer's type, for callers that hold fp32 only */
    float *logits;       /* [n][e] */
    float *route;        /* [members][2 * e] */
    int32_t *ids;        /* [n][k] */
    float *weights;      /* [n][k] */
    int32_t *offset;     /* [e + 1] */
    int32_t *pair, *row; /* [n * k] */
    int32_t *active;     /* [e]: experts that have rows; active_count of them */
    int active_count;
    size_t touched; /* bytes of experts that had rows, added up by member 0; the caller sets it to 0 */
    void *h;        /* [n * k][ldh] */
    float *slots;   /* [members][n * k][16 * columns], columns: the most that a plan takes */
    size_t slots_stride;
} moe_scratch;
void moe_scratch_take(moe_scratch *s, arena *a, const moe_layer *const *layers, int count, int max_tokens, int members);

/* Its parts for one layer and `tokens`, and from which stage to which each lives; they share nothing, and all layers
 * share them. false: a size does not fit. */
typedef enum moe_stage { MOE_ROUTE, MOE_ALIGN, MOE_ROUND, MOE_UP, MOE_DOWN, MOE_COMBINE, MOE_STAGES } moe_stage;
extern const char *const moe_stages[MOE_STAGES];
enum { MOE_PARTS = 11 };
bool moe_scratch_parts(const moe_layer *layer, int tokens, int members, work_part out[MOE_PARTS]);

/* The layer on x [n][ldx] (fp32) and z [n][ldz] (the same rows rounded to the layer's type, zero-padded; NULL: the
 * layer rounds x itself). out [n][ldo] (+)= result. n >= 0. */
void moe_layer_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx, const void *z, size_t ldz,
                    float *out, size_t ldo, bool add);
/* Its parts. route fills s->ids and s->weights; experts uses them. */
void moe_route_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx);
void moe_experts_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx, const void *z,
                      size_t ldz, float *out, size_t ldo, bool add);
int moe_layer_receipts(const moe_layer *m, cadre_receipt *out, int cap);

/* ---- on a GPU ---- */
/* cadre_moe_enqueue with the router's choice replaced: it does its work, then takes the expert ids `forced` [n][k],
 * device memory, all in 0..e-1. For measuring a given routing. */
cadre_err moe_enqueue_forced(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n, const void *x,
                             cadre_dtype x_type, const int32_t *forced, void *out, cadre_dtype out_type,
                             cadre_fail *why);
/* Receipts of a layer, on whichever device. */
int moe_receipts(const cadre_moe *moe, cadre_receipt *out, int cap);

/* What the router and the routed experts of a layer would run on such a GPU, which need not be there; a layer is
 * refused where plan_gpu_check refuses its 1..max_tokens. Errors: UNSUPPORTED (compute capability, type, shape), RANGE.
 */
struct dev_cuda_traits;
struct plan_gpu;
cadre_err moe_gpu_plan(const struct dev_cuda_traits *gpu, const cadre_moe_desc *desc, struct plan_gpu *out,
                       cadre_fail *why);
/* The numerics id of layers on such a GPU; NULL: none yet. */
const char *moe_gpu_numerics(const struct dev_cuda_traits *gpu);
#endif
