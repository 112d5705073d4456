/* run: the order of visits, fresh processes, failures as samples, warm-ups, the lock, and going on after any end. */
#include "folder.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static cadre_fail why;

/* Counts its starts in `starts`, and tells a figure of its arm. */
#define TOOL "#!/bin/sh\necho \"$1 $2 $3\" >>starts\necho \"v: $1.5 ms\"\n"
#define TOP                                                                                                           \
    "\"metrics\": [{\"name\": \"v\", \"unit\": \"ms\", \"pattern\": \"v: ([0-9.]+) ms\"}], \"command\": \"./tool\", " \
    "\"unproven_allowed\": true"
#define TWO "\"arms\": [{\"name\": \"one\", \"args\": \"1\"}, {\"name\": \"two\", \"args\": \"2\"}]}"

static lab_experiment *read_text(const char *text) {
    lab_experiment *e;
    put("exp.json", text);
    must(lab_experiment_read(in("exp.json"), &e, fail_out));
    return e;
}

static void begin(void) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf '%s'/*", folder);
    assert_int_equal(system(line), 0);
    script("tool", TOOL);
}

static cadre_err run_in(const lab_experiment *e, lab_run_setup setup, lab_run_result *r) {
    setup.folder = in("run");
    if (!setup.lock) setup.lock = in("lock");
    return lab_run(e, &setup, r, &why);
}

static lab_samples *samples_of(void) {
    lab_samples *s;
    must(lab_samples_read(in("run/samples.jsonl"), &s, fail_out));
    return s;
}

static const json *of_visit(const lab_sample *s, const char *key) {
    return json_get(json_get(s->manifest, "visit"), key);
}

static void interleaved(void **state) {
    (void)state;
    begin();
    lab_experiment *e = read_text("{\"name\": \"x\", \"visits\": 2, \"protocol\": {\"seed\": 7}, " TOP ", " TWO);
    lab_run_result r;
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_OK);
    assert_true(r.visits == 7 && !r.failed && r.unproven == 7 && !r.stopped);
    lab_samples *s = samples_of();
    static const char *const arms[] = {"one", "two", "one", "two", "one", "two", "one"};
    static const int visits[] = {1, 1, 2, 2, 3, 3, 4};
    assert_int_equal(lab_samples_count(s), 14); /* v and wall_s */
    for (int i = 0; i < 7; i++) {
        const lab_sample *x = lab_samples_at(s, 2 * i), *wall = lab_samples_at(s, 2 * i + 1);
        assert_string_equal(x->arm, arms[i]);
        assert_true(x->order == i + 1 && x->visit == visits[i] && x->iteration == 1 && x->warmup == (i < 2));
        assert_true(x->value == (i % 2 ? 2.5 : 1.5));
        assert_string_equal(x->run, r.run);
        assert_string_equal(x->metric, "v");
        assert_string_equal(x->unit, "ms");
        assert_true(x->active == LAB_ACTIVE_UNKNOWN && isnan(x->failed) && isnan(x->tokens) && !x->family);
        assert_string_equal(wall->metric, "wall_s");
        assert_true(wall->value > 0 && x->load >= 0);
        assert_true(json_is(json_get(x->manifest, "role"), i == 6 ? "anchor" : i % 2 ? "arm" : "reference"));
        assert_int_equal(json_get(json_get(x->manifest, "protocol"), "seed")->integer, 7);
        assert_true(json_get(x->manifest, "exclusive")->truth);
        assert_true(json_is(json_get(x->manifest, "experiment_sha256"), e->sha256));
        assert_int_equal(of_visit(x, "status")->integer, 0);
        assert_true(of_visit(x, "seconds")->number == wall->value);
    }
    char *starts = get("starts"), *kept = get("run/visits/0002-two/stdout"), *copy = get("run/experiment.json");
    assert_string_equal(starts, "1  \n2  \n1  \n2  \n1  \n2  \n1  \n");
    assert_string_equal(kept, "v: 2.5 ms\n");
    assert_non_null(strstr(copy, "\"visits\": 2"));
    mem_free(starts);
    mem_free(kept);
    mem_free(copy);
    /* and the samples are such as verdicts are made of */
    lab_verdict *v;
    must(lab_verdict_new(s, &e->question, &v, fail_out));
    assert_int_equal(v->contrasts[0].reference->visits, 3);
    assert_true(v->contrasts[0].ratio > 1.66 && v->contrasts[0].ratio < 1.67);
    lab_verdict_free(v);
    lab_samples_free(s);
    /* a folder that holds samples is not written over, and a whole run has nothing to resume */
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_RANGE);
    assert_non_null(strstr(why.text, "holds samples already; --resume goes on with them"));
    assert_int_equal(run_in(e, (lab_run_setup){.resume = true}, &r), CADRE_OK);
    assert_true(r.visits == 7 && r.unproven == 7);
    lab_experiment_free(e);
}

/* {dir}, {visit} and {order} are what differs by visit; files that the command leaves there are read. */
static void places(void **state) {
    (void)state;
    begin();
    script("tool", "#!/bin/sh\necho \"v: $2.25 ms\" >\"$3/log\"; echo \"$4-$MARK-${CADRE_SET-unset}\"\n");
    setenv("CADRE_SET", "isa=1", 1);
    lab_experiment *e =
        read_text("{\"name\": \"x\", \"visits\": 1, \"warmup\": 0, \"env\": {\"MARK\": \"m{order}\"}, " TOP ", "
                  "\"arms\": [{\"name\": \"a b/c\", \"args\": \"1 {visit} {dir} {order}\"}, {\"name\": "
                  "\"two\", \"args\": \"2 {visit}{visit} {dir} x\"}]}");
    lab_run_result r;
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_OK);
    unsetenv("CADRE_SET");
    lab_samples *s = samples_of();
    assert_true(lab_samples_at(s, 0)->value == 1.25 && lab_samples_at(s, 2)->value == 11.25);
    assert_true(lab_samples_at(s, 4)->value == 2.25); /* the reference again: its second visit */
    char *out = get("run/visits/0001-a-b-c/stdout");
    assert_string_equal(out, "1-m1-unset\n");
    mem_free(out);
    lab_samples_free(s);
    lab_experiment_free(e);
}

/* A visit that fails, hangs or shows nothing is a sample that says so: null, never 0. */
static void failures(void **state) {
    (void)state;
    begin();
    script("tool", "#!/bin/sh\nn=$(cat n$1 2>/dev/null || echo 0); echo $((n + 1)) >n$1\n"
                   "[ $1$n = 21 ] && { echo 'v: 9 ms'; exit 3; }\n[ $1$n = 22 ] && sleep 60\n[ $1$n = 23 ] && exit 0\n"
                   "echo \"v: $1 ms\"\n");
    lab_experiment *e = read_text("{\"name\": \"x\", \"visits\": 4, \"warmup\": 0, \"timeout_s\": 1, " TOP ", " TWO);
    lab_run_result r;
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_OK);
    assert_true(r.visits == 9 && r.failed == 2);
    lab_samples *s = samples_of();
    static const char *const errors[] = {NULL, "exit status 3", "ran past its limit of 1 s", NULL};
    int seen = 0;
    for (int i = 0; i < lab_samples_count(s); i++) {
        const lab_sample *x = lab_samples_at(s, i);
        if (strcmp(x->arm, "two") || strcmp(x->metric, "v")) continue;
        const json *error = of_visit(x, "error");
        assert_int_equal(x->visit, ++seen);
        if (errors[seen - 1]) {
            assert_true(json_is(error, errors[seen - 1]));
            assert_string_equal(x->why, errors[seen - 1]);
            assert_true(isnan(x->value) && x->failed == 1);
        } else {
            assert_int_equal(error->kind, JSON_NULL);
            assert_true(seen == 1 ? x->value == 2 : isnan(x->value));
            assert_true(isnan(x->failed));
        }
    }
    assert_int_equal(seen, 4);
    lab_samples_free(s);
    lab_experiment_free(e);
}

/* Figures within a visit: the first are left out, those that are missing are null. */
static void iterations(void **state) {
    (void)state;
    begin();
    script("tool", "#!/bin/sh\nfor i in 7 2 3; do echo \"v: $i ms\"; done\n");
    lab_experiment *e =
        read_text("{\"name\": \"x\", \"visits\": 1, \"warmup\": 0, \"iterations\": 4, \"skip\": 1, " TOP ", " TWO);
    lab_run_result r;
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_OK);
    lab_samples *s = samples_of();
    static const double values[] = {7, 2, 3, NAN};
    for (int i = 0, k = 0; k < 4; i++) {
        const lab_sample *x = lab_samples_at(s, i);
        if (strcmp(x->metric, "v")) continue;
        assert_true(x->iteration == k + 1 && x->warmup == !k);
        assert_true(x->value == values[k] || (isnan(x->value) && k == 3));
        k++;
    }
    lab_samples_free(s);
    lab_experiment_free(e);
}

static void refusals(void **state) {
    (void)state;
    lab_run_result r;
    begin();
    lab_experiment *e = read_text("{\"name\": \"x\", " TOP ", \"arms\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}");
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_RANGE);
    assert_string_equal(why.text, "arms a and b do not differ; \"aa\": true measures the noise of equal arms");
    assert_false(file_exists(in("run"))); /* nothing was begun */
    lab_experiment_free(e);
    e = read_text("{\"name\": \"x\", \"metrics\": [{\"name\": \"v\", \"unit\": \"ms\", \"pattern\": \"w: (.*)\"}], "
                  "\"command\": \"./tool\", " TWO);
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_RANGE);
    char want[300];
    snprintf(want, sizeof want, "arm one gave no v at w: (.*) in %s/run/visits/0001-one", folder);
    assert_memory_equal(why.text, want, strlen(want));
    assert_false(file_exists(in("run/samples.jsonl")));
    lab_experiment_free(e);
    e = read_text("{\"name\": \"x\", \"metrics\": [{\"name\": \"v\", \"unit\": \"ms\", \"json\": \".v\"}], "
                  "\"command\": \"./tool\", " TWO);
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_RANGE); /* a start that failed is started anew */
    assert_non_null(strstr(why.text, "0001-one.2: no JSON: stdout:1:1: expected a value"));
    lab_experiment_free(e);
    e = read_text("{\"name\": \"x\", " TOP
                  ", \"arms\": [{\"name\": \"a\"}, {\"name\": \"b\", \"command\": \"./none\"}]}");
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_IO);
    assert_non_null(strstr(why.text, "none: no such program"));
    lab_experiment_free(e);
    /* two experiments at once */
    int lock;
    e = read_text("{\"name\": \"x\", " TOP ", " TWO);
    must(file_lock(in("lock"), "'other' (process 1, since now)\n", false, &lock, fail_out));
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_BUSY);
    assert_non_null(strstr(why.text, "lock: taken by 'other' (process 1, since now)"));
    file_close(lock);
    lab_experiment_free(e);
}

static volatile sig_atomic_t stop;
static void stop_third(void *ctx, const lab_experiment *e, int order, int of, int arm, const char *state,
                       double value) {
    (void)ctx, (void)e, (void)of, (void)arm, (void)value;
    if (order != 3 || strcmp(state, "start")) return;
    put("slow", "");
    stop = 1;
}

/* Asked to stop: the visit in flight is no sample, and what was measured goes on later. Other files are refused. */
static void stopping(void **state) {
    (void)state;
    lab_run_result r, again;
    begin();
    put("table", "1");
    script("tool", "#!/bin/sh\n[ -f slow ] && sleep 50\necho \"v: $1 ms\"\n");
    const char *text =
        "{\"name\": \"x\", \"visits\": 2, " TOP ", \"arms\": [{\"name\": \"one\", \"args\": \"1\", \"files\": "
        "[\"table\"]}, {\"name\": \"two\", \"args\": \"2\"}]}";
    lab_experiment *e = read_text(text);
    stop = 0;
    assert_int_equal(run_in(e, (lab_run_setup){.stop = &stop, .watch = {stop_third, NULL}}, &r), CADRE_OK);
    assert_true(r.stopped && r.visits == 2);
    stop = 0;
    remove(in("slow"));
    put("table", "2");
    assert_int_equal(run_in(e, (lab_run_setup){.resume = true}, &again), CADRE_RANGE);
    assert_non_null(strstr(why.text, "arm one is not the same any more"));
    put("table", "1");
    assert_int_equal(run_in(e, (lab_run_setup){.resume = true}, &again), CADRE_OK);
    assert_true(again.visits == 7 && !again.stopped);
    assert_string_equal(again.run, r.run);
    lab_experiment_free(e);
    e = read_text("{\"name\": \"y\", \"visits\": 2, " TOP ", " TWO);
    assert_int_equal(run_in(e, (lab_run_setup){.resume = true}, &again), CADRE_RANGE);
    assert_non_null(strstr(why.text, "run holds another experiment"));
    lab_experiment_free(e);
}

/* A table that is written while the run goes on: its samples do not belong together. */
static void change_table(void *ctx, const lab_experiment *e, int order, int of, int arm, const char *state,
                         double value) {
    (void)ctx, (void)e, (void)of, (void)arm, (void)value;
    if (order == 3 && !strcmp(state, "start")) put("table", "changed");
}
static void changing(void **state) {
    (void)state;
    lab_run_result r;
    begin();
    put("table", "1");
    lab_experiment *e =
        read_text("{\"name\": \"x\", \"visits\": 2, " TOP ", \"arms\": [{\"name\": \"one\", \"args\": \"1\", "
                  "\"files\": [\"table\"]}, {\"name\": \"two\", \"args\": \"2\"}]}");
    assert_int_equal(run_in(e, (lab_run_setup){.watch = {change_table, NULL}}, &r), CADRE_RANGE);
    assert_non_null(strstr(why.text, "a file of arm one changed while the run went on"));
    lab_experiment_free(e);
}

/* Killed at any moment, again and again: each time at most the visit in flight is lost, and in the end every visit is
 * there once, whole. */
static void killed(void **state) {
    (void)state;
    enum { VISITS = 2 * 9 + 1, LINES = 5 };
    unsigned seed = 12345, most = 15000; /* microseconds; more when a slow machine gets nowhere in them */
    int kills = 0, status = -1, before = 0;
    begin();
    script("tool", "#!/bin/sh\necho \"$1\" >>starts\nfor i in 1 2 3 4; do echo \"v: $i ms\"; done\n");
    lab_experiment *e = read_text("{\"name\": \"x\", \"visits\": 8, " TOP ", " TWO);
    for (int round = 0; round < 400 && status; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            lab_run_result r;
            _exit(run_in(e, (lab_run_setup){.resume = true, .wait = true}, &r) ? 1 : 0);
        }
        seed = seed * 1103515245 + 12345;
        usleep(seed / 65536 * 7 % most);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
        kills += !WIFEXITED(status);
        /* what is there only grows: nothing that was whole is lost */
        lab_samples *s = NULL;
        most += 1000;
        if (!file_exists(in("run/samples.jsonl")) || lab_samples_read(in("run/samples.jsonl"), &s, NULL)) continue;
        int whole = lab_samples_count(s) / LINES;
        assert_true(whole >= before);
        if (whole > before) most = 15000;
        before = whole;
        lab_samples_free(s);
    }
    assert_int_equal(status, 0);
    lab_samples *s = samples_of();
    assert_int_equal(lab_samples_count(s), VISITS * LINES);
    for (int i = 0; i < VISITS * LINES; i++) {
        const lab_sample *x = lab_samples_at(s, i);
        assert_int_equal(x->order, i / LINES + 1);
        assert_string_equal(x->run, lab_samples_at(s, 0)->run);
        if (i % LINES < 4) assert_true(x->iteration == i % LINES + 1 && x->value == x->iteration);
    }
    lab_samples_free(s);
    char *starts = get("starts");
    int begun = (int)strlen(starts) / 2;
    mem_free(starts);
    assert_true(begun >= VISITS && begun <= VISITS + kills);
    print_message("%d kills, %d of %d visits begun anew\n", kills, begun - VISITS, VISITS);
    lab_experiment_free(e);
}

/* Whatever a killed writer left at the end of the file: a part of a line, a part of a visit. */
static void torn(void **state) {
    (void)state;
    lab_run_result r;
    begin();
    lab_experiment *e = read_text("{\"name\": \"x\", \"visits\": 2, " TOP ", " TWO);
    assert_int_equal(run_in(e, (lab_run_setup){0}, &r), CADRE_OK);
    char *whole = get("run/samples.jsonl");
    size_t len = strlen(whole);
    for (size_t keep = 1; keep < len; keep += 211) {
        must(file_write(in("run/samples.jsonl"), whole, keep, fail_out));
        if (run_in(e, (lab_run_setup){.resume = true}, &r)) fail_msg("cut at %zu: %s", keep, why.text);
        lab_samples *s = samples_of();
        assert_int_equal(lab_samples_count(s), 14);
        for (int i = 0; i < 14; i++) assert_int_equal(lab_samples_at(s, i)->order, i / 2 + 1);
        lab_samples_free(s);
    }
    /* but a line that is wrong in the middle is told, with its place */
    char *middle = strchr(whole, '\n') + 1;
    *middle = 'x';
    must(file_write(in("run/samples.jsonl"), whole, len, fail_out));
    assert_int_equal(run_in(e, (lab_run_setup){.resume = true}, &r), CADRE_FORMAT);
    assert_non_null(strstr(why.text, "/run/samples.jsonl:2: cut off or changed; start a new folder"));
    mem_free(whole);
    lab_experiment_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved), cmocka_unit_test(places),   cmocka_unit_test(failures),
        cmocka_unit_test(iterations),  cmocka_unit_test(refusals), cmocka_unit_test(stopping),
        cmocka_unit_test(changing),    cmocka_unit_test(killed),   cmocka_unit_test(torn),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
