/* router.c: op_route and op_argmax against the vectors V27, V28, the field reports N01..N08, N11, and an independent
 * router that sorts. */
#include <stdlib.h>

#include "probe.h"

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}
static void field(const char *id) {
    printf("field %s ok\n", id);
}

enum { MAX_K = 64 };
static int32_t ids[MAX_K];
static float weights[MAX_K];

/* Routes one row with every array ending at a guard page and outputs and scratch in noise. */
static void route(const op_router *r, const float *logits) {
    static guard at[4];
    size_t e = (size_t)r->e, k = (size_t)r->k;
    float *row = guard_take(&at[0], e * 4), *scratch = guard_take(&at[1], 2 * e * 4);
    int32_t *out = guard_take(&at[2], k * 4);
    float *w = guard_take(&at[3], k * 4);
    memcpy(row, logits, e * 4);
    memset(scratch, 0xff, 2 * e * 4);
    memset(out, 0xcd, k * 4);
    memset(w, 0xff, k * 4);
    op_route(r, row, out, w, scratch);
    assert_memory_equal(row, logits, e * 4);
    memcpy(ids, out, k * 4);
    memcpy(weights, w, k * 4);
}

static void ids_are(int k, const int32_t *want) {
    for (int s = 0; s < k; s++) {
        if (ids[s] != want[s]) fail_msg("slot %d is expert %d, not %d", s, ids[s], want[s]);
    }
}
#define assert_ids(k, ...) ids_are(k, (const int32_t[]){__VA_ARGS__})

static void assert_close(double got, double want) {
    if (!(fabs(got - want) <= 1e-6 * fabs(want))) fail_msg("%.9g is not %.9g", got, want);
}

/* In range, all different, weights finite. */
static void assert_sane(const op_router *r) {
    for (int s = 0; s < r->k; s++) {
        assert_in_range(ids[s], 0, r->e - 1);
        assert_true(isfinite(weights[s]));
        for (int t = 0; t < s; t++) assert_int_not_equal(ids[s], ids[t]);
    }
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* ---- ties ---- */

static void ties(void **state) {
    (void)state;
    float equal[128], logits[] = {1, 3, 2, 3, 2, 3, 1, 2};
    for (int i = 0; i < 128; i++) equal[i] = -1.5f;
    for (int gate = CADRE_SOFTMAX; gate <= CADRE_SIGMOID; gate++) {
        op_router r = {.e = 8, .k = 5, .gate = (cadre_gate)gate};
        route(&r, logits);
        assert_ids(5, 1, 3, 5, 2, 4);
        r = (op_router){.e = 128, .k = 8, .gate = (cadre_gate)gate, .renormalize = true};
        route(&r, equal);
        assert_ids(8, 0, 1, 2, 3, 4, 5, 6, 7);
        for (int s = 0; s < 8; s++) assert_close(weights[s], 0.125);
        if (gate == CADRE_SOFTMAX) assert_true(weights[0] == 0.125f);
        r.k = 7;
        route(&r, equal);
        for (int s = 0; s < 7; s++) assert_close(weights[s], 1.0 / 7);
    }
    vector("V27");
}

static void ties_in_a_batch(void **state) {
    (void)state;
    float row[8], other[8];
    rand_stream r = {5, 0};
    op_router router = {.e = 8, .k = 4, .renormalize = true};
    for (int i = 0; i < 8; i++) row[i] = 0.75f;
    for (int at = 0; at < 64; at++) {
        bool ours = at == 0 || at == 63;
        for (int i = 0; i < 8; i++) other[i] = rand_normal(&r);
        route(&router, ours ? row : other);
        if (ours) assert_ids(4, 0, 1, 2, 3);
    }
    field("N05");
}

/* ---- groups ---- */

static void groups(void **state) {
    (void)state;
    const float logits[] = {3, -9, 1, 1, 0.9f, 0.9f, -5, -5}, none[8] = {0}, bias[8] = {[7] = 10};
    op_router r = {.e = 8, .k = 3, .gate = CADRE_SIGMOID, .groups = 4, .topk_groups = 2};
    route(&r, logits); /* by largest score: groups 0 and 1 */
    assert_ids(3, 0, 2, 3);
    assert_close(weights[0], sigmoid(3));
    r.bias = none;
    route(&r, logits); /* a bias, even of zeros: by the sum of two, groups 1 and 2 */
    assert_ids(3, 2, 3, 4);
    r.bias = bias;
    route(&r, logits); /* groups 3 and 1; the weight is the score without bias */
    assert_ids(3, 7, 2, 3);
    assert_close(weights[0], sigmoid(-5));
    assert_close(weights[1], sigmoid(1));
    r.renormalize = true;
    r.scale = 2.5f;
    route(&r, logits);
    assert_close(weights[0], 2.5 * sigmoid(-5) / (sigmoid(-5) + 2 * sigmoid(1)));
    const float tied[] = {1, 0, 0, 1, 1, 0, 0, 1};
    r = (op_router){.e = 8, .k = 3, .groups = 4, .topk_groups = 2};
    route(&r, tied); /* groups tie: the lower ones */
    assert_ids(3, 0, 3, 1);
    vector("V28");
}

static void groups_of_one(void **state) {
    (void)state;
    const float logits[] = {0, 1, 2, 3}, bias[] = {9, 0, 0, 0};
    op_router r = {.e = 4, .k = 2, .gate = CADRE_SIGMOID, .groups = 4, .topk_groups = 2, .bias = bias};
    route(&r, logits);
    assert_ids(2, 0, 3);
    r.topk_groups = 4; /* all are kept */
    route(&r, logits);
    assert_ids(2, 0, 3);
    r.k = 4;
    r.topk_groups = 1; /* one group holds too few: the lowest of the rest */
    route(&r, logits);
    assert_ids(4, 0, 1, 2, 3);
    assert_sane(&r);
}

static void masked_groups(void **state) {
    (void)state;
    const float logits[8] = {0}, bias[] = {-5, -5, -2, -2, -1.5f, -4, -4.5f, -4.5f};
    op_router r = {.e = 8, .k = 3, .gate = CADRE_SIGMOID, .groups = 4, .topk_groups = 2, .bias = bias};
    route(&r, logits); /* sums with 0.5 each: -9, -3, -4.5, -8: groups 1 and 2, all choices below 0 */
    assert_ids(3, 4, 2, 3);
    field("N03");
}

static void exact_choice(void **state) {
    (void)state;
    /* Scores near 0.5 that differ by 2^-14: one bf16 value, two fp32 values. Group 3 wins by its sum. */
    float logits[12], bias[12];
    for (int i = 0; i < 12; i++) {
        logits[i] = -4;
        bias[i] = 0.25f;
    }
    logits[9] = 0;
    logits[11] = 0x1p-12f;
    assert_int_equal(op_bf16(op_sigmoid(logits[9]) + 0.25f), op_bf16(op_sigmoid(logits[11]) + 0.25f));
    op_router r = {.e = 12, .k = 3, .gate = CADRE_SIGMOID, .groups = 4, .topk_groups = 1, .bias = bias};
    route(&r, logits);
    assert_ids(3, 11, 9, 10); /* k is the whole group of 3: no padded lane can win */
    field("N04");
    const float close[] = {8.00f, 8.01f, -1, -1};
    assert_int_equal(op_bf16(close[0]), op_bf16(close[1]));
    r = (op_router){.e = 4, .k = 2};
    route(&r, close);
    assert_ids(2, 1, 0);
    assert_true(weights[0] > weights[1]);
    field("N08");
}

/* ---- weights ---- */

static void scales(void **state) {
    (void)state;
    static const double p[] = {0.4, 0.15, 0.2, 0.15, 0.1};
    float logits[5];
    for (int i = 0; i < 5; i++) logits[i] = (float)log(p[i]);
    for (int i = 0; i < 6; i++) {
        op_router r = {.e = 5, .k = 2, .renormalize = i % 2, .scale = (float[]){0, 1, 2.5f}[i / 2]};
        double scale = i / 2 == 2 ? 2.5 : 1;
        route(&r, logits);
        assert_ids(2, 0, 2);
        assert_close((double)weights[0] + weights[1], scale * (r.renormalize ? 1 : 0.6));
        assert_close(weights[0] / weights[1], 2);
    }
    field("N06");
    const float plain[] = {2, 1, 0, -1};
    op_router r = {.e = 4, .k = 2};
    route(&r, plain);
    assert_ids(2, 0, 1);
    assert_true(fabs(weights[0] - 0.6439) < 5e-5 && fabs(weights[1] - 0.2369) < 5e-5);
    field("N07");
}

static void many_experts(void **state) {
    (void)state;
    static float logits[512];
    rand_stream s = {11, 0};
    for (int i = 0; i < 512; i++) logits[i] = rand_normal(&s);
    logits[338] = 20;
    op_router r = {.e = 512, .k = 10, .renormalize = true};
    route(&r, logits);
    assert_int_equal(ids[0], 338);
    assert_sane(&r);
    field("N11");
}

/* ---- rows that are not numbers ---- */

static void bad_rows(void **state) {
    (void)state;
    static const float fills[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0};
    const float bias[8] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
    for (int i = 0; i < 6 * 16; i++) {
        float row[8];
        for (int j = 0; j < 8; j++) row[j] = fills[i / 16];
        op_router r = {.e = 8, .k = 4, .gate = i % 2 ? CADRE_SIGMOID : CADRE_SOFTMAX, .renormalize = i / 2 % 2};
        if (i / 4 % 2) r.bias = bias;
        if (i / 8 % 2) {
            r.groups = 4;
            r.topk_groups = 2;
        }
        route(&r, row);
        assert_ids(4, 0, 1, 2, 3);
        assert_sane(&r);
        if (r.gate == CADRE_SOFTMAX) assert_true(weights[0] == (r.renormalize ? 0.25f : 0.125f));
    }
    field("N01");
}

static void bad_values(void **state) {
    (void)state;
    const float one[] = {NAN, 1, 2, 3}, most[] = {NAN, -300, NAN, 4}, infinite[] = {1, INFINITY, NAN, INFINITY};
    op_router r = {.e = 4, .k = 2, .renormalize = true};
    route(&r, one);
    assert_ids(2, 3, 2);
    assert_close(weights[0], sigmoid(1));
    assert_close(weights[1], sigmoid(-1));
    r.renormalize = false; /* the NaN weighs nothing in the sum */
    route(&r, one);
    assert_close(weights[0], 1 / (1 + exp(-1) + exp(-2)));
    field("N02");
    r.k = 4;
    route(&r, most); /* a score that underflows still comes before NaN */
    assert_ids(4, 3, 1, 0, 2);
    assert_sane(&r);
    route(&r, infinite);
    assert_ids(4, 1, 3, 0, 2);
    assert_true(weights[0] == 0.5f && weights[1] == 0.5f && weights[2] == 0 && weights[3] == 0);
    /* A bias can't lift a NaN, and a NaN bias sinks its expert; weights that are all zero stay zero. */
    const float bias[] = {100, NAN, 0, -1}, cold[] = {0, -200, -200, -200}, turn[] = {-100, 0, 0, 0};
    r = (op_router){.e = 4, .k = 3, .gate = CADRE_SIGMOID, .bias = bias};
    route(&r, one);
    assert_ids(3, 2, 3, 0);
    assert_sane(&r);
    r = (op_router){.e = 4, .k = 2, .renormalize = true, .bias = turn};
    route(&r, cold);
    assert_ids(2, 1, 2);
    assert_true(weights[0] == 0 && weights[1] == 0);
}

/* Kept groups too small for k: their members first, NaN ones among them, then the lowest ids. */
static void too_few_kept(void **state) {
    (void)state;
    const float logits[] = {0, 0, 9, 9, NAN, 10, 9, 9};
    op_router r = {.e = 8, .k = 5, .groups = 4, .topk_groups = 1};
    route(&r, logits);
    assert_ids(5, 5, 4, 0, 1, 2);
    assert_sane(&r);
}

/* ---- against a router that sorts ---- */

typedef struct sorted {
    double choice;
    int id;
} sorted;

static int by_choice(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    if (x->choice != y->choice) return x->choice > y->choice ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

enum { MAX_E = 4096 };

static void drop_groups(const op_router *r, sorted *list) {
    sorted order[64];
    int size = r->e / r->groups;
    for (int g = 0; g < r->groups; g++) {
        sorted members[MAX_E];
        memcpy(members, list + g * size, (size_t)size * sizeof *members);
        qsort(members, (size_t)size, sizeof *members, by_choice);
        order[g] = (sorted){members[0].choice, g};
        if (r->bias != NULL && size > 1) order[g].choice += members[1].choice;
    }
    qsort(order, (size_t)r->groups, sizeof *order, by_choice);
    for (int i = r->topk_groups; i < r->groups; i++) {
        for (int j = 0; j < size; j++) list[order[i].id * size + j].choice = -INFINITY;
    }
}

/* True if op_route gives the same ids, and weights off by no more than what a chain of 4096 additions rounds away. */
static bool agrees(const op_router *r, const float *logits) {
    static sorted list[MAX_E];
    static double score[MAX_E];
    double top = -INFINITY, sum = 0, chosen = 0;
    for (int i = 0; i < r->e; i++) top = fmax(top, logits[i]);
    for (int i = 0; i < r->e; i++) sum += exp(logits[i] - top);
    for (int i = 0; i < r->e; i++) {
        score[i] = r->gate == CADRE_SOFTMAX ? exp(logits[i] - top) / sum : sigmoid(logits[i]);
        list[i] = (sorted){score[i] + (r->bias != NULL ? r->bias[i] : 0), i};
    }
    if (r->groups > 1) drop_groups(r, list);
    qsort(list, (size_t)r->e, sizeof *list, by_choice);
    route(r, logits);
    for (int s = 0; s < r->k; s++) chosen += score[list[s].id];
    for (int s = 0; s < r->k; s++) {
        double want = score[list[s].id] / (r->renormalize ? chosen : 1) * r->scale;
        if (ids[s] != list[s].id || !(fabs(weights[s] - want) <= 1e-5 * want)) return false;
    }
    return true;
}

static long disagreements(void) {
    static const int es[] = {1, 2, 8, 60, 64, 128, 256, 512, 4096};
    static float logits[MAX_E], bias[MAX_E];
    long bad = 0;
    for (int i = 0; i < 900; i++) {
        rand_stream s = {(uint64_t)i, 0};
        op_router r = {.e = es[i % 9], .gate = (cadre_gate)(i / 9 % 2), .renormalize = i / 18 % 2, .scale = 1.5f};
        int group_size = r.e % 4 == 0 && i / 36 % 2 ? r.e / 4 : 0, limit = group_size ? 2 * group_size : r.e;
        r.k = 1 + (int)rand_below(&s, (uint32_t)(limit < 12 ? limit : 12));
        if (group_size) r.groups = 4, r.topk_groups = 2;
        if (i / 72 % 2 && r.gate == CADRE_SIGMOID) r.bias = bias; /* softmax scores could be lost beside a bias */
        /* Values on a grid: ties are exact in both routers, and close misses are not closer than rounding. */
        for (int j = 0; j < r.e; j++) {
            logits[j] = (float)((int)rand_below(&s, 96) - 48) * 0.125f;
            bias[j] = (float)((int)rand_below(&s, 3) - 1) * 2;
        }
        bad += !agrees(&r, logits);
    }
    return bad;
}

static void sorting_agrees(void **state) {
    (void)state;
    assert_int_equal(disagreements(), 0);
}

static void planted_faults_are_found(void **state) {
    (void)state;
    static const fault planted[] = {FAULT_RENORM, FAULT_TIE};
    for (int i = 0; i < 2; i++) {
        switch_set(SWITCH_PLANT, planted[i]);
        long bad = disagreements();
        switch_set(SWITCH_PLANT, FAULT_NONE);
        assert_true(bad > 50);
    }
}

/* ---- argmax ---- */

static void argmax(void **state) {
    (void)state;
    const float ties[] = {1, 3, 3, 2}, holes[] = {NAN, -5, NAN, -4}, nothing[] = {NAN, NAN, NAN},
                low[] = {-INFINITY, NAN};
    const float last[] = {-INFINITY, -3e38f}, zeros[] = {-0.0f, 0.0f};
    assert_int_equal(op_argmax(ties, 4), 1);
    assert_int_equal(op_argmax(holes, 4), 3);
    assert_int_equal(op_argmax(nothing, 3), 0);
    assert_int_equal(op_argmax(low, 2), 0);
    assert_int_equal(op_argmax(last, 2), 1);
    assert_int_equal(op_argmax(zeros, 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties),          cmocka_unit_test(ties_in_a_batch),
        cmocka_unit_test(groups),        cmocka_unit_test(groups_of_one),
        cmocka_unit_test(masked_groups), cmocka_unit_test(exact_choice),
        cmocka_unit_test(scales),        cmocka_unit_test(many_experts),
        cmocka_unit_test(bad_rows),      cmocka_unit_test(bad_values),
        cmocka_unit_test(too_few_kept),  cmocka_unit_test(sorting_agrees),
        cmocka_unit_test(argmax),        cmocka_unit_test(planted_faults_are_found),
    };
    probe_flush();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
