/* packed: packed weights give what the plain ones give, for a dense matrix, a MoE layer and a shared expert at 1, 8 and
 * 64 tokens (field report P09); and packing through a source, piece by piece, gives the same bytes as from memory. */
#include "moe/moe.h"
#include "op/kernel.h"
#include "test.h"

#include <math.h>

/* No size is a multiple of what kernels work in; WIDE makes rows so long that a source gives few panels at a time. */
enum { N = 64, D = 72, F = 40, E = 6, K = 2, SHARED = 24, OUT = 50, WIDE = 5000 };

static cadre_device *device;

/* ---- plain weights: bf16 values, as bf16 and as doubles ---- */

typedef struct plain {
    uint16_t *bits;
    double *v;
    int rows, cols;
} plain;

static plain plain_new(rand_stream *r, int rows, int cols, double scale) {
    size_t n = (size_t)rows * (size_t)cols;
    plain p = {malloc(n * sizeof *p.bits), malloc(n * sizeof *p.v), rows, cols};
    assert_true(p.bits && p.v);
    for (size_t i = 0; i < n; i++) {
        p.bits[i] = op_bf16((float)(scale * ((double)rand_float(r) * 2 - 1)));
        p.v[i] = (double)op_from_bf16(p.bits[i]);
    }
    return p;
}

static void plain_free(plain *p) {
    free(p->bits);
    free(p->v);
}

static cadre_tensor tensor(const plain *p) {
    return (cadre_tensor){p->bits, CADRE_BF16};
}

static double dot(const plain *p, int row, const double *x) {
    double sum = 0;
    for (int i = 0; i < p->cols; i++) sum += p->v[(size_t)row * (size_t)p->cols + (size_t)i] * x[i];
    return sum;
}

typedef struct plain_layer {
    plain router, gate[E + 1], up[E + 1], down[E + 1]; /* the last is the shared expert */
    float x[N * D];
} plain_layer;

static plain_layer *layer_new(void) {
    plain_layer *l = malloc(sizeof *l);
    rand_stream r = {.key = 11};
    assert_non_null(l);
    l->router = plain_new(&r, E, D, 0.5);
    for (int e = 0; e <= E; e++) {
        int f = e < E ? F : SHARED;
        l->gate[e] = plain_new(&r, f, D, 0.3);
        l->up[e] = plain_new(&r, f, D, 0.3);
        l->down[e] = plain_new(&r, D, f, 0.3);
    }
    for (int i = 0; i < N * D; i++) l->x[i] = op_from_bf16(op_bf16(rand_float(&r) * 2 - 1));
    return l;
}

static void layer_free(plain_layer *l) {
    plain_free(&l->router);
    for (int e = 0; e <= E; e++) {
        plain_free(&l->gate[e]);
        plain_free(&l->up[e]);
        plain_free(&l->down[e]);
    }
    free(l);
}

/* ---- the plain layer, in double ---- */

static void add_expert(const plain_layer *l, int e, const double *x, double weight, double *out) {
    double h[F];
    int f = l->gate[e].rows;
    for (int i = 0; i < f; i++) {
        double g = dot(&l->gate[e], i, x);
        h[i] = g / (1 + exp(-g)) * dot(&l->up[e], i, x);
    }
    for (int i = 0; i < D; i++) out[i] += weight * dot(&l->down[e], i, h);
}

/* Softmax over all, the best K, renormalized. */
static void run_plain(const plain_layer *l, const float *row, bool shared, double *out) {
    double x[D], score[E], all = 0, sum = 0;
    int best[K];
    for (int i = 0; i < D; i++) x[i] = (double)row[i], out[i] = 0;
    for (int e = 0; e < E; e++) all += score[e] = exp(dot(&l->router, e, x));
    for (int k = 0; k < K; k++) {
        best[k] = -1;
        for (int e = 0; e < E; e++)
            if ((k == 0 || e != best[0]) && (best[k] < 0 || score[e] > score[best[k]])) best[k] = e;
        sum += score[best[k]] / all;
    }
    for (int k = 0; k < K; k++) add_expert(l, best[k], x, score[best[k]] / all / sum, out);
    if (shared) add_expert(l, E, x, 1, out);
}

/* Root of the mean square, against that of the plain result. */
static double distance(const float *got, const double *want, int n) {
    double diff = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        diff += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return sqrt(diff / norm);
}

/* ---- layers ---- */

static const int counts[] = {1, 8, 64};
static const cadre_dtype types[] = {CADRE_F32, CADRE_BF16, CADRE_Q8, CADRE_Q4};
static const double within[] = {2e-6, 6e-3, 2e-2, 2e-1}; /* what rounding to the type costs; Q4: 16 steps a block */

static cadre_moe_weights weights_of(const plain_layer *l, cadre_tensor list[3][E]) {
    for (int e = 0; e < E; e++) {
        list[0][e] = tensor(&l->gate[e]);
        list[1][e] = tensor(&l->up[e]);
        list[2][e] = tensor(&l->down[e]);
    }
    return (cadre_moe_weights){.router = tensor(&l->router),
                               .gate = list[0],
                               .up = list[1],
                               .down = list[2],
                               .shared_gate = tensor(&l->gate[E]),
                               .shared_up = tensor(&l->up[E]),
                               .shared_down = tensor(&l->down[E])};
}

static void check_layer(const plain_layer *l, int type, bool shared) {
    cadre_tensor list[3][E];
    cadre_moe_weights w = weights_of(l, list);
    cadre_moe_desc desc = {.d = D,
                           .f = F,
                           .e = E,
                           .k = K,
                           .max_tokens = N,
                           .dtype = types[type],
                           .renormalize = true,
                           .shared_f = shared ? SHARED : 0};
    cadre_moe *moe;
    cadre_moe_workspace *ws;
    float got[N * D];
    double want[N * D];
    for (int i = 0; i < N; i++) run_plain(l, l->x + i * D, shared, want + i * D);
    must(cadre_moe_new(device, &desc, &w, &moe, fail_out));
    must(cadre_moe_workspace_new(moe, &ws, fail_out));
    for (int i = 0; i < 3; i++) {
        must(cadre_moe_run(moe, ws, counts[i], l->x, got, fail_out));
        double off = distance(got, want, counts[i] * D);
        if (!(off <= within[type]))
            fail_msg("%s, %d tokens%s: off by %g", op_dtype_name(types[type]), counts[i], shared ? ", shared" : "",
                     off);
    }
    cadre_moe_workspace_free(ws);
    cadre_moe_free(moe);
}

static void layers(void **state) {
    (void)state;
    plain_layer *l = layer_new();
    for (int type = 0; type < 4; type++)
        for (int shared = 0; shared < 2; shared++) check_layer(l, type, shared);
    layer_free(l);
    printf("field P09 ok\n");
}

/* ---- dense ---- */

typedef struct product {
    moe_dense *m;
    int n;
    const void *x;
    size_t ldx;
    float *y;
} product;

static void multiply(void *ctx, team *t) {
    product *p = ctx;
    moe_dense_team(p->m, t, p->n, p->x, p->ldx, p->y, OUT, false);
}

static void check_dense(cadre_dtype type, double tolerance) {
    rand_stream r = {.key = 5};
    plain w = plain_new(&r, OUT, D, 1);
    float x[N * D], y[N * OUT];
    double want[N * OUT], row[D];
    size_t ldx = op_stride(type, D);
    char *z = calloc(N * ldx, op_dtype_size(type));
    moe_dense m;
    assert_non_null(z);
    for (int i = 0; i < N * D; i++) x[i] = op_from_bf16(op_bf16(rand_float(&r) * 2 - 1));
    for (int i = 0; i < N; i++) {
        op_round_row(type, x + i * D, D, z + (size_t)i * ldx * op_dtype_size(type));
        for (int k = 0; k < D; k++) row[k] = (double)x[i * D + k];
        for (int k = 0; k < OUT; k++) want[i * OUT + k] = dot(&w, k, row);
    }
    must(moe_dense_init(&m, device, "dense", type, OUT, D, tensor(&w), (cadre_tensor){0}, NULL, fail_out));
    for (int i = 0; i < 3; i++) {
        product p = {&m, counts[i], z, ldx, y};
        pool_run(device->threads, multiply, &p);
        assert_true(distance(y, want, counts[i] * OUT) <= tolerance);
    }
    moe_dense_done(&m);
    plain_free(&w);
    free(z);
}

static void dense(void **state) {
    (void)state;
    check_dense(CADRE_F32, 1e-6);
    check_dense(CADRE_BF16, 1e-6); /* inputs and weights are bf16 values: nothing is rounded */
}

/* ---- through a source ---- */

typedef struct source {
    const char *from, *end; /* what may be read */
    _Atomic int reads, fail_at;
    _Atomic size_t largest;
} source;

static cadre_err read_some(void *ctx, const void *from, size_t n, void *dst, cadre_fail *why) {
    source *s = ctx;
    int turn = s->reads++;
    if (turn == s->fail_at) return cadre_fail_set(why, CADRE_IO, "read %d fails", turn);
    if ((const char *)from < s->from || (const char *)from + n > s->end)
        return cadre_fail_set(why, CADRE_RANGE, "read outside the tensor");
    if (n > s->largest) s->largest = n;
    memcpy(dst, from, n);
    return CADRE_OK;
}

static void pieces(void **state) {
    (void)state;
    rand_stream r = {.key = 9};
    plain w = plain_new(&r, 150, WIDE, 1);
    for (int i = 0; i < 4; i++) {
        source s = {(const char *)w.bits, (const char *)(w.bits + 150 * WIDE), 0, -1, 0};
        moe_source from = {.read = read_some, .ctx = &s};
        moe_dense a, b;
        cadre_fail why;
        if (op_is_quant(types[i])) continue; /* of experts alone */
        must(moe_dense_init(&a, device, "a", types[i], 150, WIDE, tensor(&w), (cadre_tensor){0}, NULL, fail_out));
        must(moe_dense_init(&b, device, "b", types[i], 150, WIDE, tensor(&w), (cadre_tensor){0}, &from, fail_out));
        assert_memory_equal(a.w, b.w, a.bytes);
        assert_true(s.reads == 10 && s.largest == 16 * WIDE * 2); /* a panel of 160 kB at a time, the last 6 rows */
        moe_dense_done(&a);
        moe_dense_done(&b);
        for (int at = 0; at < 10; at++) { /* any read may fail: the error comes out, nothing is kept */
            s.reads = 0;
            s.fail_at = at;
            assert_int_equal(
                moe_dense_init(&b, device, "b", types[i], 150, WIDE, tensor(&w), (cadre_tensor){0}, &from, &why),
                CADRE_IO);
            assert_non_null(strstr(why.text, " fails"));
            assert_null(b.w);
        }
        moe_source_done(&from);
    }
    plain_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers), cmocka_unit_test(dense), cmocka_unit_test(pieces)};
    device = open_device(3);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cadre_device_close(device);
    return failed;
}
