/* report.h: a report as a page of blocks, made once from a verdict and then written in a format. Private to the room.
 *
 *   verdict -> report_page*.c: headings, lines, tables, places of figures -> text | Markdown | HTML (+ report_plot*.c)
 *
 * So no format has a figure of its own: what a table of the HTML says, the text says too. JSON is written from the
 * verdict itself, unrounded. */
#ifndef LAB_REPORT_H
#define LAB_REPORT_H
#include "lab.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- a text that grows: one NOMEM at the end covers all calls ---- */

typedef struct rep_text {
    char *text;
    size_t len, cap;
    bool failed;
} rep_text;
void rep_put_n(rep_text *t, const char *text, size_t len);
void rep_put(rep_text *t, const char *text);
void rep_putf(rep_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text from samples, made fit to print: bytes that are no UTF-8 become U+FFFD; control characters and those that turn
 * the direction of a line become '?'. */
void rep_put_clean(rep_text *t, const char *text);
/* The same of a formatted text, cut at 2000 bytes. */
void rep_vputf_clean(rep_text *t, const char *format, va_list args);

/* ---- the page ---- */

typedef enum rep_kind {
    REP_HEADING, /* of a section */
    REP_LINE,    /* a paragraph */
    REP_CODE,    /* a command line */
    REP_TABLE,   /* the first row is the head, the first column names the row */
    REP_FIGURE,  /* HTML alone */
} rep_kind;

typedef enum rep_figure { REP_INTERVALS, REP_STRIP, REP_LADDER, REP_WATERFALL, REP_PROFILE } rep_figure;

typedef struct rep_block {
    rep_kind kind;
    size_t at;         /* of the text, or of a table's caption, in `words`; the cells follow, each terminated */
    const char *align; /* of the columns: 'l' or 'r' */
    int cells;
    bool folded; /* a long table: HTML shows it on demand */
    rep_figure figure;
} rep_block;

typedef struct rep_page {
    const lab_report *report;
    const lab_verdict *verdict;
    rep_text title, asks, outcome; /* outcome: a sentence per contrast, a line each */
    rep_text words;
    rep_block *blocks;
    int count, cap;
    bool failed;
} rep_page;

/* Makes the page; CADRE_NOMEM. */
cadre_err rep_page_make(const lab_report *r, rep_page *p, cadre_fail *why);
void rep_page_done(rep_page *p);

void rep_heading(rep_page *p, const char *text);
void rep_line(rep_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rep_code(rep_page *p, const char *text);
void rep_place(rep_page *p, rep_figure figure);
/* The cells that follow belong to it; `head` is its first row, the titles parted by '|'. Titles that hold
 * text from samples come as cells. */
void rep_table(rep_page *p, const char *align, const char *caption, const char *head);
void rep_cell(rep_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *rep_words(const rep_page *p, const rep_block *b);
/* The next cell after this one. */
const char *rep_next(const char *cell);

/* The parts (report_result.c, report_why.c, report_arms.c, report_stack.c, report_scope.c). */
void rep_add_result(rep_page *p);
void rep_add_arms(rep_page *p);
void rep_add_gates(rep_page *p);
void rep_add_evidence(rep_page *p); /* the tables that show why a gate refused */
void rep_add_stack(rep_page *p);
void rep_add_profile(rep_page *p);
void rep_add_scope(rep_page *p);

/* ---- figures ---- */

enum { REP_NUMBER = 32 };
/* v with so many decimals, a point whatever the locale; "-" for what is not known. */
const char *rep_number(char text[REP_NUMBER], double v, int decimals);
/* relative 0.0123 -> "+1.230 %". */
const char *rep_percent(char text[REP_NUMBER], double v, int decimals);
/* Three significant figures: "0.0286", "1.08e-05". */
const char *rep_p(char text[REP_NUMBER], double v);
/* Decimals that show three figures of this spread; 3 when it is not known. */
int rep_decimals(double spread);
int rep_value_decimals(const lab_verdict *v); /* of values in the metric's unit */
bool rep_interval_known(const double interval[2]);
int rep_ratio_decimals(const lab_verdict *v);
/* "win", "within noise": for people. */
const char *rep_outcome(lab_outcome o);
const char *rep_active(lab_active a);
/* The unit, or the metric when the samples tell none. */
const char *rep_unit(const lab_verdict *v);
bool rep_refused(const lab_verdict *v);

/* Samples that the verdict speaks of: its run, its metric, one of its arms. NULL: another. */
const lab_sample *rep_sample(const lab_verdict *v, int i, int *arm);
int rep_samples(const lab_verdict *v);

/* The samples by arm and visit, in the order of the file; split further where a visit's samples differ in their family
 * or in what was not met. BY_VISIT counts warm-ups too. An array for mem_free; NULL without samples or memory. */
typedef enum rep_by { REP_BY_VISIT, REP_BY_FAMILY, REP_BY_WHY } rep_by;
typedef struct rep_visit {
    int arm, samples;
    const lab_sample *first;
    const char *text;                        /* the family, or what was not met */
    double accepted, drafts, tokens, failed; /* NaN: not told */
} rep_visit;
rep_visit *rep_visits(rep_page *p, rep_by by, int *count);

int rep_factors(unsigned mask);                               /* how many are on */
double rep_measured(const lab_stack *s, const lab_effect *e); /* mean of the effect's arm */

/* ---- formats ---- */

void rep_write_text(const rep_page *p, rep_text *out);
void rep_write_blocks(const rep_page *p, rep_text *out); /* as text, without title, question and outcome */
void rep_write_markdown(const rep_page *p, rep_text *out);
void rep_write_html(const rep_page *p, rep_text *out);
cadre_err rep_write_json(const lab_report *r, rep_text *out, cadre_fail *why);

/* Text for HTML, quotes included. */
void rep_escape(rep_text *out, const char *text);
void rep_draw(const rep_page *p, rep_figure figure, rep_text *out);
void rep_draw_intervals(const rep_page *p, rep_text *out);
void rep_draw_strip(const rep_page *p, rep_text *out);
void rep_draw_ladder(const rep_page *p, rep_text *out);
void rep_draw_waterfall(const rep_page *p, rep_text *out);
void rep_draw_profile(const rep_page *p, rep_text *out);
#endif
