/* cuda_gpu.h: what is behind dev_cuda, and the way every call of the driver goes. Private to dev.
 *
 *   cuda_scope s = cuda_enter(gpu, why);        the GPU's context is current; nothing if the GPU is lost
 *   CALL(s, cuMemAlloc, &p, bytes);             skipped once a call has failed
 *   return cuda_leave(&s);                      the caller's context is back; the first error
 */
#ifndef CADRE_DEV_CUDA_GPU_H
#define CADRE_DEV_CUDA_GPU_H
#include "dev/cuda.h"
#include "dev/driver.h"
#include <pthread.h>
#include <stdatomic.h>

enum { CUDA_WELL, CUDA_LOSING, CUDA_LOST }; /* LOSING: lost, while lost_text is being written */

/* Whose run is last (cuda_turn.c). Held from begin to end. */
typedef struct cuda_turn {
    pthread_mutex_t lock;
    void *event, *stream; /* event NULL: nobody takes turns; stream: of the last run, compared and never used */
    bool pending, on;     /* a run was recorded; the turn that is held orders its stream */
} cuda_turn;

struct dev_cuda {
    const driver *cu;
    void *context;
    int device;
    bool borrowed; /* the context is the caller's */
    _Atomic int state;
    char lost_text[256]; /* the error that lost it, once state is CUDA_LOST */
    dev_cuda_traits traits;
    pthread_mutex_t lock;     /* of the list */
    dev_cuda_module *modules; /* loaded now */
    cuda_turn turn;
};
void cuda_turns_free(dev_cuda *gpu);

typedef struct cuda_scope {
    dev_cuda *gpu;
    cadre_fail *why;
    const char *of; /* what the call is about, for the message; "" */
    cadre_err err;
    int code;    /* the driver's, of the first call that failed */
    bool pushed; /* our context is on top of the caller's */
} cuda_scope;

cuda_scope cuda_enter(dev_cuda *gpu, cadre_fail *why);
/* For what frees: goes in although the GPU is lost, and tells nobody. */
cuda_scope cuda_enter_free(dev_cuda *gpu);
cadre_err cuda_leave(cuda_scope *s);
/* Notes a call's result. */
void cuda_check(cuda_scope *s, const char *call, int code);

#define CALL(s, name, ...)                                                     \
    do {                                                                       \
        if (!(s).err) cuda_check(&(s), #name, (s).gpu->cu->name(__VA_ARGS__)); \
    } while (0)

static inline driver_ptr cuda_ptr(const void *p) {
    return (driver_ptr)(uintptr_t)p;
}
#endif
