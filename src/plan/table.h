/* table.h: cadre's own tables: rows that were measured to beat the default, one file per device, looked up by explicit
 * ranges of n. Text, generated, never written by hand; tables of other systems are foreign.h.
 *
 *   cadre table 1
 *   device "AMD EPYC 9575F 64-Core Processor"
 *   class cpu-amd-avx512bf16
 *   outside policy
 *   row op=experts kernel=experts_bf16_avx512bf16 code=0f3a.. dtype=bf16 d=2048 f=768 e=128 k=8 act=swiglu gated=1
 *       threads=2 n=9..16 rows=8 panels=1 .. default.rows=8 default.panels=1 .. at=16 us=16409.250 default_us=..
 *       ratio=0.9590 ratio_lo=.. ratio_hi=.. runs=12 routing=uniform device=".." driver=- toolchain=".." date=.. run=..
 *   sha256 9b1c..                     of every byte before this line; a row is one line
 *
 * Reach: a row speaks for n_lo..n_hi and no other n; outside every range the policy runs ("outside policy"; there is no
 * nearest row). Two rows of one key whose ranges meet are an error that names both lines. The order of the lines and of
 * the files never matters.
 */
#ifndef CADRE_PLAN_TABLE_H
#define CADRE_PLAN_TABLE_H
#include "op/kernel.h"

enum { NATIVE_TEXT_MAX = 96, NATIVE_WORD_MAX = 48, NATIVE_CODE_MAX = 16, NATIVE_ROWS_MAX = 4096 };
#define NATIVE_SUFFIX ".table" /* of a table's file name */

/* Acts as rows write them; "-" for what has none (every family but experts). */
typedef struct native_row {
    int line; /* of its file; 0: not from a file */
    /* key */
    op_family family;
    char kernel[NATIVE_WORD_MAX];
    char code[NATIVE_CODE_MAX]; /* op_kernel_source() of the kernel that was measured */
    cadre_dtype dtype;
    int d, f, e, k;            /* as in plan_key; letters a family does not use are 0 */
    char act[NATIVE_WORD_MAX]; /* "swiglu", "swiglu-clamp", "relu2" or "-" */
    bool gated;
    int threads;
    int n_lo, n_hi; /* 1 <= n_lo <= n_hi */
    /* value */
    op_knobs knobs;
    /* evidence */
    op_knobs beaten;                  /* knobs of the default it was measured against, the whole range long */
    int at;                           /* the measured n whose ratio was worst; the figures are of that n */
    double us, default_us;            /* medians */
    double ratio, ratio_lo, ratio_hi; /* us / default_us by pairs of runs: median and 95 % interval */
    int runs;                         /* pairs */
    char routing[NATIVE_TEXT_MAX], device[NATIVE_TEXT_MAX], driver[NATIVE_TEXT_MAX], toolchain[NATIVE_TEXT_MAX];
    char date[NATIVE_WORD_MAX], run[NATIVE_WORD_MAX]; /* of the last run: "2026-11-29T14:46:00Z", its id */
    char why[160];                                    /* the evidence as a sentence, made from the figures above */
} native_row;

typedef struct native_table {
    char *path;
    char device[NATIVE_TEXT_MAX]; /* name of the device, as cadre_device.cpu has it */
    char klass[NATIVE_WORD_MAX];  /* "class" */
    char sha256[65];              /* as the last line has it */
    native_row *rows;             /* sorted by native_compare */
    int count;
} native_table;

/* What a reader meets that is not good, for lint; reading goes on after it. rule: "bad-row", "unknown-field",
 * "missing-field", "bad-key", "overlapping-rows", "zero-evidence", "hand-edited", "dead-file". line: 0 if it is the
 * name's or the whole file's. row: what the line said, as far as it was read, or NULL. */
typedef void native_note(void *ctx, int line, const char *rule, const native_row *row, const char *text);
/* Parses a table's text; path names it in errors, and its last part must be the device's file name ("dead-file").
 * With `note`, faults are told there and bad rows left out; the table may then be empty. Without, the first fault is
 * the error (FORMAT: "file:line: what was found, what was expected"). Kernels need not exist in this build, and knobs
 * need only be numbers that the family's list allows: native_judge says what a row is worth here. */
cadre_err native_parse(const char *path, const char *text, size_t len, native_note *note, void *ctx, native_table **out,
                       cadre_fail *why);
/* As native_parse without `note`; the file may have any name. */
cadre_err native_parse_any(const char *path, const char *text, size_t len, native_table **out, cadre_fail *why);
cadre_err native_read(const char *path, native_note *note, void *ctx, native_table **out, cadre_fail *why);
void native_free(native_table *table); /* NULL is fine */
/* Is this text a native table (rather than JSON)? Looks at its first line only. */
bool native_is_table(const char *text, size_t len);
/* The text of a table: sorted, with its hash; the same rows give the same bytes in whatever order they come. rows are
 * sorted in place. Errors: FORMAT (two rows of one key meet), NOMEM. */
cadre_err native_print(const char *device, const char *klass, native_row *rows, int count, char **text, size_t *len,
                       cadre_fail *why);

/* Total order: key, then n_lo. 0 never for two rows of one table. */
int native_compare(const native_row *a, const native_row *b);
bool native_same_key(const native_row *a, const native_row *b); /* all of the key but the range */
/* "experts_bf16_avx512bf16 d=2048 f=768 e=128 k=8 bf16 swiglu 2 threads n=9..16" */
void native_key_text(const native_row *row, char *text, size_t size);
/* The file name of a device's table: what is no letter, digit, '.' or '-' becomes '_', then NATIVE_SUFFIX. */
void native_file_name(const char *device, char *name, size_t size);

/* What a row is worth to this build at n (within its range), whatever device it was measured on. */
typedef enum native_verdict {
    NATIVE_GOOD,
    NATIVE_NO_KERNEL,  /* no kernel of that name */
    NATIVE_OTHER_CODE, /* the kernel's source has changed since */
    NATIVE_ILLEGAL,    /* the kernel cannot run these knobs */
    NATIVE_STALE,      /* the policy's default is no longer the one that was beaten: the default wins */
    NATIVE_NO_GAIN,    /* the interval of the ratio reaches 1: it was not shown to beat the default */
    NATIVE_SAME,       /* says what the default says */
} native_verdict;
/* now: the policy's knobs at n today (may be NULL); not set for NO_KERNEL. text (may be NULL): static, why. */
native_verdict native_judge(const native_row *row, int n, op_knobs *now, const char **text);
#endif
