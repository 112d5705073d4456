/* say.h: everything the command prints. Results go to stdout, or to stderr when stdout carries JSON; warnings and
 * refusals are one line each on stderr, after "cadre: ". */
#ifndef CMD_SAY_H
#define CMD_SAY_H
#include "base/base.h"
#include <stdio.h>

enum { EXIT_FINE = 0, EXIT_NO = 1, EXIT_COULD_NOT = 2 };

/* Starts listening to the library. */
void say_start(void);
/* From now on human text goes to stderr. */
void say_to_stderr(bool on);
FILE *say_stream(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "label    value", the labels of a block in one column. */
void say_pair(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "cadre: line" on stderr; equal lines once. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "cadre: why" on stderr; returns EXIT_COULD_NOT. */
int say_failed(const cadre_fail *why);
/* Opens the one object of a result or a raw sample: schema, and which command's or kind it is. */
void say_json_open(json_out *o, const char *command);
void say_sample_open(json_out *o, const char *kind);
/* The one object, closed by the caller, as one line on stdout; frees it. Returns an exit status: `status`, or 2. */
int say_json(json_out *o, int status);
/* stdout is flushed and checked; returns `status`, or 2 with a line when it could not be written. */
int say_end(int status);

/* From now on Ctrl-C says "cadre: NAME: interrupted (what say_progress said last)" before it ends the process, by the
 * signal, as it would have without. A command that catches it itself does so later. */
void say_interrupts(const char *name);

/* A line on stderr that is drawn over, only when stderr is a terminal. */
void say_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_progress_end(void);

/* A table: columns are as wide as their widest cell. `align`: one letter per column, 'l' or 'r'. */
typedef struct table {
    const char *align;
    char *text; /* cells, each terminated, mem_new memory */
    size_t len, cap;
    int cells;
    bool failed;
} table;
void table_open(table *t, const char *align);
void table_cell(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_print(table *t, FILE *stream, int indent); /* prints and frees */

int say_digits(double v);                           /* decimals that show three figures: 0..3 */
const char *say_bytes(double bytes, char text[24]); /* "1.21 GB" */
#endif
