/* lint.h: what is wrong with tables, told by rules that are data (lint_rules.c). Foreign tables and cadre's own.
 *
 *   folder ---walk---> file ---system from its path---> rows ---checks---> findings, in the order of files and lines
 *
 * A finding is a fact about the file, never a guess about speed: what a linter cannot know (which tile is faster) it
 * does not say. Thresholds are reasoned where they stand.
 */
#ifndef CADRE_PLAN_LINT_H
#define CADRE_PLAN_LINT_H
#include "plan/foreign.h"

typedef enum lint_level { LINT_NOTE, LINT_WARNING, LINT_ERROR, LINT_LEVELS } lint_level;
extern const char *const lint_levels[LINT_LEVELS]; /* "note", "warning", "error" */

typedef struct lint_rule {
    const char *id;
    lint_level level;
    const char *what, *why, *fix; /* what it means, why it hurts, what to do */
} lint_rule;
extern const lint_rule lint_rules[];             /* id NULL ends it */
const lint_rule *lint_rule_find(const char *id); /* NULL: none */

typedef struct lint_finding {
    const lint_rule *rule;
    lint_level level; /* the rule's own, but for a few cases that are worse or milder */
    const char *file;
    int line;     /* 0: the file as a whole */
    char key[96]; /* of the row, or what it is about; "" none */
    char text[320];
} lint_finding;

typedef struct lint_options {
    int system;                 /* foreign_system; -1: told from folder and name */
    const gemm_policy *against; /* the default to compare with; NULL: the system's own today */
    int max_m;                  /* no call has more tokens than this; 0: no limit is known */
    bool pow2;                  /* the look-up rounds M up to a power of two first */
    int e, f, tp;               /* the layer the tables are for; 0: not known. tp 0: any power of two */
    size_t smem;                /* of the device; 0: as its name says */
} lint_options;

typedef struct lint {
    lint_options options;
    lint_finding *findings;
    int count, cap;
    int files, skipped; /* tables read; JSON files of folders that are no tables of experts */
    char **names;       /* paths that findings borrow */
    int name_count, name_cap;
    bool failed; /* out of memory */
} lint;
void lint_init(lint *l, const lint_options *options);
void lint_done(lint *l);
/* A file is always taken for a table; of a folder (and those below it) the files that look like one. Errors: IO (there
 * is nothing to read at path), NOMEM. What is wrong with a file is a finding. */
cadre_err lint_path(lint *l, const char *path, cadre_fail *why);
int lint_count(const lint *l, const char *rule, lint_level least); /* rule NULL: of all */

/* Bytes of on-chip memory that one block may have, for devices whose name is known; 0: not known. source (may be NULL):
 * where the number is from. */
size_t lint_device_smem(const char *device, const char **source);
/* The platform of a device by its name, -1: not known. */
int lint_platform(const char *device);

/* "7..12", "1", "513 and above" */
void lint_range_text(char *text, size_t size, int lo, int hi);

/* Private to lint's files. */
void lint_add(lint *l, const char *rule, int level, const char *file, int line, const char *key, const char *format,
              ...) __attribute__((format(printf, 7, 8))); /* level -1: the rule's */
const char *lint_keep(lint *l, const char *path);
void lint_foreign(lint *l, const char *path, const char *text, size_t len);
void lint_native(lint *l, const char *path, const char *text, size_t len);
#endif
