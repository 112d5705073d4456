/* verify.c: random problems of each family, run by a kernel and by op/ref. A compact check for a user's machine; the
 * thorough one, with guard pages and every setting, is tests/op. */
#include "verify.h"
#include "op/align.h"
#include <math.h>
#include <string.h>

enum { ARENA = 24 << 20, SETTINGS = 4 };

typedef struct problem {
    op_family family;
    cadre_dtype t;
    rand_stream r;
    arena arena;
    int units;
    union {
        op_dense dense;
        op_experts experts;
        op_norm norm;
        op_attn attn;
    } a;
    void *out, *want; /* [bytes] */
    size_t bytes;
} problem;

static int between(problem *p, int lo, int hi) {
    return lo + (int)rand_below(&p->r, (uint32_t)(hi - lo + 1));
}

/* Values in [-1, 1), one in sixteen so small that products are denormal. */
static void *values(problem *p, cadre_dtype t, size_t rows, size_t ld, size_t used) {
    char *data = arena_take(&p->arena, rows * ld, op_dtype_size(t));
    for (size_t i = 0; data && i < rows * ld; i++) {
        float v = i % ld < used ? rand_float(&p->r) : 0; /* padding is zero */
        if (!rand_below(&p->r, 16)) v *= 0x1p-120f;
        if (t == CADRE_F32)
            ((float *)(void *)data)[i] = v;
        else
            ((uint16_t *)(void *)data)[i] = op_bf16(v);
    }
    return data;
}

/* Rows as a product takes them: rounded or quantized from values like those above. */
static void *activations(problem *p, cadre_dtype t, size_t rows, size_t ld, size_t used) {
    if (!op_is_quant(t)) return values(p, t, rows, ld, used);
    const float *plain = values(p, CADRE_F32, rows, used, used);
    char *data = arena_take(&p->arena, rows, ld);
    for (size_t i = 0; plain && data && i < rows; i++) op_round_row(t, plain + i * used, (int)used, data + i * ld);
    return data;
}

static void *packed(problem *p, int count, int out, int in, bool gated, size_t *stride) {
    if (!op_packed_bytes(p->t, out, in, gated, stride)) return NULL;
    char *w = arena_take(&p->arena, (size_t)count, *stride);
    for (int i = 0; w && i < count; i++) {
        cadre_dtype t = op_is_quant(p->t) ? CADRE_F32 : p->t;
        cadre_tensor a = {values(p, t, (size_t)out, (size_t)in, (size_t)in), t}, b = {NULL, t};
        if (gated) b.data = values(p, t, (size_t)out, (size_t)in, (size_t)in);
        if (p->arena.overflow) return NULL;
        op_pack(p->t, out, in, a, b, 0, op_panels(out), w + (size_t)i * *stride);
    }
    return w;
}

/* An output of n values, and its copy that op/ref fills. */
static void *output(problem *p, cadre_dtype t, size_t n) {
    p->bytes = n * op_dtype_size(t);
    p->out = arena_take(&p->arena, n, op_dtype_size(t));
    p->want = arena_take(&p->arena, n, op_dtype_size(t));
    return p->out;
}

static void build_dense(problem *p) {
    op_dense *a = &p->a.dense;
    size_t stride;
    *a = (op_dense){.n = between(p, 1, 17), .in = between(p, 1, 150), .out = between(p, 1, 90)};
    a->ldx = op_stride(p->t, a->in);
    a->x = values(p, p->t, (size_t)a->n, a->ldx, (size_t)a->in);
    a->w = packed(p, 1, a->out, a->in, false, &stride);
    a->bias = values(p, CADRE_F32, 1, (size_t)a->out, (size_t)a->out);
    a->ldy = (size_t)a->out;
    a->y = output(p, CADRE_F32, (size_t)a->n * a->ldy);
    p->units = op_panels(a->out);
}

static void build_experts(problem *p) {
    op_experts *a = &p->a.experts;
    *a = (op_experts){.n = between(p, 1, 20),
                      .d = between(p, 1, 90),
                      .f = between(p, 1, 60),
                      .e = between(p, 2, 9),
                      .act = (cadre_act)between(p, 0, 2),
                      .limit = 0.5f};
    a->k = between(p, 1, a->e < 4 ? a->e : 4);
    size_t pairs = (size_t)(a->n * a->k);
    int32_t *ids = arena_take(&p->arena, pairs, 4), *offset = arena_take(&p->arena, (size_t)a->e + 1, 4);
    int32_t *pair = arena_take(&p->arena, pairs, 4), *row = arena_take(&p->arena, pairs, 4);
    for (size_t i = 0; i < pairs; i++) ids[i] = (int32_t)((i / (size_t)a->k * 7 + i % (size_t)a->k) % (size_t)a->e);
    int32_t rows = align_rows(ids, (int32_t)pairs, a->e, offset, pair, row);
    a->offset = offset, a->pair = pair, a->row = row;
    a->ldx = op_stride(p->t, a->d);
    a->x = activations(p, p->t, (size_t)a->n, a->ldx, (size_t)a->d);
    a->w_up = packed(p, a->e, a->f, a->d, a->act != CADRE_RELU2, &a->up_stride);
    a->w_down = packed(p, a->e, a->d, a->f, false, &a->down_stride);
    a->ldh = op_stride(p->t, a->f);
    a->h = arena_take(&p->arena, (size_t)rows * a->ldh, op_dtype_size(p->t));
    a->weight = values(p, CADRE_F32, 1, pairs, pairs);
    a->slots = arena_take(&p->arena, (size_t)rows * OP_LANES * 8, sizeof(float));
    a->ldo = (size_t)a->d;
    a->out = output(p, CADRE_F32, (size_t)a->n * a->ldo);
    p->units = op_panels(a->d);
}

static void build_norm(problem *p) {
    op_norm *a = &p->a.norm;
    *a = (op_norm){.n = between(p, 1, 9), .d = between(p, 1, 300), .eps = 1e-6f};
    a->ldx = a->ldy = (size_t)a->d;
    a->x = values(p, CADRE_F32, (size_t)a->n, a->ldx, a->ldx);
    a->weight = values(p, CADRE_F32, 1, a->ldx, a->ldx);
    a->y = output(p, CADRE_F32, (size_t)a->n * a->ldy);
    p->units = a->n;
}

static void build_attn(problem *p) {
    enum { ROWS = 4 };
    op_attn *a = &p->a.attn;
    op_attn_row *rows = arena_take(&p->arena, ROWS, sizeof *rows);
    *a = (op_attn){.n = between(p, 1, ROWS),
                   .kv_heads = between(p, 1, 3),
                   .head_dim = 4 * between(p, 4, 20),
                   .rows = rows,
                   .otype = p->t};
    a->heads = a->kv_heads * between(p, 1, 5);
    a->scale = 1 / sqrtf((float)a->head_dim);
    for (int i = 0; i < a->n; i++) {
        size_t width = (size_t)(a->kv_heads * a->head_dim);
        rows[i].position = between(p, 0, 280); /* up to three splits */
        rows[i].k = values(p, p->t, (size_t)rows[i].position + 1, width, width);
        rows[i].v = values(p, p->t, (size_t)rows[i].position + 1, width, width);
    }
    a->ldq = a->ldo = (size_t)(a->heads * a->head_dim);
    a->q = values(p, CADRE_F32, (size_t)a->n, a->ldq, a->ldq);
    a->out = output(p, a->otype, (size_t)a->n * a->ldo);
    p->units = a->n * a->kv_heads;
}

static void run_experts(const op_kernel *k, const experts_knobs *knobs, const op_experts *a, int units) {
    for (int e = 0; e < a->e; e++) k->run.experts.up(a, knobs, e, 0, op_panels(a->f));
    for (int lo = 0; lo < units; lo += knobs->columns)
        k->run.experts.down(a, knobs, lo, lo + knobs->columns < units ? lo + knobs->columns : units);
}

static void run(const op_kernel *k, const op_knobs *knobs, problem *p) {
    memset(p->out, 0xff, p->bytes); /* NaN: what is left out shows */
    switch (p->family) {
    case OP_DENSE:
        k->run.dense(&p->a.dense, &knobs->dense, 0, p->units);
        break;
    case OP_EXPERTS:
        run_experts(k, &knobs->experts, &p->a.experts, p->units);
        break;
    case OP_NORM:
        k->run.norm(&p->a.norm, &knobs->norm, 0, p->units);
        break;
    case OP_ATTN:
        k->run.attn(&p->a.attn, &knobs->attn, 0, p->units);
        break;
    default:
        break;
    }
}

static bool build(problem *p) {
    static void (*const builders[])(problem *) = {
        [OP_DENSE] = build_dense, [OP_EXPERTS] = build_experts, [OP_NORM] = build_norm, [OP_ATTN] = build_attn};
    p->arena.used = 0;
    builders[p->family](p);
    return !p->arena.overflow;
}

/* Default settings first, then random ones made legal. */
static void choose_knobs(problem *p, const op_kernel *k, int setting, op_knobs *knobs) {
    const op_family_def *family = &op_families[k->family];
    op_knobs_default(k->family, knobs);
    for (int i = 0; setting && i < family->count; i++) {
        int v = family->knobs[i].low;
        while (v < family->knobs[i].high && rand_below(&p->r, 2)) v *= 2;
        knobs->v[i] = v;
    }
    op_knobs_fit(k, knobs);
}

typedef struct proof {
    const op_kernel *kernel;
    int problems;
    uint64_t seed, bad;
    char *memory;
    bool overflow;
} proof;

/* Inside a team, where denormals are flushed as docs/numerics.md asks; one member does the work. */
static void prove(void *ctx, team *t) {
    proof *v = ctx;
    const op_kernel *k = v->kernel, *ref = op_find(k->family, k->dtype, OP_ISA_REF);
    if (team_id(t)) return;
    problem p = {.family = k->family, .t = k->dtype, .r = {.key = v->seed}};
    p.arena = (arena){.base = v->memory, .size = ARENA};
    for (int i = 0; i < v->problems && !v->overflow; i++) {
        op_knobs knobs;
        if (!build(&p)) {
            v->overflow = true;
            return;
        }
        op_knobs_default(k->family, &knobs);
        run(ref, &knobs, &p);
        memcpy(p.want, p.out, p.bytes);
        for (int s = 0; s < SETTINGS; s++) {
            choose_knobs(&p, k, s, &knobs);
            run(k, &knobs, &p);
            v->bad += memcmp(p.want, p.out, p.bytes) != 0;
        }
    }
}

cadre_err verify_kernel(cadre_device *device, const op_kernel *kernel, int problems, uint64_t seed, uint64_t *bad,
                        cadre_fail *why) {
    proof v = {.kernel = kernel, .problems = problems, .seed = seed, .memory = mem_new(ARENA)};
    if (!v.memory) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the proofs");
    pool_run(device->threads, prove, &v);
    mem_free(v.memory);
    if (v.overflow) return cadre_fail_set(why, CADRE_NOMEM, "a proof's problem is larger than its memory");
    *bad = v.bad;
    return CADRE_OK;
}
