/* lint_native.c: checks of one of cadre's own tables: what its reader tells, and what each row is worth to this build.
 */
#include "plan/lint.h"
#include "plan/table.h"

#include <stdio.h>
#include <string.h>

typedef struct own {
    lint *l;
    const char *path;
} own;

static void key_of(const native_row *row, char *key, size_t size) {
    *key = 0;
    if (row) native_key_text(row, key, size);
}

static void hear(void *ctx, int line, const char *rule, const native_row *row, const char *text) {
    const own *o = ctx;
    char key[96];
    key_of(row, key, sizeof key);
    if (!strcmp(rule, "bad-row")) rule = "bad-value";
    lint_add(o->l, rule, -1, o->path, line, key, "%s", text);
}

/* NULL: nothing is wrong. */
static const char *rule_of(native_verdict v) {
    static const char *const rules[] = {
        [NATIVE_GOOD] = NULL,
        [NATIVE_NO_KERNEL] = "dead-row",
        [NATIVE_OTHER_CODE] = "dead-row",
        [NATIVE_ILLEGAL] = "bad-value",
        [NATIVE_STALE] = "row-shadows-newer-default",
        [NATIVE_NO_GAIN] = "no-gain",
        [NATIVE_SAME] = "row-equals-default",
    };
    return rules[v];
}

static void check_row(const own *o, const native_row *row) {
    const char *text, *rule = rule_of(native_judge(row, row->n_lo, NULL, &text));
    char key[96];
    key_of(row, key, sizeof key);
    if (rule) lint_add(o->l, rule, -1, o->path, row->line, key, "%s", text);
    if (o->l->options.max_m && row->n_lo > o->l->options.max_m)
        lint_add(o->l, "unreachable-key", -1, o->path, row->line, key, "the row begins at n=%d; the largest is %d",
                 row->n_lo, o->l->options.max_m);
}

void lint_native(lint *l, const char *path, const char *text, size_t len) {
    own o = {l, lint_keep(l, path)};
    native_table *t;
    cadre_fail why = {0};
    cadre_err err = native_parse(path, text, len, hear, &o, &t, &why);
    if (err == CADRE_NOMEM) l->failed = true;
    if (err) {
        lint_add(l, "no-table", -1, o.path, 0, "", "%s", why.text);
        return;
    }
    for (int i = 0; i < t->count; i++) check_row(&o, &t->rows[i]);
    native_free(t);
}
