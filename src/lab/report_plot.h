/* report_plot.h: scales and rows of plots in HTML. Private to the report's files.
 *
 * Every place along x is a share of the width, so a plot fits any page while its text keeps its size:
 *
 *   label            |----o----|   value          wide
 *   label  value                                  narrow: the bar comes below
 *   |----o----| */
#ifndef LAB_REPORT_PLOT_H
#define LAB_REPORT_PLOT_H
#include "report.h"

typedef struct rep_scale {
    double low, high, step; /* ticks are multiples of step */
    int decimals;           /* of a tick's label */
    bool percent;           /* values are relative, labels in % */
} rep_scale;
/* Starts empty. */
rep_scale rep_scale_none(void);
void rep_scale_add(rep_scale *s, double v); /* NaN is passed over */
/* Some air around, and where the ticks lie. False: nothing was added. `zero`: begins at 0. */
bool rep_scale_end(rep_scale *s, bool zero, int ticks);
double rep_place_of(const rep_scale *s, double v); /* 0..100, cut there */
const char *rep_tick(char text[REP_NUMBER], const rep_scale *s, double v);
bool rep_tick_at(const rep_scale *s, int i, double *v); /* the i-th, from 0; false: there are no more */

enum { REP_COLOURS = 8 }; /* classes c0..c7 and marks m0..m7 */

/* A figure: open, rows, the axis, close. Captions and labels are clean text. */
void rep_rows_open(rep_text *out, const char *name, const char *caption);
/* Opens a row; what follows is drawn into its bar until row_close. A value may end in "(...)" or "; ...": that is shown
 * weaker. */
void rep_row_open(rep_text *out, const char *label, const char *value, bool main);
void rep_row_close(rep_text *out);
void rep_rows_axis(rep_text *out, const rep_scale *s, const char *title);
void rep_rows_close(rep_text *out);

/* Pieces of a bar. height in px about the middle; 0: all of the row's. */
void rep_bar(rep_text *out, const rep_scale *s, double from, double to, const char *class, int height);
void rep_line_v(rep_text *out, const rep_scale *s, double at, const char *class);
void rep_whisker(rep_text *out, const rep_scale *s, double from, double to, const char *class);
void rep_mark(rep_text *out, double percent, int arm);
#endif
