/* Fuzz target: texts. Byte 0 picks a tokenizer of tests/golden/tokenizers, byte 1 the flags; the rest is the text. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(c) must((c) != 0, #c)
static void must(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "this must hold: %s\n", what);
    abort();
}

/* exact: every byte of the (repaired) text comes back. */
typedef struct subject {
    const char *name;
    bool exact;
    tokenizer *t;
} subject;
static subject subjects[] = {
    {"gpt2", true, NULL},
    {"llama3", true, NULL},
    {"deepseek_v2", true, NULL},
    {"deepseek_v3", true, NULL},
    {"o200k", true, NULL},
    {"tekken", true, NULL},
    {"qwen", false, NULL},
    {"mixtral", false, NULL},
    {"metaspace_first", false, NULL},
    {"added_flags", false, NULL},
    {"lowercase_strip", false, NULL},
    {"superbpe_words", true, NULL},
    {"bytes_missing", false, NULL},
    {"split_removed_invert", false, NULL},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static const subject *subject_at(unsigned i) {
    subject *s = &subjects[i % SUBJECTS];
    char path[256];
    cadre_fail why = {0};
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s/tokenizer.json", s->name);
    if (!s->t && tokenizer_open_file(path, &s->t, &why)) {
        fprintf(stderr, "%s\n", why.text);
        abort();
    }
    return s;
}

/* Decodes; with `want`, compares. */
static void check_decode(const subject *s, const int32_t *ids, size_t n, const char *want, size_t want_len) {
    tokenizer_stream *stream = NULL;
    size_t done = 0, len;
    MUST(!tokenizer_stream_new(s->t, false, &stream, NULL));
    for (size_t i = 0; i <= n; i++) {
        const char *p = i < n ? tokenizer_stream_push(stream, ids[i], &len) : tokenizer_stream_end(stream, &len);
        MUST(utf8_valid(p, len));
        if (want) MUST(done + len <= want_len && !memcmp(want + done, p, len));
        done += len;
    }
    MUST(!want || done == want_len);
    tokenizer_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const subject *s = subject_at(data[0]);
    const char *text = (const char *)data + 2;
    size_t len = size - 2, n = 0, again = 0, repaired_len;
    bool special = data[1] & 1, add = data[1] & 2;
    int32_t *ids = malloc((4 * len + 16) * sizeof *ids);
    cadre_fail why = {0};
    cadre_err err = tokenizer_encode(s->t, text, len, special, add, ids, 4 * len + 16, &n, &why);
    MUST(err == CADRE_OK || err == CADRE_UNSUPPORTED); /* a pattern may give up */
    if (!err) {
        for (size_t i = 0; i < n; i++) MUST(tokenizer_knows(s->t, ids[i]));
        MUST((tokenizer_encode(s->t, text, len, special, add, NULL, 0, &again, NULL) == CADRE_RANGE) == (n > 0));
        MUST(again == n);
        char *repaired = utf8_repair(text, len, &repaired_len);
        check_decode(s, ids, n, s->exact && !add ? repaired : NULL, repaired_len);
        mem_free(repaired);
    }
    free(ids);
    return 0;
}

#include "replay.h"
