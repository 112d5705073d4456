/* lint_subject.h: one foreign table under the eyes of lint. Private to lint's files. */
#ifndef CADRE_PLAN_LINT_SUBJECT_H
#define CADRE_PLAN_LINT_SUBJECT_H
#include "plan/lint.h"

typedef struct lint_subject {
    lint *l;
    const char *path, *name; /* name: the last part of path */
    char folder[1024];
    foreign_table *t;
    foreign_system system;
    int platform;                    /* gemm_platform, -1: not known */
    bool foreign;                    /* the name is another loader's */
    const foreign_row *sorted[4096]; /* by key; foreign_parse takes at most 4096 rows */
} lint_subject;

/* The values that every tile has. */
enum { LINT_TILE = 6 };
extern const gemm_field lint_tile[LINT_TILE];

/* A finding at the rule's own level; row NULL: of the file. */
void lint_tell(lint_subject *s, const char *rule, const foreign_row *row, const char *text);

/* lint_names.c: what the reader tells about the name (unknown: the field, or ""); whose look-up the file is for; name,
 * folder and N. */
void lint_hear_name(lint_subject *s, const char *unknown, const char *text);
foreign_system lint_system(const lint_subject *s);
void lint_names(lint_subject *s);

/* lint_default.c: a row against the system's default. */
void lint_default(lint_subject *s, const foreign_row *row);
#endif
