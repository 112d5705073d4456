/* recipe_parts.h: what the recipe files share. Private to them. */
#ifndef CADRE_PLAN_RECIPE_PARTS_H
#define CADRE_PLAN_RECIPE_PARTS_H
#include "plan/recipe.h"

struct recipe {
    char *path;
    json_doc *doc;
    const json *root; /* foreign: the list, or the one entry; native: the object */
    bool native;
};

/* FORMAT: "file:line:column: /json/pointer: text". */
cadre_err recipe_fault(const recipe *r, const json *at, cadre_fail *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A member that must be a whole number in low..high. must: absent is a fault; else *out keeps what it has. */
cadre_err recipe_int(const recipe *r, const json *object, const char *key, bool must, int low, int high, int *out,
                     cadre_fail *why);
cadre_err recipe_text(const recipe *r, const json *object, const char *key, bool must, const char **out,
                      cadre_fail *why);
cadre_err recipe_real(const recipe *r, const json *object, const char *key, double *out, cadre_fail *why);
/* Every member's key is one of "a|b|c". */
cadre_err recipe_known(const recipe *r, const json *object, const char *keys, cadre_fail *why);

cadre_err recipe_check_entry(const recipe *r, const json *entry, cadre_fail *why);
cadre_err recipe_check_rows(const recipe *r, cadre_fail *why);
cadre_err recipe_build_entry(const recipe *r, const json *entry, recipe_owner *tell, void *ctx, recipe_output *out,
                             cadre_fail *why);
cadre_err recipe_build_rows(const recipe *r, recipe_owner *tell, void *ctx, recipe_output *out, cadre_fail *why);
int recipe_sizes(const json *list, int *out, int cap); /* batch_sizes: sorted, each once */

/* One native row from its samples (evidence.c). `at`: the row of the recipe. klass: [NATIVE_WORD_MAX]. */
cadre_err evidence_row(const recipe *r, const json *at, native_row *row, char *klass, cadre_fail *why);
#endif
