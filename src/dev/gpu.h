/* gpu.h: a GPU as a cadre_device. Private to dev. */
#ifndef CADRE_DEV_GPU_H
#define CADRE_DEV_GPU_H
#include "dev/dev.h"

/* name: "cuda" (the first), "cuda:N", "cuda:current" (the context that is current in the calling thread, borrowed).
 * Errors: as dev_cuda_open; UNSUPPORTED for another name. */
cadre_err gpu_open(const char *name, cadre_device **out, cadre_fail *why);
void gpu_close(cadre_device *device); /* its GPU alone; nothing on a CPU */
#endif
