/* verify_gpu.h: the proof, on the GPU at hand, that its MoE layer has one set of bits (sm90-bf16-k16,
 * docs/numerics.md). What those bits mean is tested elsewhere (tests/gpu): no CPU has them. */
#ifndef CMD_VERIFY_GPU_H
#define CMD_VERIFY_GPU_H
#include "dev/dev.h"

/* A small layer and one of a real shape: every configuration of the policy, for 1, 8 and 33 tokens, eagerly and as a
 * graph, against the policy's own run. *runs: how many there were; *bad: how many of them differ in any bit, or left
 * something out. Switches gpu.* are as before afterwards. `device` is a GPU.
 * Errors: UNSUPPORTED (this GPU has no MoE layers), COMPILE, NOMEM, DEVICE, RANGE. */
cadre_err verify_gpu(cadre_device *device, int *runs, int *bad, cadre_fail *why);
#endif
