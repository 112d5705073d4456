/* cpu.c: the CPU as a device: what it has, which kernel set may run on it, and its team of threads. The only file that
 * knows cpuid. */
#include "dev/dev.h"
#include "dev/gpu.h"
#include "dev/pair.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#    include <cpuid.h>
#endif

/* ---- what the CPU has ---- */

/* Bits by their place, so that any build can read them. */
enum {
    C1_FMA = 1 << 12,
    C1_OSXSAVE = 1 << 27,
    C1_AVX = 1 << 28,
    C1_F16C = 1 << 29,
    B7_AVX2 = 1 << 5,
    C7_VNNI = 1 << 11,
    A71_BF16 = 1 << 5,
    SAVED_YMM = 0x6, /* xmm and ymm */
    SAVED_ZMM = 0xE0 /* the three parts of AVX-512 */
};

unsigned dev_features_of(const dev_cpuid *r) {
    const uint32_t wide = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* AVX-512 F, DQ, BW, VL */
    bool avx = (r->c1 & C1_OSXSAVE) && (r->c1 & C1_AVX) && (r->saved & SAVED_YMM) == SAVED_YMM;
    if (!avx || !(r->b7 & B7_AVX2) || !(r->c1 & C1_FMA) || !(r->c1 & C1_F16C)) return 0;
    if ((r->b7 & wide) != wide || (r->saved & SAVED_ZMM) != SAVED_ZMM) return DEV_AVX2_FMA;
    /* every CPU with the bf16 pair has VNNI, which quantized kernels of that level use */
    bool bf16 = (r->c7 & C7_VNNI) && (r->a71 & A71_BF16);
    return DEV_AVX2_FMA | DEV_AVX512 | (bf16 ? DEV_AVX512BF16 : 0);
}

#ifdef __x86_64__
/* Register state the OS saves on a switch of threads. */
static uint64_t saved_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

unsigned dev_features(void) {
    unsigned a, b, c, d, b7, c7, d7;
    dev_cpuid r = {0};
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    r.c1 = c;
    if (c & bit_OSXSAVE) r.saved = saved_state();
    if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) {
        r.b7 = b7, r.c7 = c7;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b7, &c7, &d7)) r.a71 = a;
    }
    return dev_features_of(&r);
}

static void brand(char out[64]) {
    unsigned r[12] = {0};
    char raw[sizeof r + 1] = {0};
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, r + 4 * i, r + 4 * i + 1, r + 4 * i + 2, r + 4 * i + 3);
    memcpy(raw, r, sizeof r);
    size_t lead = strspn(raw, " "), len = strlen(raw + lead);
    while (len && raw[lead + len - 1] == ' ') len--;
    snprintf(out, 64, "%.*s", (int)len, raw + lead);
    if (!len) snprintf(out, 64, "x86-64");
}
#else
unsigned dev_features(void) {
    return 0;
}
static void brand(char out[64]) {
#    ifdef __aarch64__
    snprintf(out, 64, "arm64");
#    else
    snprintf(out, 64, "CPU");
#    endif
}
#endif

/* ---- caches ---- */

static bool sys_text(int index, const char *what, char *out, size_t size) {
    char path[96], *text;
    size_t len;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    if (!file_exists(path) || file_read(path, 4096, &text, &len, NULL)) return false;
    snprintf(out, size, "%s", text);
    mem_free(text);
    return true;
}

/* Sizes of the data caches, in sysfs's own words: level "3", type "Unified", size "32768K". */
static void caches(cadre_device *d) {
    char level[16], type[16], size[16];
    for (int i = 0; i < 8; i++) {
        if (!sys_text(i, "level", level, sizeof level) || !sys_text(i, "type", type, sizeof type)) break;
        if (*type == 'I' || !sys_text(i, "size", size, sizeof size)) continue; /* instructions */
        char *unit;
        long bytes = strtol(size, &unit, 10) * (*unit == 'M' ? 1 << 20 : *unit == 'K' ? 1 << 10 : 1);
        if (*level == '1') d->l1d = bytes;
        if (*level == '2') d->l2 = bytes;
        if (*level == '3') d->l3 = bytes;
    }
}

/* ---- memory ---- */

static uint64_t free_memory(void) {
    char *text;
    size_t len;
    uint64_t bytes = UINT64_MAX;
    if (file_read("/proc/meminfo", 1 << 16, &text, &len, NULL)) return bytes;
    const char *line = strstr(text, "MemAvailable:");
    if (line) bytes = strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    mem_free(text);
    return bytes;
}

uint64_t dev_memory_available(void) {
    long asked = switch_get(SWITCH_MEMORY);
    if (asked) return (uint64_t)asked * 1000000;
    uint64_t host = free_memory(), container = cgroup_memory("");
    return host < container ? host : container;
}

/* ---- kernel set ---- */

bool dev_bf16_pair_exact(uint64_t cases, uint64_t seed, uint64_t *bad) {
    *bad = 0;
    if (!(dev_features() & DEV_AVX512BF16)) return false;
#ifdef __x86_64__
    *bad = pair_differences_avx512bf16(cases, seed);
#else
    (void)cases, (void)seed;
#endif
    return !*bad;
}

int dev_choose_isa(unsigned features, long asked, uint64_t bad, char *line, size_t size) {
    int has = features & DEV_AVX512BF16 ? 3 : features & DEV_AVX512 ? 2 : features & DEV_AVX2_FMA ? 1 : 0;
    int use = asked < has ? (int)asked : has;
    *line = 0;
    if (use == 3 && bad) {
        snprintf(line, size, "isa: avx512, because vdpbf16ps of this CPU differs from docs/numerics.md in %llu cases",
                 (unsigned long long)bad);
        return 2;
    }
    if (asked < has)
        snprintf(line, size, "isa: %s by switch isa; the CPU has %s", switch_isas[use], switch_isas[has]);
    else if (asked > has && asked <= 3)
        snprintf(line, size, "isa: %s, because the CPU lacks %s", switch_isas[use], switch_isas[asked]);
    else if (!has)
        snprintf(line, size, "isa: ref (plain C, slow), because the CPU lacks AVX2 with FMA and F16C");
    return use;
}

/* ---- the device ---- */

/* Few enough to cost no time at start; `doctor --verify` tries millions. */
enum { CASES_AT_OPEN = 4096 };

static int kernel_set(unsigned features) {
    char line[200];
    uint64_t bad = 0;
    long asked = switch_get(SWITCH_ISA);
    if (asked >= 3 && (features & DEV_AVX512BF16)) dev_bf16_pair_exact(CASES_AT_OPEN, 1, &bad);
    int isa = dev_choose_isa(features, asked, bad, line, sizeof line);
    if (*line) log_once("%s", line);
    return isa;
}

/* Said where the number is not what the machine suggests: the container's doing, or the caller's. */
static void say_threads(const cpus *c, int threads, bool chosen) {
    char text[200];
    int usable = c->quota < c->count ? c->quota : c->count;
    cpus_explain(c, threads, text, sizeof text);
    if (chosen && threads > usable)
        log_once("%d threads share %d CPUs: a step waits for the slowest", threads, usable);
    else if (!chosen && c->quota < c->count)
        log_once("%s", text);
}

static void pin(cadre_device *d, int threads) {
    int cpu[CPUS_MOST];
    if (threads > d->cpus.count || !switch_get(SWITCH_PIN)) return;
    cpus_place(&d->cpus, sched_getcpu(), threads, cpu);
    pool_pin(d->threads, cpu);
}

static cadre_err open_cpu(const cadre_device_options *options, cadre_device **out, cadre_fail *why) {
    int threads = options ? options->threads : 0;
    cadre_device *d = mem_new(sizeof *d);
    if (!d) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a device");
    cpus_read("", &d->cpus);
    if (!threads) threads = cpus_threads(&d->cpus, switch_get(SWITCH_SIBLINGS));
    cadre_err err = pool_new(threads, &d->threads, why);
    if (err) {
        mem_free(d);
        return err;
    }
    say_threads(&d->cpus, threads, options && options->threads);
    if (options && options->pin) pin(d, threads);
    mem_spread(cpus_node_mask(&d->cpus));
    d->features = dev_features();
    d->isa = kernel_set(d->features);
    brand(d->cpu);
    caches(d);
    snprintf(d->name, sizeof d->name, "cpu %s, %d thread%s, %s", switch_isas[d->isa], threads, threads == 1 ? "" : "s",
             d->cpu);
    *out = d;
    return CADRE_OK;
}

cadre_err cadre_device_open(const cadre_device_options *options, cadre_device **out, cadre_fail *why) {
    const char *name = options && options->name ? options->name : "cpu";
    int gpu;
    cadre_err err = dev_name_read(name, &gpu, why);
    if (err) return err;
    return gpu == DEV_CPU ? open_cpu(options, out, why) : gpu_open(gpu, out, why);
}

void cadre_device_close(cadre_device *device) {
    if (!device) return;
    gpu_close(device);
    pool_free(device->threads);
    mem_free(device);
}

const char *cadre_device_name(const cadre_device *device) {
    return device->name;
}
int cadre_device_threads(const cadre_device *device) {
    return pool_threads(device->threads);
}
