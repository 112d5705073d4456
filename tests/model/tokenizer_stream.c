/* The streaming decoder: whole characters only, whatever the tokens; one text however it is cut; no allocation. */
#include "tokenizer_make.h"

#define SPECIAL(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true,\"normalized\":false}"
#define BAD               "\xEF\xBF\xBD"

static tokenizer_stream *stream(const tokenizer *t, bool skip) {
    tokenizer_stream *s = NULL;
    must(tokenizer_stream_new(t, skip, &s, fail_out));
    return s;
}

static void push(tokenizer_stream *s, int32_t id, const char *want) {
    size_t len = 99;
    const char *got = tokenizer_stream_push(s, id, &len);
    assert_string_equal(got, want);
    assert_int_equal(len, strlen(want));
}

static void end(tokenizer_stream *s, const char *want) {
    assert_string_equal(tokenizer_stream_end(s, NULL), want);
}

/* W03: characters split over tokens. */
static void split_characters(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.vocab = ",\"\xC3\xB0\xC5\x81\":256,\"\xC4\xBA\xC4\xA2\":257"}); /* F0 9F, 98 80 */
    tokenizer_stream *s = stream(t, false);
    push(s, 256, "");
    push(s, 257, "\xF0\x9F\x98\x80");
    push(s, 0xE4, "");
    push(s, 0xBD, "");
    push(s, 0xA0, "\xE4\xBD\xA0");
    push(s, 'x', "x");
    push(s, 0xFF, BAD); /* can't begin anything: replaced at once, nothing stalls */
    push(s, 0xE4, "");
    push(s, 'y', BAD "y");
    push(s, 0xF0, "");
    push(s, 0x9F, "");
    push(s, 0x98, "");
    push(s, 0xE4, BAD); /* three bytes that might have been one character: one sign */
    end(s, BAD);
    end(s, "");
    push(s, 0xC3, "");
    tokenizer_stream_reset(s);
    push(s, 'z', "z"); /* reset forgets what was held */
    end(s, "");
    tokenizer_stream_free(s);
    tokenizer_stream_free(NULL);
    tokenizer_close(t);
}

static void specials(void **state) {
    (void)state;
    const char *added =
        SPECIAL(300, "<s>") ",{\"id\":301,\"content\":\"<think>\",\"special\":false,\"normalized\":false}";
    tokenizer *t = make(&(recipe){.added = added});
    tokenizer_stream *all = stream(t, false), *some = stream(t, true);
    push(all, 300, "<s>");
    push(some, 300, "");
    push(some, 301, "<think>"); /* not special: stays */
    push(some, 0xC3, "");
    push(some, 300, ""); /* nothing comes between the bytes of a character */
    push(some, 0xA9, "\xC3\xA9");
    const int32_t nobody[] = {-1, 256, 299, 302, 100000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++) push(all, nobody[i], "");
    tokenizer_stream_free(all);
    tokenizer_stream_free(some);
    tokenizer_close(t);
}

/* Tokens as Llama and Mixtral write them: 0 <unk>, 1 "▁a", 2 "b▁c", 3 "▁", 16 + n the byte n. */
static const char *llama_vocab(void) {
    static char text[8192];
    int n = sprintf(text, "\"<unk>\":0,\"\xE2\x96\x81"
                          "a\":1,\"b\xE2\x96\x81"
                          "c\":2,\"\xE2\x96\x81\":3");
    for (int i = 0; i < 256; i++) n += sprintf(text + n, ",\"<0x%02X>\":%d", i, 16 + i);
    return text;
}
#define LLAMA_DECODER                                                                                       \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"}," \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"                                   \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"

static void fallback_bytes(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.vocab = llama_vocab(), .plain = true, .pre = "null", .decoder = LLAMA_DECODER});
    tokenizer_stream *s = stream(t, false);
    push(s, 1, "a");
    push(s, 1, " a");
    push(s, 2, "b c");
    push(s, 16 + 0xE4, "");
    push(s, 16 + 0xBD, "");
    push(s, 16 + 0xA0, "\xE4\xBD\xA0");
    push(s, 16 + 'x', "x");
    push(s, 16 + 0xE4, "");
    push(s, 16 + 0xBD, "");
    push(s, 2, BAD BAD "b c"); /* one for each byte */
    push(s, 16 + 0x80, BAD);
    push(s, 16 + 0xF0, "");
    push(s, 16 + 0x9F, "");
    push(s, 16 + 'y', BAD BAD "y");
    push(s, 16 + 0xF0, "");
    push(s, 16 + 0xC3, BAD);
    push(s, 16 + 0xA9, "\xC3\xA9");
    push(s, 16 + 0xE4, "");
    end(s, BAD);
    tokenizer_stream_free(s);
    tokenizer_close(t);
}

static void strip_once(void **state) {
    (void)state;
    const char *added = SPECIAL(5, "<s>");
    tokenizer *t =
        make(&(recipe){.vocab = llama_vocab(), .plain = true, .pre = "null", .decoder = LLAMA_DECODER, .added = added});
    tokenizer_stream *s = stream(t, true);
    push(s, 5, "");
    push(s, 3, ""); /* the one space to strip */
    push(s, 1, " a");
    tokenizer_stream_reset(s);
    push(s, 16 + ' ', ""); /* a space from a byte is one too */
    push(s, 3, " ");
    tokenizer_stream_reset(s);
    push(s, 16 + 'x', "x");
    push(s, 1, " a");
    tokenizer_stream_free(s);
    tokenizer_close(t);
}

static void metaspace(void **state) {
    (void)state;
    recipe r = {.vocab = llama_vocab(), .plain = true, .pre = "null"};
    r.decoder = "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"first\",\"split\":true}";
    tokenizer *t = make(&r);
    tokenizer_stream *s = stream(t, false);
    push(s, -5, "");
    push(s, 2, "bc"); /* in the first token its character gives nothing, wherever it is */
    push(s, 2, "b c");
    push(s, 16, "<0x00>"); /* no ByteFallback: text */
    tokenizer_stream_free(s);
    tokenizer_close(t);
    r.decoder = "null";
    t = make(&r);
    s = stream(t, false);
    push(s, 1,
         "\xE2\x96\x81"
         "a");
    push(s, 9, "");
    push(s, 3, " \xE2\x96\x81"); /* joined by spaces */
    tokenizer_stream_free(s);
    tokenizer_close(t);
}

static void token_rules(void **state) {
    (void)state;
    recipe r = {.vocab = "\"##a#\":0,\"xxb\":1,\"#\":2", .plain = true, .pre = "null"};
    r.decoder = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Strip\",\"content\":\"#\",\"start\":2,\"stop\":1},"
                "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"--\"},{\"type\":\"Fuse\"}]}";
    tokenizer *t = make(&r);
    tokenizer_stream *s = stream(t, false);
    push(s, 0, "a");
    push(s, 1, "--b");
    push(s, 2, "");
    tokenizer_stream_free(s);
    tokenizer_close(t);
}

/* Any bytes, cut anywhere: the stream's text is the repaired text, and every push gives whole characters. */
static void any_cut(void **state) {
    (void)state;
    static const unsigned char some[] = {'a',  0xC3, 0xA9, 0xE4, 0xBD, 0xA0, 0xF0,
                                         0x9F, 0x98, 0x80, 0xED, 0xFF, 0x00, 0xF4};
    tokenizer *t = make(&(recipe){0});
    rand_stream r = {11, 0};
    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        int32_t ids[64];
        size_t n = rand_below(&r, 64), want_len, got_len;
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (char)some[rand_below(&r, sizeof some)];
            ids[i] = (unsigned char)bytes[i];
        }
        char *want = utf8_repair(bytes, n, &want_len), *got = decode(t, false, ids, n, &got_len);
        assert_int_equal(got_len, want_len);
        assert_memory_equal(got, want, want_len);
        mem_free(want);
        free(got);
    }
    tokenizer_close(t);
}

/* Law L2, and room for the longest token with every byte replaced. */
static void allocates_nothing(void **state) {
    (void)state;
    char vocab[1024] = ",\"";
    for (int i = 0; i < 100; i++) strcat(vocab, "\xC3\xBF"); /* FF, 100 times */
    strcat(vocab, "\":256");
    tokenizer *t = make(&(recipe){.vocab = vocab});
    tokenizer_stream *s = stream(t, false);
    uint64_t before = mem_count();
    for (int i = 0; i < 1000; i++) {
        size_t len;
        tokenizer_stream_push(s, 0xE4, &len);
        tokenizer_stream_push(s, 256, &len);
        assert_int_equal(len, 303);
        tokenizer_stream_end(s, &len);
        tokenizer_stream_reset(s);
    }
    assert_int_equal(mem_count(), before);
    tokenizer_stream_free(s);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_characters), cmocka_unit_test(specials),          cmocka_unit_test(fallback_bytes),
        cmocka_unit_test(strip_once),       cmocka_unit_test(metaspace),         cmocka_unit_test(token_rules),
        cmocka_unit_test(any_cut),          cmocka_unit_test(allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
