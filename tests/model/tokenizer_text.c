/* Hostile texts: large, odd, normalized against utf8proc, and encoded by threads side by side. */
#include "model/tokenizer_parts.h"
#include "tokenizer_make.h"

#include <pthread.h>
#include <utf8proc.h>

enum { MILLION = 1 << 20 };

static const char qwen_split[] =
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]}";

/* aa, aaaa, ..., 64 a; and the same of spaces and dots. */
static tokenizer *doubling(const char *pre, const char *normalizer) {
    char vocab[4096] = "", merges[4096] = "";
    const char *unit[] = {"a", "\\u0120", "."};
    int id = 256;
    for (int u = 0; u < 3; u++)
        for (int n = 1; n <= 32; n *= 2) {
            char grown[400] = "";
            for (int i = 0; i < n; i++) strcat(grown, unit[u]);
            sprintf(vocab + strlen(vocab), ",\"%s%s\":%d", grown, grown, id++);
            sprintf(merges + strlen(merges), "%s\"%s %s\"", *merges ? "," : "", grown, grown);
        }
    return make(&(recipe){.pre = pre, .normalizer = normalizer, .vocab = vocab, .merges = merges});
}

typedef struct result {
    int32_t *ids;
    size_t n;
    double seconds;
} result;

static result encode(const tokenizer *t, const char *text, size_t len) {
    result r = {.ids = malloc((len * 4 + 16) * sizeof *r.ids)};
    uint64_t start = clock_ns();
    must(tokenizer_encode(t, text, len, true, false, r.ids, len * 4 + 16, &r.n, fail_out));
    r.seconds = (double)(clock_ns() - start) * 1e-9;
    return r;
}

/* n copies of unit: how many ids, how long, and the text comes back. */
static void flood(const tokenizer *t, const char *what, const char *unit, size_t unit_len, size_t n, size_t want) {
    size_t len = unit_len * n, got_len;
    char *text = malloc(len);
    for (size_t i = 0; i < n; i++) memcpy(text + i * unit_len, unit, unit_len);
    result r = encode(t, text, len);
    char *got = decode(t, false, r.ids, r.n, &got_len);
    print_message("%-28s %8zu bytes %8zu ids %.3f s\n", what, len, r.n, r.seconds);
    if (want) assert_int_equal(r.n, want);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, text, len);
    assert_true(r.seconds < 10); /* far from quadratic; a machine may be busy */
    free(got);
    free(text);
    free(r.ids);
}

static void floods(void **state) {
    (void)state;
    tokenizer *t = doubling(qwen_split, "{\"type\":\"NFC\"}");
    flood(t, "letters without a space", "a", 1, MILLION, MILLION / 64);
    flood(t, "spaces", " ", 1, MILLION, MILLION / 64);
    flood(t, "newlines", "\n", 1, MILLION, MILLION);
    flood(t, "dots", ".", 1, MILLION, MILLION / 64);
    flood(t, "spaces and newlines", " \n", 2, MILLION / 2, 0);
    flood(t, "NUL", "\0", 1, MILLION, MILLION);
    flood(t, "emoji joined", "\xF0\x9F\x91\xA8\xE2\x80\x8D", 7, MILLION / 7, 0);
    flood(t, "U+FDFA", "\xEF\xB7\xBA", 3, MILLION / 3, 0);
    flood(t, "ideographs", "\xE4\xBD\xA0", 3, MILLION / 3, 0);
    flood(t, "precomposed letters", "\xE1\xBB\x87", 3, MILLION / 3, 0);
    tokenizer_close(t);
    t = doubling("null", NULL); /* one piece of all */
    flood(t, "one piece", "a", 1, MILLION, MILLION / 64);
    tokenizer_close(t);
    t = doubling("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+$\"},"
                 "\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]}",
                 NULL);
    flood(t, "spaces before a letter", "                               a", 32, MILLION / 32, 0);
    tokenizer_close(t);
}

/* ---- NFC ---- */

static void check_nfc(const char *text, size_t len) {
    tok_text got = {NULL, 0, 0};
    utf8proc_uint8_t *want = NULL;
    utf8proc_ssize_t n =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &want, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert_true(n >= 0);
    assert_true(tok_nfc(&got, text, len));
    assert_int_equal(got.len, n);
    if (n) assert_memory_equal(got.p, want, (size_t)n);
    mem_free(got.p);
    free(want);
}

/* Characters that take part in composition, with plain ones among them. */
static uint32_t some_char(rand_stream *r) {
    static const uint32_t range[][2] = {
        {'a', 'z'},       {0x300, 0x36F},     {0x591, 0x5BD},     {0x915, 0x94D},     {0x9BC, 0x9D7},
        {0xB3E, 0xB57},   {0x1100, 0x1115},   {0x1160, 0x1178},   {0x11A5, 0x11C5},   {0x1E00, 0x1FFF},
        {0x212A, 0x212B}, {0x2ADC, 0x2ADC},   {0x3041, 0x309A},   {0xAC00, 0xAC40},   {0xF900, 0xFAD9},
        {0xFB1D, 0xFB4E}, {0x1D15E, 0x1D165}, {0x11099, 0x110BA}, {0x114B0, 0x114BE}, {0xC0, 0x233},
        {0x340, 0x345},   {0x1D1BB, 0x1D1C0}, {0x4E00, 0x4E10},   {0x1B05, 0x1B43},
    };
    size_t i = rand_below(r, sizeof range / sizeof *range);
    return range[i][0] + rand_below(r, range[i][1] - range[i][0] + 1);
}

static void composed(void **state) {
    (void)state;
    rand_stream r = {3, 0};
    for (uint32_t cp = 0; cp < 0x110000; cp++) { /* every character, alone and between letters */
        char text[8] = "a";
        int n = utf8_encode(cp, text + 1);
        text[n + 1] = 'z';
        check_nfc(text + 1, (size_t)n);
        check_nfc(text, (size_t)n + 2);
    }
    for (int round = 0; round < 200000; round++) {
        char text[256];
        size_t len = 0;
        for (uint32_t n = rand_below(&r, 1 + (round % 40)); n; n--)
            len += (size_t)utf8_encode(some_char(&r), text + len);
        check_nfc(text, len);
    }
}

static void mark_floods(void **state) {
    (void)state;
    tokenizer *t = make(&(recipe){.normalizer = "{\"type\":\"NFC\"}"});
    size_t n = 100000, len = 1;
    char *text = malloc(2 * n + 8);
    text[0] = 'e';
    for (size_t i = 0; i < n; i++, len += 2) memcpy(text + len, i % 3 ? "\xCC\x81" : "\xCC\xA3", 2);
    result r = encode(t, text, len);
    print_message("%zu marks %.3f s\n", n, r.seconds);
    assert_true(r.seconds < 5);
    /* U+1EB9 (e with a dot below), then the other dots below, then every acute. */
    assert_int_equal(r.n, 3 + 2 * (n - 1));
    assert_int_equal(r.ids[0], 0xE1);
    assert_int_equal(r.ids[4], 0xA3);
    assert_int_equal(r.ids[r.n - 1], 0x81);
    free(r.ids);
    len = 0;
    for (; len + 6 < 2 * n; len += 6) memcpy(text + len, "\xE1\x84\x80\xE1\x85\xA1", 6);
    r = encode(t, text, len); /* jamo to syllables: half as many characters */
    assert_true(r.seconds < 5);
    assert_int_equal(r.n, len / 2);
    free(r.ids);
    free(text);
    tokenizer_close(t);
}

/* ---- scanning for added tokens ---- */

static void token_floods(void **state) {
    (void)state;
    const char *added = "{\"id\":300,\"content\":\" \",\"rstrip\":true,\"normalized\":false},"
                        "{\"id\":301,\"content\":\"<s>\",\"lstrip\":true,\"single_word\":true,\"normalized\":false}";
    tokenizer *t = make(&(recipe){.added = added});
    char *text = malloc(MILLION);
    memset(text, ' ', MILLION);
    result r = encode(t, text, MILLION); /* every space is a token whose rstrip reaches the end */
    assert_int_equal(r.n, MILLION);
    assert_true(r.seconds < 10);
    free(r.ids);
    for (size_t i = 0; i < MILLION; i++) text[i] = "<s>x"[i % 4]; /* none is a single word */
    r = encode(t, text, MILLION);
    assert_int_equal(r.n, MILLION);
    assert_true(r.seconds < 10);
    free(r.ids);
    free(text);
    tokenizer_close(t);
}

/* ---- threads ---- */

typedef struct job {
    const tokenizer *t;
    uint32_t hash[200];
} job;

/* Encodes 200 texts that depend on their number alone. */
static void *encode_many(void *ctx) {
    job *j = ctx;
    for (uint32_t i = 0; i < 200; i++) {
        char text[600];
        int32_t ids[2400];
        rand_stream r = {i, 0};
        size_t len = 0, n = 0;
        for (int k = 0; k < 100; k++) len += (size_t)utf8_encode(rand_below(&r, 3) ? 'a' : some_char(&r), text + len);
        if (tokenizer_encode(j->t, text, len, true, false, ids, 2400, &n, NULL)) return "failed";
        for (size_t k = 0; k < n; k++) j->hash[i] = j->hash[i] * 31 + (uint32_t)ids[k];
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    static job one, job_of[4];
    pthread_t thread[4];
    tokenizer *t = doubling(qwen_split, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 4; i++) {
        job_of[i].t = t;
        assert_int_equal(pthread_create(&thread[i], NULL, encode_many, &job_of[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    one.t = t;
    assert_null(encode_many(&one));
    for (int i = 0; i < 4; i++) assert_memory_equal(job_of[i].hash, one.hash, sizeof one.hash);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floods),       cmocka_unit_test(composed), cmocka_unit_test(mark_floods),
        cmocka_unit_test(token_floods), cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
