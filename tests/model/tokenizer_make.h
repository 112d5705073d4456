/* tokenizer_make.h: small tokenizer files for tests: byte b is token b; the rest is the test's. */
#ifndef TESTS_MODEL_TOKENIZER_MAKE_H
#define TESTS_MODEL_TOKENIZER_MAKE_H
#include "model/model.h"
#include "test.h"

#include <unistd.h>

/* JSON texts; NULL: the default in brackets. */
typedef struct recipe {
    const char *normalizer, *pre, *post, *decoder; /* [null; pre and decoder: ByteLevel without regex and prefix] */
    const char *added;                             /* members of added_tokens [none] */
    const char *vocab;                             /* members of vocab behind the bytes, with a leading comma [none] */
    const char *merges;                            /* members of merges [none] */
    const char *model;                             /* members of model, with a leading comma [none] */
    bool plain;                                    /* no byte tokens: vocab is all there is, without leading comma */
} recipe;

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"

static const char *or_else(const char *text, const char *otherwise) {
    return text ? text : otherwise;
}

/* Where the alphabet of byte-level files puts a byte, worked out the slow way. */
static int alphabet_of(int byte) {
    int next = 256;
    for (int b = 0; b <= byte; b++) {
        bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
        if (b == byte && prints) return b;
        if (b == byte) return next;
        if (!prints) next++;
    }
    return -1;
}

static void put_bytes(FILE *f) {
    for (int b = 0; b < 256; b++) fprintf(f, "%s\"\\u%04x\":%d", b ? "," : "", alphabet_of(b), b);
}

/* Writes dir/name. */
static void write_text(const char *dir, const char *name, const char *text, size_t len) {
    char path[512];
    assert_true(file_join(path, sizeof path, dir, name));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static char *recipe_text(const recipe *r, size_t *len) {
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    fprintf(f, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[%s],",
            or_else(r->added, ""));
    fprintf(f, "\"normalizer\":%s,\"pre_tokenizer\":%s,", or_else(r->normalizer, "null"), or_else(r->pre, BYTE_LEVEL));
    fprintf(f, "\"post_processor\":%s,\"decoder\":%s,", or_else(r->post, "null"), or_else(r->decoder, BYTE_LEVEL));
    fprintf(f, "\"model\":{\"type\":\"BPE\"%s,\"vocab\":{", or_else(r->model, ""));
    if (!r->plain) put_bytes(f);
    fprintf(f, "%s},\"merges\":[%s]}}", or_else(r->vocab, ""), or_else(r->merges, ""));
    fclose(f);
    return text;
}

static __attribute__((unused)) cadre_err open_json(const char *text, size_t len, const char *config, tokenizer **out,
                                                   cadre_fail *why) {
    char dir[] = "/tmp/cadre-tokenizer-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    write_text(dir, "tokenizer.json", text, len);
    if (config) write_text(dir, "tokenizer_config.json", config, strlen(config));
    cadre_err err = tokenizer_open(dir, out, why);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    unlink(path);
    rmdir(dir);
    return err;
}

static __attribute__((unused)) cadre_err open_recipe(const recipe *r, const char *config, tokenizer **out,
                                                     cadre_fail *why) {
    size_t len;
    char *text = recipe_text(r, &len);
    cadre_err err = open_json(text, len, config, out, why);
    free(text);
    return err;
}

static __attribute__((unused)) tokenizer *make(const recipe *r) {
    tokenizer *t = NULL;
    must(open_recipe(r, NULL, &t, fail_out));
    return t;
}

/* Encodes and compares with a list of ids that -1 ends. */
static __attribute__((unused)) void expect_n(const tokenizer *t, const char *text, size_t len, bool special, bool add,
                                             const int32_t *want) {
    int32_t got[256];
    size_t n = 0, m = 0;
    must(tokenizer_encode(t, text, len, special, add, got, 256, &n, fail_out));
    while (want[m] >= 0) m++;
    bool same = n == m && !memcmp(got, want, n * sizeof *got);
    for (size_t i = 0; i < n && !same; i++) print_error("%d ", got[i]);
    if (!same) print_error("for \"%s\"\n", text);
    assert_true(same);
}
#define expect(t, text, ...) \
    expect_n(t, text, sizeof(text) - 1, true, false, (const int32_t[]){__VA_ARGS__ __VA_OPT__(, ) - 1})
#define expect_user(t, text, ...) \
    expect_n(t, text, sizeof(text) - 1, false, false, (const int32_t[]){__VA_ARGS__ __VA_OPT__(, ) - 1})
#define expect_added(t, text, ...) \
    expect_n(t, text, sizeof(text) - 1, true, true, (const int32_t[]){__VA_ARGS__ __VA_OPT__(, ) - 1})

/* All of the ids' text; the caller frees. */
static __attribute__((unused)) char *decode(const tokenizer *t, bool skip, const int32_t *ids, size_t n, size_t *len) {
    tokenizer_stream *s = NULL;
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    must(tokenizer_stream_new(t, skip, &s, fail_out));
    for (size_t i = 0; i <= n; i++) {
        size_t k;
        const char *p = i < n ? tokenizer_stream_push(s, ids[i], &k) : tokenizer_stream_end(s, &k);
        fwrite(p, 1, k, f);
    }
    fclose(f);
    tokenizer_stream_free(s);
    return text;
}
#endif
