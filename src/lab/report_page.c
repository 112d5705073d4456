/* report_page.c: the page of a report: a growing text, blocks, cells, and how figures are printed. */
#include "report.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the growing text ---- */

void rep_put_n(rep_text *t, const char *text, size_t len) {
    size_t need;
    if (t->failed || !mem_add(t->len, len, &need) || need >= SIZE_MAX / 4) {
        t->failed = true;
        return;
    }
    if (need >= t->cap) { /* one byte stays for the terminator */
        size_t cap = need * 2 < 1024 ? 1024 : need * 2;
        char *grown = mem_resize(t->text, t->cap, cap);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->text = grown;
        t->cap = cap;
    }
    memcpy(t->text + t->len, text, len);
    t->len += len;
    t->text[t->len] = 0;
}

void rep_put(rep_text *t, const char *text) {
    rep_put_n(t, text, strlen(text));
}

static void put_formatted(rep_text *t, bool clean, const char *format, va_list args) {
    char text[2000];
    vsnprintf(text, sizeof text, format, args);
    if (clean)
        rep_put_clean(t, text);
    else
        rep_put(t, text);
}

void rep_putf(rep_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_formatted(t, false, format, args);
    va_end(args);
}

void rep_vputf_clean(rep_text *t, const char *format, va_list args) {
    put_formatted(t, true, format, args);
}

static bool unprintable(uint32_t c) {
    return c < 32 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

void rep_put_clean(rep_text *t, const char *text) {
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    for (int n; p < end; p += n) {
        uint32_t c = utf8_decode(p, end, &n);
        if (c == UTF8_BAD)
            rep_put(t, "\xEF\xBF\xBD");
        else if (unprintable(c))
            rep_put(t, "?");
        else
            rep_put_n(t, (const char *)p, (size_t)n);
    }
}

/* ---- blocks ---- */

static rep_block *add(rep_page *p, rep_kind kind) {
    static rep_block none;
    if (p->count == p->cap) {
        int cap = p->cap ? p->cap * 2 : 32;
        rep_block *grown = mem_resize(p->blocks, (size_t)p->cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown) {
            p->failed = true;
            return &none;
        }
        p->blocks = grown;
        p->cap = cap;
    }
    p->blocks[p->count] = (rep_block){.kind = kind, .at = p->words.len};
    return &p->blocks[p->count++];
}

/* Ends a text of `words`. */
static void end(rep_page *p) {
    rep_put_n(&p->words, "", 1);
}

void rep_heading(rep_page *p, const char *text) {
    add(p, REP_HEADING);
    rep_put_clean(&p->words, text);
    end(p);
}

void rep_line(rep_page *p, const char *format, ...) {
    va_list args;
    add(p, REP_LINE);
    va_start(args, format);
    rep_vputf_clean(&p->words, format, args);
    va_end(args);
    end(p);
}

void rep_code(rep_page *p, const char *text) {
    add(p, REP_CODE);
    rep_put_clean(&p->words, text);
    end(p);
}

void rep_place(rep_page *p, rep_figure figure) {
    add(p, REP_FIGURE)->figure = figure;
    end(p);
}

void rep_cell(rep_page *p, const char *format, ...) {
    va_list args;
    if (!p->count) return; /* out of memory */
    va_start(args, format);
    rep_vputf_clean(&p->words, format, args);
    va_end(args);
    end(p);
    p->blocks[p->count - 1].cells++;
}

void rep_table(rep_page *p, const char *align, const char *caption, const char *head) {
    add(p, REP_TABLE)->align = align;
    rep_put_clean(&p->words, caption);
    end(p);
    for (size_t n; *head; head += n + (head[n] == '|')) {
        n = strcspn(head, "|");
        rep_cell(p, "%.*s", (int)n, head);
    }
}

const char *rep_words(const rep_page *p, const rep_block *b) {
    return p->words.text + b->at;
}
const char *rep_next(const char *cell) {
    return cell + strlen(cell) + 1;
}

void rep_page_done(rep_page *p) {
    mem_free(p->title.text);
    mem_free(p->asks.text);
    mem_free(p->outcome.text);
    mem_free(p->words.text);
    mem_free(p->blocks);
    *p = (rep_page){0};
}

/* ---- figures ---- */

const char *rep_number(char text[REP_NUMBER], double v, int decimals) {
    if (!isfinite(v)) return strcpy(text, "-");
    snprintf(text, REP_NUMBER, fabs(v) < 1e15 ? "%.*f" : "%.*e", decimals, v);
    char *p = text + strspn(text, "-0123456789");
    if (*p && *p != 'e') *p = '.'; /* the program's locale may write another point */
    bool zero = *text == '-' && !text[1 + strspn(text + 1, "0.")];
    if (zero) memmove(text, text + 1, strlen(text));
    return text;
}

const char *rep_percent(char text[REP_NUMBER], double v, int decimals) {
    char digits[REP_NUMBER];
    if (!isfinite(v)) return strcpy(text, "-");
    rep_number(digits, v * 100, decimals);
    snprintf(text, REP_NUMBER, "%s%.24s %%", *digits == '-' || !digits[strspn(digits, "0.")] ? "" : "+", digits);
    return text;
}

const char *rep_p(char text[REP_NUMBER], double v) {
    if (!isfinite(v)) return strcpy(text, "-");
    snprintf(text, REP_NUMBER, "%.3g", v);
    char *p = text + strspn(text, "-0123456789");
    if (*p && *p != 'e') *p = '.';
    return text;
}

int rep_decimals(double spread) {
    int decimals = 2;
    spread = fabs(spread);
    if (!isfinite(spread) || spread <= 0) return 3;
    for (; spread < 1 && decimals < 9; spread *= 10) decimals++;
    for (; spread >= 10 && decimals > 0; spread /= 10) decimals--;
    return decimals;
}

/* Of the arm that spreads least, so that its figures are not cut. Without a spread: four figures of the mean. */
int rep_value_decimals(const lab_verdict *v) {
    double least = NAN, size = NAN;
    for (int i = 0; i < v->arm_count; i++) {
        double sd = v->arms[i].sd;
        if (sd > 0 && !(sd >= least)) least = sd;
        if (fabs(v->arms[i].mean) > 0 && !(fabs(v->arms[i].mean) >= size)) size = fabs(v->arms[i].mean);
    }
    return rep_decimals(least > 0 ? least : size / 10);
}

/* Of one sample an interval is a point: that is none. */
bool rep_interval_known(const double interval[2]) {
    return isfinite(interval[0]) && isfinite(interval[1]) && interval[0] < interval[1];
}

/* Two figures of the narrowest interval; one number for all contrasts, so that a column can be read down. */
int rep_ratio_decimals(const lab_verdict *v) {
    int most = 4;
    for (int i = 0; i + 1 < v->arm_count; i++) {
        const double *interval = v->contrasts[i].interval;
        int decimals = rep_interval_known(interval) ? rep_decimals(interval[1] - interval[0]) - 1 : 4;
        if (decimals > most) most = decimals;
    }
    return most > 6 ? 6 : most;
}
