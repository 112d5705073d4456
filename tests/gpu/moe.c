/* moe: the MoE layer on a real GPU, by the public calls: every shape against its meaning in double, every configuration
 * against the policy's bit for bit, tokens alone and in a batch, given routings, empty slots, bf16 rows, graphs.
 * Scratch and outputs are poisoned before each run. */
#include "moe/moe.h"
#include "dev/cuda.h"
#include "dev/dev.h"
#include "op/check.h"
#include "plan/gpu.h"
#include "tap.h"
#include <math.h>

enum { MOST = 1700, FEW = 70, SEED = 7 }; /* MOST: an expert with all has more tasks of 32 than PREFILL_PLACES */
static cadre_device *device;
static dev_cuda *gpu;
static cadre_fail why;
static void *stream;

#define DO(call) tap_call(call, &why, #call)

/* ---- a layer, its weights and the buffers of a run ---- */

typedef struct shape {
    const char *name;
    cadre_moe_desc desc;
    bool bias, shared_gate, bf16; /* bf16: of the weights' source */
} shape;

typedef struct rig {
    const shape *s;
    cadre_moe_desc desc;
    float *w;            /* all weights, fp32 values that bf16 holds */
    cadre_tensor *lists; /* [3][e] */
    cadre_moe_weights weights;
    cadre_moe *moe;
    cadre_moe_workspace *space;
    float *x, *out, *first;          /* host: [MOST][d] */
    int32_t *ids;                    /* [MOST][k] */
    float *route;                    /* [MOST][k] */
    void *dx, *dout, *dids, *droute; /* device */
} rig;

static float bf16_value(float v) {
    return op_from_bf16(op_bf16(v));
}

static float *fresh(rand_stream *r, size_t n, float scale) {
    float *v = mem_new_array(n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = bf16_value(rand_float(r) * 1.7320508f * scale);
    return v;
}

/* Kept for the reference as fp32; handed over as fp32 or bf16. */
static cadre_tensor tensor(rand_stream *r, size_t n, float scale, bool bf16) {
    float *v = fresh(r, n, scale);
    if (!bf16) return (cadre_tensor){v, CADRE_F32};
    uint16_t *b = mem_new_array(n, sizeof *b);
    for (size_t i = 0; i < n; i++) b[i] = op_bf16(v[i]);
    mem_free(v);
    return (cadre_tensor){b, CADRE_BF16};
}

static void make_weights(rig *g) {
    const cadre_moe_desc *d = &g->desc;
    rand_stream r = {.key = SEED + (uint64_t)d->d * 1000 + (uint64_t)d->f};
    size_t D = (size_t)d->d, F = (size_t)d->f, E = (size_t)d->e, S = (size_t)d->shared_f;
    float in = 1 / sqrtf((float)d->d), mid = 1 / sqrtf((float)d->f);
    bool gated = d->act != CADRE_RELU2, b = g->s->bf16;
    g->lists = mem_new_array(3 * E, sizeof *g->lists);
    for (size_t e = 0; e < E; e++) {
        if (gated) g->lists[e] = tensor(&r, F * D, 2 * in, b);
        g->lists[E + e] = tensor(&r, F * D, 2 * in, b);
        g->lists[2 * E + e] = tensor(&r, D * F, mid, b);
    }
    g->weights = (cadre_moe_weights){.gate = gated ? g->lists : NULL, .up = g->lists + E, .down = g->lists + 2 * E};
    g->weights.router = tensor(&r, E * D, 1.5f * in, b);
    if (g->s->bias) g->weights.bias = tensor(&r, E, 0.1f, false);
    if (!S) return;
    if (gated) g->weights.shared_gate = tensor(&r, S * D, in, b);
    g->weights.shared_up = tensor(&r, S * D, in, b);
    g->weights.shared_down = tensor(&r, D * S, 1 / sqrtf((float)S), b);
    if (g->s->shared_gate) g->weights.shared_expert_gate = tensor(&r, D, in, b);
}

static void drop(cadre_tensor t) {
    mem_free((void *)(uintptr_t)t.data);
}
static void rig_done(rig *g) {
    cadre_moe_workspace_free(g->space);
    cadre_moe_free(g->moe);
    for (int i = 0; g->lists && i < 3 * g->desc.e; i++) drop(g->lists[i]);
    drop(g->weights.router), drop(g->weights.bias), drop(g->weights.shared_gate), drop(g->weights.shared_up);
    drop(g->weights.shared_down), drop(g->weights.shared_expert_gate);
    mem_free(g->lists), mem_free(g->x), mem_free(g->out), mem_free(g->first), mem_free(g->ids), mem_free(g->route);
    dev_cuda_free(gpu, g->dx), dev_cuda_free(gpu, g->dout), dev_cuda_free(gpu, g->dids), dev_cuda_free(gpu, g->droute);
}

static bool make_layer(rig *g) {
    cadre_moe_workspace_free(g->space);
    cadre_moe_free(g->moe);
    g->space = NULL, g->moe = NULL;
    cadre_err err = cadre_moe_new(device, &g->desc, &g->weights, &g->moe, &why);
    if (!err) err = cadre_moe_workspace_new(g->moe, &g->space, &why);
    return !err || tap(false, "%s: %s", g->s->name, why.text);
}

static bool rig_init(rig *g, const shape *s) {
    rand_stream r = {.key = SEED};
    *g = (rig){.s = s, .desc = s->desc};
    g->desc.dtype = CADRE_BF16;
    g->desc.max_tokens = MOST;
    size_t side = (size_t)MOST * (size_t)g->desc.d, pairs = (size_t)MOST * (size_t)g->desc.k;
    make_weights(g);
    g->x = fresh(&r, side, 1);
    g->out = mem_new_array(side, 4), g->first = mem_new_array(side, 4);
    g->ids = mem_new_array(pairs, 4), g->route = mem_new_array(pairs, 4);
    cadre_err err = dev_cuda_alloc(gpu, side * 4, &g->dx, &why);
    if (!err) err = dev_cuda_alloc(gpu, side * 4 + 16, &g->dout, &why);
    if (!err) err = dev_cuda_alloc(gpu, pairs * 4, &g->dids, &why);
    if (!err) err = dev_cuda_alloc(gpu, pairs * 4, &g->droute, &why);
    return !err ? make_layer(g) : tap(false, "%s: %s", s->name, why.text);
}

/* ---- runs ---- */

enum {
    GIVEN = 1,
    X_BF16 = 2,
    OUT_BF16 = 4,
    GRAPH = 8,
    FORCED = 16,
    WATCHED = 32,
    ASIDE = 64
}; /* FORCED: the router runs and takes given ids; WATCHED: by a profile; ASIDE: out on no 16 bytes */

static void *out_at(const rig *g, int how) {
    return (char *)g->dout + (how & ASIDE ? how & OUT_BF16 ? 2 : 4 : 0);
}

static cadre_err put_x(rig *g, int n, const float *x, int how) {
    size_t count = (size_t)n * (size_t)g->desc.d;
    if (!(how & X_BF16)) return dev_cuda_put(gpu, g->dx, x, count * 4, &why);
    uint16_t *b = mem_new_array(count + 1, sizeof *b);
    for (size_t i = 0; i < count; i++) b[i] = op_bf16(x[i]);
    cadre_err err = dev_cuda_put(gpu, g->dx, b, count * 2, &why);
    mem_free(b);
    return err;
}

static cadre_err enqueue(rig *g, int n, int how) {
    if (how & FORCED)
        return moe_enqueue_forced(g->moe, g->space, stream, n, g->dx, how & X_BF16 ? CADRE_BF16 : CADRE_F32, g->dids,
                                  out_at(g, how), CADRE_F32, &why);
    return cadre_moe_enqueue(g->moe, g->space, stream, n, g->dx, how & X_BF16 ? CADRE_BF16 : CADRE_F32,
                             how & GIVEN ? g->dids : NULL, how & GIVEN ? g->droute : NULL, out_at(g, how),
                             how & OUT_BF16 ? CADRE_BF16 : CADRE_F32, &why);
}

static cadre_err replay(rig *g, int n, int how) {
    void *graph = NULL;
    cadre_err err = dev_cuda_capture_begin(gpu, stream, &why);
    if (err) return err;
    err = enqueue(g, n, how);
    cadre_err end = dev_cuda_capture_end(gpu, stream, &graph, err ? NULL : &why);
    if (!err) err = end;
    for (int i = 0; i < 3 && !err; i++) err = dev_cuda_graph_launch(gpu, graph, stream, &why);
    if (!err) err = dev_cuda_sync(gpu, stream, &why);
    dev_cuda_graph_free(gpu, graph);
    return err;
}

static cadre_profile *watch; /* thousands of events: made once */

static cadre_err run_watched(rig *g, int n, int how) {
    cadre_profile_row rows[8];
    cadre_err err = watch ? CADRE_OK : cadre_profile_new(device, &watch, &why);
    if (err) return err;
    cadre_profile_clear(watch);
    cadre_moe_profile(g->space, watch);
    err = how & GRAPH ? replay(g, n, how) : enqueue(g, n, how);
    cadre_moe_profile(g->space, NULL);
    if (!err) err = cadre_profile_collect(watch, &why);
    int count = cadre_profile_rows(watch, rows, 8), wrong = count < 2;
    for (int i = 0; i < count; i++)
        wrong += !(rows[i].us > 0.1 && rows[i].us < (tap_few ? 1e9 : 1e5)); /* few: a tool may slow it down */
    if (wrong) tap(false, "%s n=%d: %d rows of a profile, %d wrong", g->s->name, n, count, wrong);
    return err;
}

/* out [n][d] = the layer on x. With GIVEN, g->ids and g->route are the routing. */
static bool run(rig *g, int n, const float *x, float *out, int how) {
    size_t count = (size_t)n * (size_t)g->desc.d, pairs = (size_t)n * (size_t)g->desc.k;
    cadre_err err = put_x(g, n, x, how);
    if (!err && how & (GIVEN | FORCED)) err = dev_cuda_put(gpu, g->dids, g->ids, pairs * 4, &why);
    if (!err && how & GIVEN) err = dev_cuda_put(gpu, g->droute, g->route, pairs * 4, &why);
    if (!err) err = dev_cuda_fill_async(gpu, g->dout, 0xff, (size_t)MOST * (size_t)g->desc.d * 4 + 16, stream, &why);
    if (!err) err = dev_cuda_sync(gpu, stream, &why); /* copies above were not on the stream */
    if (!err) err = how & WATCHED ? run_watched(g, n, how) : how & GRAPH ? replay(g, n, how) : enqueue(g, n, how);
    if (!err) err = dev_cuda_sync(gpu, stream, &why);
    if (!err) err = dev_cuda_get(gpu, out, out_at(g, how), count * (how & OUT_BF16 ? 2 : 4), &why);
    return !err || tap(false, "%s n=%d: %s", g->s->name, n, why.text);
}

/* ---- the meaning ---- */

static float *plain(const cadre_tensor *list, int count, size_t n) {
    float *v = mem_new_array((size_t)count * n, sizeof *v);
    for (int i = 0; i < count; i++)
        for (size_t j = 0; list[i].data && j < n; j++) v[(size_t)i * n + j] = op_load(list[i].dtype, list[i].data, j);
    return v;
}

/* What n tokens with the routing in g should give, in double. */
static void meaning(const rig *g, int n, double *want) {
    const cadre_moe_desc *d = &g->desc;
    size_t D = (size_t)d->d, F = (size_t)d->f, S = (size_t)d->shared_f;
    float *gate = g->weights.gate ? plain(g->weights.gate, d->e, F * D) : NULL;
    float *up = plain(g->weights.up, d->e, F * D), *down = plain(g->weights.down, d->e, D * F);
    check_experts(n, d->d, d->f, d->k, d->act, d->limit, g->x, gate, up, down, g->ids, g->route, want);
    mem_free(gate), mem_free(up), mem_free(down);
    if (!S) return;
    const cadre_moe_weights *w = &g->weights;
    int32_t *zero = mem_new_array((size_t)n, 4);
    float *weight = mem_new_array((size_t)n, 4), *row = plain(&w->shared_expert_gate, 1, D);
    double *more = mem_new_array((size_t)n * D, sizeof *more);
    gate = w->shared_gate.data ? plain(&w->shared_gate, 1, S * D) : NULL;
    up = plain(&w->shared_up, 1, S * D), down = plain(&w->shared_down, 1, D * S);
    for (int t = 0; t < n; t++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) sum += (double)row[i] * g->x[(size_t)t * D + i];
        weight[t] = w->shared_expert_gate.data ? (float)(1 / (1 + m_exp(-sum))) : 1;
    }
    check_experts(n, d->d, d->shared_f, 1, d->act, d->limit, g->x, gate, up, down, zero, weight, more);
    for (size_t i = 0; i < (size_t)n * D; i++) want[i] += more[i];
    mem_free(gate), mem_free(up), mem_free(down), mem_free(zero), mem_free(weight), mem_free(more), mem_free(row);
}

/* The choice of the router against op_route on logits in double. Near ties may fall either way: few tokens do. */
static void check_routing(rig *g, int n) {
    const cadre_moe_desc *d = &g->desc;
    op_router r = {d->e, d->k, d->gate, d->renormalize, d->scale, d->groups, d->topk_groups, NULL};
    size_t E = (size_t)d->e, D = (size_t)d->d, K = (size_t)d->k;
    float *w = plain(&g->weights.router, 1, E * D), *bias = NULL, *scratch = mem_new_array(2 * E, 4);
    double *logit = mem_new_array(E, sizeof *logit), worst = 0;
    float *logits = mem_new_array(E, 4), *weights = mem_new_array(K, 4);
    int32_t *ids = mem_new_array(K, 4);
    int other = 0;
    if (g->s->bias) r.bias = bias = plain(&g->weights.bias, 1, E);
    for (int t = 0; t < n; t++) {
        check_dense(1, d->d, d->e, g->x + (size_t)t * D, w, NULL, logit);
        for (size_t i = 0; i < E; i++) logits[i] = (float)logit[i];
        op_route(&r, logits, ids, weights, scratch);
        if (memcmp(ids, g->ids + (size_t)t * K, K * 4)) {
            other++;
            continue;
        }
        for (size_t i = 0; i < K; i++) {
            double e = fabs(weights[i] - g->route[(size_t)t * K + i]) / (fabs(weights[i]) + 1e-6);
            worst = e > worst ? e : worst;
        }
    }
    tap(other <= n / 50 + 1 && worst < 1e-4, "%s n=%d: routing, %d of %d tokens differ, weights by %.1e", g->s->name, n,
        other, n, worst);
    mem_free(w), mem_free(bias), mem_free(scratch), mem_free(logit), mem_free(logits), mem_free(weights), mem_free(ids);
}

static bool close_to(rig *g, int n, const float *out, const char *what) {
    size_t count = (size_t)n * (size_t)g->desc.d;
    double *want = mem_new_array(count + 1, sizeof *want);
    meaning(g, n, want);
    double error = check_relative(out, want, count), most = check_tolerance(OP_EXPERTS, CADRE_BF16, g->desc.d);
    mem_free(want);
    return tap(error <= most, "%s n=%d: %s, relative error %.2e, at most %.2e", g->s->name, n, what, error, most);
}

static size_t differing(const float *a, const float *b, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += memcmp(a + i, b + i, 4) != 0;
    return bad;
}

/* ---- what is tested of a shape ---- */

/* The last is the most: MOST, or FEW where a sanitizer slows everything down. */
static const int all_counts[] = {1, 7, 8, 9, 33, 50, 200, 300, MOST}, few_counts[] = {1, 9, FEW};
static const int *counts = all_counts;
static int count_of_counts = sizeof all_counts / sizeof *all_counts, most = MOST;

static void against_meaning(rig *g) {
    for (int i = 0; i < count_of_counts; i++) {
        int n = counts[i];
        if (cadre_moe_route(g->moe, g->space, n, g->x, g->ids, g->route, &why)) {
            tap(false, "%s n=%d: %s", g->s->name, n, why.text);
            return;
        }
        if (n == 9 || n == most) check_routing(g, n);
        if (!run(g, n, g->x, g->out, 0)) return;
        if (n != MOST || g->desc.d * g->desc.f < 30000) close_to(g, n, g->out, "against the meaning");
        if (n == most) memcpy(g->first, g->out, (size_t)n * (size_t)g->desc.d * 4);
    }
}

/* The first run of the most tokens is what all others are held against: rows of smaller batches, given ids, graphs,
 * bf16. */
static void same_bits(rig *g, const char *what) {
    size_t d = (size_t)g->desc.d, bad = 0;
    for (int i = 0; i < count_of_counts; i++) {
        if (!run(g, counts[i], g->x, g->out, 0)) return;
        bad += differing(g->out, g->first, (size_t)counts[i] * d);
    }
    for (int row = 3; row < most; row += most / 3) { /* alone */
        if (!run(g, 1, g->x + (size_t)row * d, g->out, 0)) return;
        bad += differing(g->out, g->first + (size_t)row * d, d);
    }
    tap(bad == 0, "%s: %s: any batch, %zu values differ", g->s->name, what, bad);
}

static void other_ways(rig *g) {
    static const int ways[] = {GIVEN,
                               X_BF16,
                               X_BF16 | GIVEN,
                               GRAPH,
                               GRAPH | GIVEN | X_BF16,
                               GRAPH | FORCED | X_BF16,
                               WATCHED,
                               WATCHED | GRAPH | X_BF16,
                               ASIDE};
    static const char *const names[] = {
        "given ids",           "bf16 rows", "bf16 rows, given ids", "graph",         "graph, given, bf16",
        "graph, forced, bf16", "watched",   "graph, watched, bf16", "out on 4 bytes"};
    enum { WAYS = sizeof ways / sizeof *ways };
    size_t d = (size_t)g->desc.d;
    if (cadre_moe_route(g->moe, g->space, most, g->x, g->ids, g->route, &why)) tap(false, "%s", why.text);
    for (int w = 0; w < WAYS; w++) {
        size_t bad = 0;
        for (int i = 0; i < count_of_counts; i++) {
            if (!run(g, counts[i], g->x, g->out, ways[w])) return;
            bad += differing(g->out, g->first, (size_t)counts[i] * d);
        }
        tap(bad == 0, "%s: %s: %zu values differ", g->s->name, names[w], bad);
    }
    size_t bad = 0;
    size_t side = (size_t)(most < 200 ? most : 200) * d;
    for (int how = OUT_BF16;; how |= ASIDE) {
        if (!run(g, (int)(side / d), g->x, g->out, how)) return;
        for (size_t i = 0; i < side; i++) bad += ((uint16_t *)(void *)g->out)[i] != op_bf16(g->first[i]);
        if (how & ASIDE) break;
    }
    tap(bad == 0, "%s: bf16 out is the rounded fp32: %zu differ", g->s->name, bad);
    if (cadre_moe_run(g->moe, g->space, most, g->x, g->out, &why)) tap(false, "%s", why.text);
    tap(!differing(g->out, g->first, (size_t)most * d), "%s: host pointers", g->s->name);
}

/* Any ids: empty slots, the same expert twice, most tokens at one expert, ids that are none. */
static void odd_routings(rig *g) {
    rand_stream r = {.key = 99};
    int e = g->desc.e, k = g->desc.k, n = most < 200 ? most : 200;
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < n * k; i++) {
            g->route[i] = rand_float(&r);
            g->ids[i] = kind == 0 ? (int32_t)rand_below(&r, (uint32_t)e + 1) - 1 : kind == 1 ? -1 : (i % 7 ? e / 2 : 0);
        }
        if (!run(g, n, g->x, g->out, GIVEN)) return;
        static const char *const names[] = {"empty slots", "nothing but empty slots", "one expert has nearly all"};
        close_to(g, n, g->out, names[kind]);
        memcpy(g->first, g->out, (size_t)n * (size_t)g->desc.d * 4);
        if (!run(g, n, g->x, g->out, GIVEN | X_BF16)) return;
        tap(!differing(g->out, g->first, (size_t)n * (size_t)g->desc.d), "%s: %s: again, with bf16 rows", g->s->name,
            names[kind]);
        for (int how = GIVEN; how <= (GIVEN | X_BF16); how += X_BF16) {
            if (!run(g, 1, g->x, g->out, how)) return;
            tap(!differing(g->out, g->first, (size_t)g->desc.d), "%s: %s: the first token alone", g->s->name,
                names[kind]);
        }
        if (kind) continue;
        for (int i = 0; i < n * k; i++)
            if (g->ids[i] < 0) g->ids[i] = i % 2 ? e : INT32_MIN;
        if (!run(g, n, g->x, g->out, GIVEN)) return;
        tap(!differing(g->out, g->first, (size_t)n * (size_t)g->desc.d), "%s: ids that are none are empty slots",
            g->s->name);
    }
}

/* A graph for n tokens serves fewer: the others' rows are zeros, and the bits of those that count are the same. */
static void valid_counts(rig *g) {
    static const struct {
        int n, valid;
    } cases[] = {{1, 1}, {1, 0}, {8, 5}, {8, 99}, {64, 9}, {200, -3}, {MOST, 0}, {MOST, 1}, {MOST, 333}};
    void *at = NULL, *graph = NULL;
    size_t d = (size_t)g->desc.d;
    bool ok = !dev_cuda_alloc(gpu, 64, &at, &why);
    for (size_t i = 0; ok && i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].n > most) continue;
        int n = cases[i].n, count = cases[i].valid < 0 ? 0 : cases[i].valid > n ? n : cases[i].valid;
        int32_t all = n, some = cases[i].valid;
        ok = run(g, n, g->x, g->first, 0) && !dev_cuda_put(gpu, at, &all, sizeof all, &why) &&
             !dev_cuda_capture_begin(gpu, stream, &why);
        if (!ok) break;
        cadre_err err = cadre_moe_enqueue_valid(g->moe, g->space, stream, n, at, g->dx, CADRE_F32, NULL, NULL, g->dout,
                                                CADRE_F32, &why);
        ok = !dev_cuda_capture_end(gpu, stream, &graph, &why) && !err;
        for (int pass = 0; ok && pass < 2; pass++) {
            int live = pass ? count : n;
            size_t bad = 0;
            ok = !dev_cuda_put(gpu, at, pass ? &some : &all, sizeof all, &why) &&
                 !dev_cuda_fill_async(gpu, g->dout, 0xff, (size_t)n * d * 4, stream, &why) &&
                 !dev_cuda_graph_launch(gpu, graph, stream, &why) && !dev_cuda_sync(gpu, stream, &why) &&
                 !dev_cuda_get(gpu, g->out, g->dout, (size_t)n * d * 4, &why);
            for (size_t j = (size_t)live * d; j < (size_t)n * d; j++) bad += g->out[j] != 0.0f;
            tap(ok && !bad && !differing(g->out, g->first, (size_t)live * d), "%s: %d of %d tokens count", g->s->name,
                live, n);
        }
        dev_cuda_graph_free(gpu, graph);
        graph = NULL;
    }
    tap(ok, "%s: graphs for fewer tokens: %s", g->s->name, ok ? "all" : why.text);
    dev_cuda_free(gpu, at);
}

/* ---- configurations ---- */

static void set(const char *text) {
    char line[200];
    snprintf(line, sizeof line, "%s", text);
    for (char *rest = line, *word; (word = strtok_r(rest, " ", &rest));) {
        char full[64];
        snprintf(full, sizeof full, "gpu.%s", word);
        if (cadre_set(full, &why)) tap(false, "%s", why.text);
    }
}
static void unset(void) {
    switch_def def;
    long value;
    for (int i = 0; plan_gpu_switch(i, &def, &value); i++) {
        char full[64];
        snprintf(full, sizeof full, "%s=%d", def.name, PLAN_GPU_POLICY);
        cadre_set(full, NULL);
    }
}

static const char *const configs[] = {
    "wgmma=0 one=0 tokens=8 warps=8 up=6 down=8 kc=128 stages=5 ahead=48 told=2 router=8",
    "wgmma=0 one=0 tokens=8 warps=8 up=8 down=8 kc=128 stages=4 ahead=64 told=0 router=8",
    "wgmma=0 one=0 tokens=8 warps=1 up=1 down=1 kc=64 stages=2 ahead=1 told=2 router=16",
    "wgmma=0 one=1 tokens=16 warps=4 up=3 down=5 kc=256 stages=3 ahead=1 told=1 router=32",
    "wgmma=0 one=1 tokens=32 warps=8 up=16 down=16 kc=64 stages=4 ahead=256 told=0 router=40",
    "wgmma=0 one=0 tokens=96 warps=8 up=16 down=16 kc=64 stages=4 ahead=64 router=48",
    "wgmma=0 one=0 tokens=8 warps=8 up=6 down=8 kc=128 stages=4 ahead=48 told=2 router=8 engine=0",
    "wgmma=0 one=0 tokens=16 warps=4 up=3 down=5 kc=256 stages=3 ahead=24 told=1 router=8 engine=0",
    "wgmma=0 one=0 tokens=32 warps=8 up=16 down=16 kc=64 stages=4 ahead=64 told=0 router=8 engine=0",
    "wgmma=0 one=0 tokens=64 warps=8 up=16 down=16 kc=64 stages=4 ahead=64 told=0 router=8",
    "wgmma=1 widths=1 room=64 router=8",
    "wgmma=1 widths=31 room=128 router=24",
    "wgmma=1 widths=488 router=32",
};

static bool runs(const shape *s, const char *config) {
    const cadre_moe_desc *d = &s->desc;
    bool whole = (d->d + 31) / 32 % 2 == 0 && (d->f + 31) / 32 % 2 == 0 && (d->shared_f + 31) / 32 % 2 == 0;
    return whole || strncmp(config, "wgmma=1", 7) != 0;
}

static void every_config(rig *g) {
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        if (!runs(g->s, configs[i])) continue;
        set(configs[i]);
        if (make_layer(g)) same_bits(g, configs[i]);
        unset();
    }
    make_layer(g);
}

/* Few tokens a cluster of the router, so that clusters take many turns, some without a token that counts. */
static void many_turns(rig *g) {
    set("router=16");
    if (make_layer(g)) valid_counts(g);
    unset();
    make_layer(g);
}

/* ---- shapes ---- */

#define SWIGLU CADRE_SWIGLU
#define CLAMP  CADRE_SWIGLU_CLAMP
#define RELU2  CADRE_RELU2
static const shape shapes[] = {
    {"demo", {.d = 256, .f = 64, .e = 18, .k = 4, .renormalize = true}, .bf16 = true},
    {"d=192 f=128 e=33 clamp", {.d = 192, .f = 128, .e = 33, .k = 3, .act = CLAMP, .limit = 0.7f}, .bf16 = true},
    {"d=64 f=64 e=160 relu2, groups",
     {.d = 64,
      .f = 64,
      .e = 160,
      .k = 6,
      .act = RELU2,
      .gate = CADRE_SIGMOID,
      .renormalize = true,
      .scale = 2.5f,
      .groups = 8,
      .topk_groups = 3},
     .bias = true},
    {"d=64 f=832 e=12 all", {.d = 64, .f = 832, .e = 12, .k = 12}, .bf16 = true},
    {"d=250 f=71 e=33", {.d = 250, .f = 71, .e = 33, .k = 3, .groups = 3, .topk_groups = 2}, .bias = false},
    {"d=40 f=24 e=257 relu2",
     {.d = 40, .f = 24, .e = 257, .k = 8, .act = RELU2, .gate = CADRE_SIGMOID},
     .bias = true,
     .bf16 = true},
    {"d=48 f=33 e=3 clamp",
     {.d = 48, .f = 33, .e = 3, .k = 2, .act = CLAMP, .limit = 1.5f, .renormalize = true},
     .bias = false},
    {"d=17 f=5 e=1", {.d = 17, .f = 5, .e = 1, .k = 1}, .bias = false},
    {"d=128 f=64 e=16 shared",
     {.d = 128, .f = 64, .e = 16, .k = 2, .shared_f = 192, .scale = 0.5f},
     .shared_gate = true,
     .bf16 = true},
    {"d=7168 f=64 e=24", {.d = 7168, .f = 64, .e = 24, .k = 6, .renormalize = true}, .bf16 = true},
    /* one token: rings shorter than the down product, several row tiles of it a block, h padded */
    {"d=2176 f=448 e=8 relu2", {.d = 2176, .f = 448, .e = 8, .k = 8, .act = RELU2}, .bf16 = true},
    {"d=4288 f=64 e=6 relu2", {.d = 4288, .f = 64, .e = 6, .k = 5, .act = RELU2}, .bf16 = true},
    {"d=128 f=40 e=6", {.d = 128, .f = 40, .e = 6, .k = 2}, .bf16 = true},
    {"d=1344 f=320 e=4 shared", {.d = 1344, .f = 320, .e = 4, .k = 1, .shared_f = 64}, .bf16 = true},
    {"d=100 f=60 e=7 relu2 shared",
     {.d = 100, .f = 60, .e = 7, .k = 7, .act = RELU2, .shared_f = 50, .renormalize = true},
     .bias = false},
};

static bool tests_all(const shape *s) {
    return s < shapes + 5 || s->desc.shared_f;
}

static void test_shape(const shape *s, bool all) {
    rig g;
    uint64_t start = clock_ns(), made;
    if (rig_init(&g, s)) {
        made = clock_ns();
        against_meaning(&g);
        uint64_t host = mem_count(), there = dev_cuda_allocations();
        bool ok = !cadre_moe_enqueue(g.moe, g.space, stream, 7, g.dx, CADRE_F32, NULL, NULL, g.dout, CADRE_F32, &why);
        tap(ok && host == mem_count() && there == dev_cuda_allocations(), "%s: a run allocates nothing", s->name);
        same_bits(&g, "policy");
        other_ways(&g);
        valid_counts(&g);
        if ((s == shapes || s->desc.d > 4096) && !tap_few) many_turns(&g);
        if (all) every_config(&g);
        odd_routings(&g);
        printf("# %s: made in %.1f s, tested in %.1f s\n", s->name, (double)(made - start) / 1e9,
               (double)(clock_ns() - made) / 1e9);
    }
    rig_done(&g);
}

static void refusals(void) {
    rig g;
    if (!rig_init(&g, &shapes[0])) return;
    cadre_err err =
        cadre_moe_enqueue(g.moe, g.space, stream, 1, (char *)g.dx + 4, CADRE_F32, NULL, NULL, g.dout, CADRE_F32, &why);
    tap(err == CADRE_RANGE, "x off its place: %s", why.text);
    err = cadre_moe_enqueue(g.moe, g.space, stream, 1, g.dx, CADRE_F32, g.dids, NULL, g.dout, CADRE_F32, &why);
    tap(err == CADRE_RANGE, "ids without weights: %s", why.text);
    err = cadre_moe_enqueue(g.moe, g.space, stream, MOST + 1, g.dx, CADRE_F32, NULL, NULL, g.dout, CADRE_F32, &why);
    tap(err == CADRE_RANGE, "too many tokens: %s", why.text);
    tap(!cadre_moe_enqueue(g.moe, g.space, stream, 0, NULL, CADRE_F32, NULL, NULL, NULL, CADRE_F32, &why), "no tokens");
    rig_done(&g);
}

/* Two streams that nobody orders, each with a workspace of its own, and then with one for both. Runs that met would
 * wait for each other forever, or find the other's routing. */
static void two_streams(void) {
    enum { N = 64 };
    const int times = tap_few ? 5 : 100;
    rig g;
    void *other = NULL, *out = NULL;
    cadre_moe_workspace *second = NULL;
    if (!rig_init(&g, &shapes[0])) return;
    size_t count = (size_t)N * (size_t)g.desc.d, bad = 0;
    cadre_err err = dev_cuda_stream_new(gpu, &other, &why);
    if (!err) err = dev_cuda_alloc(gpu, count * 4, &out, &why);
    if (!err) err = cadre_moe_workspace_new(g.moe, &second, &why);
    if (!err && !run(&g, N, g.x, g.first, 0)) err = CADRE_DEVICE;
    for (int shared = 0; shared < 2 && !err; shared++) {
        for (int i = 0; i < times && !err; i++) {
            err = cadre_moe_enqueue(g.moe, g.space, stream, N, g.dx, CADRE_F32, NULL, NULL, g.dout, CADRE_F32, &why);
            if (!err)
                err = cadre_moe_enqueue(g.moe, shared ? g.space : second, other, N, g.dx, CADRE_F32, NULL, NULL, out,
                                        CADRE_F32, &why);
        }
        if (!err) err = dev_cuda_sync(gpu, stream, &why);
        if (!err) err = dev_cuda_sync(gpu, other, &why);
        if (!err) err = dev_cuda_get(gpu, g.out, g.dout, count * 4, &why);
        bad += err ? 1 : differing(g.out, g.first, count);
        if (!err) err = dev_cuda_get(gpu, g.out, out, count * 4, &why);
        bad += err ? 1 : differing(g.out, g.first, count);
    }
    tap(!err && !bad, "%d runs on two streams that nobody ordered: %s", 4 * times, err ? why.text : "the same bits");
    cadre_moe_workspace_free(second);
    dev_cuda_free(gpu, out), dev_cuda_stream_free(gpu, other);
    rig_done(&g);
}

/* Layers of every shape and configuration, for the cache of compiled kernels: tests of many processes would wait for
 * each other on the GPU, compilers need not. */
static void compile_all(void) {
    enum { CONFIGS = sizeof configs / sizeof *configs };
    for (int i = tap_part; i < (int)(sizeof shapes / sizeof *shapes) * (CONFIGS + 1); i += tap_parts) {
        const shape *s = &shapes[i / (CONFIGS + 1)];
        int config = i % (CONFIGS + 1);
        rig g;
        if (config && (!tests_all(s) || !runs(s, configs[config - 1]))) continue;
        if (config) set(configs[config - 1]);
        rig_init(&g, s);
        rig_done(&g);
        unset();
    }
}

int main(int argc, char **argv) {
    tap_start(argc, argv);
    cadre_device_options o = {.name = "cuda"};
    if (!DO(cadre_device_open(&o, &device, &why))) return tap_end();
    gpu = device->gpu;
    printf("# %s\n", cadre_device_name(device));
    if (tap_few) { /* a poisoned byte would be a written one */
        counts = few_counts, count_of_counts = sizeof few_counts / sizeof *few_counts, most = FEW;
    } else
        cadre_set("poison=1", NULL);
    DO(dev_cuda_stream_new(gpu, &stream, &why));
    if (tap_parts)
        compile_all();
    else
        refusals(), two_streams();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !dev_cuda_lost(gpu) && !tap_parts; i++) {
        const shape *s = &shapes[i];
        if (!tap_few)
            test_shape(s, tests_all(s));
        else if (i == 0 || s->desc.groups || s->desc.shared_f)
            test_shape(s, i == 0);
    }
    cadre_profile_free(watch);
    dev_cuda_stream_free(gpu, stream);
    cadre_device_close(device);
    return tap_end();
}
