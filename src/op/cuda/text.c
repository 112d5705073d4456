/* text.c: the list of device texts and of their corners. */
#include "op/cuda/text.h"
#include <stddef.h>
#include <string.h>

#define X(symbol, name) extern const char symbol[];
OP_CUDA_TEXTS(X)
#undef X

const op_cuda_text op_cuda_texts[] = {
#define X(symbol, name) {name, symbol},
    OP_CUDA_TEXTS(X)
#undef X
        {NULL, NULL},
};

const char *op_cuda_text_get(const char *name) {
    for (const op_cuda_text *t = op_cuda_texts; t->name; t++)
        if (!strcmp(t->name, name)) return t->text;
    return NULL;
}

const op_cuda_corner op_cuda_corners[] = {
    {NULL, NULL, NULL},
};
