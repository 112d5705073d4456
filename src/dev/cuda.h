/* cuda.h: an NVIDIA GPU as a device: its memory, streams, kernels, and its measured ceilings. The driver and the
 * compiler (NVRTC) are opened at run time: nothing of CUDA is needed to build, and the program runs without a GPU.
 *
 *   text + options -> (disk cache | NVRTC) -> module -> kernel -> launch on a stream
 *
 * Rules that hold for every call:
 * - `gpu` may be used from many threads at once. A call makes the GPU's context current for itself alone: the caller's
 *   own stays as it was.
 * - Device pointers are `void *` that only kernels and the copies here may follow. A stream, an event or a graph is the
 *   driver's own handle as `void *`, so those of other libraries (PyTorch, the runtime API) fit; stream NULL is the
 *   legacy default stream.
 * - Every call of the driver is checked; *why says which call failed and the driver's word for it:
 *   "cuLaunchKernelEx(experts_up): an illegal memory access was encountered (700)".
 *   Codes: NOMEM (device or pinned memory), COMPILE (text or binary), UNSUPPORTED (this GPU or driver can't), RANGE (a
 *   caller's value), else DEVICE.
 * - An error that the driver never recovers from makes the GPU *lost*: every later call returns DEVICE at once and
 * names the first error. What frees something still may be called, and does what it can.
 */
#ifndef CADRE_DEV_CUDA_H
#define CADRE_DEV_CUDA_H
#include "base/base.h"

typedef struct dev_cuda dev_cuda;

/* ---- the GPU ---- */

typedef struct dev_cuda_traits {
    char name[96];    /* "NVIDIA H200" */
    char arch[16];    /* what kernels are compiled for: "sm_90a" */
    int ordinal;      /* the driver's number */
    int major, minor; /* compute capability */
    int sms;          /* multiprocessors */
    int driver;       /* version of the CUDA driver, 13000 is 13.0 */
    int smem_block;   /* most shared memory of one block, bytes, when its kernel asks for it */
    int smem_sm;      /* shared memory of one multiprocessor, bytes */
    size_t l2;        /* bytes */
    size_t memory;    /* bytes in all */
} dev_cuda_traits;

/* The ordinal-th GPU, in its primary context (the one that the runtime API and PyTorch use).
 * Errors: UNSUPPORTED (no driver, no GPU, one below compute capability 8.0: the line says what is missing), RANGE (no
 * such ordinal), NOMEM, DEVICE. */
cadre_err dev_cuda_open(int ordinal, dev_cuda **out, cadre_fail *why);
/* The context that is current in the calling thread, borrowed: it must outlive the handle. RANGE: there is none. */
cadre_err dev_cuda_open_current(dev_cuda **out, cadre_fail *why);
/* NULL is fine. Free first what was made on it. */
void dev_cuda_close(dev_cuda *gpu);
const dev_cuda_traits *dev_cuda_about(const dev_cuda *gpu);
bool dev_cuda_lost(const dev_cuda *gpu);

/* ---- memory ---- */

/* Bytes free now, and in all. */
cadre_err dev_cuda_memory(dev_cuda *gpu, size_t *free_bytes, size_t *total, cadre_fail *why);
/* At least 256-byte aligned, not cleared; 0 bytes give a pointer that may be freed. NOMEM says how much was asked for
 * and how much is free. */
cadre_err dev_cuda_alloc(dev_cuda *gpu, size_t bytes, void **out, cadre_fail *why);
void dev_cuda_free(dev_cuda *gpu, void *p);
/* Host memory that the GPU reads and writes directly (pinned): what asynchronous copies need. */
cadre_err dev_cuda_alloc_host(dev_cuda *gpu, size_t bytes, void **out, cadre_fail *why);
void dev_cuda_free_host(dev_cuda *gpu, void *p);
/* Allocations of both kinds so far, all GPUs: law L2 counts them. */
uint64_t dev_cuda_allocations(void);

/* Host to device, device to host, device to device. The plain ones return when it's done; the others are queued, and
 * need pinned host memory to be asynchronous, and that it stays until they ran. */
cadre_err dev_cuda_put(dev_cuda *gpu, void *to, const void *from_host, size_t bytes, cadre_fail *why);
cadre_err dev_cuda_get(dev_cuda *gpu, void *to_host, const void *from, size_t bytes, cadre_fail *why);
cadre_err dev_cuda_put_async(dev_cuda *gpu, void *to, const void *from_host, size_t bytes, void *stream,
                             cadre_fail *why);
cadre_err dev_cuda_get_async(dev_cuda *gpu, void *to_host, const void *from, size_t bytes, void *stream,
                             cadre_fail *why);
cadre_err dev_cuda_copy_async(dev_cuda *gpu, void *to, const void *from, size_t bytes, void *stream, cadre_fail *why);
cadre_err dev_cuda_fill_async(dev_cuda *gpu, void *to, unsigned char byte, size_t bytes, void *stream, cadre_fail *why);

/* ---- streams, events, graphs ---- */

cadre_err dev_cuda_stream_new(dev_cuda *gpu, void **stream, cadre_fail *why); /* does not wait for the default stream */
void dev_cuda_stream_free(dev_cuda *gpu, void *stream);
cadre_err dev_cuda_sync(dev_cuda *gpu, void *stream, cadre_fail *why); /* errors of what ran come out here */

cadre_err dev_cuda_event_new(dev_cuda *gpu, void **event, cadre_fail *why);
void dev_cuda_event_free(dev_cuda *gpu, void *event);
cadre_err dev_cuda_event_record(dev_cuda *gpu, void *event, void *stream, cadre_fail *why);
/* Waits until what was queued before the event was recorded is done; an event never recorded is. */
cadre_err dev_cuda_event_sync(dev_cuda *gpu, void *event, cadre_fail *why);
/* What is queued on the stream from now on waits for the event. */
cadre_err dev_cuda_event_wait(dev_cuda *gpu, void *event, void *stream, cadre_fail *why);
/* Waits for the second event; milliseconds between the two. */
cadre_err dev_cuda_event_ms(dev_cuda *gpu, void *from, void *to, double *ms, cadre_fail *why);

/* Turns: runs whose blocks wait for each other, so that no two may be on the GPU at once. What is queued between begin
 * and end runs after what any thread queued so before it on another stream of this dev_cuda: the stream waits, nobody
 * else. A stream that is captured is left alone, since the caller orders replays; so is every one with switch order=0.
 * turns_new: once, before. end: after every begin that succeeded, whatever came in between; it alone lets the next
 * thread in. Allocates nothing. */
cadre_err dev_cuda_turns_new(dev_cuda *gpu, cadre_fail *why);
cadre_err dev_cuda_turn_begin(dev_cuda *gpu, void *stream, cadre_fail *why);
cadre_err dev_cuda_turn_end(dev_cuda *gpu, void *stream, cadre_fail *why);

/* Between the two, what is queued on the stream (not the default one) is written down instead of run, and becomes a
 * graph that can be launched again and again. After an error in between, call capture_end all the same: it gives the
 * error and ends the capture. */
cadre_err dev_cuda_capture_begin(dev_cuda *gpu, void *stream, cadre_fail *why);
cadre_err dev_cuda_capture_end(dev_cuda *gpu, void *stream, void **graph, cadre_fail *why);
cadre_err dev_cuda_graph_launch(dev_cuda *gpu, void *graph, void *stream, cadre_fail *why);
void dev_cuda_graph_free(dev_cuda *gpu, void *graph);

/* ---- times of what a stream runs ---- */

/* Events between launches, for a profile. */
typedef struct dev_cuda_stamps dev_cuda_stamps;
cadre_err dev_cuda_stamps_new(dev_cuda *gpu, dev_cuda_stamps **out, cadre_fail *why);
void dev_cuda_stamps_free(dev_cuda_stamps *stamps); /* NULL is fine */
/* What was queued since the stamp before is op; NULL: nothing is, what comes next begins here. While the stream is
 * captured the stamp becomes part of the graph. Allocates nothing. */
cadre_err dev_cuda_stamp(dev_cuda_stamps *stamps, const profile_op *op, void *stream, cadre_fail *why);
/* Waits, and books the times since the last read; of stamps in graphs those of the last replay, each time anew.
 * RANGE: there were more stamps than are kept. */
cadre_err dev_cuda_stamps_read(dev_cuda_stamps *stamps, profiler *p, cadre_fail *why);
void dev_cuda_stamps_forget(dev_cuda_stamps *stamps);

/* ---- kernels ---- */

/* One embedded text of device code. The Makefile makes of src/op/cuda/experts.cu the symbol op_cuda_experts_cu. */
typedef struct dev_cuda_text {
    const char *name; /* "experts.cu": in messages, and what #include asks for */
    const char *text; /* terminated */
} dev_cuda_text;

typedef struct dev_cuda_source {
    dev_cuda_text main;
    const dev_cuda_text *headers; /* what the text may #include, and they each other; NULL: nothing */
    int header_count;
} dev_cuda_source;

/* Options that are always there, beside the caller's: the GPU's arch, --std=c++17, and what docs/numerics.md wants
 * everywhere: --fmad=false (a fused multiply-add is one that the text asks for) and --ftz=true; no warning for what a
 * text includes and does not use. */
typedef struct dev_cuda_module dev_cuda_module;
/* options: "-DROWS=4", ... The binary comes from the disk cache (switch cache) where the same text was compiled with
 * the same options, for the same arch, by the same NVRTC; else NVRTC compiles it, and the cache keeps it.
 * While such a module is there, the same one is given again: layers of one shape share their kernels. Errors:
 * COMPILE (the first error as "experts.cu(12): error: ..."), UNSUPPORTED (no NVRTC, or one that does not know this
 * GPU), NOMEM, DEVICE. */
cadre_err dev_cuda_module_new(dev_cuda *gpu, const dev_cuda_source *source, const char *const *options, int count,
                              dev_cuda_module **out, cadre_fail *why);
void dev_cuda_module_free(dev_cuda *gpu, dev_cuda_module *module); /* NULL is fine; its kernels end with it */

typedef struct dev_cuda_kernel {
    void *function;
    char name[64];
    int registers;   /* per thread */
    int smem;        /* static shared memory, bytes */
    int local;       /* local memory per thread, bytes: spilled registers and arrays */
    int max_threads; /* per block */
} dev_cuda_kernel;
/* The extern "C" __global__ function of that name, allowed to use `dynamic` bytes of dynamic shared memory.
 * RANGE: no such function, or more shared memory than a block may have. *out is valid until the module is freed. */
cadre_err dev_cuda_kernel_get(dev_cuda *gpu, const dev_cuda_module *module, const char *name, size_t dynamic,
                              dev_cuda_kernel *out, cadre_fail *why);
/* How many blocks of so many threads and so much dynamic shared memory one multiprocessor holds at once. */
cadre_err dev_cuda_resident(dev_cuda *gpu, const dev_cuda_kernel *kernel, int threads, size_t dynamic, int *blocks,
                            cadre_fail *why);

typedef struct dev_cuda_launch {
    const dev_cuda_kernel *kernel;
    unsigned grid[3], block[3]; /* 0 counts as 1 */
    unsigned dynamic;           /* bytes of dynamic shared memory */
    unsigned cluster;           /* blocks of a cluster along x; 0 or 1: no clusters */
    bool overlap;               /* may start before the kernel in front of it ends; its text then waits by
                                   griddepcontrol.wait (programmatic stream serialization, compute capability 9.0) */
    bool together;              /* all blocks resident at once, or an error (cooperative) */
    void *stream;
    void **args; /* one pointer to each argument, in order */
} dev_cuda_launch;
/* How many clusters of a launch like this, whatever its grid, the GPU holds at once: not every part of it has room for
 * as many as multiprocessors would make. UNSUPPORTED: no clusters here. */
cadre_err dev_cuda_clusters(dev_cuda *gpu, const dev_cuda_launch *launch, int *clusters, cadre_fail *why);
/* Queues the kernel; allocates nothing. Errors while it runs come out of a later call. */
cadre_err dev_cuda_run(dev_cuda *gpu, const dev_cuda_launch *launch, cadre_fail *why);

/* ---- ceilings ---- */

typedef struct dev_cuda_ceiling {
    double read_gbps; /* device memory, best of several shapes of a plain read kernel over many times the L2 */
    double launch_us; /* an empty kernel, launched back to back on a stream */
    double graph_us;  /* an empty kernel, as one of many nodes of a graph */
    double replay_us; /* a graph of one empty kernel, launched and waited for */
} dev_cuda_ceiling;
/* Best of `repeats`. Takes memory of 32 x L2, and less where less is free. Errors: as module_new, NOMEM. */
cadre_err dev_cuda_measure(dev_cuda *gpu, int repeats, dev_cuda_ceiling *out, cadre_fail *why);

/* ---- what is there ---- */

/* For `cadre doctor`. Where a part is missing, its text says what was looked for and what went wrong. */
typedef struct dev_cuda_status {
    int driver;                                                /* 13000 is 13.0; 0: missing */
    int devices;                                               /* GPUs that the driver shows */
    int nvrtc;                                                 /* as driver */
    char driver_text[256], devices_text[256], nvrtc_text[256]; /* paths, or what is missing */
    char cache[512];                                           /* folder of compiled kernels, or why there is none */
} dev_cuda_status;
void dev_cuda_look(dev_cuda_status *out);
#endif
