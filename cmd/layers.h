/* layers.h: MoE layers of random weights through the public API, enough of them that a step streams its weights from
 * memory as a whole model does. */
#ifndef CMD_LAYERS_H
#define CMD_LAYERS_H
#include "dev/dev.h"
#include "routing.h"
#include "shape.h"

enum { LAYER_SETS = 4 }; /* routings that take turns, so that no step finds the experts of the one before */

/* Whose scratch a run uses: its layer's, that of all layers, or one that is made for the run and freed after it. */
typedef enum layer_spaces { LAYER_SPACE_OWN, LAYER_SPACE_ONE, LAYER_SPACE_FRESH } layer_spaces;

typedef struct layers {
    cadre_moe_desc desc;
    int count;
    layer_spaces spaces;
    cadre_profile *watch;
    cadre_moe **moe;               /* [count] */
    cadre_moe_workspace **scratch; /* [count]; one and the same unless OWN */
    float *x, *out, *weights;      /* [max_tokens][d], same, [max_tokens][k] all 1/k */
    int32_t *deal;                 /* [count][e]: which expert has which rank under zipf */
    double step_bytes;             /* least weight bytes that a step over all layers touches */
    bool cold;                     /* step_bytes is several times the last cache */
} layers;

/* desc.max_tokens is the largest m. count 0: enough that one token's step is cold, as memory allows; on a GPU
 * enough for 16 times its L2, and eight at least. There OWN is ONE. */
cadre_err layers_init(layers *l, cadre_device *device, const cadre_moe_desc *desc, int count, layer_spaces spaces,
                      uint64_t seed, cadre_fail *why);
void layers_done(layers *l);

/* Routings for m tokens; of ROUTING_FREE the router chooses when the plan is made, and no step runs it: ids
 * [LAYER_SETS][count][m * k]; touched [LAYER_SETS]: experts touched, mean over the layers. */
typedef struct layer_plan {
    int m;
    bool own; /* the layers' own router runs, and ids are what it chooses */
    int32_t *ids;
    double touched[LAYER_SETS];
    routing_load load; /* of all sets and layers */
} layer_plan;
cadre_err layers_plan(layers *l, const routing *r, int m, uint64_t seed, layer_plan *p, cadre_fail *why);
/* Where in p->ids the routing of a layer begins. */
size_t layers_ids_at(const layers *l, const layer_plan *p, int set, int layer);
void layers_plan_done(layer_plan *p);
/* From now on the profile watches every layer; NULL: no longer. */
void layers_watch(layers *l, cadre_profile *profile);
/* One step over all layers with routing `set`. */
cadre_err layers_step(layers *l, const layer_plan *p, int set, cadre_fail *why);
/* The same, not for timing: the hash of every layer's output. */
cadre_err layers_sha(layers *l, const layer_plan *p, int set, char hex[65], cadre_fail *why);
/* Receipts with the runs of all layers, which are alike; returns how many there are. */
int layers_receipts(const layers *l, cadre_receipt *out, int cap);
#endif
