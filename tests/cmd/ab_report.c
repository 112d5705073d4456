/* ab_report: `cadre ab verdict`, `ab stack` and `ab report` as a user runs them: figures of the committed samples, exit
 * statuses, formats, refusals of what cannot be read. */
#include "command.h"

#include <math.h>

static int setup(void **state) {
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    for (const char *f = "out\0err\0x.jsonl\0x.html\0p.json\0"; *f; f += strlen(f) + 1) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", scratch, f);
        remove(path);
    }
    return rmdir(scratch);
}

/* scratch/x.jsonl: two arms, three interleaved visits of two samples; the second arm's values are the first's times
 * `ratio`. */
static void write_samples(double ratio, const char *family_of_second, const char *more) {
    static const double values[] = {10, 10.1, 9.9, 10, 10.1, 10};
    char text[8192] = "", path[128];
    for (int i = 0; i < 12; i++) {
        int arm = i / 2 % 2, visit = i / 4;
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "{\"arm\":\"%s\",\"visit\":%d,\"order\":%d,\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":%g,"
                 "\"family\":\"%s\"%s}\n",
                 arm ? "new" : "old", visit + 1, i / 2 + 1, values[visit * 2 + i % 2] * (arm ? ratio : 1),
                 arm ? family_of_second : "f1", more);
    }
    snprintf(path, sizeof path, "%s/x.jsonl", scratch);
    assert_int_equal(file_write(path, text, strlen(text), NULL), CADRE_OK);
}

static void ran_is(ran r, int status, const char *text) {
    if (r.status != status || !strstr(r.out, text))
        fail_msg("status %d, expected %d and '%s' in:\n%s%s", r.status, status, text, r.out, r.err);
    command_free(&r);
}

/* 0 for a win and for no difference; 1 for the answers that are no. */
static void statuses(void **state) {
    (void)state;
    write_samples(0.8, "f1", "");
    ran_is(command("ab verdict '%s/x.jsonl'", scratch), 0, "Win: tpot_ms of new is 20.0");
    ran_is(command("ab verdict '%s/x.jsonl' --better higher", scratch), 1, "Loss: ");
    ran_is(command("ab verdict '%s/x.jsonl' --reference new", scratch), 1, "Loss: tpot_ms of old is 25.0");
    write_samples(1.0, "f1", "");
    ran_is(command("ab verdict '%s/x.jsonl' --effect 0.05", scratch), 0, "Within noise: ");
    write_samples(1.01, "f1", "");
    ran_is(command("ab verdict '%s/x.jsonl' --effect 0.015", scratch), 1, "Underpowered: ");
    write_samples(0.8, "f2", "");
    ran_is(command("ab verdict '%s/x.jsonl'", scratch), 1,
           "Refused: no difference between new and old is told; failed gates: family");
    ran_is(command("ab verdict '%s/x.jsonl'", scratch), 1,
           "old      3  f1            2       -                -"); /* the table that shows why */
    ran_is(command("ab verdict '%s/x.jsonl'", scratch), 1, "new      1  f2            2");
    ran_is(command("ab report '%s/x.jsonl'", scratch), 1, "Why no difference is told");
}

/* The figures of docs/samples/decode-ab.jsonl are public: they can be recomputed by hand. */
static void decode_as_json(void **state) {
    static const char *const arms[] = {"OFF", "ON"};
    (void)state;
    ran r = command("ab verdict docs/samples/decode-ab.jsonl --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *interval = json_get(v, "interval"), *arm = json_get(v, "arms")->child;
    command_has(v,
                "verdict ratio interval p p_floor gates contrasts arms separation pairs bootstrap estimator reference");
    assert_true(json_is(json_get(v, "verdict"), "win"));
    assert_true(fabs(json_get(v, "ratio")->number - 23543.46 / 23016.42) < 1e-12);
    assert_true(fabs(json_get(v, "p")->number - 2.0 / 184756) < 1e-15);
    assert_true(fabs(json_get(v, "separation")->number - 460.0) < 1e-9);
    assert_true(interval->child->number < 1.0228 && interval->child->next->number > 1.0230);
    for (int i = 0; i < 2; i++, arm = arm->next) assert_true(json_is(json_get(arm, "name"), arms[i]));
    command_has(json_get(v, "gates")->child, "name ok told why");
    json_free(doc);
    command_free(&r);
}

static void stack_as_json(void **state) {
    (void)state;
    ran r = command("ab stack docs/samples/stack-ab.jsonl --json");
    assert_int_equal(r.status, 1); /* one visit each: underpowered */
    json_doc *doc = command_json(&r);
    const json *both = json_get(json_root(doc), "effects")->child->next->next;
    assert_true(json_is(json_get(both, "name"), "241 x 242"));
    assert_true(fabs(json_get(both, "additive")->number - 6.001) < 1e-9);
    assert_true(fabs(json_get(both, "multiplicative")->number - 7.531 * 6.639 / 8.169) < 1e-9);
    assert_true(fabs(json_get(both, "additive_gap")->number - (5.967 / 6.001 - 1)) < 1e-9);
    assert_int_equal(json_get(json_root(doc), "leave_one_out")->count, 2);
    json_free(doc);
    command_free(&r);
    ran_is(command("ab stack docs/samples/stack-ab.jsonl --factors 242,241"), 1, "242 x 241   -26.96 %");
}

static void formats(void **state) {
    size_t n;
    (void)state;
    write_samples(0.8, "f1", "");
    ran_is(command("ab report '%s/x.jsonl' --title 'A title' --asks 'Why?'", scratch), 0, "A title\n=======\nWhy?\n");
    ran_is(command("ab report '%s/x.jsonl' --format md", scratch), 0, "| arm | n | visits |");
    ran r = command("ab report '%s/x.jsonl' --json", scratch);
    json_free(command_json(&r));
    command_free(&r);
    ran_is(command("ab report '%s/x.jsonl' -o '%s/x.html'", scratch, scratch), 0, "wrote ");
    char *html = command_read("x.html", &n);
    assert_int_equal(strncmp(html, "<!doctype html>", 15), 0);
    assert_non_null(strstr(html, "tpot_ms of new is 20.0"));
    mem_free(html);
}

static void profile_of_bench(void **state) {
    static const char text[] =
        "{\"profile\":[{\"op\":\"experts\",\"kernel\":\"up\",\"launches\":2,\"us\":300,\"share\":0.75,"
        "\"floor_us\":200}]}",
                      bad[] = "{\"profile\":[{\"op\":\"experts\",\"us\":-1}]}";
    char path[128];
    (void)state;
    write_samples(0.8, "f1", "");
    snprintf(path, sizeof path, "%s/p.json", scratch);
    assert_int_equal(file_write(path, text, sizeof text - 1, NULL), CADRE_OK);
    ran_is(command("ab report '%s/x.jsonl' --profile '%s'", scratch, path), 0,
           "experts  up             2  300  75.0 %");
    assert_int_equal(file_write(path, bad, sizeof bad - 1, NULL), CADRE_OK);
    command_refused(command("ab report '%s/x.jsonl' --profile '%s'", scratch, path), ".profile[0].us is -1");
    assert_int_equal(file_write(path, "{}", 2, NULL), CADRE_OK);
    command_refused(command("ab report '%s/x.jsonl' --profile '%s'", scratch, path), "has no list .profile");
}

static void refusals(void **state) {
    (void)state;
    write_samples(0.8, "f1", "");
    command_refused(command("ab verdict"), "takes one file of samples, not 0");
    command_refused(command("ab verdict '%s/none.jsonl'", scratch), "none.jsonl");
    command_refused(command("ab verdict '%s/x.jsonl' --metric ttft_ms", scratch), "ttft_ms");
    command_refused(command("ab verdict '%s/x.jsonl' --reference other", scratch), "other");
    command_refused(command("ab verdict '%s/x.jsonl' --effect 0", scratch), "--effect");
    command_refused(command("ab stack '%s/x.jsonl'", scratch), "no arm");
    command_refused(command("ab stack '%s/x.jsonl' --factors a,b", scratch), "which is no factor");
    command_refused(command("ab report '%s/x.jsonl' -o '%s/no/such/file.html'", scratch, scratch), "no/such");
    write_samples(0.8, "f1", ",\"value\":1");
    command_refused(command("ab report '%s/x.jsonl'", scratch), "x.jsonl:1:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses), cmocka_unit_test(decode_as_json),   cmocka_unit_test(stack_as_json),
        cmocka_unit_test(formats),  cmocka_unit_test(profile_of_bench), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
