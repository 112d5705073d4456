/* stack: both nulls of the reports' two-by-two tables, intervals, leave-one-out, designs that are not whole, refusals.
 */
#include "lab_samples.h"

static const char *const two[] = {"x", "y"}, *const four[] = {"none", "x", "y", "both"};
static const unsigned masks[] = {0, 1, 2, 3};

static lab_stack *stack_of(const lab_samples *s, const lab_question *q) {
    lab_stack *k = NULL;
    must(lab_stack_new(s, q, two, 2, four, masks, 4, &k, fail_out));
    return k;
}

static void nulls_of(const char *text, double additive, double additive_gap, double product, double product_gap) {
    lab_samples *s = visits_of("tpot_ms", "ms", text, "");
    lab_stack *k = stack_of(s, NULL);
    const lab_effect *e = &k->effects[2];
    assert_string_equal(e->name, "x x y");
    assert_near(e->additive, additive, 5e-4);
    assert_near(100 * e->additive_gap, additive_gap, 5e-3);
    assert_near(e->multiplicative, product, 5e-4);
    assert_near(100 * e->multiplicative_gap, product_gap, 5e-3);
    assert_true(isnan(e->interval[0]) && isnan(e->additive_interval[1])); /* one visit each */
    lab_stack_free(k);
    lab_samples_free(s);
}

/* V35 */
static void both_nulls(void **state) {
    (void)state;
    nulls_of("none:11.635\nx:10.761\ny:9.553\nboth:8.594\n", 8.679, -0.98, 8.835, -2.73);
    nulls_of("none:8.169\nx:7.531\ny:6.639\nboth:5.967\n", 6.001, -0.57, 6.120, -2.51);
    nulls_of("none:6.6207\nx:6.2626\ny:5.9338\nboth:5.5649\n", 5.5755, -0.19, 5.6129, -0.85);
    puts("vector V35 ok");
}

static const char repeated[] = "none:10.0 10.02\nx:9.01 8.99\ny:8.0 8.02\nboth:7.19 7.21\n"
                               "both:7.22 7.20\ny:8.02 8.00\nx:8.98 9.0\nnone:9.98 10.0\n"
                               "none:10.01 9.99\nx:9.0 9.02\ny:7.98 8.0\nboth:7.18 7.20\n"
                               "both:7.2 7.22\ny:8.01 7.99\nx:9.0 9.0\nnone:10.0 9.99\n";

static void intervals(void **state) {
    (void)state;
    lab_samples *s = visits_of("tpot_ms", "ms", repeated, "");
    lab_stack *k = stack_of(s, NULL);
    const lab_effect *x = &k->effects[0], *y = &k->effects[1], *e = &k->effects[2];
    assert_int_equal(k->verdict->outcome, LAB_WIN);
    assert_near(x->alone, -0.1, 1e-3);
    assert_near(y->alone, -0.2, 1e-3);
    assert_near(e->alone, -0.28, 1e-3);
    assert_near(x->additive, x->multiplicative, 0);
    assert_near(x->additive_gap, 0, 1e-15);
    assert_true(isnan(x->interval[0]));
    /* 10 x 0.9 x 0.8 = 7.2: the product holds; the sum, 7.0, is off by 2.9 % */
    assert_true(e->interval[0] < 0 && e->interval[1] > 0 && e->interval[1] < 0.005);
    assert_true(e->interval[0] < e->multiplicative_gap && e->interval[1] > e->multiplicative_gap);
    assert_near(e->additive_gap, 0.0288, 1e-3);
    assert_true(e->additive_interval[0] > 0.02 && e->additive_interval[1] < 0.04);
    assert_near(k->leave_one_out[0], 7.2 / 8 - 1, 2e-3);
    assert_near(k->leave_one_out[1], 7.2 / 9 - 1, 2e-3);
    for (int i = 0; i < 2; i++) {
        assert_true(k->leave_interval[i][0] < k->leave_one_out[i] && k->leave_interval[i][1] > k->leave_one_out[i]);
        assert_true(k->leave_interval[i][1] - k->leave_interval[i][0] < 0.01);
    }
    assert_string_equal(k->factors[1], "y");
    lab_stack_free(k);
    lab_samples_free(s);
}

/* Three factors, and only none, singles and all: what can't be told is NaN. */
static void partial(void **state) {
    (void)state;
    const char *const factors[] = {"a", "b", "c"}, *const arms[] = {"none", "a", "b", "c", "all"};
    const unsigned m[] = {0, 1, 2, 4, 7};
    lab_samples *s = visits_of("t", "ms", "none:10\na:9\nb:8\nc:5\nall:3.5\n", "");
    lab_stack *k = NULL;
    must(lab_stack_new(s, NULL, factors, 3, arms, m, 5, &k, fail_out));
    const lab_effect *e = &k->effects[6];
    assert_string_equal(e->name, "a x b x c");
    assert_near(e->additive, 2, 1e-12);
    assert_near(e->multiplicative, 3.6, 1e-12);
    assert_true(isnan(k->effects[2].alone) && isnan(k->effects[2].additive));
    assert_string_equal(k->effects[2].name, "a x b");
    assert_true(isnan(k->leave_one_out[0]));
    lab_stack_free(k);
    lab_samples_free(s);
}

static void refused(void **state) {
    (void)state;
    lab_samples *s = visits_of("t", "ms", "none:10\nx:9\ny:8\nboth:7\n", "");
    lab_sample items[4];
    for (int i = 0; i < 4; i++) items[i] = *lab_samples_at(s, i), items[i].failed = i == 1 ? 2 : 0;
    lab_samples *t = NULL;
    must(lab_samples_new(items, 4, &t, fail_out));
    lab_stack *k = stack_of(t, NULL);
    assert_int_equal(k->verdict->outcome, LAB_REFUSED);
    assert_true(isnan(k->effects[0].alone) && isnan(k->effects[2].additive_gap));
    assert_near(k->effects[1].alone, -0.2, 1e-12);
    assert_near(k->leave_one_out[0], 7 / 8.0 - 1, 1e-12);
    assert_true(isnan(k->leave_one_out[1]));
    lab_stack_free(k);
    lab_samples_free(t);
    lab_samples_free(s);
}

static void bad(const lab_samples *s, int factors, const char *const *arms, const unsigned *m, int n,
                const char *message) {
    lab_stack *k = (lab_stack *)1;
    cadre_fail why = {0};
    assert_int_equal(lab_stack_new(s, NULL, two, factors, arms, m, n, &k, &why), CADRE_RANGE);
    assert_string_equal(why.text, message);
    assert_ptr_equal(k, (lab_stack *)1);
}

static void designs(void **state) {
    (void)state;
    lab_samples *s = visits_of("t", "ms", "none:10\nx:9\ny:8\nboth:7\n", "");
    bad(s, 0, four, masks, 4, "0 factors: expected 1 to 6");
    bad(s, 1, four, masks, 4, "arm y has factors that are not named");
    bad(s, 2, four, (const unsigned[]){0, 1, 1, 3}, 4, "two arms with the factors of y");
    bad(s, 2, four + 1, masks + 1, 3, "no arm without any factor");
    bad(s, 2, four, masks, 2, "no arm with y alone");
    bad(s, 2, four, masks, 3, "no arm with all factors");
    bad(s, 2, (const char *const[]){"none", "x", "y", "xy"}, masks, 4, "no arm \"xy\" in the samples");
    lab_samples_free(s);
}

/* A drift that all arms share leaves their ratios alone. */
static void drift_taken_out(void **state) {
    (void)state;
    char text[600];
    size_t len = 0;
    const double noise[] = {0.3,  -0.4,  0.1,  -0.2,  0.4,  -0.1,  0.2,  -0.3,
                            0.25, -0.15, 0.05, -0.35, 0.15, -0.05, 0.35, -0.25};
    for (int i = 0; i < 16; i++) {
        const double truth[] = {10, 9, 8, 7.2};
        double v = truth[i % 4] * (1 + 0.01 * i) * (1 + 0.001 * noise[i]);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s:%.6f\n", four[i % 4], v);
    }
    lab_samples *s = visits_of("t", "ms", text, "");
    lab_stack *k = stack_of(s, NULL);
    assert_true(k->verdict->drift_corrected);
    assert_near(k->verdict->drift_slope, 0.0095, 1e-3);
    assert_near(k->effects[0].alone, -0.1, 2e-3);
    assert_near(k->effects[2].alone, -0.28, 2e-3);
    assert_near(k->effects[2].multiplicative_gap, 0, 2e-3);
    assert_true(k->effects[2].interval[0] < 0 && k->effects[2].interval[1] > 0);
    lab_stack_free(k);
    lab_samples_free(s);
}

static void out_of_memory(void **state) {
    (void)state;
    lab_samples *s = visits_of("t", "ms", repeated, "");
    for (int n = 0;; n++) {
        lab_stack *k = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = lab_stack_new(s, NULL, two, 2, four, masks, 4, &k, &why);
        mem_fail_after(-1);
        if (!err) {
            assert_true(n > 10);
            lab_stack_free(k);
            break;
        }
        assert_int_equal(err, CADRE_NOMEM);
        assert_null(k);
    }
    lab_samples_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_nulls),    cmocka_unit_test(intervals), cmocka_unit_test(partial),
        cmocka_unit_test(refused),       cmocka_unit_test(designs),   cmocka_unit_test(drift_taken_out),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
