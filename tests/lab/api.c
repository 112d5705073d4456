/* api: the public verdict on the golden experiment; defaults; refusals without figures; errors; the header alone. */
#include "base/base.h"
#include "cadre_lab.h"
#include "test.h"
#include <math.h>

static const double values[4][5] = {{23027.5, 22998.0, 23008.3, 22993.6, 23024.4},
                                    {23580.0, 23510.6, 23535.9, 23548.9, 23522.6},
                                    {23050.6, 22997.1, 23032.6, 23014.0, 23018.1},
                                    {23547.3, 23517.0, 23543.0, 23553.0, 23576.3}};
static cadre_lab_sample samples[20];

/* A7: off on off on, five iterations each. */
static void golden_samples(void) {
    for (int i = 0; i < 20; i++)
        samples[i] = (cadre_lab_sample){.arm = i / 5 % 2 ? "ON" : "OFF",
                                        .value = values[i / 5][i % 5],
                                        .visit = 1 + i / 10,
                                        .iteration = 1 + i % 5};
}

static const cadre_lab_question rate = {.metric = "throughput", .unit = "tokens/s"};

static cadre_lab_verdict *judge(const cadre_lab_question *q) {
    cadre_lab_verdict *v = NULL;
    must(cadre_lab_verdict_new(samples, 20, q, &v, fail_out));
    return v;
}

static const cadre_lab_gate *gate_of(const cadre_lab_verdict *v, const char *name) {
    for (int i = 0; cadre_lab_verdict_gate(v, i); i++)
        if (!strcmp(cadre_lab_verdict_gate(v, i)->name, name)) return cadre_lab_verdict_gate(v, i);
    return NULL;
}

static void golden(void **state) {
    (void)state;
    golden_samples();
    char reference[] = "OFF";
    cadre_lab_question q = rate;
    q.reference = reference;
    cadre_lab_verdict *v = judge(&q);
    memset(reference, 'x', 3); /* texts were copied */
    memset(samples, 0, sizeof samples);
    const cadre_lab_contrast *c = cadre_lab_verdict_contrast(v, 0);
    assert_int_equal(cadre_lab_verdict_outcome(v), CADRE_LAB_WIN);
    assert_int_equal(c->outcome, CADRE_LAB_WIN);
    assert_string_equal(c->arm, "ON");
    assert_string_equal(c->reference, "OFF");
    assert_true(fabs(c->ratio - 1.022898) < 1e-6);
    assert_true(c->interval[0] > 1.02 && c->interval[1] < 1.026);
    assert_true(fabs(c->p - 2 / 184756.0) < 1e-12 && fabs(c->p_floor - c->p) < 1e-12);
    assert_true(c->p_interval < 0.001 && c->p_adjusted == c->p_interval);
    assert_true(fabs(c->bootstrap[0] - 1.02215) < 1e-4 && fabs(c->bootstrap[1] - 1.02366) < 1e-4);
    assert_true(fabs(c->mean - 23543.46) < 1e-6 && fabs(c->reference_mean - 23016.42) < 1e-6);
    assert_int_equal(c->samples, 10);
    assert_int_equal(c->visits, 2);
    assert_non_null(strstr(c->why, "+2.29 %"));
    assert_true(gate_of(v, "interleaved")->ok && gate_of(v, "interleaved")->told);
    assert_false(gate_of(v, "family")->told);
    assert_null(cadre_lab_verdict_contrast(v, 1));
    assert_null(cadre_lab_verdict_contrast(v, -1));
    assert_null(cadre_lab_verdict_gate(v, 99));
    cadre_lab_verdict_free(v);
    cadre_lab_verdict_free(NULL);
}

static void asked(void **state) {
    (void)state;
    golden_samples();
    cadre_lab_question q = {.better = CADRE_LAB_LOWER, .effect = 0.02, .resamples = -1};
    cadre_lab_verdict *v = judge(&q);
    assert_int_equal(cadre_lab_verdict_outcome(v), CADRE_LAB_LOSS);
    assert_true(isnan(cadre_lab_verdict_contrast(v, 0)->bootstrap[0]));
    cadre_lab_verdict_free(v);
    q.effect = 0.03;
    v = judge(&q);
    assert_int_equal(cadre_lab_verdict_outcome(v), CADRE_LAB_WITHIN_NOISE);
    cadre_lab_verdict_free(v);
    q = rate;
    q.reference = "ON";
    v = judge(&q);
    assert_int_equal(cadre_lab_verdict_outcome(v), CADRE_LAB_LOSS);
    assert_string_equal(cadre_lab_verdict_contrast(v, 0)->arm, "OFF");
    cadre_lab_verdict_free(v);
}

/* What objects: digests, tokens, failures, acceptance, an arm that was not at work. No difference is told. */
static void refused(const char *gate) {
    cadre_lab_verdict *v = judge(&rate);
    const cadre_lab_contrast *c = cadre_lab_verdict_contrast(v, 0);
    assert_int_equal(c->outcome, CADRE_LAB_REFUSED);
    assert_true(isnan(c->ratio) && isnan(c->interval[0]) && isnan(c->p) && isnan(c->p_adjusted));
    assert_false(isnan(c->mean));
    assert_false(gate_of(v, gate)->ok);
    assert_memory_equal(c->why, gate, strlen(gate));
    cadre_lab_verdict_free(v);
    golden_samples();
}

static void gates(void **state) {
    (void)state;
    golden_samples();
    for (int i = 0; i < 20; i++) samples[i].family = i == 7 ? "b" : "a";
    refused("family");
    for (int i = 0; i < 20; i++) samples[i].tokens = i == 7 ? 9 : 10;
    refused("tokens");
    samples[3].failed = 1;
    refused("failed");
    for (int i = 0; i < 20; i++) samples[i].active = i == 19 ? CADRE_LAB_INACTIVE : CADRE_LAB_ACTIVE;
    refused("activation");
    for (int i = 0; i < 20; i++) samples[i].drafts = 10, samples[i].accepted = i / 5 % 2 ? 20 : 25;
    refused("acceptance");
    for (int i = 0; i < 20; i++) samples[i].order = 1 + i / 5 % 2 * 2 + i / 10; /* off off on on */
    refused("interleaved");
    for (int i = 0; i < 20; i++) samples[i].drafts = 10; /* nothing accepted: one token a step */
    cadre_lab_verdict *v = judge(&rate);
    assert_int_equal(cadre_lab_verdict_outcome(v), CADRE_LAB_WIN);
    assert_true(gate_of(v, "acceptance")->told && gate_of(v, "acceptance")->ok);
    cadre_lab_verdict_free(v);
}

static void bad(int count, const cadre_lab_question *q, cadre_err code, const char *words) {
    cadre_lab_verdict *v = (cadre_lab_verdict *)1;
    cadre_fail why = {0};
    assert_int_equal(cadre_lab_verdict_new(samples, count, q, &v, &why), code);
    assert_string_equal(why.text, words);
    assert_ptr_equal(v, (cadre_lab_verdict *)1);
    assert_int_equal(cadre_lab_verdict_new(samples, count, q, &v, NULL), code);
    golden_samples();
}

static void errors(void **state) {
    (void)state;
    golden_samples();
    bad(0, &rate, CADRE_RANGE, "no samples");
    bad(5, &rate, CADRE_RANGE, "one arm, OFF: nothing to compare it with");
    bad(20, NULL, CADRE_RANGE, "nothing says whether more or less value (unit not told) is better: say which");
    samples[2].arm = NULL;
    bad(20, &rate, CADRE_RANGE, "sample 2 has no arm");
    samples[2].value = INFINITY;
    bad(20, &rate, CADRE_RANGE, "sample 2 is infinite");
    samples[2].visit = -1;
    bad(20, &rate, CADRE_RANGE, "sample 2 has a negative visit, order or iteration");
    samples[2].active = (cadre_lab_active)7;
    bad(20, &rate, CADRE_RANGE, "sample 2: active is 7");
    samples[3] = samples[2];
    bad(20, &rate, CADRE_FORMAT, "throughput of arm OFF, visit 1, iteration 3 is there twice");
    bad(20, &(cadre_lab_question){.better = (cadre_lab_better)9}, CADRE_RANGE,
        "better is 9: expected one of cadre_lab_better");
    bad(20, &(cadre_lab_question){.unit = "ms", .level = 2}, CADRE_RANGE, "level 2: expected a number between 0 and 1");
    bad(-1, &rate, CADRE_RANGE, "samples, their count or the place of the result is none");
    assert_int_equal(cadre_lab_verdict_new(samples, 20, &rate, NULL, NULL), CADRE_RANGE);
    assert_int_equal(cadre_lab_verdict_new(NULL, 20, &rate, &(cadre_lab_verdict *){NULL}, NULL), CADRE_RANGE);
}

static void out_of_memory(void **state) {
    (void)state;
    golden_samples();
    for (int n = 0;; n++) {
        cadre_lab_verdict *v = NULL;
        mem_fail_after(n);
        cadre_err err = cadre_lab_verdict_new(samples, 20, &rate, &v, NULL);
        mem_fail_after(-1);
        if (!err) {
            assert_true(n > 10);
            cadre_lab_verdict_free(v);
            break;
        }
        assert_int_equal(err, CADRE_NOMEM);
        assert_null(v);
    }
}

static void names(void **state) {
    (void)state;
    assert_string_equal(cadre_lab_outcome_name(CADRE_LAB_WIN), "win");
    assert_string_equal(cadre_lab_outcome_name(CADRE_LAB_WITHIN_NOISE), "within_noise");
    assert_string_equal(cadre_lab_outcome_name(CADRE_LAB_REFUSED), "refused");
    assert_string_equal(cadre_lab_outcome_name((cadre_lab_outcome)77), "none");
    assert_int_equal(cadre_lab_visits_needed(0.01, 0.01, 0.05, 0.8), 17);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden), cmocka_unit_test(asked),         cmocka_unit_test(gates),
        cmocka_unit_test(errors), cmocka_unit_test(out_of_memory), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
