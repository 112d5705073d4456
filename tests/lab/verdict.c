/* verdict: the golden experiment (A7) figure by figure; each outcome and why; what is chosen when nothing is said. */
#include "lab_samples.h"

static void golden(void **state) {
    (void)state;
    lab_samples *s = visits_of("tokens_per_s", "tokens/s", a7, "");
    lab_verdict *v = judge(s, NULL);
    const lab_arm_figures *off = &v->arms[0], *on = &v->arms[1];
    const lab_contrast *c = &v->contrasts[0];
    assert_string_equal(off->name, "OFF");
    assert_int_equal(off->n, 10);
    assert_int_equal(off->visits, 2);
    assert_near(off->visit_means[0], 23010.36, 1e-6);
    assert_near(on->visit_means[0], 23539.60, 1e-6);
    assert_near(off->visit_means[1], 23022.48, 1e-6);
    assert_near(on->visit_means[1], 23547.32, 1e-6);
    assert_near(off->sd, 18.026, 5e-4);
    assert_near(on->sd, 23.145, 5e-4);
    assert_near(off->within_sd, 17.88, 5e-3);
    assert_near(on->within_sd, 24.17, 5e-3);
    assert_near(lab_pooled_sd((const double *const[]){off->values, on->values}, (const int[]){10, 10}, 2), 20.74, 5e-3);
    assert_near(off->high, 23050.6, 1e-9);
    assert_near(on->low, 23510.6, 1e-9);
    assert_near(100 * (c->ratio - 1), 2.2898, 5e-5);
    assert_near(c->delta, 527.04, 1e-6);
    assert_near(100 * c->pairs[0], 2.300, 5e-4);
    assert_near(100 * c->pairs[1], 2.280, 5e-4);
    assert_int_equal(c->pair_count, 2);
    assert_near(c->separation, 460.0, 1e-6);
    assert_near(c->p, 2 / 184756.0, 1e-15);
    assert_near(c->p, 1.0825e-5, 5e-10);
    assert_near(c->p_floor, c->p, 1e-15);
    assert_near(c->p_visits, 1 / 3.0, 1e-12);
    assert_near(100 * (c->bootstrap[0] - 1), 2.215, 0.01);
    assert_near(100 * (c->bootstrap[1] - 1), 2.366, 0.01);
    assert_true(c->log_ratio[0] > 1.0220 && c->log_ratio[1] < 1.0239);
    assert_true(c->interval[0] > 1.02 && c->interval[0] < c->ratio && c->interval[1] > c->ratio);
    assert_string_equal(c->estimator, "Welch t on logs of visit means, 2 + 2 visits");
    assert_int_equal(v->better, LAB_HIGHER);
    assert_int_equal(c->outcome, LAB_WIN);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_false(v->drift_corrected);
    assert_true(gate_of(v, "interleaved")->ok && gate_of(v, "interleaved")->told);
    print_message("%s\n", c->why);
    for (int i = 0; i < v->gate_count; i++) print_message("%s: %s\n", v->gates[i].name, v->gates[i].why);
    lab_verdict_free(v);
    lab_samples_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
    };
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
