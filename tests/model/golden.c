/* Whole models against transformers: logits, greedy ids, and proof that a wrong rule would be seen. */
#include "model/model.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

#define MODELS "tests/golden/models/"

typedef struct expectation {
    tensors *t;
    int n, vocab;
    int32_t ids[128], greedy[8], one;
    const float *logits, *greedy_logits, *one_logits;
} expectation;

static const void *data(const expectation *e, const char *name, const char *suffix) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    const tensor_entry *t = tensors_find(e->t, full);
    if (!t) t = tensors_find(e->t, name);
    assert_non_null(t);
    return t->data;
}

static void expect_open(expectation *e, const char *name, const char *suffix) {
    char path[256];
    snprintf(path, sizeof path, MODELS "%s/expect.safetensors", name);
    must(tensors_open_file(path, &e->t, fail_out));
    const tensor_entry *in = tensors_find(e->t, "input_ids"), *logits = tensors_find(e->t, "logits");
    e->n = (int)in->shape[0], e->vocab = (int)logits->shape[1];
    const int64_t *ids = data(e, "input_ids", ""), *greedy = data(e, "greedy_ids", suffix);
    for (int i = 0; i < e->n; i++) e->ids[i] = (int32_t)ids[i];
    for (int i = 0; i < 8; i++) e->greedy[i] = (int32_t)greedy[i];
    e->one = (int32_t) * (const int64_t *)data(e, "one.input_ids", "");
    e->logits = data(e, "logits", suffix);
    e->greedy_logits = data(e, "greedy_logits", suffix);
    e->one_logits = data(e, "one.logits", suffix);
}

static double largest(const float *v, size_t n) {
    double m = 0.0;
    for (size_t i = 0; i < n; i++) m = fmax(m, fabs((double)v[i]));
    return m;
}

/* Largest difference over the largest value. */
static double distance(const float *got, const float *want, size_t n) {
    double m = 0.0;
    for (size_t i = 0; i < n; i++) m = isfinite(got[i]) ? fmax(m, fabs((double)got[i] - (double)want[i])) : INFINITY;
    return m / largest(want, n);
}

/* Runs prompt, greedy steps and the one-token prompt. Returns the worst distance; *same: greedy ids equal. */
static double run(const char *dir, const expectation *e, bool *same) {
    cadre_device *device = open_device(2);
    cadre_model *model;
    cadre_session *s;
    must(cadre_model_open(device, dir, NULL, &model, fail_out));
    must(cadre_session_new(model, &(cadre_session_options){.slots = 2, .context = 128, .max_logits = 128}, &s,
                           fail_out));
    size_t vocab = (size_t)e->vocab;
    must(cadre_session_step(s, &(cadre_chunk){.slot = 0, .n = e->n, .ids = e->ids, .all_logits = true}, 1, fail_out));
    double worst = distance(cadre_session_logits(s, 0), e->logits, (size_t)e->n * vocab);
    int row = e->n - 1;
    *same = true;
    for (int i = 0; i < 8; i++, row = 0) {
        worst = fmax(worst, distance(cadre_session_logits(s, row), e->greedy_logits + (size_t)i * vocab, vocab));
        int32_t id;
        must(cadre_session_sample(s, row, &(cadre_sampling){0}, 0, 0, &id, fail_out));
        *same = *same && id == e->greedy[i];
        must(cadre_session_step(s, &(cadre_chunk){.slot = 0, .n = 1, .ids = &e->greedy[i]}, 1, fail_out));
    }
    must(cadre_session_step(s, &(cadre_chunk){.slot = 1, .n = 1, .ids = &e->one}, 1, fail_out));
    worst = fmax(worst, distance(cadre_session_logits(s, 0), e->one_logits, vocab));
    cadre_session_free(s);
    cadre_model_close(model);
    cadre_device_close(device);
    return worst;
}

static const struct {
    const char *name, *suffix;
    double tolerance;
} cases[] = {
    {"qwen3_moe_base", "", 1e-4},       {"qwen3_moe_bf16", "_fp32", 0.05},  {"qwen3_moe_bf16", "", 0.05},
    {"qwen3_moe_f16", "_fp32", 1e-4},   {"qwen3_moe_stacked", "", 1e-4},    {"qwen3_moe_sharded", "", 1e-4},
    {"qwen3_moe_norm_false", "", 1e-4}, {"qwen3_moe_dense_bias", "", 1e-4}, {"qwen3_moe_sparse2_tied", "", 1e-4},
    {"qwen3_moe_yarn", "", 1e-4},       {"qwen3_moe_ties", "", 1e-4},       {"qwen2_moe_base", "", 1e-4}};

static void every_model_agrees(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expectation e;
        char dir[256];
        bool same;
        expect_open(&e, cases[i].name, cases[i].suffix);
        snprintf(dir, sizeof dir, MODELS "%s", cases[i].name);
        double worst = run(dir, &e, &same);
        print_message("%s%s: logits within %.2g, greedy ids %s\n", cases[i].name, cases[i].suffix, worst,
                      same ? "equal" : "differ");
        assert_true(worst < cases[i].tolerance);
        assert_true(same);
        tensors_close(e.t);
    }
}

/* The same weights under the config that transformers 4 wrote. */
static void old_spelling_agrees(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char dir[] = "/tmp/cadre-golden-XXXXXX", from[512], to[512], here[256];
        static const char *const links[][2] = {
            {"config.v4.json", "config.json"},
            {"generation_config.json", "generation_config.json"},
            {"model.safetensors", "model.safetensors"},
            {"model.safetensors.index.json", "model.safetensors.index.json"},
            {"model-00001-of-00003.safetensors", "model-00001-of-00003.safetensors"},
            {"model-00002-of-00003.safetensors", "model-00002-of-00003.safetensors"},
            {"model-00003-of-00003.safetensors", "model-00003-of-00003.safetensors"}};
        enum { LINKS = sizeof links / sizeof *links };
        assert_non_null(mkdtemp(dir));
        assert_non_null(getcwd(here, sizeof here));
        for (int l = 0; l < LINKS; l++) {
            snprintf(from, sizeof from, "%s/" MODELS "%s/%s", here, cases[i].name, links[l][0]);
            snprintf(to, sizeof to, "%s/%s", dir, links[l][1]);
            if (access(from, R_OK) == 0) assert_int_equal(symlink(from, to), 0);
        }
        expectation e;
        bool same;
        expect_open(&e, cases[i].name, cases[i].suffix);
        assert_true(run(dir, &e, &same) < cases[i].tolerance && same);
        tensors_close(e.t);
        for (int l = 0; l < LINKS; l++) {
            snprintf(to, sizeof to, "%s/%s", dir, links[l][1]);
            unlink(to);
        }
        rmdir(dir);
    }
}

/* Each fault is planted alone; a golden test that would not see it is worth nothing. */
static void wrong_rules_are_caught(void **state) {
    (void)state;
    static const struct {
        const char *plant, *model;
    } faults[] = {{"plant=6", "qwen3_moe_base"}, {"plant=7", "qwen3_moe_base"},       {"plant=8", "qwen3_moe_base"},
                  {"plant=9", "qwen3_moe_ties"}, {"plant=8", "qwen3_moe_norm_false"}, {"plant=7", "qwen3_moe_yarn"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        expectation e;
        char dir[256];
        bool same;
        expect_open(&e, faults[i].model, "");
        snprintf(dir, sizeof dir, MODELS "%s", faults[i].model);
        set_switch(faults[i].plant);
        double worst = run(dir, &e, &same);
        set_switch("plant=0");
        print_message("%s on %s: logits off by %.2g\n", faults[i].plant, faults[i].model, worst);
        assert_true(worst > 1e-3);
        tensors_close(e.t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_agrees), cmocka_unit_test(old_spelling_agrees),
                                       cmocka_unit_test(wrong_rules_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
