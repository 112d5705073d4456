/* The MoE layer against tests/golden/moe, over threads, instruction sets and batch sizes. */
#include "model/model.h"
#include "op/check.h"
#include "test.h"

#include <dirent.h>
#include <math.h>

typedef struct layer_case {
    tensors *t;
    cadre_moe_desc desc;
    cadre_moe_weights w;
    cadre_tensor gate[16], up[16], down[16];
    int n;
    const float *x, *weights, *output;
    int32_t ids[256];
} layer_case;

static long number(const layer_case *c, const char *key) {
    return strtol(tensors_metadata(c->t, key), NULL, 10);
}
static bool meta_is(const layer_case *c, const char *key, const char *text) {
    return !strcmp(tensors_metadata(c->t, key), text);
}

static const float *floats(const layer_case *c, const char *name) {
    const tensor_entry *e = tensors_find(c->t, name);
    return e ? (const float *)(const void *)e->data : NULL;
}

static cadre_tensor part(const layer_case *c, const char *name, int index, int rows, int cols) {
    const float *p = floats(c, name);
    return (cadre_tensor){p ? p + (size_t)index * (size_t)rows * (size_t)cols : NULL, CADRE_F32};
}

static void read_desc(layer_case *c) {
    c->desc = (cadre_moe_desc){.d = (int)number(c, "d"),
                               .f = (int)number(c, "f"),
                               .e = (int)number(c, "e"),
                               .k = (int)number(c, "k"),
                               .max_tokens = 16,
                               .dtype = CADRE_F32,
                               .act = meta_is(c, "act", "relu2")    ? CADRE_RELU2
                                      : meta_is(c, "act", "swiglu") ? CADRE_SWIGLU
                                                                    : CADRE_SWIGLU_CLAMP,
                               .limit = strtof(tensors_metadata(c->t, "limit"), NULL),
                               .gate = meta_is(c, "gate", "softmax") ? CADRE_SOFTMAX : CADRE_SIGMOID,
                               .renormalize = meta_is(c, "normalise", "true"),
                               .scale = strtof(tensors_metadata(c->t, "scale"), NULL),
                               .groups = (int)number(c, "groups"),
                               .topk_groups = (int)number(c, "topk_group"),
                               .shared_f = meta_is(c, "shared", "none") ? 0 : (int)number(c, "fs")};
}

static void open_case(layer_case *c, const char *path) {
    memset(c, 0, sizeof *c);
    must(tensors_open_file(path, &c->t, fail_out));
    read_desc(c);
    const cadre_moe_desc *d = &c->desc;
    bool gated = d->act != CADRE_RELU2;
    for (int i = 0; i < d->e; i++) {
        c->gate[i] = part(c, "experts.gate", i, d->f, d->d);
        c->up[i] = part(c, "experts.up", i, d->f, d->d);
        c->down[i] = part(c, "experts.down", i, d->d, d->f);
    }
    c->w = (cadre_moe_weights){.router = part(c, "router.weight", 0, 0, 0),
                               .bias = part(c, "router.bias", 0, 0, 0),
                               .gate = gated ? c->gate : NULL,
                               .up = c->up,
                               .down = c->down,
                               .shared_gate = part(c, "shared.gate", 0, 0, 0),
                               .shared_up = part(c, "shared.up", 0, 0, 0),
                               .shared_down = part(c, "shared.down", 0, 0, 0),
                               .shared_expert_gate = part(c, "shared.token_gate", 0, 0, 0)};
    c->n = (int)number(c, "n");
    c->x = floats(c, "x"), c->weights = floats(c, "weights"), c->output = floats(c, "output");
    const int64_t *ids = (const int64_t *)(const void *)tensors_find(c->t, "ids")->data;
    for (int i = 0; i < c->n * d->k; i++) c->ids[i] = (int32_t)ids[i];
}

static double distance(const float *got, const float *want, size_t n) {
    double diff = 0.0, norm = 0.0;
    for (size_t i = 0; i < n; i++) diff += (got[i] - want[i]) * (got[i] - want[i]), norm += want[i] * want[i];
    return sqrt(diff / norm);
}

/* Runs the case; wants ids equal, weights and output within tol. Returns false instead of failing when `probe`. */
static bool agrees(const layer_case *c, int threads, cadre_dtype dtype, double tol, float *out, bool probe) {
    cadre_device *device = open_device(threads);
    cadre_moe_desc desc = c->desc;
    desc.dtype = dtype;
    cadre_moe *moe;
    cadre_moe_workspace *ws;
    must(cadre_moe_new(device, &desc, &c->w, &moe, fail_out));
    must(cadre_moe_workspace_new(moe, &ws, fail_out));
    int32_t ids[256];
    float weights[256];
    size_t pairs = (size_t)(c->n * desc.k), values = (size_t)(c->n * desc.d);
    memset(out, 0xFF, values * sizeof *out);
    uint64_t before = cadre_allocations();
    must(cadre_moe_route(moe, ws, c->n, c->x, ids, weights, fail_out));
    must(cadre_moe_run(moe, ws, c->n, c->x, out, fail_out));
    assert_int_equal(cadre_allocations(), before);
    bool ok = !memcmp(ids, c->ids, pairs * sizeof *ids) && distance(weights, c->weights, pairs) < 1e-5 &&
              distance(out, c->output, values) < tol;
    if (!ok && !probe)
        fail_msg("ids %s, weights off by %g, output off by %g",
                 memcmp(ids, c->ids, pairs * sizeof *ids) ? "differ" : "equal", distance(weights, c->weights, pairs),
                 distance(out, c->output, values));
    /* The caller's own routing gives the same bits as the router's. */
    float *again = calloc(values, sizeof *again);
    must(cadre_moe_experts(moe, ws, c->n, c->x, ids, weights, again, fail_out));
    assert_memory_equal(out, again, values * sizeof *out);
    /* One row at a time, too. */
    for (int i = 0; i < c->n; i++) must(cadre_moe_run(moe, ws, 1, c->x + i * desc.d, again + i * desc.d, fail_out));
    assert_memory_equal(out, again, values * sizeof *out);
    free(again);
    cadre_moe_workspace_free(ws);
    cadre_moe_free(moe);
    cadre_device_close(device);
    return ok;
}

static const char *const masks[] = {"isa=ref", "isa=avx2", "isa=avx512", "isa=avx512bf16"};

static void every_case_on_every_set(void **state) {
    (void)state;
    DIR *dir = opendir("tests/golden/moe");
    assert_non_null(dir);
    int cases = 0;
    static float first[2048], out[2048];
    for (struct dirent *e; (e = readdir(dir));) {
        if (!strstr(e->d_name, ".safetensors")) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/golden/moe/%s", e->d_name);
        layer_case c;
        open_case(&c, path);
        print_message("%s\n", e->d_name);
        cases++;
        for (int type = 0; type < 2; type++)
            for (int i = 0; i < 4; i++) {
                set_switch(masks[i]);
                for (int threads = 1; threads <= 3; threads++) {
                    float *to = i == 0 && threads == 1 ? first : out;
                    agrees(&c, threads, type ? CADRE_BF16 : CADRE_F32, type ? 2e-2 : 2e-6, to, false);
                    if (to == out) assert_memory_equal(first, out, (size_t)(c.n * c.desc.d) * sizeof *out);
                }
            }
        tensors_close(c.t);
    }
    closedir(dir);
    set_switch("isa=9");
    assert_int_equal(cases, 9);
}

/* A rule that is wrong on purpose must not pass. */
static void wrong_rules_are_caught(void **state) {
    (void)state;
    static float out[2048];
    layer_case c;
    open_case(&c, "tests/golden/moe/softmax_norm.safetensors");
    set_switch("plant=8"); /* renormalise the other way */
    assert_false(agrees(&c, 1, CADRE_F32, 2e-6, out, true));
    set_switch("plant=9"); /* ties to the higher id: row 8 is all ties */
    assert_false(agrees(&c, 1, CADRE_F32, 2e-6, out, true));
    set_switch("plant=0");
    tensors_close(c.t);
    open_case(&c, "tests/golden/moe/swiglu_clamp.safetensors");
    c.desc.limit = 100.0f;
    assert_false(agrees(&c, 1, CADRE_F32, 2e-6, out, true));
    tensors_close(c.t);
    open_case(&c, "tests/golden/moe/sigmoid_groups.safetensors");
    c.desc.groups = 0;
    assert_false(agrees(&c, 1, CADRE_F32, 2e-6, out, true));
    tensors_close(c.t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_on_every_set),
                                       cmocka_unit_test(wrong_rules_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
