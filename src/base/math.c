/* math.c: elementary functions from + - * / and sqrt. The steps are the usual ones: reduce the argument exactly, take a
 * Taylor series on what is left, scale back. Constants are cut so that the product with a small whole number is exact.
 */
#include "math.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct pair {
    double hi, lo; /* hi + lo, |lo| <= ulp(hi)/2 */
} pair;

static const double ln2_hi = 0x1.62e42fefp-1, ln2_lo = 0x1.473de6af278edp-34; /* hi: 33 bits, exact times |k| < 2^20 */
static const double shifter = 0x1.8p52; /* adding and taking it away rounds to a whole number */

static double horner(const double *c, int n, double x) {
    double y = c[n - 1];
    for (int i = n - 2; i >= 0; i--) y = y * x + c[i];
    return y;
}

/* a * b exactly (Dekker: halves of 26 bits). */
static pair product(double a, double b) {
    double p = a * b, ca = a * 134217729.0, cb = b * 134217729.0;
    double ah = ca - (ca - a), al = a - ah, bh = cb - (cb - b), bl = b - bh;
    return (pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

/* a + b exactly, for |a| >= |b| or a == 0. */
static pair sum(double a, double b) {
    double s = a + b;
    return (pair){s, b - (s - a)};
}

static double power_of_two(int k) {
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* exp(x + tail), |x| <= 700, |tail| tiny: 2^k exp(r), |r| <= ln2 / 2. The first term left out, r^14 / 14!, is 4e-18. */
static double exp_sum(double x, double tail) {
    static const double c[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    double k = x * 0x1.71547652b82fep+0 + shifter - shifter;
    double hi = x - k * ln2_hi, lo = tail - k * ln2_lo, r = hi + lo;
    double rest = (hi - r) + lo; /* what r lost */
    return (1 + (r + (rest + r * r * horner(c, 12, r)))) * power_of_two((int)k);
}

double m_exp(double x) {
    if (isnan(x)) return x;
    if (x > 700) return INFINITY;
    return x < -700 ? 0 : exp_sum(x, 0);
}

/* log(x) to about 2^-65: x = 2^e m, m within sqrt(2) of 1, s = (m - 1) / (m + 1), log m = 2 (s + s^3/3 + s^5/5 + ...).
 * |s| <= 0.1716; the first term left out, s^26 / 27 beside 1, is 5e-22. */
static pair log_pair(double x) {
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25};
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double f = m - 1;
    pair g = m > 1 ? sum(m, 1) : sum(1, m);
    double s = f / g.hi;
    pair p = product(s, g.hi);
    double s_lo = ((f - p.hi) - p.lo - s * g.lo) / g.hi, s2 = s * s;
    pair a = sum((double)e * ln2_hi, 2 * s); /* e == 0 or the first is larger */
    return sum(a.hi, a.lo + ((double)e * ln2_lo + (2 * s_lo + s * s2 * horner(c, 12, s2))));
}

double m_log(double x) {
    if (isnan(x) || x == INFINITY) return x;
    if (x < 0) return NAN;
    if (x < 0x1p-1022) return -INFINITY;
    pair y = log_pair(x);
    return y.hi + y.lo;
}

double m_pow(double base, double x) {
    if (x == 0 || base == 1) return 1;
    if (isnan(base) || isnan(x) || base < 0) return NAN;
    if (base < 0x1p-1022) return x > 0 ? 0 : INFINITY;
    if (base == INFINITY) return x > 0 ? INFINITY : 0;
    pair l = log_pair(base);
    double y = x * l.hi;
    if (y > 700) return INFINITY;
    if (y < -700) return 0;
    pair p = product(x, l.hi);
    return exp_sum(p.hi, p.lo + x * l.lo);
}

/* ---- circles ---- */

/* x - k pi/2 for the nearest k; the low bits of k tell the quadrant. pi/2 in pieces of 23 bits: k has up to 30, so each
 * product is exact, and so are the first two differences. */
static double quarter(double x, int *quadrant) {
    double k = x * 0x1.45f306dc9c883p-1 + shifter - shifter;
    double r = x - k * 0x1.921fb4p+0;
    r = r - k * 0x1.4442dp-24;
    r = r - k * 0x1.84698p-48;
    r = r - k * 0x1.3198a2e037074p-69;
    *quadrant = (int)((int64_t)k & 3);
    return r;
}

/* |r| <= pi/4 and a little; the first terms left out are r^19 / 19! = 8e-20 and r^18 / 18! = 2e-18. */
static double sin_series(double r) {
    static const double c[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,         1.0 / 362880,
                               -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368e3, 1.0 / 355687428096e3};
    double r2 = r * r;
    return r + r * r2 * horner(c, 8, r2);
}

static double cos_series(double r) {
    static const double c[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,        -1.0 / 3628800,
                               1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888e3};
    double r2 = r * r;
    return 1 - (0.5 * r2 - r2 * r2 * horner(c, 7, r2));
}

static double circle(double x, int turn) {
    if (!(fabs(x) <= 0x1p30)) return NAN;
    int quadrant;
    double r = quarter(x, &quadrant);
    quadrant = (quadrant + turn) & 3;
    double y = quadrant & 1 ? cos_series(r) : sin_series(r);
    return quadrant & 2 ? -y : y;
}

double m_sin(double x) {
    return circle(x, 0);
}
double m_cos(double x) {
    return circle(x, 1);
}
