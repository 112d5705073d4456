/* kernel.h: the descriptor every kernel ends with, and the registry made of the lines in kernels.h. */
#ifndef CADRE_OP_KERNEL_H
#define CADRE_OP_KERNEL_H
#include "op/op.h"

/* What a CPU must have; switch_isas (base) has the names. */
typedef enum op_isa { OP_ISA_REF, OP_ISA_AVX2, OP_ISA_AVX512, OP_ISA_AVX512BF16, OP_ISA_COUNT } op_isa;

typedef struct op_kernel {
    const char *name; /* "experts_bf16_avx512bf16" */
    op_family family;
    cadre_dtype dtype; /* of weights and activations; ATTN: of the cache; NORM: F32 (it serves both) */
    op_isa isa;
    bool (*ok)(const op_knobs *knobs); /* may these knobs be used with this kernel? Values are in range already. */
    union {
        op_dense_fn *dense;
        struct {
            op_experts_up_fn *up;
            op_experts_down_fn *down;
        } experts;
        op_norm_fn *norm;
        op_attn_fn *attn;
    } run;
} op_kernel;

extern const op_kernel *const op_kernels[]; /* NULL ends it; best last within a family and type */

/* Best kernel of the family and type whose isa is at most `isa`; never NULL (ref serves everything). */
const op_kernel *op_find(op_family family, cadre_dtype dtype, op_isa isa);
const op_kernel *op_kernel_named(const char *name); /* NULL: this build has none of that name */
/* Twelve digits of a hash over the sources a kernel is made of (tools/sources.sh): a measurement holds as long as it
 * stays the same. "" in a build that was not made by the Makefile. */
const char *op_kernel_source(const op_kernel *kernel);
const char *op_numerics(cadre_dtype dtype); /* "cpu-bf16-pair", "cpu-f32-chain", ... by the type of the experts */
extern const char op_numerics_all[];        /* every id, with a space between */
/* Defaults; then the nearest legal knobs for a kernel (halving the largest tile side until ok). */
void op_knobs_default(op_family family, op_knobs *knobs);
void op_knobs_fit(const op_kernel *kernel, op_knobs *knobs);
/* Steps through every legal setting of a kernel: start with *index = 0; false when done. */
bool op_knobs_next(const op_kernel *kernel, long *index, op_knobs *knobs);
void op_knobs_text(op_family family, const op_knobs *knobs, char *text, size_t size); /* "rows=4 panels=2" */
#endif
