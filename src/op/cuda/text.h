/* text.h: the embedded device texts, and which of their shapes and knobs CI compiles for which architectures. Words
 * only: nothing here knows a GPU. A neighbour's header.
 *
 * A new text: its file here (the Makefile embeds src/op/cuda/x.cu as op_cuda_x_cu, x.cuh as op_cuda_x_cuh), one line in
 * OP_CUDA_TEXTS, and its corners in text.c. tests/op/cuda_compile.c then compiles each corner and holds its registers,
 * shared memory and spills against tests/op/cuda_resources.txt (make cuda-resources writes it anew). */
#ifndef CADRE_OP_CUDA_TEXT_H
#define CADRE_OP_CUDA_TEXT_H
#include <stdbool.h>

/* X(symbol, name that #include and messages use). Headers are those that are no .cu; every text may include them all.
 */
#define OP_CUDA_TEXTS(X)                              \
    X(op_exp_h, "exp.h")                              \
    X(op_cuda_common_cuh, "common.cuh")               \
    X(op_cuda_instructions_cuh, "instructions.cuh")   \
    X(op_cuda_wgmma_cuh, "wgmma.cuh")                 \
    X(op_cuda_cluster_cuh, "cluster.cuh")             \
    X(op_cuda_experts_cuh, "experts.cuh")             \
    X(op_cuda_experts_shape_cuh, "experts_shape.cuh") \
    X(op_cuda_experts_parts_cuh, "experts_parts.cuh") \
    X(op_cuda_prefill_ring_cuh, "prefill_ring.cuh")   \
    X(op_cuda_prefill_help_cuh, "prefill_help.cuh")   \
    X(op_cuda_told_cuh, "told.cuh")                   \
    X(op_cuda_counted_cuh, "counted.cuh")             \
    X(op_cuda_one_cu, "one.cu")                       \
    X(op_cuda_experts_cu, "experts.cu")               \
    X(op_cuda_prefill_cu, "prefill.cu")               \
    X(op_cuda_router_cuh, "router.cuh")               \
    X(op_cuda_router_parts_cuh, "router_parts.cuh")   \
    X(op_cuda_router_cu, "router.cu")                 \
    X(op_cuda_router_many_cu, "router_many.cu")       \
    X(op_cuda_lists_cuh, "lists.cuh")                 \
    X(op_cuda_lists_cu, "lists.cu")                   \
    X(op_cuda_pack_cu, "pack.cu")                     \
    X(op_cuda_count_cuh, "count.cuh")                 \
    X(op_cuda_count_cu, "count.cu")                   \
    X(op_cuda_bits_cuh, "bits.cuh")                   \
    X(op_cuda_bits_cu, "bits.cu")

typedef struct op_cuda_text {
    const char *name, *text; /* text: terminated */
} op_cuda_text;
extern const op_cuda_text op_cuda_texts[]; /* ends with NULL */
/* NULL if there is none of that name. */
const char *op_cuda_text_get(const char *name);
/* Is it for others to include? */
bool op_cuda_text_is_header(const op_cuda_text *text);

/* One way in which a text is compiled. Corners of the knobs' ranges rather than every point. */
typedef struct op_cuda_corner {
    const char *name;    /* "experts.cu" */
    const char *archs;   /* "sm_80 sm_90a" */
    const char *options; /* "-DROWS=4 -DTOKENS=8", apart from those that are always there (dev/cuda.h); "" */
} op_cuda_corner;
extern const op_cuda_corner op_cuda_corners[]; /* ends with NULL */
#endif
