/* stat.c: means, spreads, Student's t, Welch's comparison and the bootstrap. Each has a known answer in its test. */
#include "stat.h"
#include <math.h>
#include <stdlib.h>

double lab_mean(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return n > 0 ? sum / n : NAN;
}

static double squares(const double *v, int n) {
    double mean = lab_mean(v, n), sum = 0;
    for (int i = 0; i < n; i++) sum += (v[i] - mean) * (v[i] - mean);
    return sum;
}

double lab_sd(const double *v, int n) {
    return n > 1 ? sqrt(squares(v, n) / (n - 1)) : NAN;
}

double lab_pooled_sd(const double *const *groups, const int *counts, int groups_count) {
    double sum = 0, df = 0;
    for (int i = 0; i < groups_count; i++) {
        if (counts[i] < 2) continue;
        sum += squares(groups[i], counts[i]);
        df += counts[i] - 1;
    }
    return df > 0 ? sqrt(sum / df) : NAN;
}

/* ---- distributions ---- */

static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* The continued fraction of the incomplete beta function, by Lentz's way; it converges fast for x < (a+1)/(a+b+2). */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 20000; m++) {
        for (int odd = 0; odd < 2; odd++) {
            double step = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                              : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + step * d;
            c = 1 + step / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            if (fabs(c) < tiny) c = tiny;
            h *= d * c;
        }
        if (fabs(d * c - 1) < 1e-15) break;
    }
    return h;
}

double lab_beta(double a, double b, double x) {
    if (isnan(x)) return NAN;
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = m_exp(a * m_log(x) + b * m_log(1 - x) + log_gamma(a + b) - log_gamma(a) - log_gamma(b));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double lab_t_tails(double t, double df) {
    if (!(df > 0) || isnan(t)) return NAN;
    return isinf(t * t) ? 0 : lab_beta(df / 2, 0.5, df / (df + t * t));
}

static double t_density(double t, double df) {
    double scale = log_gamma((df + 1) / 2) - log_gamma(df / 2);
    return m_exp(scale - (df + 1) / 2 * m_log(1 + t * t / df)) / sqrt(3.14159265358979323846 * df);
}

/* Newton's steps inside a bracket; where one leaves it, or few degrees of freedom bend the curve, the middle. */
double lab_t_quantile(double level, double df) {
    if (!(df > 0) || !(level > 0 && level < 1)) return NAN;
    double low = 0, high = 2, t = 1;
    while (high < 1e150 && lab_t_tails(high, df) > level) low = high, high *= high;
    for (int i = 0; i < 300 && high - low > 1e-14 * high; i++) {
        double over = lab_t_tails(t, df) - level, density = t_density(t, df);
        if (over > 0)
            low = t;
        else
            high = t;
        double step = density > 0 ? over / (2 * density) : INFINITY, next = t + step;
        if (fabs(step) <= 1e-15 * t) break;
        t = next > low && next < high ? next : low > 4 && high > 2 * low ? sqrt(low * high) : (low + high) / 2;
    }
    return t;
}

double lab_normal(double z) {
    return erfc(-z * 0.70710678118654752440) / 2;
}

double lab_normal_of_tails(double tails) {
    if (isnan(tails)) return NAN;
    double low = 0, high = 38;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        if (2 * lab_normal(-middle) > tails)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* ---- Welch ---- */

lab_welch lab_welch_of(const double *a, int na, const double *b, int nb) {
    lab_welch w = {lab_mean(b, nb) - lab_mean(a, na), NAN, 0};
    if (na < 2 || nb < 2) return w;
    double va = squares(a, na) / (na - 1) / na, vb = squares(b, nb) / (nb - 1) / nb;
    w.se = sqrt(va + vb);
    if (va + vb > 0) {
        double x = va / (va + vb), y = vb / (va + vb); /* in parts: squares of small variances would be 0 */
        w.df = 1 / (x * x / (na - 1) + y * y / (nb - 1));
    }
    return w;
}

void lab_welch_interval(const lab_welch *w, double level, double interval[2]) {
    double reach = w->df > 0 ? lab_t_quantile(level, w->df) * w->se : w->se == 0 ? 0 : NAN;
    interval[0] = w->difference - reach;
    interval[1] = w->difference + reach;
}

double lab_welch_p(const lab_welch *w) {
    if (w->df > 0) return lab_t_tails(w->difference / w->se, w->df);
    if (w->se == 0) return w->difference == 0 ? 1 : 0;
    return NAN;
}

static bool logs(const double *v, int n, double *out) {
    for (int i = 0; i < n; i++) {
        if (!(v[i] > 0)) return false;
        out[i] = m_log(v[i]);
    }
    return true;
}

void lab_log_ratio_in(const double *a, int na, const double *b, int nb, double level, double *room,
                      double interval[2]) {
    interval[0] = interval[1] = NAN;
    if (na < 2 || nb < 2 || !logs(a, na, room) || !logs(b, nb, room + na)) return;
    lab_welch w = lab_welch_of(room, na, room + na, nb);
    lab_welch_interval(&w, level, interval);
    interval[0] = m_exp(interval[0]);
    interval[1] = m_exp(interval[1]);
}

void lab_log_ratio(const double *a, int na, const double *b, int nb, double level, double interval[2]) {
    interval[0] = interval[1] = NAN;
    double *room = na > 1 && nb > 1 ? mem_new_array((size_t)na + (size_t)nb, sizeof *room) : NULL;
    if (room) lab_log_ratio_in(a, na, b, nb, level, room, interval);
    mem_free(room);
}

/* ---- bootstrap ---- */

static double resampled_mean(const double *v, int n, lab_draws *d) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[lab_draw_below(d, n)];
    return sum / n;
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values, straight lines between them. */
static double quantile(const double *v, int n, double q) {
    double at = q * (n - 1);
    int low = (int)at;
    return low + 1 < n ? v[low] + (at - low) * (v[low + 1] - v[low]) : v[n - 1];
}

void lab_bootstrap_in(const double *a, int na, const double *b, int nb, double level, int resamples, uint64_t seed,
                      double *room, double interval[2]) {
    interval[0] = interval[1] = NAN;
    if (na < 1 || nb < 1 || resamples < 1) return;
    lab_draws d = {.key = seed};
    for (int i = 0; i < resamples; i++) {
        double below = resampled_mean(a, na, &d);
        room[i] = resampled_mean(b, nb, &d) / below;
        if (!isfinite(room[i])) return;
    }
    qsort(room, (size_t)resamples, sizeof *room, rising);
    interval[0] = quantile(room, resamples, level / 2);
    interval[1] = quantile(room, resamples, 1 - level / 2);
}

void lab_bootstrap_ratio(const double *a, int na, const double *b, int nb, double level, int resamples, uint64_t seed,
                         double interval[2]) {
    interval[0] = interval[1] = NAN;
    double *room = resamples > 0 ? mem_new_array((size_t)resamples, sizeof *room) : NULL;
    if (!room) return;
    lab_bootstrap_in(a, na, b, nb, level, resamples, seed, room, interval);
    mem_free(room);
}
