/* simulation: experiments whose truth is known. The verdict is asked of thousands of runs of equal arms (A/A) and of
 * arms that differ, under the noise that machines make: lognormal samples, processes that differ, drift, outliers,
 * samples and visits that follow each other. Two tools that compare means are asked the same, and fail.
 *
 * Every number comes from a seed, so that a rate is the same on each machine; the allowances are three standard errors
 * of a rate at the level. */
#include "lab/stat.h"
#include "lab_samples.h"

#if defined(__SANITIZE_ADDRESS__)
#    define SLOW 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define SLOW 1
#    endif
#endif
#ifdef SLOW
enum { RUNS = 400 }; /* a sanitizer costs four times the time; the allowances widen by themselves */
#else
enum { RUNS = 2000 };
#endif
enum { ITERATIONS = 3, VISITS_MOST = 64 };

typedef struct noise {
    const char *name;
    double visit, sample; /* sd of logs */
    double drift;         /* of the log, from the first to the last visit */
    double outliers;      /* share of samples that are 30 % over */
    double carry, walk;   /* AR(1) between samples, between visits */
} noise;

static const noise kinds[] = {
    {.name = "samples of 2 %", .visit = 0.001, .sample = 0.02},
    {.name = "processes of 1.5 %", .visit = 0.015, .sample = 0.005},
    {.name = "drift of 10 %", .visit = 0.005, .sample = 0.01, .drift = 0.10},
    {.name = "drift of 3 %", .visit = 0.01, .sample = 0.01, .drift = 0.03},
    {.name = "outliers, 1 in 20", .visit = 0.005, .sample = 0.01, .outliers = 0.05},
    {.name = "AR(1) of samples", .visit = 0.005, .sample = 0.015, .carry = 0.9},
    {.name = "AR(1) of visits", .visit = 0.015, .sample = 0.005, .walk = 0.8},
    {.name = "all of it", .visit = 0.01, .sample = 0.01, .drift = 0.05, .outliers = 0.05, .carry = 0.7, .walk = 0.6},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct world {
    rand_stream r;
    double visit, sample; /* the state of both AR(1) */
} world;

static double next(double *state, double carry, rand_stream *r) {
    return *state = carry * *state + sqrt(1 - carry * carry) * (double)rand_normal(r);
}

/* One run, interleaved: A B A B ... The samples of B are `ratio` times those of A. */
static lab_samples *run_of(const noise *k, int visits, int iterations, double ratio, world *w) {
    static lab_sample items[2 * VISITS_MOST * ITERATIONS];
    int n = 0;
    w->visit = (double)rand_normal(&w->r);
    w->sample = (double)rand_normal(&w->r);
    for (int order = 0; order < 2 * visits; order++) {
        double base = k->visit * next(&w->visit, k->walk, &w->r) + k->drift * order / (2 * visits - 1);
        for (int i = 0; i < iterations; i++) {
            double log = base + k->sample * next(&w->sample, k->carry, &w->r);
            double v = 10 * m_exp(log) * (order % 2 ? ratio : 1);
            if (k->outliers > 0 && rand_below(&w->r, 10000) < 10000 * k->outliers) v *= 1.3;
            items[n++] = (lab_sample){.arm = order % 2 ? "b" : "a",
                                      .visit = order / 2 + 1,
                                      .order = order + 1,
                                      .iteration = i + 1,
                                      .metric = "t",
                                      .unit = "ms",
                                      .value = v,
                                      .tokens = NAN,
                                      .failed = NAN,
                                      .accepted = NAN,
                                      .drafts = NAN,
                                      .draft_tokens = NAN,
                                      .active = LAB_ACTIVE_UNKNOWN};
        }
    }
    lab_samples *s = NULL;
    must(lab_samples_new(items, n, &s, fail_out));
    return s;
}

typedef struct tally {
    int outcomes[LAB_REFUSED + 1], corrected;
    int covered, told; /* the interval holds the truth; leaves out 1 */
    int without;       /* would be a win or a loss if no effect were too small to matter */
    int means, t_test; /* what the naive tools call a difference */
} tally;

/* Tool one: the means differ by more than 1 %. Tool two: a t test over all samples. */
static void ask_naive(const lab_contrast *c, tally *t) {
    t->means += fabs(c->ratio - 1) > 0.01;
    lab_welch w = lab_welch_of(c->reference->values, c->reference->n, c->arm->values, c->arm->n);
    t->t_test += lab_welch_p(&w) < 0.05;
}

typedef struct design {
    int visits, iterations;
    double ratio, effect;
} design;

static tally simulate(const noise *k, int runs, design d, uint64_t seed) {
    tally t = {0};
    lab_question q = lab_question_default();
    q.resamples = 0; /* no bootstrap, no planning: they take no part */
    q.power = 0;
    q.effect = d.effect;
    for (int i = 0; i < runs; i++) {
        world w = {.r = {.key = seed << 32 | (uint64_t)i}};
        lab_samples *s = run_of(k, d.visits, d.iterations, d.ratio, &w);
        lab_verdict *v = judge(s, &q);
        const lab_contrast *c = &v->contrasts[0];
        bool told = c->interval[0] > 1 || c->interval[1] < 1;
        t.outcomes[c->outcome]++;
        t.covered += c->interval[0] <= d.ratio && d.ratio <= c->interval[1];
        t.told += told;
        t.without += told && c->p_adjusted < q.level && c->outcome != LAB_REFUSED;
        t.corrected += v->drift_corrected;
        ask_naive(c, &t);
        lab_verdict_free(v);
        lab_samples_free(s);
    }
    return t;
}

static double most(double rate, int runs) {
    return rate * runs + 3 * sqrt(rate * (1 - rate) * runs);
}
static double share(int n, int of) {
    return 100.0 * n / of;
}

static void heading(const char *what) {
    print_message("%s\n  %-20s %8s %8s %8s | %8s %8s\n", what, "", "win+loss", "any size", "covered", "t test",
                  "means");
}
static void show(const char *name, const tally *t, int runs) {
    print_message("  %-20s %6.2f %% %6.2f %% %6.1f %% | %6.1f %% %6.1f %%\n", name,
                  share(t->outcomes[LAB_WIN] + t->outcomes[LAB_LOSS], runs), share(t->without, runs),
                  share(t->covered, runs), share(t->t_test, runs), share(t->means, runs));
}

/* Equal arms: differences are told at most as often as the level says, whether or not small ones count. */
static void equal_arms(void **state) {
    (void)state;
    tally all[KINDS];
    int sum = 0;
    heading("equal arms, 6 + 6 visits");
    for (int i = 0; i < KINDS; i++) {
        all[i] = simulate(&kinds[i], RUNS, (design){6, ITERATIONS, 1, 0.01}, 1 + (uint64_t)i);
        show(kinds[i].name, &all[i], RUNS);
        assert_true(all[i].outcomes[LAB_WIN] + all[i].outcomes[LAB_LOSS] <= most(0.05, RUNS));
        assert_true(all[i].without <= most(0.05, RUNS));
        assert_true(RUNS - all[i].covered <= most(0.05, RUNS));
        assert_int_equal(all[i].outcomes[LAB_REFUSED], 0);
        sum += all[i].without;
    }
    assert_true(sum <= 0.05 * RUNS * KINDS);
    /* the naive tools: one fails where processes differ, the other also where samples are wild */
    assert_true(all[1].t_test > 0.2 * RUNS && all[1].means > 0.2 * RUNS);
    assert_true(all[4].means > 0.5 * RUNS && all[7].means > 0.5 * RUNS);
    /* a strong drift is found and taken out each time, and seldom seen where there is none */
    assert_int_equal(all[2].corrected, RUNS);
    assert_true(all[0].corrected < most(0.05, RUNS) && all[1].corrected < most(0.05, RUNS));
}

/* Few visits: the t distribution of few degrees of freedom, and drift that can't be taken out voids the run. */
static void few_visits(void **state) {
    (void)state;
    heading("equal arms, 2 + 2 and 3 + 3 visits of 5");
    for (int visits = 2; visits <= 3; visits++)
        for (int i = 0; i < 5; i++) {
            tally t = simulate(&kinds[i], RUNS / 2, (design){visits, 5, 1, 0}, 100 + (uint64_t)(10 * visits + i));
            show(kinds[i].name, &t, RUNS / 2);
            assert_true(t.without <= most(0.05, RUNS / 2));
            assert_true(RUNS / 2 - t.covered <= most(0.05, RUNS / 2));
        }
}

/* Arms that differ: the interval holds the true ratio under every kind of noise. */
static void coverage(void **state) {
    (void)state;
    heading("b takes 3 % less, 5 + 5 visits");
    for (int i = 0; i < KINDS; i++) {
        tally t = simulate(&kinds[i], RUNS / 2, (design){5, 2, 0.97, 0.01}, 200 + (uint64_t)i);
        show(kinds[i].name, &t, RUNS / 2);
        assert_true(RUNS / 2 - t.covered <= most(0.05, RUNS / 2));
        assert_true(t.outcomes[LAB_LOSS] <= most(0.005, RUNS / 2));
        /* drift hides the 3 % from a t test, and not from the verdict */
        if (i == 2) assert_true(t.outcomes[LAB_WIN] > 0.95 * RUNS / 2 && t.t_test < 0.1 * RUNS / 2);
    }
}

static void planned(double effect, double sd, double power, int iterations, uint64_t seed) {
    int visits = lab_visits_needed(effect, sd, 0.05, power);
    noise k = {.name = "planned", .visit = sd};
    double promised = lab_power(visits, effect, sd, 0.05);
    tally t = simulate(&k, RUNS / 2, (design){visits, iterations, 1 + effect, fabs(effect) / 3}, seed);
    int runs = RUNS / 2;
    int right = effect < 0 ? t.outcomes[LAB_WIN] : t.outcomes[LAB_LOSS];
    print_message("%+5.1f %% at sd %.1f %%: %d visits, power promised %.1f %%, found %.1f %%\n", 100 * effect, 100 * sd,
                  visits, 100 * promised, share(right, runs));
    assert_true(promised >= power && lab_power(visits - 1, effect, sd, 0.05) < power);
    assert_near((double)right / runs, promised, 0.05);
    assert_true((effect < 0 ? t.outcomes[LAB_LOSS] : t.outcomes[LAB_WIN]) <= most(0.001, runs));
}

static void power_as_planned(void **state) {
    (void)state;
    planned(-0.03, 0.02, 0.8, 1, 300);
    planned(-0.04, 0.02, 0.9, 1, 301);
    planned(0.05, 0.03, 0.8, 1, 302);
    planned(-0.02, 0.014, 0.8, 1, 303);
    planned(-0.10, 0.04, 0.7, 2, 304);
}

/* A difference that is told from none but too small to matter is no win; equal arms with little noise are equal. */
static void small_effects(void **state) {
    (void)state;
    noise quiet = {.name = "quiet", .visit = 0.001, .sample = 0.001};
    tally t = simulate(&quiet, RUNS / 4, (design){6, 1, 0.995, 0.01}, 400);
    assert_int_equal(t.outcomes[LAB_WITHIN_NOISE], RUNS / 4);
    assert_true(t.told > 0.9 * RUNS / 4);
    t = simulate(&quiet, RUNS / 4, (design){6, 1, 1, 0.01}, 401);
    assert_int_equal(t.outcomes[LAB_WITHIN_NOISE], RUNS / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_arms),       cmocka_unit_test(few_visits),    cmocka_unit_test(coverage),
        cmocka_unit_test(power_as_planned), cmocka_unit_test(small_effects),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
