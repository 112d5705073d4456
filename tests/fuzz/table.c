/* Fuzz target: the text of a native table. What is accepted prints, comes back the same, and no two rows of it meet;
 * what is not has one line that begins with the path; the reader that goes on after faults gives good rows only. */
#include "plan/table.h"

#include <stdint.h>
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

static void check(const native_table *t) {
    for (int i = 0; i < t->count; i++) {
        const native_row *r = &t->rows[i];
        MUST(r->n_lo >= 1 && r->n_lo <= r->n_hi && r->runs >= 1 && r->us > 0 && r->ratio_lo <= r->ratio_hi);
        MUST(utf8_valid(r->routing, strlen(r->routing)) && r->line >= 5);
        if (i) MUST(native_compare(r - 1, r) < 0);
        if (i && native_same_key(r - 1, r)) MUST(r[-1].n_hi < r->n_lo);
        native_judge(r, r->n_lo, NULL, NULL);
        native_judge(r, r->n_hi, NULL, NULL);
    }
}

static void count(void *ctx, int line, const char *rule, const native_row *row, const char *text) {
    (void)row;
    ++*(int *)ctx;
    MUST(line >= 0 && *rule && *text && !strchr(text, '\n'));
}

static void round_trip(const native_table *t) {
    char *text, name[200];
    size_t len;
    native_table *again;
    native_file_name(t->device, name, sizeof name);
    MUST(!native_print(t->device, t->klass, t->rows, t->count, &text, &len, NULL));
    MUST(!native_parse(name, text, len, NULL, NULL, &again, NULL));
    MUST(again->count == t->count);
    for (int i = 0; i < t->count; i++) {
        again->rows[i].line = t->rows[i].line;
        MUST(!memcmp(&again->rows[i], &t->rows[i], sizeof t->rows[i]));
    }
    native_free(again);
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    native_table *t = NULL;
    cadre_fail why = {0};
    int faults = 0;
    cadre_err err = native_parse("in/Test_CPU_9000.table", text, size, NULL, NULL, &t, &why);
    if (err) MUST(err == CADRE_FORMAT && !strncmp(why.text, "in/Test_CPU_9000.table:", 23) && !strchr(why.text, '\n'));
    if (!err) {
        check(t);
        round_trip(t);
        native_free(t);
    }
    MUST(!native_parse("in/Test_CPU_9000.table", text, size, count, &faults, &t, NULL));
    MUST(!err == !faults);
    check(t);
    native_free(t);
    return 0;
}

#include "replay.h"
