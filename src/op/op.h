/* op.h: what is computed, apart from where: shapes, packed layouts, and one contract per operation.
 *
 * Letters, used everywhere: n tokens (rows), d model width, f expert width, e experts, k experts per token, in/out the
 * sides of a matrix. The order of every sum is fixed by docs/numerics.md; op/ref is that order in plain C.
 *
 * A *kernel* is one implementation of a family on one instruction set; it works on a slice of units so that a team can
 * split the work, and never changes a bit with the slice or with its knobs.
 */
#ifndef CADRE_OP_H
#define CADRE_OP_H
#include "base/base.h"
#include "op/knobs.h"

enum { OP_LANES = 16 };       /* outputs side by side in a panel; also the partial sums of sum16 */
enum { OP_ATTN_SPLIT = 128 }; /* keys per attention split */
enum { OP_BLOCK = 32 };       /* inputs that share a scale in a quantized type */

/* ---- packed matrices ----
 * W [out][in] is packed once, in the order kernels stream it. A panel is 16 outputs; inputs go in groups of kp
 * (bf16: 2, f32: 1), zero-padded; a gated pair packs gate and up side by side (g = 2):
 *
 *   panel 0: group 0: gate lanes 0..15 x kp | up lanes 0..15 x kp     <- 64 bytes each
 *            group 1: ...
 *   panel 1: ...
 *
 * Quantized matrices have panels of their own (quant.h).
 */
static inline bool op_is_quant(cadre_dtype t) {
    return t == CADRE_Q8 || t == CADRE_Q4;
}
/* Inputs that go together: a pair of bf16, a block of a quantized type. */
static inline int op_group(cadre_dtype t) {
    return op_is_quant(t) ? OP_BLOCK : t == CADRE_BF16 ? 2 : 1;
}
/* Bytes of one activation of the type; rows of quantized types are counted in bytes (quant.h). */
static inline size_t op_dtype_size(cadre_dtype t) {
    return t == CADRE_F32 ? 4 : op_is_quant(t) ? 1 : 2;
}
static inline int op_panels(int out) {
    return (out + OP_LANES - 1) / OP_LANES;
}
/* in rounded up to whole groups; also the least row stride of an activation in a plain type. */
static inline int op_padded(cadre_dtype t, int in) {
    return (in + op_group(t) - 1) / op_group(t) * op_group(t);
}
/* Row stride of activations [n][ld], in elements: padded further so that every row starts on 64 bytes. A quantized row
 * holds, beside its bytes, a scale and a sum per block. */
static inline size_t op_stride(cadre_dtype t, int in) {
    size_t per_line = 64 / op_dtype_size(t), used = (size_t)in;
    if (op_is_quant(t)) used = (size_t)op_padded(t, in) + (size_t)op_padded(t, in) / OP_BLOCK * 8;
    return (used + per_line - 1) / per_line * per_line;
}
/* Panels of the up product that must be made together, because their outputs share a block. */
static inline int op_up_step(cadre_dtype t) {
    return op_is_quant(t) ? OP_BLOCK / OP_LANES : 1;
}
/* Bytes of one panel, and of the whole packed matrix; false on overflow. gated: 0 or 1. */
size_t op_panel_bytes(cadre_dtype t, int in, bool gated);
bool op_packed_bytes(cadre_dtype t, int out, int in, bool gated, size_t *bytes);
/* Packs panels [lo, hi) of W into dst (the whole matrix's start). up is NULL unless gated; then w is gate.
 * Source types: F32, F16, BF16; to BF16 rounds to nearest even, to F32 is exact. Weights that are denormal stay. */
void op_pack(cadre_dtype t, int out, int in, cadre_tensor w, cadre_tensor up, int lo, int hi, void *dst);

/* One value of a source tensor, exactly. */
float op_load(cadre_dtype t, const void *data, size_t index);
/* "f32", "bf16", "f16", "q8", "q4", by cadre_dtype; and back: -1 if there is none. */
const char *op_dtype_name(cadre_dtype t);
const char *op_act_name(cadre_act a); /* "swiglu", "swiglu-clamp", "relu2" */
int op_dtype_find(const char *name);
/* out[i] = v[i] in a plain type (F32 or BF16), rounded once. */
void op_round(cadre_dtype t, const float *v, size_t n, void *out);
/* One row of n activations in type t, rounded once, with zeros up to op_stride(t, n); or quantized (quant.h). */
void op_round_row(cadre_dtype t, const float *v, int n, void *row);
uint16_t op_bf16(float v); /* round to nearest even, denormals to zero, NaN quiet: what vcvtneps2bf16 does */
static inline float op_from_bf16(uint16_t v) {
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)v << 16};
    return x.f;
}
float op_from_f16(uint16_t v);

/* ---- scalar functions of the id, shared by ref and by scalar code on the token path ---- */
float op_exp(float x); /* docs/numerics.md gives the polynomial; kernels compute the same bits 16 at a time */
/* v[i] = op_exp(v[i]), the same bits; vectors: the CPU has AVX2 and FMA and they may be used. */
void op_exp_many(bool vectors, float *v, int n);
float op_sigmoid(float x);
float op_silu(float x);

/* ---- dense: y [n][out] = x [n][in] . W^T (+ bias) ---- */
typedef struct op_dense {
    int n, in, out;
    const void *x; /* [n][ldx], in the kernel's type, padding zero */
    size_t ldx;
    const void *w;     /* packed */
    const float *bias; /* [out] or NULL; added once after the chain */
    float *y;          /* [n][ldy] */
    size_t ldy;
    bool add;         /* y += result (one addition per element) instead of y = */
    const void *next; /* weights of the caller's next call, for a kernel to fetch their head; NULL: unknown */
} op_dense;
/* Units: panels of 16 outputs. */
typedef void op_dense_fn(const op_dense *a, const dense_knobs *knobs, int lo, int hi);

/* ---- experts: the two grouped products of a MoE layer over rows sorted by expert ---- */
typedef struct op_experts {
    int n, d, f, e, k; /* n tokens, k slots each: pair = token * k + slot */
    cadre_act act;
    float limit;
    const void *x; /* [n][ldx] in the kernel's type */
    size_t ldx;
    const int32_t *offset; /* [e + 1]: rows of expert i are offset[i]..offset[i+1]-1 */
    const int32_t *pair;   /* [rows]: the pair of each row, ascending inside an expert */
    const int32_t *row;    /* [n * k]: the row of each pair, -1 for an empty slot */
    const void *w_up;      /* packed [e] matrices of `up_stride` bytes, gated unless RELU2 */
    const void *w_down;
    size_t up_stride, down_stride;
    void *h; /* [rows][ldh] in the kernel's type: activations between the products; up's last panel zeroes the
                padding up to op_padded(f), which down reads */
    size_t ldh;
    const float *weight; /* [n * k] */
    float *out;          /* [n][ldo] */
    size_t ldo;
    bool add;         /* out += result (one addition per element) instead of out = */
    float *slots;     /* scratch of one member: [rows][16 * knobs->columns] */
    const void *next; /* weights of the caller's next call, for a kernel to fetch their head; NULL: unknown */
} op_experts;
/* h = act(up product), rows of one expert, for panels [lo, hi) of f. */
typedef void op_experts_up_fn(const op_experts *a, const experts_knobs *knobs, int expert, int lo, int hi);
/* Panels [lo, hi) of d (hi - lo <= knobs->columns), all experts, then combined in slot order. */
typedef void op_experts_down_fn(const op_experts *a, const experts_knobs *knobs, int lo, int hi);

/* ---- norm: RMS norm of rows ---- */
typedef struct op_norm {
    int n, d;
    const float *x; /* [n][ldx] */
    size_t ldx;
    const float *weight; /* [d] */
    float eps;
    float *y; /* [n][ldy] or NULL; may be x */
    size_t ldy;
    void *z; /* [n][ldz] rounded to ztype, padding to ldz zeroed; or NULL */
    size_t ldz;
    cadre_dtype ztype;
} op_norm;
/* Units: rows. */
typedef void op_norm_fn(const op_norm *a, const norm_knobs *knobs, int lo, int hi);

/* ---- attn: causal grouped-query attention of new rows over a cache ---- */
typedef struct op_attn_row {
    const void *k, *v; /* the sequence's cache of this layer: [positions][kv_heads][head_dim] in the kernel's type */
    int position;      /* the row sees keys 0..position */
} op_attn_row;
typedef struct op_attn {
    int n, heads, kv_heads, head_dim;
    const op_attn_row *rows; /* [n] */
    const float *q;          /* [n][ldq], heads * head_dim used */
    size_t ldq;
    float scale;
    void *out; /* [n][ldo] in otype: head-major, rounded once, padding to ldo zeroed */
    size_t ldo;
    cadre_dtype otype;
} op_attn;
/* Units: n * kv_heads, row-major; the last kv head of a row zeroes its padding. */
typedef void op_attn_fn(const op_attn *a, const attn_knobs *knobs, int lo, int hi);

/* ---- rope: rotate heads in place, half-split pairs (i, i + rotary/2) ---- */
/* x: heads of head_dim; cos, sin: [rotary / 2] of one position. out[i] = x[i] c - x[j] s; out[j] = x[j] c + x[i] s. */
void op_rope(float *x, int heads, int head_dim, int rotary, const float *cos, const float *sin);

/* ---- router: scores to choices ---- */
typedef struct op_router {
    int e, k;
    cadre_gate gate;
    bool renormalize;
    float scale;
    int groups, topk_groups;
    const float *bias; /* [e] or NULL */
} op_router;
/* One row of logits [e] -> ids [k] by falling choice score (ties: lower id), weights [k]. scratch: [2 * e] floats.
 * NaN logits count as -infinity: ids stay distinct and in range, weights finite. */
void op_route(const op_router *r, const float *logits, int32_t *ids, float *weights, float *scratch);
/* The smallest id of the largest value, NaN as -infinity. */
int op_argmax(const float *v, int n);

/* ---- align.h holds token counting, alignment and permutation ---- */
#endif
