/* cuda: a GPU's verbs against a stand-in for the driver (tests/dev/fake): what each asks of it, what is said when a
 * part is missing, that every call's error comes out as an error, and that a lost GPU stays lost and harms nobody. */
#include "dev/cuda.h"
#include "dev/driver.h"
#include "fake/stand_in.h"

static char dir[200];

/* ---- the stand-in ---- */

static int start(void **state) {
    (void)state;
    load();
    reset();
    must(file_temp_dir("/tmp", "cadre-cuda", dir, sizeof dir, fail_out));
    return 0;
}

static dev_cuda *opened(void) {
    dev_cuda *gpu = NULL;
    must(dev_cuda_open(0, &gpu, fail_out));
    return gpu;
}

#define fails(call, want, line)              \
    do {                                     \
        why = (cadre_fail){0};               \
        assert_int_equal(call, want);        \
        assert_string_equal(why.text, line); \
        assert_int_equal(why.code, want);    \
    } while (0)

/* ---- what may be missing ---- */

/* First, while no driver has started. */
static void missing(void **state) {
    (void)state;
    dev_cuda *gpu = NULL;
    use("cuda", "/no/libcuda.so.1");
    fails(dev_cuda_open(0, &gpu, &why), CADRE_UNSUPPORTED,
          "no CUDA driver: /no/libcuda.so.1: cannot open shared object file: No such file or directory");
    use("cuda", "libm.so.6");
    assert_int_equal(dev_cuda_open(0, &gpu, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "does not fit, 12.0 or newer is needed: it lacks cuInit"));
    use("cuda", library);
    trip("cuInit", 0, 100, false);
    assert_int_equal(dev_cuda_open(0, &gpu, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "does not start: cuInit: no CUDA-capable device is detected (100)"));
    trip("cuInit", 0, 803, false);
    assert_int_equal(dev_cuda_open(0, &gpu, &why), CADRE_DEVICE);
    assert_non_null(strstr(why.text, "does not start: cuInit: an error without a name (803)"));
    trip("cuDriverGetVersion", 0, 999, false);
    assert_int_equal(dev_cuda_open(0, &gpu, &why), CADRE_DEVICE);
    assert_null(gpu);
    dev_cuda_close(opened()); /* none of it is remembered */
}

static void devices(void **state) {
    (void)state;
    dev_cuda *gpu = NULL;
    fails(dev_cuda_open(2, &gpu, &why), CADRE_RANGE, "GPU 2 is not there, expected 0..1");
    fails(dev_cuda_open(-1, &gpu, &why), CADRE_RANGE, "GPU -1 is not there, expected 0..1");
    f->major = 7, f->minor = 5;
    fails(dev_cuda_open(0, &gpu, &why), CADRE_UNSUPPORTED,
          "Fake One has compute capability 7.5, 8.0 or higher is needed");
    f->gpus = 0;
    assert_int_equal(dev_cuda_open(0, &gpu, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "shows no GPU"));
    f->gpus = 2, f->major = 8, f->minor = 6;
    must(dev_cuda_open(1, &gpu, fail_out));
    const dev_cuda_traits *t = dev_cuda_about(gpu);
    assert_string_equal(t->name, "Fake Two");
    assert_string_equal(t->arch, "sm_86");
    assert_int_equal(t->ordinal, 1);
    assert_int_equal(t->major * 10 + t->minor, 86);
    assert_int_equal(t->sms, 4);
    assert_int_equal(t->driver, 13000);
    assert_int_equal(t->smem_block, 232448);
    assert_int_equal(t->smem_sm, 233472);
    assert_int_equal(t->l2, 1 << 20);
    assert_true(t->memory == (size_t)1 << 34);
    assert_int_equal(f->contexts, 1);
    dev_cuda_close(gpu);
    dev_cuda_close(NULL);
    assert_int_equal(f->contexts, 0);
    f->major = 9, f->minor = 0;
    gpu = opened();
    assert_string_equal(dev_cuda_about(gpu)->arch, "sm_90a");
    dev_cuda_close(gpu);
}

static void looking(void **state) {
    (void)state;
    dev_cuda_status s;
    dev_cuda_look(&s);
    assert_int_equal(s.driver, 13000);
    assert_int_equal(s.nvrtc, 13000);
    assert_int_equal(s.devices, 2);
    assert_string_equal(s.devices_text, "Fake One, Fake Two");
    assert_non_null(strstr(s.driver_text, "libfake.so"));
    assert_string_equal(s.cache, "off: kernels are compiled in every process");
    use("cuda", "/no/cuda");
    use("nvrtc", "/no/nvrtc");
    use("cache", "");
    dev_cuda_look(&s);
    assert_int_equal(s.driver + s.devices + s.nvrtc, 0);
    assert_non_null(strstr(s.driver_text, "no CUDA driver: /no/cuda: cannot open"));
    assert_non_null(strstr(s.nvrtc_text, "no NVRTC, the compiler of GPU kernels: /no/nvrtc: cannot open"));
    assert_string_equal(s.cache, "no folder is named: kernels are compiled in every process");
}

/* ---- memory ---- */

static void memory(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    void *a = NULL, *b = NULL, *pinned = NULL, *stream = NULL;
    char from[1000], to[1000] = {0};
    for (int i = 0; i < 1000; i++) from[i] = (char)(i * 7);
    uint64_t before = dev_cuda_allocations();
    must(dev_cuda_alloc(gpu, 1000, &a, fail_out));
    must(dev_cuda_alloc(gpu, 0, &b, fail_out));
    dev_cuda_free(gpu, b);
    must(dev_cuda_alloc(gpu, 1000, &b, fail_out));
    must(dev_cuda_alloc_host(gpu, 64, &pinned, fail_out));
    assert_int_equal(dev_cuda_allocations() - before, 4);
    must(dev_cuda_stream_new(gpu, &stream, fail_out));
    must(dev_cuda_put(gpu, a, from, 1000, fail_out));
    must(dev_cuda_copy_async(gpu, b, a, 1000, stream, fail_out));
    assert_ptr_equal(f->stream, stream);
    must(dev_cuda_sync(gpu, stream, fail_out));
    must(dev_cuda_get(gpu, to, b, 1000, fail_out));
    assert_memory_equal(from, to, 1000);
    must(dev_cuda_fill_async(gpu, b, 0xA5, 500, stream, fail_out));
    must(dev_cuda_put_async(gpu, (char *)b + 500, from, 100, stream, fail_out));
    must(dev_cuda_get_async(gpu, to, b, 1000, stream, fail_out));
    for (int i = 0; i < 1000; i++) assert_int_equal(to[i], i < 500 ? (char)0xA5 : i < 600 ? from[i - 500] : from[i]);
    uint64_t calls = f->calls;
    must(dev_cuda_put(gpu, NULL, NULL, 0, fail_out)); /* nothing to copy: no call that could refuse it */
    assert_true(f->calls - calls <= 3);
    dev_cuda_free(gpu, a), dev_cuda_free(gpu, b), dev_cuda_free(gpu, NULL);
    dev_cuda_free_host(gpu, pinned), dev_cuda_free_host(gpu, NULL);
    dev_cuda_stream_free(gpu, stream), dev_cuda_stream_free(gpu, NULL);
    assert_int_equal(f->allocations + f->streams, 0);
    assert_int_equal(f->used, 0);
    dev_cuda_close(gpu);
}

static void out_of_memory(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    void *p = NULL;
    size_t has = 0, all = 0;
    f->memory = 5000;
    fails(dev_cuda_alloc(gpu, 5001, &p, &why), CADRE_NOMEM,
          "cuMemAlloc: out of memory (2): 5001 bytes asked for, 5000 of 5000 free");
    assert_int_equal(dev_cuda_alloc(gpu, 5001, &p, NULL), CADRE_NOMEM);
    fails(dev_cuda_alloc_host(gpu, 5001, &p, &why), CADRE_NOMEM, "cuMemHostAlloc: out of memory (2)");
    assert_null(p);
    assert_false(dev_cuda_lost(gpu)); /* and it goes on */
    must(dev_cuda_alloc(gpu, 4000, &p, fail_out));
    must(dev_cuda_memory(gpu, &has, &all, fail_out));
    assert_int_equal(has, 1000);
    assert_int_equal(all, 5000);
    dev_cuda_free(gpu, p);
    dev_cuda_close(gpu);
}

/* ---- contexts ---- */

static void contexts(void **state) {
    (void)state;
    const driver *cu;
    dev_cuda *gpu = opened(), *borrowed = NULL;
    void *p = NULL, *top = NULL, *theirs = &why;
    must(driver_open(&cu, fail_out));
    fails(dev_cuda_open_current(&borrowed, &why), CADRE_RANGE, "this thread has no current CUDA context");
    must(dev_cuda_alloc(gpu, 8, &p, fail_out));
    cu->cuCtxGetCurrent(&top);
    assert_null(top);
    cu->cuCtxPushCurrent(theirs);
    dev_cuda_free(gpu, p);
    assert_int_equal(f->allocations, 0);
    trip("cuMemAlloc", 0, 999, false);
    assert_int_equal(dev_cuda_alloc(gpu, 8, &p, &why), CADRE_DEVICE);
    cu->cuCtxGetCurrent(&top);
    assert_ptr_equal(top, theirs);
    must(dev_cuda_open_current(&borrowed, fail_out));
    assert_string_equal(dev_cuda_about(borrowed)->name, "Fake Two");
    uint64_t calls = f->calls;
    must(dev_cuda_alloc(borrowed, 8, &p, fail_out));
    assert_int_equal(f->calls - calls, 2); /* a look and the call: nothing to push */
    dev_cuda_free(borrowed, p);
    dev_cuda_close(borrowed);
    dev_cuda_close(gpu);
    assert_int_equal(f->contexts, 0); /* the borrowed one was not given back a second time */
}

/* ---- modules and launches ---- */

static const dev_cuda_source source = {.main = {"two.cu", "one() two()"}};

static void modules(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    dev_cuda_module *m = NULL;
    dev_cuda_kernel k;
    int blocks = 0;
    static const char *const options[] = {"-DROWS=4", "-DX=1"};
    must(dev_cuda_module_new(gpu, &source, options, 2, &m, fail_out));
    assert_string_equal(
        f->options, "--gpu-architecture=sm_90a --std=c++17 --fmad=false --ftz=true --diag-suppress=177 -DROWS=4 -DX=1");
    must(dev_cuda_kernel_get(gpu, m, "two", 100000, &k, fail_out));
    assert_int_equal(f->dynamic, 100000);
    assert_string_equal(k.name, "two");
    assert_int_equal(k.registers, 40);
    assert_int_equal(k.smem, 1024);
    assert_int_equal(k.local, 0);
    assert_int_equal(k.max_threads, 1024);
    must(dev_cuda_resident(gpu, &k, 256, 0, &blocks, fail_out));
    assert_int_equal(blocks, 8);
    dev_cuda_launch eight = {.kernel = &k, .grid = {64}, .block = {256}, .dynamic = 1000, .cluster = 8};
    must(dev_cuda_clusters(gpu, &eight, &blocks, fail_out));
    assert_int_equal(blocks, 15);
    fails(dev_cuda_kernel_get(gpu, m, "three", 0, &k, &why), CADRE_RANGE, "two.cu has no kernel three");
    fails(dev_cuda_kernel_get(gpu, m, "one", 231425, &k, &why), CADRE_RANGE,
          "one asks for 231425 bytes of dynamic shared memory, a block of this GPU has 231424");
    must(dev_cuda_kernel_get(gpu, m, "one", 231424, &k, fail_out));
    dev_cuda_module_free(gpu, m);
    dev_cuda_module_free(gpu, NULL);
    assert_int_equal(f->modules + f->programs, 0);

    f->log = "two.cu(3): warning: w\r\ntwo.cu(7): error: expected a \")\"\ntwo.cu(9): error: more\n";
    trip("nvrtcCompileProgram", 0, 6, false);
    fails(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_COMPILE, "two.cu(7): error: expected a \")\"");
    f->log = "unrecognized option\n";
    trip("nvrtcCompileProgram", 0, 5, false);
    fails(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_COMPILE, "two.cu: unrecognized option");
    f->log = NULL;
    trip("nvrtcCompileProgram", 0, 6, false);
    fails(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_COMPILE,
          "nvrtcCompileProgram(two.cu): NVRTC_ERROR_COMPILATION (6)");
    f->driver = 12040; /* known from the first start only */
    trip("cuModuleLoadData", 0, 222, false);
    fails(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_COMPILE,
          "cuModuleLoadData(two.cu): an error without a name (222), from NVRTC 13.0 for the driver's 13.0");
    use("nvrtc", "/no/nvrtc.so");
    assert_int_equal(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "no NVRTC"));
    assert_int_equal(f->modules + f->programs, 0);
    dev_cuda_close(gpu);

    use("nvrtc", library);
    f->major = 12;
    gpu = opened();
    assert_int_equal(dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "does not compile for sm_120a"));
    dev_cuda_close(gpu);
}

static void launches(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    dev_cuda_module *m = NULL;
    dev_cuda_kernel k;
    void *stream = NULL, *graph = NULL, *event[2];
    double ms = 0;
    must(dev_cuda_module_new(gpu, &source, NULL, 0, &m, fail_out));
    must(dev_cuda_kernel_get(gpu, m, "one", 0, &k, fail_out));
    must(dev_cuda_stream_new(gpu, &stream, fail_out));
    dev_cuda_launch l = {.kernel = &k, .grid = {3, 2}, .block = {128}, .dynamic = 99, .stream = stream};
    must(dev_cuda_run(gpu, &l, fail_out));
    assert_string_equal(f->kernel, "one");
    unsigned grid[3] = {3, 2, 1}, block[3] = {128, 1, 1};
    assert_memory_equal(f->grid, grid, sizeof grid);
    assert_memory_equal(f->block, block, sizeof block);
    assert_int_equal(f->dynamic, 99);
    assert_ptr_equal(f->stream, stream);
    assert_int_equal(f->attributes, 0);
    l.cluster = 4, l.overlap = l.together = true;
    must(dev_cuda_run(gpu, &l, fail_out));
    assert_int_equal(f->attributes, 3);
    assert_true(f->cluster == 4 && f->overlap == 1 && f->together == 1);

    must(dev_cuda_event_new(gpu, &event[0], fail_out));
    must(dev_cuda_event_new(gpu, &event[1], fail_out));
    must(dev_cuda_event_record(gpu, event[0], stream, fail_out));
    must(dev_cuda_event_wait(gpu, event[0], stream, fail_out));
    must(dev_cuda_run(gpu, &l, fail_out));
    must(dev_cuda_event_record(gpu, event[1], stream, fail_out));
    must(dev_cuda_event_ms(gpu, event[0], event[1], &ms, fail_out));
    assert_true(ms > 0.24 && ms < 0.26);

    uint64_t host = mem_count(), device = dev_cuda_allocations();
    must(dev_cuda_capture_begin(gpu, stream, fail_out));
    must(dev_cuda_run(gpu, &l, fail_out));
    must(dev_cuda_run(gpu, &l, fail_out));
    assert_int_equal(f->captured, 2);
    must(dev_cuda_capture_end(gpu, stream, &graph, fail_out));
    must(dev_cuda_graph_launch(gpu, graph, stream, fail_out));
    assert_int_equal(mem_count() - host, 0);
    assert_int_equal(dev_cuda_allocations() - device, 0);
    assert_int_equal(f->launches, 3);
    assert_int_equal(f->replays, 1);
    assert_int_equal(f->graphs, 1);
    dev_cuda_graph_free(gpu, graph), dev_cuda_graph_free(gpu, NULL);
    dev_cuda_event_free(gpu, event[0]), dev_cuda_event_free(gpu, event[1]), dev_cuda_event_free(gpu, NULL);
    dev_cuda_stream_free(gpu, stream);
    dev_cuda_module_free(gpu, m);
    assert_int_equal(f->graphs + f->events + f->streams + f->modules, 0);
    dev_cuda_close(gpu);

    f->major = 8;
    gpu = opened();
    l = (dev_cuda_launch){.kernel = &k, .overlap = true};
    must(dev_cuda_module_new(gpu, &source, NULL, 0, &m, fail_out));
    must(dev_cuda_kernel_get(gpu, m, "one", 0, &k, fail_out));
    must(dev_cuda_run(gpu, &l, fail_out));
    assert_int_equal(f->attributes, 0); /* a wish that this GPU does not know */
    l.cluster = 2;
    fails(dev_cuda_run(gpu, &l, &why), CADRE_UNSUPPORTED,
          "one: clusters need compute capability 9.0, Fake One has 8.0");
    dev_cuda_module_free(gpu, m);
    dev_cuda_close(gpu);
}

/* ---- the cache ---- */

static int heard;
static char last_line[512];
static void hear(void *ctx, const char *line) {
    (void)ctx;
    heard++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void compiled_once(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    dev_cuda_module *m = NULL;
    static const char *const a[] = {"-DA"}, *const b[] = {"-DB"};
    heard = 0;
    cadre_listen(hear, NULL);
    use("cache", dir);
    for (int i = 0; i < 2; i++) {
        must(dev_cuda_module_new(gpu, &source, a, 1, &m, fail_out));
        dev_cuda_module_free(gpu, m);
        assert_int_equal(f->compilations, 1);
    }
    must(dev_cuda_module_new(gpu, &source, b, 1, &m, fail_out));
    dev_cuda_module_free(gpu, m);
    must(dev_cuda_module_new(gpu, &source, NULL, 0, &m, fail_out));
    dev_cuda_module_free(gpu, m);
    assert_int_equal(f->compilations, 3);
    /* what the driver refuses is compiled again, once */
    trip("cuModuleLoadData", 0, 200, false);
    must(dev_cuda_module_new(gpu, &source, b, 1, &m, fail_out));
    dev_cuda_module_free(gpu, m);
    assert_int_equal(f->compilations, 4);
    assert_int_equal(heard, 0);
    cadre_listen(NULL, NULL);
    dev_cuda_close(gpu);
    char line[300];
    snprintf(line, sizeof line, "rm -f '%s'/*.cubin", dir);
    assert_int_equal(system(line), 0);
}

/* ---- lost ---- */

static void lost(void **state) {
    (void)state;
    dev_cuda *gpu = opened(), *other = opened();
    dev_cuda_module *m = NULL;
    dev_cuda_kernel k;
    void *p = NULL, *stream = NULL, *event = NULL;
    must(dev_cuda_module_new(gpu, &source, NULL, 0, &m, fail_out));
    must(dev_cuda_kernel_get(gpu, m, "one", 0, &k, fail_out));
    must(dev_cuda_alloc(gpu, 100, &p, fail_out));
    must(dev_cuda_stream_new(gpu, &stream, fail_out));
    must(dev_cuda_event_new(gpu, &event, fail_out));
    dev_cuda_launch l = {.kernel = &k, .block = {32}};
    trip("cuLaunchKernelEx", 0, 701, false);
    fails(dev_cuda_run(gpu, &l, &why), CADRE_RANGE, "cuLaunchKernelEx(one): an error without a name (701)");
    assert_false(dev_cuda_lost(gpu));
    trip("cuLaunchKernelEx", 1, 700, true);
    must(dev_cuda_run(gpu, &l, fail_out));
    fails(dev_cuda_run(gpu, &l, &why), CADRE_DEVICE,
          "cuLaunchKernelEx(one): an illegal memory access was encountered (700)");
    assert_true(dev_cuda_lost(gpu));
    uint64_t calls = f->calls;
    const char *text = "the GPU is lost: cuLaunchKernelEx(one): an illegal memory access was encountered (700)";
    fails(dev_cuda_sync(gpu, stream, &why), CADRE_DEVICE, text);
    fails(dev_cuda_run(gpu, &l, &why), CADRE_DEVICE, text);
    fails(dev_cuda_put(gpu, p, &l, 8, &why), CADRE_DEVICE, text);
    fails(dev_cuda_alloc(gpu, 8, &p, &why), CADRE_DEVICE, text);
    fails(dev_cuda_event_record(gpu, event, stream, &why), CADRE_DEVICE, text);
    assert_int_equal(f->calls, calls); /* at once: the driver is not asked */
    assert_false(dev_cuda_lost(other));
    assert_int_equal(dev_cuda_sync(other, NULL, &why), CADRE_DEVICE); /* finds out for itself */
    assert_true(dev_cuda_lost(other));
    dev_cuda_free(gpu, p);
    dev_cuda_event_free(gpu, event);
    dev_cuda_stream_free(gpu, stream);
    dev_cuda_module_free(gpu, m);
    dev_cuda_close(gpu);
    dev_cuda_close(other);
    assert_int_equal(f->modules + f->streams + f->allocations + f->events + f->contexts, 0);
}

/* A fatal error that only a free sees is not forgotten. */
static void lost_while_freeing(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    void *p = NULL;
    must(dev_cuda_alloc(gpu, 8, &p, fail_out));
    trip("cuMemFree", 0, 719, false);
    dev_cuda_free(gpu, p);
    fails(dev_cuda_sync(gpu, NULL, &why), CADRE_DEVICE, "the GPU is lost: cuMemFree: unspecified launch failure (719)");
    dev_cuda_close(gpu);
}

/* ---- every call ---- */

/* One walk over every verb; the first error ends it, and everything made is freed. */
static cadre_err walk(void) {
    dev_cuda *gpu = NULL;
    dev_cuda_module *m = NULL;
    dev_cuda_kernel k;
    dev_cuda_ceiling c;
    void *p = NULL, *pinned = NULL, *stream = NULL, *event = NULL, *graph = NULL;
    size_t has, all;
    double ms;
    int blocks;
    why = (cadre_fail){0};
    cadre_err err = dev_cuda_open(0, &gpu, &why);
    if (err) return err;
    err = dev_cuda_module_new(gpu, &source, NULL, 0, &m, &why);
    if (!err) err = dev_cuda_kernel_get(gpu, m, "one", 2048, &k, &why);
    if (!err) err = dev_cuda_resident(gpu, &k, 128, 2048, &blocks, &why);
    dev_cuda_launch two = {.kernel = &k, .block = {128}, .cluster = 2};
    if (!err) err = dev_cuda_clusters(gpu, &two, &blocks, &why);
    if (!err) err = dev_cuda_memory(gpu, &has, &all, &why);
    if (!err) err = dev_cuda_alloc(gpu, 64, &p, &why);
    if (!err) err = dev_cuda_alloc_host(gpu, 64, &pinned, &why);
    if (!err) err = dev_cuda_stream_new(gpu, &stream, &why);
    if (!err) err = dev_cuda_event_new(gpu, &event, &why);
    if (!err) err = dev_cuda_put(gpu, p, pinned, 64, &why);
    if (!err) err = dev_cuda_get(gpu, pinned, p, 64, &why);
    if (!err) err = dev_cuda_put_async(gpu, p, pinned, 64, stream, &why);
    if (!err) err = dev_cuda_get_async(gpu, pinned, p, 64, stream, &why);
    if (!err) err = dev_cuda_copy_async(gpu, p, p, 64, stream, &why);
    if (!err) err = dev_cuda_fill_async(gpu, p, 1, 64, stream, &why);
    if (!err) err = dev_cuda_event_record(gpu, event, stream, &why);
    if (!err) err = dev_cuda_event_wait(gpu, event, stream, &why);
    if (!err) err = dev_cuda_event_ms(gpu, event, event, &ms, &why);
    if (!err) err = dev_cuda_capture_begin(gpu, stream, &why);
    if (!err) {
        dev_cuda_launch l = {.kernel = &k, .stream = stream};
        err = dev_cuda_run(gpu, &l, &why);
        cadre_fail end = {0};
        cadre_err ended = dev_cuda_capture_end(gpu, stream, &graph, err ? &end : &why);
        if (!err) err = ended;
    }
    if (!err) err = dev_cuda_graph_launch(gpu, graph, stream, &why);
    if (!err) err = dev_cuda_sync(gpu, stream, &why);
    if (!err) err = dev_cuda_measure(gpu, 1, &c, &why);
    dev_cuda_graph_free(gpu, graph);
    dev_cuda_event_free(gpu, event);
    dev_cuda_stream_free(gpu, stream);
    dev_cuda_free_host(gpu, pinned);
    dev_cuda_free(gpu, p);
    dev_cuda_module_free(gpu, m);
    dev_cuda_close(gpu);
    return err;
}

/* Fails the n-th call, for every n: an error comes out that names the call, unless it is one whose failure harms nobody
 * (what frees, and what only asks for words), and nothing is left behind. */
static void every_call(void **state) {
    (void)state;
    static const char *const harmless[] = {"cuMemFree",           "cuMemFreeHost",      "cuStreamDestroy",
                                           "cuEventDestroy",      "cuGraphExecDestroy", "cuGraphDestroy",
                                           "cuModuleUnload",      "cuCtxPopCurrent",    "cuDevicePrimaryCtxRelease",
                                           "nvrtcDestroyProgram", "cuCtxGetCurrent",    "cuCtxPushCurrent"};
    int seen = 0, quiet = 0;
    assert_int_equal(walk(), CADRE_OK);
    nothing_left("nothing");
    int64_t calls = (int64_t)f->calls, step = 1;
    for (int64_t n = 0; n < calls; n += step) {
        if (n == 400) step = 7; /* by then the walk is in the many launches of dev_cuda_measure */
        each(NULL);
        trip(NULL, n, 1, false);
        cadre_err err = walk();
        const char *call = f->last;
        assert_non_null(call);
        if (err) {
            bool told = strstr(why.text, call) || strstr(why.text, "NVRTC 13.0");
            if (!told) fail_msg("call %d, %s: '%s'", (int)n, call, why.text);
            if (why.code != err) fail_msg("call %d, %s: %d is not %d", (int)n, call, why.code, err);
            seen++;
        } else {
            bool fine = false;
            for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) fine |= !strcmp(call, harmless[i]);
            if (!fine) fail_msg("call %d, %s: its failure was not noticed", (int)n, call);
            quiet++;
        }
        /* a context that cannot be made current keeps what is in it */
        if (strncmp(call, "cuCtx", 5)) nothing_left(call);
    }
    assert_true(seen > 100 && quiet > 5);
}

/* The same with an error that stays: the walk ends, in DEVICE, without a crash. */
static void every_loss(void **state) {
    (void)state;
    assert_int_equal(walk(), CADRE_OK);
    int64_t calls = (int64_t)f->calls, step = 1;
    for (int64_t n = 0; n < calls; n += step) {
        if (n == 400) step = 11;
        each(NULL);
        trip(NULL, n, 719, true);
        cadre_err err = walk();
        assert_true(!err || *why.text);
        if (err == CADRE_RANGE || err == CADRE_NOMEM) fail_msg("call %d, %s: '%s'", (int)n, f->last, why.text);
    }
}

static void host_memory(void **state) {
    (void)state;
    int n = 0;
    for (;; n++) {
        each(NULL);
        mem_fail_after(n);
        cadre_err err = walk();
        mem_fail_after(-1);
        nothing_left("an allocation");
        if (!err) break;
        if (err != CADRE_NOMEM) fail_msg("allocation %d: '%s'", n, why.text);
    }
    assert_true(n > 5);
}

/* ---- meanings ---- */

static void meanings(void **state) {
    (void)state;
    assert_int_equal(driver_meaning(0), CADRE_OK);
    assert_int_equal(driver_meaning(2), CADRE_NOMEM);
    assert_int_equal(driver_meaning(209), CADRE_COMPILE);
    assert_int_equal(driver_meaning(801), CADRE_UNSUPPORTED);
    assert_int_equal(driver_meaning(912), CADRE_RANGE);
    assert_int_equal(driver_meaning(719), CADRE_DEVICE);
    assert_int_equal(driver_meaning(-5), CADRE_DEVICE);
    for (int code = 0; code < 1000; code++) {
        bool fatal = driver_fatal(code);
        if (fatal) assert_int_equal(driver_meaning(code), CADRE_DEVICE);
        if (code == 700 || code == 716 || code == 214) assert_true(fatal);
        if (code == 2 || code == 600 || code == 701 || code == 720 || code == 901) assert_false(fatal);
    }
}

static void ceilings(void **state) {
    (void)state;
    dev_cuda *gpu = opened();
    dev_cuda_ceiling c = {0};
    must(dev_cuda_measure(gpu, 2, &c, fail_out));
    /* 32 x 1 MiB in the stand-in's quarter of a millisecond */
    assert_true(c.read_gbps > 134.2 && c.read_gbps < 134.3);
    assert_true(c.launch_us > 0 && c.graph_us > 0 && c.replay_us > 0);
    assert_int_equal(f->grid[0], 1);
    f->memory = 9 << 20;
    fails(dev_cuda_measure(gpu, 2, &c, &why), CADRE_NOMEM,
          "9437184 bytes of GPU memory are free, 16777216 are needed to measure");
    dev_cuda_close(gpu);
    nothing_left("memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(missing, each),       cmocka_unit_test_setup(devices, each),
        cmocka_unit_test_setup(looking, each),       cmocka_unit_test_setup(memory, each),
        cmocka_unit_test_setup(out_of_memory, each), cmocka_unit_test_setup(contexts, each),
        cmocka_unit_test_setup(modules, each),       cmocka_unit_test_setup(launches, each),
        cmocka_unit_test_setup(compiled_once, each), cmocka_unit_test_setup(lost, each),
        cmocka_unit_test_setup(every_call, each),    cmocka_unit_test_setup(lost_while_freeing, each),
        cmocka_unit_test_setup(every_loss, each),    cmocka_unit_test_setup(host_memory, each),
        cmocka_unit_test_setup(meanings, each),      cmocka_unit_test_setup(ceilings, each),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
