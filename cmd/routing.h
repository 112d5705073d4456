/* routing.h: which experts each token goes to in a measurement, with the histogram that belongs to the figure. */
#ifndef CMD_ROUTING_H
#define CMD_ROUTING_H
#include "say.h"

typedef enum routing_kind { ROUTING_UNIFORM, ROUTING_BALANCED, ROUTING_ZIPF, ROUTING_ROUTER } routing_kind;
typedef struct routing {
    routing_kind kind;
    double exponent; /* ZIPF */
    char text[32];   /* as written */
} routing;

/* "uniform", "balanced", "zipf:S" with 0 < S <= 4, "router". trace:FILE is for a later version. */
cadre_err routing_read(const char *text, routing *out, cadre_fail *why);
/* ids [n][k], distinct in a row, of a router that isn't ROUTER.
 * uniform: each token k of e at random. balanced: counts of any two experts differ by at most one.
 * zipf: without replacement, expert rank r with weight (r + 1)^-S, ranks dealt to experts at random by `deal`. */
cadre_err routing_draw(const routing *r, rand_stream *random, const int32_t *deal, int n, int e, int k, int32_t *ids,
                       cadre_fail *why);
/* Experts with at least one token. */
int routing_touched(const int32_t *ids, int pairs, int e);
#endif
