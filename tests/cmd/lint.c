/* lint: `cadre table lint` as users and programs meet it: exit statuses and the four formats. */
#include "command.h"

#define ROW(key, bm)                                                                          \
    "\"" #key "\": {\"BLOCK_SIZE_M\": " #bm ", \"BLOCK_SIZE_N\": 32, \"BLOCK_SIZE_K\": 256, " \
    "\"GROUP_SIZE_M\": 32, \"num_warps\": 8, \"num_stages\": 5}"
#define GOOD "{\n" ROW(1, 16) ",\n" ROW(512, 64) "\n}\n"
#define BAD  "{\n" ROW(96, 16) ",\n" ROW(512, 64) "\n}\n"

static char good[200], bad[200], folder[200];

static void put(char path[200], const char *name, const char *text) {
    assert_true(file_join(path, 200, scratch, name));
    assert_int_equal(file_write(path, text, strlen(text), NULL), CADRE_OK);
}

static int setup(void **state) {
    int status = command_setup(state);
    char line[300];
    snprintf(line, sizeof line, "mkdir -p '%s/configs/empty'", scratch);
    assert_int_equal(system(line), 0);
    assert_true(file_join(folder, sizeof folder, scratch, "configs"));
    put(good, "configs/E=8,N=64,device_name=NVIDIA_H200.json", GOOD);
    put(bad, "configs/E=8,N=32,device_name=NVIDIA_H200.json", BAD);
    return status;
}

static void statuses(void **state) {
    (void)state;
    ran r = command("table lint '%s'", good);
    assert_int_equal(r.status, 0); /* notes alone */
    assert_non_null(strstr(r.out, "note: [nearest-range] 1 takes M = 1..256; 512 takes M = 257 and above"));
    command_free(&r);
    r = command("table lint '%s'", bad);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, ":2: warning: [missing-small-m] key 96: the smallest key is 96"));
    assert_non_null(strstr(r.out, "  why   decode (M = 1 and up) takes a row"));
    assert_non_null(strstr(r.out, "  do    tune 1, 2, 4, 8 and 16"));
    command_free(&r);
    r = command("table lint '%s'", folder);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "2 tables, 1 errors and warnings"));
    assert_null(strstr(r.out, "note: ")); /* of many tables only what must be mended */
    command_free(&r);
    command_refused(command("table lint '%s/empty'", folder), "no tables below");
    command_refused(command("table lint nowhere.json"), "nowhere.json: cannot open");
    command_refused(command("table lint"), "table lint needs a FILE or a DIR");
    command_refused(command("table lint '%s' --against nothing", good), "--against is 'nothing'");
    command_refused(command("table lint '%s' --tp 2", good), "--tp needs --shape");
}

static void as_json(void **state) {
    (void)state;
    ran r = command("table lint '%s' '%s' --json", good, bad);
    assert_int_equal(r.status, 1);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc);
    command_has(v, "schema command files skipped findings counts");
    assert_int_equal(json_get(v, "files")->integer, 2);
    int small = 0;
    for (const json *f = json_get(v, "findings")->child; f; f = f->next) {
        command_has(f, "rule level file line key found why fix");
        if (!json_is(json_get(f, "rule"), "missing-small-m")) continue;
        small++;
        assert_true(json_is(json_get(f, "file"), bad));
        assert_int_equal(json_get(f, "line")->integer, 2);
        assert_true(json_is(json_get(f, "key"), "96"));
    }
    assert_int_equal(small, 1);
    assert_int_equal(json_get(json_get(v, "counts"), "nearest-range")->integer, 4);
    json_free(doc);
    command_free(&r);
}

/* What SARIF 2.1.0 asks for: a version, one run with a driver, results that point to its rules and to a place. */
static void sarif(void **state) {
    (void)state;
    ran r = command("table lint '%s' --format sarif --level warning", bad);
    assert_int_equal(r.status, 1);
    json_doc *doc;
    assert_int_equal(json_parse("sarif", r.out, r.out_len, &doc, NULL), CADRE_OK);
    const json *v = json_root(doc);
    assert_true(json_is(json_get(v, "version"), "2.1.0"));
    const json *first = json_get(v, "runs")->child, *driver = json_get(json_get(first, "tool"), "driver");
    const json *result = json_get(first, "results")->child, *rule = json_get(driver, "rules")->child;
    assert_int_equal(json_get(first, "results")->count, 1);
    for (int64_t i = json_get(result, "ruleIndex")->integer; i > 0; i--) rule = rule->next;
    assert_true(json_is(json_get(rule, "id"), "missing-small-m"));
    assert_true(json_is(json_get(result, "ruleId"), "missing-small-m"));
    assert_true(json_is(json_get(result, "level"), "warning"));
    const json *place = json_get(json_get(result, "locations")->child, "physicalLocation");
    assert_int_equal(json_get(json_get(place, "region"), "startLine")->integer, 2);
    const char *uri = json_get(json_get(place, "artifactLocation"), "uri")->text;
    assert_non_null(strstr(uri, "file:///"));
    assert_null(strpbrk(uri, " []"));
    json_free(doc);
    command_free(&r);
}

static void github(void **state) {
    (void)state;
    ran r = command("table lint '%s' --format github", folder);
    assert_int_equal(r.status, 1);
    assert_int_equal(strncmp(r.out, "::warning file=", 15), 0);
    assert_non_null(strstr(r.out, "E=8%2CN=32%2Cdevice_name=NVIDIA_H200.json,line=2,title=missing-small-m::key 96: "));
    assert_ptr_equal(strchr(r.out, '\n') + 1, r.out + r.out_len); /* one line: notes are left out */
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(statuses), cmocka_unit_test(as_json), cmocka_unit_test(sarif),
                                       cmocka_unit_test(github)};
    return cmocka_run_group_tests(tests, setup, command_teardown);
}
