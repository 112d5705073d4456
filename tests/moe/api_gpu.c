/* api_gpu: the public MoE layer on a GPU against a stand-in for the driver (tests/dev/fake): what it refuses, what a
 * run queues and on which stream, that it allocates and waits for nothing, and that every error of the driver comes
 * out. Kernels do nothing here: what they compute is tests/gpu/moe. */
#include "dev/cuda.h"
#include "dev/fake/stand_in.h"
#include "moe/api.h"

enum { D = 64, F = 64, E = 8, K = 3, N = 9000, SHARED = 16, WIDE = 1025 };

static float w[WIDE * D]; /* every weight: what they hold matters to nobody here */
static cadre_tensor list[WIDE];
static cadre_device *device;
static cadre_moe *moe;
static cadre_moe_workspace *space;
static _Alignas(16) char x[32], out[32]; /* stand for device memory: kernels do nothing */
static int32_t ids[K];
static float weights[K];
static int something;
static void *const stream = &something;

/* ---- the stand-in ---- */

static int start(void **state) {
    (void)state;
    load();
    for (int i = 0; i < WIDE; i++) list[i] = (cadre_tensor){w, CADRE_F32};
    return 0;
}

/* ---- layers ---- */

static const cadre_moe_desc plain = {
    .d = D, .f = F, .e = E, .k = K, .max_tokens = N, .renormalize = true, .dtype = CADRE_BF16};

static cadre_err open_gpu(void) {
    return cadre_device_open(&(cadre_device_options){.name = "cuda"}, &device, &why);
}

static cadre_err make(const cadre_moe_desc *desc) {
    cadre_tensor one = {w, CADRE_F32};
    cadre_moe_weights all = {.router = one, .gate = list, .up = list, .down = list};
    if (desc->shared_f) all.shared_gate = all.shared_up = all.shared_down = all.shared_expert_gate = one;
    return cadre_moe_new(device, desc, &all, &moe, &why);
}

static void close_all(void) {
    cadre_moe_workspace_free(space);
    cadre_moe_free(moe);
    cadre_device_close(device);
    space = NULL, moe = NULL, device = NULL;
}

static void open_all(int shared_f) {
    cadre_moe_desc desc = plain;
    desc.shared_f = shared_f;
    cadre_err err = open_gpu();
    if (!err) err = make(&desc);
    if (!err) err = cadre_moe_workspace_new(moe, &space, &why);
    if (err) fail_msg("%s", why.text);
}

static cadre_err enqueue(int n, cadre_dtype out_type) {
    return cadre_moe_enqueue(moe, space, stream, n, x, CADRE_BF16, NULL, NULL, out, out_type, &why);
}

#define fails(call, want, line)              \
    do {                                     \
        why = (cadre_fail){0};               \
        assert_int_equal(call, want);        \
        assert_string_equal(why.text, line); \
        assert_int_equal(why.code, want);    \
    } while (0)

static void ok(cadre_err err) {
    if (err) fail_msg("%s", why.text);
}

/* ---- refusals ---- */

static void refusals(void **state) {
    (void)state;
    cadre_moe_desc bad = plain;
    ok(open_gpu());
    bad.dtype = CADRE_F32;
    fails(make(&bad), CADRE_UNSUPPORTED, "moe dtype is f32, on a GPU bf16 alone is there");
    bad.dtype = CADRE_Q4;
    fails(make(&bad), CADRE_UNSUPPORTED, "moe dtype is q4, on a GPU bf16 alone is there");
    bad = plain, bad.e = WIDE;
    fails(make(&bad), CADRE_UNSUPPORTED, "e=1025 k=3: on a GPU at most 1024 experts, 32 of them for a token");
    bad = plain, bad.e = 64, bad.k = 33;
    fails(make(&bad), CADRE_UNSUPPORTED, "e=64 k=33: on a GPU at most 1024 experts, 32 of them for a token");
    static uint16_t half[F * D];
    list[5] = (cadre_tensor){half, CADRE_BF16};
    cadre_tensor up[E], one = {w, CADRE_F32};
    for (int i = 0; i < E; i++) up[i] = one;
    cadre_moe_weights mixed = {.router = one, .gate = list, .up = up, .down = up};
    fails(cadre_moe_new(device, &plain, &mixed, &moe, &why), CADRE_UNSUPPORTED,
          "moe weights: gate is bf16 and up is f32, on a GPU they are of one type");
    list[5] = one;
    assert_null(moe);
    assert_int_equal(f->allocations + f->modules + f->streams + f->events, 0);
    cadre_device_close(device);
    f->major = 8, f->minor = 6;
    ok(open_gpu());
    fails(make(&plain), CADRE_UNSUPPORTED,
          "MoE layers run on GPUs of compute capability 8.0 and 9.0 in this version, Fake One has 8.6");
    cadre_device_close(device);
    f->major = 10, f->minor = 0; /* its wgmma is gone */
    ok(open_gpu());
    fails(make(&plain), CADRE_UNSUPPORTED,
          "MoE layers run on GPUs of compute capability 8.0 and 9.0 in this version, Fake One has 10.0");
    close_all();
    nothing_left("refusals");
}

static void memory_runs_out(void **state) {
    (void)state;
    f->memory = 1 << 20;
    ok(open_gpu());
    assert_int_equal(make(&plain), CADRE_NOMEM);
    f->memory = (size_t)1 << 34;
    ok(make(&plain));
    f->memory = f->used + 1000;
    assert_int_equal(cadre_moe_workspace_new(moe, &space, &why), CADRE_NOMEM);
    assert_null(space);
    close_all();
    nothing_left("memory");
}

static void arguments(void **state) {
    (void)state;
    open_all(0);
    uint64_t calls = f->calls;
    fails(enqueue(N + 1, CADRE_F32), CADRE_RANGE, "n is 9001, expected 0..9000");
    fails(enqueue(-1, CADRE_F32), CADRE_RANGE, "n is -1, expected 0..9000");
    fails(enqueue(1, CADRE_F16), CADRE_UNSUPPORTED, "the type of out is 2, expected f32 or bf16");
#define with(n, x, x_type, ids, weights, out) \
    cadre_moe_enqueue(moe, space, stream, n, x, x_type, ids, weights, out, CADRE_F32, &why)
    fails(with(1, x, CADRE_Q8, NULL, NULL, out), CADRE_UNSUPPORTED, "the type of x is 3, expected f32 or bf16");
    fails(with(1, NULL, CADRE_F32, NULL, NULL, out), CADRE_RANGE, "x is NULL");
    fails(with(1, x, CADRE_F32, NULL, NULL, NULL), CADRE_RANGE, "out is NULL");
    fails(with(1, x, CADRE_F32, ids, NULL, out), CADRE_RANGE, "ids and weights come together, one of them is NULL");
    fails(with(1, x, CADRE_F32, NULL, weights, out), CADRE_RANGE, "ids and weights come together, one of them is NULL");
    assert_int_equal(with(1, x + 8, CADRE_BF16, NULL, NULL, out), CADRE_RANGE);
    assert_non_null(strstr(why.text, "expected a multiple of 16"));
    assert_int_equal(with(1, x, CADRE_F32, NULL, NULL, out + 2), CADRE_RANGE);
    assert_non_null(strstr(why.text, "expected a multiple of 4"));
    assert_int_equal(with(0, NULL, CADRE_F32, NULL, NULL, NULL), CADRE_OK);
#undef with
    fails(cadre_moe_enqueue(NULL, space, stream, 1, x, CADRE_F32, NULL, NULL, out, CADRE_F32, &why), CADRE_RANGE,
          "the layer or its workspace is NULL");
    fails(cadre_moe_enqueue(moe, NULL, stream, 1, x, CADRE_F32, NULL, NULL, out, CADRE_F32, &why), CADRE_RANGE,
          "the layer or its workspace is NULL");
#define valid(n, at) cadre_moe_enqueue_valid(moe, space, stream, n, at, x, CADRE_F32, NULL, NULL, out, CADRE_F32, &why)
    fails(valid(1, NULL), CADRE_RANGE, "n_valid is NULL");
    assert_int_equal(valid(1, (const int32_t *)(const void *)((const char *)ids + 2)), CADRE_RANGE);
    assert_non_null(strstr(why.text, "n_valid lies at"));
    fails(valid(N + 1, ids), CADRE_RANGE, "n is 9001, expected 0..9000");
    assert_int_equal(valid(0, ids), CADRE_OK);
    assert_int_equal(f->calls, calls); /* the driver is not asked */
    assert_int_equal(valid(1, ids), CADRE_OK);
#undef valid
    close_all();
}

/* A workspace of other sizes, and a layer on the CPU. */
static void others(void **state) {
    (void)state;
    open_all(0);
    cadre_moe *first = moe;
    cadre_moe_desc desc = plain;
    desc.max_tokens = 8;
    ok(make(&desc));
    fails(enqueue(1, CADRE_F32), CADRE_RANGE, "the workspace is that of a layer of another description or plan");
    cadre_moe_free(first);
    close_all();
    nothing_left("others");
    desc = plain;
    device = open_device(1);
    ok(make(&desc));
    must(cadre_moe_workspace_new(moe, &space, fail_out));
    fails(enqueue(1, CADRE_F32), CADRE_UNSUPPORTED, "the layer is on the CPU: cadre_moe_run takes its pointers");
    close_all();
}

/* ---- what a run is ---- */

static uint64_t launches(int n, cadre_dtype out_type) {
    uint64_t before = f->launches;
    f->stream = NULL;
    if (enqueue(n, out_type)) fail_msg("%s", why.text);
    if (n) assert_ptr_equal(f->stream, stream);
    return f->launches - before;
}

static void queued(void **state) {
    (void)state;
    open_all(0);
    assert_int_equal(launches(0, CADRE_F32), 0);
    assert_int_equal(launches(1, CADRE_F32), 2);
    assert_string_equal(f->kernel, "one");
    assert_int_equal(f->grid[0], f->sms);
    assert_int_equal(f->overlap, 1);
    assert_int_equal(launches(8192, CADRE_BF16), 2);
    assert_int_equal(launches(8193, CADRE_BF16), 4);
    uint64_t before = f->launches;
    must(cadre_moe_enqueue(moe, space, stream, 1, x, CADRE_F32, ids, weights, out, CADRE_F32, fail_out));
    assert_int_equal(f->launches - before, 2);
    close_all();
    open_all(SHARED);
    assert_int_equal(launches(1, CADRE_F32), 4);
    assert_int_equal(launches(1, CADRE_BF16), 5);
    assert_int_equal(strncmp(f->kernel, "round_out", 9), 0);
    close_all();
    nothing_left("runs");
}

/* Neither of the host nor of the GPU; and no call that waits or that a capture forbids. */
static void allocates_nothing(void **state) {
    (void)state;
    static float rows[4 * D], to[4 * D];
    open_all(SHARED);
    uint64_t host = cadre_allocations(), gpu = dev_cuda_allocations();
    int alive = f->allocations;
    static const char *const never[] = {"cuStreamSynchronize", "cuEventSynchronize", "cuMemAlloc",
                                        "cuMemFree",           "cuMemHostAlloc",     "cuMemcpyHtoD",
                                        "cuMemcpyDtoH",        "cuStreamCreate",     "cuModuleLoadData",
                                        "cuMemcpyHtoDAsync",   "cuMemcpyDtoHAsync"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        trip(never[i], 0, 719, false);
        assert_int_equal(enqueue(1 + (int)i * 800, i % 2 ? CADRE_BF16 : CADRE_F32), CADRE_OK);
    }
    assert_null(f->last);
    trip(NULL, -1, 0, false);
    for (int i = 0; i < 3; i++) must(cadre_moe_run(moe, space, 4, rows, to, fail_out));
    assert_int_equal(cadre_allocations(), host);
    assert_int_equal(dev_cuda_allocations(), gpu);
    assert_int_equal(f->allocations, alive);
    close_all();
    nothing_left("runs");
}

static cadre_err enqueue_on(void *other) {
    return cadre_moe_enqueue(moe, space, other, 1, x, CADRE_BF16, NULL, NULL, out, CADRE_F32, &why);
}

/* Runs on several streams go one after the other: a stream waits where the run before was on another. */
static void turns(void **state) {
    (void)state;
    void *other = NULL, *graph = NULL;
    open_all(0);
    dev_cuda *gpu = moe->gpu->gpu;
    must(dev_cuda_stream_new(gpu, &other, fail_out));
    struct {
        void *stream;
        uint64_t waits;
    } steps[] = {{stream, 0}, {stream, 0}, {other, 1}, {other, 1}, {stream, 2}, {NULL, 3}, {stream, 4}};
    f->records = f->waits = 0; /* making the layer had some */
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        ok(enqueue_on(steps[i].stream));
        assert_int_equal(f->records, i + 1);
        assert_int_equal(f->waits, steps[i].waits);
    }
    /* What is captured is the caller's to order; a run that failed lets the next one in. */
    must(dev_cuda_capture_begin(gpu, other, fail_out));
    ok(enqueue_on(other));
    must(dev_cuda_capture_end(gpu, other, &graph, fail_out));
    dev_cuda_graph_free(gpu, graph);
    assert_int_equal(f->records, 7);
    assert_int_equal(f->waits, 4);
    static const char *const calls[] = {"cuLaunchKernelEx", "cuStreamIsCapturing", "cuStreamWaitEvent",
                                        "cuEventRecord"};
    for (int i = 0; i < 4; i++) {
        trip(calls[i], 0, 1, false);
        assert_int_not_equal(enqueue_on(i % 2 ? stream : other), CADRE_OK);
        assert_string_equal(f->last, calls[i]);
        trip(NULL, -1, 0, false);
        ok(enqueue_on(i % 2 ? stream : other));
    }
    set_switch("order=0");
    uint64_t waits = f->waits, records = f->records;
    ok(enqueue_on(stream));
    ok(enqueue_on(other));
    assert_true(f->waits == waits && f->records == records);
    set_switch("order=1");
    dev_cuda_stream_free(gpu, other);
    close_all();
    nothing_left("turns");
}

/* A workspace that another thread is using is refused, and is free again afterwards. */
static void in_use(void **state) {
    (void)state;
    static float rows[D], to[D], w2[3];
    static int32_t ids2[3];
    static const char line[] = "the workspace is in use by another run; each at a time needs its own";
    open_all(0);
    atomic_store(&space->busy, true);
    uint64_t calls = f->calls;
    fails(enqueue(1, CADRE_F32), CADRE_RANGE, line);
    fails(cadre_moe_run(moe, space, 1, rows, to, &why), CADRE_RANGE, line);
    fails(cadre_moe_route(moe, space, 1, rows, ids2, w2, &why), CADRE_RANGE, line);
    fails(cadre_moe_experts(moe, space, 1, rows, ids2, w2, to, &why), CADRE_RANGE, line);
    assert_int_equal(f->calls, calls);
    atomic_store(&space->busy, false);
    for (int i = 0; i < 2; i++) {
        ok(enqueue(1, CADRE_F32));
        ok(cadre_moe_run(moe, space, 1, rows, to, &why));
        ok(cadre_moe_route(moe, space, 1, rows, ids2, w2, &why));
        ok(cadre_moe_experts(moe, space, 1, rows, ids2, w2, to, &why));
    }
    trip("cuLaunchKernelEx", 0, 1, false);
    assert_int_not_equal(cadre_moe_run(moe, space, 1, rows, to, &why), CADRE_OK);
    trip(NULL, -1, 0, false);
    ok(cadre_moe_run(moe, space, 1, rows, to, &why));
    close_all();
    nothing_left("a workspace in use");
}

static void captured(void **state) {
    (void)state;
    void *graph = NULL;
    open_all(SHARED);
    dev_cuda *gpu = moe->gpu->gpu;
    must(dev_cuda_capture_begin(gpu, stream, fail_out));
    assert_int_equal(launches(20, CADRE_BF16), 0);
    assert_int_equal(f->captured, 5);
    must(dev_cuda_capture_end(gpu, stream, &graph, fail_out));
    dev_cuda_graph_free(gpu, graph);
    close_all();
    nothing_left("a capture");
}

/* ---- a profile ---- */

enum { ROWS = 8 };
static int rows_of(const cadre_profile *p, cadre_profile_row *rows) {
    memset(rows, 0, ROWS * sizeof *rows);
    return cadre_profile_rows(p, rows, ROWS);
}

/* Every launch has a row; the stand-in's kernels take 250 us each. */
static void is_row(const cadre_profile_row *r, const char *op, const char *kernel, int launches_, double bytes) {
    assert_string_equal(r->op, op);
    assert_string_equal(r->kernel, kernel);
    assert_int_equal(r->launches, launches_);
    assert_true(r->us == 250.0 * launches_ && r->bytes == bytes);
}

static void watched(void **state) {
    (void)state;
    cadre_profile *p = NULL;
    cadre_profile_row r[ROWS];
    open_all(SHARED);
    must(cadre_profile_new(device, &p, fail_out));
    assert_int_equal(launches(1, CADRE_BF16), 5);
    assert_int_equal(f->stamps, 0); /* nobody watches yet */
    assert_int_equal(f->overlap, 1);
    cadre_moe_profile(space, p);
    uint64_t host = cadre_allocations(), gpu = dev_cuda_allocations();
    for (int i = 0; i < 3; i++) assert_int_equal(launches(1, CADRE_BF16), 5);
    assert_int_equal(f->stamps, 3 * 6);
    assert_int_equal(f->overlap, 0); /* a launch that overlaps the one before has no time of its own */
    assert_int_equal(cadre_allocations(), host);
    assert_int_equal(dev_cuda_allocations(), gpu);
    assert_int_equal(rows_of(p, r), 0); /* not collected yet */
    for (int i = 0; i < 2; i++) {       /* a second time there is nothing new */
        must(cadre_profile_collect(p, fail_out));
        assert_int_equal(rows_of(p, r), 5);
        is_row(&r[0], "router", "router_bf16_sm90", 3, 3.0 * E * D * 2);
        is_row(&r[1], "experts", "one_bf16_sm90", 3, 0);
        is_row(&r[2], "shared expert lists", "plain", 3, 0);
        assert_string_equal(r[3].op, "shared expert");
        assert_true(r[3].launches == 3 && r[3].bytes >= 3.0 * 3 * D * SHARED * 2);
        is_row(&r[4], "round", "plain", 3, 0);
    }
    /* With given routing lists take the router's place; host pointers collect by themselves. */
    static float in[D], to[D];
    cadre_profile_clear(p);
    must(cadre_moe_experts(moe, space, 1, in, ids, weights, to, fail_out));
    assert_int_equal(rows_of(p, r), 4);
    is_row(&r[0], "lists", "plain", 1, 0);
    cadre_moe_profile(space, NULL);
    uint64_t before = f->stamps;
    assert_int_equal(launches(1, CADRE_F32), 4);
    assert_int_equal(f->stamps, before);
    cadre_profile_free(p);
    close_all();
    nothing_left("a profile");
}

/* A graph's stamps are part of it: each replay can be collected, until the profile starts anew. */
static void watched_graph(void **state) {
    (void)state;
    cadre_profile *p = NULL;
    cadre_profile_row r[ROWS];
    void *graph = NULL;
    open_all(0);
    must(cadre_profile_new(device, &p, fail_out));
    dev_cuda *gpu = moe->gpu->gpu;
    cadre_moe_profile(space, p);
    must(dev_cuda_capture_begin(gpu, stream, fail_out));
    for (int i = 0; i < 2; i++) assert_int_equal(launches(20, CADRE_BF16), 0);
    must(dev_cuda_capture_end(gpu, stream, &graph, fail_out));
    assert_int_equal(f->stamps, 6);
    for (int i = 1; i <= 3; i++) {
        must(dev_cuda_graph_launch(gpu, graph, stream, fail_out));
        if (i == 2) assert_int_equal(launches(20, CADRE_BF16), 2); /* beside it, told once */
        must(cadre_profile_collect(p, fail_out));
        assert_int_equal(rows_of(p, r), 2);
        is_row(&r[0], "router", "router_bf16_sm90", 2 * i + (i > 1), (2 * i + (i > 1)) * (double)E * D * 2);
        is_row(&r[1], "experts", "experts_bf16_sm90", 2 * i + (i > 1), 0);
    }
    cadre_profile_clear(p);
    must(cadre_profile_collect(p, fail_out));
    assert_int_equal(rows_of(p, r), 0);
    /* More launches than there are events: said, not told wrong. */
    for (int i = 0; i < 5500; i++) ok(enqueue(1, CADRE_F32));
    assert_int_equal(cadre_profile_collect(p, &why), CADRE_RANGE);
    assert_non_null(strstr(why.text, "collect earlier"));
    cadre_profile_clear(p);
    must(cadre_profile_collect(p, fail_out));
    dev_cuda_graph_free(gpu, graph);
    cadre_profile_free(p);
    close_all();
    nothing_left("a profile of a graph");
}

static void watched_errors(void **state) {
    (void)state;
    cadre_profile *p = NULL;
    open_all(0);
    int events = f->events;
    trip("cuEventCreate", 7, 2, false);
    assert_int_equal(cadre_profile_new(device, &p, &why), CADRE_NOMEM);
    assert_int_equal(f->events, events);
    must(cadre_profile_new(device, &p, fail_out));
    cadre_moe_profile(space, p);
    trip("cuEventRecordWithFlags", 1, 719, false);
    assert_int_equal(enqueue(1, CADRE_F32), CADRE_DEVICE);
    assert_non_null(strstr(why.text, "cuEventRecordWithFlags"));
    cadre_profile_free(p);
    close_all();
    nothing_left("errors of a profile");
}

/* ---- errors ---- */

/* A run that stopped halfway leaves counters behind; the next one begins with zeros. */
static void stopped_halfway(void **state) {
    (void)state;
    open_all(0);
    trip("cuLaunchKernelEx", 1, 2, false);
    assert_int_equal(enqueue(1, CADRE_F32), CADRE_NOMEM);
    assert_non_null(strstr(why.text, "cuLaunchKernelEx(one)"));
    moe_gpu_space *s = space->space;
    assert_true(s->dirty);
    s->experts.counts[E - 1] = *s->experts.left = 7; /* the stand-in's memory is the host's */
    trip(NULL, -1, 0, false);
    ok(enqueue(1, CADRE_F32));
    assert_int_equal(s->experts.counts[E - 1] + *s->experts.left, 0);
    assert_false(s->dirty);
    close_all();
    nothing_left("a stop");
}

static void lost(void **state) {
    (void)state;
    static float rows[D], to[D];
    cadre_moe_workspace *second = NULL;
    open_all(0);
    trip("cuLaunchKernelEx", 1, 700, true);
    fails(enqueue(1, CADRE_F32), CADRE_DEVICE, "cuLaunchKernelEx(one): an illegal memory access was encountered (700)");
    const char *text = "the GPU is lost: cuLaunchKernelEx(one): an illegal memory access was encountered (700)";
    uint64_t calls = f->calls;
    fails(enqueue(1, CADRE_BF16), CADRE_DEVICE, text);
    fails(cadre_moe_run(moe, space, 1, rows, to, &why), CADRE_DEVICE, text);
    fails(cadre_moe_route(moe, space, 1, rows, ids, weights, &why), CADRE_DEVICE, text);
    fails(cadre_moe_experts(moe, space, 1, rows, ids, weights, to, &why), CADRE_DEVICE, text);
    fails(cadre_moe_workspace_new(moe, &second, &why), CADRE_DEVICE, text);
    assert_null(second);
    assert_int_equal(f->calls, calls);
    assert_string_not_equal(cadre_device_name(device), "");
    close_all();
    nothing_left("a loss");
}

/* A layer's whole life; the first error ends it. */
static cadre_err walk(void) {
    static float rows[D], to[D];
    cadre_moe_desc desc = plain;
    desc.shared_f = SHARED, desc.max_tokens = 1;
    why = (cadre_fail){0};
    cadre_err err = open_gpu();
    if (!err) err = make(&desc);
    if (!err) err = cadre_moe_workspace_new(moe, &space, &why);
    if (!err) err = enqueue(1, CADRE_BF16);
    if (!err) err = cadre_moe_run(moe, space, 1, rows, to, &why);
    if (!err) err = cadre_moe_route(moe, space, 1, rows, ids, weights, &why);
    close_all();
    return err;
}

static void every_call(void **state) {
    (void)state;
    static const char *const harmless[] = {"cuMemFree",          "cuMemFreeHost",    "cuStreamDestroy",
                                           "cuEventDestroy",     "cuModuleUnload",   "cuCtxPopCurrent",
                                           "cuCtxGetCurrent",    "cuCtxPushCurrent", "cuDevicePrimaryCtxRelease",
                                           "nvrtcDestroyProgram"};
    assert_int_equal(walk(), CADRE_OK);
    nothing_left("nothing");
    int64_t calls = (int64_t)f->calls, seen = 0;
    for (int64_t n = 0; n < calls; n += n < 200 ? 1 : 3) {
        each(NULL);
        trip(NULL, n, 1, false);
        cadre_err err = walk();
        const char *call = f->last;
        bool fine = false;
        assert_non_null(call);
        for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) fine |= !strcmp(call, harmless[i]);
        if (!err && !fine) fail_msg("call %d, %s: its failure was not noticed", (int)n, call);
        if (err && (why.code != err || !*why.text)) fail_msg("call %d, %s: '%s'", (int)n, call, why.text);
        seen += err != 0;
        if (strncmp(call, "cuCtx", 5)) nothing_left(call);
    }
    assert_true(seen > 100);
}

static void every_loss(void **state) {
    (void)state;
    assert_int_equal(walk(), CADRE_OK);
    int64_t calls = (int64_t)f->calls;
    for (int64_t n = 0; n < calls; n += 5) {
        each(NULL);
        trip(NULL, n, 719, true);
        cadre_err err = walk();
        if (err == CADRE_RANGE || err == CADRE_NOMEM || (err && !*why.text))
            fail_msg("call %d, %s: '%s'", (int)n, f->last, why.text);
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
        nothing_left("an allocation failed");
        if (!err) break;
        if (err != CADRE_NOMEM) fail_msg("allocation %d: '%s'", n, why.text);
    }
    assert_true(n > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(refusals, each),        cmocka_unit_test_setup(memory_runs_out, each),
        cmocka_unit_test_setup(arguments, each),       cmocka_unit_test_setup(others, each),
        cmocka_unit_test_setup(queued, each),          cmocka_unit_test_setup(allocates_nothing, each),
        cmocka_unit_test_setup(captured, each),        cmocka_unit_test_setup(turns, each),
        cmocka_unit_test_setup(in_use, each),          cmocka_unit_test_setup(watched, each),
        cmocka_unit_test_setup(watched_graph, each),   cmocka_unit_test_setup(watched_errors, each),
        cmocka_unit_test_setup(stopped_halfway, each), cmocka_unit_test_setup(lost, each),
        cmocka_unit_test_setup(every_call, each),      cmocka_unit_test_setup(every_loss, each),
        cmocka_unit_test_setup(host_memory, each),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
