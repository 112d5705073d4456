/* Fuzz target: a recipe. What is accepted either builds a table that its own reader accepts, the same twice, or says in
 * one line why not. Samples that it names are not there. */
#include "plan/recipe.h"

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

static void own(void *ctx, const char *key, const char *source) {
    ++*(int *)ctx;
    MUST(*key && *source);
}

static void check(const recipe *r, int i) {
    recipe_output a = {0}, b = {0};
    cadre_fail why = {0};
    foreign_table *t;
    int owners = 0, sizes[64];
    if (recipe_is_native(r) && recipe_tables(r) != 1) abort();
    cadre_err err = recipe_build(r, i, own, &owners, &a, &why);
    if (err) {
        MUST(*why.text && !strchr(why.text, '\n') && !a.text);
        return;
    }
    MUST(!recipe_is_native(r) && owners == a.rows && recipe_batch_sizes(r, i, sizes, 64) >= 0);
    MUST(!recipe_build(r, i, NULL, NULL, &b, NULL) && a.len == b.len && !memcmp(a.text, b.text, a.len));
    MUST(!foreign_parse(a.name, a.text, a.len, NULL, NULL, &t, &why));
    MUST(t->count == a.rows);
    foreign_free(t);
    mem_free(a.text);
    mem_free(b.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    recipe *r = NULL;
    cadre_fail why = {0};
    cadre_err err = recipe_parse("/nowhere/in", (const char *)data, size, &r, &why);
    if (err) {
        MUST(err == CADRE_FORMAT && !strncmp(why.text, "/nowhere/in:", 12) && !strchr(why.text, '\n'));
        return 0;
    }
    for (int i = 0; i < recipe_tables(r); i++) check(r, i);
    recipe_free(r);
    return 0;
}

#include "replay.h"
