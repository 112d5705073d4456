/* tokenizer: what each part means, on files small enough to work out by hand. Byte b is token b throughout. */
#include "tokenizer_make.h"

#define SPECIAL(id, text)     "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true,\"normalized\":false}"
#define ADDED(id, text, more) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":false" more "}"

/* ---- merges ---- */

static const char ab_vocab[] = ",\"ab\":256,\"bc\":257,\"abc\":258,\"aa\":259,\"aaaa\":260,\"\\u0120a\":261,\"cc\":262";

static void merges_by_rank(void **state) {
    (void)state;
    /* bc comes before ab, so "abc" is a + bc, which has no merge. */
    tokenizer *t =
        make(&(recipe){.vocab = ab_vocab, .merges = "\"b c\",\"a b\",\"ab c\",\"a a\",\"aa aa\",\"\\u0120 a\""});
    expect(t, "abc", 'a', 257);
    expect(t, "abab", 256, 256);
    expect(t, "aaa", 259, 'a'); /* of equal ranks the leftmost */
    expect(t, "aaaa", 260);
    expect(t, "aaaaa", 260, 'a');
    expect(t, "aaaaaaa", 260, 259, 'a');
    expect(t, " a a", 261, 261);
    expect(t, "");
    expect(t, "\xC3\xA9", 0xC3, 0xA9);
    tokenizer_close(t);
}

static void merges_as_pairs(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.vocab = ab_vocab, .merges = "[\"a\",\"b\"],[\"ab\",\"c\"]"});
    expect(t, "abcab", 258, 256);
    tokenizer_close(t);
    t = make(&(recipe){.vocab = ab_vocab, .merges = "\"#version: 0.2\",\"b c\",\"a b\""}); /* no merge */
    expect(t, "abc", 'a', 257);
    tokenizer_close(t);
    t = make(&(recipe){.vocab = ab_vocab, .merges = "\"a b\",\"b c\",\"a b\""}); /* the later rank counts */
    expect(t, "abc", 'a', 257);
    tokenizer_close(t);
}

static void whole_pieces(void **state) {
    (void)state;
    const char *merges = "\"b c\",\"a b\"";
    tokenizer *t = make(&(recipe){.vocab = ab_vocab, .merges = merges, .model = ",\"ignore_merges\":true"});
    expect(t, "abc", 258);
    expect(t, "abcc", 'a', 257, 'c');
    tokenizer_close(t);
    t = make(&(recipe){.vocab = ab_vocab, .merges = merges});
    for (int i = 0; i < 3; i++) expect(t, "abc", 'a', 257); /* the same when it is known already */
    for (int i = 0; i < 3; i++) expect(t, "bc", 257);
    tokenizer_close(t);
}

/* Long pieces take another path; both must agree. */
static void long_pieces(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.vocab = ",\"aa\":256,\"bc\":257,\"abc\":258,\"aaabc\":259,\"cc\":260,\"ccaa\":261",
                                  .merges = "\"a a\",\"b c\",\"a bc\",\"aa abc\",\"c c\",\"cc aa\""});
    char text[400];
    int32_t one[400], all[400];
    rand_stream r = {7, 0};
    for (int round = 0; round < 300; round++) {
        size_t len = 1 + rand_below(&r, 48), n = 0, m = 0;
        for (size_t i = 0; i < len; i++) text[i] = (char)('a' + rand_below(&r, 3));
        must(tokenizer_encode(t, text, len, true, false, one, 400, &n, fail_out));
        /* x has no merges: what is before it is merged as if alone. */
        memset(text + len, 'x', 200);
        must(tokenizer_encode(t, text, len + 200, true, false, all, 400, &m, fail_out));
        assert_int_equal(m, n + 200);
        assert_memory_equal(one, all, n * sizeof *one);
    }
    tokenizer_close(t);
}

static void unknown_characters(void **state) {
    (void)state;
    const char *vocab = "\"<unk>\":0,\"a\":1,\"b\":2,\"<0xC3>\":3,\"<0xA9>\":4,\"\xC3\xB1\":5";
    recipe r = {.vocab = vocab, .plain = true, .pre = "null", .decoder = "null"};
    r.model = ",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true";
    tokenizer *t = make(&r);
    expect(t, "a\xC3\xA9z\xC3\xB1zzb", 1, 3, 4, 0, 5, 0, 2);
    tokenizer_close(t);
    r.model = ",\"unk_token\":\"<unk>\"";
    t = make(&r);
    expect(t, "azzb\xC3\xA9", 1, 0, 0, 2, 0);
    tokenizer_close(t);
    r.model = "";
    t = make(&r);
    expect(t, "azzb", 1, 2); /* dropped */
    tokenizer_close(t);
    r.model = ",\"unk_token\":\"nobody\"";
    t = make(&r);
    expect(t, "ab", 1, 2);
    int32_t ids[4];
    size_t n = 0;
    cadre_fail why = {0};
    assert_int_equal(tokenizer_encode(t, "az", 2, true, false, ids, 4, &n, &why), CADRE_FORMAT);
    assert_non_null(strstr(why.text, "unk_token"));
    assert_int_equal(n, 0);
    tokenizer_close(t);
}

/* ---- added tokens ---- */

static void longest_first(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.added = SPECIAL(300, "<a>") "," SPECIAL(301, "<a><b>") "," SPECIAL(302, "a><b>c")});
    expect(t, "<a>", 300);
    expect(t, "<a><b>c", 301, 'c'); /* leftmost, then longest */
    expect(t, "<a><b", 300, '<', 'b');
    expect(t, "xa><b>c", 'x', 302);
    expect(t, "<a", '<', 'a'); /* begun, not ended */
    expect_user(t, "<a><b>", '<', 'a', '>', '<', 'b', '>');
    tokenizer_close(t);
}

static void special_or_not(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.added = SPECIAL(300, "<s>") "," ADDED(301, "<t>", ",\"normalized\":false")});
    expect(t, "<s><t>", 300, 301);
    expect_user(t, "<s><t>", '<', 's', '>', 301); /* only special ones are off */
    tokenizer_close(t);
}

static void flags(void **state) {
    (void)state;
    const char *added = ADDED(300, "<l>", ",\"lstrip\":true,\"normalized\":false") "," ADDED(
        301, "<r>", ",\"rstrip\":true,\"normalized\":false") "," ADDED(302, "cat",
                                                                       ",\"single_word\":true,\"normalized\":false");
    tokenizer *t = make(&(recipe){.added = added});
    expect(t, "a \t<l> b", 'a', 300, ' ', 'b');
    expect(t, "a <r>\n\xE3\x80\x80z", 'a', ' ', 301, 'z');
    expect(t, " <r>  <l> ", ' ', 301, 300, ' ');
    expect(t, "cat-cat", 302, '-', 302);
    expect(t, "cats cat", 'c', 'a', 't', 's', ' ', 302);
    expect(t,
           "\xC3\xA9"
           "cat",
           0xC3, 0xA9, 'c', 'a', 't');
    expect(t, "cat_", 'c', 'a', 't', '_');
    tokenizer_close(t);
}

static void normalized_tokens(void **state) {
    (void)state;
    const char *added = ADDED(300, "Yes", ",\"normalized\":true") "," ADDED(301, "No", ",\"normalized\":false");
    tokenizer *t = make(&(recipe){.normalizer = "{\"type\":\"Lowercase\"}", .added = added});
    expect(t, "YES yes", 300, ' ', 300);
    expect(t, "No NO", 301, ' ', 'n', 'o');
    tokenizer_close(t);
}

/* L11: NFC changes the text between tokens, never a token that is not normalized. */
static void nfc_leaves_tokens(void **state) {
    (void)state;
    const char *added = ADDED(300, "e\\u0301", ",\"normalized\":false");
    tokenizer *t = make(&(recipe){.normalizer = "{\"type\":\"NFC\"}", .added = added});
    expect(t, "a\xCC\x81", 0xC3, 0xA1);
    expect(t, "\xC3\xA1", 0xC3, 0xA1);
    expect(t, "e\xCC\x81", 300);
    expect(t, "\xC3\xA9", 0xC3, 0xA9);
    expect(t, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", 0xED, 0x95, 0x9C); /* Hangul jamo to a syllable */
    tokenizer_close(t);
}

static void with_config(void **state) {
    (void)state;
    /* L09: the class a config names changes nothing; tokenizer.json is what counts. */
    const char *config = "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true,\"added_tokens_decoder\":{"
                         "\"300\":{\"content\":\"<other>\",\"special\":true},"                /* taken */
                         "\"305\":{\"content\":\"<s>\",\"special\":true},"                    /* known as 300 */
                         "\"97\":{\"content\":\"a\",\"special\":false,\"normalized\":false}," /* in the vocabulary */
                         "\"306\":{\"content\":\"<new>\",\"special\":true,\"normalized\":false}}}";
    tokenizer *t = NULL;
    must(open_recipe(&(recipe){.added = SPECIAL(300, "<s>"), .vocab = ",\"ab\":256", .merges = "\"a b\""}, config, &t,
                     fail_out));
    expect_added(t, "c d", 'c', ' ', 'd');
    expect(t, "<s><new>", 300, 306);
    expect(t, "abb", 'a', 'b', 'b'); /* a is cut out before merges */
    assert_int_equal(tokenizer_size(t), 307);
    assert_false(tokenizer_knows(t, 305));
    assert_int_equal(tokenizer_id(t, "<other>", 7), -1);
    tokenizer_close(t);
}

static void names(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.added = SPECIAL(400, "<s>"), .vocab = ",\"\\u0120x\":256,\"\xE2\x96\x81\":257"});
    assert_int_equal(tokenizer_id(t, "<s>", 3), 400);
    assert_int_equal(tokenizer_id(t, "\xC4\xA0x", 3), 256); /* as the file writes it */
    assert_int_equal(tokenizer_id(t, "\xE2\x96\x81", 3), 257);
    assert_int_equal(tokenizer_id(t, " x", 2), -1);
    assert_int_equal(tokenizer_id(t, "", 0), -1);
    assert_int_equal(tokenizer_size(t), 401);
    assert_true(tokenizer_knows(t, 0) && tokenizer_knows(t, 257) && tokenizer_knows(t, 400));
    assert_false(tokenizer_knows(t, 258) || tokenizer_knows(t, 401) || tokenizer_knows(t, -1));
    expect(t, "\xE2\x96\x81", 0xE2, 0x96, 0x81); /* a token outside the alphabet is never made */
    tokenizer_close(t);
}

/* ---- splits ---- */

#define SPLIT(pattern, behavior) \
    "{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior "\",\"invert\":false}"
#define CHAIN(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"

/* L10: a pattern stored as literal text is literal text, however odd. */
static void literal_pattern(void **state) {
    (void)state;
    recipe r = {.vocab = ",\"12\":256", .merges = "\"1 2\""};
    r.pre = CHAIN(SPLIT("{\"String\":\"\\\\d\"}", "Isolated") "," BYTE_LEVEL);
    tokenizer *t = make(&r);
    expect(t, "12", 256);
    expect(t, "1\\d2", '1', '\\', 'd', '2');
    tokenizer_close(t);
    r.pre = CHAIN(SPLIT("{\"Regex\":\"\\\\d\"}", "Isolated") "," BYTE_LEVEL);
    t = make(&r);
    expect(t, "12", '1', '2');
    tokenizer_close(t);
}

/* L10: ByteLevel need not be the last; later steps see its alphabet, as in the reference. */
static void steps_after_bytes(void **state) {
    (void)state;
    const char *bytes = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}";
    char pre[512];
    snprintf(pre, sizeof pre, "{\"type\":\"Sequence\",\"pretokenizers\":[%s,%s]}", bytes,
             SPLIT("{\"Regex\":\"[0-9][0-9][0-9]\"}", "Isolated"));
    recipe r = {
        .pre = pre, .vocab = ",\"34\":256,\"12\":257,\"\\u0120x\":258", .merges = "\"3 4\",\"1 2\",\"\\u0120 x\""};
    tokenizer *t = make(&r);
    expect(t, "1234 x", 257, '3', '4', 258);
    tokenizer_close(t);
    /* byte B2 of U+00F2 is the alphabet's U+00B2, which is a number. */
    snprintf(pre, sizeof pre, "{\"type\":\"Sequence\",\"pretokenizers\":[%s,%s]}", bytes,
             "{\"type\":\"Digits\",\"individual_digits\":true}");
    r.vocab = ",\"\xC3\x83\xC2\xB2\":256", r.merges = "\"\xC3\x83 \xC2\xB2\"";
    t = make(&r);
    expect(t, "\xC3\xB2", 0xC3, 0xB2);
    tokenizer_close(t);
}

static void prefix_space(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.pre = "{\"type\":\"ByteLevel\"}", .added = SPECIAL(300, "<s>")});
    expect(t, "a", ' ', 'a');
    expect(t, " a<s>b", ' ', 'a', 300, ' ', 'b'); /* every piece gets one */
    tokenizer_close(t);
}

/* ---- around the ids ---- */

static void template(void **state) {
    (void)state;
    const char *post =
        "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":\"TemplateProcessing\","
        "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
        "{\"SpecialToken\":{\"id\":\"end\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{"
        "\"<s>\":{\"id\":\"<s>\",\"ids\":[300],\"tokens\":[\"<s>\"]},"
        "\"end\":{\"id\":\"end\",\"ids\":[301,10],\"tokens\":[\"</s>\",\"x\"]}}}]}";
    tokenizer *t = make(&(recipe){.post = post, .added = SPECIAL(300, "<s>") "," SPECIAL(301, "</s>")});
    expect_added(t, "a", 300, 'a', 301, 10);
    expect_added(t, "", 300, 301, 10);
    expect(t, "a", 'a');
    tokenizer_close(t);
}

static void counts_all(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){0});
    int32_t ids[5] = {1, 2, -7, -7, -7};
    size_t n = 2;
    cadre_fail why = {0};
    must(tokenizer_encode(t, "ab", 2, true, false, ids, 5, &n, fail_out));
    assert_int_equal(n, 4); /* behind what is there */
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[3], 'b');
    assert_int_equal(tokenizer_encode(t, "cdef", 4, true, false, ids, 5, &n, &why), CADRE_RANGE);
    assert_int_equal(n, 8);
    assert_int_equal(ids[4], 'c');
    assert_string_equal(why.text, "the text has 8 tokens, there is room for 5");
    n = 0;
    assert_int_equal(tokenizer_encode(t, "abc", 3, true, false, NULL, 0, &n, NULL), CADRE_RANGE);
    assert_int_equal(n, 3);
    tokenizer_close(t);
    tokenizer_close(NULL);
}

static void bad_utf8(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.vocab = ",\"\xC3\xAF\xC2\xBF\xC2\xBD\":256", .merges = ""});
#define FFFD 0xEF, 0xBF, 0xBD
    expect(t, "a\xFFz", 'a', FFFD, 'z');
    expect(t, "\xC0\xAF", FFFD, FFFD);           /* overlong */
    expect(t, "\xED\xA0\x80", FFFD, FFFD, FFFD); /* a surrogate */
    expect(t, "\xF4\x90\x80\x80", FFFD, FFFD, FFFD, FFFD);
    expect(t, "\xE4\xBD", FFFD); /* cut off: one for the part */
    expect(t, "a\0b", 'a', 0, 'b');
    expect(t,
           "\xEF\xBB\xBF"
           "a",
           0xEF, 0xBB, 0xBF, 'a'); /* a byte order mark is a character */
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_rank),     cmocka_unit_test(merges_as_pairs),
        cmocka_unit_test(whole_pieces),       cmocka_unit_test(long_pieces),
        cmocka_unit_test(unknown_characters), cmocka_unit_test(longest_first),
        cmocka_unit_test(special_or_not),     cmocka_unit_test(flags),
        cmocka_unit_test(normalized_tokens),  cmocka_unit_test(nfc_leaves_tokens),
        cmocka_unit_test(with_config),        cmocka_unit_test(names),
        cmocka_unit_test(literal_pattern),    cmocka_unit_test(steps_after_bytes),
        cmocka_unit_test(prefix_space),       cmocka_unit_test(template),
        cmocka_unit_test(counts_all),         cmocka_unit_test(bad_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
