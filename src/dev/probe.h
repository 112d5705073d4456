/* probe.h: the text of probe.cu. Private to dev. */
#ifndef CADRE_DEV_PROBE_H
#define CADRE_DEV_PROBE_H
#include "dev/cuda.h"

extern const char dev_probe_cu[];

/* Its kernels: fill(words, count), read4 and read8(words, count, one u32 per warp of the grid), nothing(). */
#define PROBE_SOURCE ((dev_cuda_source){.main = {"probe.cu", dev_probe_cu}})
#endif
