/* count: counting local tokens on a real GPU: the vectors, the whole matrix bit for bit, every knob, a graph that is
 * replayed for other numbers of tokens, a buffer whose end must not be passed. */
#include "moe/count.h"
#include "op/count_matrix.h"
#include "plan/count.h"
#include "tap.h"

static dev_cuda *gpu;
static cadre_fail why;
static void *stream;

#define DO(call) tap_call(call, &why, #call)

/* ---- one kernel per set of knobs, and the buffers of a count ---- */

enum { KERNELS = 64 };
typedef struct kept {
    count_knobs knobs;
    moe_count *count;
} kept;
static kept kernels[KERNELS];
static void *ids, *valid, *counts;

static moe_count *kernel_for(const count_knobs *k) {
    for (int i = 0; i < KERNELS; i++) {
        if (kernels[i].count && !memcmp(&kernels[i].knobs, k, sizeof *k)) return kernels[i].count;
        if (kernels[i].count) continue;
        if (moe_count_new(gpu, k, &kernels[i].count, &why)) return NULL;
        kernels[i].knobs = *k;
        return kernels[i].count;
    }
    return NULL;
}

static void drop_kernels(void) {
    for (int i = 0; i < KERNELS; i++) moe_count_free(kernels[i].count);
    memset(kernels, 0, sizeof kernels);
}

static cadre_err put_ids(void *ctx, const int64_t *from, size_t pairs, cadre_fail *fail) {
    (void)ctx;
    return dev_cuda_put(gpu, ids, from, pairs * sizeof *from, fail);
}

static cadre_err count_host(void *ctx, const op_count *a, const count_knobs *knobs, cadre_fail *fail) {
    size_t bytes = (size_t)a->local * sizeof *a->counts;
    op_count there = *a;
    (void)ctx;
    moe_count *c = kernel_for(knobs);
    if (!c) return cadre_fail_set(fail, CADRE_DEVICE, "%s", why.text);
    there.ids = ids, there.valid = valid, there.counts = counts;
    cadre_err err = dev_cuda_put(gpu, valid, a->valid, sizeof *a->valid, fail);
    if (!err) err = dev_cuda_fill_async(gpu, counts, 0, bytes, stream, fail);
    if (!err) err = moe_count_enqueue(c, &there, stream, fail);
    if (!err) err = dev_cuda_sync(gpu, stream, fail);
    return err ? err : dev_cuda_get(gpu, a->counts, counts, bytes, fail);
}

/* ---- tests ---- */

static bool counted(int32_t tokens, int64_t capacity, const int64_t *from, int k, int64_t start, int32_t a, int32_t b) {
    int32_t got[2];
    count_knobs knobs;
    plan_count_knobs(&knobs);
    op_count o = {from, &tokens, capacity, k, start, 2, got, 0};
    cadre_err err = put_ids(NULL, from, (size_t)(capacity * k), &why);
    if (!err) err = count_host(NULL, &o, &knobs, &why);
    if (err) return tap(false, "%s", why.text);
    return got[0] == a && got[1] == b;
}

static void vectors(void) {
    static const int64_t some[] = {0, 1, 1, 2, 3, 1}, none[] = {-1, -1, -1, -1}, far[] = {INT64_MIN, INT64_MAX, 2, 0};
    tap(counted(3, 3, some, 2, 1, 3, 1), "V01: three tokens give [3,1]");
    tap(counted(2, 3, some, 2, 1, 2, 1), "V02: two valid tokens give [2,1]");
    bool ok = counted(2, 2, none, 2, 0, 0, 0) && counted(0, 3, some, 2, 0, 0, 0) && counted(3, 3, some, 2, 100, 0, 0) &&
              counted(2, 2, far, 2, 3, 0, 0);
    tap(ok, "V03: empty slots, no tokens and other ranks' experts give zeros");
    ok = counted(-3, 3, some, 2, 1, 0, 0) && counted(7, 3, some, 2, 1, 3, 1) &&
         counted(2, 2, far, 2, INT64_MIN, 1, 0) && counted(2, 2, far, 2, INT64_MAX, 1, 0) &&
         counted(2, 2, none, 2, -1, 4, 0);
    tap(ok, "numbers of tokens that cannot be, and ids at the ends of their type");
}

static void matrix(const count_knobs *knobs, int seeds, const char *what) {
    count_matrix m;
    count_subject s = {put_ids, count_host, NULL};
    uint64_t start = clock_ns();
    if (count_matrix_run(&s, knobs, seeds, &m, &why)) {
        tap(false, "%s: %s", what, why.text);
        return;
    }
    tap(m.equal == m.cells && m.cells + m.skipped == m.full, "V04: %s: %d of %d cells equal, %d skipped%s%s", what,
        m.equal, m.cells, m.skipped, *m.first ? ": " : "", m.first);
    tap(count_matrix_ok(&m), "V05: %s: %lld counted; like decoding: %d over %d experts; %d of %d planted faults found",
        what, (long long)m.sum, m.decode_sum, m.decode_populated, m.caught, m.planted);
    printf("# %s: %.1f s\n", what, (double)(clock_ns() - start) / 1e9);
}

static void every_knob(void) {
    static const count_knobs all[] = {{0, 1, 0, 1, 0}, {0, 32, 0, 1, 0}, {0, 4, 1, 1, 0},   {0, 4, 2, 2, 0},
                                      {0, 4, 0, 1, 1}, {0, 16, 3, 2, 1}, {0, 4, 700, 1, 0}, {0, 2, 0, 2, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[100];
        count_knobs_text(&all[i], text, sizeof text);
        drop_kernels();
        matrix(&all[i], 1, text);
    }
}

/* The number of tokens lies on the GPU, so one graph serves any. */
static void replays(void) {
    enum { TOKENS = 600, K = 8, LOCAL = 32 };
    static int64_t rows[TOKENS * K];
    int32_t want[LOCAL], got[LOCAL];
    void *graph = NULL;
    count_knobs knobs;
    op_count a = {ids, valid, TOKENS, K, 32, LOCAL, counts, 0};
    plan_count_knobs(&knobs);
    moe_count *c = kernel_for(&knobs);
    count_matrix_ids(5, TOKENS, 128, K, rows);
    if (!c || !DO(put_ids(NULL, rows, TOKENS * K, &why))) return;
    if (!DO(dev_cuda_capture_begin(gpu, stream, &why))) return;
    cadre_err err = dev_cuda_fill_async(gpu, counts, 0, sizeof got, stream, &why);
    if (!err) err = moe_count_enqueue(c, &a, stream, &why);
    cadre_err end = dev_cuda_capture_end(gpu, stream, &graph, err ? NULL : &why);
    if (err || end) {
        tap(false, "a captured count: %s", why.text);
        return;
    }
    uint64_t host = mem_count(), there = dev_cuda_allocations();
    static const int32_t tokens[] = {600, 1, 0, 333};
    bool same = true;
    for (int i = 0; i < 4 && !err; i++) {
        op_count meaning = {rows, &tokens[i], TOKENS, K, 32, LOCAL, want, 0};
        memset(want, 0, sizeof want);
        op_count_kernels[0].run(&meaning, NULL, 1, 0, NULL);
        err = dev_cuda_put(gpu, valid, &tokens[i], sizeof tokens[i], &why);
        if (!err) err = dev_cuda_graph_launch(gpu, graph, stream, &why);
        if (!err) err = dev_cuda_sync(gpu, stream, &why);
        if (!err) err = dev_cuda_get(gpu, got, counts, sizeof got, &why);
        same = same && !err && !memcmp(got, want, sizeof got);
    }
    tap(!err && same, "one graph counts 600, 1, 0 and 333 tokens: %s", err ? why.text : "as it should");
    tap(host == mem_count() && there == dev_cuda_allocations(), "and allocates nothing");
    dev_cuda_graph_free(gpu, graph);
}

static void refusals(void) {
    count_knobs knobs = {128, 4, 0, 1, 1};
    op_count a = {ids, valid, 1, 1, 0, 20000, counts, 0};
    moe_count *c = kernel_for(&knobs);
    if (!c) return;
    cadre_err err = moe_count_enqueue(c, &a, stream, &why);
    tap(err == CADRE_RANGE, "too many experts for a histogram: %s", why.text);
    a.k = 0;
    tap(moe_count_enqueue(c, &a, stream, &why) == CADRE_RANGE, "no slots: %s", why.text);
    DO(moe_count_empty(c, stream, &why));
    DO(dev_cuda_sync(gpu, stream, &why));
}

int main(int argc, char **argv) {
    tap_start(argc, argv);
    if (!DO(dev_cuda_open(0, &gpu, &why))) return tap_end();
    printf("# %s\n", dev_cuda_about(gpu)->name);
    count_knobs knobs;
    plan_count_knobs(&knobs);
    DO(dev_cuda_stream_new(gpu, &stream, &why));
    DO(dev_cuda_alloc(gpu, (size_t)MATRIX_MOST * MATRIX_K * sizeof(int64_t), &ids, &why));
    DO(dev_cuda_alloc(gpu, sizeof(int32_t), &valid, &why));
    if (DO(dev_cuda_alloc(gpu, 256, &counts, &why))) {
        vectors();
        matrix(&knobs, tap_few ? 1 : MATRIX_SEEDS, "policy");
        if (!tap_few) every_knob();
        replays();
        refusals();
    }
    drop_kernels();
    dev_cuda_free(gpu, ids), dev_cuda_free(gpu, valid), dev_cuda_free(gpu, counts);
    dev_cuda_stream_free(gpu, stream);
    dev_cuda_close(gpu);
    return tap_end();
}
