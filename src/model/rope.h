/* rope.h: rotary angles as tables. Private to model. */
#ifndef CADRE_MODEL_ROPE_H
#define CADRE_MODEL_ROPE_H
#include "model/model.h"

/* cos, sin [context][head_dim / 2] of a config's rotary embedding, YaRN included (attention factor folded in); angles
 * in double, rounded to fp32 once. Spread over the device's team. */
void rope_table(cadre_device *device, const model_config *c, int context, float *cos, float *sin);
/* Inverse frequency of pair i. */
double rope_frequency(const model_config *c, int i);
#endif
