/* verify.h: proofs, on the machine at hand, that its kernels compute what docs/numerics.md says. */
#ifndef CMD_VERIFY_H
#define CMD_VERIFY_H
#include "dev/dev.h"
#include "op/kernel.h"

/* Runs `kernel` on `problems` random problems, each with default and random legal settings, and op/ref beside it; *bad:
 * how many outputs differ in any bit. The CPU must have the kernel's instructions. */
cadre_err verify_kernel(cadre_device *device, const op_kernel *kernel, int problems, uint64_t seed, uint64_t *bad,
                        cadre_fail *why);
#endif
