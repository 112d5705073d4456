/* report_plot_strip.c: every sample where it was measured: a column for each visit, in the order of time.
 *
 *   unit |    o        #            o: a sample of arm 0, # of arm 1; hollow: a warm-up
 *        |   o-o      #-#     o     the line is the visit's mean
 *        |           #       o-o
 *        +----1----|----2----|----3---- */
#include "report_plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 280, TOP = 12, BOTTOM = 252 };

static double y_of(const rep_scale *s, double v) {
    double y = BOTTOM - (BOTTOM - TOP) * (v - s->low) / (s->high - s->low);
    return y < 4 ? 4 : y > BOTTOM ? BOTTOM : y;
}

/* Warm-ups may lie far off: they do not stretch the scale, and are drawn at its edge then. */
static bool scale_of(const rep_page *p, rep_scale *s) {
    const lab_verdict *v = p->verdict;
    int arm;
    *s = rep_scale_none();
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *x = rep_sample(v, i, &arm);
        if (x && !x->warmup) rep_scale_add(s, x->value);
    }
    return rep_scale_end(s, false, 7);
}

static int by_order(const void *a, const void *b) {
    const rep_visit *x = a, *y = b;
    if (x->first->order != y->first->order) return x->first->order < y->first->order ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void axis(rep_text *out, const rep_scale *s, const char *unit) {
    char text[REP_NUMBER];
    double v;
    rep_putf(out, "<svg class=\"ticks\" width=\"76\" height=\"%d\" aria-hidden=\"true\" focusable=\"false\">", HEIGHT);
    for (int i = 0; rep_tick_at(s, i, &v); i++)
        rep_putf(out, "<text x=\"70\" y=\"%.1f\" text-anchor=\"end\">%s</text>", y_of(s, v) + 4, rep_tick(text, s, v));
    rep_put(out, "<text class=\"unit\" x=\"70\" y=\"276\" text-anchor=\"end\">visit</text></svg>");
    (void)unit;
}

static void grid(rep_text *out, const rep_scale *s, int visits) {
    double width = 100.0 / visits, v;
    int every = visits <= 16 ? 1 : (visits + 15) / 16;
    for (int i = 0; i < visits; i += 2)
        rep_putf(out, "<rect class=\"lane\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"0\" height=\"%d\"/>", i * width, width,
                 BOTTOM);
    for (int i = 0; rep_tick_at(s, i, &v); i++)
        rep_putf(out, "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", y_of(s, v), y_of(s, v));
    rep_putf(out, "<line class=\"edge\" x1=\"0\" x2=\"100%%\" y1=\"%d\" y2=\"%d\"/>", BOTTOM, BOTTOM);
    for (int i = 0; i < visits; i += every)
        rep_putf(out, "<text x=\"%.2f%%\" y=\"%d\" text-anchor=\"middle\">%d</text>", (i + 0.5) * width, BOTTOM + 18,
                 i + 1);
}

static void point(const rep_page *p, rep_text *out, const rep_scale *s, const lab_sample *x, int arm, double at) {
    const lab_verdict *v = p->verdict;
    char number[REP_NUMBER];
    double y = y_of(s, x->value);
    bool off = x->value < s->low || x->value > s->high;
    rep_putf(out, "<use href=\"#m%d\" class=\"pt c%d%s%s\" x=\"%.2f%%\" y=\"%.1f\"><title>", arm % REP_COLOURS,
             arm % REP_COLOURS, x->warmup ? " warm" : "", off ? " off" : "", at, y);
    rep_text t = {0};
    rep_put_clean(&t, x->arm);
    rep_escape(out, t.text ? t.text : "");
    mem_free(t.text);
    rep_putf(out, ", visit %d", x->visit);
    if (x->iteration) rep_putf(out, ", iteration %d", x->iteration);
    rep_putf(out, ": %s ", rep_number(number, x->value, rep_value_decimals(v)));
    t = (rep_text){0};
    rep_put_clean(&t, rep_unit(v));
    rep_escape(out, t.text ? t.text : "");
    mem_free(t.text);
    rep_putf(out, "%s%s</title></use>", x->warmup ? ", warm-up" : "", off ? ", beyond the scale" : "");
}

/* The samples of a visit side by side, and their mean. */
static void visit(const rep_page *p, rep_text *out, const rep_scale *s, const rep_visit *r, int column, int visits) {
    const lab_verdict *v = p->verdict;
    double left = 100.0 * column / visits, width = 100.0 / visits, sum = 0;
    int arm, n = 0, seen = 0;
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *x = rep_sample(v, i, &arm);
        if (!x || arm != r->arm || x->visit != r->first->visit || !isfinite(x->value)) continue;
        if (!x->warmup) sum += x->value, n++;
    }
    if (n)
        rep_putf(out, "<line class=\"mean c%d\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>",
                 r->arm % REP_COLOURS, left + width * 0.1, left + width * 0.9, y_of(s, sum / n), y_of(s, sum / n));
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *x = rep_sample(v, i, &arm);
        if (!x || arm != r->arm || x->visit != r->first->visit || !isfinite(x->value)) continue;
        double share = r->samples > 1 ? 0.15 + 0.7 * seen / (r->samples - 1) : 0.5;
        point(p, out, s, x, arm, left + width * share);
        seen++;
    }
}

static void legend(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    char number[REP_NUMBER];
    bool warm = false;
    rep_put(out, "<ul class=\"legend\">");
    for (int i = 0; i < v->arm_count; i++) {
        rep_text t = {0};
        rep_put_clean(&t, v->arms[i].name);
        rep_putf(out,
                 "<li><svg width=\"16\" height=\"16\" aria-hidden=\"true\" focusable=\"false\"><use href=\"#m%d\" "
                 "class=\"c%d\" x=\"8\" y=\"8\"/></svg>",
                 i % REP_COLOURS, i % REP_COLOURS);
        rep_escape(out, t.text ? t.text : "");
        rep_putf(out, ", mean %s</li>", rep_number(number, v->arms[i].mean, rep_value_decimals(v)));
        warm = warm || v->arms[i].left_out;
        mem_free(t.text);
    }
    if (warm)
        rep_put(out, "<li><svg width=\"16\" height=\"16\" aria-hidden=\"true\" focusable=\"false\"><use href=\"#m0\" "
                     "class=\"c0 warm\" x=\"8\" y=\"8\"/></svg>hollow: warm-up, left out</li>");
    rep_put(out, "<li><span class=\"dash\"></span>mean of a visit</li></ul>\n");
}

void rep_draw_strip(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    rep_scale s;
    rep_text unit = {0};
    int visits;
    rep_visit *rows = rep_visits((rep_page *)p, REP_BY_VISIT, &visits);
    if (rows && scale_of(p, &s)) {
        qsort(rows, (size_t)visits, sizeof *rows, by_order);
        rep_put_clean(&unit, rep_unit(v));
        rep_put(out, "<figure class=\"strip\">\n<figcaption>Every sample in ");
        rep_escape(out, unit.text ? unit.text : "");
        rep_put(out,
                ", by visit in the order of time.</figcaption>\n<div class=\"frame\" tabindex=\"0\" role=\"group\" "
                "aria-label=\"Plot of all samples; the table below lists them. Arrow keys go from sample to "
                "sample.\">");
        axis(out, &s, unit.text);
        rep_putf(out, "<svg class=\"area\" width=\"100%%\" height=\"%d\" aria-hidden=\"true\" focusable=\"false\">",
                 HEIGHT);
        grid(out, &s, visits);
        for (int i = 0; i < visits; i++) visit(p, out, &s, &rows[i], i, visits);
        rep_put(out, "</svg><div class=\"tip\" role=\"status\" hidden></div></div>\n");
        legend(p, out);
        rep_put(out, "</figure>\n");
        mem_free(unit.text);
    }
    mem_free(rows);
}
