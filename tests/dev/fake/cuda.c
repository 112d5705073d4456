/* cuda.c: a stand-in for the CUDA driver: enough of it for src/dev, with bookkeeping. It is stricter than the real one
 * about contexts: whatever needs a current context fails without one. */
#include "dev/driver.h"
#include "fake.h"
#include <stdlib.h>
#include <string.h>

#define X(name, symbol, args) int fake_##name args __asm__(symbol);
DRIVER_CALLS(X)
#undef X

fake_state fake;
static _Thread_local void *stack[8]; /* of contexts */
static _Thread_local int depth;
/* The addresses of these stand for streams, events and graphs. Of an event: when it was; of a graph: how long it takes.
 */
enum { THINGS = 1 << 16 };
static double at[THINGS];
static int things;
static double clock_ms; /* every kernel takes KERNEL_MS, in a graph too */
static const double KERNEL_MS = 0.25;

void fake_reset(void) {
    fake = (fake_state){.gpus = 2,
                        .driver = 13000,
                        .nvrtc = 13000,
                        .major = 9,
                        .memory = (size_t)1 << 34,
                        .fail_after = -1,
                        .captured = -1};
    const char *sms = getenv("FAKE_SMS");
    fake.sms = sms ? atoi(sms) : 4;
    depth = 0;
}

int fake_call(const char *name) {
    fake.calls++;
    if (fake.stuck) return fake.stuck;
    if (fake.fail_after < 0 || (fake.fail_call && strcmp(fake.fail_call, name))) return 0;
    if (fake.fail_after--) return 0;
    fake.last = name;
    if (fake.sticky) fake.stuck = fake.fail_code;
    return fake.fail_code;
}

#define GO(name)                     \
    do {                             \
        int code_ = fake_call(name); \
        if (code_) return code_;     \
    } while (0)
#define GO_INSIDE(name)         \
    do {                        \
        GO(name);               \
        if (!depth) return 201; \
    } while (0)

/* ---- devices and contexts ---- */

int fake_cuInit(unsigned flags) {
    (void)flags;
    GO("cuInit");
    return 0;
}
int fake_cuDriverGetVersion(int *version) {
    GO("cuDriverGetVersion");
    *version = fake.driver;
    return 0;
}
int fake_cuGetErrorString(int code, const char **text) {
    *text = code == 2     ? "out of memory"
            : code == 100 ? "no CUDA-capable device is detected"
            : code == 700 ? "an illegal memory access was encountered"
            : code == 719 ? "unspecified launch failure"
                          : NULL;
    return *text ? 0 : 1;
}
int fake_cuDeviceGetCount(int *count) {
    GO("cuDeviceGetCount");
    *count = fake.gpus;
    return 0;
}
int fake_cuDeviceGet(int *device, int ordinal) {
    GO("cuDeviceGet");
    *device = 10 + ordinal; /* not the ordinal itself: who mixes them up is found */
    return 0;
}
int fake_cuDeviceGetName(char *name, int size, int device) {
    GO("cuDeviceGetName");
    if (device < 10 || device >= 10 + fake.gpus) return 101;
    strncpy(name, device == 10 ? "Fake One" : "Fake Two", (size_t)size);
    return 0;
}
int fake_cuDeviceGetAttribute(int *value, int id, int device) {
    GO("cuDeviceGetAttribute");
    if (device < 10 || device >= 10 + fake.gpus) return 101;
    *value = id == DRIVER_SMS          ? fake.sms
             : id == DRIVER_L2         ? 1 << 20
             : id == DRIVER_MAJOR      ? fake.major
             : id == DRIVER_MINOR      ? fake.minor
             : id == DRIVER_SMEM_SM    ? 233472
             : id == DRIVER_SMEM_BLOCK ? 232448
                                       : 0;
    return 0;
}
int fake_cuDeviceTotalMem(size_t *bytes, int device) {
    (void)device;
    GO("cuDeviceTotalMem");
    *bytes = fake.memory;
    return 0;
}
int fake_cuDevicePrimaryCtxRetain(void **context, int device) {
    GO("cuDevicePrimaryCtxRetain");
    fake.contexts++;
    *context = &stack[device % 8];
    return 0;
}
int fake_cuDevicePrimaryCtxRelease(int device) {
    (void)device;
    fake.contexts--;
    GO("cuDevicePrimaryCtxRelease");
    return 0;
}
int fake_cuCtxGetCurrent(void **context) {
    GO("cuCtxGetCurrent");
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}
int fake_cuCtxGetDevice(int *device) {
    GO_INSIDE("cuCtxGetDevice");
    *device = 11;
    return 0;
}
int fake_cuCtxPushCurrent(void *context) {
    GO("cuCtxPushCurrent");
    if (depth == 8) return 1;
    stack[depth++] = context;
    return 0;
}
/* It gives the context back even when it reports an earlier error. */
int fake_cuCtxPopCurrent(void **context) {
    if (!depth) return 201;
    *context = stack[--depth];
    GO("cuCtxPopCurrent");
    return 0;
}

/* ---- memory ---- */

typedef struct block {
    size_t bytes;
    _Alignas(64) char data[];
} block;

static int take(size_t bytes, void **p) {
    if (bytes > fake.memory - fake.used) return 2;
    block *b = aligned_alloc(64, (sizeof *b + bytes + 63) / 64 * 64);
    if (!b) return 2;
    b->bytes = bytes;
    fake.used += bytes;
    fake.allocations++;
    *p = b->data;
    return 0;
}
static void give(void *p) {
    block *b = (block *)(void *)((char *)p - offsetof(block, data));
    fake.used -= b->bytes;
    fake.allocations--;
    free(b);
}
static void *host(driver_ptr p) {
    return (void *)(uintptr_t)p;
}

int fake_cuMemGetInfo(size_t *free_bytes, size_t *total) {
    GO_INSIDE("cuMemGetInfo");
    *free_bytes = fake.memory - fake.used;
    *total = fake.memory;
    return 0;
}
int fake_cuMemAlloc(driver_ptr *p, size_t bytes) {
    void *got = NULL;
    GO_INSIDE("cuMemAlloc");
    if (!bytes) return 1;
    int code = take(bytes, &got);
    *p = (driver_ptr)(uintptr_t)got;
    return code;
}
int fake_cuMemFree(driver_ptr p) {
    give(host(p)); /* whatever the call says: the test counts what was never given back */
    GO_INSIDE("cuMemFree");
    return 0;
}
int fake_cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    GO_INSIDE("cuMemHostAlloc");
    return take(bytes, p);
}
int fake_cuMemFreeHost(void *p) {
    give(p);
    GO_INSIDE("cuMemFreeHost");
    return 0;
}
int fake_cuMemcpyHtoD(driver_ptr to, const void *from, size_t bytes) {
    GO_INSIDE("cuMemcpyHtoD");
    memcpy(host(to), from, bytes);
    return 0;
}
int fake_cuMemcpyDtoH(void *to, driver_ptr from, size_t bytes) {
    GO_INSIDE("cuMemcpyDtoH");
    memcpy(to, host(from), bytes);
    return 0;
}
int fake_cuMemcpyHtoDAsync(driver_ptr to, const void *from, size_t bytes, void *on) {
    GO_INSIDE("cuMemcpyHtoDAsync");
    memcpy(host(to), from, bytes);
    fake.stream = on;
    return 0;
}
int fake_cuMemcpyDtoHAsync(void *to, driver_ptr from, size_t bytes, void *on) {
    GO_INSIDE("cuMemcpyDtoHAsync");
    memcpy(to, host(from), bytes);
    fake.stream = on;
    return 0;
}
int fake_cuMemcpyDtoDAsync(driver_ptr to, driver_ptr from, size_t bytes, void *on) {
    GO_INSIDE("cuMemcpyDtoDAsync");
    memcpy(host(to), host(from), bytes);
    fake.stream = on;
    return 0;
}
int fake_cuMemsetD8Async(driver_ptr to, unsigned char byte, size_t count, void *on) {
    GO_INSIDE("cuMemsetD8Async");
    memset(host(to), byte, count);
    fake.stream = on;
    return 0;
}

/* ---- streams, events, graphs ---- */

static void *thing(int *alive) {
    ++*alive;
    return &at[++things % THINGS];
}
/* NULL: a caller's own, which is none of ours. */
static double *at_of(void *thing) {
    uintptr_t from = (uintptr_t)at, p = (uintptr_t)thing;
    return p >= from && p < from + sizeof at ? thing : NULL;
}
/* Inside a graph: since its begin. */
static void stamp(void *event) {
    if (at_of(event)) *at_of(event) = fake.captured >= 0 ? fake.captured * KERNEL_MS : clock_ms;
}

int fake_cuStreamCreate(void **stream, unsigned flags) {
    GO_INSIDE("cuStreamCreate");
    if (flags != DRIVER_NON_BLOCKING) return 1;
    *stream = thing(&fake.streams);
    return 0;
}
int fake_cuStreamDestroy(void *stream) {
    (void)stream;
    fake.streams--;
    GO_INSIDE("cuStreamDestroy");
    return 0;
}
int fake_cuStreamSynchronize(void *stream) {
    (void)stream;
    GO_INSIDE("cuStreamSynchronize");
    return fake.captured >= 0 ? 900 : 0;
}
int fake_cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    GO_INSIDE("cuStreamWaitEvent");
    fake.waits++;
    return 0;
}
int fake_cuStreamBeginCapture(void *stream, int mode) {
    GO_INSIDE("cuStreamBeginCapture");
    if (!stream || mode != DRIVER_CAPTURE_THREAD || fake.captured >= 0) return 900;
    fake.captured = 0;
    return 0;
}
int fake_cuStreamIsCapturing(void *stream, int *status) {
    (void)stream;
    GO_INSIDE("cuStreamIsCapturing");
    *status = fake.captured >= 0;
    return 0;
}
int fake_cuStreamEndCapture(void *stream, void **graph) {
    (void)stream;
    bool was = fake.captured >= 0;
    int kernels = fake.captured;
    fake.captured = -1;
    GO_INSIDE("cuStreamEndCapture");
    if (!was) return 903;
    *graph = thing(&fake.graphs);
    *at_of(*graph) = kernels * KERNEL_MS;
    return 0;
}
int fake_cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    GO_INSIDE("cuEventCreate");
    *event = thing(&fake.events);
    return 0;
}
int fake_cuEventDestroy(void *event) {
    (void)event;
    fake.events--;
    GO_INSIDE("cuEventDestroy");
    return 0;
}
int fake_cuEventRecord(void *event, void *stream) {
    GO_INSIDE("cuEventRecord");
    fake.records++;
    stamp(event);
    fake.stream = stream;
    return 0;
}
/* Outside a capture the flag is an error, as with the real one. */
int fake_cuEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    GO_INSIDE("cuEventRecordWithFlags");
    if ((flags == DRIVER_EVENT_NODE) != (fake.captured >= 0)) return 1;
    stamp(event);
    fake.stream = stream;
    fake.stamps++;
    return 0;
}
int fake_cuEventSynchronize(void *event) {
    (void)event;
    GO_INSIDE("cuEventSynchronize");
    return 0;
}
int fake_cuEventElapsedTime(float *ms, void *from, void *to) {
    GO_INSIDE("cuEventElapsedTime");
    *ms = at_of(from) && at_of(to) ? (float)(*at_of(to) - *at_of(from)) : 0.f;
    return 0;
}
int fake_cuGraphInstantiate(void **exec, void *graph, unsigned long long flags) {
    (void)flags;
    GO_INSIDE("cuGraphInstantiate");
    *exec = thing(&fake.graphs);
    *at_of(*exec) = *at_of(graph);
    return 0;
}
int fake_cuGraphLaunch(void *exec, void *stream) {
    GO_INSIDE("cuGraphLaunch");
    clock_ms += *at_of(exec);
    fake.replays++;
    fake.stream = stream;
    return 0;
}
int fake_cuGraphExecDestroy(void *exec) {
    (void)exec;
    fake.graphs--;
    GO_INSIDE("cuGraphExecDestroy");
    return 0;
}
int fake_cuGraphDestroy(void *graph) {
    (void)graph;
    fake.graphs--;
    GO_INSIDE("cuGraphDestroy");
    return 0;
}

/* ---- modules: the image is what fake/nvrtc.c made, "FAKE" and the text ---- */

int fake_cuModuleLoadData(void **module, const void *image) {
    GO_INSIDE("cuModuleLoadData");
    if (!memcmp(image, "\177ELF", 4))
        image = "experts( router( pack( lists( single( round_out( fill( read4( read8( nothing( count( empty( bits(";
    else if (memcmp(image, "FAKE", 4))
        return 200;
    *module = malloc(strlen(image) + 1);
    if (!*module) return 2;
    strcpy(*module, image);
    fake.modules++;
    return 0;
}
int fake_cuModuleUnload(void *module) {
    free(module);
    fake.modules--;
    GO_INSIDE("cuModuleUnload");
    return 0;
}
/* A function is its name inside the module's text. */
int fake_cuModuleGetFunction(void **function, void *module, const char *name) {
    GO_INSIDE("cuModuleGetFunction");
    char *here = strstr(module, name);
    while (here && here[strlen(name)] != '(') here = strstr(here + 1, name);
    *function = here;
    return here ? 0 : 500;
}
int fake_cuFuncGetAttribute(int *value, int id, void *function) {
    (void)function;
    GO_INSIDE("cuFuncGetAttribute");
    *value = id == DRIVER_REGISTERS ? 40 : id == DRIVER_SMEM ? 1024 : id == DRIVER_MAX_THREADS ? 1024 : 0;
    return 0;
}
int fake_cuFuncSetAttribute(void *function, int id, int value) {
    (void)function;
    GO_INSIDE("cuFuncSetAttribute");
    if (id != DRIVER_DYNAMIC) return 1;
    fake.dynamic = (unsigned)value;
    return 0;
}
int fake_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t dynamic) {
    (void)function, (void)dynamic;
    GO_INSIDE("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *blocks = 2048 / threads;
    return 0;
}
int fake_cuOccupancyMaxActiveClusters(int *clusters, void *function, const driver_launch *l) {
    GO_INSIDE("cuOccupancyMaxActiveClusters");
    if (!function || l->count != 1 || l->attributes->id != DRIVER_LAUNCH_CLUSTER) return 1;
    *clusters = l->grid_x == l->attributes->value.cluster.x ? 132 / (int)l->grid_x - 1 : 0;
    return 0;
}
int fake_cuLaunchKernelEx(const driver_launch *l, void *function, void **args, void **extra) {
    GO_INSIDE("cuLaunchKernelEx");
    if (!function || extra) return 1;
    memcpy(fake.grid, &l->grid_x, sizeof fake.grid);
    memcpy(fake.block, &l->block_x, sizeof fake.block);
    fake.dynamic = l->dynamic;
    fake.stream = l->stream;
    fake.attributes = l->count;
    fake.cluster = fake.overlap = fake.together = 0;
    for (unsigned i = 0; i < l->count; i++) {
        const driver_attribute *a = &l->attributes[i];
        if (a->id == DRIVER_LAUNCH_CLUSTER) fake.cluster = a->value.cluster.x;
        if (a->id == DRIVER_LAUNCH_OVERLAP) fake.overlap = (unsigned)a->value.on;
        if (a->id == DRIVER_LAUNCH_COOPERATIVE) fake.together = (unsigned)a->value.on;
    }
    strncpy(fake.kernel, function, sizeof fake.kernel - 1);
    fake.kernel[strcspn(fake.kernel, "(")] = 0;
    if (fake.captured >= 0)
        fake.captured++;
    else
        fake.launches++, clock_ms += KERNEL_MS;
    if (fake.captured < 0 && !strcmp(fake.kernel, "count")) fake_count(args);
    return 0;
}
