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
    assert_string_equal(c->why, "+2.29 % (+2.12 .. +2.46 %), better; p 1.1e-05 over samples, 0.00063 of the interval");
    lab_verdict_free(v);
    lab_samples_free(s);
    puts("vector V32 ok");
}

static lab_samples *samples;
static lab_verdict *ask(const char *text, const lab_question *q) {
    samples = visits_of("tpot_ms", "ms", text, "");
    return judge(samples, q);
}
static void done(lab_verdict *v) {
    lab_verdict_free(v);
    lab_samples_free(samples);
}

/* The outcome of b against a, and how its words begin. */
static void outcome(const char *text, const lab_question *q, lab_outcome expected, const char *words) {
    lab_verdict *v = ask(text, q);
    if (v->contrasts[0].outcome != expected) print_message("%s\n", v->contrasts[0].why);
    assert_string_equal(lab_outcome_name(v->contrasts[0].outcome), lab_outcome_name(expected));
    assert_string_equal(v->contrasts[0].why, words);
    done(v);
}

static void outcomes(void **state) {
    (void)state;
    lab_question q = lab_question_default();
    outcome("a:10 10.1\nb:9 9.1\na:10.1 10\nb:9.1 9\na:10 10\nb:9 9\n", &q, LAB_WIN,
            "-9.97 % (-10.59 .. -9.34 %), better; p 0.0022 over samples, 2.1e-06 of the interval");
    outcome("a:9 9.1\nb:10 10.1\na:9.1 9\nb:10.1 10\na:9 9\nb:10 10\n", &q, LAB_LOSS,
            "+11.07 % (+10.30 .. +11.84 %), worse; p 0.0022 over samples, 2.1e-06 of the interval");
    /* told from none, and too small to matter */
    outcome("a:10 10.01\nb:9.95 9.96\na:10.01 10\nb:9.96 9.95\na:10 10\nb:9.95 9.95\n", &q, LAB_WITHIN_NOISE,
            "-0.50 % (-0.57 .. -0.43 %) is told from none, but under the 1 % that matter");
    outcome("a:10 10.01\nb:10 10.02\na:10.01 10\nb:10.01 9.99\na:10 9.99\nb:10 10.01\n", &q, LAB_WITHIN_NOISE,
            "the interval -0.09 .. +0.16 % lies inside +-1 %");
    /* an interval of both */
    outcome("a:10 10.3\nb:9.8 10.1\na:9.7 10\nb:9.5 10\na:10.2 10\nb:10 10\n", &q, LAB_UNDERPOWERED,
            "-4.63 .. +2.09 % holds no difference as well as more than 1 %; about 36 visits of each would tell");
}

/* Separation is not significance: three against three can't be. */
static void few_samples(void **state) {
    (void)state;
    outcome("a:10\nb:5\na:10.1\nb:5.1\na:10.05\nb:5.05\n", NULL, LAB_UNDERPOWERED,
            "3 against 3 samples give no p below 0.1, whatever they are");
    outcome("a:10 10.1 10.2 10.1 10\nb:5 5.1 5 5.1 5\n", NULL, LAB_UNDERPOWERED,
            "one visit of b: samples of one process do not tell what the next one would give");
    lab_verdict *v = ask("a:10\nb:5\na:10.1\nb:5.1\na:10.05\nb:5.05\n", NULL);
    assert_near(v->contrasts[0].p, 0.1, 1e-12);
    assert_near(v->contrasts[0].separation, 4.9, 1e-9);
    done(v);
    lab_question q = lab_question_default();
    q.level = 0.1; /* not even at the floor itself */
    outcome("a:10\nb:5\na:10.1\nb:5.1\na:10.05\nb:5.05\n", &q, LAB_UNDERPOWERED,
            "3 against 3 samples give no p below 0.1, whatever they are");
}

/* Many iterations of two processes each that differ: the t test over samples is sure, and wrong. */
static void processes_differ(void **state) {
    (void)state;
    lab_verdict *v = ask("a:10.0 10.01 10.0 10.01 10.0\nb:9.7 9.71 9.7 9.71 9.7\na:9.8 9.81 9.8 9.81 9.8\n"
                         "b:9.75 9.76 9.75 9.76 9.75\n",
                         NULL);
    const lab_contrast *c = &v->contrasts[0];
    assert_true(c->p < 0.01 && c->log_ratio[1] < 1 && c->bootstrap[1] < 1);
    assert_true(c->interval[0] < 1 && c->interval[1] > 1);
    assert_int_equal(c->outcome, LAB_UNDERPOWERED);
    assert_true(c->visits_needed > 2 && c->noise > 0.005 && c->noise_floor > fabs(c->ratio - 1));
    done(v);
}

static void figures(void **state) {
    (void)state;
    const char *text = "{\"arm\":\"a\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":99,\"warmup\":true,\"visit\":1}\n"
                       "{\"arm\":\"a\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":3,\"visit\":1}\n"
                       "{\"arm\":\"a\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":null,\"visit\":1}\n"
                       "{\"arm\":\"b\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":2,\"visit\":1}\n"
                       "{\"arm\":\"a\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":1,\"visit\":2}\n"
                       "{\"arm\":\"a\",\"metric\":\"t\",\"unit\":\"ms\",\"value\":8,\"visit\":2}\n";
    lab_samples *s = NULL;
    must(lab_samples_parse("t", text, strlen(text), &s, fail_out));
    lab_verdict *v = judge(s, NULL);
    const lab_arm_figures *a = &v->arms[0];
    assert_int_equal(a->n, 3);
    assert_int_equal(a->left_out, 1);
    assert_int_equal(a->unmeasured, 1);
    assert_int_equal(a->visits, 2);
    assert_near(a->mean, 4, 1e-15);
    assert_near(a->median, 3, 0);
    assert_near(a->low, 1, 0);
    assert_near(a->high, 8, 0);
    assert_near(a->sd, sqrt(13), 1e-12);
    assert_near(a->within_sd, sqrt(24.5), 1e-12);
    assert_near(a->visit_means[1], 4.5, 0);
    assert_int_equal(a->visit_of[0], 0);
    assert_int_equal(a->visit_of[2], 1);
    assert_int_equal(a->visit_orders[0], 1);
    assert_int_equal(a->visit_orders[1], 3);
    assert_true(isnan(a->failed) && isnan(a->acceptance_length) && isnan(a->per_step));
    assert_int_equal(a->active, LAB_ACTIVE_UNKNOWN);
    lab_verdict_free(v);
    lab_samples_free(s);
}

/* Three arms with p just good enough alone: together one of them is not. */
static void holm(void **state) {
    (void)state;
    lab_verdict *v = ask(
        "a:10 10.1\nb:9 9.1\nc:9.93 10.02\na:10.1 10\nb:9.1 9\nc:9.97 9.95\na:10 10.05\nb:9 9\nc:9.92 9.94\n", NULL);
    const lab_contrast *b = &v->contrasts[0], *c = &v->contrasts[1];
    double pb = b->p > b->p_interval ? b->p : b->p_interval, pc = c->p > c->p_interval ? c->p : c->p_interval;
    assert_true(pb < pc);
    assert_near(b->p_adjusted, 2 * pb, 1e-15);
    assert_near(c->p_adjusted, pc > 2 * pb ? pc : 2 * pb, 1e-15);
    assert_int_equal(b->outcome, LAB_WIN);
    assert_int_equal(v->outcome, c->outcome);
    done(v);
    lab_question q = lab_question_default();
    q.level = 0.003; /* p 2 / 924 passes alone, and not twice */
    outcome("a:10 10.1\nb:9 9.1\na:10.1 10\nb:9.1 9\na:10 10.05\nb:9 9\n", &q, LAB_WIN,
            "-10.04 % (-11.83 .. -8.22 %), better; p 0.0022 over samples, 3.1e-05 of the interval");
    v = ask("a:10 10.1\nb:9 9.1\nc:9 9.1\na:10.1 10\nb:9.1 9\nc:9.1 9\na:10 10.05\nb:9 9\nc:9 9\n", &q);
    assert_int_equal(v->contrasts[0].outcome, LAB_UNDERPOWERED);
    assert_near(v->contrasts[0].p_adjusted, 4 / 924.0, 1e-12);
    assert_non_null(strstr(v->contrasts[0].why, "but p 0.00433 is not below 0.003"));
    done(v);
}

/* B07: what equal arms showed, before or in this run, is no win of others. */
static void noise_floor(void **state) {
    (void)state;
    lab_question q = lab_question_default();
    q.noise_floor = 0.12;
    const char *text = "a:10 10.1\nb:9 9.1\na:10.1 10\nb:9.1 9\na:10 10.05\nb:9 9\n";
    outcome(text, &q, LAB_WITHIN_NOISE, "-10.04 % is under the noise floor of 12.00 %, which equal set-ups show");
    q.noise_floor = 0.05;
    lab_verdict *v = ask(text, &q);
    assert_near(v->contrasts[0].noise_floor, 0.05, 0);
    assert_int_equal(v->outcome, LAB_WIN);
    done(v);
    /* a and twin run the same command and differ by 12 % */
    json_doc *doc = NULL, *other = NULL;
    const char *run = "{\"command\":[\"x\"],\"env\":{}}", *changed = "{\"command\":[\"x\"],\"env\":{\"A\":1}}";
    must(json_parse("t", run, strlen(run), &doc, fail_out));
    must(json_parse("t", changed, strlen(changed), &other, fail_out));
    samples = visits_of("tpot_ms", "ms",
                        "a:10 10.1\nb:9.2 9.3\ntwin:8.9 8.95\na:10.1 10\nb:9.3 9.2\ntwin:8.9 8.8\n"
                        "a:10 10.05\nb:9.2 9.2\ntwin:8.9 8.85\n",
                        "");
    lab_sample items[18];
    for (int i = 0; i < 18; i++) {
        items[i] = *lab_samples_at(samples, i);
        items[i].manifest = json_root(strcmp(items[i].arm, "b") ? doc : other);
    }
    lab_samples *t = NULL;
    must(lab_samples_new(items, 18, &t, fail_out));
    v = judge(t, NULL);
    assert_int_equal(v->contrasts[0].outcome, LAB_WITHIN_NOISE);
    assert_near(v->contrasts[0].noise_floor, 1 - v->arms[2].mean / v->arms[0].mean, 1e-12);
    assert_int_equal(v->contrasts[1].outcome, LAB_WIN); /* its own floor is what its visits say */
    lab_verdict_free(v);
    lab_samples_free(t);
    json_free(doc);
    json_free(other);
    lab_samples_free(samples);
}

static void odd_values(void **state) {
    (void)state;
    /* counts without any noise */
    outcome("a:10 10\nb:9 9\na:10 10\nb:9 9\na:10 10\nb:9 9\n", NULL, LAB_WIN,
            "-10.00 % (-10.00 .. -10.00 %), better; p 0.0022 over samples, 0 of the interval");
    outcome("a:10 10\nb:10 10\na:10 10\nb:10 10\na:10 10\nb:10 10\n", NULL, LAB_WITHIN_NOISE,
            "the interval +0.00 .. +0.00 % lies inside +-1 %");
    /* no logs: differences relative to the reference's mean */
    lab_verdict *v = ask("a:10 10.1\nb:0 0.1\na:10.1 10\nb:-0.1 0\na:10 10.05\nb:0 0\n", NULL);
    assert_string_equal(v->contrasts[0].estimator, "Welch t on visit means over the reference's mean, 3 + 3 visits");
    assert_int_equal(v->outcome, LAB_WIN);
    assert_true(v->contrasts[0].interval[0] < 0 && v->contrasts[0].interval[1] < 0.02);
    assert_true(isnan(v->drift) && isnan(v->contrasts[0].log_ratio[0]));
    done(v);
    outcome("a:0 0\nb:1 1.1\na:0 0\nb:1 1.1\na:0 0\nb:1 1\n", NULL, LAB_UNDERPOWERED,
            "no ratio: the mean of a is not positive");
    samples = visits_of("tpot_ms", "ms", "a:1\nb:2\na:1\nb:2\n", "");
    lab_sample items[4];
    for (int i = 0; i < 4; i++) {
        items[i] = *lab_samples_at(samples, i);
        if (i % 2) items[i].value = NAN;
    }
    lab_samples *t = NULL;
    must(lab_samples_new(items, 4, &t, fail_out));
    v = judge(t, NULL);
    assert_int_equal(v->outcome, LAB_UNDERPOWERED);
    assert_string_equal(v->contrasts[0].why, "nothing was measured of b");
    char text[200];
    lab_verdict_say(v, 0, text, sizeof text);
    assert_string_equal(text, "Underpowered: it is not known how tpot_ms of b compares with that of a.");
    lab_verdict_free(v);
    lab_samples_free(t);
    lab_samples_free(samples);
}

static lab_better better_of(const char *metric, const char *unit) {
    lab_samples *s = visits_of(metric, unit, "a:1\nb:2\n", "");
    lab_verdict *v = judge(s, NULL);
    lab_better better = v->better;
    lab_verdict_free(v);
    lab_samples_free(s);
    return better;
}

static void what_is_better(void **state) {
    (void)state;
    assert_int_equal(better_of("x", "ms"), LAB_LOWER);
    assert_int_equal(better_of("x", "\xC2\xB5s"), LAB_LOWER);
    assert_int_equal(better_of("x", "ms/token"), LAB_LOWER);
    assert_int_equal(better_of("x", "tok/s"), LAB_HIGHER);
    assert_int_equal(better_of("x", "GB/s"), LAB_HIGHER);
    assert_int_equal(better_of("tokens_per_s", ""), LAB_HIGHER);
    assert_int_equal(better_of("tpot_ms", ""), LAB_LOWER);
    assert_int_equal(better_of("throughput", ""), LAB_HIGHER);
}

/* What is asked for and is not there. */
static void fails(const char *text, const lab_question *q, cadre_err code, const char *message) {
    lab_samples *s = NULL;
    lab_verdict *v = (lab_verdict *)1;
    cadre_fail why = {0};
    must(lab_samples_parse("t", text, strlen(text), &s, fail_out));
    assert_int_equal(lab_verdict_new(s, q, &v, &why), code);
    assert_string_equal(why.text, message);
    assert_ptr_equal(v, (lab_verdict *)1);
    lab_samples_free(s);
}

static void refusals(void **state) {
    (void)state;
#define S(run, arm, metric, more) \
    "{\"run\":\"" run "\",\"arm\":\"" arm "\",\"metric\":\"" metric "\",\"value\":1" more "}\n"
#define MS ",\"unit\":\"ms\""
    lab_question q = lab_question_default();
    fails("", NULL, CADRE_RANGE, "no samples");
    fails(S("r", "a", "t", MS), NULL, CADRE_RANGE, "one arm, a: nothing to compare it with");
    fails(S("r", "a", "t", MS) S("r", "b", "u", MS), NULL, CADRE_RANGE,
          "several metrics in the samples: name one of t, u");
    q.metric = "v";
    fails(S("r", "a", "t", MS) S("r", "b", "u", MS), &q, CADRE_RANGE,
          "no metric \"v\" in the samples; there are: t, u");
    q.metric = "t";
    q.reference = "c";
    fails(S("r", "a", "t", MS) S("r", "b", "t", MS), &q, CADRE_RANGE, "no arm \"c\" with t");
    q.reference = NULL;
    q.run = "s";
    fails(S("r", "a", "t", MS) S("r", "b", "t", MS), &q, CADRE_RANGE, "no run \"s\" in the samples");
    q.run = NULL;
    fails(S("r", "a", "t", MS) S("r", "b", "t", ",\"unit\":\"s\""), &q, CADRE_FORMAT,
          "t is in ms on line 1 and in s on line 2");
    fails(S("r", "a", "x", "") S("r", "b", "x", ""), NULL, CADRE_RANGE,
          "nothing says whether more or less x (unit not told) is better: say which");
    fails(S("r", "a", "t", MS ",\"visit\":2,\"iteration\":1") S("r", "b", "t", MS)
              S("r", "a", "t", MS ",\"visit\":2,\"iteration\":1"),
          NULL, CADRE_FORMAT, "t of arm a, visit 2, iteration 1 is there twice (lines 1, 3)");
    q.level = 1;
    fails(S("r", "a", "t", MS), &q, CADRE_RANGE, "level 1: expected a number between 0 and 1");
    q = lab_question_default();
    q.effect = -1;
    fails(S("r", "a", "t", MS), &q, CADRE_RANGE, "effect -1: expected a relative difference, as 0.01");
    static char many[20000];
    size_t len = 0;
    for (int i = 0; i < 65; i++)
        len +=
            (size_t)snprintf(many + len, sizeof many - len, "{\"arm\":\"a%d\",\"metric\":\"t_ms\",\"value\":1}\n", i);
    fails(many, NULL, CADRE_RANGE, "more than 64 arms in one run");
}

static void runs(void **state) {
    (void)state;
    const char *text =
        S("r1", "a", "t", MS) S("r1", "b", "t", MS) S("r2", "x", "t", MS) S("r2", "y", "t", MS) S("r3", "x", "t", MS);
    lab_question q = lab_question_default();
    must(lab_samples_parse("t", text, strlen(text), &samples, fail_out));
    lab_verdict *v = judge(samples, NULL); /* the last of two arms */
    assert_string_equal(v->run, "r2");
    assert_int_equal(v->runs, 3);
    assert_string_equal(v->arms[0].name, "x");
    lab_verdict_free(v);
    q.run = "r1";
    q.reference = "b";
    v = judge(samples, &q);
    assert_string_equal(v->arms[0].name, "b");
    assert_string_equal(v->arms[1].name, "a");
    done(v);
    /* runs of one arm each are one experiment */
    text = S("1", "a", "t", MS ",\"order\":1") S("2", "b", "t", MS ",\"order\":2");
    must(lab_samples_parse("t", text, strlen(text), &samples, fail_out));
    v = judge(samples, NULL);
    assert_null(v->run);
    assert_int_equal(v->arm_count, 2);
    done(v);
}

static void out_of_memory(void **state) {
    (void)state;
    lab_samples *s = visits_of("tokens_per_s", "tokens/s", a7, ",\"family\":\"aa\",\"tokens\":5");
    for (int n = 0;; n++) {
        lab_verdict *v = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = lab_verdict_new(s, NULL, &v, &why);
        mem_fail_after(-1);
        if (!err) {
            assert_true(n > 10);
            assert_int_equal(v->outcome, LAB_WIN);
            assert_false(isnan(v->contrasts[0].bootstrap[0]));
            lab_verdict_free(v);
            break;
        }
        assert_int_equal(err, CADRE_NOMEM);
        assert_null(v);
    }
    lab_samples_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),           cmocka_unit_test(outcomes),   cmocka_unit_test(few_samples),
        cmocka_unit_test(processes_differ), cmocka_unit_test(figures),    cmocka_unit_test(holm),
        cmocka_unit_test(noise_floor),      cmocka_unit_test(odd_values), cmocka_unit_test(what_is_better),
        cmocka_unit_test(refusals),         cmocka_unit_test(runs),       cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
