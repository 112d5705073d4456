/* Sessions: their doors, their memory, receipts, and bits that don't depend on the caller's floating-point mode. */
#include "model/session.h"
#include "test.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#ifdef __x86_64__
#    include <immintrin.h>
#endif

#define BASE "tests/golden/models/qwen3_moe_base"

typedef struct bench {
    cadre_device *device;
    cadre_model *model;
    cadre_session *session;
} bench;

static bench bench_open(int threads, const cadre_session_options *o) {
    bench b = {.device = open_device(threads)};
    must(cadre_model_open(b.device, BASE, NULL, &b.model, fail_out));
    must(cadre_session_new(b.model, o, &b.session, fail_out));
    return b;
}

static void bench_close(bench *b) {
    cadre_session_free(b->session);
    cadre_model_close(b->model);
    cadre_device_close(b->device);
}

static const int32_t prompt[] = {5, 17, 40, 3, 61, 22, 9, 80};

static void bad_steps_move_nothing(void **state) {
    (void)state;
    bench b = bench_open(2, &(cadre_session_options){.slots = 2, .context = 10, .max_rows = 9, .max_logits = 4});
    static const int32_t wild[] = {5, 96}, negative[] = {-1};
    const struct {
        cadre_chunk chunks[2];
        int count;
        const char *text;
    } bad[] = {
        {{{.slot = 2, .n = 1, .ids = prompt}}, 1, "slot is 2"},
        {{{.slot = -1, .n = 1, .ids = prompt}}, 1, "slot is -1"},
        {{{.slot = 0, .n = 0, .ids = prompt}}, 1, "0 tokens"},
        {{{.slot = 0, .n = 1, .ids = NULL}}, 1, "NULL"},
        {{{.slot = 0, .n = 2, .ids = wild}}, 1, "token id 96"},
        {{{.slot = 0, .n = 1, .ids = negative}}, 1, "token id -1"},
        {{{.slot = 0, .n = 2, .ids = prompt}, {.slot = 0, .n = 1, .ids = prompt}}, 2, "twice"},
        {{{.slot = 0, .n = 8, .ids = prompt}, {.slot = 1, .n = 2, .ids = prompt}}, 2, "a step of 10 tokens"},
        {{{.slot = 0, .n = 5, .ids = prompt, .all_logits = true}}, 1, "logits of 5 rows"},
        {{{.slot = 0, .n = 1, .ids = prompt}}, -1, "-1 chunks"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cadre_fail why = {0};
        assert_int_equal(cadre_session_step(b.session, bad[i].chunks, bad[i].count, &why), CADRE_RANGE);
        if (!strstr(why.text, bad[i].text)) fail_msg("'%s' lacks '%s'", why.text, bad[i].text);
        assert_int_equal(cadre_session_length(b.session, 0), 0);
        assert_int_equal(cadre_session_length(b.session, 1), 0);
    }
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 8, .ids = prompt}, 1, fail_out));
    cadre_fail why;
    assert_int_equal(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 3, .ids = prompt}, 1, &why),
                     CADRE_RANGE);
    assert_non_null(strstr(why.text, "context full (8 of 10"));
    assert_int_equal(cadre_session_length(b.session, 0), 8);
    assert_null(cadre_session_logits(b.session, 1));
    assert_null(cadre_session_logits(b.session, -1));
    assert_int_equal(cadre_session_rewind(b.session, 0, 9, NULL), CADRE_RANGE);
    assert_int_equal(cadre_session_step(NULL, NULL, 0, NULL), CADRE_RANGE);
    must(cadre_session_step(b.session, NULL, 0, fail_out));
    bench_close(&b);
}

/* One row reads each dense matrix and k experts once; its twin in another slot adds an embedding row, keys and values.
 */
static void a_step_counts_its_bytes(void **state) {
    (void)state;
    bench b = bench_open(2, &(cadre_session_options){.slots = 2, .context = 10});
    const model_config *c = &b.model->config;
    size_t size = op_dtype_size(b.model->dtype), row = (size_t)c->d * size;
    size_t position = (size_t)c->layers * 2 * (size_t)c->kv_heads * (size_t)c->head_dim * size;
    size_t want = row + b.model->head.bytes + position;
    for (int l = 0; l < c->layers; l++) {
        const model_layer *m = &b.model->layer[l];
        want += m->qkv.bytes + m->o.bytes + m->mlp.router.bytes;
        want += (size_t)m->mlp.desc.k * (m->mlp.experts.up_stride + m->mlp.experts.down_stride);
    }
    assert_int_equal(cadre_session_step_bytes(b.session), 0);
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 1, .ids = prompt}, 1, fail_out));
    assert_int_equal(cadre_session_step_bytes(b.session), want);
    cadre_session_rewind(b.session, 0, 0, NULL);
    const cadre_chunk twins[] = {{.slot = 0, .n = 1, .ids = prompt}, {.slot = 1, .n = 1, .ids = prompt}};
    must(cadre_session_step(b.session, twins, 2, fail_out));
    assert_int_equal(cadre_session_step_bytes(b.session), want + row + position);
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 1, .ids = prompt}, 1, fail_out));
    assert_int_equal(cadre_session_step_bytes(b.session), want + position); /* two positions to read now */
    bench_close(&b);
}

/* Rewinding and going on gives what going on alone gives. */
static void rewind_forgets(void **state) {
    (void)state;
    bench b = bench_open(2, &(cadre_session_options){.slots = 2, .context = 32});
    static const int32_t other[] = {70, 71, 72};
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 5, .ids = prompt}, 1, fail_out));
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 3, .ids = other}, 1, fail_out));
    must(cadre_session_rewind(b.session, 0, 5, fail_out));
    const cadre_chunk both[] = {{.slot = 0, .n = 3, .ids = prompt + 5}, {.slot = 1, .n = 8, .ids = prompt}};
    must(cadre_session_step(b.session, both, 2, fail_out));
    assert_memory_equal(cadre_session_logits(b.session, 0), cadre_session_logits(b.session, 1), 96 * sizeof(float));
    bench_close(&b);
}

static void sizes_are_checked(void **state) {
    (void)state;
    bench b = bench_open(1, &(cadre_session_options){.context = 8});
    cadre_session *s = NULL;
    static const cadre_session_options bad[] = {{.slots = -1},     {.slots = 1 << 20}, {.context = -3},
                                                {.context = 4096}, {.max_rows = -1},   {.max_rows = 1 << 30},
                                                {.max_logits = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(cadre_session_new(b.model, &bad[i], &s, NULL), CADRE_RANGE);
    /* Much more than any machine has: said before anything is taken. */
    cadre_fail why;
    b.model->config.max_context = 1 << 30;
    assert_int_equal(cadre_session_new(b.model, &(cadre_session_options){.slots = 60000, .context = 1 << 30}, &s, &why),
                     CADRE_NOMEM);
    assert_non_null(strstr(why.text, "does not fit: needs"));
    assert_null(s);
    bench_close(&b);
}

static void logits_of(int threads, float *logits) {
    bench b = bench_open(threads, &(cadre_session_options){.context = 32});
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 8, .ids = prompt}, 1, fail_out));
    memcpy(logits, cadre_session_logits(b.session, 0), 96 * sizeof *logits);
    bench_close(&b);
}

static void rounding_mode_of_the_caller_does_not_matter(void **state) {
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    float want[96], got[96];
    logits_of(1, want);
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads <= 3; threads++) {
            assert_int_equal(fesetround(modes[i]), 0);
            logits_of(threads, got);
            assert_int_equal(fegetround(), modes[i]); /* it is the caller's again */
            fesetround(FE_TONEAREST);
            assert_memory_equal(want, got, sizeof want);
        }
}

/* Temperatures down to nothing draw the best token, whatever the caller does with denormals. */
static void tiny_temperatures_are_greedy(void **state) {
    (void)state;
    bench b = bench_open(1, &(cadre_session_options){.context = 32});
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 8, .ids = prompt}, 1, fail_out));
    int32_t greedy, id;
    must(cadre_session_sample(b.session, 0, &(cadre_sampling){0}, 0, 0, &greedy, fail_out));
    static const float temperatures[] = {1e-45f, 1e-40f, FLT_MIN, 1e-30f, 1e-6f};
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++)
            for (int cut = 0; cut < 3; cut++) {
                cadre_sampling o = {temperatures[i], cut == 1 ? 5 : 0, cut == 2 ? 0.9f : 0.0f, i};
#ifdef __x86_64__
                unsigned saved = _mm_getcsr();
                if (mode) _mm_setcsr(saved | 0x8040);
#endif
                cadre_err err = cadre_session_sample(b.session, 0, &o, 0, i, &id, NULL);
#ifdef __x86_64__
                _mm_setcsr(saved);
#endif
                assert_int_equal(err, CADRE_OK);
                assert_int_equal(id, greedy);
            }
    assert_int_equal(cadre_session_sample(b.session, 1, &(cadre_sampling){0}, 0, 0, &id, NULL), CADRE_RANGE);
    assert_int_equal(cadre_session_sample(b.session, 0, &(cadre_sampling){.temperature = NAN}, 0, 0, &id, NULL),
                     CADRE_RANGE);
    assert_int_equal(cadre_session_sample(b.session, 0, &(cadre_sampling){.temperature = -1}, 0, 0, &id, NULL),
                     CADRE_RANGE);
    assert_int_equal(cadre_session_sample(b.session, 0, &(cadre_sampling){.top_p = 2}, 0, 0, &id, NULL), CADRE_RANGE);
    assert_int_equal(cadre_session_sample(b.session, 0, &(cadre_sampling){.top_k = -1}, 0, 0, &id, NULL), CADRE_RANGE);
    bench_close(&b);
}

/* The sampler's shares are the softmax's: chi-square of 20,000 draws over the 96 tokens, and cuts keep what they say.
 */
static void draws_follow_the_softmax(void **state) {
    (void)state;
    enum { DRAWS = 20000, V = 96 };
    bench b = bench_open(1, &(cadre_session_options){.context = 32});
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 8, .ids = prompt}, 1, fail_out));
    const float *logits = cadre_session_logits(b.session, 0);
    double p[V], total = 0.0, chi = 0.0;
    int counts[V] = {0}, seen = 0, cells = 0;
    const cadre_sampling o = {.temperature = 2.0f, .seed = 3};
    for (int i = 0; i < V; i++) total += p[i] = exp(logits[i] / 2.0);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        must(cadre_session_sample(b.session, 0, &o, 7, (uint64_t)i, &id, fail_out));
        counts[id]++;
    }
    for (int i = 0; i < V; i++) {
        double want = DRAWS * p[i] / total;
        if (want < 5.0) continue;
        chi += (counts[i] - want) * (counts[i] - want) / want;
        cells++;
    }
    assert_true(cells > 20);
    assert_true(chi < cells + 4.0 * sqrt(2.0 * cells)); /* four sigmas */
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 500; i++) {
        int32_t id;
        must(cadre_session_sample(b.session, 0, &(cadre_sampling){.temperature = 50.0f, .top_k = 3}, 0, (uint64_t)i,
                                  &id, fail_out));
        seen += counts[id]++ == 0;
    }
    assert_int_equal(seen, 3);
    bench_close(&b);
}

static void receipts_have_one_count(void **state) {
    (void)state;
    bench b = bench_open(2, &(cadre_session_options){.context = 32});
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 8, .ids = prompt}, 1, fail_out));
    cadre_receipt r[64], few[3];
    int all = cadre_model_receipts(b.model, r, 64);
    assert_true(all >= 7 && all < 64);
    assert_int_equal(cadre_model_receipts(b.model, few, 3), all);
    assert_int_equal(cadre_model_receipts(b.model, NULL, 0), all);
    uint64_t experts = 0;
    for (int i = 0; i < all; i++)
        if (!strcmp(r[i].op, "experts")) experts += r[i].runs;
    assert_int_equal(experts, 2); /* one per layer */
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_steps_move_nothing),
                                       cmocka_unit_test(a_step_counts_its_bytes),
                                       cmocka_unit_test(rewind_forgets),
                                       cmocka_unit_test(sizes_are_checked),
                                       cmocka_unit_test(rounding_mode_of_the_caller_does_not_matter),
                                       cmocka_unit_test(tiny_temperatures_are_greedy),
                                       cmocka_unit_test(draws_follow_the_softmax),
                                       cmocka_unit_test(receipts_have_one_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
