/* find: paths into JSON, JSON in the middle of other text, patterns and their limits. */
#include "lab/find.h"
#include "test.h"

#include <math.h>

static cadre_fail why;

static const char text[] =
    "{\"a\": {\"b\": [1, 2.5, null]}, \"odd key\": true, \"rows\": [{\"m\": 1, \"us\": 10, \"k\": "
    "\"x\"}, {\"m\": 8, \"us\": 30, \"s\": [4, 5]}], \"tokens\": 7}";

static json_doc *doc_of(const char *t) {
    json_doc *doc;
    must(json_parse("t", t, strlen(t), &doc, fail_out));
    return doc;
}

typedef struct sum {
    double v;
    int n;
} sum;
static void add(void *ctx, const json *v) {
    sum *s = ctx;
    s->v = s->v * 100 + lab_number(v);
    s->n++;
}

static void leads(const json *root, const char *path, int n, double v) {
    sum s = {0};
    assert_int_equal(lab_path_each(root, path, add, &s), n);
    assert_int_equal(s.n, n);
    if (!(s.v == v || (isnan(v) && isnan(s.v)))) fail_msg("%s: %g, expected %g", path ? path : "NULL", s.v, v);
}

static void paths(void **state) {
    (void)state;
    json_doc *doc = doc_of(text);
    const json *root = json_root(doc);
    leads(root, ".a.b[1]", 1, 2.5);
    leads(root, ".a.b[]", 3, NAN);
    leads(root, ".rows[].us", 2, 1030);
    leads(root, ".rows[m=8].us", 1, 30);
    leads(root, ".rows[k=x].us", 1, 10);
    leads(root, ".rows[m=8].s[]", 2, 405);
    leads(root, ".rows[m=2].us", 0, 0);
    leads(root, ".[\"odd key\"]", 1, 1);
    leads(root, "[\"odd key\"]", 1, 1);
    leads(root, ".none.us", 0, 0);
    leads(root, ".tokens.us", 0, 0);
    leads(root, ".rows[9].us", 0, 0);
    leads(NULL, ".a", 0, 0);
    leads(root, NULL, 0, 0);
    assert_ptr_equal(lab_path_first(root, "."), root);
    assert_true(isnan(lab_number(lab_path_first(root, ".a.b[2]"))));
    json_free(doc);
    doc = doc_of("[{\"n\": 0, \"v\": [1, 2]}, {\"n\": 128, \"v\": [3]}]");
    leads(json_root(doc), "[n=128].v[]", 1, 3);
    leads(json_root(doc), "[].v[0]", 2, 103);
    leads(json_root(doc), ".[0].n", 1, 0);
    json_free(doc);
}

static void wrong_paths(void **state) {
    (void)state;
    static const char *const wrong[] = {"",       "a",       ".",      "..a",      ".a.",
                                        ".a[",    ".a[x]",   ".a[-1]", ".a[=1]",   ".a[k=]",
                                        ".[\"a]", ".a[1.5]", ".a[+1]", ".a b[0]x", NULL};
    for (int i = 0; wrong[i]; i++) {
        bool root = !strcmp(wrong[i], "."), blank = !strcmp(wrong[i], ".a b[0]x");
        if (root)
            assert_null(lab_path_wrong(wrong[i]));
        else if (!lab_path_wrong(wrong[i]) && !blank)
            fail_msg("'%s' passes", wrong[i]);
    }
    assert_string_equal(lab_path_wrong("a.b"), "a step begins with . or [");
    assert_string_equal(lab_path_wrong(".a[0"), "] is missing");
}

static void around(void **state) {
    (void)state;
    json_doc *doc = doc_of(text);
    const json *v = lab_path_first(json_root(doc), ".rows[m=8].s[1]");
    assert_int_equal(lab_around(v, "m")->integer, 8); /* its row's, through the array */
    assert_int_equal(lab_around(v, "tokens")->integer, 7);
    assert_null(lab_around(v, "none"));
    json_free(doc);
}

static void embedded(void **state) {
    (void)state;
    json_doc *doc;
    static const char *const good[] = {"{\"a\": 5}",
                                       "loading ...\nready {not json}\n{\"a\": 5}\ndone\n",
                                       "log\n{\n \"a\": 5\n}\n",
                                       "\n\n{\"a\": 5}\n",
                                       "warning: [x]\n{\"a\": 5}",
                                       NULL};
    for (int i = 0; good[i]; i++) {
        must(lab_json_in("stdout", good[i], strlen(good[i]), &doc, fail_out));
        assert_int_equal(json_get(json_root(doc), "a")->integer, 5);
        json_free(doc);
    }
    const char *lines = "{\"a\": 1}\n\n{\"a\": 2}\r\n{\"a\": 3}"; /* one object a line */
    must(lab_json_in("stdout", lines, strlen(lines), &doc, fail_out));
    leads(json_root(doc), "[].a", 3, 10203);
    json_free(doc);
    const char *none[] = {"", "tpot 5 ms\n", "{\"a\": 5", "[x\ny]"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(lab_json_in("stdout", none[i], strlen(none[i]), &doc, &why), CADRE_FORMAT);
}

static void hit_is(lab_pattern *p, const char *t, size_t *at, const char *want) {
    const char *hit;
    size_t n;
    bool found;
    must(lab_pattern_next(p, t, strlen(t), at, &hit, &n, &found, fail_out));
    assert_int_equal(found, want != NULL);
    if (want && (strlen(want) != n || memcmp(want, hit, n))) fail_msg("'%.*s', expected '%s'", (int)n, hit, want);
}

static void patterns(void **state) {
    (void)state;
    lab_pattern *p;
    char what[200];
    size_t at = 0;
    const char *t = "step 1: 3.5 ms\nstep 2: 4.25 ms\n";
    assert_int_equal(lab_pattern_new("^step \\d+: ([0-9.]+) ms$", &p, what), CADRE_OK);
    hit_is(p, t, &at, "3.5");
    hit_is(p, t, &at, "4.25");
    hit_is(p, t, &at, NULL);
    lab_pattern_free(p);
    assert_int_equal(lab_pattern_new("x*", &p, what), CADRE_OK); /* empty matches end */
    at = 0;
    for (int i = 0; i < 3; i++) hit_is(p, "ab", &at, "");
    hit_is(p, "ab", &at, NULL);
    lab_pattern_free(p);
    assert_int_equal(lab_pattern_new("(a)?b", &p, what), CADRE_OK); /* a group that took no part: the whole match */
    at = 0;
    hit_is(p, "b", &at, "b");
    lab_pattern_free(p);
    assert_int_equal(lab_pattern_new("(", &p, what), CADRE_FORMAT);
    assert_non_null(strstr(what, "does not compile: "));
    assert_int_equal(lab_pattern_new("\\C", &p, what), CADRE_FORMAT);
    bool found;
    must(lab_pattern_in("us+er", "source=user", 11, &found, fail_out));
    assert_true(found);
}

/* A pattern that would take years is an error within seconds. */
static void limits(void **state) {
    (void)state;
    char t[60];
    bool found;
    memset(t, 'a', sizeof t);
    memcpy(t + sizeof t - 2, "!c", 2);
    uint64_t begin = clock_ns();
    assert_int_equal(lab_pattern_in("^(a+)+c", t, sizeof t, &found, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "can't cope"));
    assert_true((double)(clock_ns() - begin) / 1e9 < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),    cmocka_unit_test(wrong_paths), cmocka_unit_test(around),
        cmocka_unit_test(embedded), cmocka_unit_test(patterns),    cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
