/* api.h: what is behind the public cadre_moe, on the CPU and on a GPU. Private to moe. */
#ifndef CADRE_MOE_API_H
#define CADRE_MOE_API_H
#include "moe/gpu.h"
#include "moe/moe.h"

struct cadre_moe {
    cadre_device *device;
    cadre_moe_desc desc;
    moe_layer layer; /* on the CPU */
    moe_gpu *gpu;    /* NULL on the CPU */
    size_t workspace_bytes;
};

struct cadre_moe_workspace {
    cadre_device *device;
    cadre_moe_desc desc; /* of layers that may use it, */
    size_t bytes;        /* if their plans take as much */
    void *block;
    moe_scratch scratch;
    moe_gpu_space *space;   /* on a GPU */
    cadre_profile *profile; /* NULL: runs are not watched */
    _Atomic bool busy;      /* a run is using it; on a GPU: is being queued, or waited for */
};

/* What every run checks first. */
cadre_err api_check(const cadre_moe *moe, const cadre_moe_workspace *w, int n, cadre_fail *why);

/* Marks the workspace as in use until api_leave. RANGE: it is, by another thread. */
cadre_err api_enter(cadre_moe_workspace *w, cadre_fail *why);
void api_leave(cadre_moe_workspace *w);

/* Host pointers: copied there and back, and waited for. What ids may hold was checked. */
cadre_err api_gpu_run(cadre_moe *moe, cadre_moe_workspace *w, int n, const float *x, const int32_t *ids,
                      const float *weights, float *out, cadre_fail *why);
cadre_err api_gpu_route(cadre_moe *moe, cadre_moe_workspace *w, int n, const float *x, int32_t *ids, float *weights,
                        cadre_fail *why);
#endif
