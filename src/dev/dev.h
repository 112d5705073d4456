/* dev.h: where work runs: the CPU with its features, its team of threads, its measured ceilings; or a GPU (dev/cuda.h),
 * which MoE layers alone can use so far. */
#ifndef CADRE_DEV_H
#define CADRE_DEV_H
#include "base/base.h"

/* Feature bits of x86-64 that kernels may ask for; a feature counts only when the OS saves its registers. */
typedef enum dev_feature {
    DEV_AVX2_FMA = 1,   /* AVX2, FMA, F16C */
    DEV_AVX512 = 2,     /* F, BW, DQ, VL */
    DEV_AVX512BF16 = 4, /* the above, AVX512_BF16 and AVX512_VNNI */
} dev_feature;

struct dev_cuda;
struct cadre_device {
    struct dev_cuda *gpu; /* NULL: the CPU */
    pool *threads;        /* with a GPU: of one */
    unsigned features;    /* what the CPU has, before switch isa */
    int isa;              /* level in use: 0 ref, 1 avx2, 2 avx512, 3 avx512bf16 (op_isa) */
    long l1d, l2, l3;     /* bytes, 0 if unknown */
    cpus cpus;            /* which there are, when it was opened */
    char cpu[64];         /* brand */
    char name[160];
};

/* Bytes of the last cache: 32 MiB where the system does not say (a container without /sys), so that nobody takes a
 * cache for memory there. */
static inline size_t dev_last_cache(const cadre_device *device) {
    return device->l3 > 0 ? (size_t)device->l3 : (size_t)32 << 20;
}

/* What cadre_profile_new makes: rows, and on a GPU the events that they are made from (dev/cuda.h). */
struct cadre_profile {
    profiler rows;
    struct dev_cuda_stamps *stamps; /* NULL on the CPU */
};

/* What a device is called: "cpu"; "cuda" (the first GPU); "cuda:N"; "cuda:current" (of the context that is current in
 * the calling thread). *gpu: the GPU's number, or one of these. UNSUPPORTED for another name. */
enum { DEV_CPU = -2, DEV_CURRENT = -1 };
cadre_err dev_name_read(const char *name, int *gpu, cadre_fail *why);
/* Refuses a GPU with UNSUPPORTED: "what: is not there on a GPU yet". */
cadre_err dev_cpu_only(const cadre_device *device, const char *what, cadre_fail *why);
/* What the CPU has, without switches. */
unsigned dev_features(void);
/* Registers of cpuid and xgetbv that features are read from; 0 where a leaf is missing. */
typedef struct dev_cpuid {
    uint32_t c1;     /* leaf 1: ecx */
    uint32_t b7, c7; /* leaf 7.0: ebx, ecx */
    uint32_t a71;    /* leaf 7.1: eax */
    uint64_t saved;  /* registers the OS saves: xcr0 */
} dev_cpuid;
unsigned dev_features_of(const dev_cpuid *r); /* pure */
/* The kernel set for a CPU with these features when switch isa asks for `asked` and `bad` cases of dev_bf16_pair_exact
 * failed. line: why it is less than what was asked or what the CPU has, "" if it is neither. Pure. */
int dev_choose_isa(unsigned features, long asked, uint64_t bad, char *line, size_t size);
/* Is vdpbf16ps the pair of fused multiply-adds that docs/numerics.md says: fma(a0, b0, fma(a1, b1, acc)), denormals
 * zero? Tries `cases` random inputs (rounded up to whole vectors), many near underflow; *bad: how many differ. False
 * with *bad = 0 where the instruction is missing. */
bool dev_bf16_pair_exact(uint64_t cases, uint64_t seed, uint64_t *bad);
/* Bytes of memory this process may still use: the least of free memory and the container's limit (or switch memory). */
uint64_t dev_memory_available(void);

/* Measured ceilings, best of `repeats` passes of the best of a fixed list of read kernels over `bytes` of memory. */
typedef struct dev_ceiling {
    double read_gbps;   /* all threads */
    double read1_gbps;  /* one thread */
    double fma_gflops;  /* fp32 FMA, all threads, widest vectors in use */
    double bf16_gflops; /* bf16 pair products, 0 without the instruction */
} dev_ceiling;
/* Read ceiling alone: cheap enough to probe before and after each arm. buffer: touched, random, >= 4x the last cache.
 */
double dev_read_gbps(cadre_device *device, const void *buffer, size_t bytes, int repeats);
cadre_err dev_measure(cadre_device *device, size_t bytes, int repeats, dev_ceiling *out, cadre_fail *why);
#endif
