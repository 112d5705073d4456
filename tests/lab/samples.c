/* samples: every field both ways, what is not told, visits and orders worked out, the place of every refusal, torn
 * ends, failing memory. */
#include "base/base.h"
#include "lab/lab.h"
#include "test.h"
#include <math.h>

static lab_samples *parse(const char *text) {
    lab_samples *s = NULL;
    must(lab_samples_parse("s.jsonl", text, strlen(text), &s, fail_out));
    return s;
}

static void bad(const char *text, const char *message) {
    lab_samples *s = (lab_samples *)1;
    cadre_fail why = {0};
    assert_int_equal(lab_samples_parse("s.jsonl", text, strlen(text), &s, &why), CADRE_FORMAT);
    assert_string_equal(why.text, message);
    assert_ptr_equal(s, (lab_samples *)1);
}

static const char full[] =
    "{\"kind\":\"ab\",\"run\":\"r1\",\"arm\":\"on\",\"visit\":2,\"order\":3,\"iteration\":4,\"warmup\":true,"
    "\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":6.62,\"tokens\":1000,\"failed\":1,\"family\":\"ad63\","
    "\"requests\":[{\"id\":\"a\",\"sha256\":\"00\"},{\"id\":7,\"sha256\":null}],\"accepted\":5,\"drafts\":2,"
    "\"draft_tokens\":12,\"active\":false,\"why\":\"no line\",\"started\":\"2025-11-29T14:46:00Z\",\"load\":0.5,"
    "\"mhz\":2450,\"celsius\":-3.25,\"manifest\":{\"env\":[\"A=1\"],\"nan\":null,\"n\":0.1,\"ok\":true}}\n";

static void fields(void **state) {
    (void)state;
    lab_samples *s = parse(full);
    assert_int_equal(lab_samples_count(s), 1);
    const lab_sample *it = lab_samples_at(s, 0);
    assert_string_equal(it->run, "r1");
    assert_string_equal(it->arm, "on");
    assert_int_equal(it->visit, 2);
    assert_int_equal(it->order, 3);
    assert_int_equal(it->iteration, 4);
    assert_true(it->warmup);
    assert_string_equal(it->metric, "tpot_ms");
    assert_string_equal(it->unit, "ms");
    assert_true(it->value == 6.62 && it->tokens == 1000 && it->failed == 1);
    assert_string_equal(it->family, "ad63");
    assert_int_equal(it->requests->count, 2);
    assert_true(it->accepted == 5 && it->drafts == 2 && it->draft_tokens == 12);
    assert_int_equal(it->active, LAB_ACTIVE_NO);
    assert_string_equal(it->why, "no line");
    assert_string_equal(it->started, "2025-11-29T14:46:00Z");
    assert_true(it->load == 0.5 && it->mhz == 2450 && it->celsius == -3.25);
    assert_true(json_is(json_get(it->manifest, "env")->child, "A=1"));
    assert_int_equal(lab_samples_line(s, 0), 1);
    assert_null(lab_samples_at(s, 1));
    assert_null(lab_samples_at(s, -1));
    lab_samples_free(s);
}

static void written_as_read(void **state) {
    (void)state;
    lab_samples *s = parse(full);
    json_out o = {0};
    lab_sample_write(lab_samples_at(s, 0), &o);
    assert_string_equal(o.text, full);
    lab_sample_write(lab_samples_at(s, 0), &o); /* a second line into the same text */
    assert_int_equal(o.len, 2 * strlen(full));
    assert_string_equal(o.text + strlen(full), full);
    json_out_free(&o);
    lab_samples_free(s);
}

static void little_is_told(void **state) {
    (void)state;
    lab_samples *s = parse("{\"arm\":\"a\",\"metric\":\"m\",\"value\":null}");
    const lab_sample *it = lab_samples_at(s, 0);
    assert_null(it->run);
    assert_int_equal(it->visit, 1);
    assert_int_equal(it->order, 1);
    assert_int_equal(it->iteration, 0);
    assert_false(it->warmup);
    assert_null(it->unit);
    assert_true(isnan(it->value) && isnan(it->tokens) && isnan(it->failed) && isnan(it->drafts) && isnan(it->load));
    assert_null(it->family);
    assert_null(it->requests);
    assert_int_equal(it->active, LAB_ACTIVE_UNKNOWN);
    assert_null(it->manifest);
    assert_false(lab_samples_torn(s));
    json_out o = {0};
    lab_sample_write(it, &o);
    assert_string_equal(o.text,
                        "{\"kind\":\"ab\",\"arm\":\"a\",\"visit\":1,\"order\":1,\"metric\":\"m\",\"value\":null}\n");
    json_out_free(&o);
    lab_samples_free(s);
    s = parse("");
    assert_int_equal(lab_samples_count(s), 0);
    lab_samples_free(s);
    s = parse("{\"arm\":\"a\",\"metric\":\"m\",\"value\":1,\"run\":17}\n");
    assert_string_equal(lab_samples_at(s, 0)->run, "17");
    lab_samples_free(s);
}

static void other_kinds(void **state) {
    (void)state;
    lab_samples *s =
        parse("{\"kind\":\"bench\",\"arm\":5}\n\n  \r\n{\"kind\":null,\"arm\":\"a\",\"metric\":\"m\",\"value\":1,"
              "\"unknown\":[]}\n");
    assert_int_equal(lab_samples_count(s), 1);
    assert_int_equal(lab_samples_line(s, 0), 4);
    lab_samples_free(s);
}

static void torn(void **state) {
    (void)state;
    const char *line = "{\"arm\":\"a\",\"metric\":\"m\",\"value\":12.5}";
    char text[200];
    for (size_t cut = 0; cut <= strlen(line); cut++) {
        snprintf(text, sizeof text, "%s\n%.*s", line, (int)cut, line);
        lab_samples *s = parse(text);
        assert_int_equal(lab_samples_count(s), cut == strlen(line) ? 2 : 1);
        assert_int_equal(lab_samples_torn(s), cut > 0 && cut < strlen(line));
        lab_samples_free(s);
    }
}

static void expect(const lab_samples *s, int i, int visit, int order) {
    assert_int_equal(lab_samples_at(s, i)->visit, visit);
    assert_int_equal(lab_samples_at(s, i)->order, order);
}

#define V(arm)      "{\"arm\":\"" arm "\",\"metric\":\"m\",\"value\":1}\n"
#define M(arm)      "{\"arm\":\"" arm "\",\"metric\":\"other\",\"value\":1}\n"
#define R(run, arm) "{\"run\":\"" run "\",\"arm\":\"" arm "\",\"metric\":\"m\",\"value\":1}\n"

static void visits(void **state) {
    (void)state;
    lab_samples *s = parse(V("a") M("a") V("b") V("b") V("a") V("b"));
    expect(s, 0, 1, 1);
    expect(s, 1, 1, 1);
    expect(s, 2, 1, 2);
    expect(s, 3, 1, 2);
    expect(s, 4, 2, 3);
    expect(s, 5, 2, 4);
    lab_samples_free(s);
    s = parse(R("x", "b") R("x", "a") R("y", "a") R("y", "b"));
    expect(s, 0, 1, 1);
    expect(s, 1, 1, 2);
    expect(s, 2, 1, 1);
    expect(s, 3, 1, 2);
    lab_samples_free(s);
#define I(metric, n) "{\"arm\":\"a\",\"metric\":\"" metric "\",\"value\":1,\"iteration\":" #n "}\n"
    s = parse(I("m", 1) I("n", 1) I("m", 2) I("n", 2) I("m", 1) I("m", 1) I("m", 2));
    const int visit[] = {1, 1, 1, 1, 2, 3, 3};
    for (int i = 0; i < 7; i++) expect(s, i, visit[i], visit[i]);
    lab_samples_free(s);
    /* told visits keep their numbers; their order is that of the file, unless every visit has one */
    s = parse("{\"arm\":\"a\",\"visit\":2,\"metric\":\"m\",\"value\":1}\n"
              "{\"arm\":\"a\",\"visit\":1,\"metric\":\"m\",\"value\":1}\n"
              "{\"arm\":\"a\",\"visit\":2,\"metric\":\"n\",\"value\":1,\"order\":9}\n");
    expect(s, 0, 2, 1);
    expect(s, 1, 1, 2);
    expect(s, 2, 2, 1);
    lab_samples_free(s);
    s = parse("{\"arm\":\"a\",\"visit\":2,\"metric\":\"m\",\"value\":1}\n"
              "{\"arm\":\"a\",\"visit\":1,\"metric\":\"m\",\"value\":1,\"order\":4}\n"
              "{\"arm\":\"a\",\"visit\":2,\"metric\":\"n\",\"value\":1,\"order\":9}\n");
    expect(s, 0, 2, 9);
    expect(s, 1, 1, 4);
    lab_samples_free(s);
}

static void refusals(void **state) {
    (void)state;
    bad("{\"arm\":\"a\",\"metric\":\"m\",\"value\":1}\n{\"arm\":\"a\" \"metric\"}\n",
        "s.jsonl:2:12: expected ',' or '}', found '\"'");
    bad("[]\n", "s.jsonl:1:1: the root is an array of 0, expected an object");
    bad("{\"kind\":7}\n", "s.jsonl:1:9: .kind is 7, expected a text");
    bad("{}\n", "s.jsonl:1:1: the root has no .arm");
    bad("{\"arm\":\"\"}\n", "s.jsonl:1:8: .arm is \"\" (text), expected a name");
    bad("{\"arm\":\"a\",\"value\":1}\n", "s.jsonl:1:1: the root has no .metric");
    bad("{\"arm\":\"a\",\"metric\":\"m\"}\n", "s.jsonl:1:1: the root has no .value (null: not measured)");
#define WITH(text) "{\"arm\":\"a\",\"metric\":\"m\",\"value\":1," text "}\n"
    bad("\n{\"arm\":\"a\",\"metric\":\"m\",\"value\":\"1\"}\n",
        "s.jsonl:2:33: .value is \"1\" (text), expected a number in -1e+300..1e+300");
    bad("{\"arm\":\"a\",\"metric\":\"m\",\"value\":NaN}\n",
        "s.jsonl:1:33: .value is nan, expected a number in -1e+300..1e+300");
    bad(WITH("\"visit\":0"), "s.jsonl:1:43: .visit is 0, expected a whole number in 1..1048576");
    bad(WITH("\"visit\":1.5"), "s.jsonl:1:43: .visit is 1.5, expected a whole number in 1..1048576");
    bad(WITH("\"order\":-1"), "s.jsonl:1:43: .order is -1, expected a whole number in 1..1048576");
    bad(WITH("\"iteration\":\"1\""), "s.jsonl:1:47: .iteration is \"1\" (text), expected a whole number in 0..1048576");
    bad(WITH("\"warmup\":1"), "s.jsonl:1:44: .warmup is 1, expected true or false");
    bad(WITH("\"active\":1"), "s.jsonl:1:44: .active is 1, expected true, false or null");
    bad(WITH("\"run\":1.5"), "s.jsonl:1:41: .run is 1.5, expected a text or a whole number");
    bad(WITH("\"unit\":5"), "s.jsonl:1:42: .unit is 5, expected a text");
    bad(WITH("\"tokens\":-1"), "s.jsonl:1:44: .tokens is -1, expected a number in 0..1e+300");
    bad(WITH("\"failed\":true"), "s.jsonl:1:44: .failed is true, expected a number in 0..1e+300");
    bad(WITH("\"accepted\":5,\"draft_tokens\":4"), "s.jsonl:1:46: .accepted is more than .draft_tokens");
    bad(WITH("\"family\":{}"), "s.jsonl:1:44: .family is an object of 0, expected a text");
    bad(WITH("\"requests\":{}"), "s.jsonl:1:46: .requests is an object of 0, expected an array of {id, sha256}");
    bad(WITH("\"requests\":[{}]"), "s.jsonl:1:47: .requests[0] is an object of 0, expected a request {id, sha256}");
    bad(WITH("\"requests\":[{\"id\":1,\"sha256\":2}]"), "s.jsonl:1:64: .requests[0].sha256 is 2, expected a text");
    bad(WITH("\"manifest\":[]"), "s.jsonl:1:46: .manifest is an array of 0, expected an object");
    bad(WITH("\"arm\":\"b\""), "s.jsonl:1:35: key \"arm\" was given before");
}

static void files(void **state) {
    (void)state;
    lab_samples *s = (lab_samples *)1;
    cadre_fail why = {0};
    assert_int_equal(lab_samples_read("/nowhere/s.jsonl", &s, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "/nowhere/s.jsonl"));
    assert_ptr_equal(s, (lab_samples *)1);
    char dir[300], path[400];
    must(file_temp_dir("/tmp", "cadre-samples", dir, sizeof dir, fail_out));
    assert_true(file_join(path, sizeof path, dir, "s.jsonl"));
    json_out o = {0};
    lab_sample it = {.arm = "a", .metric = "m", .value = 2, .active = LAB_ACTIVE_YES, .tokens = NAN, .failed = NAN};
    it.accepted = it.drafts = it.draft_tokens = it.load = it.mhz = it.celsius = NAN;
    lab_sample_write(&it, &o);
    must(file_append(path, o.text, o.len, fail_out));
    must(file_append(path, o.text, o.len - 3, fail_out));
    json_out_free(&o);
    must(lab_samples_read(path, &s, fail_out));
    assert_int_equal(lab_samples_count(s), 1);
    assert_true(lab_samples_torn(s));
    assert_int_equal(lab_samples_at(s, 0)->active, LAB_ACTIVE_YES);
    lab_samples_free(s);
    must(file_remove(path, fail_out));
    must(file_remove(dir, fail_out));
}

static void from_memory(void **state) {
    (void)state;
    lab_sample items[3] = {{.arm = "a", .metric = "m", .value = 1},
                           {.arm = "b", .metric = "m", .value = NAN},
                           {.arm = "a", .metric = "m", .value = 3}};
    lab_samples *s = NULL;
    must(lab_samples_new(items, 3, &s, fail_out));
    expect(s, 0, 1, 1);
    expect(s, 1, 1, 2);
    expect(s, 2, 2, 3);
    assert_int_equal(lab_samples_line(s, 2), 0);
    lab_samples_free(s);
    cadre_fail why = {0};
    items[1].arm = NULL;
    assert_int_equal(lab_samples_new(items, 3, &s, &why), CADRE_RANGE);
    items[1].arm = "b";
    items[1].value = INFINITY;
    assert_int_equal(lab_samples_new(items, 3, &s, &why), CADRE_RANGE);
}

static void out_of_memory(void **state) {
    (void)state;
    for (int n = 0;; n++) {
        lab_samples *s = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = lab_samples_parse("s", full, strlen(full), &s, &why);
        mem_fail_after(-1);
        if (!err) {
            assert_true(n > 4);
            lab_samples_free(s);
            break;
        }
        assert_int_equal(err, CADRE_NOMEM);
        assert_null(s);
    }
    json_out o = {0};
    lab_samples *s = parse(full);
    mem_fail_after(0);
    lab_sample_write(lab_samples_at(s, 0), &o);
    mem_fail_after(-1);
    assert_true(o.failed);
    json_out_free(&o);
    lab_samples_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),         cmocka_unit_test(written_as_read),
        cmocka_unit_test(little_is_told), cmocka_unit_test(other_kinds),
        cmocka_unit_test(torn),           cmocka_unit_test(visits),
        cmocka_unit_test(refusals),       cmocka_unit_test(files),
        cmocka_unit_test(from_memory),    cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
