/* routing.h: which experts each token goes to in a measurement, with the histogram that belongs to the figure. */
#ifndef CMD_ROUTING_H
#define CMD_ROUTING_H
#include "say.h"

typedef enum routing_kind {
    ROUTING_UNIFORM,
    ROUTING_BALANCED,
    ROUTING_ZIPF,
    ROUTING_ROUTER,
    ROUTING_FREE
} routing_kind;
typedef struct routing {
    routing_kind kind;
    double exponent; /* ZIPF */
    char text[32];   /* as written */
} routing;

/* "uniform", "balanced", "zipf:S" with 0 < S <= 4, "router", "router-free": what the router chooses, found ahead.
 * trace:FILE is for a later version. */
cadre_err routing_read(const char *text, routing *out, cadre_fail *why);
/* ids [n][k], distinct in a row, of a routing that is neither ROUTER nor FREE.
 * uniform: each token k of e at random. balanced: counts of any two experts differ by at most one.
 * zipf: without replacement, expert rank r with weight (r + 1)^-S, ranks dealt to experts at random by `deal`. */
cadre_err routing_draw(const routing *r, rand_stream *random, const int32_t *deal, int n, int e, int k, int32_t *ids,
                       cadre_fail *why);

/* How many experts have how many rows: a bucket for 0, 1, 2, 3..4, 5..8 and so on. Of several layers: sums. */
enum { ROUTING_BUCKETS = 19 };
typedef struct routing_load {
    double experts[ROUTING_BUCKETS];
    int most, layers; /* rows at one expert; layers that were added */
} routing_load;
/* Adds one layer's routing of at most 2^17 tokens; ids outside 0..e-1 count for no expert. Returns the experts with at
 * least one row. e <= 2^14. */
int routing_load_add(routing_load *load, const int32_t *ids, int pairs, int e);
void routing_bucket(int i, int *low, int *high);
/* `load` {rows_lo, rows_hi, experts: mean of the layers} from the first to the last bucket in use, and `load_most`. */
void routing_load_put(json_out *o, const routing_load *load);
/* "0: 10, 1: 5.5, 3..4: 2.5; most 4" */
const char *routing_load_text(const routing_load *load, char text[400]);
#endif
