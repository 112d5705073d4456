/* one.c: one.cu without a GPU: its text runs on this CPU, thread by thread (emulate/), for shapes and shares that the
 * plan gives, in several orders of turns.
 *
 * A step of 16 inputs is summed in double there and here, all else is docs/numerics.md, so outputs are held against a
 * chain in plain C bit for bit: cases of one shape agree too. And against the layer's meaning, within the tolerance of
 * any kernel. Launches follow one another on one workspace, and after each it is as the next one needs it. */
#include "emulate/one.h"
#include "emulate/emulate.h"
#include "op/check.h"
#include "op/cuda/args.h"
#include "plan/gpu.h"
#include "probe.h"
#include "test.h"

enum { FEW = 8 /* tokens of a launch that tells */, TOLD_EMPTY = -2, GUARD = 64 /* bytes */ };
static const float limit = 0.7f;

/* ---- a case: its weights, plain and packed, and its workspace ---- */

typedef struct rig {
    const one_case *c;
    float *gate, *up, *down; /* [e][f][d], the same, [e][d][f]; what bf16 holds */
    char *w_up, *w_down;
    float *x, *weights;    /* [d], [k] */
    int32_t *ids;          /* [k], -1: empty */
    uint16_t *h[2], *y[2]; /* of FEW tokens */
    int *told[2];          /* the same */
    int state, next;
    size_t h_row, y_row; /* elements */
} rig;

static bool gated(const one_case *c) {
    return c->act != CADRE_RELU2;
}

static float *fresh(rand_stream *r, size_t n, float scale) {
    float *v = mem_new_array(n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = op_from_bf16(op_bf16(rand_float(r) * 1.7320508f * scale));
    return v;
}

static void pack_weights(rig *g) {
    const one_case *c = g->c;
    int tiles = cuda_up_tiles(c->f, gated(c)), downs = cuda_tiles(c->d);
    size_t up = (size_t)tiles * (size_t)cuda_steps(c->d) * 512, down = (size_t)downs * (size_t)cuda_steps(c->f) * 512;
    size_t matrix = (size_t)c->d * (size_t)c->f;
    static guard at[2];
    g->w_up = guard_take(&at[0], up * (size_t)c->e), g->w_down = guard_take(&at[1], down * (size_t)c->e);
    for (size_t i = 0; i < (size_t)c->e; i++) {
        const float *first = gated(c) ? g->gate : g->up;
        one_pack(g->w_up + i * up, first + i * matrix, g->up + i * matrix, 0, gated(c) ? PACK_UP_GATED : PACK_UP, c->f,
                 c->d, tiles, cuda_steps(c->d));
        one_pack(g->w_down + i * down, g->down + i * matrix, NULL, 0, PACK_DOWN, c->d, c->f, downs, cuda_steps(c->f));
    }
}

/* As if the launch before had FEW tokens: all of the other side is written, and has to be cleared. */
static void make_space(rig *g, int parity) {
    size_t pairs = (size_t)(FEW * g->c->k);
    g->h_row = (size_t)cuda_steps(g->c->f) * 16, g->y_row = (size_t)cuda_tiles(g->c->d) * 16;
    for (int i = 0; i < 2; i++) {
        int fill = i == parity ? 0xff : 0x3f;
        g->h[i] = mem_new_array(pairs * g->h_row, 2), g->y[i] = mem_new_array(pairs * g->y_row, 2);
        g->told[i] = mem_new_array(pairs, sizeof(int));
        memset(g->h[i], fill, pairs * g->h_row * 2), memset(g->y[i], fill, pairs * g->y_row * 2);
        memset(g->told[i], fill, pairs * sizeof(int));
    }
    g->state = FEW * g->c->k << 1 | parity;
}

/* The same for all cases of a shape. */
static void rig_init(rig *g, const one_case *c, int parity) {
    rand_stream r = {.key = (uint64_t)c->d * 1000 + (uint64_t)c->f};
    size_t all = (size_t)c->e * (size_t)c->d * (size_t)c->f;
    float in = 1 / sqrtf((float)c->d);
    *g = (rig){.c = c};
    g->gate = fresh(&r, all, 2 * in), g->up = fresh(&r, all, 2 * in), g->down = fresh(&r, all, 1 / sqrtf((float)c->f));
    g->x = fresh(&r, (size_t)c->d, 1), g->weights = fresh(&r, (size_t)c->k, 1);
    g->ids = mem_new_array((size_t)c->k, sizeof *g->ids);
    pack_weights(g);
    make_space(g, parity);
}

static void rig_done(rig *g) {
    mem_free(g->gate), mem_free(g->up), mem_free(g->down), mem_free(g->x), mem_free(g->weights), mem_free(g->ids);
    for (int i = 0; i < 2; i++) mem_free(g->h[i]), mem_free(g->y[i]), mem_free(g->told[i]);
}

/* ---- what is right ---- */

/* What cvt.rn.bf16x2.f32 makes of a number. */
static float bf16_of(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return probe_bits((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}

static float chain(const float *w, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i += 16) {
        double step = sum;
        for (int j = i; j < n && j < i + 16; j++) step += (double)w[j] * (double)x[j];
        sum = (float)step;
    }
    return sum;
}

static float activate(const one_case *c, float g, float u) {
    if (c->act == CADRE_RELU2) return u > 0 ? u * u : 0;
    if (c->act == CADRE_SWIGLU_CLAMP) g = fminf(g, limit), u = fminf(fmaxf(u, -limit), limit);
    return op_silu(g) * u;
}

static void exact(const rig *g, float *out) {
    const one_case *c = g->c;
    float *h = mem_new_array((size_t)c->f, sizeof *h);
    memset(out, 0, (size_t)c->d * sizeof *out);
    for (int s = 0; s < c->k; s++) {
        if (g->ids[s] < 0) continue;
        size_t matrix = (size_t)g->ids[s] * (size_t)c->d * (size_t)c->f;
        for (int j = 0; j < c->f; j++) {
            size_t row = matrix + (size_t)j * (size_t)c->d;
            h[j] = bf16_of(activate(c, chain(g->gate + row, g->x, c->d), chain(g->up + row, g->x, c->d)));
        }
        for (int i = 0; i < c->d; i++) {
            float y = bf16_of(chain(g->down + matrix + (size_t)i * (size_t)c->f, h, c->f));
            out[i] = fmaf(g->weights[s], y, out[i]);
        }
    }
    mem_free(h);
}

/* ---- a launch ---- */

typedef struct way {
    const char *name;
    int empty; /* slots: bit i for slot i modulo 8 */
    bool x_bf16, out_bf16, at_once;
} way;

/* The router: it tells ids one after the other, and writes the weights at its end. */
typedef struct router {
    const rig *g;
    float *weights;
    int *told, turns;
} router;
static void route(void *args) {
    router *r = args;
    for (int s = 0; s < r->g->c->k; s++) {
        for (int i = 0; i < r->turns; i++) emulate_wait("its turn");
        r->told[s] = r->g->ids[s] < 0 ? TOLD_EMPTY : r->g->ids[s];
        emulate_told();
    }
    for (int i = 0; i < 4 * r->turns; i++) emulate_wait("its turn");
    memcpy(r->weights, r->g->weights, (size_t)r->g->c->k * sizeof(float));
}

static void choose(rig *g, const way *w, uint64_t seed) {
    rand_stream r = {.key = seed};
    for (int s = 0; s < g->c->k; s++) g->ids[s] = w->empty >> s % 8 & 1 ? -1 : (int)rand_below(&r, (uint32_t)g->c->e);
}

static const void *input(const rig *g, bool bf16) {
    static guard at;
    size_t d = (size_t)g->c->d;
    void *x = guard_take(&at, d * (bf16 ? 2 : 4));
    op_round(bf16 ? CADRE_BF16 : CADRE_F32, g->x, d, x);
    return x;
}

/* out: behind GUARD bytes; it ends at a guard page. */
static void run(rig *g, const way *w, uint64_t seed, char *out) {
    const one_case *c = g->c;
    int parity = g->state & 1;
    static guard weights_at;
    float *weights = guard_take(&weights_at, (size_t)c->k * sizeof *weights);
    experts_args a = {.n = 1, .w_up = g->w_up, .w_down = g->w_down, .x = input(g, w->x_bf16), .ldx = c->d, .ldo = c->d};
    a.weights = weights, a.out = out, a.next = &g->next, a.limit = limit, a.out_bf16 = w->out_bf16, a.state = &g->state;
    a.x_f32 = !w->x_bf16;
    for (int i = 0; i < 2; i++) a.told_h[i] = g->h[i], a.told_y[i] = g->y[i], a.told_ids[i] = g->told[i];
    router r = {g, weights, g->told[parity], (int)(seed % 7)};
    memset(weights, 0xff, (size_t)c->k * sizeof *weights);
    emulate_launch l = {.text = c->text,
                        .args = &a,
                        .before = route,
                        .before_args = &r,
                        .blocks = c->sms,
                        .threads = 32 * c->warps,
                        .shared = ONE_SHARED(c->warps, c->stages, c->d, c->k, c->downs),
                        .seed = seed,
                        .at_once = w->at_once};
    const char *wrong = emulate(&l);
    if (wrong) fail_msg("%s, %s: %s", c->name, w->name, wrong);
}

/* ---- what is held against it ---- */

static bool all_ones(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)p)[i] != 0xff) return false;
    return true;
}

/* The other side is clear, and the next launch's. Of this one there is h of slots that are not empty, no more. */
static void check_space(const rig *g, const way *w, int parity) {
    const one_case *c = g->c;
    size_t pairs = (size_t)(FEW * c->k), k = (size_t)c->k;
    const uint16_t *h = g->h[parity];
    if (g->next || g->state != (c->k << 1 | (parity ^ 1))) fail_msg("%s, %s: state", c->name, w->name);
    if (!all_ones(g->h[!parity], pairs * g->h_row * 2) || !all_ones(g->y[!parity], pairs * g->y_row * 2) ||
        !all_ones(g->told[!parity], pairs * sizeof(int)))
        fail_msg("%s, %s: the other side is not cleared", c->name, w->name);
    if (!all_ones(h + k * g->h_row, (pairs - k) * g->h_row * 2) || !all_ones(g->y[parity], pairs * g->y_row * 2) ||
        !all_ones(g->told[parity] + k, (pairs - k) * sizeof(int)))
        fail_msg("%s, %s: a write behind the launch's own pairs", c->name, w->name);
    for (size_t s = 0; s < k; s++)
        if (g->ids[s] < 0 && !all_ones(h + s * g->h_row, g->h_row * 2))
            fail_msg("%s, %s: h of an empty slot", c->name, w->name);
}

static void check_out(const rig *g, const way *w, const void *out) {
    const one_case *c = g->c;
    size_t d = (size_t)c->d;
    float *got = mem_new_array(d, sizeof *got), *want = mem_new_array(d, sizeof *want);
    double *meant = mem_new_array(d, sizeof *meant), most = check_tolerance(OP_EXPERTS, CADRE_BF16, c->d);
    exact(g, want);
    check_experts(1, c->d, c->f, c->k, (cadre_act)c->act, limit, g->x, gated(c) ? g->gate : NULL, g->up, g->down,
                  g->ids, g->weights, meant);
    for (size_t i = 0; i < d; i++) {
        got[i] = op_load(w->out_bf16 ? CADRE_BF16 : CADRE_F32, out, i);
        if (w->out_bf16) want[i] = bf16_of(want[i]);
    }
    for (size_t i = 0; i < d; i++)
        if (memcmp(&got[i], &want[i], 4))
            fail_msg("%s, %s: out[%zu] is %a, not %a", c->name, w->name, i, got[i], want[i]);
    double error = check_relative(got, meant, d);
    if (!(error <= most)) fail_msg("%s, %s: relative error %.2e, at most %.2e", c->name, w->name, error, most);
    mem_free(got), mem_free(want), mem_free(meant);
}

static void launch(rig *g, const way *w, uint64_t seed) {
    static guard at;
    size_t bytes = (size_t)g->c->d * (w->out_bf16 ? 2 : 4);
    char *out = (char *)guard_take(&at, bytes + GUARD) + GUARD;
    int parity = g->state & 1;
    memset(out - GUARD, 0xff, bytes + GUARD);
    choose(g, w, seed);
    run(g, w, seed, out);
    check_out(g, w, out);
    check_space(g, w, parity);
    if (!all_ones(out - GUARD, GUARD)) fail_msg("%s, %s: a write before out", g->c->name, w->name);
}

/* ---- the tests ---- */

static const way ways[] = {
    {.name = "all slots"},
    {.name = "bf16", .x_bf16 = true, .out_bf16 = true},
    {.name = "empty slots", .empty = 0x55, .x_bf16 = true},
    {.name = "no slot", .empty = 0xff, .out_bf16 = true},
    {.name = "other empty slots", .empty = 0xaa},
    {.name = "copies at once", .x_bf16 = true, .at_once = true},
};

static void outputs(void **state) {
    (void)state;
    enum { WAYS = sizeof ways / sizeof *ways };
    for (int i = 0; one_cases[i]; i++) {
        rig g;
        rig_init(&g, one_cases[i], i % 2);
        for (int j = 0; j < WAYS; j++) launch(&g, &ways[j], (uint64_t)(i * WAYS + j));
        rig_done(&g);
    }
}

static void ahead(int kb) {
    char text[32];
    snprintf(text, sizeof text, "gpu.ahead=%d", kb);
    set_switch(text);
}

/* Each case is compiled as the plan would have it, and the plan would take one.cu. */
static void planned(void **state) {
    (void)state;
    for (const one_case *const *at = one_cases; *at; at++) {
        const one_case *c = *at;
        plan_gpu p;
        cadre_fail why = {0};
        plan_gpu_key key = {c->d, c->f, c->e, c->k, (cadre_act)c->act, c->sms, c->smem, true, "experts", true};
        ahead(c->ahead);
        if (plan_gpu_make(&key, &p, &why)) fail_msg("%s: %s", c->name, why.text);
        ahead(PLAN_GPU_POLICY);
        plan_gpu_share s = plan_gpu_one(&key, &p.rows[0]);
        if (!p.rows[0].knobs.one) fail_msg("%s: the plan takes another kernel", c->name);
        if (c->stages != s.stages || c->flying != s.flying || c->warps != s.warps || c->downs != s.downs)
            fail_msg("%s: the plan has stages %d, flying %d, warps %d, downs %d", c->name, s.stages, s.flying, s.warps,
                     s.downs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned),
        cmocka_unit_test(outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
