/* find.h: where things stand in what a command wrote: paths into JSON, and patterns over text. Private to lab.
 *
 * A path is a row of steps from the root: .name and ["any name"] into objects; [3], [] (each element) and [key=value]
 * (each element that is an object with that member) into arrays. "." is the root.
 *   .summary.tpot_ms     .requests[].sha256     .rows[m=8].us     [n_prompt=0].samples_ts[] */
#ifndef LAB_FIND_H
#define LAB_FIND_H
#include "lab.h"

/* What is wrong with the path, NULL: nothing. */
const char *lab_path_wrong(const char *path);
typedef void (*lab_take)(void *ctx, const json *v);
/* Hands on every value that the path leads to, in order; how many. A path that is wrong leads nowhere. */
int lab_path_each(const json *root, const char *path, lab_take take, void *ctx);
const json *lab_path_first(const json *root, const char *path); /* NULL: none */
/* A number, true and false as 1 and 0; NaN: anything else. */
double lab_number(const json *v);
/* Member `key` of the nearest object around v that has it (v's own first), NULL: none. */
const json *lab_around(const json *v, const char *key);

/* The JSON in what a command wrote: all of the text, or its lines one by one (an array of them), or else what begins
 * with the first line that starts with '{' or '[' and ends with the last that ends with '}' or ']'. FORMAT: there is
 * none; the line is that of the whole text. */
cadre_err lab_json_in(const char *name, const char *text, size_t len, json_doc **out, cadre_fail *why);

/* Patterns are PCRE2's, over bytes; ^ and $ stand at lines. Steps and memory of a search are limited. */
typedef struct lab_pattern lab_pattern;
/* `what` takes what is wrong. Errors: FORMAT, NOMEM. */
cadre_err lab_pattern_new(const char *regex, lab_pattern **out, char what[200]);
void lab_pattern_free(lab_pattern *p);
/* The next match at or after *at, which moves behind it: its first group, or all of it without groups. *found: false
 * when there is none. UNSUPPORTED: it takes too much. */
cadre_err lab_pattern_next(lab_pattern *p, const char *text, size_t len, size_t *at, const char **hit, size_t *n,
                           bool *found, cadre_fail *why);
/* Does it match anywhere? */
cadre_err lab_pattern_in(const char *regex, const char *text, size_t len, bool *found, cadre_fail *why);
#endif
