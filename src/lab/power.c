/* power.c: how many visits tell an effect from none.
 *
 * What is planned is what the verdict does: Welch's t on the logs of n + n visit means. With S the sum of both
 * variances and r the share of one of them, the degrees of freedom depend on r alone, and r and S are independent:
 *
 *   power = E over r ~ Beta((n-1)/2, (n-1)/2) of P(|T'| > t(level, (n-1) / (r^2 + (1-r)^2))),
 *   T' = noncentral t with 2n - 2 degrees of freedom.
 *
 * The substitution r = sin^2 x leaves the smooth weight (sin x cos x)^(n-2), symmetric about pi/4. */
#include "stat.h"
#include <math.h>

enum { STEPS_T = 96, STEPS_R = 12, VISITS_WELCH = 64 };

static double simpson(int i, int steps) {
    return i == 0 || i == steps ? 1 : i % 2 ? 4 : 2;
}

/* P(|T'| > limit) for a shift `shift` and df degrees of freedom, over s = sqrt(chi^2 / df); its density is
 * s^(df-1) exp(-df s^2 / 2), scaled by its own sum. */
static double beyond(double limit, double shift, double df) {
    double reach = 8 / sqrt(2 * df), low = reach < 1 ? 1 - reach : 0, high = 1 + reach, sum = 0, weight = 0;
    for (int i = 0; i <= STEPS_T; i++) {
        double s = low + (high - low) * i / STEPS_T;
        double f = s > 0 ? m_exp((df - 1) * m_log(s) - df * (s * s - 1) / 2) : df > 1 ? 0 : 1;
        f *= simpson(i, STEPS_T);
        weight += f;
        sum += f * (lab_normal(shift - limit * s) + lab_normal(-shift - limit * s));
    }
    return sum / weight;
}

double lab_power(int visits, double effect, double sd, double level) {
    if (visits < 2 || !(sd > 0) || !(effect > -1)) return NAN;
    double shift = fabs(m_log(1 + effect)) / (sd * sqrt(2.0 / visits)), df = 2.0 * visits - 2, sum = 0, weight = 0;
    if (visits > VISITS_WELCH) return beyond(lab_t_quantile(level, df), shift, df);
    for (int i = 0; i <= STEPS_R; i++) {
        double x = 0.78539816339744830962 * i / STEPS_R, r = m_sin(x) * m_sin(x);
        double w = m_pow(4 * r * (1 - r), visits / 2.0 - 1) * simpson(i, STEPS_R);
        double limit = lab_t_quantile(level, (visits - 1) / (r * r + (1 - r) * (1 - r)));
        weight += w;
        sum += w * beyond(limit, shift, df);
    }
    return sum / weight;
}

/* The normal approximation is near, and a little low: search from there. */
int lab_visits_needed(double effect, double sd, double level, double power) {
    if (!(sd > 0) || !(fabs(effect) > 0) || !(effect > -1) || !(level > 0 && level < 1) || !(power > 0 && power < 1))
        return 0;
    double z = lab_normal_of_tails(level) + (power > 0.5 ? lab_normal_of_tails(2 - 2 * power) : 0);
    double shift = fabs(m_log(1 + effect)) / sd, guess = 2 * z * z / (shift * shift);
    if (!(guess < LAB_VISITS_MOST)) return 0;
    int n = guess < 2 ? 2 : (int)guess;
    while (n > 2 && lab_power(n - 1, effect, sd, level) >= power) n--;
    while (n <= LAB_VISITS_MOST && lab_power(n, effect, sd, level) < power) n++;
    return n <= LAB_VISITS_MOST ? n : 0;
}
