/* stat.c: order statistics. */
#include "stat.h"
#include "math.h"
#include <math.h>
#include <stdlib.h>

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stat_median(double *v, int n) {
    if (!n) return NAN;
    qsort(v, (size_t)n, sizeof *v, rising);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double stat_quantile(double *v, int n, double q) {
    if (!n) return NAN;
    qsort(v, (size_t)n, sizeof *v, rising);
    int rank = (int)ceil(q * n);
    return v[rank < 1 ? 0 : rank > n ? n - 1 : rank - 1];
}

/* The median lies outside (rank r, rank n+1-r) with probability 2 P(B <= r-1), B binomial (n, 1/2). */
void stat_interval(double *v, int n, double interval[2]) {
    interval[0] = interval[1] = NAN;
    double term = m_pow(0.5, n), outside = 0;
    int rank = 0;
    for (int i = 0; i < n / 2; i++) {
        outside += 2 * term;
        if (outside > 0.05) break;
        rank = i + 1;
        term *= (double)(n - i) / (i + 1);
    }
    if (!rank) return;
    qsort(v, (size_t)n, sizeof *v, rising);
    interval[0] = v[rank - 1];
    interval[1] = v[n - rank];
}
