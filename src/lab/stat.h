/* stat.h: the statistics that only this room calls; lab.h has the others. */
#ifndef CADRE_LAB_STAT_H
#define CADRE_LAB_STAT_H
#include "lab.h"

/* Regularised incomplete beta function, a and b > 0. */
double lab_beta(double a, double b, double x);
/* P(|T| > |t|) of Student's t, df > 0 (it need not be whole). */
double lab_t_tails(double t, double df);
/* The t that |T| exceeds with probability `level`. */
double lab_t_quantile(double level, double df);
/* P(Z < z); and the z that |Z| exceeds with probability `tails` (at most 38). */
double lab_normal(double z);
double lab_normal_of_tails(double tails);

/* Mean of b less mean of a, with Welch's standard error and degrees of freedom; with no variance at all, or under two
 * values in either, df is 0 (and se 0 or NaN). */
typedef struct lab_welch {
    double difference, se, df;
} lab_welch;
lab_welch lab_welch_of(const double *a, int na, const double *b, int nb);
/* difference -+ t(level, df) x se; without df the difference alone where se is 0, else NaNs. */
void lab_welch_interval(const lab_welch *w, double level, double interval[2]);
double lab_welch_p(const lab_welch *w);

/* Random whole numbers for resampling. A word is a fraction of 2^64: times n, its whole part is drawn, and the rest is
 * the next fraction. A word serves until the product of its ranges passes 2^32, so that no result is favoured by more
 * than about 2^-32 of its share. */
typedef struct lab_draws {
    uint64_t key, counter;
    uint64_t word, next, spent; /* spent: the product of the ranges drawn from the word so far */
    bool fresh;                 /* next was not used */
} lab_draws;

static inline void lab_refill(lab_draws *d) {
    uint32_t w[4];
    d->word = d->next;
    d->fresh = !d->fresh;
    if (!d->fresh) return;
    rand_philox(d->key, 0, d->counter++, w);
    d->word = (uint64_t)w[0] << 32 | w[1];
    d->next = (uint64_t)w[2] << 32 | w[3];
}

/* 0..n-1; n in 1..2^31. */
static inline int lab_draw_below(lab_draws *d, int n) {
    uint64_t spent = d->spent * (uint64_t)n;
    if (!d->spent || spent >> 32) {
        lab_refill(d);
        spent = (uint64_t)n;
    }
    d->spent = spent;
    unsigned __int128 product = (unsigned __int128)d->word * (unsigned)n;
    d->word = (uint64_t)product;
    return (int)(product >> 64);
}

/* As in lab.h, in room that the caller has: [na + nb], and of the bootstrap [resamples]. */
void lab_log_ratio_in(const double *a, int na, const double *b, int nb, double level, double *room, double interval[2]);
double lab_permutation_in(const double *a, int na, const double *b, int nb, uint64_t seed, bool *exact, double *room);
void lab_bootstrap_in(const double *a, int na, const double *b, int nb, double level, int resamples, uint64_t seed,
                      double *room, double interval[2]);
#endif
