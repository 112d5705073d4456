/* Fuzz target: a report. What is a text gives claims that each say why in one line, each for a figure of its own line,
 * in their order, the same twice; a claim that is fine meets what was recomputed. */
#include "lab/lab.h"
#include <math.h>
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

static void check(const lab_claim *c, int last_line) {
    MUST(c && c->line >= last_line && c->line >= 1);
    MUST(c->rule && *c->rule && c->text && c->why && *c->why);
    MUST(!strpbrk(c->text, "\n\r") && !strpbrk(c->why, "\n\r"));
    MUST(c->ok || !c->note);
    MUST(!isinf(c->recomputed) || c->note);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_claims *a = NULL, *b = NULL;
    cadre_fail why = {0};
    cadre_err err = lab_claims_new((const char *)data, size, NULL, &a, &why);
    if (err) {
        MUST(err == CADRE_FORMAT && *why.text && !strchr(why.text, '\n') && !a);
        return 0;
    }
    MUST(!lab_claims_new((const char *)data, size, NULL, &b, NULL));
    MUST(lab_claims_count(a) == lab_claims_count(b) && lab_claims_unchecked(a) == lab_claims_unchecked(b));
    for (int i = 0; i < lab_claims_count(a); i++) {
        const lab_claim *x = lab_claims_at(a, i), *y = lab_claims_at(b, i);
        check(x, i ? lab_claims_at(a, i - 1)->line : 1);
        MUST(x->ok == y->ok && !strcmp(x->why, y->why) && !strcmp(x->text, y->text));
    }
    MUST(lab_claims_unchecked(a) >= 0 && !lab_claims_at(a, lab_claims_count(a)));
    lab_claims_free(a);
    lab_claims_free(b);
    return 0;
}

#include "replay.h"
