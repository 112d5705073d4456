/* Fuzz target: tokenizer.json. What is accepted must encode, decode to whole characters, and hold to its own limits. */
#include "folder.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "Hello, it's 12345 <s>\n\n  caf\xC3\xA9 e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80\xFF aaaa \xE2\x96\x81x";

static void check_decode(const tokenizer *t, const int32_t *ids, size_t n) {
    tokenizer_stream *s = NULL;
    size_t len;
    MUST(!tokenizer_stream_new(t, n % 2, &s, NULL));
    uint64_t before = mem_count();
    for (size_t i = 0; i <= n; i++) {
        const char *p = i < n ? tokenizer_stream_push(s, ids[i], &len) : tokenizer_stream_end(s, &len);
        MUST(p && p[len] == 0);
        MUST(utf8_valid(p, len));
    }
    MUST(mem_count() == before);
    tokenizer_stream_free(s);
}

static void check(const tokenizer *t) {
    enum { CAP = 4096 };
    static int32_t ids[CAP];
    cadre_fail why = {0};
    size_t n = 0, again = 0;
    MUST(tokenizer_size(t) >= 0 && tokenizer_size(t) <= 1 << 22);
    cadre_err err = tokenizer_encode(t, text, sizeof text - 1, true, true, ids, CAP, &n, &why);
    MUST(!err == !*why.text);
    if (err && err != CADRE_RANGE) {
        MUST(err == CADRE_FORMAT || err == CADRE_UNSUPPORTED);
        MUST(n == 0);
        return;
    }
    size_t kept = n < CAP ? n : CAP;
    for (size_t i = 0; i < kept; i++) MUST(tokenizer_knows(t, ids[i]));
    tokenizer_encode(t, text, sizeof text - 1, true, true, NULL, 0, &again, NULL);
    MUST(again == n);
    check_decode(t, ids, kept);
    for (int32_t i = 0; i < 300; i++) ids[i] = i * 7 - 3;
    check_decode(t, ids, 300);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tokenizer *t = NULL;
    cadre_fail why = {0};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t first = end ? (size_t)(end - data) : size;
    folder_make();
    folder_write("tokenizer.json", data, first);
    folder_write("tokenizer_config.json", end ? (const char *)end + 1 : "{}", end ? size - first - 1 : 2);
    cadre_err err = tokenizer_open(folder, &t, &why);
    if (err)
        MUST(!t && why.code == err && *why.text);
    else
        check(t);
    tokenizer_close(t);
    return 0;
}

#include "replay.h"
