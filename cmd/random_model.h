/* random_model.h: a model folder with random weights in the shape of a config.json, for measuring shapes whose
 * checkpoint isn't at hand. The folder is temporary: open the model, then remove it. */
#ifndef CMD_RANDOM_MODEL_H
#define CMD_RANDOM_MODEL_H
#include "open.h"

/* `config`: a config.json or a folder that has one. Weights are uniform with variance 1/in, norms 1, biases 0; the same
 * seed gives the same bytes. Errors: as the model's own, and IO when the folder would be larger than the disk allows.
 */
cadre_err random_model_write(const char *config, uint64_t seed, char dir[OPEN_PATH_MAX], cadre_fail *why);
void random_model_remove(const char *dir);
#endif
