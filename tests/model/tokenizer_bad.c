/* Hostile tokenizer files: each is refused with one clear line that says where, or has a meaning that is written here.
 */
#include "tokenizer_make.h"

/* Opening must fail with this code and a line that has this in it. */
static void refuse_text(const char *text, size_t len, const char *config, cadre_err code, const char *message) {
    tokenizer *t = (tokenizer *)1;
    cadre_fail why = {0};
    cadre_err err = open_json(text, len, config, &t, &why);
    if (err != code || !strstr(why.text, message))
        print_error("%.200s...\n%d: %s\nwant %s\n", text, err, why.text, message);
    assert_int_equal(err, code);
    assert_int_equal(why.code, code);
    assert_non_null(strstr(why.text, message));
    assert_null(strchr(why.text, '\n'));
    assert_ptr_equal(t, (tokenizer *)1);
    assert_int_equal(open_json(text, len, config, &t, NULL), code);
}

static void refuse(const recipe *r, cadre_err code, const char *message) {
    size_t len;
    char *text = recipe_text(r, &len);
    refuse_text(text, len, NULL, code, message);
    free(text);
}
#define bad(code, message, ...) refuse(&(recipe){__VA_ARGS__}, CADRE_##code, message)

static void bad_json(const char *text, cadre_err code, const char *message) {
    refuse_text(text, strlen(text), NULL, code, message);
}

static void whole_file(void **state) {
    (void)state;
    bad_json("", CADRE_FORMAT, "tokenizer.json:1:1: ");
    bad_json("{}", CADRE_FORMAT, "tokenizer.json:1:1: the root needs an object model");
    bad_json("[]", CADRE_FORMAT, "the root is no object");
    bad_json("{\"model\":null}", CADRE_FORMAT, "tokenizer.json:1:10: .model needs an object model");
    bad_json("{\"version\":\"2.0\"}", CADRE_UNSUPPORTED, ".version is not \"1.0\"");
    bad_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", CADRE_UNSUPPORTED,
             ".model.type is \"Unigram\", only BPE is supported");
    bad_json("{\"model\":{\"type\":7}}", CADRE_FORMAT, ".model.type is no text");
    bad_json("{\"model\":{\"vocab\":{}}}", CADRE_FORMAT, ".model needs an array merges");
    bad_json("{\"model\":{\"merges\":[]}}", CADRE_FORMAT, ".model needs an object vocab");
    bad_json("{\"model\":{\"vocab\":{\"\\ud800\":0},\"merges\":[]}}", CADRE_FORMAT, "surrogate");
}

static void missing_files(void **state) {
    (void)state;
    char dir[] = "/tmp/cadre-tokenizer-XXXXXX", path[64];
    tokenizer *t = NULL;
    cadre_fail why = {0};
    assert_non_null(mkdtemp(dir));
    assert_int_equal(tokenizer_open(dir, &t, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "tokenizer.json"));
    write_text(dir, "tokenizer.model", "x", 1);
    assert_int_equal(tokenizer_open(dir, &t, &why), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "SentencePiece"));
    snprintf(path, sizeof path, "%s/tokenizer.model", dir);
    unlink(path);
    rmdir(dir);
    char *longest = malloc(10000);
    memset(longest, 'a', 9999), longest[9999] = 0;
    assert_int_equal(tokenizer_open(longest, &t, &why), CADRE_IO);
    free(longest);
}

static void ids(void **state) {
    (void)state;
    bad(FORMAT, ".model.vocab.xy is no id, expected a whole number in 0..4194303", .vocab = ",\"xy\":-1");
    bad(FORMAT, "is no id", .vocab = ",\"xy\":4194304");
    bad(FORMAT, "is no id", .vocab = ",\"xy\":2147483648");
    bad(FORMAT, "is no id", .vocab = ",\"xy\":1e40");
    bad(FORMAT, "is no id", .vocab = ",\"xy\":1.5");
    bad(FORMAT, "is no id", .vocab = ",\"xy\":\"7\"");
    bad(FORMAT, ".model.vocab.xy is id 97, which another token has", .vocab = ",\"xy\":97");
    bad(FORMAT, "was given before", .vocab = ",\"a\":300"); /* a key twice */
    tokenizer *t =
        make(&(recipe){.vocab = ",\"xy\":4194303,\"\":9000,\"\\u0000\":301"}); /* gaps; "" and NUL are keys */
    assert_int_equal(tokenizer_size(t), 4194304);
    assert_int_equal(tokenizer_id(t, "xy", 2), 4194303);
    assert_int_equal(tokenizer_id(t, "", 0), 9000);
    assert_int_equal(tokenizer_id(t, "\0", 1), 301);
    expect(t, "x\0", 'x', 0);
    tokenizer_close(t);
}

static void merges(void **state) {
    (void)state;
    bad(FORMAT, ".model.merges[0] merges \"zz\", which is not in the vocabulary", .merges = "\"a zz\"");
    bad(FORMAT, ".model.merges[1] makes \"ac\", which is not in the vocabulary", .vocab = ",\"ab\":256",
        .merges = "\"a b\",\"a c\"");
    bad(FORMAT, "expected two parts with one space between", .merges = "\"ab\"");
    bad(FORMAT, "expected two parts with one space between", .merges = "\"a b c\"");
    bad(FORMAT, "merges \"\", which", .merges = "\" ab\"");
    bad(FORMAT, "expected two texts", .merges = "[\"a\"]");
    bad(FORMAT, "expected two texts", .merges = "[\"a\",\"b\",\"c\"]");
    bad(FORMAT, "expected two texts", .merges = "[\"a\",1]");
    bad(FORMAT, "is no merge", .merges = "7");
    bad(FORMAT, ".model.merges[1] is spelled otherwise than the first", .vocab = ",\"ab\":256",
        .merges = "\"a b\",[\"a\",\"b\"]");
}

static void model_members(void **state) {
    (void)state;
    bad(UNSUPPORTED, ".model.dropout is not 0", .model = ",\"dropout\":0.1");
    bad(UNSUPPORTED, ".model.continuing_subword_prefix is set", .model = ",\"continuing_subword_prefix\":\"##\"");
    bad(UNSUPPORTED, ".model.end_of_word_suffix is set", .model = ",\"end_of_word_suffix\":\"</w>\"");
    bad(FORMAT, ".model.unk_token is no text", .model = ",\"unk_token\":1");
    bad(FORMAT, ".model.fuse_unk", .model = ",\"fuse_unk\":\"yes\"");
    tokenizer_close(
        make(&(recipe){.model = ",\"dropout\":null,\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":null,"
                                "\"unk_token\":null,\"fuse_unk\":null"}));
}

#define TOKEN(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true}"

static void added_tokens(void **state) {
    (void)state;
    bad(FORMAT, "gives \"<s>\" id 97, which another token has", .added = TOKEN(97, "<s>"));
    bad(FORMAT, ".added_tokens[1] gives \"<t>\" id 300, which another token has",
        .added = TOKEN(300, "<s>") "," TOKEN(300, "<t>"));
    bad(FORMAT, "has \"<s>\" twice, as 300 and as 301", .added = TOKEN(300, "<s>") "," TOKEN(301, "<s>"));
    bad(FORMAT, "gives \"a\" id 300, the vocabulary gives it 97", .added = TOKEN(300, "a"));
    bad(FORMAT, "gives id 97 a second time", .added = TOKEN(97, "a") "," TOKEN(97, "a"));
    bad(FORMAT, ".added_tokens[0] is no added token: it has no text content", .added = "7");
    bad(FORMAT, "it has no id", .added = "{\"content\":\"x\"}");
    bad(FORMAT, ".id", .added = TOKEN(-1, "x"));
    bad(FORMAT, ".id", .added = TOKEN(4194304, "x"));
    char longest[1100] = "{\"id\":300,\"content\":\"";
    memset(longest + strlen(longest), 'x', 1025);
    strcat(longest, "\"}");
    bad(UNSUPPORTED, "is longer than 1024 bytes", .added = longest);
    tokenizer *t = make(&(recipe){.added = TOKEN(300, "")}); /* empty: ignored, as in the reference */
    assert_int_equal(tokenizer_size(t), 256);
    expect(t, "ab", 'a', 'b');
    tokenizer_close(t);
}

static void both_strips(void **state) {
    (void)state;
    const char *space = "{\"id\":300,\"content\":\" \",\"lstrip\":true,\"rstrip\":true,\"normalized\":false}";
    tokenizer *t = make(&(recipe){.added = space});
    expect(t, "a   b", 'a', 300, 300, 300, 'b');
    tokenizer_close(t);
}

static void config_file(void **state) {
    (void)state;
    size_t len;
    char *text = recipe_text(&(recipe){0}, &len);
    refuse_text(text, len, "{", CADRE_FORMAT, "tokenizer_config.json:1:2: ");
    refuse_text(text, len, "{\"added_tokens_decoder\":[]}", CADRE_FORMAT, ".added_tokens_decoder is no object");
    refuse_text(text, len, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", CADRE_FORMAT, "is no id");
    refuse_text(text, len, "{\"added_tokens_decoder\":{\"99999999\":{\"content\":\"y\"}}}", CADRE_FORMAT, "is no id");
    refuse_text(text, len, "{\"added_tokens_decoder\":{\"300\":7}}", CADRE_FORMAT, "is no added token");
    refuse_text(text, len, "{\"added_tokens_decoder\":{\"300\":{\"content\":\"y!\"},\"301\":{\"content\":\"y!\"}}}",
                CADRE_FORMAT, "has \"y!\" twice");
    free(text);
}

/* ---- steps ---- */

static void unknown_steps(void **state) {
    (void)state;
    bad(UNSUPPORTED, ".normalizer is the normalizer \"Precompiled\"", .normalizer = "{\"type\":\"Precompiled\"}");
    bad(UNSUPPORTED, ".normalizer.normalizers[1] is the normalizer \"Nmt\"",
        .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Nmt\"}]}");
    bad(UNSUPPORTED, ".pre_tokenizer is the pre-tokenizer \"BertPreTokenizer\"",
        .pre = "{\"type\":\"BertPreTokenizer\"}");
    bad(UNSUPPORTED, ".post_processor is the post-processor \"RobertaProcessing\"",
        .post = "{\"type\":\"RobertaProcessing\"}");
    bad(UNSUPPORTED, ".decoder is the decoder \"CTC\"", .decoder = "{\"type\":\"CTC\"}");
    bad(FORMAT, ".pre_tokenizer has no type", .pre = "{}");
    bad(FORMAT, ".pre_tokenizer is no object", .pre = "[]");
    bad(FORMAT, ".pre_tokenizer.type is no text", .pre = "{\"type\":null}");
    bad(FORMAT, ".pre_tokenizer has no array pretokenizers", .pre = "{\"type\":\"Sequence\"}");
}

#define REPLACE(pattern) "{\"type\":\"Replace\",\"pattern\":" pattern ",\"content\":\"x\"}"

static void bad_members(void **state) {
    (void)state;
    bad(FORMAT, ".normalizer.pattern.String is an empty text to look for", .normalizer = REPLACE("{\"String\":\"\"}"));
    bad(FORMAT, ".normalizer.pattern is no pattern", .normalizer = REPLACE("{\"Glob\":\"x\"}"));
    bad(FORMAT, "has no text content", .normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"}}");
    bad(FORMAT, "has no text prepend", .normalizer = "{\"type\":\"Prepend\"}");
    bad(FORMAT, "needs a behavior",
        .pre = "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":\"Split\"}");
    bad(FORMAT, "has no pattern", .pre = "{\"type\":\"Split\",\"behavior\":\"Removed\"}");
    bad(FORMAT, "needs one character as replacement", .pre = "{\"type\":\"Metaspace\",\"replacement\":\"__\"}");
    bad(FORMAT, "expected always, first or never",
        .pre = "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"x\"}");
    bad(FORMAT, "add_prefix_space false",
        .pre =
            "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false,\"prepend_scheme\":\"always\"}");
    bad(UNSUPPORTED, "is a second ByteLevel",
        .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[" BYTE_LEVEL "," BYTE_LEVEL "]}");
    bad(UNSUPPORTED, "is Metaspace after ByteLevel",
        .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[" BYTE_LEVEL
               ",{\"type\":\"Metaspace\",\"replacement\":\"_\"}]}");
}

#define DECODERS(steps) "{\"type\":\"Sequence\",\"decoders\":[" steps "]}"

static void bad_decoders(void **state) {
    (void)state;
    bad(UNSUPPORTED, "is a Replace after Fuse",
        .decoder = DECODERS("{\"type\":\"Fuse\"}," REPLACE("{\"String\":\"y\"}")));
    bad(UNSUPPORTED, "strips the end of the text",
        .decoder = DECODERS("{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}"));
    bad(UNSUPPORTED, "comes after a decoder",
        .decoder = DECODERS("{\"type\":\"ByteFallback\"},{\"type\":\"ByteLevel\"}"));
    bad(UNSUPPORTED, "comes after a decoder",
        .decoder = DECODERS("{\"type\":\"ByteFallback\"}," REPLACE("{\"String\":\"y\"}")));
    bad(UNSUPPORTED, "comes after a decoder", .decoder = DECODERS("{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}"));
    bad(FORMAT, "needs one character as content", .decoder = "{\"type\":\"Strip\",\"content\":\"\"}");
    bad(FORMAT, ".start", .decoder = "{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}");
}

static void bad_templates(void **state) {
    (void)state;
    static const char head[] =
        "{\"type\":\"TemplateProcessing\",\"special_tokens\":{\"s\":{\"ids\":[999]}},\"single\":";
    static const struct {
        const char *single;
        cadre_err code;
        const char *message;
    } cases[] = {
        {"7", CADRE_FORMAT, "has no array single"},
        {"[]", CADRE_FORMAT, "has no Sequence A"},
        {"[7]", CADRE_FORMAT, "is neither a SpecialToken nor a Sequence"},
        {"[{\"Sequence\":{\"id\":\"B\"}}]", CADRE_UNSUPPORTED, "is no single Sequence A"},
        {"[{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}]", CADRE_UNSUPPORTED, "is no single Sequence A"},
        {"[{\"SpecialToken\":{\"id\":\"t\"}},{\"Sequence\":{\"id\":\"A\"}}]", CADRE_FORMAT,
         "is not among special_tokens"},
        {"[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}]", CADRE_FORMAT,
         "ids[0] is not the id of a token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char post[512];
        snprintf(post, sizeof post, "%s%s}", head, cases[i].single);
        refuse(&(recipe){.post = post}, cases[i].code, cases[i].message);
    }
}

/* Chains that nest or go on: the reader stops at 64 levels, a chain at 32 steps. */
static void endless_chains(void **state) {
    (void)state;
    size_t len;
    char *text = NULL;
    FILE *f = open_memstream(&text, &len);
    for (int i = 0; i < 10000; i++) fputs("{\"type\":\"Sequence\",\"pretokenizers\":[", f);
    for (int i = 0; i < 10000; i++) fputs("]}", f);
    fclose(f);
    bad(FORMAT, "nested deeper than", .pre = text);
    free(text);
    f = open_memstream(&text, &len);
    fputs("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}", f);
    for (int i = 0; i < 32; i++) fputs(",{\"type\":\"NFC\"}", f);
    fputs("]}", f);
    fclose(f);
    bad(UNSUPPORTED, ".normalizer.normalizers[32] is step 33, at most 32 are supported", .normalizer = text);
    free(text);
}

/* 100k added tokens, many a prefix of another: loads and matches quickly. */
static void many_added(void **state) {
    (void)state;
    size_t len;
    char *text = NULL;
    FILE *f = open_memstream(&text, &len);
    for (int i = 0; i < 100000; i++)
        fprintf(f, "%s{\"id\":%d,\"content\":\"<%d\",\"special\":true,\"normalized\":false}", i ? "," : "", 300 + i, i);
    fclose(f);
    uint64_t start = clock_ns();
    tokenizer *t = make(&(recipe){.added = text});
    free(text);
    expect(t, "<1<12<123<12345<123456", 301, 312, 423, 12645, 12645, '6');
    char *input = malloc(1 << 20);
    for (int i = 0; i < 1 << 20; i++) input[i] = "<1234"[i % 5];
    int32_t *ids = malloc(sizeof *ids << 20);
    size_t n = 0;
    must(tokenizer_encode(t, input, 1 << 20, true, false, ids, 1 << 20, &n, fail_out));
    assert_int_equal(n, (1 << 20) / 5 + 1);
    assert_int_equal(ids[7], 300 + 1234);
    assert_true(clock_ns() - start < 20000000000u);
    free(input);
    free(ids);
    tokenizer_close(t);
}

/* The n-th allocation fails, for every n: an error and nothing left behind (the leak checker sees to that). */
static void failing_memory(void **state) {
    (void)state;
    recipe r = {.added = TOKEN(300, "<s>") ",{\"id\":301,\"content\":\"Caf\xC3\xA9\",\"normalized\":true}",
                .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"},"
                              "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"q+\"},\"content\":\"k\"}]}",
                .pre =
                    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+\"},"
                    "\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]}",
                .post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{"
                        "\"id\":\"A\"}}],"
                        "\"special_tokens\":{\"s\":{\"ids\":[300]}}}",
                .vocab = ",\"ab\":256",
                .merges = "\"a b\""};
    size_t len;
    char *text = recipe_text(&r, &len), dir[] = "/tmp/cadre-tokenizer-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    write_text(dir, "tokenizer.json", text, len);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    static const char input[] =
        "ab <s>CAFE\xCC\x81 qq abababababababababababababababababababababababababababababababab e\xCC\x81\xCC\xA3 \xFF";
    int opened = 0, encoded = 0;
    for (int n = 0; n < 2000 && !encoded; n++) {
        tokenizer *t = NULL;
        tokenizer_stream *s = NULL;
        int32_t ids[128];
        size_t count = 0;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = tokenizer_open_file(path, &t, &why);
        if (!err) opened++, err = tokenizer_encode(t, input, sizeof input - 1, true, true, ids, 128, &count, &why);
        if (!err) encoded++, err = tokenizer_stream_new(t, true, &s, &why);
        mem_fail_after(-1);
        if (err) assert_int_equal(err, CADRE_NOMEM);
        if (err) assert_non_null(strstr(why.text, "out of memory"));
        tokenizer_stream_free(s);
        tokenizer_close(t);
    }
    assert_true(opened > 5);
    assert_int_equal(encoded, 1);
    unlink(path);
    rmdir(dir);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),     cmocka_unit_test(missing_files), cmocka_unit_test(ids),
        cmocka_unit_test(merges),         cmocka_unit_test(model_members), cmocka_unit_test(added_tokens),
        cmocka_unit_test(both_strips),    cmocka_unit_test(config_file),   cmocka_unit_test(unknown_steps),
        cmocka_unit_test(bad_members),    cmocka_unit_test(bad_decoders),  cmocka_unit_test(bad_templates),
        cmocka_unit_test(endless_chains), cmocka_unit_test(many_added),    cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
