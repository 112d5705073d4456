/* verify_gpu.h: the proofs, on the GPU at hand, that its MoE layer has one set of bits (sm90-bf16-k16,
 * docs/numerics.md), and that they mean what a layer should. */
#ifndef CMD_VERIFY_GPU_H
#define CMD_VERIFY_GPU_H
#include "dev/dev.h"

typedef struct gpu_proofs {
    int runs, runs_bad; /* configurations, numbers of tokens, eagerly and as a graph: against the policy's own run */
    int rows, rows_bad; /* each row alone, and in another order: against the same */
    double error,
        most; /* of the experts against their meaning in double, the worst layer; what may be. No CPU has the bits */
} gpu_proofs;

/* A small layer and one of a real shape: every configuration of the policy, for 1, 8 and 33 tokens. A run is bad if any
 * bit differs, or something was left out. Switches gpu.* are as before afterwards. `device` is a GPU.
 * Errors: UNSUPPORTED (this GPU has no MoE layers), COMPILE, NOMEM, DEVICE, RANGE. */
cadre_err verify_gpu(cadre_device *device, gpu_proofs *out, cadre_fail *why);
#endif
