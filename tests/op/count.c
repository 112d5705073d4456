/* count.c: counting local tokens on the CPU: the vectors V01..V05, shares in any order and at the same time, every
 * knob, buffers that end where they may. */
#include "op/count_matrix.h"
#include "probe.h"

enum { CTAS = 5, MOST_LOCAL = 64 };

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}

static count_knobs defaults(void) {
    count_knobs k;
    count_knobs_default(&k);
    return k;
}

/* All shares, the last first: none of them may need another. */
static void count_by(const op_count_kernel *kernel, const op_count *a, const count_knobs *knobs, int ctas) {
    int32_t own[MOST_LOCAL];
    memset(own, 0xcd, sizeof own);
    for (int cta = ctas - 1; cta >= 0; cta--) kernel->run(a, knobs, ctas, cta, own);
}

#define assert_counts(kernel, v, cap, ids_, k_, start_, ...)                                                        \
    do {                                                                                                            \
        static const int32_t want_[] = {__VA_ARGS__};                                                               \
        enum { N_ = sizeof want_ / sizeof *want_ };                                                                 \
        int32_t got_[N_] = {0}, valid_ = (v);                                                                       \
        count_knobs knobs_ = defaults();                                                                            \
        op_count a_ = {ids_, &valid_, cap, k_, start_, N_, got_, 0};                                                \
        count_by(kernel, &a_, &knobs_, CTAS);                                                                       \
        for (int i_ = 0; i_ < N_; i_++)                                                                             \
            if (got_[i_] != want_[i_]) fail_msg("%s: [%d] is %d, not %d", (kernel)->name, i_, got_[i_], want_[i_]); \
    } while (0)

static void vectors(void **state) {
    (void)state;
    static const int64_t ids[] = {0, 1, 1, 2, 3, 1}, none[] = {-1, -1, -1, -1}, far[] = {INT64_MIN, INT64_MAX, 2, 0};
    for (const op_count_kernel *k = op_count_kernels; k->name; k++) {
        assert_counts(k, 3, 3, ids, 2, 1, 3, 1);
        assert_counts(k, 2, 3, ids, 2, 1, 2, 1);
        assert_counts(k, 2, 2, none, 2, 0, 0, 0);
        assert_counts(k, 0, 3, ids, 2, 0, 0, 0);
        assert_counts(k, 3, 3, ids, 2, 100, 0, 0); /* all on other ranks */
        assert_counts(k, 2, 2, far, 2, 3, 0, 0);
        assert_counts(k, 2, 2, far, 2, INT64_MAX, 1, 0); /* the range goes past the last id there is */
        assert_counts(k, 2, 2, far, 2, INT64_MIN, 1, 0);
        assert_counts(k, 2, 2, none, 2, -1, 4, 0); /* a start below 0 makes -1 an expert */
        assert_counts(k, -3, 3, ids, 2, 1, 0, 0);
        assert_counts(k, 7, 3, ids, 2, 1, 3, 1);
    }
    vector("V01");
    vector("V02");
    vector("V03");
}

/* ---- the matrix ---- */

typedef struct counter {
    const op_count_kernel *kernel;
    int ctas;
    int off; /* pairs that are added to the limit: a planted fault */
} counter;

static cadre_err count_cell(void *ctx, const op_count *a, const count_knobs *knobs, cadre_fail *fail) {
    const counter *c = ctx;
    op_count b = *a;
    (void)fail;
    memset(a->counts, 0, (size_t)a->local * sizeof *a->counts);
    b.extra += c->off;
    count_by(c->kernel, &b, knobs, c->ctas);
    return CADRE_OK;
}

static count_matrix matrix(counter c, const count_knobs *knobs, int seeds) {
    count_matrix m;
    count_subject s = {NULL, count_cell, &c};
    assert_int_equal(count_matrix_run(&s, knobs, seeds, &m, NULL), CADRE_OK);
    return m;
}

static void whole_matrix(void **state) {
    (void)state;
    count_knobs k = defaults();
    count_matrix m = matrix((counter){&op_count_kernels[1], CTAS, 0}, &k, MATRIX_SEEDS);
    assert_int_equal(m.full, 2520);
    assert_int_equal(m.cells, 2280);
    if (m.equal != m.cells) fail_msg("%d of %d cells equal; %s", m.equal, m.cells, m.first);
    assert_int_equal(m.skipped, 240);
    assert_int_equal(m.skip_count, 2); /* 1000 and 4096 tokens in 512 */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(m.skips[i].cells, 120);
        assert_int_equal(m.skips[i].capacity, 512);
        assert_int_equal(m.skips[i].valid, i ? 4096 : 1000);
    }
    /* Every valid pair has been counted by one of the four offsets, with three blocks each. */
    assert_int_equal(m.sum,
                     MATRIX_SEEDS * 3L * MATRIX_K * (2 * (0 + 1 + 7 + 63 + 256 + 1000 + 4096) + 0 + 1 + 7 + 63 + 256));
    assert_true(m.populated > 2280 * MATRIX_LOCAL / 2);
    assert_int_equal(m.decode_populated, MATRIX_LOCAL);
    assert_true(m.decode_sum > 400 && m.decode_sum < 624); /* 2048 pairs over four ranks: 512, +- 5.7 sd */
    assert_true(count_matrix_ok(&m));
    vector("V04");
}

static void planted(void **state) {
    (void)state;
    count_knobs k = defaults();
    count_matrix m = matrix((counter){&op_count_kernels[1], CTAS, 0}, &k, MATRIX_SEEDS);
    /* Cells with room past the limit, one block each; one pair in four is local. */
    assert_int_equal(m.planted, MATRIX_SEEDS * 4 * (7 + 6 + 5));
    assert_true(m.caught > m.planted / 8 && m.caught < m.planted / 2);
    for (int off = -1; off <= 1; off += 2) {
        m = matrix((counter){&op_count_kernels[1], CTAS, off}, &k, 2);
        assert_true(m.equal < m.cells && *m.first);
        assert_false(count_matrix_ok(&m));
    }
    /* One that counts nothing is as bad, and says where. */
    k.atomics = COUNT_NONE;
    m = matrix((counter){&op_count_kernels[1], CTAS, 0}, &k, 1);
    assert_int_equal(m.sum, 0);
    assert_int_equal(m.caught, 0);
    assert_false(count_matrix_ok(&m));
    vector("V05");
}

static void every_knob(void **state) {
    (void)state;
    for (int ctas = 1; ctas <= 200; ctas = ctas * 5 + 2)
        for (int atomics = COUNT_RELAXED; atomics <= COUNT_ORDERED; atomics++)
            for (int own = 0; own < 2; own++) {
                count_knobs k = {.warps = 1, .ctas = ctas, .atomics = atomics, .private = own};
                count_matrix m = matrix((counter){&op_count_kernels[1], ctas, 0}, &k, 1);
                assert_int_equal(m.cells, 228);
                if (!count_matrix_ok(&m)) fail_msg("%d shares: %s", ctas, m.first);
            }
}

/* ---- at the same time ---- */

enum { TOKENS = 3000, TIMES = 50 };
typedef struct together {
    op_count a;
    count_knobs knobs;
    int32_t own[8][MOST_LOCAL];
} together;

static void member(void *ctx, team *t) {
    together *w = ctx;
    for (int i = 0; i < TIMES; i++)
        op_count_kernels[1].run(&w->a, &w->knobs, team_size(t), team_id(t), w->own[team_id(t)]);
}

static void at_the_same_time(void **state) {
    (void)state;
    static int64_t ids[TOKENS * 8];
    static together w;
    int32_t valid = TOKENS, want[16] = {0}, got[16];
    pool *p;
    count_matrix_ids(3, TOKENS, 16, 8, ids);
    w.a = (op_count){ids, &valid, TOKENS, 8, 0, 16, want, 0};
    op_count_kernels[0].run(&w.a, NULL, 1, 0, NULL);
    w.a.counts = got;
    assert_int_equal(pool_new(4, &p, NULL), CADRE_OK);
    for (int kind = 0; kind < 4; kind++) {
        w.knobs = (count_knobs){64, 1, 0, 1 + kind / 2, kind % 2};
        memset(got, 0, sizeof got);
        pool_run(p, member, &w);
        for (int i = 0; i < 16; i++) assert_int_equal(got[i], TIMES * want[i]);
    }
    pool_free(p);
}

/* ---- edges ---- */

/* Nothing past the buffer is read, whatever the number of tokens says. */
static void buffer_ends(void **state) {
    (void)state;
    static guard at;
    int32_t counts[4] = {0}, valid = INT32_MAX;
    int64_t *ids = guard_take(&at, 5 * 3 * sizeof *ids);
    for (int i = 0; i < 15; i++) ids[i] = i % 4;
    op_count a = {ids, &valid, 5, 3, 0, 4, counts, 1};
    count_knobs k = defaults();
    count_by(&op_count_kernels[1], &a, &k, 2);
    assert_int_equal(counts[0], 4);
    assert_int_equal(counts[3], 3);
    a.capacity = 0;
    count_by(&op_count_kernels[1], &a, &k, 2);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], 15);
}

/* Source reports 1.1: how many of the CTAs have work. */
static void grids(void **state) {
    (void)state;
    static const int64_t cases[][6] = {
        /* pairs, block, ctas: blocks, per CTA, busy */
        {2048, 1024, 152, 2, 1, 2},
        {2048, 256, 152, 8, 1, 8},
        {2048, 128, 152, 16, 1, 16},
        {2048, 64, 152, 32, 1, 32},
        {131072, 1024, 152, 128, 1, 128},
        {131072, 128, 152, 1024, 7, 147},
        {131072, 64, 152, 2048, 14, 147},
        {131072, 128, 132, 1024, 8, 128},
        {0, 128, 132, 0, 0, 0},
        {1, 1024, 1, 1, 1, 1},
        {INT64_MAX, 1, 1, INT64_MAX, INT64_MAX, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        count_grid g = count_grid_of(cases[i][0], cases[i][1], cases[i][2]);
        assert_int_equal(g.blocks, cases[i][3]);
        assert_int_equal(g.per_cta, cases[i][4]);
        assert_int_equal(g.busy, cases[i][5]);
    }
}

/* Pairs that a thread takes in turn: what the block changes, and what it does not. */
static void depths(void **state) {
    (void)state;
    static const int64_t cases[][5] = {
        /* pairs, block, warps, ctas: depth */
        {2048, 1024, 4, 132, 8}, {2048, 128, 4, 132, 1}, {2048, 1024, 32, 132, 1}, {2048, 128, 4, 2, 8},
        {2048, 128, 32, 2, 8},   {2048, 64, 4, 132, 1},  {131072, 128, 4, 132, 8}, {0, 128, 4, 132, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        count_knobs k = {.block = (int)cases[i][1], .warps = (int)cases[i][2]};
        assert_int_equal(count_depth(cases[i][0], &k, cases[i][3]), cases[i][4]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),          cmocka_unit_test(whole_matrix), cmocka_unit_test(planted),
        cmocka_unit_test(every_knob),       cmocka_unit_test(grids),        cmocka_unit_test(depths),
        cmocka_unit_test(at_the_same_time), cmocka_unit_test(buffer_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
