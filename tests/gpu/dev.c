/* dev: the verbs of dev/cuda.h on a real GPU: memory, kernels against their plain meaning, launches with attributes,
 * graphs, errors that leave the GPU well and one that does not, and the measured ceilings. */
#include "dev/cuda_gpu.h"
#include "dev/probe.h"
#include "tap.h"

static dev_cuda *gpu;
static cadre_fail why;
static dev_cuda_module *probe;
static dev_cuda_kernel fill, read4, read8, nothing;
static void *stream;

#define DO(call) tap_call(call, &why, #call)

/* ---- memory ---- */

static void memory(void) {
    enum { BYTES = 64 << 20 };
    uint32_t *from = mem_new(BYTES), *to = mem_new(BYTES);
    void *a = NULL, *b = NULL, *pinned = NULL;
    size_t has, all, then;
    for (size_t i = 0; i < BYTES / 4; i++) from[i] = (uint32_t)(i * 2654435761u);
    uint64_t before = dev_cuda_allocations();
    DO(dev_cuda_memory(gpu, &has, &all, &why));
    if (!DO(dev_cuda_alloc(gpu, BYTES, &a, &why)) || !DO(dev_cuda_alloc(gpu, BYTES, &b, &why))) return;
    if (!DO(dev_cuda_alloc_host(gpu, BYTES, &pinned, &why))) return;
    tap(dev_cuda_allocations() - before == 3, "three allocations are counted");
    tap((uintptr_t)a % 256 == 0, "device memory is aligned");
    DO(dev_cuda_put(gpu, a, from, BYTES, &why));
    DO(dev_cuda_copy_async(gpu, b, a, BYTES, stream, &why));
    DO(dev_cuda_fill_async(gpu, a, 0x5A, BYTES, stream, &why));
    DO(dev_cuda_get_async(gpu, pinned, b, BYTES, stream, &why));
    DO(dev_cuda_sync(gpu, stream, &why));
    tap(!memcmp(pinned, from, BYTES), "64 MiB come back as they went, by way of another buffer");
    DO(dev_cuda_get(gpu, to, a, BYTES, &why));
    tap(to[0] == 0x5A5A5A5A && to[BYTES / 4 - 1] == 0x5A5A5A5A, "filled from end to end");
    dev_cuda_free(gpu, a), dev_cuda_free(gpu, b), dev_cuda_free_host(gpu, pinned);
    mem_free(from), mem_free(to);
    DO(dev_cuda_memory(gpu, &then, &all, &why));
    tap(then + (BYTES / 2) >= has, "freed: %zu bytes were free, %zu are", has, then);
    cadre_err err = dev_cuda_alloc(gpu, (size_t)1 << 50, &a, &why);
    tap(err == CADRE_NOMEM && !dev_cuda_lost(gpu), "too much is refused: %s", why.text);
}

/* ---- kernels ---- */

static bool modules(void) {
    dev_cuda_source source = PROBE_SOURCE;
    dev_cuda_module *again = NULL;
    uint64_t start = clock_ns();
    if (!DO(dev_cuda_module_new(gpu, &source, NULL, 0, &probe, &why))) return false;
    double first = (double)(clock_ns() - start) / 1e6;
    start = clock_ns();
    DO(dev_cuda_module_new(gpu, &source, NULL, 0, &again, &why));
    printf("# module: %.1f ms, again %.1f ms (cache: %s)\n", first, (double)(clock_ns() - start) / 1e6,
           *switch_text(SWITCH_CACHE) ? switch_text(SWITCH_CACHE) : "none");
    dev_cuda_module_free(gpu, again);
    bool ok = DO(dev_cuda_kernel_get(gpu, probe, "fill", 0, &fill, &why));
    ok &= DO(dev_cuda_kernel_get(gpu, probe, "read4", 0, &read4, &why));
    ok &= DO(dev_cuda_kernel_get(gpu, probe, "read8", 0, &read8, &why));
    ok &= DO(dev_cuda_kernel_get(gpu, probe, "nothing", 65536, &nothing, &why));
    printf("# read4: %d registers, %d bytes local; read8: %d, %d\n", read4.registers, read4.local, read8.registers,
           read8.local);
    tap(dev_cuda_kernel_get(gpu, probe, "absent", 0, &fill, &why) == CADRE_RANGE, "no such kernel: %s", why.text);
    return ok;
}

static uint32_t xor_of(const uint32_t *p, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum ^= p[i];
    return sum;
}

/* fill writes what the host computes; the read kernels see every word of it. */
static void fill_and_read(void) {
    enum { THREADS = 512, BLOCKS = 40, WORDS = THREADS * 8 * 100 };
    size_t bytes = (size_t)WORDS * 16;
    uint64_t count = WORDS;
    void *words = NULL, *seen = NULL, *args[] = {&words, &count, &seen};
    uint32_t *host = mem_new(bytes), warps[BLOCKS * THREADS / 32];
    if (!DO(dev_cuda_alloc(gpu, bytes, &words, &why)) || !DO(dev_cuda_alloc(gpu, sizeof warps, &seen, &why))) return;
    dev_cuda_launch l = {.kernel = &fill, .grid = {BLOCKS}, .block = {THREADS}, .stream = stream, .args = args};
    DO(dev_cuda_run(gpu, &l, &why));
    DO(dev_cuda_sync(gpu, stream, &why));
    DO(dev_cuda_get(gpu, host, words, bytes, &why));
    bool same = true;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u, y = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
        uint32_t want[4] = {(uint32_t)x, (uint32_t)(x >> 32), (uint32_t)y, (uint32_t)(y >> 32)};
        same &= !memcmp(want, host + 4 * i, 16);
    }
    tap(same, "fill writes what the host computes");
    for (int k = 0; k < 2; k++) {
        l.kernel = k ? &read8 : &read4;
        DO(dev_cuda_run(gpu, &l, &why));
        DO(dev_cuda_sync(gpu, stream, &why));
        DO(dev_cuda_get(gpu, warps, seen, sizeof warps, &why));
        tap(xor_of(warps, sizeof warps / 4) == xor_of(host, bytes / 4), "%s reads every word", l.kernel->name);
    }
    dev_cuda_free(gpu, words), dev_cuda_free(gpu, seen);
    mem_free(host);
}

static void launches(void) {
    int blocks = 0;
    dev_cuda_launch l = {.kernel = &nothing, .grid = {8}, .block = {128}, .dynamic = 65536, .stream = stream};
    DO(dev_cuda_run(gpu, &l, &why));
    l.overlap = true;
    DO(dev_cuda_run(gpu, &l, &why));
    l.overlap = false, l.together = true;
    DO(dev_cuda_run(gpu, &l, &why));
    l.together = false, l.cluster = 4;
    cadre_err err = dev_cuda_run(gpu, &l, &why);
    bool clusters = dev_cuda_about(gpu)->major >= 9;
    tap(clusters ? !err : err == CADRE_UNSUPPORTED, "a cluster of 4: %s", err ? why.text : "launched");
    DO(dev_cuda_sync(gpu, stream, &why));
    DO(dev_cuda_resident(gpu, &nothing, 1024, 65536, &blocks, &why));
    printf("# %d blocks of 1024 threads and 64 KiB on one multiprocessor\n", blocks);
    l = (dev_cuda_launch){.kernel = &nothing, .block = {4096}, .stream = stream};
    err = dev_cuda_run(gpu, &l, &why);
    tap(err && !dev_cuda_lost(gpu), "4096 threads in a block are refused: %s", why.text);
    DO(dev_cuda_sync(gpu, stream, &why));
}

static void graphs(void) {
    enum { TIMES = 100, NODES = 20 };
    void *graph = NULL, *from = NULL, *to = NULL;
    double ms = 0;
    dev_cuda_launch l = {.kernel = &nothing, .block = {32}, .stream = stream};
    DO(dev_cuda_capture_begin(gpu, stream, &why));
    for (int i = 0; i < NODES; i++) {
        l.overlap = i & 1;
        if (dev_cuda_run(gpu, &l, &why)) tap(false, "%s", why.text);
    }
    if (!DO(dev_cuda_capture_end(gpu, stream, &graph, &why))) return;
    DO(dev_cuda_event_new(gpu, &from, &why));
    DO(dev_cuda_event_new(gpu, &to, &why));
    uint64_t host = mem_count(), device = dev_cuda_allocations();
    cadre_err err = dev_cuda_event_record(gpu, from, stream, &why);
    for (int i = 0; i < TIMES && !err; i++) err = dev_cuda_graph_launch(gpu, graph, stream, &why);
    if (!err) err = dev_cuda_event_record(gpu, to, stream, &why);
    if (!err) err = dev_cuda_event_ms(gpu, from, to, &ms, &why);
    tap_call(err, &why, "a graph launched 100 times");
    tap(mem_count() == host && dev_cuda_allocations() == device, "nothing is allocated while it runs");
    printf("# graph of %d empty kernels: %.2f us a launch, %.2f us a node\n", NODES, ms * 1e3 / TIMES,
           ms * 1e3 / TIMES / NODES);
    dev_cuda_graph_free(gpu, graph), dev_cuda_event_free(gpu, from), dev_cuda_event_free(gpu, to);
}

/* Reading 64 MiB between two stamps, nothing between two others: on a stream, and in a graph that is replayed. */
static cadre_err stamped(dev_cuda_stamps *s, void **args) {
    dev_cuda_launch l = {.kernel = &read4, .grid = {132}, .block = {512}, .stream = stream, .args = args};
    dev_cuda_launch none = {.kernel = &nothing, .block = {32}, .stream = stream};
    cadre_err err = dev_cuda_stamp(s, NULL, stream, &why);
    if (!err) err = dev_cuda_run(gpu, &l, &why);
    if (!err) err = dev_cuda_stamp(s, &(profile_op){.op = "read"}, stream, &why);
    if (!err) err = dev_cuda_run(gpu, &none, &why);
    return err ? err : dev_cuda_stamp(s, &(profile_op){.op = "nothing"}, stream, &why);
}

static void told(const profiler *p, int times, const char *how) {
    double read = (double)p->rows[0].ns / 1e3 / times, none = (double)p->rows[1].ns / 1e3 / times;
    tap(p->count == 2 && p->rows[0].launches == (uint64_t)times && p->rows[1].launches == (uint64_t)times,
        "%s: two rows of %d launches", how, times);
    tap(read > 64.0 * 1.048576e6 / 2e7 && read < 3000 && none > 0 && none < read,
        "%s: reading takes %.2f us, nothing %.2f us", how, read, none);
}

static void stamps(void) {
    enum { TIMES = 10, BYTES = 64 << 20, SEEN = 132 * 16 * 4 };
    dev_cuda_stamps *s = NULL;
    profiler p = {0}, q = {0};
    void *words = NULL, *seen = NULL, *graph = NULL;
    uint64_t count = BYTES / 16;
    void *args[] = {&words, &count, &seen};
    cadre_err err = dev_cuda_stamps_new(gpu, &s, &why);
    if (!err) err = dev_cuda_alloc(gpu, BYTES, &words, &why);
    if (!err) err = dev_cuda_alloc(gpu, SEEN, &seen, &why);
    if (!err) err = dev_cuda_fill_async(gpu, words, 1, BYTES, stream, &why);
    for (int i = 0; i < TIMES && !err; i++) err = stamped(s, args);
    if (!err) err = dev_cuda_stamps_read(s, &p, &why);
    if (tap_call(err, &why, "stamps on a stream")) told(&p, TIMES, "stream");
    dev_cuda_stamps_forget(s);
    err = dev_cuda_capture_begin(gpu, stream, &why);
    if (!err) err = stamped(s, args);
    cadre_err end = dev_cuda_capture_end(gpu, stream, &graph, err ? NULL : &why);
    if (!err) err = end;
    for (int i = 0; i < TIMES && !err; i++) {
        err = dev_cuda_graph_launch(gpu, graph, stream, &why);
        if (!err) err = dev_cuda_stamps_read(s, &q, &why);
    }
    if (tap_call(err, &why, "stamps in a graph")) told(&q, TIMES, "graph");
    dev_cuda_graph_free(gpu, graph);
    dev_cuda_stamps_free(s);
    dev_cuda_free(gpu, words), dev_cuda_free(gpu, seen);
}

static void contexts(void) {
    dev_cuda *borrowed = NULL;
    void *p = NULL, *top = NULL;
    tap(dev_cuda_open_current(&borrowed, &why) == CADRE_RANGE, "no context of our own is left current: %s", why.text);
    gpu->cu->cuCtxPushCurrent(gpu->context);
    if (DO(dev_cuda_open_current(&borrowed, &why))) {
        DO(dev_cuda_alloc(borrowed, 100, &p, &why));
        dev_cuda_free(borrowed, p);
        dev_cuda_close(borrowed);
    }
    gpu->cu->cuCtxPopCurrent(&top);
    tap(top == gpu->context, "the caller's context is where it was");
}

/* ---- ceilings ---- */

static void ceilings(void) {
    dev_cuda_ceiling c = {0};
    if (!DO(dev_cuda_measure(gpu, 10, &c, &why))) return;
    printf(
        "# read %.1f GB/s; empty kernel: %.2f us on a stream, %.2f us in a graph; graph of one, waited for: %.2f us\n",
        c.read_gbps, c.launch_us, c.graph_us, c.replay_us);
    tap(c.read_gbps > 100 && c.read_gbps < 20000, "the read ceiling is that of a GPU");
    tap(c.graph_us > 0 && c.graph_us <= c.replay_us, "a node of a graph is cheaper than a graph");
}

/* ---- what breaks ---- */

static void errors(void) {
    static const char bad[] = "extern \"C\" __global__ void k() {\n    int x = y;\n}\n";
    dev_cuda_source source = {.main = {"bad.cu", bad}};
    dev_cuda_module *m = NULL;
    cadre_err err = dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why);
    tap(err == CADRE_COMPILE && !strncmp(why.text, "bad.cu(2): error", 16), "a bad text: %s", why.text);
}

/* The last test: the GPU's context is gone afterwards. */
static void lost(void) {
    static const char text[] = "extern \"C\" __global__ void stop() { asm volatile(\"trap;\"); }\n";
    dev_cuda_source source = {.main = {"stop.cu", text}};
    dev_cuda_module *m = NULL;
    dev_cuda_kernel k;
    if (!DO(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why))) return;
    if (!DO(dev_cuda_kernel_get(gpu, m, "stop", 0, &k, &why))) return;
    dev_cuda_launch l = {.kernel = &k, .stream = stream};
    DO(dev_cuda_run(gpu, &l, &why));
    cadre_err err = dev_cuda_sync(gpu, stream, &why);
    tap(err == CADRE_DEVICE && dev_cuda_lost(gpu), "a kernel that traps: %s", why.text);
    err = dev_cuda_run(gpu, &l, &why);
    tap(err == CADRE_DEVICE && !strncmp(why.text, "the GPU is lost: ", 17), "and after it: %s", why.text);
    dev_cuda_module_free(gpu, m);
}

int main(int argc, char **argv) {
    tap_start(argc, argv);
    if (!DO(dev_cuda_open(0, &gpu, &why))) return tap_end();
    const dev_cuda_traits *t = dev_cuda_about(gpu);
    printf("# %s, %s, %d multiprocessors, L2 %zu bytes, %zu bytes in all, driver %d, %d bytes shared per block\n",
           t->name, t->arch, t->sms, t->l2, t->memory, t->driver, t->smem_block);
    DO(dev_cuda_stream_new(gpu, &stream, &why));
    memory();
    contexts();
    if (modules()) {
        fill_and_read();
        launches();
        graphs();
        stamps();
        if (!tap_few) ceilings();
    }
    errors();
    if (!tap_few) lost();
    dev_cuda_stream_free(gpu, stream);
    dev_cuda_module_free(gpu, probe);
    dev_cuda_close(gpu);
    return tap_end();
}
