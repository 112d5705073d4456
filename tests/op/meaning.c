/* meaning.c: op/ref against the meaning in double (op/check.h), within the tolerance of each family and type, and the
 * scalar functions against double or every bit pattern. What kernels.c does not look at: whether the bits are right. */
#include <stdlib.h>

#include "op/align.h"
#include "op/check.h"
#include "op/exp.h"
#include "probe.h"

static void field(const char *id) {
    printf("field %s ok\n", id);
}

/* ---- exp, sigmoid, silu ---- */

static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - 24);
}

/* The largest error over every `step`-th float from +-2^-30 to +-88, and the number of falls as x rises. */
static double worst_exp(uint32_t step, long *falls) {
    double worst = 0;
    for (int side = 0; side < 2; side++) {
        float last = 1;
        for (uint32_t u = 0x30800000u; u <= 0x42b00000u; u += step) {
            float x = probe_bits(u | (uint32_t)side << 31), y = op_exp(x);
            if (x <= EXP_LOW) break;
            worst = fmax(worst, ulps(y, exp(x)));
            *falls += side == 0 ? y < last : y > last;
            last = y;
        }
    }
    return worst;
}

static void exp_is_close(void **state) {
    (void)state;
    long falls = 0;
    double worst = worst_exp(61, &falls);
    printf("exp: largest error %.4f ulp, %ld falls\n", worst, falls);
    assert_true(worst < 1.0 && worst > 0.4);
    assert_int_equal(falls, 0);
}

static void exp_at_its_ends(void **state) {
    (void)state;
    assert_true(op_exp(0.0f) == 1.0f && op_exp(-0.0f) == 1.0f);
    assert_true(op_exp(0x1p-60f) == 1.0f && op_exp(-0x1p-60f) == 1.0f);
    assert_true(op_exp(-87.0f) == 0.0f && op_exp(-INFINITY) == 0.0f);
    assert_true(op_exp(nextafterf(-87.0f, 0)) > 0x1p-126f);
    assert_true(op_exp(88.0f) == op_exp(1000.0f) && op_exp(INFINITY) == op_exp(88.0f));
    assert_true(ulps(op_exp(88.0f), exp(88)) < 1);
    assert_true(isnan(op_exp(NAN)) && isnan(op_sigmoid(NAN)) && isnan(op_silu(NAN)));
}

static void sigmoid_is_close(void **state) {
    (void)state;
    for (float x = -87; x <= 87; x += 0.0625f + 0x1p-9f) {
        double s = 1 / (1 + exp(-(double)x));
        assert_true(ulps(op_sigmoid(x), s) < 2.5);
        if (x != 0) assert_true(ulps(op_silu(x), x * s) < 2.5);
    }
    assert_true(op_sigmoid(0) == 0.5f && op_silu(0) == 0.0f);
    assert_true(op_sigmoid(INFINITY) == 1.0f && op_silu(INFINITY) == INFINITY);
    assert_true(op_silu(-1000.0f) < 0 && op_silu(-1000.0f) > -1e-34f);
}

/* ---- bf16, f16 ---- */

static uint16_t bf16_of(uint32_t bits) {
    return op_bf16(probe_bits(bits));
}

static void bf16_every_pattern(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 0x10000; v++) {
        uint32_t size = v & 0x7fff, sign = v & 0x8000, u = v << 16;
        if (size > 0x7f80) { /* NaN, also one whose payload is all in the lower half */
            assert_int_equal(bf16_of(u), v | 0x40);
            assert_int_equal(bf16_of(u | 0xffff), v | 0x40);
        } else if (size == 0x7f80) {
            assert_int_equal(bf16_of(u), v);
            assert_int_equal(bf16_of(u | 1), v | 0x40);
        } else if (size < 0x80) { /* denormals lose everything but their sign, even just below the least normal */
            assert_int_equal(bf16_of(u), sign);
            assert_int_equal(bf16_of(u | 0xffff), sign);
        } else {
            assert_int_equal(bf16_of(u), v);
            assert_int_equal(bf16_of(u | 0x7fff), v);
            assert_int_equal(bf16_of(u | 0x8000), v + (v & 1));
            assert_int_equal(bf16_of(u | 0x8001), v + 1); /* the largest becomes infinity */
        }
        assert_true(op_from_bf16((uint16_t)v) == probe_bits(u) || size > 0x7f80);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vl,avx512bf16"))) static uint16_t instruction(float v) {
    __m128bh r = _mm_cvtneps_pbh(_mm_set1_ps(v));
    uint16_t out;
    memcpy(&out, &r, sizeof out);
    return out;
}
#endif

static void bf16_as_the_instruction(void **state) {
    (void)state;
#if defined(__x86_64__)
    if (probe_lacks(OP_ISA_AVX512BF16) == NULL) {
        rand_stream r = {7, 0};
        for (int i = 0; i < 4000000; i++) {
            uint32_t u = rand_u32(&r);
            if (i % 4 == 0) u &= 0x80ffffffu; /* more denormals */
            if (bf16_of(u) != instruction(probe_bits(u))) fail_msg("%08x", u);
        }
        return;
    }
#endif
    skip();
}

static void f16_every_pattern(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 0x10000; v++) {
        int exponent = v >> 10 & 31, fraction = v & 1023;
        double sign = v & 0x8000 ? -1 : 1, want = sign * ldexp(fraction, -24);
        if (exponent > 0) want = sign * ldexp(1024 + fraction, exponent - 25);
        float got = op_from_f16((uint16_t)v);
        if (exponent == 31) {
            assert_true(fraction ? isnan(got) : got == sign * INFINITY);
        } else {
            assert_true(got == want);
            assert_int_equal(signbit(got) != 0, v >> 15);
        }
        uint16_t bits = (uint16_t)v;
        assert_true(probe_same(op_load(CADRE_F16, &bits, 0), got));
    }
}

/* ---- families ---- */

/* Drawn values take two slots: in their type, then the same in fp32. */
enum {
    AT_X,
    AT_W = AT_X + 2,
    AT_GATE = AT_W + 2,
    AT_UP = AT_GATE + 2,
    AT_DOWN = AT_UP + 2,
    AT_PACKED = AT_DOWN + 2,
    AT_PACKED2,
    AT_ROWS,
    AT_BIAS,
    AT_H,
    AT_SLOTS,
    AT_OUT,
    AT_WANT,
    SLOTS
};
static guard slots[SLOTS];

static void *take(int slot, size_t n, size_t size) {
    return guard_take(&slots[slot], n * size);
}

static void *draw(rand_stream *r, cadre_dtype t, int slot, size_t n, float scale) {
    void *data = take(slot, n, op_dtype_size(t));
    float *wide = take(slot + 1, n, 4);
    for (size_t i = 0; i < n; i++) {
        float v = rand_normal(r) * scale;
        if (t == CADRE_BF16)
            ((uint16_t *)data)[i] = op_bf16(v);
        else
            ((float *)data)[i] = v;
        wide[i] = op_load(t, data, i);
    }
    return data;
}

/* The fp32 copy of the n values drawn last into a slot. */
static const float *wide_of(int slot, size_t n) {
    const guard *g = &slots[slot + 1];
    return (const float *)(g->base + g->size) - n;
}

static void *packed(cadre_dtype t, int slot, int e, int out, int in, const void *w, const void *up, size_t *stride) {
    assert_true(op_packed_bytes(t, out, in, up != NULL, stride));
    char *dst = take(slot, (size_t)e, *stride);
    size_t size = (size_t)out * (size_t)in * op_dtype_size(t);
    for (size_t i = 0; i < (size_t)e; i++) {
        cadre_tensor a = {(const char *)w + i * size, t}, b = {up != NULL ? (const char *)up + i * size : NULL, t};
        op_pack(t, out, in, a, b, 0, op_panels(out), dst + i * *stride);
    }
    return dst;
}

static void assert_within(const char *what, double error, double tolerance) {
    printf("%s: error %.3g, tolerance %.3g\n", what, error, tolerance);
    if (!(error <= tolerance)) fail_msg("%s: error %g, tolerance %g", what, error, tolerance);
}

/* Rows with their padding: x [n][in] into [n][ld]. */
static void *padded_rows(cadre_dtype t, const void *x, int n, int in, size_t *ld) {
    size_t size = op_dtype_size(t);
    *ld = (size_t)op_padded(t, in);
    char *rows = take(AT_ROWS, (size_t)n * *ld, size);
    memset(rows, 0, (size_t)n * *ld * size);
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy(rows + i * *ld * size, (const char *)x + i * (size_t)in * size, (size_t)in * size);
    return rows;
}

static void dense_case(cadre_dtype t, int n, int in, int out, bool bias) {
    rand_stream r = {(uint64_t)in, (uint64_t)t << 32};
    size_t nx = (size_t)n * (size_t)in, nw = (size_t)out * (size_t)in, ny = (size_t)n * (size_t)out, stride;
    op_dense a = {.n = n, .in = in, .out = out, .ldy = (size_t)out, .y = take(AT_OUT, ny, 4)};
    a.x = padded_rows(t, draw(&r, t, AT_X, nx, 1), n, in, &a.ldx);
    a.w = packed(t, AT_PACKED, 1, out, in, draw(&r, t, AT_W, nw, 0.1f), NULL, &stride);
    float *b = take(AT_BIAS, (size_t)out, 4);
    for (int i = 0; i < out; i++) b[i] = rand_normal(&r);
    a.bias = bias ? b : NULL;
    double *want = take(AT_WANT, ny, 8);
    check_dense(n, in, out, wide_of(AT_X, nx), wide_of(AT_W, nw), a.bias, want);
    op_find(OP_DENSE, t, OP_ISA_REF)->run.dense(&a, NULL, 0, op_panels(out));
    assert_within("dense", check_relative(a.y, want, ny), check_tolerance(OP_DENSE, t, in));
    /* The check can fail: one output off by as little as a bf16 rounding shows. */
    a.y[ny - 1] *= 1.004f;
    assert_true(check_relative(a.y, want, ny) > check_tolerance(OP_DENSE, t, in));
    a.y[0] = NAN;
    assert_true(isinf(check_relative(a.y, want, ny)));
}

static void dense(void **state) {
    (void)state;
    for (int t = CADRE_F32; t <= CADRE_BF16; t++) {
        dense_case((cadre_dtype)t, 2, 2048, 40, false);
        dense_case((cadre_dtype)t, 3, 17, 17, true);
        dense_case((cadre_dtype)t, 1, 1, 1, true);
    }
}

static void norm(void **state) {
    (void)state;
    static const int widths[] = {1, 50, 2048};
    for (int i = 0; i < 3; i++) {
        int d = widths[i];
        size_t n = 3 * (size_t)d;
        rand_stream r = {30, (uint64_t)i};
        op_norm a = {.n = 3, .d = d, .ldx = (size_t)d, .ldy = (size_t)d, .ldz = (size_t)d, .eps = 1e-6f};
        a.x = draw(&r, CADRE_F32, AT_X, n, 3);
        a.weight = draw(&r, CADRE_F32, AT_W, (size_t)d, 1);
        a.y = take(AT_OUT, n, 4);
        double *want = take(AT_WANT, n, 8);
        check_norm(3, d, a.x, a.weight, a.eps, want);
        const op_kernel *kernel = op_find(OP_NORM, CADRE_BF16, OP_ISA_REF);
        kernel->run.norm(&a, NULL, 0, 3);
        assert_within("norm", check_relative(a.y, want, n), check_tolerance(OP_NORM, CADRE_F32, d));
        switch_set(SWITCH_PLANT, FAULT_NORM);
        kernel->run.norm(&a, NULL, 0, 3);
        switch_set(SWITCH_PLANT, FAULT_NONE);
        assert_true(check_relative(a.y, want, n) > check_tolerance(OP_NORM, CADRE_F32, d));
    }
}

static void attn_case(cadre_dtype t, int heads, int kv_heads, int head_dim, int position) {
    rand_stream r = {40, (uint64_t)head_dim};
    int keys = position + 1;
    size_t row = (size_t)kv_heads * (size_t)head_dim, size = (size_t)keys * row,
           width = (size_t)heads * (size_t)head_dim;
    op_attn_row rows = {draw(&r, t, AT_X, size, 1), draw(&r, t, AT_W, size, 1), position};
    float *q = take(AT_BIAS, width, 4), *out = take(AT_OUT, width, 4);
    for (size_t i = 0; i < width; i++) q[i] = rand_normal(&r);
    op_attn a = {.n = 1,
                 .heads = heads,
                 .kv_heads = kv_heads,
                 .head_dim = head_dim,
                 .rows = &rows,
                 .q = q,
                 .ldq = width,
                 .scale = 1 / sqrtf((float)head_dim),
                 .out = out,
                 .ldo = width,
                 .otype = CADRE_F32};
    op_find(OP_ATTN, t, OP_ISA_REF)->run.attn(&a, NULL, 0, kv_heads);
    double *want = take(AT_WANT, width, 8);
    float *k = take(AT_UP, size, 4), *v = take(AT_DOWN, size, 4);
    for (int h = 0; h < heads; h++) { /* the kv head's own keys and values, one after another */
        size_t at = (size_t)(h / (heads / kv_heads)) * (size_t)head_dim, dim = (size_t)head_dim;
        for (size_t j = 0; j < (size_t)keys; j++) {
            memcpy(k + j * dim, wide_of(AT_X, size) + j * row + at, dim * 4);
            memcpy(v + j * dim, wide_of(AT_W, size) + j * row + at, dim * 4);
        }
        check_attn(head_dim, keys, q + (size_t)h * dim, k, v, a.scale, want + (size_t)h * dim);
    }
    assert_within("attn", check_relative(out, want, width), check_tolerance(OP_ATTN, CADRE_F32, keys));
}

static void attn(void **state) {
    (void)state;
    for (int t = CADRE_F32; t <= CADRE_BF16; t++) {
        attn_case((cadre_dtype)t, 4, 2, 64, 0);
        attn_case((cadre_dtype)t, 4, 2, 64, 127);
        attn_case((cadre_dtype)t, 8, 1, 128, 128);
        attn_case((cadre_dtype)t, 6, 3, 20, 700);
        attn_case((cadre_dtype)t, 2, 2, 300, 140); /* wider than the accumulator */
    }
}

/* ---- experts ---- */

typedef struct layer {
    cadre_dtype t;
    int n, d, f, e, k;
    cadre_act act;
    float limit;
    const void *x, *gate, *up, *down;
    const int32_t *ids;
    const float *weights;
} layer;

static void draw_layer(layer *m, uint64_t seed) {
    rand_stream r = {seed, (uint64_t)m->t << 32};
    size_t size = (size_t)m->e * (size_t)m->d * (size_t)m->f;
    if (m->act != CADRE_RELU2) m->gate = draw(&r, m->t, AT_GATE, size, 0.2f);
    m->x = draw(&r, m->t, AT_X, (size_t)m->n * (size_t)m->d, 1);
    m->up = draw(&r, m->t, AT_UP, size, 0.2f);
    m->down = draw(&r, m->t, AT_DOWN, size, 0.2f);
}

/* Runs op/ref in two pieces and returns [n][d]. */
static float *run_layer(const layer *m) {
    size_t pairs = (size_t)m->n * (size_t)m->k;
    int32_t offset[65], pair[64], row[64];
    assert_true(m->e < 65 && pairs <= 64);
    int32_t rows = align_rows(m->ids, (int32_t)pairs, m->e, offset, pair, row);
    op_experts a = {.n = m->n,
                    .d = m->d,
                    .f = m->f,
                    .e = m->e,
                    .k = m->k,
                    .act = m->act,
                    .limit = m->limit,
                    .offset = offset,
                    .pair = pair,
                    .row = row,
                    .weight = m->weights};
    a.x = padded_rows(m->t, m->x, m->n, m->d, &a.ldx);
    a.w_up = packed(m->t, AT_PACKED, m->e, m->f, m->d, m->gate != NULL ? m->gate : m->up,
                    m->gate != NULL ? m->up : NULL, &a.up_stride);
    a.w_down = packed(m->t, AT_PACKED2, m->e, m->d, m->f, m->down, NULL, &a.down_stride);
    a.ldh = (size_t)op_padded(m->t, m->f);
    a.h = take(AT_H, (size_t)rows * a.ldh, op_dtype_size(m->t));
    a.ldo = (size_t)m->d;
    a.out = take(AT_OUT, (size_t)m->n * a.ldo, 4);
    const op_kernel *kernel = op_find(OP_EXPERTS, m->t, OP_ISA_REF);
    experts_knobs knobs = {.columns = 8};
    a.slots = take(AT_SLOTS, (size_t)rows * OP_LANES * 8, 4);
    for (int i = 0; i < m->e; i++) kernel->run.experts.up(&a, &knobs, i, 0, op_panels(m->f));
    for (int lo = 0; lo < op_panels(m->d); lo += 8)
        kernel->run.experts.down(&a, &knobs, lo, lo + 8 < op_panels(m->d) ? lo + 8 : op_panels(m->d));
    return a.out;
}

/* Relative error against the meaning, of inputs that draw_layer() made. */
static double layer_error(const layer *m, const float *out) {
    size_t size = (size_t)m->e * (size_t)m->d * (size_t)m->f, n = (size_t)m->n * (size_t)m->d;
    double *want = take(AT_WANT, n, 8);
    const float *gate = m->gate != NULL ? wide_of(AT_GATE, size) : NULL;
    check_experts(m->n, m->d, m->f, m->k, m->act, m->limit, wide_of(AT_X, n), gate, wide_of(AT_UP, size),
                  wide_of(AT_DOWN, size), m->ids, m->weights, want);
    return check_relative(out, want, n);
}

static void experts(void **state) {
    (void)state;
    static const int32_t ids[] = {0, 3, 1, 2, -1, 0, -1, -1, -1, 4, 0, 3};
    static const float weights[] = {0.5f, 0.3f, 0.2f, 1, 9, 0.5f, 9, 9, 9, -1, 2, 0};
    for (int i = 0; i < 6; i++) {
        layer m = {.t = (cadre_dtype)(i / 3),
                   .n = 4,
                   .d = 50,
                   .f = 33,
                   .e = 5,
                   .k = 3,
                   .act = (cadre_act)(i % 3),
                   .limit = 1,
                   .ids = ids,
                   .weights = weights};
        draw_layer(&m, 9);
        float *out = run_layer(&m);
        double tolerance = check_tolerance(OP_EXPERTS, m.t, m.d + m.f);
        assert_within("experts", layer_error(&m, out), tolerance);
        for (int o = 0; o < m.d; o++) assert_true(out[2 * m.d + o] == 0.0f); /* a token nobody takes */
        for (int o = 0; o < m.n * m.d; o++) out[o] *= 1.01f;
        assert_true(layer_error(&m, out) > tolerance);
    }
}

/* gate, up -> the clamped pair, limit 10. */
static void clamp_is_one_sided_for_the_gate(void **state) {
    (void)state;
    static const float cases[][4] = {{-20, 20, -20, 10}, {20, 20, 10, 10}, {20, -20, 10, -10}, {3, 4, 3, 4}};
    const float one = 1;
    const int32_t id = 0;
    for (int i = 0; i < 4; i++) {
        layer m = {.t = CADRE_F32,
                   .n = 1,
                   .d = 1,
                   .f = 1,
                   .e = 1,
                   .k = 1,
                   .act = CADRE_SWIGLU_CLAMP,
                   .limit = 10,
                   .x = &one,
                   .gate = &cases[i][0],
                   .up = &cases[i][1],
                   .down = &one,
                   .ids = &id,
                   .weights = &one};
        double gate = cases[i][2], up = cases[i][3], want = gate / (1 + exp(-gate)) * up;
        assert_true(fabs(run_layer(&m)[0] - want) <= 1e-6 * fabs(want));
        m.act = CADRE_SWIGLU; /* no limit where none was asked for */
        want = cases[i][0] / (1 + exp(-(double)cases[i][0])) * cases[i][1];
        assert_true(fabs(run_layer(&m)[0] - want) <= 1e-6 * fabs(want));
    }
    field("N09");
}

/* Experts without a gate keep their whole width, odd and small ones too. */
static void relu2(void **state) {
    (void)state;
    static const int shapes[][2] = {{2688, 1856}, {7, 5}};
    const float one = 1;
    const int32_t id = 0;
    for (int i = 0; i < 4; i++) {
        layer m = {.t = (cadre_dtype)(i % 2),
                   .n = 1,
                   .d = shapes[i / 2][0],
                   .f = shapes[i / 2][1],
                   .e = 1,
                   .k = 1,
                   .act = CADRE_RELU2,
                   .ids = &id,
                   .weights = &one};
        draw_layer(&m, 10);
        assert_within("relu2", layer_error(&m, run_layer(&m)), check_tolerance(OP_EXPERTS, m.t, m.d + m.f));
    }
    const float two = 2, minus = -3, half = 0.5f;
    layer m = {.t = CADRE_F32,
               .n = 1,
               .d = 1,
               .f = 1,
               .e = 1,
               .k = 1,
               .act = CADRE_RELU2,
               .x = &two,
               .up = &two,
               .down = &half,
               .ids = &id,
               .weights = &one};
    assert_true(run_layer(&m)[0] == 8.0f);
    m.up = &minus;
    assert_true(run_layer(&m)[0] == 0.0f);
    field("N10");
}

static void expert_named_twice(void **state) {
    (void)state;
    static const int32_t twice[] = {5, 5, 2}, once[] = {5, 2, -1};
    static const float parts[] = {0.5f, 0.3f, 0.2f}, whole[] = {0.8f, 0.2f, 0};
    layer m = {
        .t = CADRE_F32, .n = 1, .d = 33, .f = 20, .e = 8, .k = 3, .act = CADRE_SWIGLU, .ids = twice, .weights = parts};
    draw_layer(&m, 11);
    float *out = run_layer(&m), first[33];
    double tolerance = check_tolerance(OP_EXPERTS, m.t, m.d + m.f);
    assert_within("expert twice", layer_error(&m, out), tolerance);
    memcpy(first, out, sizeof first);
    m.ids = once;
    m.weights = whole;
    assert_within("expert once", layer_error(&m, first), tolerance);
    assert_within("expert once", layer_error(&m, run_layer(&m)), tolerance);
    field("A09");
}

/* ---- rope ---- */

static void rope(void **state) {
    (void)state;
    enum { HEADS = 2, DIM = 12, ROTARY = 8 };
    float x[HEADS * DIM], y[HEADS * DIM], c[ROTARY / 2], s[ROTARY / 2];
    rand_stream r = {50, 0};
    for (int i = 0; i < HEADS * DIM; i++) x[i] = rand_normal(&r);
    for (int i = 0; i < ROTARY / 2; i++) {
        c[i] = (float)cos(0.3 * i + 1);
        s[i] = (float)sin(0.3 * i + 1);
    }
    for (int planted = 0; planted < 2; planted++) {
        memcpy(y, x, sizeof y);
        switch_set(SWITCH_PLANT, planted ? FAULT_ROPE : FAULT_NONE);
        op_rope(y, HEADS, DIM, ROTARY, c, s);
        switch_set(SWITCH_PLANT, FAULT_NONE);
        int wrong = 0;
        for (int h = 0; h < HEADS; h++) {
            const float *a = x + h * DIM, *b = y + h * DIM;
            for (int i = 0; i < ROTARY / 2; i++) {
                wrong += fabs(b[i] - ((double)a[i] * c[i] - (double)a[i + 4] * s[i])) > 1e-6;
                wrong += fabs(b[i + 4] - ((double)a[i + 4] * c[i] + (double)a[i] * s[i])) > 1e-6;
            }
            assert_memory_equal(a + ROTARY, b + ROTARY, (DIM - ROTARY) * sizeof *a);
        }
        if (planted)
            assert_true(wrong > 8);
        else
            assert_int_equal(wrong, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close),
        cmocka_unit_test(exp_at_its_ends),
        cmocka_unit_test(sigmoid_is_close),
        cmocka_unit_test(bf16_every_pattern),
        cmocka_unit_test(bf16_as_the_instruction),
        cmocka_unit_test(f16_every_pattern),
        cmocka_unit_test(dense),
        cmocka_unit_test(norm),
        cmocka_unit_test(attn),
        cmocka_unit_test(experts),
        cmocka_unit_test(clamp_is_one_sided_for_the_gate),
        cmocka_unit_test(relu2),
        cmocka_unit_test(expert_named_twice),
        cmocka_unit_test(rope),
    };
    probe_flush();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
