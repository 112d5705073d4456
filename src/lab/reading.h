/* reading.h: what one visit gave: its figures, the digests of its outputs, and whether its arm was at work. Private to
 * lab. */
#ifndef LAB_READING_H
#define LAB_READING_H
#include "find.h"
#include "program.h"

enum { LAB_TEXTS_MOST = 34, LAB_TEXT_MAX = 64 << 20 };

typedef struct lab_text {
    char name[64]; /* "stdout" */
    char *text;
    size_t len;
} lab_text;

/* What a visit wrote: stdout, stderr, then the other files of its folder, by name. */
typedef struct lab_output {
    lab_text texts[LAB_TEXTS_MOST];
    int count;
    json_doc *doc;    /* of the file with the figures; NULL: no JSON is there */
    char no_doc[256]; /* why */
    char unread[64];  /* a file that is too large, can't be read or is one too many: nobody looked into it; "": none */
} lab_output;
/* `figures`: the file that holds them, NULL: stdout. Errors: IO, NOMEM. */
cadre_err lab_output_read(const char *folder, const char *figures, lab_output *out, cadre_fail *why);
void lab_output_free(lab_output *o);

typedef struct lab_figure {
    const lab_metric *metric;
    char name[96]; /* with its label */
    double value;  /* NaN: null in the output */
    double tokens;
    int iteration;
} lab_figure;

typedef struct lab_reading {
    lab_figure *figures;
    int count, cap;
    double failed, accepted, drafts, draft_tokens;
    char family[65];    /* "": not told */
    json_doc *requests; /* array of {id, sha256}; NULL: not told */
    lab_active active;
    char why[240];
    double text_bytes;                        /* of the outputs that are texts; told apart from tokens */
    const json *device, *numerics, *sampling; /* of the output's JSON; NULL: not told */
} lab_reading;
/* Errors: UNSUPPORTED (a pattern takes too much), NOMEM. What is not there is no error. */
cadre_err lab_reading_make(const lab_experiment *e, const lab_arm *arm, const lab_output *o, double seconds,
                           lab_reading *r, cadre_fail *why);
void lab_reading_free(lab_reading *r);
/* outputs.c: fills family, requests, text_bytes. */
cadre_err lab_reading_outputs(const lab_outputs *from, const lab_output *o, lab_reading *r, cadre_fail *why);
/* active.c: fills active and why. */
cadre_err lab_reading_active(const lab_readers *p, const lab_arm *arm, const lab_output *o, lab_reading *r,
                             cadre_fail *why);
/* The sum of what `where` (a path, or '/' and a pattern) leads to; NaN: nothing, or no number. */
cadre_err lab_reading_sum(const lab_output *o, const char *where, double *sum, cadre_fail *why);
/* Each match of a pattern in the first text that has any. */
cadre_err lab_reading_each(const lab_output *o, const char *pattern, bool (*take)(void *ctx, const char *hit, size_t n),
                           void *ctx, cadre_fail *why);
#endif
