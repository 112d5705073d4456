/* layers.c: distinct weights cheaply: every tensor is another window of one pool of random values; packing copies it.
 */
#include "layers.h"
#include "dev/cuda.h"
#include "moe/moe.h"
#include "op/op.h"
#include <math.h>
#include <string.h>

enum { WINDOWS = 1 << 20 }; /* places in the pool where a tensor may start */

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the layers of the bench");
}

/* ---- how many ---- */

static double layer_bytes(const cadre_moe_desc *d) {
    return shape_expert_bytes(d) * d->e + shape_shared_bytes(d) + 4.0 * d->e * d->d;
}

/* A GPU's L2 is small beside what a step streams, and a layer's turn comes again within a graph. */
enum { GPU_LEAST = 8, GPU_CACHES = 16 };

/* Where the layers live. */
typedef struct place {
    double cache, memory; /* bytes: of the last cache; free */
} place;

static cadre_err place_of(const cadre_device *device, place *p, cadre_fail *why) {
    size_t has, all;
    *p = (place){(double)dev_last_cache(device), (double)dev_memory_available()};
    if (!device->gpu) return CADRE_OK;
    cadre_err err = dev_cuda_memory(device->gpu, &has, &all, why);
    if (!err) *p = (place){(double)dev_cuda_about(device->gpu)->l2, (double)has};
    return err;
}

static int choose_count(const place *p, bool gpu, const cadre_moe_desc *d, double touched) {
    enum { MOST = 2048 };
    double want = ceil((gpu ? GPU_CACHES : 4) * p->cache / touched), fit = floor(0.5 * p->memory / layer_bytes(d));
    if (gpu && want < GPU_LEAST) want = GPU_LEAST;
    double n = want < fit ? want : fit;
    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

/* ---- weights ---- */

typedef struct source {
    uint16_t *pool;
    size_t values;
    rand_stream random;
    cadre_tensor *list; /* [3][e] */
} source;

static cadre_tensor window(source *s) {
    return (cadre_tensor){s->pool + rand_below(&s->random, WINDOWS), CADRE_BF16};
}

static cadre_err source_init(source *s, const cadre_moe_desc *d, uint64_t seed, cadre_fail *why) {
    size_t side = (size_t)(d->f > d->shared_f ? d->f : d->shared_f), n = side > (size_t)d->e ? side : (size_t)d->e;
    *s = (source){.values = n * (size_t)d->d + WINDOWS, .random = {.key = seed}};
    s->pool = mem_new_array(s->values, sizeof *s->pool);
    s->list = mem_new_array((size_t)d->e * 3, sizeof *s->list);
    if (!s->pool || !s->list) return no_memory(why);
    float scale = 1 / sqrtf((float)d->d);
    for (size_t i = 0; i < s->values; i++) s->pool[i] = op_bf16(rand_float(&s->random) * 1.7320508f * scale);
    return CADRE_OK;
}

static cadre_err make_layer(layers *l, int i, cadre_device *device, source *s, cadre_fail *why) {
    const cadre_moe_desc *d = &l->desc;
    int e = d->e;
    for (int k = 0; k < 3 * e; k++) s->list[k] = window(s);
    cadre_moe_weights w = {.router = window(s), .gate = s->list, .up = s->list + e, .down = s->list + 2 * e};
    if (d->act == CADRE_RELU2) w.gate = NULL;
    if (d->shared_f) {
        w.shared_up = window(s);
        w.shared_down = window(s);
        if (w.gate) w.shared_gate = window(s);
    }
    cadre_err err = cadre_moe_new(device, d, &w, &l->moe[i], why);
    if (!err && l->spaces != LAYER_SPACE_OWN && i) { /* they run one after the other: one is enough */
        l->scratch[i] = l->scratch[0];
        return CADRE_OK;
    }
    return err ? err : cadre_moe_workspace_new(l->moe[i], &l->scratch[i], why);
}

/* ---- life ---- */

static void shuffle(rand_stream *random, int32_t *deal, int e) {
    for (int i = 0; i < e; i++) deal[i] = i;
    for (int i = e - 1; i > 0; i--) {
        int j = (int)rand_below(random, (uint32_t)i + 1);
        int32_t t = deal[i];
        deal[i] = deal[j];
        deal[j] = t;
    }
}

static cadre_err make_inputs(layers *l, rand_stream *random, cadre_fail *why) {
    size_t n = (size_t)l->desc.max_tokens, d = (size_t)l->desc.d, k = (size_t)l->desc.k;
    l->x = mem_new_array(n * d, sizeof *l->x);
    l->out = mem_new_array(n * (d > k ? d : k), sizeof *l->out); /* also takes a router's weights */
    l->weights = mem_new_array(n * k, sizeof *l->weights);
    l->deal = mem_new_array((size_t)l->count * (size_t)l->desc.e, sizeof *l->deal);
    if (!l->x || !l->out || !l->weights || !l->deal) return no_memory(why);
    for (size_t i = 0; i < n * d; i++) l->x[i] = rand_float(random) * 1.7320508f;
    for (size_t i = 0; i < n * k; i++) l->weights[i] = 1.0f / (float)k;
    for (int i = 0; i < l->count; i++) shuffle(random, l->deal + (size_t)i * (size_t)l->desc.e, l->desc.e);
    return CADRE_OK;
}

/* Every weight is read once before anything is timed: fresh pages are slow the first time. */
static cadre_err touch_all(layers *l, uint64_t seed, cadre_fail *why) {
    layer_plan p;
    routing all = {.kind = ROUTING_BALANCED};
    cadre_err err = layers_plan(l, &all, l->desc.max_tokens, seed, &p, why);
    if (err) return err;
    err = layers_step(l, &p, 0, why);
    layers_plan_done(&p);
    return err;
}

/* Said before anything is taken: packing a layer only to be killed helps nobody. */
static cadre_err check_memory(const place *p, const cadre_moe_desc *d, int count, cadre_fail *why) {
    double side = d->f > d->shared_f ? d->f : d->shared_f, source_bytes = 2.0 * (side > d->e ? side : d->e) * d->d;
    double need = layer_bytes(d) * count + source_bytes + 2.0 * WINDOWS, have = p->memory;
    if (need <= have) return CADRE_OK;
    return cadre_fail_set(why, CADRE_NOMEM, "%d layers do not fit: need %.1f MB, have %.1f MB", count, need / 1e6,
                          have / 1e6);
}

cadre_err layers_init(layers *l, cadre_device *device, const cadre_moe_desc *desc, int count, layer_spaces spaces,
                      uint64_t seed, cadre_fail *why) {
    source s;
    place where;
    int all = (desc->e + desc->k - 1) / desc->k; /* tokens that reach every expert */
    double touched = shape_expert_bytes(desc) * desc->k + shape_shared_bytes(desc);
    *l = (layers){.desc = *desc, .spaces = device->gpu ? LAYER_SPACE_ONE : spaces};
    cadre_err err = place_of(device, &where, why);
    if (err) return err;
    if (l->desc.max_tokens < all) l->desc.max_tokens = all;
    l->count = count ? count : choose_count(&where, device->gpu, desc, touched);
    l->step_bytes = touched * l->count;
    l->cold = l->step_bytes >= 3.0 * where.cache;
    l->moe = mem_new_array((size_t)l->count, sizeof *l->moe);
    l->scratch = mem_new_array((size_t)l->count, sizeof *l->scratch);
    s = (source){0};
    err = l->moe && l->scratch ? check_memory(&where, desc, l->count, why) : no_memory(why);
    if (!err) err = source_init(&s, desc, seed, why);
    for (int i = 0; i < l->count && !err; i++) {
        say_progress("packing layer %d of %d", i + 1, l->count);
        err = make_layer(l, i, device, &s, why);
    }
    if (!err) err = make_inputs(l, &s.random, why);
    if (!err) err = touch_all(l, seed, why);
    say_progress_end();
    mem_free(s.pool);
    mem_free(s.list);
    if (err) layers_done(l);
    return err;
}

void layers_done(layers *l) {
    for (int i = l->count - 1; l->moe && l->scratch && i >= 0; i--) {
        if (l->scratch[i] && (i == 0 || l->scratch[i] != l->scratch[0])) cadre_moe_workspace_free(l->scratch[i]);
        if (l->moe[i]) cadre_moe_free(l->moe[i]);
    }
    mem_free(l->moe);
    mem_free(l->scratch);
    mem_free(l->x);
    mem_free(l->out);
    mem_free(l->weights);
    mem_free(l->deal);
    *l = (layers){0};
}

/* ---- routings and steps ---- */

size_t layers_ids_at(const layers *l, const layer_plan *p, int set, int layer) {
    return ((size_t)set * (size_t)l->count + (size_t)layer) * (size_t)(p->m * l->desc.k);
}

cadre_err layers_plan(layers *l, const routing *r, int m, uint64_t seed, layer_plan *p, cadre_fail *why) {
    int e = l->desc.e, k = l->desc.k;
    rand_stream random = {.key = seed ^ 0x726f757465u, .counter = (uint64_t)m << 40};
    *p = (layer_plan){.m = m, .own = r->kind == ROUTING_ROUTER};
    p->ids = mem_new_array((size_t)LAYER_SETS * (size_t)l->count * (size_t)m, (size_t)k * sizeof *p->ids);
    cadre_err err = p->ids ? CADRE_OK : no_memory(why);
    for (int set = 0; set < LAYER_SETS; set++)
        for (int i = 0; i < l->count && !err; i++) {
            int32_t *ids = p->ids + layers_ids_at(l, p, set, i);
            err = r->kind >= ROUTING_ROUTER
                      ? cadre_moe_route(l->moe[i], l->scratch[i], m, l->x, ids, l->out, why)
                      : routing_draw(r, &random, l->deal + (size_t)i * (size_t)e, m, e, k, ids, why);
            if (!err) p->touched[set] += routing_load_add(&p->load, ids, m * k, e);
        }
    for (int set = 0; set < LAYER_SETS; set++) p->touched[set] /= l->count;
    if (err) layers_plan_done(p);
    return err;
}

void layers_plan_done(layer_plan *p) {
    mem_free(p->ids);
    *p = (layer_plan){0};
}

void layers_watch(layers *l, cadre_profile *profile) {
    l->watch = profile;
    for (int i = 0; i < l->count; i++) cadre_moe_profile(l->scratch[i], profile);
}

static cadre_err run_in(layers *l, const layer_plan *p, int set, int i, cadre_moe_workspace *space, cadre_fail *why) {
    return p->own ? cadre_moe_run(l->moe[i], space, p->m, l->x, l->out, why)
                  : cadre_moe_experts(l->moe[i], space, p->m, l->x, p->ids + layers_ids_at(l, p, set, i), l->weights,
                                      l->out, why);
}

static cadre_err run_layer(layers *l, const layer_plan *p, int set, int i, cadre_fail *why) {
    cadre_moe_workspace *space;
    if (l->spaces != LAYER_SPACE_FRESH) return run_in(l, p, set, i, l->scratch[i], why);
    cadre_err err = cadre_moe_workspace_new(l->moe[i], &space, why);
    if (err) return err;
    cadre_moe_profile(space, l->watch);
    err = run_in(l, p, set, i, space, why);
    cadre_moe_workspace_free(space);
    return err;
}

cadre_err layers_step(layers *l, const layer_plan *p, int set, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (int i = 0; i < l->count && !err; i++) err = run_layer(l, p, set, i, why);
    return err;
}

cadre_err layers_sha(layers *l, const layer_plan *p, int set, char hex[65], cadre_fail *why) {
    size_t bytes = (size_t)p->m * (size_t)l->desc.d * sizeof *l->out;
    cadre_err err = CADRE_OK;
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < l->count && !err; i++) {
        err = run_layer(l, p, set, i, why);
        sha256_add(&s, l->out, bytes);
    }
    sha256_hex(&s, hex);
    return err;
}

int layers_receipts(const layers *l, cadre_receipt *out, int cap) {
    enum { MOST = 64 };
    cadre_receipt more[MOST];
    int n = moe_receipts(l->moe[0], out, cap);
    for (int i = 1; i < l->count; i++) {
        moe_receipts(l->moe[i], more, MOST);
        for (int k = 0; k < n && k < cap && k < MOST; k++) out[k].runs += more[k].runs;
    }
    return n;
}
