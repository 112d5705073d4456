/* permutation.c: how often a relabelling of the values gives a difference of means as large as the one measured.
 *
 * All values lie in one array, those of the smaller arm first. A relabelling is a choice of k of the n = na + nb
 * values; since the total is fixed, the sum of the chosen tells the difference. Values are centred first, so that the
 * sums are compared on their own scale; equal sums that were added in another order must count as equal, hence the
 * slack. */
#include "stat.h"
#include <math.h>

enum { DRAWS_MOST = 100000, DRAWS_LEAST = 2000, VALUES_MOST = 200000000, HITS_ENOUGH = 400 };

static double choose(int n, int k) {
    double c = 1;
    if (k > n - k) k = n - k;
    for (int i = 1; i <= k && c < 1e300; i++) c = c * (n - k + i) / i;
    return c;
}

double lab_permutation_floor(int na, int nb) {
    if (na < 1 || nb < 1) return NAN;
    double p = (na == nb ? 2 : 1) / choose(na + nb, na); /* of equal sizes the mirrored labelling is as extreme */
    return p < 1 ? p : 1;
}

typedef struct counter {
    const double *v;
    int n;
    double limit; /* a sum of at least this size, either way, is as extreme */
    double hits;
} counter;

/* Adds the chosen values from `at` on; the last of them in a loop without calls. */
static void enumerate(counter *c, int at, int left, double sum) {
    if (left == 1) {
        for (int i = at; i < c->n; i++) c->hits += fabs(sum + c->v[i]) >= c->limit;
        return;
    }
    for (int i = at; i <= c->n - left; i++) enumerate(c, i + 1, left - 1, sum + c->v[i]);
}

/* The chosen values end up in front. `d` is a copy, so that it can live in registers. */
static double random_sum(double *v, int n, int k, lab_draws *draws) {
    lab_draws d = *draws;
    double sum = 0;
    for (int i = 0; i < k; i++) {
        int j = i + lab_draw_below(&d, n - i);
        double taken = v[j];
        v[j] = v[i];
        v[i] = taken;
        sum += taken;
    }
    *draws = d;
    return sum;
}

/* Stopping at a fixed number of hits keeps the p valid (Besag and Clifford, "Sequential Monte Carlo p-values", 1991).
 */
static double monte_carlo(double *v, int n, int k, double limit, uint64_t seed) {
    lab_draws d = {.key = seed};
    int hits = 0, most = VALUES_MOST / k; /* about a second */
    most = most > DRAWS_MOST ? DRAWS_MOST : most < DRAWS_LEAST ? DRAWS_LEAST : most;
    for (int drawn = 1; drawn <= most; drawn++) {
        hits += fabs(random_sum(v, n, k, &d)) >= limit;
        if (hits == HITS_ENOUGH) return (double)hits / drawn;
    }
    return (hits + 1.0) / (most + 1.0);
}

double lab_permutation_in(const double *a, int na, const double *b, int nb, uint64_t seed, bool *exact, double *room) {
    *exact = true;
    if (na < 1 || nb < 1) return NAN;
    int n = na + nb, k = na < nb ? na : nb;
    const double *few = na < nb ? a : b, *many = na < nb ? b : a;
    double mean = (lab_mean(a, na) * na + lab_mean(b, nb) * nb) / n, size = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        room[i] = (i < k ? few[i] : many[i - k]) - mean;
        size += fabs(room[i]);
        if (i < k) sum += room[i];
    }
    double limit = fabs(sum) - 1e-9 * size, all = choose(n, k);
    if (limit <= 0) return 1;
    *exact = all <= LAB_EXACT_MOST;
    if (!*exact) return monte_carlo(room, n, k, limit, seed);
    counter c = {room, n, limit, 0};
    enumerate(&c, 0, k, 0);
    return c.hits / all;
}

double lab_permutation_p(const double *a, int na, const double *b, int nb, uint64_t seed, bool *exact) {
    bool known;
    double *room = na > 0 && nb > 0 ? mem_new_array((size_t)na + (size_t)nb, sizeof *room) : NULL;
    if (!exact) exact = &known;
    *exact = false;
    if (!room) return NAN;
    double p = lab_permutation_in(a, na, b, nb, seed, exact, room);
    mem_free(room);
    return p;
}
