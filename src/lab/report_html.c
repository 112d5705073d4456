/* report_html.c: the page as one HTML file: no network, its style and script inside, its plots drawn inline.
 *
 * The page's own policy forbids every request, and every script but the one inside (by its hash), so that a name from
 * the samples could not run even if it escaped the escaping. */
#include "report.h"
#include <math.h>
#include <string.h>

extern const char lab_report_css[], lab_report_js[]; /* the files beside this one, embedded */

void rep_escape(rep_text *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            rep_put(out, "&amp;");
            break;
        case '<':
            rep_put(out, "&lt;");
            break;
        case '>':
            rep_put(out, "&gt;");
            break;
        case '"':
            rep_put(out, "&quot;");
            break;
        case '\'':
            rep_put(out, "&#39;");
            break;
        case ' ': /* a figure and its "%" stay on one line */
            rep_put(out, text[1] == '%' ? "\xC2\xA0" : " ");
            break;
        default:
            rep_put_n(out, text, 1);
        }
    }
}

void rep_draw(const rep_page *p, rep_figure figure, rep_text *out) {
    static void (*const draws[])(const rep_page *, rep_text *) = {
        [REP_INTERVALS] = rep_draw_intervals, [REP_STRIP] = rep_draw_strip,     [REP_LADDER] = rep_draw_ladder,
        [REP_WATERFALL] = rep_draw_waterfall, [REP_PROFILE] = rep_draw_profile,
    };
    draws[figure](p, out);
}

/* ---- the head ---- */

static int nibble(char c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* SHA-256 in base64, as a policy names a script. */
static void script_hash(char base64[48]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[33] = {0};
    char hex[65];
    sha256 s;
    int n = 0;
    sha256_init(&s);
    sha256_add(&s, lab_report_js, strlen(lab_report_js));
    sha256_hex(&s, hex);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    for (int i = 0; i < 33; i += 3) {
        unsigned long w = (unsigned long)bytes[i] << 16 | (unsigned long)bytes[i + 1] << 8 | bytes[i + 2];
        for (int j = 18; j >= 0; j -= 6) base64[n++] = digits[w >> j & 63];
    }
    base64[43] = '=';
    base64[44] = 0;
}

static void put_head(const rep_page *p, rep_text *out) {
    char hash[48];
    script_hash(hash);
    rep_put(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    rep_putf(out,
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
             "'unsafe-inline'; "
             "script-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n",
             hash);
    rep_put(out, "<link rel=\"icon\" href=\"data:,\">\n<title>");
    rep_escape(out, p->title.text);
    rep_put(out, "</title>\n<style>\n");
    rep_put(out, lab_report_css);
    rep_put(out, "</style>\n</head>\n");
}

/* The marks of the arms: another shape for each, so that colour is not needed. */
static void put_marks(rep_text *out) {
    static const char *const marks[] = {
        "<circle id=\"m0\" r=\"5\"/>",
        "<rect id=\"m1\" x=\"-4.6\" y=\"-4.6\" width=\"9.2\" height=\"9.2\"/>",
        "<path id=\"m2\" d=\"M0-6 5.6 4.2H-5.6Z\"/>",
        "<path id=\"m3\" d=\"M0-6.4 6.4 0 0 6.4-6.4 0Z\"/>",
        "<path id=\"m4\" d=\"M0 6 5.6-4.2H-5.6Z\"/>",
        "<path id=\"m5\" d=\"M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z\"/>",
        "<path id=\"m6\" d=\"M0-6 5.7-1.9 3.5 4.9H-3.5L-5.7-1.9Z\"/>",
        "<path id=\"m7\" d=\"M-3-5.4H3L6 0 3 5.4H-3L-6 0Z\"/>",
    };
    rep_put(out, "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\" focusable=\"false\">"
                 "<defs>");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) rep_put(out, marks[i]);
    rep_put(out, "</defs></svg>\n");
}

/* ---- the outcome ---- */

static void put_icon(rep_text *out, lab_outcome o) {
    static const char *const shapes[] = {
        [LAB_WIN] = "M6 12.5 10.2 17 18 7.5",
        [LAB_LOSS] = "M7 7 17 17M17 7 7 17",
        [LAB_WITHIN_NOISE] = "M6 10C8 7.5 10 7.5 12 9.5S16 11.5 18 9M6 15C8 12.5 10 12.5 12 14.5S16 16.5 18 14",
        [LAB_UNDERPOWERED] = "M8.6 9.2A3.5 3.5 0 1 1 13.4 12.4C12.3 13 12 13.4 12 14.6M12 17.6V17.8",
        [LAB_REFUSED] = "M6.5 12H17.5",
    };
    rep_putf(out,
             "<svg width=\"24\" height=\"24\" viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" "
             "stroke-width=\"2.2\" stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\" "
             "focusable=\"false\"><circle cx=\"12\" cy=\"12\" r=\"10.5\" stroke-width=\"1.6\"/><path d=\"%s\"/></svg>",
             shapes[o]);
}

static void put_outcome(rep_text *out, lab_outcome o, const char *line, size_t len) {
    char sentence[2000];
    snprintf(sentence, sizeof sentence, "%.*s", (int)(len < sizeof sentence ? len : sizeof sentence - 1), line);
    char *rest = strchr(sentence, ':');
    rep_putf(out, "<div class=\"outcome %s\">", lab_outcome_name(o));
    put_icon(out, o);
    rep_put(out, "<p>");
    if (rest) {
        *rest = 0;
        rep_put(out, "<strong>");
        rep_escape(out, sentence);
        rep_put(out, ":</strong>");
    }
    rep_escape(out, rest ? rest + 1 : sentence);
    rep_put(out, "</p></div>\n");
}

/* How the sentence of a contrast looks: a ceiling claims nothing, so it is no win in green. */
static lab_outcome look_of(const lab_contrast *c) {
    return c->ceiling && c->outcome != LAB_REFUSED ? LAB_WITHIN_NOISE : c->outcome;
}

static void put_outcomes(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    const char *line = p->outcome.text;
    rep_putf(out, "<div class=\"outcomes%s\">\n", v->arm_count > 2 ? " several" : "");
    for (int i = 0; *line; i++) {
        size_t n = strcspn(line, "\n");
        put_outcome(out, i + 1 < v->arm_count ? look_of(&v->contrasts[i]) : v->outcome, line, n);
        line += n + (line[n] == '\n');
    }
    rep_put(out, "</div>\n");
}

static void tile(rep_text *out, const char *value, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void tile(rep_text *out, const char *value, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rep_put(out, "<li><b>");
    rep_escape(out, value);
    rep_put(out, "</b><span>");
    rep_escape(out, text);
    rep_put(out, "</span></li>\n");
}

/* The figures that a reader asks for first, of the only contrast. */
static void put_tiles(const rep_page *p, rep_text *out) {
    const lab_verdict *v = p->verdict;
    const lab_contrast *c = v->contrasts;
    char value[80], a[REP_NUMBER], b[REP_NUMBER];
    int d;
    if (v->arm_count != 2 || c->outcome == LAB_REFUSED) return;
    d = rep_ratio_decimals(v);
    rep_put(out, "<ul class=\"tiles\">\n");
    tile(out, rep_percent(value, c->ratio - 1, d - 2), "change; %s to %s at %s %%",
         rep_percent(a, c->interval[0] - 1, d - 2), rep_percent(b, c->interval[1] - 1, d - 2),
         rep_number((char[REP_NUMBER]){0}, (1 - v->question.level) * 100, v->question.level < 0.0095 ? 1 : 0));
    tile(out, rep_number(value, c->ratio, d), "ratio of means");
    tile(out, rep_p(value, c->p), "p, exact permutation; its floor is %s", rep_p(a, c->p_floor));
    tile(out, rep_number(value, c->separation, rep_value_decimals(v)), "separation; %s",
         c->separation > 0 ? "every sample of one beats the other" : "samples overlap");
    snprintf(value, sizeof value, "%d + %d", c->reference->visits, c->arm->visits);
    if (c->visits_needed > 0)
        tile(out, value, "visits; %d per arm needed for %s %%", c->visits_needed,
             rep_number(a, v->question.effect * 100, rep_decimals(v->question.effect * 100) - 2));
    else
        tile(out, value, "visits");
    rep_put(out, "</ul>\n");
}

/* ---- the blocks ---- */

static void put_nav(const rep_page *p, rep_text *out) {
    rep_put(out, "<nav aria-label=\"Sections\"><ul>");
    for (int i = 0; i < p->count; i++) {
        if (p->blocks[i].kind != REP_HEADING) continue;
        rep_putf(out, "<li><a href=\"#s%d\">", i);
        rep_escape(out, rep_words(p, &p->blocks[i]));
        rep_put(out, "</a></li>");
    }
    rep_put(out, "</ul></nav>\n");
}

static void put_row(const rep_block *b, const char **cell, int columns, bool head, rep_text *out) {
    rep_put(out, "<tr>");
    for (int c = 0; c < columns; c++, *cell = rep_next(*cell)) {
        bool named = head || !c;
        bool no = !head && !strcmp(*cell, "FAILED");
        rep_putf(out, "<%s class=\"%c%s\"%s>", named ? "th" : "td", b->align[c], no ? " no" : "",
                 head    ? " scope=\"col\""
                 : named ? " scope=\"row\""
                         : "");
        rep_escape(out, *cell);
        rep_putf(out, "</%s>", named ? "th" : "td");
    }
    rep_put(out, "</tr>\n");
}

static void put_table(const rep_page *p, int i, rep_text *out) {
    const rep_block *b = &p->blocks[i];
    int columns = (int)strlen(b->align), rows = b->cells / columns;
    const char *cell = rep_next(rep_words(p, b));
    rep_put(out, b->folded ? "<details class=\"table\"><summary" : "<div class=\"table\"><p class=\"caption\"");
    rep_putf(out, " id=\"t%d\">", i);
    rep_escape(out, rep_words(p, b));
    if (b->folded) rep_putf(out, " (%d)", rows - 1);
    rep_putf(out, "</%s>\n<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" aria-labelledby=\"t%d\">",
             b->folded ? "summary" : "p", columns < 4 ? " small" : "", i);
    rep_putf(out, "<table aria-labelledby=\"t%d\">\n<thead>", i);
    put_row(b, &cell, columns, true, out);
    rep_put(out, "</thead>\n<tbody>\n");
    for (int r = 1; r < rows; r++) put_row(b, &cell, columns, false, out);
    rep_put(out, "</tbody></table></div>");
    rep_put(out, b->folded ? "</details>\n" : "</div>\n");
}

static void put_block(const rep_page *p, int i, rep_text *out) {
    const rep_block *b = &p->blocks[i];
    switch (b->kind) {
    case REP_HEADING:
        rep_putf(out, "<h2 id=\"s%d\">", i);
        rep_escape(out, rep_words(p, b));
        rep_put(out, "</h2>\n");
        break;
    case REP_LINE:
        rep_put(out, "<p>");
        rep_escape(out, rep_words(p, b));
        rep_put(out, "</p>\n");
        break;
    case REP_CODE:
        rep_put(out, "<pre tabindex=\"0\"><code>");
        rep_escape(out, rep_words(p, b));
        rep_put(out, "</code></pre>\n");
        break;
    case REP_TABLE:
        put_table(p, i, out);
        break;
    case REP_FIGURE:
        rep_draw(p, b->figure, out);
        break;
    }
}

void rep_write_html(const rep_page *p, rep_text *out) {
    put_head(p, out);
    rep_put(out, "<body>\n<a class=\"skip\" href=\"#main\">Skip to the result</a>\n");
    put_marks(out);
    rep_put(out, "<header>\n<p class=\"kind\">cadre A/B report</p>\n<h1>");
    rep_escape(out, p->title.text);
    rep_put(out, "</h1>\n<p class=\"asks\">");
    rep_escape(out, p->asks.text);
    rep_put(out, "</p>\n");
    put_outcomes(p, out);
    put_tiles(p, out);
    put_nav(p, out);
    rep_put(out, "</header>\n<main id=\"main\">\n");
    for (int i = 0; i < p->count; i++) put_block(p, i, out);
    rep_put(out, "</main>\n<script>");
    rep_put(out, lab_report_js);
    rep_put(out, "</script>\n</body>\n</html>\n");
}
