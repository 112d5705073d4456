/* driver.h: the CUDA driver: our own declarations of the calls that are used, and what its error codes mean to us.
 * Private to dev. The numbers and shapes are those of the driver's stable binary interface, 12.0 and later. */
#ifndef CADRE_DEV_DRIVER_H
#define CADRE_DEV_DRIVER_H
#include "dev/library.h"

/* Names of structs follow ours; what they hold follows the driver's. */
typedef unsigned long long driver_ptr;

typedef struct driver_attribute {
    int id, pad;
    union {
        unsigned long long room[8];
        struct {
            unsigned x, y, z;
        } cluster;
        int on;
    } value;
} driver_attribute;

typedef struct driver_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic;
    void *stream;
    driver_attribute *attributes;
    unsigned count;
} driver_launch;

enum { /* of a launch */
       DRIVER_LAUNCH_COOPERATIVE = 2,
       DRIVER_LAUNCH_CLUSTER = 4,
       DRIVER_LAUNCH_OVERLAP = 6, /* programmatic stream serialization */
};
enum { /* of a device */
       DRIVER_SMS = 16,
       DRIVER_L2 = 38,
       DRIVER_MAJOR = 75,
       DRIVER_MINOR = 76,
       DRIVER_SMEM_SM = 81,
       DRIVER_SMEM_BLOCK = 97,
};
enum { /* of a function */
       DRIVER_MAX_THREADS = 0,
       DRIVER_SMEM = 1,
       DRIVER_LOCAL = 3,
       DRIVER_REGISTERS = 4,
       DRIVER_DYNAMIC = 8,
};
enum { DRIVER_NON_BLOCKING = 1, DRIVER_CAPTURE_THREAD = 1, DRIVER_EVENT_NODE = 1, DRIVER_NO_TIMING = 2 };

/* X(name, symbol, arguments). The _v2 are the ones that the driver's header has meant by the plain name for years. */
#define DRIVER_CALLS(X)                                                                                        \
    X(cuInit, "cuInit", (unsigned flags))                                                                      \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                                \
    X(cuGetErrorString, "cuGetErrorString", (int code, const char **text))                                     \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                      \
    X(cuDeviceGet, "cuDeviceGet", (int *device, int ordinal))                                                  \
    X(cuDeviceGetName, "cuDeviceGetName", (char *name, int size, int device))                                  \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int id, int device))                          \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                   \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **context, int device))                      \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                                 \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (void **context))                                                    \
    X(cuCtxGetDevice, "cuCtxGetDevice", (int *device))                                                         \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total))                                  \
    X(cuMemAlloc, "cuMemAlloc_v2", (driver_ptr * p, size_t bytes))                                             \
    X(cuMemFree, "cuMemFree_v2", (driver_ptr p))                                                               \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                              \
    X(cuMemFreeHost, "cuMemFreeHost", (void *p))                                                               \
    X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (driver_ptr to, const void *from, size_t bytes))                        \
    X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, driver_ptr from, size_t bytes))                              \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (driver_ptr to, const void *from, size_t bytes, void *on))    \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, driver_ptr from, size_t bytes, void *on))          \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (driver_ptr to, driver_ptr from, size_t bytes, void *on))     \
    X(cuMemsetD8Async, "cuMemsetD8Async", (driver_ptr to, unsigned char byte, size_t count, void *on))         \
    X(cuStreamCreate, "cuStreamCreate", (void **stream, unsigned flags))                                       \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (void *stream))                                                   \
    X(cuStreamSynchronize, "cuStreamSynchronize", (void *stream))                                              \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))                     \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (void *stream, int mode))                               \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", (void *stream, int *status))                                 \
    X(cuStreamEndCapture, "cuStreamEndCapture", (void *stream, void **graph))                                  \
    X(cuEventCreate, "cuEventCreate", (void **event, unsigned flags))                                          \
    X(cuEventDestroy, "cuEventDestroy_v2", (void *event))                                                      \
    X(cuEventRecord, "cuEventRecord", (void *event, void *stream))                                             \
    X(cuEventRecordWithFlags, "cuEventRecordWithFlags", (void *event, void *stream, unsigned flags))           \
    X(cuEventSynchronize, "cuEventSynchronize", (void *event))                                                 \
    X(cuEventElapsedTime, "cuEventElapsedTime", (float *ms, void *from, void *to))                             \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (void **exec, void *graph, unsigned long long flags)) \
    X(cuGraphLaunch, "cuGraphLaunch", (void *exec, void *stream))                                              \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (void *exec))                                                  \
    X(cuGraphDestroy, "cuGraphDestroy", (void *graph))                                                         \
    X(cuModuleLoadData, "cuModuleLoadData", (void **module, const void *image))                                \
    X(cuModuleUnload, "cuModuleUnload", (void *module))                                                        \
    X(cuModuleGetFunction, "cuModuleGetFunction", (void **function, void *module, const char *name))           \
    X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *value, int id, void *function))                          \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", (void *function, int id, int value))                           \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",              \
      (int *blocks, void *function, int threads, size_t dynamic))                                              \
    X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",                                            \
      (int *clusters, void *function, const driver_launch *launch))                                            \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", (const driver_launch *launch, void *function, void **args, void **extra))

typedef struct driver {
#define X(name, symbol, args) int(*name) args;
    DRIVER_CALLS(X)
#undef X
    int version; /* 13000 is 13.0 */
    char path[LIBRARY_PATH];
} driver;

/* The library of switch cuda, else libcuda.so.1, opened once and kept; cuInit has passed.
 * Errors: UNSUPPORTED (none, or too old, or no GPU), DEVICE. The line says what is missing. */
cadre_err driver_open(const driver **out, cadre_fail *why);

/* What a driver's error code is to us; OK for 0. */
cadre_err driver_meaning(int code);
/* Will every later call fail too? */
bool driver_fatal(int code);
/* Fails with "call(of): the driver's word (code)"; of "": "call: ...". OK for code 0. */
cadre_err driver_check(const driver *cu, const char *call, const char *of, int code, cadre_fail *why);
#endif
