/* check.h: error measures and the tolerance of each family and type, against a double-precision meaning. */
#ifndef CADRE_OP_CHECK_H
#define CADRE_OP_CHECK_H
#include "op/kernel.h"

/* ||out - want|| / ||want|| over n elements; infinity if any output is not finite where want is. */
double check_relative(const float *out, const double *want, size_t n);
double check_tolerance(op_family family, cadre_dtype dtype, int in);

/* The meaning in double on the unpacked inputs, no roundings but those of the stored inputs. */
void check_dense(int n, int in, int out, const float *x, const float *w, const float *bias, double *y);
void check_norm(int n, int d, const float *x, const float *weight, double eps, double *y);
/* x [n][d], up/gate [e][f][d] (gate NULL for relu2), down [e][d][f], ids/weights [n][k]. */
void check_experts(int n, int d, int f, int k, cadre_act act, float limit, const float *x, const float *gate,
                   const float *up, const float *down, const int32_t *ids, const float *weights, double *out);
/* q [heads][head_dim], k, v [keys][head_dim] of one kv head for one row. */
void check_attn(int head_dim, int keys, const float *q, const float *k, const float *v, double scale, double *out);
#endif
