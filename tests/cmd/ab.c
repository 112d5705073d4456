/* ab: `cadre ab plan`, `ab run` and `ab log` as a user meets them: another program as an arm, an A/A of the demo model,
 * Ctrl-C, the ledger. */
#include "command.h"

#include <math.h>
#include <sys/stat.h>

static const char *in(const char *name) {
    static char path[8][300];
    static int turn;
    char *p = path[turn++ % 8];
    assert_true(file_join(p, sizeof path[0], scratch, name));
    return p;
}

static void put(const char *name, const char *text) {
    assert_int_equal(file_write(in(name), text, strlen(text), NULL), CADRE_OK);
}

/* A program that the lab knows nothing of: it prints its own figures in its own way. */
static const char other[] =
    "#!/bin/sh\n"
    "echo 'kernel: fast path' >&2\n"
    "awk -v base=\"$1\" 'BEGIN { printf \"tokens generated: 64\\nmean latency = %.3f us\\n\", base; "
    "print \"answer: forty-two\" }'\n";
static const char script_json[] =
    "{\n"
    "  \"name\": \"other\", \"asks\": \"is the second faster?\", \"visits\": 4,\n"
    "  \"metrics\": [{\"name\": \"latency\", \"unit\": \"us\", \"pattern\": \"mean latency = ([0-9.]+) us\"}],\n"
    "  \"reads\": {\"tokens\": \"/tokens generated: (\\\\d+)\"},\n"
    "  \"outputs\": {\"pattern\": \"^answer: (.*)$\"},\n"
    "  \"protocol\": {\"temperature\": 0, \"seed\": 0},\n"
    "  \"arms\": [\n"
    "    {\"name\": \"slow\", \"command\": \"./other 200\", \"must\": [\"fast path\"]},\n"
    "    {\"name\": \"quick\", \"command\": \"./other 100\", \"must\": [\"fast path\"], \"predicted\": -0.5}\n"
    "  ]\n"
    "}\n";

static json_doc *lines_of(const char *path, int line) {
    char *all, *p;
    size_t len;
    json_doc *doc;
    assert_int_equal(file_read(path, 1 << 26, &all, &len, NULL), CADRE_OK);
    p = all;
    for (int i = 1; i < line; i++) p = strchr(p, '\n') + 1;
    assert_int_equal(json_parse("line", p, strcspn(p, "\n"), &doc, NULL), CADRE_OK);
    mem_free(all);
    return doc;
}

static void another_program(void **state) {
    (void)state;
    put("other", other);
    put("other.json", script_json);
    assert_int_equal(chmod(in("other"), 0755), 0);
    ran r = command("ab plan '%s' --sd 1", in("other.json"));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "slow (the reference)"));
    assert_non_null(strstr(r.out, "command        ... 200 -> ... 100"));
    assert_non_null(strstr(r.out, "predicted      -50 %"));
    assert_non_null(strstr(r.out, "temperature 0, seed 0"));
    assert_non_null(
        strstr(r.out, "interleaved: slow, quick, slow, quick, slow, quick, slow, quick, slow, quick, slow"));
    command_free(&r);
    r = command("ab plan '%s' --json", in("other.json"));
    json_doc *doc = command_json(&r);
    const json *root = json_root(doc), *arms = json_get(root, "arms");
    command_has(root,
                "name asks metric program aa arms order visits warmup total effect level power noise visits_needed "
                "power_planned seconds");
    assert_int_equal(json_get(root, "total")->integer, 11);
    assert_int_equal(json_get(root, "noise")->kind, JSON_NULL); /* not known is not 0 */
    const json *difference = json_get(arms->child->next, "differences")->child;
    assert_true(json_is(json_get(difference, "what"), "command"));
    json_free(doc);
    command_free(&r);
    r = command("ab run '%s' -o '%s' --ledger '%s' --lock '%s'", in("other.json"), in("o1"), in("ledger"), in("lock"));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "  11 of 11  slow                 200 us\n"));
    assert_non_null(strstr(r.out, "next           cadre ab verdict "));
    assert_non_null(strstr(r.out, "latency of quick is 50"));
    assert_non_null(strstr(r.out, "conversion 1.00 (1.00 to 1.00): -50.00 % predicted, -50.00 % measured"));
    command_free(&r);
    for (int i = 0; i < 2; i++) { /* by its folder or by its samples: the question is the experiment's */
        r = command("ab verdict '%s' --json", in(i ? "o1" : "o1/samples.jsonl"));
        doc = command_json(&r);
        assert_true(json_is(json_get(json_root(doc), "metric"), "latency"));
        assert_true(json_is(json_get(json_root(doc), "verdict"), "win"));
        const json *c = json_get(json_root(doc), "contrasts")->child;
        command_has(c, "ceiling predicted conversion conversion_interval conversion_odd predicted_before_run");
        assert_true(fabs(json_get(c, "conversion")->number - 1) < 1e-9 && json_get(c, "predicted_before_run")->truth);
        assert_false(json_get(c, "conversion_odd")->truth || json_get(c, "ceiling")->truth);
        json_free(doc);
        command_free(&r);
    }
    doc = lines_of(in("o1/samples.jsonl"), 3);
    root = json_root(doc);
    assert_true(json_is(json_get(root, "arm"), "quick") && json_get(root, "value")->number == 100);
    assert_true(json_get(root, "tokens")->integer == 64 && json_get(root, "active")->truth);
    assert_int_equal(json_get(root, "requests")->count, 1);
    json_free(doc);
    r = command("ab log --ledger '%s' --check --json", in("ledger"));
    assert_int_equal(r.status, 0);
    doc = command_json(&r);
    const json *entry = json_get(json_root(doc), "entries")->child;
    assert_true(json_is(json_get(entry, "name"), "other") && json_is(json_get(entry, "samples_are"), "as measured"));
    assert_true(fabs(json_get(entry, "ratio")->number - 0.5) < 1e-9);
    json_free(doc);
    command_free(&r);
}

/* What would be refused after the last visit is refused before the first; a whole run that is resumed is one entry; how
 * a visit failed is told where it is told that it did. */
static void told_in_time(void **state) {
    (void)state;
    char *all;
    size_t len;
    const char *run = "ab run '%s' -o '%s' --ledger '%s' --lock '%s' %s";
    command_refused(command(run, in("other.json"), in("o2"), in("ledger"), in("lock"), "--supersedes deadbeef"),
                    "ledger: no entry deadbeef to supersede");
    assert_false(file_exists(in("o2")));
    command_refused(command(run, in("other.json"), in("o3"), in("ledger"), in("lock"), "--resume"),
                    "o3 is not there: nothing to resume");
    ran r = command(run, in("other.json"), in("o1"), in("ledger"), in("lock"), "--resume");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "kept           as "));
    command_free(&r);
    r = command("ab log --ledger '%s' --json", in("ledger"));
    json_doc *doc = command_json(&r);
    assert_int_equal(json_get(json_root(doc), "entries")->count, 1);
    json_free(doc);
    command_free(&r);
    assert_int_equal(file_read(in("o1/samples.jsonl"), 1 << 26, &all, &len, NULL), CADRE_OK);
    *strchr(all, ':') = '\n';
    assert_int_equal(file_write(in("o1/samples.jsonl"), all, len, NULL), CADRE_OK);
    mem_free(all);
    command_refused(command(run, in("other.json"), in("o1"), in("ledger"), in("lock"), "--resume"),
                    "o1/samples.jsonl:1: cut off or changed; start a new folder");
    put("ends.json", "{\"name\": \"ends\", \"visits\": 1, \"warmup\": 0, \"arms\": [\n"
                     "{\"name\": \"a\", \"command\": [\"sh\", \"-c\", \"exit 3\"]},\n"
                     "{\"name\": \"b\", \"command\": [\"sh\", \"-c\", \"exit 0\"]}]}");
    r = command("ab plan '%s' --try --lock '%s'", in("ends.json"), in("lock"));
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "  a: nothing shows it at work, failed: exit status 3, outputs not told\n"));
    command_free(&r);
    r = command(run, in("ends.json"), in("o3"), in("ledger"), in("lock"), "--no-ledger");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "   1 of 3  a                    -                failed: exit status 3\n"));
    command_free(&r);
}

/* B07. Equal arms have nothing to be told apart by; only A/A may be equal. */
static void equal_arms(void **state) {
    (void)state;
    put("same.json",
        "{\"name\": \"same\", \"command\": \"cadre run\", \"arms\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}");
    command_refused(command("ab plan '%s' --json", in("same.json")),
                    "arms a and b do not differ; \"aa\": true measures the noise of equal arms");
    put("bad.json", "{\"name\": \"same\",\n \"visit\": 3}");
    command_refused(command("ab plan '%s'", in("bad.json")),
                    "bad.json:2:11: .visit is no key of an experiment; did you mean visits?");
    command_refused(command("ab run"), "ab run needs one FILE (cadre ab run --help)");
    command_refused(command("ab log --ledger '%s'", in("no-ledger")), "no-ledger: no such file");
}

/* An A/A of the demo model, and going on after it was cut short. */
static void demo(void **state) {
    (void)state;
    put("aa.json",
        "{\"name\": \"aa\", \"aa\": true, \"visits\": 2, \"warmup\": 1, \"command\": \"cadre run -n 8 --ignore-eos "
        "--threads 1\", \"arms\": [{\"name\": \"a\"}]}");
    ran r = command("ab plan '%s' --try --json --lock '%s'", in("aa.json"), in("lock"));
    json_doc *doc = command_json(&r);
    const json *tried = json_get(json_root(doc), "tried")->child;
    assert_true(json_is(json_get(tried, "metric"), "tpot_ms") && json_get(tried, "value")->number > 0);
    assert_true(json_is(json_get(tried, "active"), "yes")); /* its switches are as set: none */
    assert_true(json_get(json_root(doc), "seconds")->number > 0);
    json_free(doc);
    command_free(&r);
    r = command("ab run '%s' -o '%s' --no-ledger --lock '%s' --json", in("aa.json"), in("aa"), in("lock"));
    assert_int_equal(r.status, 0);
    doc = command_json(&r);
    const json *root = json_root(doc);
    command_has(root, "name run folder samples visits of failed unproven stopped outcome ledger_id");
    assert_true(json_get(root, "visits")->integer == 7 && json_get(root, "failed")->integer == 0);
    assert_true(json_get(root, "unproven")->integer == 0 && json_get(root, "ledger_id")->kind == JSON_NULL);
    json_free(doc);
    command_free(&r);
    doc = lines_of(in("aa/samples.jsonl"), 1);
    root = json_root(doc);
    const json *manifest = json_get(root, "manifest");
    command_has(root,
                "kind run arm visit order iteration warmup metric unit value tokens family requests active started "
                "load manifest");
    command_has(manifest,
                "experiment_sha256 aa role command env switches program files protocol sampling numerics machine "
                "device exclusive visit");
    command_has(json_get(manifest, "sampling"), "temperature seed"); /* B09: as it ran */
    assert_int_equal(json_get(root, "tokens")->integer, 8);
    json_free(doc);
    r = command("ab run '%s' -o '%s' --no-ledger --lock '%s'", in("aa.json"), in("aa"), in("lock"));
    command_refused(r, "holds samples already; --resume goes on with them");
}

/* The same again and again: how often which outcome. What is there already is not measured again. */
static void repeated(void **state) {
    (void)state;
    for (int times = 2; times <= 3; times++) {
        ran r = command("ab run '%s' --repeat %d%s -o '%s' --lock '%s' --json", in("other.json"), times,
                        times > 2 ? " --resume" : "", in("rep"), in("lock"));
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *all = json_get(json_root(doc), "repeats"), *of = json_get(json_root(doc), "outcomes");
        assert_int_equal(all->count, times);
        command_has(of, "win loss within_noise underpowered refused");
        assert_int_equal(json_get(of, "underpowered")->integer, 0);
        assert_true(fabs(json_get(all->child, "ratio")->number - 0.5) < 1e-9);
        assert_true(json_is(json_get(all->child, "outcome"), "win"));
        json_free(doc);
        command_free(&r);
    }
}

/* A difference that is refused stands nowhere: not in the outcome, not in the ledger, not among repeats. */
static void refused_has_no_figures(void **state) {
    (void)state;
    put("differ", "#!/bin/sh\necho \"kernel: fast path\"\necho \"mean latency = $1 us\"\necho \"answer: $1\"\n");
    assert_int_equal(chmod(in("differ"), 0755), 0);
    put("differ.json",
        "{\"name\": \"differ\", \"visits\": 4, \"outputs\": {\"pattern\": \"^answer: (.*)$\"},\n"
        " \"metrics\": [{\"name\": \"latency\", \"unit\": \"us\", \"pattern\": \"mean latency = ([0-9.]+) us\"}],\n"
        " \"arms\": [{\"name\": \"a\", \"command\": \"./differ 200\", \"must\": [\"fast path\"]},\n"
        "  {\"name\": \"b\", \"command\": \"./differ 100\", \"must\": [\"fast path\"]}]}");
    ran r = command("ab run '%s' -o '%s' --ledger '%s' --lock '%s'", in("differ.json"), in("d1"), in("d-ledger"),
                    in("lock"));
    assert_non_null(strstr(r.out, "Refused: no difference between b and a is told; failed gates: family."));
    assert_null(strstr(r.out, "-50"));
    command_free(&r);
    r = command("ab log --ledger '%s' --json", in("d-ledger"));
    json_doc *doc = command_json(&r);
    const json *entry = json_get(json_root(doc), "entries")->child;
    assert_true(json_is(json_get(entry, "outcome"), "refused"));
    assert_int_equal(json_get(entry, "ratio")->kind, JSON_NULL);
    assert_int_equal(json_get(entry, "interval")->child->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
    r = command("ab run '%s' --repeat 1 -o '%s' --lock '%s' --json", in("differ.json"), in("d-rep"), in("lock"));
    assert_null(strstr(r.err, "-50"));
    doc = command_json(&r);
    assert_int_equal(json_get(json_get(json_root(doc), "repeats")->child, "ratio")->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
}

static bool has_samples(const started *s, const char *text) {
    (void)s;
    return file_exists(text);
}

/* Ctrl-C ends the visit in flight and says how to go on. */
static void interrupted(void **state) {
    (void)state;
    put("sleeps.json",
        "{\"name\": \"sleeps\", \"command\": [\"sh\", \"-c\", \"sleep ${T-0}; echo v 1\"], \"visits\": 3, "
        "\"warmup\": 0, \"metrics\": [{\"name\": \"v\", \"unit\": \"s\", \"pattern\": \"v (.*)\"}], "
        "\"unproven_allowed\": true, "
        "\"arms\": [{\"name\": \"a\"}, {\"name\": \"b\", \"env\": {\"T\": 20}}]}");
    uint64_t t = clock_ns();
    started s = command_start("ab run '%s' -o '%s' --no-ledger --lock '%s'", in("sleeps.json"), in("sl"), in("lock"));
    command_until(&s, has_samples, in("sl/visits/0002-b/stdout"));
    assert_int_equal(kill(s.pid, SIGINT), 0);
    assert_int_equal(command_end(&s), 1);
    assert_true((double)(clock_ns() - t) / 1e9 < 19);
    assert_true(command_says("out", "--resume --out "));
    assert_true(command_says("out", "1 of 7 visits are kept"));
    json_doc *doc = lines_of(in("sl/samples.jsonl"), 1);
    assert_int_equal(json_get(json_root(doc), "order")->integer, 1);
    json_free(doc);
}

static void searching(void **state) {
    (void)state;
    put("l", "{\"id\": \"1a\", \"date\": \"2026-01-02T00:00:00Z\", \"name\": \"Tiles\", \"outcome\": \"loss\", "
             "\"text\": \"slower\"}\n"
             "{\"id\": \"2b\", \"date\": \"2026-01-03T00:00:00Z\", \"name\": \"tiles again\", \"outcome\": \"win\", "
             "\"supersedes\": \"1a\", \"samples\": \"/none\", \"samples_sha256\": \"0\"}\n{\"id\": \"3c\", \"na");
    ran r = command("ab log tiles LOSS --ledger '%s'", in("l"));
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "1a  2026-01-02  Tiles: loss, superseded by 2b\n          found: slower\n");
    assert_non_null(strstr(r.err, "l:3: an entry that was cut off is passed over"));
    command_free(&r);
    r = command("ab log --check --ledger '%s'", in("l"));
    assert_int_equal(r.status, 1); /* its samples are gone */
    assert_non_null(strstr(r.out, "samples: /none: gone"));
    command_free(&r);
    r = command("ab log nothing --ledger '%s'", in("l"));
    assert_string_equal(r.out, "no entry holds that\n");
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_program), cmocka_unit_test(told_in_time),
        cmocka_unit_test(equal_arms),      cmocka_unit_test(demo),
        cmocka_unit_test(interrupted),     cmocka_unit_test(searching),
        cmocka_unit_test(repeated),        cmocka_unit_test(refused_has_no_figures),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
