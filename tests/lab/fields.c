/* Verdicts against what went wrong in others' comparisons (docs/field-reports.md, B02, B07, B08, B10, B11, B12, B13).
 */
#include "lab_samples.h"

enum { VISITS = 6 };

/* Samples with what ends each, arm by arm; visits are interleaved. */
typedef struct arm {
    const char *name;
    double value;     /* mean of a visit, */
    double spread;    /* relative, up and down by turns */
    const char *more; /* ",\"tokens\":5" */
} arm;

static lab_samples *samples_of(const arm *arms, int count) {
    static char text[100000];
    size_t len = 0;
    int order = 0;
    for (int v = 0; v < VISITS; v++)
        for (int a = 0; a < count; a++, order++)
            for (int i = 0; i < 3; i++) {
                double turn = (v + a) % 2 ? 1 : -1, wiggle = 1 + arms[a].spread * (turn + 0.1 * (i - 1));
                len += (size_t)snprintf(text + len, sizeof text - len,
                                        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"%s\",\"visit\":%d,\"order\":%d,"
                                        "\"iteration\":%d,\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":%.10g%s}\n",
                                        arms[a].name, v + 1, order + 1, i + 1, arms[a].value * wiggle, arms[a].more);
            }
    lab_samples *s = NULL;
    must(lab_samples_parse("t", text, len, &s, fail_out));
    return s;
}

static lab_verdict *judge_arms(const arm *arms, int count, double floor, lab_samples **s) {
    lab_question q = lab_question_default();
    q.noise_floor = floor;
    q.unproven_allowed = true;
    *s = samples_of(arms, count);
    return judge(*s, &q);
}

static void done(lab_verdict *v, lab_samples *s) {
    lab_verdict_free(v);
    lab_samples_free(s);
}

/* B02: replies that failed are counted and refuse the comparison: what was left is another load. */
static void failed_requests(void **state) {
    (void)state;
    const arm arms[] = {{"a", 10, 0.001, ",\"failed\":0"}, {"b", 9, 0.001, ",\"failed\":4"}};
    lab_samples *s;
    lab_verdict *v = judge_arms(arms, 2, 0, &s);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_false(gate_of(v, "failed")->ok);
    assert_true(v->arms[0].failed == 0 && v->arms[1].failed > 0);
    done(v, s);
}

/* B07: equal set-ups that differ by 12 % are no win; nor is a difference below what an A/A run showed, however steady
 * the arms are today. Without that floor the same figures are one. */
static void noise_first(void **state) {
    (void)state;
    lab_samples *s;
    const arm loud[] = {{"a", 10, 0.12, ""}, {"again", 10.2, 0.12, ""}};
    lab_verdict *v = judge_arms(loud, 2, 0, &s);
    assert_true(v->outcome == LAB_WITHIN_NOISE || v->outcome == LAB_UNDERPOWERED);
    done(v, s);
    const arm steady[] = {{"a", 10, 0.001, ""}, {"b", 9.2, 0.001, ""}};
    v = judge_arms(steady, 2, 0.123, &s);
    assert_true(v->outcome == LAB_WITHIN_NOISE || v->outcome == LAB_UNDERPOWERED);
    assert_true(v->contrasts[0].noise_floor >= 0.123);
    done(v, s);
    v = judge_arms(steady, 2, 0, &s);
    assert_int_equal(v->outcome, LAB_WIN);
    done(v, s);
}

/* B08: two changes and both: each delta, both nulls and the gap; nothing of it when one arm's outputs are others. */
static void two_changes(void **state) {
    (void)state;
    static const char *const factors[] = {"a", "b"}, *const names[] = {"base", "a", "b", "ab"};
    static const unsigned masks[] = {0, 1, 2, 3};
    for (int other = 0; other < 2; other++) {
        const char *same = ",\"requests\":[{\"id\":0,\"sha256\":\"aa\"},{\"id\":1,\"sha256\":\"bb\"}]";
        const char *last = other ? ",\"requests\":[{\"id\":0,\"sha256\":\"aa\"},{\"id\":1,\"sha256\":\"cc\"}]" : same;
        const arm arms[] = {{"base", 11.635, 2e-4, same},
                            {"a", 10.761, 2e-4, same},
                            {"b", 9.553, 2e-4, same},
                            {"ab", 8.594, 2e-4, last}};
        lab_question q = lab_question_default();
        lab_samples *s = samples_of(arms, 4);
        lab_stack *k = NULL;
        q.unproven_allowed = true;
        must(lab_stack_new(s, &q, factors, 2, names, masks, 4, &k, fail_out));
        if (other) {
            assert_int_equal(k->verdict->outcome, LAB_REFUSED);
            assert_false(gate_of(k->verdict, "family")->ok);
        } else {
            const lab_effect *both = &k->effects[2];
            assert_int_equal(both->mask, 3);
            assert_near(k->effects[0].alone, -0.0751, 2e-4);
            assert_near(k->effects[1].alone, -0.1789, 2e-4);
            assert_near(both->alone, -0.2614, 2e-4);
            assert_near(both->multiplicative, 8.835, 5e-3);
            assert_near(both->additive, 8.679, 5e-3);
            assert_near(both->multiplicative_gap, -0.0273, 5e-4);
            assert_near(both->additive_gap, -0.0098, 5e-4);
            assert_int_equal(k->verdict->outcome, LAB_WIN);
        }
        lab_stack_free(k);
        lab_samples_free(s);
    }
}

/* B10: outputs at a temperature of .001 without a seed do not repeat, so they are not compared; at 0, or with a seed,
 * they are. */
static void sampling(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        bool ok;
    } runs[] = {{"{\"temperature\":0.001}", false},
                {"{\"temperature\":0.001,\"seed\":null}", false},
                {"{\"temperature\":0.001,\"seed\":7}", true},
                {"{\"temperature\":0}", true}};
    for (int i = 0; i < 4; i++) {
        char more[200];
        snprintf(more, sizeof more, ",\"manifest\":{\"protocol\":{\"sampling\":%s}}", runs[i].settings);
        const arm arms[] = {{"a", 10, 0.001, more}, {"b", 9, 0.001, more}};
        lab_samples *s;
        lab_verdict *v = judge_arms(arms, 2, 0, &s);
        const lab_gate *g = gate_of(v, "sampling");
        assert_int_equal(g->ok, runs[i].ok);
        assert_int_equal(v->outcome, runs[i].ok ? LAB_WIN : LAB_REFUSED);
        if (!g->ok) assert_non_null(strstr(g->why, "not comparable"));
        done(v, s);
    }
}

/* B11: an arm whose table was never used has a clear difference (drift) and no verdict. */
static void not_active(void **state) {
    (void)state;
    const arm arms[] = {{"default", 10, 0.001, ",\"active\":true"},
                        {"table", 9, 0.001, ",\"active\":false,\"why\":\"must 'source=user': not seen\""}};
    lab_samples *s;
    lab_verdict *v = judge_arms(arms, 2, 0, &s);
    const lab_gate *g = gate_of(v, "activation");
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_false(g->ok);
    assert_non_null(strstr(g->why, "table"));
    done(v, s);
}

/* B12: one changed answer of twenty is another family, whatever the order in which the requests ended. */
static void one_answer(void **state) {
    (void)state;
    static char more[3][2000];
    for (int k = 0; k < 3; k++) {
        size_t len = (size_t)snprintf(more[k], sizeof more[k], ",\"requests\":[");
        for (int i = 0; i < 20; i++) {
            int id = k == 1 ? 19 - i : i; /* 1: the same answers, ended in another order; 2: one is another */
            len += (size_t)snprintf(more[k] + len, sizeof more[k] - len, "%s{\"id\":%d,\"sha256\":\"%02x%s\"}",
                                    i ? "," : "", id, id, k == 2 && id == 13 ? "e" : "f");
        }
        snprintf(more[k] + len, sizeof more[k] - len, "]");
    }
    for (int k = 1; k < 3; k++) {
        const arm arms[] = {{"a", 10, 0.001, more[0]}, {"b", 9, 0.001, more[k]}};
        lab_samples *s;
        lab_verdict *v = judge_arms(arms, 2, 0, &s);
        assert_int_equal(v->outcome, k == 1 ? LAB_WIN : LAB_REFUSED);
        assert_int_equal(gate_of(v, "family")->ok, k == 1);
        done(v, s);
    }
}

/* B13: three draft tokens, two of them accepted each step: 2.0 accepted per draft, 3.0 emitted per step. */
static void bonus_token(void **state) {
    (void)state;
    const char *more = ",\"drafts\":100,\"draft_tokens\":300,\"accepted\":200";
    const arm arms[] = {{"a", 10, 0.001, more}, {"b", 9, 0.001, more}};
    lab_samples *s;
    lab_verdict *v = judge_arms(arms, 2, 0, &s);
    assert_near(v->arms[0].accepted_per_draft, 2.0, 1e-12);
    assert_near(v->arms[0].acceptance_length, 3.0, 1e-12);
    assert_near(v->arms[0].acceptance_rate, 2 / 3.0, 1e-12);
    done(v, s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(failed_requests), cmocka_unit_test(noise_first),
                                       cmocka_unit_test(two_changes),     cmocka_unit_test(sampling),
                                       cmocka_unit_test(not_active),      cmocka_unit_test(one_answer),
                                       cmocka_unit_test(bonus_token)};
    return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
