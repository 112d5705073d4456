/* count.c: counting on a GPU, with the stand-in: how large its launches are, what is compiled, any call that fails. */
#include "moe/count.h"
#include "dev/fake/stand_in.h"

enum { TOKENS = 3, K = 2, LOCAL = 2 };
static dev_cuda *gpu;
static moe_count *counter;
static void *stream, *ids, *valid, *counts;

static cadre_err open_all(const count_knobs *knobs) {
    static const int64_t some[] = {0, 1, 1, 2, 3, 1};
    static const int32_t three = 3;
    gpu = NULL, counter = NULL, stream = ids = valid = counts = NULL;
    cadre_err err = dev_cuda_open(0, &gpu, &why);
    if (!err) err = dev_cuda_stream_new(gpu, &stream, &why);
    if (!err) err = dev_cuda_alloc(gpu, sizeof some, &ids, &why);
    if (!err) err = dev_cuda_alloc(gpu, sizeof three, &valid, &why);
    if (!err) err = dev_cuda_alloc(gpu, LOCAL * sizeof(int32_t), &counts, &why);
    if (!err) err = dev_cuda_put(gpu, ids, some, sizeof some, &why);
    if (!err) err = dev_cuda_put(gpu, valid, &three, sizeof three, &why);
    return err ? err : moe_count_new(gpu, knobs, &counter, &why);
}

static cadre_err count(int32_t got[LOCAL]) {
    op_count a = {ids, valid, TOKENS, K, 1, LOCAL, counts, 0};
    cadre_err err = dev_cuda_fill_async(gpu, counts, 0, LOCAL * sizeof *got, stream, &why);
    if (!err) err = moe_count_enqueue(counter, &a, stream, &why);
    if (!err) err = dev_cuda_sync(gpu, stream, &why);
    return err ? err : dev_cuda_get(gpu, got, counts, LOCAL * sizeof *got, &why);
}

static void close_all(void) {
    if (!gpu) return;
    moe_count_free(counter);
    dev_cuda_free(gpu, ids), dev_cuda_free(gpu, valid), dev_cuda_free(gpu, counts);
    if (stream) dev_cuda_stream_free(gpu, stream);
    dev_cuda_close(gpu);
}

static void launches(void **state) {
    (void)state;
    static const struct {
        count_knobs knobs;
        unsigned grid, block, dynamic;
        const char *options;
    } cases[] = {
        {{128, 4, 0, 1, 0}, 4, 128, 0, "-DBLOCK=128 -DWARPS=4 -DATOMICS=1 -DPRIVATE=0"},
        {{1024, 32, 7, 2, 1}, 7, 1024, 8, "-DBLOCK=1024 -DWARPS=32 -DATOMICS=2 -DPRIVATE=1"},
        {{64, 1, 65535, 0, 0}, 65535, 32, 0, "-DBLOCK=64 -DWARPS=1 -DATOMICS=0 -DPRIVATE=0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t got[LOCAL];
        if (open_all(&cases[i].knobs) || count(got)) fail_msg("%s", why.text);
        assert_int_equal(got[0], 3);
        assert_int_equal(got[1], 1);
        assert_string_equal(f->kernel, "count");
        assert_int_equal(f->grid[0], cases[i].grid);
        assert_int_equal(f->block[0], cases[i].block);
        assert_int_equal(f->dynamic, cases[i].dynamic);
        assert_int_equal(moe_count_ctas(counter), cases[i].grid);
        assert_non_null(strstr(f->options, cases[i].options));
        uint64_t alive = f->launches;
        assert_int_equal(moe_count_empty(counter, stream, &why), CADRE_OK);
        assert_string_equal(f->kernel, "empty");
        assert_int_equal(f->launches, alive + 1);
        assert_int_equal(f->grid[0], cases[i].grid);
        assert_int_equal(f->block[0], cases[i].block);
        close_all();
        nothing_left("a count");
    }
}

static void sizes(void **state) {
    (void)state;
    count_knobs knobs = {128, 4, 0, 1, 1};
    assert_int_equal(open_all(&knobs), CADRE_OK);
    op_count a = {ids, valid, TOKENS, K, 1, 12289, counts, 0};
    assert_int_equal(moe_count_enqueue(counter, &a, stream, &why), CADRE_RANGE);
    assert_string_equal(why.text, "counting: 12289 local experts, a histogram (count.private) has room for 12288");
    a.local = -1;
    assert_int_equal(moe_count_enqueue(counter, &a, stream, &why), CADRE_RANGE);
    assert_string_equal(why.text, "counting: capacity 3, k 2, -1 local experts: expected >= 0, >= 1, >= 0");
    close_all();
}

static void any_call_fails(void **state) {
    (void)state;
    count_knobs knobs = {128, 4, 0, 1, 0};
    int32_t got[LOCAL];
    int failed = 0;
    for (int64_t at = 0;; at++) {
        reset();
        trip(NULL, at, 999, false);
        cadre_err err = open_all(&knobs);
        if (!err) err = count(got);
        const char *call = f->last;
        close_all();
        nothing_left(call ? call : "no call");
        if (!call) break;
        failed += err != CADRE_OK;
    }
    assert_true(failed > 20);
}

int main(void) {
    load();
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(launches, each), cmocka_unit_test_setup(sizes, each),
                                       cmocka_unit_test_setup(any_call_fails, each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
