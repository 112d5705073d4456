/* cpu_vec.h: the verbs of src/op/cpu/vec.h against plain C, bit for bit; the body of one test program per instruction
 * set, which says in CPU_VEC_ISA what the CPU must have. */
#include "probe.h"

#if defined(__x86_64__)
#    include "op/cpu/vec.h"

enum { STRIDE = 4099 }; /* over the 2^32 floats: a prime, so that every exponent and many fractions are met */

static int setup(void **state) {
    (void)state;
    probe_flush();
    return 0;
}

static void need_cpu(void) {
    const char *lacks = probe_lacks(CPU_VEC_ISA);
    if (lacks == NULL) return;
    print_message("skipped: the CPU lacks %s\n", lacks);
    skip();
}

/* 16 values from bit pattern *u on; false when all have been seen. */
static bool next_values(uint64_t *u, float v[OP_LANES]) {
    for (int i = 0; i < OP_LANES; i++, *u += STRIDE) v[i] = probe_bits((uint32_t)*u);
    return *u <= UINT32_MAX;
}

static void same_functions(const float v[OP_LANES]) {
    float e[OP_LANES], s[OP_LANES];
    v_store(e, v_exp(v_load(v)));
    v_store(s, v_silu(v_load(v)));
    for (int i = 0; i < OP_LANES; i++) {
        if (!probe_same(e[i], op_exp(v[i]))) fail_msg("exp(%a) is %a, not %a", v[i], e[i], op_exp(v[i]));
        if (!probe_same(s[i], op_silu(v[i]))) fail_msg("silu(%a) is %a, not %a", v[i], s[i], op_silu(v[i]));
    }
}

static void exp_and_silu_are_the_scalar_ones(void **state) {
    (void)state;
    need_cpu();
    const float edges[OP_LANES] = {EXP_LOW,   -0x1.5bfffep+6f, -0x1.5c0002p+6f,
                                   EXP_HIGH,  0x1.5ffffep+6f,  0x1.600002p+6f,
                                   -INFINITY, INFINITY,        NAN,
                                   0.0f,      -0.0f,           1.0f,
                                   -EXP_HIGH, -EXP_LOW,        0x1p-126f,
                                   -0x1p-149f};
    float v[OP_LANES];
    same_functions(edges);
    for (uint64_t u = 0; next_values(&u, v);) same_functions(v);
}

static void rounding_is_the_scalar_one(void **state) {
    (void)state;
    need_cpu();
    float v[OP_LANES];
    uint16_t b[OP_LANES];
    for (uint64_t u = 0; next_values(&u, v);) {
        v_store_bf16(b, v_load(v));
        for (int i = 0; i < OP_LANES; i++) {
            if (b[i] != op_bf16(v[i])) fail_msg("bf16(%a) is %04x, not %04x", v[i], b[i], op_bf16(v[i]));
        }
    }
}

static float tree(const float *v) {
    float lane[OP_LANES];
    memcpy(lane, v, sizeof lane);
    for (int s = 8; s >= 1; s /= 2) {
        for (int j = 0; j < s; j++) lane[j] = lane[j] + lane[j + s];
    }
    return lane[0];
}

static void sums_are_the_tree(void **state) {
    (void)state;
    need_cpu();
    rand_stream r = {7, 0};
    for (int round = 0; round < 1000; round++) {
        float v[OP_LANES][OP_LANES], four[4], all[OP_LANES];
        vf x[OP_LANES];
        probe_fill(&r, (flavour)(round % FLAVOURS), CADRE_F32, v, OP_LANES * OP_LANES);
        for (int i = 0; i < OP_LANES; i++) x[i] = v_load(v[i]);
        _mm_storeu_ps(four, v_sum16x4(x[0], x[1], x[2], x[3]));
        v_store(all, v_sum16x16(x));
        for (int i = 0; i < OP_LANES; i++) {
            assert_true(probe_same(v_sum16(x[i]), tree(v[i])));
            assert_true(probe_same(all[i], tree(v[i])));
            assert_true(i >= 4 || probe_same(four[i], tree(v[i])));
        }
    }
}

/* What lies behind the first n lanes is neither read nor written: it is a guard page, then other values. */
static void parts_keep_to_themselves(void **state) {
    (void)state;
    need_cpu();
    static guard end;
    for (int t = CADRE_F32; t <= CADRE_BF16; t++) {
        size_t size = op_dtype_size((cadre_dtype)t);
        for (int n = 0; n <= OP_LANES; n++) {
            char *p = guard_take(&end, (size_t)n * size), around[OP_LANES * 4];
            float got[OP_LANES];
            for (int i = 0; i < n; i++) {
                float one = 1.0f + (float)i;
                uint16_t b = op_bf16(one);
                memcpy(p + (size_t)i * size, t == CADRE_F32 ? (void *)&one : (void *)&b, size);
            }
            v_store(got, v_load_part_as((cadre_dtype)t, p, n));
            for (int i = 0; i < OP_LANES; i++) assert_true(probe_same(got[i], i < n ? 1.0f + (float)i : 0.0f));
            v_store_part_as((cadre_dtype)t, p, v_set(3.0f), n);
            memset(around, 0x5a, sizeof around);
            v_store_part_as((cadre_dtype)t, around, v_set(3.0f), n);
            assert_memory_equal(around, p, (size_t)n * size);
            for (size_t i = (size_t)n * size; i < sizeof around; i++) assert_int_equal(around[i], 0x5a);
        }
    }
}

static float chain(bool bf16, const char *w, const char *x, int steps, int lane) {
    float acc = 0;
    for (int i = 0; i < steps; i++) {
        uint16_t a[2], b[2];
        float fa, fb;
        memcpy(a, w + 64 * i + 4 * lane, 4), memcpy(b, x + 4 * i, 4);
        memcpy(&fa, a, 4), memcpy(&fb, b, 4);
        if (bf16) acc = fmaf(op_from_bf16(a[1]), op_from_bf16(b[1]), acc);
        acc = bf16 ? fmaf(op_from_bf16(a[0]), op_from_bf16(b[0]), acc) : fmaf(fa, fb, acc);
    }
    return acc;
}

static vf vector_chain(bool bf16, const char *w, const char *x, int steps) {
    vf acc = v_zero();
    for (int i = 0; i < steps; i++) {
        for (int phase = 0; phase < (bf16 && !VEC_ONE_PHASE ? 2 : 1); phase++)
            acc = w_step(bf16, acc, w_line(bf16, phase, w + 64 * i), w_input(bf16, phase, x + 4 * i));
    }
    return acc;
}

static void products_are_the_chains(void **state) {
    (void)state;
    need_cpu();
    enum { STEPS = 24 };
    rand_stream r = {11, 0};
    for (int round = 0; round < 3000; round++) {
        char w[STEPS * 64], x[STEPS * 4];
        bool bf16 = round % 2;
        cadre_dtype t = bf16 ? CADRE_BF16 : CADRE_F32;
        probe_fill(&r, (flavour)(round / 2 % FLAVOURS), t, w, sizeof w / op_dtype_size(t));
        probe_fill(&r, (flavour)(round / 6 % FLAVOURS), t, x, sizeof x / op_dtype_size(t));
        float got[OP_LANES];
        v_store(got, vector_chain(bf16, w, x, STEPS));
        for (int i = 0; i < OP_LANES; i++) assert_true(probe_same(got[i], chain(bf16, w, x, STEPS, i)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_silu_are_the_scalar_ones),
        cmocka_unit_test(rounding_is_the_scalar_one),
        cmocka_unit_test(sums_are_the_tree),
        cmocka_unit_test(parts_keep_to_themselves),
        cmocka_unit_test(products_are_the_chains),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
#else
int main(void) {
    return 0;
}
#endif
