/* ceiling.c: how fast this machine reads memory and multiplies, measured the way kernels run: the whole team, pinned
 * and spinning, over memory that was touched before. Each figure is the best of several passes of several loops,
 * because a ceiling that a kernel can beat is none.
 *
 *   one pool run:   barrier | loop A | barrier | loop A | barrier | loop B | ...     member 0 holds the clock
 */
#include "dev/ceiling.h"
#include "dev/dev.h"
#include <math.h>

/* ---- loops without intrinsics ---- */

static uint64_t read_plain(const void *from, size_t bytes) {
    const uint64_t *p = from;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < bytes / 8; i += 4) a ^= p[i], b ^= p[i + 1], c ^= p[i + 2], d ^= p[i + 3];
    return a ^ b ^ c ^ d;
}

static double fma_plain(long rounds, volatile float *sink) {
    float acc[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (long r = 0; r < rounds; r++)
        for (int i = 0; i < 8; i++) acc[i] = fmaf(acc[i], 0.75f, 0.3f);
    *sink = acc[0] + acc[1] + acc[2] + acc[3] + acc[4] + acc[5] + acc[6] + acc[7];
    return (double)rounds * 8 * 2;
}

const ceiling_read ceiling_reads[] = {
    {"plain", 0, read_plain},
#ifdef __x86_64__
    {"avx2", DEV_AVX2_FMA, ceiling_read_avx2},
    {"avx2 ahead", DEV_AVX2_FMA, ceiling_read_ahead_avx2},
    {"avx512", DEV_AVX512, ceiling_read_avx512},
    {"avx512 ahead", DEV_AVX512, ceiling_read_ahead_avx512},
    {"avx512 streams", DEV_AVX512, ceiling_read_streams_avx512},
#endif
};
const int ceiling_read_count = sizeof ceiling_reads / sizeof ceiling_reads[0];

/* ---- reading ---- */

typedef struct reading {
    const char *buffer;
    size_t bytes;
    unsigned features;
    int repeats;
    bool alone; /* member 0 reads all of it while the others wait */
    uint64_t best_ns;
    _Atomic uint64_t sink;
} reading;

static void time_one(reading *r, team *t, ceiling_read_fn *read) {
    int lo = 0, hi = 0, steps = (int)(r->bytes / CEILING_STEP);
    if (!r->alone)
        team_split(t, steps, 1, &lo, &hi);
    else if (!team_id(t))
        hi = steps;
    team_barrier(t);
    uint64_t start = clock_ns();
    if (hi > lo) r->sink ^= read(r->buffer + (size_t)lo * CEILING_STEP, (size_t)(hi - lo) * CEILING_STEP);
    team_barrier(t);
    uint64_t took = clock_ns() - start;
    if (!team_id(t) && took < r->best_ns) r->best_ns = took;
}

static void read_member(void *ctx, team *t) {
    reading *r = ctx;
    for (int i = 0; i < ceiling_read_count; i++) {
        const ceiling_read *k = &ceiling_reads[i];
        bool widest_only = r->features && !k->features; /* the plain loop is for CPUs that have nothing else */
        if ((r->features & k->features) != k->features || widest_only) continue;
        for (int pass = 0; pass < r->repeats; pass++) time_one(r, t, k->read);
    }
}

static double read_gbps(cadre_device *device, const void *buffer, size_t bytes, int repeats, bool alone) {
    size_t most = (size_t)INT32_MAX * CEILING_STEP;
    bytes = (bytes < most ? bytes : most) / CEILING_STEP * CEILING_STEP;
    reading r = {buffer, bytes, device->features, repeats < 1 ? 1 : repeats, alone, UINT64_MAX, 0};
    if (!bytes) return 0;
    pool_run(device->threads, read_member, &r);
    return (double)bytes / (double)(r.best_ns ? r.best_ns : 1);
}

double dev_read_gbps(cadre_device *device, const void *buffer, size_t bytes, int repeats) {
    return read_gbps(device, buffer, bytes, repeats, false);
}

/* ---- multiplying ---- */

typedef struct multiplying {
    ceiling_flops_fn *fn;
    long rounds;
    int repeats;
    double flops_per_ns;
} multiplying;

static void multiply_member(void *ctx, team *t) {
    multiplying *m = ctx;
    volatile float sink;
    for (int pass = 0; pass < m->repeats; pass++) {
        team_barrier(t);
        uint64_t start = clock_ns();
        double flops = m->fn(m->rounds, &sink) * team_size(t);
        team_barrier(t);
        double rate = flops / (double)(clock_ns() - start + 1);
        if (!team_id(t) && rate > m->flops_per_ns) m->flops_per_ns = rate;
    }
}

/* Passes of about 10 ms: long beside a barrier, short beside the machine's other guests. */
static double gflops(cadre_device *device, ceiling_flops_fn *fn, int repeats) {
    multiplying m = {fn, 1 << 14, 1, 0};
    volatile float sink;
    uint64_t start = clock_ns(), took;
    fn(m.rounds, &sink);
    took = clock_ns() - start + 1;
    m.rounds = (long)((double)m.rounds * 1e7 / (double)took) + 1;
    m.repeats = repeats < 1 ? 1 : repeats;
    pool_run(device->threads, multiply_member, &m);
    return m.flops_per_ns;
}

static ceiling_flops_fn *fma_loop(const cadre_device *device) {
#ifdef __x86_64__
    if (device->isa >= 2) return ceiling_fma_avx512;
    if (device->isa == 1) return ceiling_fma_avx2;
#endif
    (void)device;
    return fma_plain;
}

static double bf16_gflops(cadre_device *device, int repeats) {
#ifdef __x86_64__
    if (device->isa >= 3) return gflops(device, ceiling_pairs_avx512bf16, repeats);
#endif
    (void)device, (void)repeats;
    return 0;
}

/* ---- all of it ---- */

typedef struct filling {
    uint64_t *words;
    size_t count;
} filling;

/* Each member touches first what it will read: the pages come to its side of the machine. */
static void fill_member(void *ctx, team *t) {
    filling *f = ctx;
    int lo, hi;
    team_split(t, (int)(f->count * 8 / CEILING_STEP), 1, &lo, &hi);
    for (size_t i = (size_t)lo * (CEILING_STEP / 8); i < (size_t)hi * (CEILING_STEP / 8); i++) {
        uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
        f->words[i] = x ^ x >> 29;
    }
}

cadre_err dev_measure(cadre_device *device, size_t bytes, int repeats, dev_ceiling *out, cadre_fail *why) {
    if (bytes < CEILING_STEP || bytes / CEILING_STEP > INT32_MAX)
        return cadre_fail_set(why, CADRE_RANGE, "%zu bytes to measure over, expected %d or more", bytes, CEILING_STEP);
    bytes = bytes / CEILING_STEP * CEILING_STEP;
    void *buffer = mem_new_huge(bytes);
    if (!buffer) return cadre_fail_set(why, CADRE_NOMEM, "out of memory: %zu bytes to measure over", bytes);
    filling f = {buffer, bytes / 8};
    pool_run(device->threads, fill_member, &f);
    read_gbps(device, buffer, bytes, 1, false); /* the first pass after filling is slow on some machines */
    dev_ceiling c = {
        .read_gbps = read_gbps(device, buffer, bytes, repeats, false),
        .read1_gbps = read_gbps(device, buffer, bytes, repeats, true),
        .fma_gflops = gflops(device, fma_loop(device), repeats),
        .bf16_gflops = bf16_gflops(device, repeats),
    };
    mem_free_huge(buffer, bytes);
    *out = c;
    return CADRE_OK;
}
