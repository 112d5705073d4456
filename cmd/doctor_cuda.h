/* doctor_cuda.h: the doctor's part about NVIDIA GPUs: driver, compiler, kernel cache, one GPU and its ceilings. */
#ifndef CMD_DOCTOR_CUDA_H
#define CMD_DOCTOR_CUDA_H
#include "base/base.h"
#include "dev/cuda.h"

typedef struct doctor_cuda {
    dev_cuda_status status;
    int ordinal; /* of the GPU that is looked at */
    bool opened; /* it was: traits are there */
    dev_cuda_traits traits;
    size_t free_bytes;
    bool measured;
    dev_cuda_ceiling ceiling;
    cadre_fail why; /* what kept the GPU from being opened or measured */
} doctor_cuda;

/* named: the GPU to look at, which is open; NULL: the first, if there is one, opened to measure it. A GPU that fails is
 * told about, it ends nothing. */
void doctor_cuda_look(doctor_cuda *d, dev_cuda *named, bool measure);
void doctor_cuda_say(const doctor_cuda *d);
void doctor_cuda_put(const doctor_cuda *d, json_out *o);
/* Lines for the list of what is missing; NULL: nothing is. A machine without a GPU needs neither, but what a switch
 * names should be there. */
const char *doctor_cuda_no_driver(const doctor_cuda *d);
const char *doctor_cuda_no_nvrtc(const doctor_cuda *d);
#endif
