/* json: the tree of good texts, the place and words of every refusal, hostile sizes, failing memory. */
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_doc *good(const char *text) {
    json_doc *doc = NULL;
    cadre_fail why = {0};
    cadre_err err = json_parse("t", text, strlen(text), &doc, &why);
    if (err) print_error("%s: %s\n", text, why.text);
    assert_int_equal(err, CADRE_OK);
    return doc;
}

static void bad_n(const char *text, size_t len, const char *message) {
    json_doc *doc = (json_doc *)1;
    cadre_fail why = {0};
    assert_int_equal(json_parse("t", text, len, &doc, &why), CADRE_FORMAT);
    assert_string_equal(why.text, message);
    assert_int_equal(why.code, CADRE_FORMAT);
    assert_ptr_equal(doc, (json_doc *)1);
}

static void bad(const char *text, const char *message) {
    bad_n(text, strlen(text), message);
}

static void tree(void **state) {
    (void)state;
    json_doc *doc = good(" {\"a\": [1, 2.5],\n  \"b\" : {}, \"c\":null,\"d\":true , \"e\":false}\n");
    const json *root = json_root(doc), *a = json_get(root, "a"), *b = json_get(root, "b");
    assert_int_equal(root->kind, JSON_OBJECT);
    assert_int_equal(root->count, 5);
    assert_null(root->parent);
    assert_int_equal(root->line, 1);
    assert_int_equal(root->column, 2);
    assert_int_equal(a->kind, JSON_ARRAY);
    assert_int_equal(a->count, 2);
    assert_ptr_equal(a->parent, root);
    assert_true(a->child->whole);
    assert_int_equal(a->child->integer, 1);
    assert_false(a->child->next->whole);
    assert_true(a->child->next->number == 2.5);
    assert_null(a->child->next->next);
    assert_ptr_equal(a->next, b);
    assert_int_equal(b->kind, JSON_OBJECT);
    assert_null(b->child);
    assert_int_equal(b->line, 2);
    assert_int_equal(b->column, 9);
    assert_int_equal(json_get(root, "c")->kind, JSON_NULL);
    assert_true(json_get(root, "d")->truth);
    assert_int_equal(json_get(root, "e")->kind, JSON_BOOL);
    assert_false(json_get(root, "e")->truth);
    assert_null(json_get(root, "f"));
    assert_null(json_get(a, "a"));
    assert_null(json_get(NULL, "a"));
    assert_string_equal(json_name(doc), "t");
    json_free(doc);
    doc = good("7");
    assert_int_equal(json_root(doc)->integer, 7);
    json_free(doc);
}

static double number(const char *text, bool whole) {
    json_doc *doc = good(text);
    const json *v = json_root(doc);
    double d = v->number;
    assert_int_equal(v->kind, JSON_NUMBER);
    assert_int_equal(v->whole, whole);
    if (whole) assert_true(v->integer == strtoll(text, NULL, 10));
    json_free(doc);
    return d;
}

static void numbers(void **state) {
    (void)state;
    assert_true(number("0", true) == 0);
    assert_true(signbit(number("-0", true)));
    assert_true(number("-17", true) == -17);
    assert_true(number("999999999999999999", true) == 999999999999999999.0);
    assert_true(number("9223372036854775807", true) == 0x1p63);
    assert_true(number("-9223372036854775808", true) == -0x1p63);
    assert_true(number("9223372036854775808", false) == 0x1p63);
    assert_true(number("-9223372036854775809", false) == -0x1p63);
    assert_true(number("123456789012345678901234567890", false) == 123456789012345678901234567890.0);
    assert_true(number("1e6", false) == 1e6);
    assert_true(number("1E+2", false) == 100);
    assert_true(number("0.1", false) == 0.1);
    assert_true(number("-1.5e-3", false) == -1.5e-3);
    assert_true(number("1e308", false) == 1e308);
    assert_true(number("1e-400", false) == 0);
    assert_true(number("2.2250738585072014e-308", false) == 0x1p-1022);
    assert_true(isnan(number("NaN", false)));
    assert_true(number("Infinity", false) == INFINITY);
    assert_true(number("-Infinity", false) == -INFINITY);
    bad("1e309", "t:1:1: number out of range");
    bad("[1,\n -1e99999]", "t:2:2: number out of range");
    bad("01", "t:1:1: a number does not start with 0");
    bad("-", "t:1:2: expected a digit, found the end");
    bad("-x", "t:1:2: expected a digit, found 'x'");
    bad("1.", "t:1:3: expected a digit, found the end");
    bad(".5", "t:1:1: expected a value, found '.'");
    bad("+1", "t:1:1: expected a value, found '+'");
    bad("1e", "t:1:3: expected a digit, found the end");
    bad("[1e+]", "t:1:5: expected a digit, found ']'");
    bad("0x10", "t:1:2: expected the end, found 'x'");
    bad("-NaN", "t:1:2: expected a digit, found 'N'");
    bad("-Inf", "t:1:1: expected a value, found '-'");
}

static void text_is(const char *source, const char *want, size_t len) {
    json_doc *doc = good(source);
    const json *v = json_root(doc);
    assert_int_equal(v->kind, JSON_TEXT);
    assert_int_equal(v->len, len);
    assert_memory_equal(v->text, want, len + 1);
    json_free(doc);
}

static void texts(void **state) {
    (void)state;
    text_is("\"\"", "", 0);
    text_is("\"abc\"", "abc", 3);
    text_is("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    text_is("\"a\\u0000b\"", "a\0b", 3);
    text_is("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00z\"", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z", 11);
    text_is("\"\xC3\xA9\\n\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"", "\xC3\xA9\n\xE2\x82\xAC\xF0\x9F\x98\x80\x7F", 11);
    text_is("\"\\uFFFF\"", "\xEF\xBF\xBF", 3);
    bad("\"abc", "t:1:5: expected '\"', found the end");
    bad("\"a\\", "t:1:3: unknown escape in a string");
    bad("\"a\\x\"", "t:1:3: unknown escape in a string");
    bad("\"\\u12g4\"", "t:1:2: expected four hex digits after \\u");
    bad("\"\\u12", "t:1:2: expected four hex digits after \\u");
    bad("\"\\ud83d\"", "t:1:2: lone surrogate in a string");
    bad("\"\\ud83d\\n\"", "t:1:2: lone surrogate in a string");
    bad("\"\\ud83d\\u0041\"", "t:1:2: lone surrogate in a string");
    bad("\"\\ud83d\\ud83d\"", "t:1:2: lone surrogate in a string");
    bad("\"\\ude00\"", "t:1:2: lone surrogate in a string");
    bad("\"a\nb\"", "t:1:3: expected an escaped control character, found U+000A");
    bad_n("\"a\0b\"", 5, "t:1:3: expected an escaped control character, found U+0000");
    bad("\"\xFF\"", "t:1:2: expected UTF-8, found byte 0xFF");
    bad("\"\xC0\x80\"", "t:1:2: expected UTF-8, found byte 0xC0");
    bad("\"ab\xED\xA0\x80\"", "t:1:4: expected UTF-8, found byte 0xED");
    bad("\"\xE2\x82\"", "t:1:2: expected UTF-8, found byte 0xE2");
    bad("\"\xF4\x90\x80\x80\"", "t:1:2: expected UTF-8, found byte 0xF4");
}

static void grammar(void **state) {
    (void)state;
    bad("", "t:1:1: expected a value, found the end");
    bad("  \n ", "t:2:2: expected a value, found the end");
    bad("\xEF\xBB\xBF{}", "t:1:1: expected JSON, found a UTF-8 byte order mark");
    bad("[1,]", "t:1:4: expected a value, found ']'");
    bad("[,1]", "t:1:2: expected a value, found ','");
    bad("[1 2]", "t:1:4: expected ',' or ']', found '2'");
    bad("[1", "t:1:3: expected ',' or ']', found the end");
    bad("[1}", "t:1:3: expected ',' or ']', found '}'");
    bad("{\"a\":1,}", "t:1:8: expected a key, found '}'");
    bad("{a:1}", "t:1:2: expected a key or '}', found 'a'");
    bad("{\"a\" 1}", "t:1:6: expected ':', found '1'");
    bad("{\"a\":}", "t:1:6: expected a value, found '}'");
    bad("{\"a\":1", "t:1:7: expected ',' or '}', found the end");
    bad("{\"a\":1]", "t:1:7: expected ',' or '}', found ']'");
    bad("{\n\"a\": 1,\r\n \"b\": x}", "t:3:7: expected a value, found 'x'");
    bad("[] []", "t:1:4: expected the end, found '['");
    bad("// no", "t:1:1: expected a value, found '/'");
    bad("tru", "t:1:1: expected a value, found 't'");
    bad("truex", "t:1:5: expected the end, found 'x'");
    bad("[nul]", "t:1:2: expected a value, found 'n'");
    bad("'a'", "t:1:1: expected a value, found '''");
    bad("\xC2\xA0", "t:1:1: expected a value, found U+00A0");
    bad_n("1\0", 2, "t:1:2: expected the end, found U+0000");
}

static void duplicates(void **state) {
    (void)state;
    bad("{\"a\":1,\n  \"b\":2, \"a\":3}", "t:2:10: key \"a\" was given before");
    bad("{\"\":1,\"\":1}", "t:1:7: key \"\" was given before");
    bad("{\"a\":1,\"\\u0061\":1}", "t:1:8: key \"a\" was given before");
    json_free(good("{\"a\":{\"a\":1},\"b\":{\"a\":1}}"));
    json_free(good("{\"a\":1,\"a\\u0000\":1}"));
    /* Far enough apart that the hash index has to find it. */
    for (int n = 15; n < 20; n++) {
        char text[2000] = "{", want[80];
        for (int i = 0; i < n; i++) sprintf(text + strlen(text), "\"k%02d\":%d,\n", i, i);
        sprintf(text + strlen(text), "\"k03\":0}");
        sprintf(want, "t:%d:1: key \"k03\" was given before", n + 1);
        bad(text, want);
    }
}

static void depth(void **state) {
    (void)state;
    enum { N = 100000 };
    char *text = malloc(2 * N + 1), want[64];
    memset(text, '[', N);
    bad_n(text, N, "t:1:65: nested deeper than 64");
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    json_doc *doc;
    assert_int_equal(json_parse("t", text, 128, &doc, NULL), CADRE_OK);
    const json *v = json_root(doc);
    int n = 1;
    for (; v->child; v = v->child) n++;
    assert_int_equal(n, 64);
    json_free(doc);
    for (int i = 0; i < N / 8; i++) memcpy(text + i * 5, "{\"a\":", 5);
    sprintf(want, "t:1:%d: nested deeper than 64", 64 * 5 + 1);
    bad_n(text, N / 8 * 5, want);
    free(text);
}

/* A big object is found by hash, a big array keeps its order. */
static void big(void **state) {
    (void)state;
    enum { KEYS = 150000, ITEMS = 300000 };
    json_out o = {0};
    json_open(&o, NULL, '{');
    json_open(&o, "vocab", '{');
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t%x", i * 7);
        json_put_int(&o, key, i);
    }
    json_close(&o, '}');
    json_open(&o, "merges", '[');
    for (int i = 0; i < ITEMS; i++) json_put_int(&o, NULL, i);
    json_close(&o, ']');
    json_close(&o, '}');
    assert_false(o.failed);
    json_doc *doc;
    assert_int_equal(json_parse("t", o.text, o.len, &doc, NULL), CADRE_OK);
    const json *vocab = json_get(json_root(doc), "vocab"), *merges = json_get(json_root(doc), "merges");
    assert_int_equal(vocab->count, KEYS);
    assert_int_equal(merges->count, ITEMS);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t%x", i * 7);
        assert_int_equal(json_get(vocab, key)->integer, i);
    }
    assert_null(json_get(vocab, "t1"));
    int n = 0;
    for (const json *v = merges->child; v; v = v->next) assert_int_equal(v->integer, n++);
    assert_int_equal(n, ITEMS);
    json_free(doc);
    json_out_free(&o);
}

static void fails(cadre_err err, const cadre_fail *why, const char *message) {
    assert_int_equal(err, CADRE_FORMAT);
    assert_string_equal(why->text, message);
}

static void members(void **state) {
    (void)state;
    json_doc *doc =
        good("{\"n\":64,\"t\":\"64\",\"r\":1e6,\"b\":true,\"z\":null,\n\"o\":{\"x y\":[0,[-1]]},\"l\":[1,2,3],"
             "\"nul\":\"a\\u0000\",\"nan\":NaN}");
    const json *root = json_root(doc);
    cadre_fail why;
    int64_t n;
    double d;
    bool b;
    const char *t;
    assert_int_equal(json_int(doc, root, "n", 5, 1, 100, &n, &why), 0);
    assert_int_equal(n, 64);
    assert_int_equal(json_int(doc, root, "z", 5, 1, 100, &n, &why), 0);
    assert_int_equal(n, 5);
    assert_int_equal(json_int(doc, root, "none", 6, 1, 100, &n, &why), 0);
    assert_int_equal(n, 6);
    assert_int_equal(json_int(doc, NULL, "none", 7, 1, 100, &n, &why), 0);
    assert_int_equal(n, 7);
    fails(json_int(doc, root, "n", 5, 1, 63, &n, &why), &why, "t:1:6: .n is 64, expected a whole number in 1..63");
    fails(json_int(doc, root, "t", 5, 1, 1048576, &n, &why), &why,
          "t:1:13: .t is \"64\" (text), expected a whole number in 1..1048576");
    fails(json_int(doc, root, "r", 5, 1, 9, &n, &why), &why, "t:1:22: .r is 1000000, expected a whole number in 1..9");
    fails(json_int(doc, root, "l", 5, 1, 9, &n, &why), &why,
          "t:2:26: .l is an array of 3, expected a whole number in 1..9");
    fails(json_int(doc, json_get(root, "n"), "x", 5, 1, 9, &n, &why), &why, "t:1:6: .n is 64, expected an object");
    assert_int_equal(n, 7);
    assert_int_equal(json_real(doc, root, "r", 5, 0, 1e9, &d, &why), 0);
    assert_true(d == 1e6);
    assert_int_equal(json_real(doc, root, "n", 5, 0, 1e9, &d, &why), 0);
    assert_true(d == 64);
    fails(json_real(doc, root, "nan", 5, 0, 1, &d, &why), &why, "t:2:56: .nan is nan, expected a number in 0..1");
    fails(json_real(doc, root, "b", 5, 0, 1, &d, &why), &why, "t:1:30: .b is true, expected a number in 0..1");
    assert_int_equal(json_flag(doc, root, "b", false, &b, &why), 0);
    assert_true(b);
    fails(json_flag(doc, root, "o", false, &b, &why), &why, "t:2:5: .o is an object of 1, expected true or false");
    assert_int_equal(json_text(doc, root, "t", "def", &t, &why), 0);
    assert_string_equal(t, "64");
    assert_int_equal(json_text(doc, root, "none", "def", &t, &why), 0);
    assert_string_equal(t, "def");
    fails(json_text(doc, root, "nul", "def", &t, &why), &why,
          "t:2:40: .nul is \"a\" (text), expected a text without U+0000");
    const json *deep = json_get(json_get(root, "o"), "x y")->child->next->child;
    fails(json_fail(doc, deep, &why, "is %d, which is wrong", -1), &why,
          "t:2:16: .o[\"x y\"][1][0] is -1, which is wrong");
    fails(json_fail(doc, root, &why, "is odd"), &why, "t:1:1: the root is odd");
    assert_int_equal(json_fail(doc, root, NULL, "is odd"), CADRE_FORMAT);
    assert_true(json_is(json_get(root, "t"), "64"));
    assert_false(json_is(json_get(root, "t"), "6"));
    assert_false(json_is(json_get(root, "nul"), "a"));
    assert_false(json_is(json_get(root, "n"), "64"));
    assert_false(json_is(NULL, "64"));
    json_free(doc);
}

static void writing(void **state) {
    (void)state;
    json_out o = {0};
    json_open(&o, NULL, '{');
    json_put_text(&o, "t", "q\" b\\ n\n z\x01 \x7F e\xC3\xA9 bad\xFF\xE2\x82");
    json_put_text(&o, "null", NULL);
    json_put_text_n(&o, "nul", "a\0b", 3);
    json_put_int(&o, "i", INT64_MIN);
    json_put_real(&o, "r", 0.1);
    json_open(&o, "l", '[');
    json_put_real(&o, NULL, -0.0);
    json_put_real(&o, NULL, NAN);
    json_put_real(&o, NULL, 1e300);
    json_put_real(&o, NULL, 1.0 / 3);
    json_open(&o, NULL, '[');
    json_close(&o, ']');
    json_open(&o, NULL, '{');
    json_close(&o, '}');
    json_close(&o, ']');
    json_put_bool(&o, "b\"", true);
    json_put_null(&o, "z");
    json_close(&o, '}');
    assert_false(o.failed);
    assert_string_equal(o.text,
                        "{\"t\":\"q\\\" b\\\\ n\\n z\\u0001 \x7F e\xC3\xA9 bad\xEF\xBF\xBD\xEF\xBF\xBD\",\"null\":null,"
                        "\"nul\":\"a\\u0000b\",\"i\":-9223372036854775808,\"r\":0.1,"
                        "\"l\":[-0,null,1e+300,0.3333333333333333,[],{}],\"b\\\"\":true,\"z\":null}");
    assert_int_equal(o.len, strlen(o.text));
    json_free(good(o.text));
    json_out_free(&o);
    assert_null(o.text);
}

/* Reals of every size come back as they were, in the fewest digits that do it. */
static void reals(void **state) {
    (void)state;
    rand_stream r = {1, 0};
    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t u;
            double d;
        } x = {(uint64_t)rand_u32(&r) << 32 | rand_u32(&r)};
        if (!isfinite(x.d)) continue;
        json_out o = {0};
        json_put_real(&o, NULL, x.d);
        assert_true(strtod(o.text, NULL) == x.d);
        char shorter[40];
        snprintf(shorter, sizeof shorter, "%.15g", x.d);
        if (strtod(shorter, NULL) == x.d) assert_string_equal(o.text, shorter);
        json_doc *doc;
        assert_int_equal(json_parse("t", o.text, o.len, &doc, NULL), 0);
        assert_true(json_root(doc)->number == x.d);
        json_free(doc);
        json_out_free(&o);
    }
}

/* Whichever allocation fails, the call says so and nothing leaks (the address sanitizer's build looks). */
static void memory(void **state) {
    (void)state;
    json_out o = {0};
    json_open(&o, NULL, '{');
    for (int i = 0; i < 200; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        json_put_int(&o, key, i);
    }
    json_close(&o, '}');
    int failures = 0;
    for (int64_t n = 0;; n++) {
        json_doc *doc = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = json_parse("t", o.text, o.len, &doc, &why);
        mem_fail_after(-1);
        if (!err) {
            json_free(doc);
            break;
        }
        failures++;
        assert_int_equal(err, CADRE_NOMEM);
        assert_string_equal(why.text, "t: out of memory");
        assert_null(doc);
    }
    assert_in_range(failures, 7, 30);
    mem_fail_after(0);
    json_out none = {0};
    json_put_int(&none, NULL, 1);
    mem_fail_after(-1);
    assert_true(none.failed);
    json_put_int(&none, NULL, 1);
    assert_null(none.text);
    json_out_free(&none);
    json_out_free(&o);
}

static void from_file(void **state) {
    (void)state;
    json_doc *doc = NULL;
    cadre_fail why;
    assert_int_equal(json_read_file("/no/such/file.json", 100, &doc, &why), CADRE_IO);
    assert_string_equal(why.text, "/no/such/file.json: cannot open: No such file or directory");
    char path[] = "/tmp/cadre-json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(file_write(path, "{\"a\": [true]}", 13, &why), 0);
    assert_int_equal(json_read_file(path, 100, &doc, &why), 0);
    assert_true(json_get(json_root(doc), "a")->child->truth);
    assert_string_equal(json_name(doc), path);
    json_free(doc);
    assert_int_equal(json_read_file(path, 12, &doc, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "larger than the limit of 12 bytes"));
    remove(path);
}

/* A file of zeros takes much more memory than its size: the number of values is limited. */
static void too_many_values(void **state) {
    (void)state;
    enum { VALUES = (1 << 22) + 10 };
    char *text = malloc(2 * (size_t)VALUES + 2);
    text[0] = '[';
    for (size_t i = 0; i < VALUES; i++) text[1 + 2 * i] = '0', text[2 + 2 * i] = ',';
    text[2 * (size_t)VALUES] = ']';
    json_doc *doc = NULL;
    cadre_fail why;
    assert_int_equal(json_parse("zeros", text, 2 * (size_t)VALUES + 1, &doc, &why), CADRE_FORMAT);
    assert_non_null(strstr(why.text, "more than 4194304 values"));
    assert_null(doc);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_values), cmocka_unit_test(tree),    cmocka_unit_test(numbers),
        cmocka_unit_test(texts),           cmocka_unit_test(grammar), cmocka_unit_test(duplicates),
        cmocka_unit_test(depth),           cmocka_unit_test(big),     cmocka_unit_test(members),
        cmocka_unit_test(writing),         cmocka_unit_test(reals),   cmocka_unit_test(memory),
        cmocka_unit_test(from_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
