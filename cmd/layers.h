/* layers.h: MoE layers of random weights through the public API, enough of them that a step streams its weights from
 * memory as a whole model does. */
#ifndef CMD_LAYERS_H
#define CMD_LAYERS_H
#include "dev/dev.h"
#include "routing.h"
#include "shape.h"

enum { LAYER_SETS = 4 }; /* routings that take turns, so that no step finds the experts of the one before */

typedef struct layers {
    cadre_moe_desc desc;
    int count;
    cadre_moe **moe;               /* [count] */
    cadre_moe_workspace **scratch; /* [count]; on a GPU one and the same */
    float *x, *out, *weights;      /* [max_tokens][d], same, [max_tokens][k] all 1/k */
    int32_t *deal;                 /* [count][e]: which expert has which rank under zipf */
    double step_bytes;             /* least weight bytes that a step over all layers touches */
    bool cold;                     /* step_bytes is several times the last cache */
} layers;

/* desc.max_tokens is the largest m. count 0: enough that one token's step is cold, as memory allows; on a GPU
 * enough for 16 times its L2, and eight at least. */
cadre_err layers_init(layers *l, cadre_device *device, const cadre_moe_desc *desc, int count, uint64_t seed,
                      cadre_fail *why);
void layers_done(layers *l);

/* Routings for m tokens: ids [LAYER_SETS][count][m * k]; touched [LAYER_SETS]: experts touched, mean over the layers.
 */
typedef struct layer_plan {
    int m;
    bool own; /* the layers' own router runs, and ids are what it chooses */
    int32_t *ids;
    double touched[LAYER_SETS];
} layer_plan;
cadre_err layers_plan(layers *l, const routing *r, int m, uint64_t seed, layer_plan *p, cadre_fail *why);
/* Where in p->ids the routing of a layer begins. */
size_t layers_ids_at(const layers *l, const layer_plan *p, int set, int layer);
void layers_plan_done(layer_plan *p);
/* From now on the profile watches every layer; NULL: no longer. */
void layers_watch(layers *l, cadre_profile *profile);
/* One step over all layers with routing `set`. */
cadre_err layers_step(layers *l, const layer_plan *p, int set, cadre_fail *why);
#endif
