/* Patterns: what is rewritten for PCRE2 and what refused; how matches are found; limits on hostile ones. */
#include "model/tokenizer_onig.h"
#include "test.h"

static void *take(size_t n, void *ctx) {
    (void)ctx;
    return mem_new(n);
}
static void give(void *p, void *ctx) {
    (void)ctx;
    mem_free(p);
}

/* A document that messages can name. */
static json_doc *doc;
static pcre2_general_context *mem;

static int set_up(void **state) {
    (void)state;
    mem = pcre2_general_context_create(take, give, NULL);
    return json_parse("t", "\"p\"", 3, &doc, NULL) || !mem;
}
static int tear_down(void **state) {
    (void)state;
    json_free(doc);
    pcre2_general_context_free(mem);
    return 0;
}

static tok_pattern compile(const char *regex) {
    tok_pattern p = {0};
    must(tok_pattern_regex(mem, regex, strlen(regex), &p, doc, json_root(doc), fail_out));
    return p;
}

/* Matches as "start-end ...", as the reference's iteration gives them. */
static void matches_n(const char *regex, const char *text, size_t len, const char *want) {
    tok_pattern p = compile(regex);
    tok_finder f = {.pattern = &p, .text = text, .len = len};
    tok_matcher m;
    char got[512] = "";
    must(tok_matcher_init(&m, mem, len, fail_out));
    for (bool found = true; found;) {
        tok_piece at;
        must(tok_find_next(&m, &f, &at, &found, fail_out));
        if (found) sprintf(got + strlen(got), "%s%zu-%zu", *got ? " " : "", at.start, at.end);
    }
    if (strcmp(got, want)) print_error("%s in %s\n", regex, text);
    assert_string_equal(got, want);
    tok_matcher_done(&m);
    tok_pattern_done(&p);
}
#define matches(regex, text, want) matches_n(regex, text, sizeof(text) - 1, want)

/* Worked out with Oniguruma itself. */
static void iteration(void **state) {
    (void)state;
    matches("$", "a\n", "1-1 2-2");
    matches("$", "a\nb", "1-1 3-3");
    matches("$", "\n", "0-0 1-1");
    matches("^", "a\nb\n", "0-0 2-2");
    matches("b*", "abbc", "0-0 1-3 4-4");
    matches("", "abc", "0-0 1-1 2-2 3-3");
    matches("a|", "baab", "0-0 1-2 2-3 4-4");
    matches("(?=b)|b", "abc", "1-1");
    matches("x*", "\xC3\xA9x", "0-0 2-3");
    matches("\\s+$", "a \n b\n", "1-2 5-6");
    matches("\\s+$", "a  \n  \n  b  ", "1-6 10-12");
    matches("\\s+$", "  x \n", "3-5");
    matches("\\s+(?!\\S)|\\s+", "a   b ", "1-3 3-4 5-6");
}

static void sets_of_characters(void **state) {
    (void)state;
    matches("\\s", "\xC2\x85\xC2\xA0\xE3\x80\x80\xE1\xA0\x8E\xE2\x80\x8B\x1C\x0B", "0-2 2-4 4-7 14-15");
    matches("[^\\S]", "\xC2\x85\xE1\xA0\x8E ", "0-2 5-6");
    matches("\\S+", " \xE1\xA0\x8E\x01z\xC2\x85", "1-6");
    matches("[\\S]+", " \xE1\xA0\x8E\x01z\xC2\x85\xEE\x80\x80", "1-6 8-11");
    matches("\\w+", "a\xCC\x81_\xC2\xB2 \xE2\x82\x81 \xE2\x93\x90",
            "0-6 11-14"); /* marks; U+00B2, not U+2081; circled */
    matches("[^\\w]+", "a\xCC\x81-b", "3-4");
    matches("\\W+", "a\xCC\x81-b", "3-4");
    matches("\\b", "e\xCC\x81 x", "0-0 3-3 4-4 5-5");
    matches("x\\B", "xy x", "0-1");
    matches("\\v", "\n\x0B\x0C", "1-2");
    matches(".", "\r\n\xE2\x80\xA8", "0-1 2-5");
    matches("\\p{Han}", "\xE4\xB8\x80\xE3\x80\x81", "0-3"); /* the script, not its extensions */
    matches("(?i:'s|'ll)", "'S'\xC5\xBF'lL", "0-2 2-5 5-8");
    matches("\\u00e9|\\x{e8}|\\x41",
            "\xC3\xA9\xC3\xA8"
            "A",
            "0-2 2-4 4-5");
    matches("a{,2}", "aaa", "0-2 2-3");
    matches("a{x", "a{x", "0-3");
    matches("[a\\-z]+\\/", "-a/", "0-3");
    matches("(?<word>a)(b)", "ab", "0-2");
    matches("a++b?+|c*+", "aab", "0-3");
}

/* Unicode 15 to 16, whatever the PCRE2. */
static void newer_characters(void **state) {
    (void)state;
    matches("\\p{S}", "\xF0\x9F\xAB\xA8", "0-4");              /* U+1FAE8 */
    matches("[^\\s\\p{L}\\p{N}]", "\xF0\xB1\x8D\x90!", "4-5"); /* U+31350, a letter */
    matches("\\p{L}+", "a\xF0\xB1\x8D\x90z", "0-6");
    matches("\\P{L}", "a\xF0\xB1\x8D\x90-", "5-6");
    matches("\\p{^L}", "a\xF0\xB1\x8D\x90-", "5-6");
    matches("\\d", "\xF0\x9E\x93\xB0", "0-4"); /* U+1E4F0 */
}

static void refused(const char *regex, cadre_err code, const char *message) {
    tok_pattern p = {0};
    cadre_fail why = {0};
    cadre_err err = tok_pattern_regex(mem, regex, strlen(regex), &p, doc, json_root(doc), &why);
    if (err != code || !strstr(why.text, message)) print_error("%s: %d %s\n", regex, err, why.text);
    assert_int_equal(err, code);
    assert_non_null(strstr(why.text, message));
    tok_pattern_done(&p);
}

static void refusals(void **state) {
    (void)state;
    static const char *const other[][2] = {
        {"a\\Kb", "\\K at byte 1"},
        {"(?R)", "(?R at byte 0"},
        {"(?1)", "(?1"},
        {"(?&n)", "(?&"},
        {"(?C1)a", "(?C"},
        {"(*UTF)a", "(* at byte 0"},
        {"a(*SKIP)", "(*"},
        {"(?(1)a|b)", "(?("},
        {"(?m:.)", "(?m"},
        {"(?s).", "(?s"},
        {"a(?i)b", "(?i"},
        {"(?x: a)", "(?x"},
        {"(?#c)", "(?#"},
        {"(?|a)", "(?|"},
        {"(?P<n>a)", "(?P"},
        {"(?~a)", "(?~"},
        {"[a[bc]]", "a class in a"},
        {"[a&&b]", "an intersection"},
        {"[[:alpha:]]", "POSIX"},
        {"[]a]", "']' first"},
        {"[a", "without end"},
        {"a{2}+", "an interval that"},
        {"a{2}?", "an interval"},
        {"a\\", "a backslash"},
        {"\\h", "\\h"},
        {"\\R", "\\R"},
        {"\\X", "\\X"},
        {"\\G", "\\G"},
        {"(a)\\1", "\\1"},
        {"\\g<1>", "\\g"},
        {"\\k<n>", "\\k"},
        {"\\pL", "without braces"},
        {"\\xC3", "a byte above 7F"},
        {"\\xg", "a short"},
        {"[\\W]", "\\W"},
        {"\\Qa\\E", "\\Q"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) refused(other[i][0], CADRE_UNSUPPORTED, other[i][1]);
    static const char *const wrong[] = {
        "(a",          "a)",   "*a", "[z-a]", "(?<=a+)b", "\\p{Nonsense}", "x{3,2}", "a{99999}", "(?:a{65535}){65535}",
        "\\x{110000}", "\\p{L"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tok_pattern p = {0};
        cadre_fail why = {0};
        cadre_err err = tok_pattern_regex(mem, wrong[i], strlen(wrong[i]), &p, doc, json_root(doc), &why);
        if (err != CADRE_FORMAT && err != CADRE_UNSUPPORTED) print_error("%s: %d\n", wrong[i], err);
        assert_true(err == CADRE_FORMAT || err == CADRE_UNSUPPORTED);
        tok_pattern_done(&p);
    }
    char *longest = malloc(70000);
    memset(longest, 'a', 69999), longest[69999] = 0;
    refused(longest, CADRE_FORMAT, "is longer than 65536 bytes");
    free(longest);
}

/* Runs a pattern over n bytes of `fill` and `last`; the first error's line, or "". Long before the deadline of a real
 * search when `hurry`. */
static void run(const char *regex, size_t n, char fill, char last, bool hurry, char line[512]) {
    tok_pattern p = compile(regex);
    char *text = malloc(n);
    memset(text, fill, n);
    text[n - 1] = last;
    tok_finder f = {.pattern = &p, .text = text, .len = n};
    tok_matcher m;
    cadre_fail why = {0};
    must(tok_matcher_init(&m, mem, n, fail_out));
    if (hurry) m.deadline = clock_ns() + 100000000;
    cadre_err err = CADRE_OK;
    for (bool found = true; found && !err;) {
        tok_piece at;
        err = tok_find_next(&m, &f, &at, &found, &why);
    }
    if (err) assert_int_equal(err, CADRE_UNSUPPORTED);
    strcpy(line, why.text);
    tok_matcher_done(&m);
    tok_pattern_done(&p);
    free(text);
}

static void hostile(void **state) {
    (void)state;
    char line[512];
    uint64_t start = clock_ns();
    run("(a+)+$", 50000, 'a', '!', false, line); /* catastrophic: the step limit */
    assert_non_null(strstr(line, "can't cope with this text: match limit exceeded"));
    run("[ab]+[cd]", 1 << 20, 'a', 'a', true, line); /* quadratic, no step too many: the clock */
    assert_non_null(strstr(line, "it takes too long"));
    run("(?=(\\d{3})+(?!\\d))", 1 << 20, '1', '1', true, line); /* deep: memory or time */
    assert_non_null(strstr(line, "can't cope with this text"));
    run("\\s+$", 1 << 20, ' ', 'x', true, line); /* quadratic in a backtracking matcher, and in the wild */
    assert_string_equal(line, "");
    run("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", 1 << 20, ' ', 'x', false, line);
    assert_string_equal(line, "");
    run("\\p{L}+|\\s+", 1 << 20, 'a', ' ', false, line);
    assert_string_equal(line, "");
    assert_true(clock_ns() - start < 20000000000u);
}

/* Far matches are found through many windows, at the same places. */
static void windows(void **state) {
    (void)state;
    char text[4000];
    memset(text, '.', sizeof text);
    for (size_t i = 1; i + 1 < sizeof text; i += 2)
        text[i] = (char)0xC3, text[i + 1] = (char)0xA9; /* characters of two bytes */
    text[3500] = '.', text[3501] = 'x', text[3502] = '.';
    text[3499] = '.';
    matches_n("x", text, sizeof text, "3501-3502");
    matches_n("(?<=\\.)x", text, sizeof text, "3501-3502");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iteration),        cmocka_unit_test(sets_of_characters),
        cmocka_unit_test(newer_characters), cmocka_unit_test(refusals),
        cmocka_unit_test(hostile),          cmocka_unit_test(windows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
