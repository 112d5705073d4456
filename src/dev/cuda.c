/* cuda.c: a GPU opened and closed, its context kept out of the caller's way, its errors kept in mind; and its memory.
 */
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"
#include <stdio.h>
#include <string.h>

/* ---- every call ---- */

static void lose(dev_cuda *gpu, const char *text) {
    int well = CUDA_WELL;
    if (!atomic_compare_exchange_strong(&gpu->state, &well, CUDA_LOSING)) return;
    snprintf(gpu->lost_text, sizeof gpu->lost_text, "%.255s", text);
    atomic_store(&gpu->state, CUDA_LOST);
}

bool dev_cuda_lost(const dev_cuda *gpu) {
    return atomic_load(&gpu->state) != CUDA_WELL;
}

void cuda_check(cuda_scope *s, const char *call, int code) {
    cadre_fail inner = {0};
    if (!code) return;
    s->code = code;
    s->err = driver_check(s->gpu->cu, call, s->of, code, &inner);
    if (driver_fatal(code)) lose(s->gpu, inner.text);
    cadre_fail_set(s->why, s->err, "%s", inner.text);
}

/* Looking is cheaper than pushing, and in a program of one context it's all that is needed. */
static void push(cuda_scope *s) {
    void *current = NULL;
    CALL(*s, cuCtxGetCurrent, &current);
    if (s->err || current == s->gpu->context) return;
    CALL(*s, cuCtxPushCurrent, s->gpu->context);
    s->pushed = !s->err;
}

cuda_scope cuda_enter(dev_cuda *gpu, cadre_fail *why) {
    cuda_scope s = {.gpu = gpu, .why = why, .of = ""};
    int state = atomic_load(&gpu->state);
    if (state == CUDA_WELL)
        push(&s);
    else
        s.err = cadre_fail_set(why, CADRE_DEVICE, "the GPU is lost: %s",
                               state == CUDA_LOST ? gpu->lost_text : "another thread's error");
    return s;
}

cuda_scope cuda_enter_free(dev_cuda *gpu) {
    cuda_scope s = {.gpu = gpu, .of = ""};
    push(&s);
    s.err = CADRE_OK;
    return s;
}

cadre_err cuda_leave(cuda_scope *s) {
    void *top;
    if (s->pushed) s->gpu->cu->cuCtxPopCurrent(&top); /* fails only after a worse error, which is noted */
    return s->err;
}

/* ---- opening ---- */

enum { LEAST_MAJOR = 8 }; /* bf16 and cp.async */

static void attribute(cuda_scope *s, int id, int *value) {
    CALL(*s, cuDeviceGetAttribute, value, id, s->gpu->device);
}

static void look(cuda_scope *s) {
    dev_cuda_traits *t = &s->gpu->traits;
    int l2 = 0;
    CALL(*s, cuDeviceGetName, t->name, (int)sizeof t->name, s->gpu->device);
    CALL(*s, cuDeviceTotalMem, &t->memory, s->gpu->device);
    attribute(s, DRIVER_MAJOR, &t->major);
    attribute(s, DRIVER_MINOR, &t->minor);
    attribute(s, DRIVER_SMS, &t->sms);
    attribute(s, DRIVER_L2, &l2);
    attribute(s, DRIVER_SMEM_BLOCK, &t->smem_block);
    attribute(s, DRIVER_SMEM_SM, &t->smem_sm);
    t->l2 = l2 > 0 ? (size_t)l2 : 0;
    /* The 'a' has the instructions of that very chip: wgmma on 9.0. */
    snprintf(t->arch, sizeof t->arch, "sm_%d%d%s", t->major, t->minor, t->major >= 9 ? "a" : "");
}

static cadre_err new_enough(const dev_cuda_traits *t, cadre_fail *why) {
    if (t->major >= LEAST_MAJOR) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "%s has compute capability %d.%d, %d.0 or higher is needed", t->name,
                          t->major, t->minor, LEAST_MAJOR);
}

static cadre_err make(const driver *cu, int ordinal, dev_cuda **out, cadre_fail *why) {
    dev_cuda *gpu = mem_new(sizeof *gpu);
    if (!gpu) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a GPU");
    gpu->cu = cu;
    gpu->device = ordinal;
    gpu->traits.ordinal = ordinal;
    gpu->traits.driver = cu->version;
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_mutex_init(&gpu->turn.lock, NULL);
    cuda_scope s = {.gpu = gpu, .why = why, .of = ""};
    look(&s);
    if (!s.err) s.err = new_enough(&gpu->traits, why);
    if (s.err)
        mem_free(gpu);
    else
        *out = gpu;
    return s.err;
}

static cadre_err find(const driver *cu, int ordinal, int *device, cadre_fail *why) {
    int count = 0;
    cadre_err err = driver_check(cu, "cuDeviceGetCount", "", cu->cuDeviceGetCount(&count), why);
    if (err) return err;
    if (!count) return cadre_fail_set(why, CADRE_UNSUPPORTED, "the CUDA driver %s shows no GPU", cu->path);
    if (ordinal < 0 || ordinal >= count)
        return cadre_fail_set(why, CADRE_RANGE, "GPU %d is not there, expected 0..%d", ordinal, count - 1);
    return driver_check(cu, "cuDeviceGet", "", cu->cuDeviceGet(device, ordinal), why);
}

cadre_err dev_cuda_open(int ordinal, dev_cuda **out, cadre_fail *why) {
    const driver *cu;
    dev_cuda *gpu = NULL;
    int device = 0;
    cadre_err err = driver_open(&cu, why);
    if (!err) err = find(cu, ordinal, &device, why);
    if (!err) err = make(cu, device, &gpu, why);
    if (err) return err;
    gpu->traits.ordinal = ordinal;
    cuda_scope s = {.gpu = gpu, .why = why, .of = gpu->traits.name};
    CALL(s, cuDevicePrimaryCtxRetain, &gpu->context, device);
    if (s.err)
        mem_free(gpu);
    else
        *out = gpu;
    return s.err;
}

cadre_err dev_cuda_open_current(dev_cuda **out, cadre_fail *why) {
    const driver *cu;
    dev_cuda *gpu = NULL;
    void *context = NULL;
    int device = 0;
    cadre_err err = driver_open(&cu, why);
    if (!err) err = driver_check(cu, "cuCtxGetCurrent", "", cu->cuCtxGetCurrent(&context), why);
    if (!err && !context) err = cadre_fail_set(why, CADRE_RANGE, "this thread has no current CUDA context");
    if (!err) err = driver_check(cu, "cuCtxGetDevice", "", cu->cuCtxGetDevice(&device), why);
    if (!err) err = make(cu, device, &gpu, why);
    if (err) return err;
    gpu->context = context;
    gpu->borrowed = true;
    *out = gpu;
    return CADRE_OK;
}

void dev_cuda_close(dev_cuda *gpu) {
    if (!gpu) return;
    cuda_turns_free(gpu);
    if (!gpu->borrowed) gpu->cu->cuDevicePrimaryCtxRelease(gpu->device);
    mem_free(gpu);
}

const dev_cuda_traits *dev_cuda_about(const dev_cuda *gpu) {
    return &gpu->traits;
}

/* ---- memory ---- */

static _Atomic uint64_t allocations;

uint64_t dev_cuda_allocations(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

cadre_err dev_cuda_memory(dev_cuda *gpu, size_t *free_bytes, size_t *total, cadre_fail *why) {
    size_t has = 0, all = 0;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuMemGetInfo, &has, &all);
    if (!s.err) *free_bytes = has, *total = all;
    return cuda_leave(&s);
}

static void tell_size(cuda_scope *s, size_t bytes) {
    char text[128];
    size_t has = 0, all = 0;
    if (s->err != CADRE_NOMEM || !s->why || s->gpu->cu->cuMemGetInfo(&has, &all)) return;
    snprintf(text, sizeof text, "%.127s", s->why->text);
    cadre_fail_set(s->why, CADRE_NOMEM, "%s: %zu bytes asked for, %zu of %zu free", text, bytes, has, all);
}

/* The driver refuses 0 bytes. */
cadre_err dev_cuda_alloc(dev_cuda *gpu, size_t bytes, void **out, cadre_fail *why) {
    driver_ptr p = 0;
    cuda_scope s = cuda_enter(gpu, why);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    CALL(s, cuMemAlloc, &p, bytes ? bytes : 1);
    tell_size(&s, bytes);
    if (!s.err) *out = (void *)(uintptr_t)p;
    return cuda_leave(&s);
}

void dev_cuda_free(dev_cuda *gpu, void *p) {
    if (!p) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuMemFree, cuda_ptr(p));
    cuda_leave(&s);
}

cadre_err dev_cuda_alloc_host(dev_cuda *gpu, size_t bytes, void **out, cadre_fail *why) {
    void *p = NULL;
    cuda_scope s = cuda_enter(gpu, why);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    CALL(s, cuMemHostAlloc, &p, bytes ? bytes : 1, 0);
    if (!s.err) *out = p;
    return cuda_leave(&s);
}

void dev_cuda_free_host(dev_cuda *gpu, void *p) {
    if (!p) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuMemFreeHost, p);
    cuda_leave(&s);
}

cadre_err dev_cuda_put(dev_cuda *gpu, void *to, const void *from_host, size_t bytes, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemcpyHtoD, cuda_ptr(to), from_host, bytes);
    return cuda_leave(&s);
}

cadre_err dev_cuda_get(dev_cuda *gpu, void *to_host, const void *from, size_t bytes, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemcpyDtoH, to_host, cuda_ptr(from), bytes);
    return cuda_leave(&s);
}

cadre_err dev_cuda_put_async(dev_cuda *gpu, void *to, const void *from_host, size_t bytes, void *stream,
                             cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemcpyHtoDAsync, cuda_ptr(to), from_host, bytes, stream);
    return cuda_leave(&s);
}

cadre_err dev_cuda_get_async(dev_cuda *gpu, void *to_host, const void *from, size_t bytes, void *stream,
                             cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemcpyDtoHAsync, to_host, cuda_ptr(from), bytes, stream);
    return cuda_leave(&s);
}

cadre_err dev_cuda_copy_async(dev_cuda *gpu, void *to, const void *from, size_t bytes, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemcpyDtoDAsync, cuda_ptr(to), cuda_ptr(from), bytes, stream);
    return cuda_leave(&s);
}

cadre_err dev_cuda_fill_async(dev_cuda *gpu, void *to, unsigned char byte, size_t bytes, void *stream,
                              cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    if (bytes) CALL(s, cuMemsetD8Async, cuda_ptr(to), byte, bytes, stream);
    return cuda_leave(&s);
}
