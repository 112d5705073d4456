/* gpu.h: a GPU as a cadre_device. Private to dev. */
#ifndef CADRE_DEV_GPU_H
#define CADRE_DEV_GPU_H
#include "dev/dev.h"

/* gpu: its number, or DEV_CURRENT (a context that is borrowed). Errors: as dev_cuda_open. */
cadre_err gpu_open(int gpu, cadre_device **out, cadre_fail *why);
void gpu_close(cadre_device *device); /* its GPU alone; nothing on a CPU */
#endif
