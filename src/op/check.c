/* check.c: what the operations mean, in double and without their roundings, and how far a kernel may be from that.
 * Used by tests and the doctor; never on the token path. */
#include "op/check.h"

#include <math.h>

double check_relative(const float *out, const double *want, size_t n) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(want[i])) continue;
        if (!isfinite(out[i])) return INFINITY;
        error += (out[i] - want[i]) * (out[i] - want[i]);
        norm += want[i] * want[i];
    }
    if (norm > 0) return sqrt(error / norm);
    return error > 0 ? INFINITY : 0;
}

/* A chain of `in` roundings of 2^-24 that fall both ways grows like its square root; the constant covers the other
 * roundings and the spread. Values rounded to bf16 between products, or as the output, add 2^-9 each. */
double check_tolerance(op_family family, cadre_dtype dtype, int in) {
    double chain = (8 + 2 * sqrt(in)) * 0x1p-24;
    if (family == OP_DENSE || family == OP_NORM || dtype != CADRE_BF16) return chain;
    return chain + 0x1p-8;
}

static double dot(const float *a, const float *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

static const float *row_of(const float *m, int64_t row, int columns) {
    return m + row * columns;
}

void check_dense(int n, int in, int out, const float *x, const float *w, const float *bias, double *y) {
    for (int r = 0; r < n; r++) {
        for (int o = 0; o < out; o++)
            y[(size_t)r * (size_t)out + (size_t)o] =
                dot(row_of(x, r, in), row_of(w, o, in), in) + (bias != NULL ? bias[o] : 0);
    }
}

void check_norm(int n, int d, const float *x, const float *weight, double eps, double *y) {
    for (int r = 0; r < n; r++) {
        const float *row = row_of(x, r, d);
        double scale = 1 / sqrt(dot(row, row, d) / d + eps);
        for (int i = 0; i < d; i++) y[(size_t)r * (size_t)d + (size_t)i] = row[i] * scale * weight[i];
    }
}

static double activate(cadre_act act, double limit, double gate, double up) {
    if (act == CADRE_RELU2) return up > 0 ? up * up : 0;
    if (act == CADRE_SWIGLU_CLAMP) {
        gate = fmin(gate, limit);
        up = fmin(fmax(up, -limit), limit);
    }
    return gate / (1 + m_exp(-gate)) * up;
}

void check_experts(int n, int d, int f, int k, cadre_act act, float limit, const float *x, const float *gate,
                   const float *up, const float *down, const int32_t *ids, const float *weights, double *out) {
    for (int64_t i = 0; i < (int64_t)n * d; i++) out[i] = 0;
    for (int64_t p = 0; p < (int64_t)n * k; p++) {
        if (ids[p] < 0) continue;
        const float *token = row_of(x, p / k, d);
        double *y = out + p / k * d;
        for (int j = 0; j < f; j++) {
            int64_t row = (int64_t)ids[p] * f + j;
            double g = gate != NULL ? dot(token, row_of(gate, row, d), d) : 0;
            double h = activate(act, limit, g, dot(token, row_of(up, row, d), d)) * weights[p];
            for (int i = 0; i < d; i++) y[i] += h * down[((int64_t)ids[p] * d + i) * f + j];
        }
    }
}

/* Two passes: the largest score, then every key's share; nothing is kept between them. */
void check_attn(int head_dim, int keys, const float *q, const float *k, const float *v, double scale, double *out) {
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++) top = fmax(top, dot(q, row_of(k, j, head_dim), head_dim) * scale);
    for (int i = 0; i < head_dim; i++) out[i] = 0;
    for (int j = 0; j < keys; j++) {
        double p = m_exp(fmax(dot(q, row_of(k, j, head_dim), head_dim) * scale - top, -700));
        sum += p;
        for (int i = 0; i < head_dim; i++) out[i] += p * row_of(v, j, head_dim)[i];
    }
    for (int i = 0; i < head_dim; i++) out[i] /= sum;
}
