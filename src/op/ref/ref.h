/* ref.h: what the plain C kernels share: reading packed weights and typed rows, the two chains, sum16.
 * docs/numerics.md in code; nothing here is meant to be fast, and nothing is shared with cpu/. */
#ifndef CADRE_OP_REF_H
#define CADRE_OP_REF_H
#include "op/kernel.h"

/* The chain of one output: `matrix` is a packed matrix, `part` is 0 for plain weights or the gate, 1 for up. */
float ref_chain(cadre_dtype t, const void *matrix, int in, bool gated, int part, int o, const void *x);
float ref_sum16(const float *a, cadre_dtype t, const void *b, int n); /* b is of type t */
float ref_get(cadre_dtype t, const void *row, int i);
void ref_put(cadre_dtype t, void *row, int i, float v); /* rounded once */
/* Row i of a matrix of `stride` elements of type t per row. */
const void *ref_row(cadre_dtype t, const void *data, size_t stride, int64_t i);
void *ref_row_mut(cadre_dtype t, void *data, size_t stride, int64_t i);
/* The activation of one output of an expert; the weighted sum of the slots of panels [lo, hi). */
float ref_activate(const op_experts *a, float gate, float up);
void ref_combine(const op_experts *a, int lo, int hi);
bool ref_any_knobs(const op_knobs *knobs);
#endif
