/* experiment.h: what the files that read an experiment share. Private to lab. */
#ifndef LAB_EXPERIMENT_H
#define LAB_EXPERIMENT_H
#include "find.h"
#include "program.h"

typedef struct kept { /* a block that lives as long as the experiment */
    struct kept *next;
    _Alignas(64) char bytes[];
} kept;

typedef struct experiment {
    lab_experiment shown; /* first: what callers hold is this */
    lab_readers readers;
    json_doc *doc;
    kept *blocks;
    const json *command, *env; /* of the file, for arms that have none of their own */
    cadre_fail *why;
} experiment;

enum { LAB_WORDS_MOST = 256 };

/* Zeroed; NULL: out of memory, and e->why says so. */
void *lab_keep(experiment *e, size_t count, size_t size);
char *lab_keep_text(experiment *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Errors name the place in the file. */
cadre_err lab_keys(experiment *e, const json *v, const char *what, const char *keys); /* "a b c": others are refused */
cadre_err lab_texts(experiment *e, const json *object, const char *key, const char *const **out); /* array of texts */
cadre_err lab_check_path(experiment *e, const json *v);    /* v is a text that is a path */
cadre_err lab_check_pattern(experiment *e, const json *v); /* v is a text that is a pattern */
/* Exactly one of the members json and pattern. */
cadre_err lab_where(experiment *e, const json *v, lab_reader *reader, const char **where);
/* From memory; `name` is what messages begin with, `path` (absolute) where the file would be. */
cadre_err lab_experiment_parse(const char *name, const char *path, const char *text, size_t len, lab_experiment **out,
                               cadre_fail *why);
cadre_err lab_arms(experiment *e, const json *list); /* experiment_arm.c */

/* The file that a command's first word means (manifest.c). IO: there is none. */
cadre_err lab_find_program(const lab_experiment *e, const char *name, const char *cadre, char *out, size_t size,
                           cadre_fail *why);
#endif
