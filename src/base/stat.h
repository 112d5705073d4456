/* stat.h: order statistics: figures that one slow run in a sample does not move. */
#ifndef CADRE_BASE_STAT_H
#define CADRE_BASE_STAT_H

/* All sort v. Median of n >= 1 values (mean of the middle two); NaN for n == 0. */
double stat_median(double *v, int n);
/* The q-th quantile, nearest rank. */
double stat_quantile(double *v, int n, double q);
/* 95 % interval of the median by order statistics: the narrowest pair of ranks (r, n+1-r) that covers the median with
 * at least 95 % whatever the distribution; NaNs under 6 values. */
void stat_interval(double *v, int n, double interval[2]);
#endif
