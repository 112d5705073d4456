/* conversion: what was predicted against what came; ceilings, whose outputs may be others and which claim nothing; the
 * floor, below which nothing can be measured. */
#include "lab_samples.h"

static lab_samples *samples;

static void done(lab_verdict *v) {
    lab_verdict_free(v);
    lab_samples_free(samples);
}

/* ---- conversion ---- */

/* The report's own case: 381.8 -> 99.7 us of counting were predicted for a step of 11.1225 ms, and 0.249 ms came. */
static const char tpot[] = "off:11.1225 11.1226\non:10.8735 10.8736\noff:11.1224 11.1225\non:10.8734 10.8735\n"
                           "off:11.1225 11.1225\non:10.8735 10.8735\n";

static lab_conversion converted(const lab_arm *arm, lab_verdict **v) {
    lab_arm arms[] = {{.name = "off", .predicted = NAN, .predicted_delta = NAN}, *arm};
    lab_experiment e = {.name = "count", .arms = arms, .arm_count = 2};
    lab_conversion c;
    samples = visits_of("tpot_ms", "ms", tpot, "");
    *v = judge(samples, NULL);
    assert_true(lab_conversion_of(&e, *v, 0, &c));
    return c;
}

static void of_a_microbenchmark(void **state) {
    lab_verdict *v;
    char text[300];
    (void)state;
    lab_conversion c =
        converted(&(lab_arm){.name = "on", .predicted = NAN, .predicted_delta = (99.7 - 381.8) / 1000}, &v);
    assert_near(c.predicted, -0.2821 / 11.1225, 1e-7);
    assert_near(c.conversion, 0.249 / 0.2821, 1e-4); /* 0.883 */
    assert_true(c.interval[0] < c.conversion && c.conversion < c.interval[1] && c.interval[1] < 0.9);
    assert_false(c.odd || c.below_floor || c.before_run);
    lab_conversion_say(&c, text, sizeof text);
    assert_string_equal(text, "conversion 0.88 (0.88 to 0.88): -2.54 % predicted, -2.24 % measured");
    done(v);
}

static void odd_ones(void **state) {
    static const struct {
        double predicted;
        bool odd;
        const char *words;
    } cases[] = {
        {-0.0224, false, "measured"},
        {-0.0440, false, "measured"}, /* 0.51 */
        {-0.0450, true, "; below 0.5: most of it does not arrive in what is measured here"},
        {-0.0210, false, "measured"}, /* 1.07 */
        {-0.0200, true, "; above 1.1: something else changed too"},
        {0.0200, true, "; the opposite came"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_verdict *v;
        char text[300];
        lab_conversion c =
            converted(&(lab_arm){.name = "on", .predicted = cases[i].predicted, .predicted_delta = NAN}, &v);
        lab_conversion_say(&c, text, sizeof text);
        if (c.odd != cases[i].odd || !strstr(text, cases[i].words)) fail_msg("%g: %s", cases[i].predicted, text);
        done(v);
    }
}

static void without_a_number(void **state) {
    lab_verdict *v;
    char text[300];
    (void)state;
    lab_conversion c =
        converted(&(lab_arm){.name = "on", .prediction = "x", .predicted = 0, .predicted_delta = NAN}, &v);
    assert_true(isnan(c.conversion) && !c.odd); /* of none predicted there is no share */
    lab_conversion_say(&c, text, sizeof text);
    assert_string_equal(text, "");
    assert_false(lab_conversion_of(NULL, v, 0, &c));
    lab_arm other = {.name = "on", .predicted = -0.1, .predicted_delta = NAN};
    lab_experiment e = {.name = "count", .arms = &other, .arm_count = 1, .question = {.metric = "ttft_ms"}};
    assert_false(lab_conversion_of(&e, v, 0, &c)); /* what was predicted is another figure */
    v->contrasts[0].outcome = LAB_REFUSED;
    e.question.metric = "tpot_ms";
    assert_true(lab_conversion_of(&e, v, 0, &c));
    assert_true(isnan(c.measured) && isnan(c.conversion)); /* a refused difference is told nowhere */
    done(v);
}

/* A prediction counts as one only if the samples name the file that holds it. */
static void before_the_run(void **state) {
    lab_arm arm = {.name = "on", .predicted = -0.1, .predicted_delta = NAN};
    lab_experiment e = {.name = "count", .arms = &arm, .arm_count = 1, .sha256 = "aa"};
    lab_conversion c;
    (void)state;
    samples = visits_of("tpot_ms", "ms", tpot, ",\"manifest\":{\"experiment_sha256\":\"aa\"}");
    lab_verdict *v = judge(samples, NULL);
    assert_true(lab_conversion_of(&e, v, 0, &c) && c.before_run);
    e.sha256 = "bb"; /* edited since */
    assert_true(lab_conversion_of(&e, v, 0, &c) && !c.before_run);
    done(v);
}

/* ---- ceilings ---- */

static lab_samples *with_ceiling(const char *of_new) {
    static const char *const names[] = {"old", "new", "free"};
    static const double values[] = {10, 9.8, 8};
    static char text[20000];
    size_t n = 0;
    lab_samples *s = NULL;
    for (int i = 0; i < 36; i++) {
        int arm = i / 2 % 3;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"arm\":\"%s\",\"visit\":%d,\"order\":%d,\"metric\":\"t\",\"unit\":\"ms\",\"value\":%g,"
                              "\"tokens\":%d,\"family\":\"%s\",\"manifest\":{\"protocol\":{\"routing\":\"%s\"}}}\n",
                              names[arm], 1 + i / 6, 1 + i / 2, values[arm] + 0.01 * (i * 7 % 5), arm == 2 ? 3 : 4,
                              arm == 2   ? "other"
                              : arm == 1 ? of_new
                                         : "same",
                              arm == 2 ? "none" : "router");
    }
    must(lab_samples_parse("t", text, n, &s, fail_out));
    return s;
}

static void ceilings_claim_nothing(void **state) {
    lab_question q = lab_question_default();
    char text[300];
    (void)state;
    samples = with_ceiling("same");
    lab_verdict *v = judge(samples, &q);
    assert_int_equal(v->contrasts[1].outcome, LAB_REFUSED); /* as an arm like others it put out something else */
    assert_int_equal(v->outcome, LAB_REFUSED);
    lab_verdict_free(v);
    q.ceilings = "free";
    v = judge(samples, &q);
    assert_int_equal(v->outcome, LAB_WIN); /* that of `new` */
    assert_false(v->contrasts[0].ceiling);
    assert_true(v->contrasts[1].ceiling);
    assert_near(v->contrasts[1].ratio, 0.8, 2e-3);
    assert_near(v->contrasts[0].p_adjusted, fmax(v->contrasts[0].p, v->contrasts[0].p_interval), 0);
    assert_true(gate_of(v, "family")->ok && gate_of(v, "tokens")->ok && gate_of(v, "protocol")->ok);
    assert_null(strstr(gate_of(v, "family")->why, "free"));
    assert_string_equal(gate_of(v, "protocol")->why, "one protocol for all arms, but for ceilings");
    lab_verdict_say(v, 1, text, sizeof text);
    assert_int_equal(strncmp(text, "Ceiling: t of free is 19.9", 26), 0);
    assert_non_null(strstr(text, "; what it leaves out can bring no more."));
    done(v);
    samples = with_ceiling("broken"); /* others are asked as ever */
    v = judge(samples, &q);
    assert_int_equal(v->contrasts[0].outcome, LAB_REFUSED);
    assert_int_equal(v->contrasts[1].outcome, LAB_WIN);
    assert_int_equal(v->outcome, LAB_REFUSED);
    lab_verdict_free(v);
    cadre_fail why;
    q.ceilings = "free, old";
    assert_int_equal(lab_verdict_new(samples, &q, &v, &why), CADRE_RANGE);
    assert_string_equal(why.text, "the reference, old, can't be a ceiling");
    lab_samples_free(samples);
}

/* ---- the floor ---- */

static lab_samples *with_floor(double empty, const char *unit) {
    static char text[20000];
    size_t n = 0;
    lab_samples *s = NULL;
    for (int i = 0; i < 32; i++) {
        int arm = i / 2 % 2, two = i / 16;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"arm\":\"%s\",\"visit\":%d,\"order\":%d,\"iteration\":%d,\"metric\":\"%s\",\"unit\":"
                              "\"%s\",\"value\":%g}\n",
                              arm ? "new" : "old", 1 + i % 16 / 4, 1 + i % 16 / 2, 1 + i % 2, two ? "empty_us" : "us",
                              two ? unit : "us",
                              (two   ? empty
                               : arm ? 3
                                     : 8) +
                                  0.01 * (i * 7 % 5));
    }
    must(lab_samples_parse("t", text, n, &s, fail_out));
    return s;
}

static void floors(void **state) {
    lab_question q = lab_question_default();
    lab_verdict *v;
    cadre_fail why;
    (void)state;
    q.metric = "us";
    q.floor = "empty_us";
    samples = with_floor(1.98, "us");
    v = judge(samples, &q);
    assert_near(v->floor, 2, 0.005);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_true(gate_of(v, "floor")->ok);
    assert_string_equal(gate_of(v, "floor")->why, "empty_us is 1.999 us, 24.9 % of old: -75.1 % is the most to gain");
    lab_arm arm = {.name = "new", .predicted = -0.8, .predicted_delta = NAN};
    lab_experiment e = {.name = "count", .arms = &arm, .arm_count = 1};
    lab_conversion c;
    char text[300];
    assert_true(lab_conversion_of(&e, v, 0, &c) && c.below_floor);
    lab_conversion_say(&c, text, sizeof text);
    assert_non_null(strstr(text, "; -80.00 % was predicted, which is below the floor: it can't come"));
    arm.predicted = -0.7;
    assert_true(lab_conversion_of(&e, v, 0, &c) && !c.below_floor);
    done(v);
    samples = with_floor(4, "us"); /* faster than doing nothing */
    v = judge(samples, &q);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_int_equal(gate_of(v, "floor")->arms, 2);
    done(v);
    samples = with_floor(1, "ms");
    assert_int_equal(lab_verdict_new(samples, &q, &v, &why), CADRE_RANGE);
    assert_string_equal(why.text, "the floor empty_us is in ms, us in us");
    q.floor = "nothing";
    assert_int_equal(lab_verdict_new(samples, &q, &v, &why), CADRE_RANGE);
    assert_string_equal(why.text, "no metric \"nothing\" in the samples, which is the floor");
    lab_samples_free(samples);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_microbenchmark), cmocka_unit_test(odd_ones), cmocka_unit_test(without_a_number),
        cmocka_unit_test(before_the_run),      cmocka_unit_test(floors),   cmocka_unit_test(ceilings_claim_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
