/* registry.c: the model families, one line each; X(name) is arch_name of arch/name.c. */
#include "model/model.h"
#include <string.h>

#define ARCHS(X) \
    X(qwen3_moe) \
    X(qwen2_moe)

#define X(name) extern const model_arch arch_##name;
ARCHS(X)
#undef X

const model_arch *const model_archs[] = {
#define X(name) &arch_##name,
    ARCHS(X)
#undef X
        NULL};

const model_arch *model_arch_find(const char *model_type) {
    for (int i = 0; model_archs[i]; i++)
        if (!strcmp(model_archs[i]->model_type, model_type)) return model_archs[i];
    return NULL;
}
