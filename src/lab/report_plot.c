/* report_plot.c: scales, and plots made of rows. */
#include "report_plot.h"
#include <math.h>
#include <string.h>

rep_scale rep_scale_none(void) {
    return (rep_scale){.low = NAN, .high = NAN};
}

void rep_scale_add(rep_scale *s, double v) {
    if (!isfinite(v)) return;
    if (!(s->low <= v)) s->low = v;
    if (!(s->high >= v)) s->high = v;
}

/* The smallest of 1, 2, 5 times a power of ten that is not below v > 0. */
static double round_step(double v, int *decimals) {
    static const double steps[] = {1, 2, 5};
    double power = 1;
    for (; power > v && power > 1e-300; power /= 10) continue;
    for (; power * 10 <= v; power *= 10) continue;
    *decimals = 0;
    for (double p = power; p < 0.99 && *decimals < 9; p *= 10) ++*decimals;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= v * (1 - 1e-9)) return steps[i] * power;
    if (*decimals) --*decimals;
    return 10 * power;
}

bool rep_scale_end(rep_scale *s, bool zero, int ticks) {
    if (!isfinite(s->low)) return false;
    double span = s->high - s->low, least = fabs(s->high) * 1e-6 + 1e-12;
    if (zero) {
        s->low = 0;
        if (s->high <= 0) s->high = 1;
        s->high *= 1.02;
    } else {
        if (span < least) span = fabs(s->high) > 0 ? fabs(s->high) * 0.02 : 1;
        s->low -= span * 0.06;
        s->high += span * 0.06;
    }
    s->step = round_step((s->high - s->low) * (s->percent ? 100 : 1) / ticks, &s->decimals);
    if (s->percent) s->step /= 100;
    return true;
}

/* A little room at both ends for what is drawn round a point. */
double rep_place_of(const rep_scale *s, double v) {
    double at = 2 + 96 * (v - s->low) / (s->high - s->low);
    return !(at > 0) ? 0 : at > 100 ? 100 : at;
}

bool rep_tick_at(const rep_scale *s, int i, double *v) {
    enum { MOST = 24 }; /* more than any scale has; of a step that no longer changes the value, an end */
    *v = (ceil(s->low / s->step - 1e-9) + i) * s->step;
    return i < MOST && *v <= s->high;
}

const char *rep_tick(char text[REP_NUMBER], const rep_scale *s, double v) {
    return s->percent ? rep_percent(text, v, s->decimals) : rep_number(text, v, s->decimals);
}

/* ---- rows ---- */

void rep_rows_open(rep_text *out, const char *name, const char *caption) {
    rep_putf(out, "<figure class=\"rows %s\">\n<figcaption>", name);
    rep_escape(out, caption);
    rep_put(out, "</figcaption>\n");
}

/* The value's first part, up to ';' or '(', stands out. */
static void put_value(rep_text *out, const char *value) {
    char first[200];
    size_t n = strcspn(value, ";(");
    snprintf(first, sizeof first, "%.*s", (int)n, value);
    rep_put(out, "<b>");
    rep_escape(out, first);
    rep_put(out, "</b>");
    if (!value[n]) return;
    rep_put(out, " <span>");
    rep_escape(out, value[n] == ';' ? value + n + 2 : value + n);
    rep_put(out, "</span>");
}

void rep_row_open(rep_text *out, const char *label, const char *value, bool main) {
    rep_putf(out, "<div class=\"row%s\"><div class=\"label\">", main ? " main" : "");
    rep_escape(out, label);
    rep_put(out, "</div><div class=\"value\">");
    put_value(out, value);
    rep_put(out, "</div><div class=\"bar\"><svg width=\"100%\" height=\"100%\" aria-hidden=\"true\" "
                 "focusable=\"false\">");
}

void rep_row_close(rep_text *out) {
    rep_put(out, "</svg></div></div>\n");
}

void rep_rows_axis(rep_text *out, const rep_scale *s, const char *title) {
    char text[REP_NUMBER];
    rep_put(out, "<div class=\"row axis\"><div class=\"label\"></div><div class=\"value\"></div>"
                 "<div class=\"bar\"><svg width=\"100%\" height=\"40\" aria-hidden=\"true\" focusable=\"false\">");
    rep_put(out, "<line class=\"edge\" x1=\"0\" x2=\"100%\" y1=\"0.5\" y2=\"0.5\"/>");
    double v;
    for (int n = 0; rep_tick_at(s, n, &v); n++) {
        double x = rep_place_of(s, v);
        rep_putf(out, "<line class=\"edge\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"5\"/>", x, x);
        rep_putf(out, "<text%s x=\"%.2f%%\" y=\"17\" text-anchor=\"%s\">%s</text>", n % 2 ? " class=\"odd\"" : "", x,
                 x < 4    ? "start"
                 : x > 96 ? "end"
                          : "middle",
                 rep_tick(text, s, v));
    }
    rep_put(out, "<text class=\"unit\" x=\"50%\" y=\"34\" text-anchor=\"middle\">");
    rep_escape(out, title);
    rep_put(out, "</text></svg></div></div>\n");
}

void rep_rows_close(rep_text *out) {
    rep_put(out, "</figure>\n");
}

void rep_bar(rep_text *out, const rep_scale *s, double from, double to, const char *class, int height) {
    double a = rep_place_of(s, from < to ? from : to), b = rep_place_of(s, from < to ? to : from);
    rep_putf(out, "<rect class=\"%s\" x=\"%.2f%%\" width=\"%.2f%%\" ", class, a, b - a);
    if (height)
        rep_putf(out, "y=\"50%%\" height=\"%d\" transform=\"translate(0 -%d)\"/>", height, height / 2);
    else
        rep_put(out, "y=\"0\" height=\"100%\"/>");
}

void rep_line_v(rep_text *out, const rep_scale *s, double at, const char *class) {
    double x = rep_place_of(s, at);
    rep_putf(out, "<line class=\"%s\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"100%%\"/>", class, x, x);
}

void rep_whisker(rep_text *out, const rep_scale *s, double from, double to, const char *class) {
    double ends[2] = {rep_place_of(s, from), rep_place_of(s, to)};
    rep_putf(out, "<svg y=\"50%%\" overflow=\"visible\" class=\"%s\"><line x1=\"%.2f%%\" x2=\"%.2f%%\"/>", class,
             ends[0], ends[1]);
    for (int i = 0; i < 2; i++)
        rep_putf(out, "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"-5\" y2=\"5\"/>", ends[i], ends[i]);
    rep_put(out, "</svg>");
}

void rep_mark(rep_text *out, double percent, int arm) {
    rep_putf(out, "<use href=\"#m%d\" class=\"c%d\" x=\"%.2f%%\" y=\"50%%\"/>", arm % REP_COLOURS, arm % REP_COLOURS,
             percent);
}
