/* The public MoE layer: its doors, its memory, and many callers at once. */
#include "base/base.h"
#include "test.h"

#include <math.h>
#include <pthread.h>

enum { D = 40, F = 24, E = 8, K = 3, N = 16 };

typedef struct random_layer {
    float router[E * D], gate[E * F * D], up[E * F * D], down[E * D * F], x[N * D];
    cadre_tensor g[E], u[E], d[E];
    cadre_moe_weights w;
    cadre_moe_desc desc;
} random_layer;

static void fill(rand_stream *r, float *v, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) v[i] = rand_normal(r) * scale;
}

static random_layer *layer_new(void) {
    random_layer *l = calloc(1, sizeof *l);
    rand_stream r = {.key = 5};
    fill(&r, l->router, E * D, 0.3f);
    fill(&r, l->gate, E * F * D, 0.2f);
    fill(&r, l->up, E * F * D, 0.2f);
    fill(&r, l->down, E * D * F, 0.2f);
    fill(&r, l->x, N * D, 1.0f);
    for (int i = 0; i < E; i++) {
        l->g[i] = (cadre_tensor){l->gate + i * F * D, CADRE_F32};
        l->u[i] = (cadre_tensor){l->up + i * F * D, CADRE_F32};
        l->d[i] = (cadre_tensor){l->down + i * D * F, CADRE_F32};
    }
    l->w = (cadre_moe_weights){.router = {l->router, CADRE_F32}, .gate = l->g, .up = l->u, .down = l->d};
    l->desc =
        (cadre_moe_desc){.d = D, .f = F, .e = E, .k = K, .max_tokens = N, .dtype = CADRE_BF16, .renormalize = true};
    return l;
}

static void bad_descriptions_are_refused(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(1);
    cadre_moe *moe = NULL;
    cadre_fail why;
    const cadre_moe_desc good = l->desc;
#define refuse(member, value, code)                                             \
    do {                                                                        \
        cadre_moe_desc bad = good;                                              \
        bad.member = value;                                                     \
        assert_int_equal(cadre_moe_new(device, &bad, &l->w, &moe, &why), code); \
        assert_true(why.text[0] && !strchr(why.text, '\n'));                    \
        assert_null(moe);                                                       \
    } while (0)
    refuse(d, 0, CADRE_RANGE);
    refuse(d, 1 << 30, CADRE_RANGE);
    refuse(f, -1, CADRE_RANGE);
    refuse(e, 0, CADRE_RANGE);
    refuse(k, 0, CADRE_RANGE);
    refuse(k, E + 1, CADRE_RANGE);
    refuse(max_tokens, 0, CADRE_RANGE);
    refuse(max_tokens, INT32_MAX, CADRE_RANGE);
    refuse(dtype, CADRE_F16, CADRE_UNSUPPORTED);
    refuse(act, (cadre_act)7, CADRE_RANGE);
    refuse(act, CADRE_SWIGLU_CLAMP, CADRE_RANGE); /* no limit */
    refuse(act, CADRE_RELU2, CADRE_RANGE);        /* gates given: field report N10 */
    refuse(gate, (cadre_gate)9, CADRE_RANGE);
    refuse(scale, NAN, CADRE_RANGE);
    refuse(groups, 3, CADRE_RANGE);
    refuse(groups, 4, CADRE_RANGE); /* no topk_groups */
    refuse(shared_f, 8, CADRE_RANGE);
#undef refuse
    cadre_moe_weights none = l->w;
    none.router.data = NULL;
    assert_int_equal(cadre_moe_new(device, &good, &none, &moe, &why), CADRE_RANGE);
    l->u[5].data = NULL;
    assert_int_equal(cadre_moe_new(device, &good, &l->w, &moe, &why), CADRE_RANGE);
    assert_non_null(strstr(why.text, "expert 5"));
    cadre_device_close(device);
    free(l);
}

/* Sources are f32, bf16 or f16: a quantized type is one of packing only. */
static void bad_sources_are_refused(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(1);
    cadre_moe *moe = NULL;
    cadre_tensor *const each[] = {&l->w.router, &l->g[3], &l->u[0], &l->d[E - 1]};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        each[i]->dtype = i % 2 ? CADRE_Q8 : (cadre_dtype)77;
        assert_int_equal(cadre_moe_new(device, &l->desc, &l->w, &moe, NULL), CADRE_UNSUPPORTED);
        each[i]->dtype = CADRE_F32;
    }
    l->w.bias = (cadre_tensor){l->x, CADRE_Q4};
    assert_int_equal(cadre_moe_new(device, &l->desc, &l->w, &moe, NULL), CADRE_UNSUPPORTED);
    cadre_device_close(device);
    free(l);
}

/* A workspace belongs to its layer; NULLs are said, not followed. */
static void wrong_arguments_are_refused(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(1);
    cadre_moe *big, *small;
    cadre_moe_workspace *ws;
    must(cadre_moe_new(device, &l->desc, &l->w, &big, fail_out));
    l->desc.max_tokens = 1;
    must(cadre_moe_new(device, &l->desc, &l->w, &small, fail_out));
    must(cadre_moe_workspace_new(small, &ws, fail_out));
    float out[N * D], weights[N * K];
    int32_t ids[N * K];
    assert_int_equal(cadre_moe_run(big, ws, N, l->x, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_run(small, NULL, 1, l->x, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_run(NULL, ws, 1, l->x, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_run(small, ws, 1, NULL, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_run(small, ws, 1, l->x, NULL, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_route(small, ws, 1, l->x, NULL, weights, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_route(small, ws, 1, l->x, ids, NULL, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_experts(small, ws, 1, l->x, NULL, weights, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_workspace_new(NULL, &ws, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_new(NULL, &l->desc, &l->w, &big, NULL), CADRE_RANGE);
    cadre_moe_workspace_free(ws);
    cadre_moe_free(small);
    cadre_moe_free(big);
    cadre_device_close(device);
    free(l);
}

/* Settings of another plan may need more scratch than a workspace has. */
static void workspace_of_another_plan(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(1);
    cadre_moe *one, *other, *same;
    cadre_moe_workspace *ws;
    float out[N * D];
    must(cadre_set("experts.columns=1", fail_out));
    must(cadre_moe_new(device, &l->desc, &l->w, &one, fail_out));
    must(cadre_moe_new(device, &l->desc, &l->w, &same, fail_out));
    must(cadre_set("experts.columns=8", fail_out));
    must(cadre_moe_new(device, &l->desc, &l->w, &other, fail_out));
    must(cadre_set("experts.columns=0", fail_out));
    must(cadre_moe_workspace_new(one, &ws, fail_out));
    must(cadre_moe_run(same, ws, N, l->x, out, fail_out));
    assert_int_equal(cadre_moe_run(other, ws, N, l->x, out, NULL), CADRE_RANGE);
    cadre_moe_workspace_free(ws);
    cadre_moe_free(other);
    cadre_moe_free(same);
    cadre_moe_free(one);
    cadre_device_close(device);
    free(l);
}

static void bad_runs_are_refused(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(2);
    cadre_moe *moe;
    cadre_moe_workspace *ws;
    must(cadre_moe_new(device, &l->desc, &l->w, &moe, fail_out));
    must(cadre_moe_workspace_new(moe, &ws, fail_out));
    float out[N * D];
    int32_t ids[K] = {0, 1, 2};
    float weights[K] = {0.5f, 0.25f, 0.25f};
    assert_int_equal(cadre_moe_run(moe, ws, -1, l->x, out, NULL), CADRE_RANGE);
    assert_int_equal(cadre_moe_run(moe, ws, N + 1, l->x, out, NULL), CADRE_RANGE);
    must(cadre_moe_run(moe, ws, 0, NULL, NULL, fail_out));
    ids[1] = E; /* field report P08: checked in release builds */
    assert_int_equal(cadre_moe_experts(moe, ws, 1, l->x, ids, weights, out, NULL), CADRE_RANGE);
    ids[1] = -2;
    assert_int_equal(cadre_moe_experts(moe, ws, 1, l->x, ids, weights, out, NULL), CADRE_RANGE);
    printf("field P08 ok\n");
    cadre_moe_workspace_free(ws);
    cadre_moe_free(moe);
    cadre_device_close(device);
    free(l);
}

/* Empty slots add nothing: slots {a, -1, b} equal {a, b} of a layer with fewer slots, bit for bit. */
static void empty_slots_add_nothing(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(2);
    cadre_moe *three, *two;
    cadre_moe_workspace *ws3, *ws2;
    must(cadre_moe_new(device, &l->desc, &l->w, &three, fail_out));
    l->desc.k = 2;
    must(cadre_moe_new(device, &l->desc, &l->w, &two, fail_out));
    must(cadre_moe_workspace_new(three, &ws3, fail_out));
    must(cadre_moe_workspace_new(two, &ws2, fail_out));
    float a[2 * D], b[2 * D];
    must(cadre_moe_experts(three, ws3, 2, l->x, (int32_t[]){6, -1, 2, -1, -1, -1}, (float[]){0.7f, 9, 0.3f, 9, 9, 9}, a,
                           fail_out));
    must(cadre_moe_experts(two, ws2, 2, l->x, (int32_t[]){6, 2, -1, -1}, (float[]){0.7f, 0.3f, 9, 9}, b, fail_out));
    assert_memory_equal(a, b, sizeof a);
    for (int i = D; i < 2 * D; i++) assert_true(a[i] == 0.0f);
    cadre_moe_workspace_free(ws2);
    cadre_moe_workspace_free(ws3);
    cadre_moe_free(two);
    cadre_moe_free(three);
    cadre_device_close(device);
    free(l);
}

typedef struct caller {
    pthread_t thread;
    cadre_moe *moe;
    const float *x, *want;
    int wrong;
} caller;

static void *call_often(void *arg) {
    caller *c = arg;
    cadre_moe_workspace *ws;
    float out[N * D];
    if (cadre_moe_workspace_new(c->moe, &ws, NULL)) c->wrong++;
    for (int i = 0; i < 200; i++) {
        int n = 1 + i % N;
        memset(out, 0xFF, sizeof out);
        if (cadre_moe_run(c->moe, ws, n, c->x, out, NULL) || memcmp(out, c->want, (size_t)(n * D) * sizeof *out))
            c->wrong++;
    }
    cadre_moe_workspace_free(ws);
    return NULL;
}

/* Four threads share one layer and one team, each with its own workspace: the same bits every time. */
static void many_callers_at_once(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(2);
    cadre_moe *moe;
    cadre_moe_workspace *ws;
    float want[N * D];
    must(cadre_moe_new(device, &l->desc, &l->w, &moe, fail_out));
    must(cadre_moe_workspace_new(moe, &ws, fail_out));
    must(cadre_moe_run(moe, ws, N, l->x, want, fail_out));
    caller c[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (caller){.moe = moe, .x = l->x, .want = want};
        assert_int_equal(pthread_create(&c[i].thread, NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    cadre_moe_workspace_free(ws);
    cadre_moe_free(moe);
    cadre_device_close(device);
    free(l);
}

/* The n-th allocation fails, for every n: an error each time, nothing leaks (the sanitized build looks). */
static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(2);
    int n = 0;
    for (bool done = false; !done; n++) {
        cadre_moe *moe = NULL;
        cadre_moe_workspace *ws = NULL;
        cadre_fail why;
        mem_fail_after(n);
        cadre_err err = cadre_moe_new(device, &l->desc, &l->w, &moe, &why);
        if (!err) err = cadre_moe_workspace_new(moe, &ws, &why);
        mem_fail_after(-1);
        assert_true(err == CADRE_OK || err == CADRE_NOMEM);
        done = err == CADRE_OK;
        cadre_moe_workspace_free(ws);
        cadre_moe_free(moe);
    }
    assert_true(n > 4);
    cadre_device_close(device);
    free(l);
}

static void explains_itself(void **state) {
    (void)state;
    random_layer *l = layer_new();
    cadre_device *device = open_device(1);
    cadre_moe *moe;
    must(cadre_moe_new(device, &l->desc, &l->w, &moe, fail_out));
    char text[1024], tiny[8];
    cadre_moe_explain(moe, 1, text, sizeof text);
    assert_non_null(strstr(text, "router"));
    assert_non_null(strstr(text, "experts"));
    assert_non_null(strstr(text, "policy"));
    cadre_moe_explain(moe, 1, tiny, sizeof tiny);
    assert_int_equal(strlen(tiny), sizeof tiny - 1);
    cadre_moe_free(moe);
    cadre_device_close(device);
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_descriptions_are_refused),
                                       cmocka_unit_test(workspace_of_another_plan),
                                       cmocka_unit_test(bad_runs_are_refused),
                                       cmocka_unit_test(bad_sources_are_refused),
                                       cmocka_unit_test(wrong_arguments_are_refused),
                                       cmocka_unit_test(empty_slots_add_nothing),
                                       cmocka_unit_test(many_callers_at_once),
                                       cmocka_unit_test(every_failed_allocation_is_an_error),
                                       cmocka_unit_test(explains_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
