/* problem.h: problems for every family of kernels: awkward shapes, fresh inputs that end at guard pages, outputs that
 * start as noise, and one way to run a kernel over them in pieces. kernels.c walks them. */
#ifndef TESTS_OP_PROBLEM_H
#define TESTS_OP_PROBLEM_H
#include <stdlib.h>

#include "op/align.h"
#include "op/quant.h"
#include "probe.h"

/* One output: n values of which `used` of every `ld` are compared. It is filled from `start` before each run. */
typedef struct area {
    cadre_dtype t;
    size_t n, ld, used;
    void *data, *start, *want;
} area;

enum { AREAS = 2, ATTN_ROWS = 6 };

typedef struct problem {
    op_family family;
    cadre_dtype t;
    int index;
    uint64_t seed;
    flavour flavour;
    rand_stream r;
    char text[200];
    int units;
    double work; /* fused multiply-adds */
    union {
        op_dense dense;
        op_experts experts;
        op_norm norm;
        op_attn attn;
    } a;
    op_attn_row rows[ATTN_ROWS];
    int outs;
    area out[AREAS];
} problem;

/* ---- memory: one slot per role, taken again for each problem ---- */
enum slot {
    AT_X,
    AT_W,
    AT_W2,
    AT_BIAS,
    AT_SOURCE,
    AT_SOURCE2,
    AT_PLAIN,
    AT_IDS,
    AT_OFFSET,
    AT_PAIR,
    AT_ROW,
    AT_WEIGHT,
    AT_SLOTS,
    AT_DATA, /* AREAS of each */
    AT_START = AT_DATA + AREAS,
    AT_WANT = AT_START + AREAS,
    AT_CACHE = AT_WANT + AREAS,
    SLOTS = AT_CACHE + 2 * ATTN_ROWS,
};
static guard slots[SLOTS];

static void *take(int slot, size_t n, size_t size) {
    return guard_take(&slots[slot], n * size);
}

static const int sides[] = {1, 15, 16, 17, 31, 50, 64, 130};
static const int counts[] = {0, 1, 2, 3, 5, 8, 17, 33};
enum { SIDES = 8, COUNTS = 8 };

static int any(problem *p, int n) {
    return (int)rand_below(&p->r, (uint32_t)n);
}
static int any_of(problem *p, const int *list, int n) {
    return list[any(p, n)];
}

/* An output of `rows` rows, in noise of the plain flavour: padding must keep it, sums are added to it. */
static void *add_area(problem *p, cadre_dtype t, int rows, size_t ld, size_t used) {
    area *a = &p->out[p->outs];
    *a = (area){.t = t, .n = (size_t)rows * ld, .ld = ld, .used = used};
    a->data = take(AT_DATA + p->outs, a->n, op_dtype_size(t));
    a->start = take(AT_START + p->outs, a->n, op_dtype_size(t));
    a->want = take(AT_WANT + p->outs, a->n, op_dtype_size(t));
    probe_fill(&p->r, PLAIN, t, a->start, a->n);
    p->outs++;
    return a->data;
}

static void *values(problem *p, int slot, cadre_dtype t, size_t n) {
    void *data = take(slot, n, op_dtype_size(t));
    probe_fill(&p->r, p->flavour, t, data, n);
    return data;
}

/* Activations: rows of `in` values, padding zero; the stride is the least one or whole lines. */
static void *activations(problem *p, cadre_dtype t, int rows, int in, size_t *ld) {
    *ld = any(p, 2) && !op_is_quant(t) ? (size_t)op_padded(t, in) : op_stride(t, in);
    char *x = take(AT_X, (size_t)rows * *ld, op_dtype_size(t));
    memset(x, 0, (size_t)rows * *ld * op_dtype_size(t));
    float *plain = take(AT_PLAIN, (size_t)in, sizeof *plain);
    for (int i = 0; i < rows; i++) {
        char *row = x + (size_t)i * *ld * op_dtype_size(t);
        probe_fill(&p->r, p->flavour, op_is_quant(t) ? CADRE_F32 : t, op_is_quant(t) ? (void *)plain : row, (size_t)in);
        if (op_is_quant(t)) quant_row(plain, in, row);
    }
    return x;
}

static void pack(problem *p, int out, int in, bool gated, void *dst) {
    cadre_dtype source = op_is_quant(p->t) ? CADRE_F32 : p->t;
    cadre_tensor w = {values(p, AT_SOURCE, source, (size_t)out * (size_t)in), source}, up = {NULL, source};
    if (gated) up.data = values(p, AT_SOURCE2, source, (size_t)out * (size_t)in);
    op_pack(p->t, out, in, w, up, 0, op_panels(out), dst);
}

static size_t packed(const problem *p, int out, int in, bool gated) {
    size_t bytes = 0;
    assert_true(op_packed_bytes(p->t, out, in, gated, &bytes));
    return bytes;
}

/* ---- dense ---- */
static bool build_dense(problem *p) {
    if (p->index >= COUNTS * SIDES * SIDES) return false;
    int n = counts[p->index % COUNTS], in = sides[p->index / 8 % SIDES], out = sides[p->index / 64];
    op_dense *a = &p->a.dense;
    *a = (op_dense){.n = n, .in = in, .out = out, .add = any(p, 2)};
    a->x = activations(p, p->t, n, in, &a->ldx);
    void *w = take(AT_W, packed(p, out, in, false), 1);
    pack(p, out, in, false, w);
    a->w = w;
    if (any(p, 2)) a->bias = values(p, AT_BIAS, CADRE_F32, (size_t)out);
    a->ldy = (size_t)(out + (any(p, 2) ? 3 : 0));
    a->y = add_area(p, CADRE_F32, n, a->ldy, a->ldy);
    p->units = op_panels(out);
    p->work = (double)n * in * out;
    snprintf(p->text, sizeof p->text, "n=%d in=%d out=%d bias=%d add=%d ldx=%zu ldy=%zu", n, in, out, a->bias != NULL,
             a->add, a->ldx, a->ldy);
    return true;
}

/* ---- experts ---- */
enum routing { DISTINCT, ONE_TAKES_ALL, HOLES, NOBODY, REPEATS, ROUTINGS };

static void route_token(problem *p, int32_t *ids, int e, int k, int favourite, enum routing kind) {
    int first = any(p, e), step = 1 + any(p, e); /* distinct while k <= e / gcd(step, e): take care of the rest */
    for (int s = 0; s < k; s++) {
        ids[s] = kind == REPEATS ? any(p, e) : (first + s * step) % e;
        for (int t = 0; kind != REPEATS && t < s; t++) {
            if (ids[t] == ids[s]) { /* move on and look at all of them again */
                ids[s] = (ids[s] + 1) % e;
                t = -1;
            }
        }
    }
    for (int s = 0; s < k; s++) {
        if (kind == ONE_TAKES_ALL && k == 1) ids[s] = favourite;
        if (kind == ONE_TAKES_ALL && k > 1) ids[s] = s == 0 ? favourite : ids[s] == favourite ? -1 : ids[s];
        if (kind == NOBODY || (kind == HOLES && any(p, 3) == 0)) ids[s] = -1;
    }
}

static void route(problem *p, op_experts *a, enum routing kind) {
    size_t pairs = (size_t)a->n * (size_t)a->k;
    int32_t *ids = take(AT_IDS, pairs, 4), *offset = take(AT_OFFSET, (size_t)a->e + 1, 4);
    int favourite = any(p, a->e);
    for (int i = 0; i < a->n; i++) route_token(p, ids + (size_t)i * (size_t)a->k, a->e, a->k, favourite, kind);
    int32_t rows = 0;
    for (size_t i = 0; i < pairs; i++) rows += ids[i] >= 0;
    int32_t *pair = take(AT_PAIR, (size_t)rows, 4), *row = take(AT_ROW, pairs, 4);
    assert_int_equal(align_rows(ids, (int32_t)pairs, a->e, offset, pair, row), rows);
    a->offset = offset;
    a->pair = pair;
    a->row = row;
    float *weight = take(AT_WEIGHT, pairs, 4);
    probe_fill(&p->r, PLAIN, CADRE_F32, weight, pairs);
    a->weight = weight;
}

static void pack_experts(problem *p, op_experts *a) {
    bool gated = a->act != CADRE_RELU2;
    a->up_stride = packed(p, a->f, a->d, gated);
    a->down_stride = packed(p, a->d, a->f, false);
    char *up = take(AT_W, (size_t)a->e, a->up_stride), *down = take(AT_W2, (size_t)a->e, a->down_stride);
    for (int i = 0; i < a->e; i++) {
        pack(p, a->f, a->d, gated, up + (size_t)i * a->up_stride);
        pack(p, a->d, a->f, false, down + (size_t)i * a->down_stride);
    }
    a->w_up = up;
    a->w_down = down;
}

static bool build_experts(problem *p) {
    static const int es[] = {1, 4, 5, 8, 9, 16, 6, 7}, ks[] = {1, 1, 2, 3, 8, 6, 4, 5};
    if (p->index >= COUNTS * 8 * 3) return false;
    int n = counts[p->index % COUNTS], shape = p->index / 8 % 8;
    op_experts *a = &p->a.experts;
    *a = (op_experts){.n = n, .e = es[shape], .k = ks[shape], .act = (cadre_act)(p->index / 64), .limit = 0.5f};
    a->d = any_of(p, sides, SIDES);
    a->f = any_of(p, sides, SIDES);
    a->add = any(p, 2);
    a->x = activations(p, p->t, n, a->d, &a->ldx);
    enum routing kind = (enum routing)any(p, ROUTINGS);
    route(p, a, kind);
    pack_experts(p, a);
    a->ldo = (size_t)(a->d + (any(p, 2) ? 3 : 0));
    a->out = add_area(p, CADRE_F32, n, a->ldo, a->ldo);
    a->ldh = any(p, 2) && !op_is_quant(p->t) ? (size_t)op_padded(p->t, a->f) : op_stride(p->t, a->f);
    size_t used = op_is_quant(p->t) ? (size_t)quant_blocks(a->f) * (OP_BLOCK + 8) : (size_t)a->f;
    a->h = add_area(p, p->t, a->offset[a->e], a->ldh, used);
    memset(p->out[1].start, 0xff, p->out[1].n * op_dtype_size(p->t)); /* NaN: padding that is read must be written */
    p->units = op_panels(a->d);
    p->work = 3.0 * a->offset[a->e] * a->d * a->f;
    snprintf(p->text, sizeof p->text, "n=%d d=%d f=%d e=%d k=%d act=%d routing=%d add=%d ldx=%zu ldh=%zu ldo=%zu", n,
             a->d, a->f, a->e, a->k, (int)a->act, (int)kind, a->add, a->ldx, a->ldh, a->ldo);
    return true;
}

/* ---- norm ---- */
static bool build_norm(problem *p) {
    static const int widths[] = {1, 15, 16, 17, 31, 50, 64, 130, 257, 2048};
    enum { Y, Z_BF16, Z_F32, BOTH, IN_PLACE, MODES };
    if (p->index >= COUNTS * 10 * MODES) return false;
    int n = counts[p->index % COUNTS], d = widths[p->index / 8 % 10], mode = p->index / 80;
    op_norm *a = &p->a.norm;
    *a = (op_norm){.n = n, .d = d, .eps = 1e-6f, .ztype = mode == Z_F32 ? CADRE_F32 : CADRE_BF16};
    a->ldx = (size_t)(d + (any(p, 2) ? 5 : 0));
    a->weight = values(p, AT_BIAS, CADRE_F32, (size_t)d);
    if (mode == IN_PLACE) {
        a->ldy = a->ldx;
        a->x = a->y = add_area(p, CADRE_F32, n, a->ldy, a->ldy);
        probe_fill(&p->r, p->flavour, CADRE_F32, p->out[0].start, p->out[0].n);
    } else {
        a->x = values(p, AT_X, CADRE_F32, (size_t)n * a->ldx);
    }
    if (mode == Y || mode == BOTH) {
        a->ldy = (size_t)(d + (any(p, 2) ? 3 : 0));
        a->y = add_area(p, CADRE_F32, n, a->ldy, a->ldy);
    }
    if (mode != Y) {
        a->ldz = any(p, 2) ? (size_t)op_padded(a->ztype, d) : op_stride(a->ztype, d);
        a->z = add_area(p, a->ztype, n, a->ldz, a->ldz);
    }
    p->units = n;
    p->work = (double)n * d;
    snprintf(p->text, sizeof p->text, "n=%d d=%d mode=%d ldx=%zu ldy=%zu ldz=%zu", n, d, mode, a->ldx, a->ldy, a->ldz);
    return true;
}

/* ---- attn ---- */
static bool build_attn(problem *p) {
    static const int groups[] = {1, 2, 3, 4, 8}, dims[] = {16, 20, 32, 64, 80, 128, 260};
    static const int positions[ATTN_ROWS] = {300, 0, 1, 127, 128, 129};
    enum { GROUPS = 5, DIMS = 7 };
    if (p->index >= 3 * GROUPS * DIMS) return false;
    int n = p->index < GROUPS * DIMS ? ATTN_ROWS : any(p, 4), first = n == ATTN_ROWS ? 0 : any(p, ATTN_ROWS);
    op_attn *a = &p->a.attn;
    *a = (op_attn){.n = n, .head_dim = dims[p->index % DIMS], .kv_heads = 1 + any(p, 3), .rows = p->rows};
    a->heads = a->kv_heads * groups[p->index / DIMS % GROUPS];
    a->scale = 1.0f / sqrtf((float)a->head_dim);
    for (int i = 0; i < n; i++) {
        int position = positions[(first + i) % ATTN_ROWS];
        size_t size = (size_t)(position + 1) * (size_t)a->kv_heads * (size_t)a->head_dim;
        p->rows[i] = (op_attn_row){values(p, AT_CACHE + 2 * i, p->t, size), values(p, AT_CACHE + 2 * i + 1, p->t, size),
                                   position};
        p->work += 2.0 * (position + 1) * a->heads * a->head_dim;
    }
    size_t width = (size_t)a->heads * (size_t)a->head_dim;
    a->ldq = width + (any(p, 2) ? 3 : 0);
    a->q = values(p, AT_X, CADRE_F32, (size_t)n * a->ldq);
    a->otype = any(p, 2) ? CADRE_F32 : CADRE_BF16;
    a->ldo = width + (any(p, 2) ? 5 : 0);
    a->out = add_area(p, a->otype, n, a->ldo, a->ldo);
    p->units = n * a->kv_heads;
    snprintf(p->text, sizeof p->text, "n=%d from %d heads=%d kv_heads=%d head_dim=%d otype=%d ldq=%zu ldo=%zu", n,
             positions[first], a->heads, a->kv_heads, a->head_dim, (int)a->otype, a->ldq, a->ldo);
    return true;
}

/* Problem number `index` of a family; false past the last. */
static bool problem_build(problem *p, op_family family, cadre_dtype t, int index, uint64_t seed) {
    static bool (*const build[])(problem *) = {
        [OP_DENSE] = build_dense, [OP_EXPERTS] = build_experts, [OP_NORM] = build_norm, [OP_ATTN] = build_attn};
    *p = (problem){.family = family, .t = t, .index = index, .seed = seed};
    p->r = (rand_stream){seed, (uint64_t)index << 32 | (uint64_t)family << 24 | (uint64_t)t << 20};
    int kind = any(p, 6);
    p->flavour = kind < 3 ? PLAIN : kind < 5 ? TINY : LARGE;
    return build[family](p);
}

/* ---- running ---- */
enum { CUT_WHOLE, CUT_SINGLES, CUT_UNEVEN, CUTS };

/* The next piece of [0, units), at most `most` long: as long as may be; one by one from the end; or 0, 1, 2, 3, 0, 1
 * ... at a time. `state` starts at 0. */
static bool piece(int cut, int units, int most, int state[2], int *lo, int *hi) {
    int want = cut == CUT_WHOLE ? units : cut == CUT_SINGLES ? 1 : state[1]++ % 4;
    if (want > most) want = most;
    if (want > units - state[0]) want = units - state[0];
    if (state[0] >= units) return false;
    *lo = cut == CUT_SINGLES ? units - state[0] - 1 : state[0];
    *hi = *lo + want;
    state[0] += want;
    return true;
}

static void run_experts(const op_kernel *kernel, const op_knobs *knobs, int cut, problem *p) {
    op_experts *a = &p->a.experts;
    int lo, hi, columns = knobs->experts.columns;
    for (int i = 0; i < a->e; i++) {
        int expert = cut == CUT_WHOLE ? i : a->e - 1 - i;
        int panels = op_panels(a->f), step = op_up_step(p->t), units = (panels + step - 1) / step;
        for (int s[2] = {0}; piece(cut, units, units, s, &lo, &hi);)
            kernel->run.experts.up(a, &knobs->experts, expert, lo * step, hi * step < panels ? hi * step : panels);
    }
    size_t scratch = (size_t)a->offset[a->e] * OP_LANES * (size_t)columns;
    a->slots = take(AT_SLOTS, scratch, 4);
    for (int s[2] = {0}; piece(cut, p->units, columns, s, &lo, &hi);) {
        memset(a->slots, 0xff, scratch * 4);
        kernel->run.experts.down(a, &knobs->experts, lo, hi);
    }
}

static void run_piece(const op_kernel *kernel, const op_knobs *knobs, problem *p, int lo, int hi) {
    if (p->family == OP_DENSE) kernel->run.dense(&p->a.dense, &knobs->dense, lo, hi);
    if (p->family == OP_NORM) kernel->run.norm(&p->a.norm, &knobs->norm, lo, hi);
    if (p->family == OP_ATTN) kernel->run.attn(&p->a.attn, &knobs->attn, lo, hi);
}

static void problem_run(const op_kernel *kernel, const op_knobs *knobs, int cut, problem *p) {
    int lo, hi;
    for (int i = 0; i < p->outs; i++) memcpy(p->out[i].data, p->out[i].start, p->out[i].n * op_dtype_size(p->out[i].t));
    if (p->family == OP_EXPERTS) {
        run_experts(kernel, knobs, cut, p);
        return;
    }
    for (int s[2] = {0}; piece(cut, p->units, p->units, s, &lo, &hi);) run_piece(kernel, knobs, p, lo, hi);
}

/* What the outputs hold now is what every kernel must give. */
static void problem_keep(problem *p) {
    for (int i = 0; i < p->outs; i++) memcpy(p->out[i].want, p->out[i].data, p->out[i].n * op_dtype_size(p->out[i].t));
}

/* The first value that differs; false if none does. */
static bool problem_differs(const problem *p, int *output, size_t *index) {
    for (int i = 0; i < p->outs; i++) {
        const area *a = &p->out[i];
        size_t size = op_dtype_size(a->t);
        for (size_t row = 0; a->ld > 0 && row < a->n / a->ld; row++) {
            int64_t at = probe_differs(a->t, (char *)a->data + row * a->ld * size, (char *)a->want + row * a->ld * size,
                                       a->used);
            if (at < 0) continue;
            *output = i;
            *index = row * a->ld + (size_t)at;
            return true;
        }
    }
    return false;
}
#endif
