/* program.h: what is known of the programs that experiments run: where their outputs hold what the lab wants. Private
 * to lab. A further program is one more row in program.c. */
#ifndef LAB_PROGRAM_H
#define LAB_PROGRAM_H
#include "lab.h"

enum { LAB_METRICS_MOST = 24, LAB_TOLD_MOST = 6 };

/* Paths (find.h), or members: looked for in the nearest object around a figure. NULL: the program does not tell. */
typedef struct lab_readers {
    const char *name;                     /* "cadre run" */
    const char *words;                    /* first words of a command that tell the program; the first of them is
                                             compared with the last part of a path */
    bool cadre;                           /* takes --set and --json; ends badly when any request fails */
    const char *output;                   /* file in the visit's folder, NULL: stdout */
    lab_metric metrics[LAB_METRICS_MOST]; /* a NULL name ends */
    bool zero_is_null;                    /* writes 0 for what it has not measured */
    const char *first_times; /* path to the times to the first token, one a request: a 0 of one that did not fail was
                                not measured, and spoils the means of ttft and tpot */
    const char *tokens;      /* member: emitted by the requests behind a figure */
    const char *failed, *asked, *done;            /* paths: failed requests; else those asked for less those done */
    const char *accepted, *drafts, *draft_tokens; /* paths; accepted without the bonus token */
    lab_outputs outputs;
    const char *switches;                     /* path to "name=value" texts: all that differ from their defaults */
    const char *receipts;                     /* path to objects */
    const char *device, *numerics, *sampling; /* paths */
    struct {
        const char *name, *path;
    } told[LAB_TOLD_MOST]; /* of the protocol; numbers of a path that leads to several are added */
} lab_readers;

extern const lab_readers lab_programs[]; /* a NULL name ends */
/* By name, or by the first words of a command; NULL: none. */
const lab_readers *lab_program_named(const char *name);
const lab_readers *lab_program_of(const char *const *argv);
/* What of the experiment's readers holds: the program's, with the file's own on top. Never NULL. */
const lab_readers *lab_experiment_readers(const lab_experiment *e);
#endif
