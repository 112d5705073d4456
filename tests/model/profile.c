/* The profile of a session: every op that runs has a row, no bit changes, nothing is allocated, a slow op moves its own
 * row and no other. The clock is this file's: each look at it is TICK nanoseconds after the one before. */
#include "model/session.h"
#include "test.h"

#include <math.h>

#define assert_close(a, b, most) assert_true(fabs((a) - (b)) <= (most))

enum { TICK = 10, SLOW = 1000000, ROWS = 64, RECEIPTS = 256 };

static _Atomic uint64_t now;
uint64_t clock_ns(void) {
    return atomic_fetch_add(&now, TICK) + TICK;
}
void clock_date(char text[24]) {
    strcpy(text, "2001-02-03T04:05:06Z");
}

static const char *const models[] = {"qwen3_moe_base", "qwen2_moe_base", "qwen3_moe_dense_bias",
                                     "qwen3_moe_sparse2_tied", "qwen3_moe_bf16"};
enum { MODELS = sizeof models / sizeof *models };

typedef struct bench {
    cadre_device *device;
    cadre_model *model;
    cadre_session *session;
    cadre_profile *profile;
} bench;

static bench bench_open(const char *name, int threads) {
    char path[128];
    bench b = {.device = open_device(threads)};
    snprintf(path, sizeof path, "tests/golden/models/%s", name);
    must(cadre_model_open(b.device, path, NULL, &b.model, fail_out));
    must(cadre_session_new(b.model, &(cadre_session_options){.slots = 2, .context = 32}, &b.session, fail_out));
    must(cadre_profile_new(b.device, &b.profile, fail_out));
    return b;
}

static void bench_close(bench *b) {
    cadre_session_free(b->session);
    cadre_profile_free(b->profile);
    cadre_model_close(b->model);
    cadre_device_close(b->device);
}

static const int32_t prompt[] = {5, 17, 40, 3, 61, 22, 9, 80};

/* A piece of a prompt beside a row that decodes, and a draw. */
static void one_step(bench *b) {
    const cadre_chunk chunks[] = {{.slot = 0, .n = 5, .ids = prompt}, {.slot = 1, .n = 1, .ids = prompt + 5}};
    int32_t id;
    cadre_session_rewind(b->session, 0, 0, NULL);
    cadre_session_rewind(b->session, 1, 0, NULL);
    must(cadre_session_step(b->session, chunks, 2, fail_out));
    must(cadre_session_sample(b->session, 0, &(cadre_sampling){.temperature = 1, .seed = 3}, 0, 5, &id, fail_out));
}

static int watched_rows(bench *b, cadre_profile_row *rows) {
    cadre_profile_clear(b->profile);
    cadre_session_profile(b->session, b->profile);
    one_step(b);
    cadre_session_profile(b->session, NULL);
    int n = cadre_profile_rows(b->profile, rows, ROWS);
    assert_in_range(n, 10, ROWS);
    return n;
}

static void same_bits_no_allocation(void **state) {
    (void)state;
    for (int i = 0; i < 2 * MODELS; i++) {
        bench b = bench_open(models[i / 2], 1 + i % 2);
        cadre_profile_row rows[ROWS];
        size_t bytes = (size_t)b.model->config.vocab * sizeof(float);
        float *logits = malloc(2 * bytes);
        one_step(&b);
        memcpy(logits, cadre_session_logits(b.session, 0), 2 * bytes);
        uint64_t before = cadre_allocations();
        watched_rows(&b, rows);
        assert_int_equal(cadre_allocations(), before);
        assert_memory_equal(cadre_session_logits(b.session, 0), logits, 2 * bytes);
        free(logits);
        bench_close(&b);
    }
}

/* ---- every op ---- */

static bool of_receipt(const char *op, const char *receipt) {
    size_t len = strlen(receipt);
    if (!strcmp(receipt, "norm") && strstr(op, " norm+")) return true;
    return !strncmp(op, receipt, len) && (!op[len] || op[len] == ' ');
}

/* Runs of an op and kernel over its receipts. */
static uint64_t runs_of(const cadre_receipt *r, int n, const char *op, const char *kernel) {
    uint64_t runs = 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(r[i].op, op) && !strcmp(r[i].kernel, kernel)) runs += r[i].runs;
    return runs;
}

static void all_ops(void **state) {
    (void)state;
    static cadre_receipt r[RECEIPTS];
    for (int k = 0; k < MODELS; k++) {
        bench b = bench_open(models[k], 1);
        cadre_profile_row rows[ROWS];
        int n = watched_rows(&b, rows), receipts = cadre_model_receipts(b.model, r, RECEIPTS);
        assert_true(receipts <= RECEIPTS);
        bool told[ROWS] = {false};
        for (int i = 0; i < receipts; i++) {
            uint64_t runs = runs_of(r, receipts, r[i].op, r[i].kernel), sum = 0;
            for (int j = 0; j < n; j++) {
                if (strcmp(rows[j].kernel, r[i].kernel) || !of_receipt(rows[j].op, r[i].op)) continue;
                told[j] = true;
                sum += rows[j].launches;
                if (strcmp(r[i].op, "norm")) assert_int_equal(rows[j].launches, runs);
            }
            if (!strcmp(r[i].op, "norm"))
                assert_int_equal(sum, runs);
            else if ((sum > 0) != (runs > 0))
                fail_msg("%s: %s ran %d times, its rows %d", models[k], r[i].op, (int)runs, (int)sum);
        }
        for (int j = 0; j < n; j++)
            if (told[j] != (strcmp(rows[j].kernel, "plain") != 0))
                fail_msg("%s: %s (%s) and the receipts differ", models[k], rows[j].op, rows[j].kernel);
        bench_close(&b);
    }
}

/* Between the start and the last barrier every op looks at the clock twice, and nothing else does: the rows are the
 * whole step. The draw is a stretch of its own. Bytes are those of the step. */
static void rows_are_the_step(void **state) {
    (void)state;
    for (int k = 0; k < MODELS; k++) {
        bench b = bench_open(models[k], 1);
        cadre_profile_row rows[ROWS];
        uint64_t before = now;
        int n = watched_rows(&b, rows);
        double us = 0, bytes = 0, whole = (double)(now - before) / 1e3;
        uint64_t launches = 0;
        for (int j = 0; j < n; j++) {
            us += rows[j].us, bytes += rows[j].bytes, launches += rows[j].launches;
            assert_close(rows[j].us, (double)rows[j].launches * (j == n - 1 ? 1 : 2) * TICK / 1e3, 1e-9);
            assert_close(rows[j].wait_us, (double)rows[j].launches * (j == n - 1 ? 0 : 1) * TICK / 1e3, 1e-9);
        }
        assert_string_equal(rows[0].op, "embed");
        assert_string_equal(rows[n - 1].op, "sample");
        /* Looks: one at the start, two per op, two around the draw. */
        assert_close(whole, (double)(1 + 2 * launches) * TICK / 1e3, 1e-9);
        assert_close(us, whole - 2 * TICK / 1e3, 1e-9);
        assert_close(bytes, (double)cadre_session_step_bytes(b.session), 0.5);
        bench_close(&b);
    }
}

/* ---- a slow op ---- */

static op_kernel slow, real;
static void slow_dense(const op_dense *a, const dense_knobs *k, int lo, int hi) {
    now += SLOW;
    real.run.dense(a, k, lo, hi);
}
static void slow_up(const op_experts *a, const experts_knobs *k, int expert, int lo, int hi) {
    now += SLOW;
    real.run.experts.up(a, k, expert, lo, hi);
}
static void slow_down(const op_experts *a, const experts_knobs *k, int lo, int hi) {
    now += SLOW;
    real.run.experts.down(a, k, lo, hi);
}
static void slow_attn(const op_attn *a, const attn_knobs *k, int lo, int hi) {
    now += SLOW;
    real.run.attn(a, k, lo, hi);
}

/* Only the last layer's: the others share the row. */
static const op_kernel **plant(bench *b, const char *op) {
    model_layer *layer = &b->model->layer[b->model->config.layers - 1];
    plan *p = !strcmp(op, "qkv")         ? &layer->qkv.plan
              : !strcmp(op, "router")    ? &layer->mlp.router.plan
              : !strcmp(op, "attention") ? &b->model->attn_plan
              : !strcmp(op, "head")      ? &b->model->head.plan
                                         : &layer->mlp.experts.plan;
    real = slow = *p->kernel;
    if (p->key.family == OP_DENSE) slow.run.dense = slow_dense;
    if (p->key.family == OP_ATTN) slow.run.attn = slow_attn;
    if (!strcmp(op, "experts gate+up+act")) slow.run.experts.up = slow_up;
    if (!strcmp(op, "experts down+combine")) slow.run.experts.down = slow_down;
    p->kernel = &slow;
    return &p->kernel;
}

static void a_slow_op(void **state) {
    (void)state;
    static const char *const ops[] = {
        "qkv", "router", "attention", "head", "experts gate+up+act", "experts down+combine"};
    bench b = bench_open("qwen3_moe_base", 1);
    cadre_profile_row before[ROWS], after[ROWS];
    int n = watched_rows(&b, before);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const op_kernel **at = plant(&b, ops[i]), *was = op_kernel_named(real.name);
        int found = 0;
        assert_int_equal(watched_rows(&b, after), n);
        *at = was;
        for (int j = 0; j < n; j++) {
            assert_string_equal(after[j].op, before[j].op);
            bool own = !strcmp(after[j].op, ops[i]);
            double more = after[j].us - before[j].us;
            if (own ? more < SLOW / 1e3 : more != 0) fail_msg("%s: %s moved by %g us", ops[i], after[j].op, more);
            found += own;
        }
        assert_int_equal(found, 1);
    }
    bench_close(&b);
}

/* A longer context is read by attention alone. */
static void a_longer_context(void **state) {
    (void)state;
    bench b = bench_open("qwen3_moe_base", 1);
    cadre_profile_row first[ROWS], later[ROWS];
    must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 1, .ids = prompt}, 1, fail_out));
    for (int k = 0; k < 2; k++) {
        if (k) must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 7, .ids = prompt}, 1, fail_out));
        cadre_profile_clear(b.profile);
        cadre_session_profile(b.session, b.profile);
        must(cadre_session_step(b.session, &(cadre_chunk){.slot = 0, .n = 1, .ids = prompt}, 1, fail_out));
        cadre_session_profile(b.session, NULL);
        cadre_profile_rows(b.profile, k ? later : first, ROWS);
    }
    for (int j = 0; first[j].op[0] && strcmp(first[j].op, "head rows"); j++) {
        bool own = !strcmp(first[j].op, "attention");
        assert_close(later[j].bytes, own ? first[j].bytes * 10 / 2 : first[j].bytes, 0.5);
    }
    bench_close(&b);
}

static void doors(void **state) {
    (void)state;
    cadre_profile *p = NULL;
    cadre_device *device = open_device(1);
    assert_int_equal(cadre_profile_new(NULL, &p, NULL), CADRE_RANGE);
    assert_int_equal(cadre_profile_new(device, NULL, NULL), CADRE_RANGE);
    assert_int_equal(cadre_profile_collect(NULL, NULL), CADRE_RANGE);
    must(cadre_profile_new(device, &p, fail_out));
    must(cadre_profile_collect(p, fail_out));
    assert_int_equal(cadre_profile_rows(p, NULL, 0), 0);
    cadre_profile_free(p);
    cadre_profile_free(NULL);
    cadre_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_no_allocation), cmocka_unit_test(all_ops),
                                       cmocka_unit_test(rows_are_the_step),       cmocka_unit_test(a_slow_op),
                                       cmocka_unit_test(a_longer_context),        cmocka_unit_test(doors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
