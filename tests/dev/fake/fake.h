/* fake.h: what a test can ask of the stand-in for the CUDA driver and NVRTC (fake/cuda.c, fake/nvrtc.c, one library),
 * and see of it. Device memory is host memory, kernels do nothing and take 0.25 ms each by its events, and any call can
 * be told to fail. */
#ifndef TESTS_DEV_FAKE_H
#define TESTS_DEV_FAKE_H
#include <stddef.h>
#include <stdint.h>

typedef struct fake_state {
    /* what there is */
    int gpus, driver, nvrtc, major, minor, sms; /* sms: 4, or FAKE_SMS of the environment */
    size_t memory;
    const char *log; /* of every compilation; NULL: empty */
    /* what goes wrong: call `fail_call` (NULL: any) returns fail_code once fail_after more have passed; -1: never.
     * sticky: every call after it returns the code too. */
    const char *fail_call;
    int64_t fail_after;
    int fail_code, sticky, stuck;
    /* what was seen */
    uint64_t calls, compilations, launches, waits, records, replays, stamps;
    const char *last; /* the call that failed */
    size_t used;
    int contexts, allocations, streams, events, graphs, modules, programs;       /* alive */
    unsigned grid[3], block[3], dynamic, attributes, cluster, overlap, together; /* of the last launch */
    void *stream;
    char kernel[64], options[512];
    int captured; /* kernels in the graph being written, -1: none is */
} fake_state;

/* Exported by the library. */
extern fake_state fake;
void fake_reset(void) __attribute__((constructor));

/* Used inside it: the code that this call must return; 0: go on. The kernel that does something. */
int fake_call(const char *name);
void fake_count(void **args);
#endif
