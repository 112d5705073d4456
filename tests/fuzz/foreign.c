/* Fuzz target: the file name of a foreign table, and behind a NUL byte its text. What is accepted must print, come back
 * the same, and answer every M with the nearest key. */
#include "plan/foreign.h"

#include <limits.h>
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

static void check_name(const char *text) {
    foreign_name name, again;
    char printed[400];
    cadre_fail why = {0};
    if (foreign_name_parse(text, &name, &why)) {
        MUST(why.code == CADRE_FORMAT && *why.text);
        return;
    }
    MUST(name.e >= 1 && name.n >= 1 && *name.device);
    MUST((name.block_n >= 1) == (name.block_k >= 1));
    for (int s = 0; s < FOREIGN_SYSTEM_COUNT; s++) {
        if (!foreign_name_print((foreign_system)s, &name, printed, sizeof printed)) continue;
        MUST(!foreign_name_parse(printed, &again, NULL));
        MUST(again.e == name.e && again.n == name.n && again.block_n == name.block_n && !*again.unknown);
        if (s == FOREIGN_VLLM) continue; /* leaves fields out */
        MUST(!strcmp(again.device, name.device) && again.per_channel == name.per_channel && again.down == name.down);
    }
}

static foreign_match look(const foreign_table *t, int m) {
    foreign_match match;
    MUST(!foreign_lookup(FOREIGN_SGLANG, t, m, &match, NULL));
    return match;
}

static void check_lookup(const foreign_table *t, int m) {
    foreign_match match = look(t, m);
    for (int i = 0; i < t->count; i++) {
        int64_t d = llabs((int64_t)t->rows[i].m - m);
        MUST(d > match.distance || (d == match.distance && i >= match.index));
    }
    MUST(match.reach_lo <= m && m <= match.reach_hi);
    MUST(look(t, match.reach_lo).index == match.index && look(t, match.reach_hi).index == match.index);
    MUST(match.reach_lo == 1 || look(t, match.reach_lo - 1).index != match.index);
    MUST(match.reach_hi == INT_MAX || look(t, match.reach_hi + 1).index != match.index);
}

static void check_rows(const foreign_table *t) {
    for (int i = 0; i < t->count; i++) {
        const gemm_config *c = &t->rows[i].config;
        MUST(t->rows[i].m >= 1 && t->rows[i].line >= 1);
        for (int f = 0; f < GEMM_FIELD_COUNT; f++)
            if (c->has & 1u << f) MUST(c->v[f] >= gemm_field_least[f] && c->v[f] <= gemm_field_most[f]);
        check_lookup(t, t->rows[i].m);
        check_lookup(t, t->rows[i].m / 2 + 1);
    }
}

static void check_print(const foreign_table *t) {
    char *text, *again;
    size_t len, len2;
    foreign_table *u;
    MUST(!foreign_print(t->rows, t->count, t->triton, &text, &len, NULL));
    MUST(!foreign_parse(t->path, text, len, NULL, NULL, &u, NULL));
    MUST(u->count == t->count && !strcmp(u->triton, t->triton));
    for (int i = 0; i < t->count; i++)
        MUST(u->rows[i].m == t->rows[i].m && !memcmp(&u->rows[i].config, &t->rows[i].config, sizeof(gemm_config)));
    MUST(!foreign_print(u->rows, u->count, u->triton, &again, &len2, NULL));
    MUST(len == len2 && !memcmp(text, again, len));
    mem_free(text);
    mem_free(again);
    foreign_free(u);
}

/* Counts what keeps a table from being strict. */
static void note(void *ctx, int line, const char *rule, const char *key, const char *text) {
    MUST(line >= 0 && *rule && key && *text && strlen(text) < 256);
    *(int *)ctx += strcmp(rule, "metadata-key") && strcmp(rule, "bad-name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t first = end ? (size_t)(end - data) : size, rest = end ? size - first - 1 : 0;
    char *name = mem_copy_text((const char *)data, first);
    foreign_table *strict = NULL, *told = NULL;
    int notes = 0;
    cadre_fail why = {0};
    check_name(name);
    const char *text = end ? (const char *)end + 1 : "";
    cadre_err err = foreign_parse(name, text, rest, NULL, NULL, &strict, &why);
    MUST(!err == !!strict && (!err || (why.code == err && *why.text)));
    cadre_err lenient = foreign_parse(name, text, rest, note, &notes, &told, NULL);
    MUST(!lenient || err); /* what is strict is readable, and what has no fault is strict */
    MUST(!err || lenient || notes > 0);
    if (told) check_rows(told);
    if (strict) check_print(strict);
    foreign_free(strict);
    foreign_free(told);
    mem_free(name);
    return 0;
}

#include "replay.h"
