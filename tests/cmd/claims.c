/* claims: `cadre claims` as users and programs meet it: exit statuses, lines, JSON, samples. */
#include "command.h"

static void put(char path[200], const char *name, const char *text) {
    assert_true(file_join(path, 200, scratch, name));
    assert_int_equal(file_write(path, text, strlen(text), NULL), CADRE_OK);
}

static void statuses(void **state) {
    char good[200], bad[200], nul[200];
    (void)state;
    put(good, "good.md", "It went 12.50 -> 10.00 ms (-20.0 %), on 3 hosts.\n");
    put(bad, "bad.md", "Fine.\n\nIt went 12.50 -> 10.00 ms (-25.0 %).\n");
    ran r = command("claims '%s'", good);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "1 figures checked, 0 wrong, 0 notes; 3 that nothing in the text determines\n");
    command_free(&r);
    r = command("claims '%s' --all", good);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "good.md:1: follows: [change] -20: from 12.5 to 10 is -20 %"));
    command_free(&r);
    r = command("claims '%s'", bad);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "bad.md:3: wrong: [change] -25: from 12.5 to 10 is -20 %\n"
                                  "  in    It went 12.50 -> 10.00 ms (-25.0 %).\n"));
    command_free(&r);
    r = command_after("printf '12.50 -> 10.00 ms (+20.0%%)' |", "claims -");
    assert_int_equal(r.status, 1);
    command_free(&r);
    assert_true(file_join(nul, sizeof nul, scratch, "nul"));
    assert_int_equal(file_write(nul, "a\0b", 3, NULL), CADRE_OK);
    command_refused(command("claims '%s'", nul), "byte 1 is zero: not a text");
    command_refused(command("claims nowhere.md"), "nowhere.md: cannot open");
    command_refused(command("claims"), "claims needs one FILE");
    command_refused(command("claims '%s' '%s'", good, bad), "claims needs one FILE");
    command_refused(command("claims '%s' --samples nowhere.jsonl", good), "nowhere.jsonl: cannot open");
}

static void as_json(void **state) {
    (void)state;
    ran r = command("claims tests/lab/claims/faults.md --json");
    assert_int_equal(r.status, 1);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *all = json_get(v, "claims");
    command_has(v, "schema command file samples checked wrong notes unchecked claims");
    int64_t wrong = 0, notes = 0;
    for (const json *c = all->child; c; c = c->next) {
        command_has(c, "line text rule stated recomputed ok note why");
        wrong += !json_get(c, "ok")->truth;
        notes += json_get(c, "note")->truth;
    }
    assert_int_equal(json_get(v, "wrong")->integer, wrong);
    assert_int_equal(json_get(v, "notes")->integer, notes);
    assert_int_equal(json_get(v, "checked")->integer, all->count - notes);
    assert_true(wrong > 30 && notes > 1 && json_get(v, "unchecked")->integer > 0);
    json_free(doc);
    command_free(&r);
    r = command("claims tests/lab/claims/serving.md --json");
    assert_int_equal(r.status, 0);
    doc = command_json(&r);
    assert_int_equal(json_get(json_root(doc), "wrong")->integer, 0);
    json_free(doc);
    command_free(&r);
}

static void with_samples(void **state) {
    char report[200], samples[200];
    (void)state;
    put(report, "report.md", "| arm | mean |\n|-|-|\n| off | 10.10 ms |\n| on | 9.00 ms |\n");
    put(samples, "samples.jsonl",
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":10.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"on\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":9.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":10.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"on\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":9.0}\n");
    ran r = command("claims '%s'", report);
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = command("claims '%s' --samples '%s'", report, samples);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "report.md:3: wrong: [samples] 10.1: the mean of 2 samples is 10"));
    assert_non_null(strstr(r.out, "2 figures checked, 1 wrong"));
    command_free(&r);
    /* each visit of a run has its seconds too: not what a table is of that does not name them */
    put(samples, "samples.jsonl",
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":10.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"wall_s\",\"unit\":\"s\",\"value\":3.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":10.0}\n"
        "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"off\",\"metric\":\"wall_s\",\"unit\":\"s\",\"value\":5.0}\n");
    put(report, "report.md", "| arm | mean | mean wall |\n|-|-|-|\n| off | 10.10 ms | 4.0 s |\n");
    r = command("claims '%s' --samples '%s'", report, samples);
    assert_non_null(strstr(r.out, "report.md:3: wrong: [samples] 10.1: the mean of 2 samples is 10"));
    assert_non_null(strstr(r.out, "2 figures checked, 1 wrong"));
    command_free(&r);
}

/* What the lab writes about samples follows from them, to the last digit that it prints; another digit does not. */
static void own_report(void **state) {
    char report[200], line[700], *text, *at;
    size_t len;
    (void)state;
    assert_true(file_join(report, sizeof report, scratch, "own.md"));
    ran r = command("ab report docs/samples/decode-ab.jsonl -o '%s'", report);
    assert_int_equal(r.status, 0);
    command_free(&r);
    snprintf(line, sizeof line, "claims '%s' --samples docs/samples/decode-ab.jsonl --json", report);
    r = command("%s", line);
    if (r.status) fail_msg("%s", r.out);
    json_doc *doc = command_json(&r);
    assert_true(json_get(json_root(doc), "checked")->integer >= 16);
    json_free(doc);
    command_free(&r);
    assert_int_equal(file_read(report, 1 << 20, &text, &len, NULL), CADRE_OK);
    assert_non_null(at = strstr(text, "| 23543.5 |"));
    at[6] = '6';
    assert_int_equal(file_write(report, text, len, NULL), CADRE_OK);
    mem_free(text);
    r = command("%s", line);
    assert_int_equal(r.status, 1);
    command_free(&r);
}

/* The project's own pages hold to what they quote. */
static void own_pages(void **state) {
    static const char *const pages[] = {"README.md",      "CHANGELOG.md",   "docs/performance.md",
                                        "docs/design.md", "docs/tables.md", "docs/numerics.md"};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        ran r = command("claims %s", pages[i]);
        if (r.status) fail_msg("%s", r.out);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(statuses), cmocka_unit_test(as_json),
                                       cmocka_unit_test(with_samples), cmocka_unit_test(own_report),
                                       cmocka_unit_test(own_pages)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
