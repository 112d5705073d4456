/* claims_scan.c: a line of text to tokens: words, figures with their units, and the signs that relate figures.
 *
 *   "+2.290% throughput, 23016.42 -> 23543.46 tok/s"   FIGURE(+2.290 %) WORD , FIGURE -> FIGURE(tok/s)
 *   "MTP6 #241 v0.28.0 4k/128 2026-09-19 `-n 4`"       WORDs: digits in names are no figures
 *   "M=8"                                              WORD(M) FIGURE(8, named) */
#include "claims.h"
#include <math.h>
#include <string.h>

typedef struct scan {
    claims_doc *d;
    const char *text;
    size_t at, start, end;
    int line, braces;
} scan;

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static bool letter(char c) {
    unsigned char u = (unsigned char)c; /* 0xE2 begins arrows, dashes and quotes */
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '#' || (u >= 0xC3 && u != 0xE2);
}

static char peek(const scan *s, size_t ahead) {
    return s->at + ahead < s->end ? s->text[s->at + ahead] : ' ';
}

static char before(const scan *s) {
    return s->at > s->start ? s->text[s->at - 1] : ' ';
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '|';
}

static bool starts(const scan *s, const char *what) {
    size_t n = strlen(what);
    return s->end - s->at >= n && !memcmp(s->text + s->at, what, n);
}

static claims_token *add(scan *s, claims_kind kind, size_t len) {
    claims_doc *d = s->d;
    if (!claims_grow(d, (void **)&d->tokens, d->token_count, &d->token_cap, sizeof *d->tokens)) {
        s->at = s->end;
        return NULL;
    }
    claims_token *t = &d->tokens[d->token_count++];
    *t = (claims_token){.kind = kind, .line = s->line, .at = (uint32_t)s->at, .len = (uint32_t)len};
    t->value = t->high = NAN;
    s->at += len;
    return t;
}

/* ---- words ---- */

static const char *const numbers[] = {"one",   "two",   "three", "four", "five",   "six",
                                      "seven", "eight", "nine",  "ten",  "eleven", "twelve"};

static double spelled(const char *text, size_t len) {
    char low[8] = "";
    if (len >= sizeof low) return NAN;
    for (size_t i = 0; i < len; i++) low[i] = (char)(text[i] | 32);
    for (int i = 0; i < 12; i++)
        if (!strcmp(low, numbers[i])) return i + 1;
    return NAN;
}

/* Names hold digits, points, hyphens and slashes inside; a hyphen before > is an arrow. */
static size_t word_length(const scan *s) {
    size_t n = 0;
    for (; s->at + n < s->end; n++) {
        char c = s->text[s->at + n], next = peek(s, n + 1);
        if ((unsigned char)c == 0xC3 && ((unsigned char)next == 0x97 || (unsigned char)next == 0xB7)) break;
        if (letter(c) || digit(c) || c == '\'') continue;
        if ((c == '.' || c == '-' || c == '/' || c == ':' || c == '@') && (letter(next) || digit(next)) && n) continue;
        if ((unsigned char)c >= 0x80 && (unsigned char)c < 0xC0 && n && (unsigned char)s->text[s->at + n - 1] >= 0x80)
            continue;
        break;
    }
    return n ? n : 1;
}

static void word(scan *s, size_t len) {
    claims_token *t = add(s, CLAIMS_WORD, len);
    if (!t) return;
    t->value = spelled(s->text + t->at, len);
    if (s->at < s->end && s->text[s->at] == '=' && digit(peek(s, 1))) s->at++; /* a setting */
}

/* `code` is a word. */
static bool code(scan *s) {
    const char *from = s->text + s->at + 1;
    size_t left = s->end - s->at - 1;
    const char *close = memchr(from, '`', left < 400 ? left : 400);
    if (!close) return false;
    add(s, CLAIMS_WORD, (size_t)(close - from) + 2);
    return true;
}

/* ---- figures ---- */

typedef struct number {
    double value;
    int decimals;
    size_t len;
} number;

/* "1,234": groups of three behind one to three digits. */
static size_t whole_length(const scan *s, size_t from, bool groups) {
    size_t n = from;
    while (digit(peek(s, n))) n++;
    if (!groups || n - from > 3) return n - from;
    while (peek(s, n) == ',' && digit(peek(s, n + 1)) && digit(peek(s, n + 2)) && digit(peek(s, n + 3)) &&
           !digit(peek(s, n + 4)))
        n += 4;
    return n - from;
}

static double digits_value(const char *text, size_t len) {
    double v = 0;
    for (size_t i = 0; i < len; i++)
        if (digit(text[i])) v = v * 10 + (text[i] - '0');
    return v;
}

static double ten_to(int n) {
    double v = 1, by = n < 0 ? 0.1 : 10;
    if (n < -320 || n > 320) return n < 0 ? 0 : INFINITY;
    if (n < 0) {
        for (int i = 0; i < -n; i++) v *= 10;
        return 1 / v;
    }
    for (int i = 0; i < n; i++) v *= by;
    return v;
}

static int exponent(const scan *s, size_t from, size_t *len) {
    size_t n = from;
    char c = peek(s, n), sign = peek(s, n + 1);
    int e = 0;
    *len = 0;
    if (c != 'e' && c != 'E') return 0;
    n += sign == '-' || sign == '+' ? 2 : 1;
    if (!digit(peek(s, n))) return 0;
    for (; digit(peek(s, n)); n++)
        if (e < 10000) e = e * 10 + (peek(s, n) - '0');
    *len = n - from;
    return sign == '-' ? -e : e;
}

static number read_number(const scan *s, size_t from, bool groups) {
    number x = {0};
    size_t whole = whole_length(s, from, groups), n = from + whole, more;
    x.value = digits_value(s->text + s->at + from, whole);
    if (peek(s, n) == '.' && digit(peek(s, n + 1))) {
        size_t dot = n++;
        while (digit(peek(s, n))) n++;
        x.decimals = n - dot - 1 < 300 ? (int)(n - dot - 1) : 300;
        x.value += digits_value(s->text + s->at + dot + 1, n - dot - 1) * ten_to(-(int)x.decimals);
    }
    int e = exponent(s, n, &more);
    x.value *= ten_to(e);
    x.decimals -= e;
    x.len = n + more - from;
    return x;
}

static size_t dash_at(const scan *s, size_t n) {
    if (peek(s, n) == '-') return 1;
    bool en = s->at + n + 3 <= s->end && !memcmp(s->text + s->at + n, "\xE2\x80\x93", 3);
    return en ? 3 : 0;
}

/* What follows digits and makes a name of them: "4k", "5.2.0", "2026-09-19", "12:30", "0x1f". */
static bool is_name(const scan *s, size_t n) {
    char c = peek(s, n), next = peek(s, n + 1);
    size_t unit;
    if ((c == '.' || c == ':' || c == '@') && digit(next)) return true;
    if (c == '-' && letter(next)) return true;
    if (!letter(c) && !((unsigned char)c == 0xC2 && (unsigned char)next == 0xB5)) return false;
    if ((unsigned char)c == 0xC3 && (unsigned char)next == 0x97) return false;
    return !claims_unit_at(s->text + s->at + n, s->end - s->at - n, true, &unit);
}

static size_t take_unit(scan *s, claims_token *t) {
    size_t space = 0, len = 0;
    if (s->at < s->end && s->text[s->at] == ' ') space = 1;
    if (starts(s, "\xC2\xA0")) space = 2;
    if (starts(s, "\xE2\x80\xAF") || starts(s, "\xE2\x80\x89")) space = 3;
    t->unit = claims_unit_at(s->text + s->at + space, s->end - s->at - space, !space, &len);
    return t->unit ? space + len : 0;
}

static void add_figure(scan *s, size_t sign, bool negative, number x, bool named) {
    claims_token *t = add(s, CLAIMS_FIGURE, sign + x.len);
    if (!t) return;
    t->value = negative ? -x.value : x.value;
    t->is_signed = sign > 0;
    t->decimals = x.decimals;
    t->named = named;
    /* "3-4 %": a range */
    size_t dash = dash_at(s, 0);
    if (dash && digit(peek(s, dash))) {
        number high = read_number(s, dash, true);
        t->high = negative ? -high.value : high.value;
        t->decimals = high.decimals < t->decimals ? high.decimals : t->decimals;
        t->len += (uint32_t)(dash + high.len);
        s->at += dash + high.len;
    }
    size_t unit = take_unit(s, t);
    s->at += unit;
}

/* Digits at s->at + sign. False: they belong to a name. */
static bool figure(scan *s, size_t sign, bool negative) {
    bool named = before(s) == '=' && s->at > s->start + 1 && letter(s->text[s->at - 2]);
    number x = read_number(s, sign, !s->braces && !named);
    size_t n = sign + x.len, dash = dash_at(s, n);
    if (is_name(s, n)) return false;
    if (dash && digit(peek(s, n + dash))) {
        number high = read_number(s, n + dash, true);
        size_t end = n + dash + high.len;
        if (high.value <= x.value || dash_at(s, end) || is_name(s, end)) return false;
    }
    add_figure(s, sign, negative, x, named);
    return true;
}

static void name_of_digits(scan *s, size_t skip) {
    size_t n = skip;
    while (s->at + n < s->end) {
        char c = s->text[s->at + n];
        bool inner = (c == '.' || c == '-' || c == ':' || c == '@' || c == '/') &&
                     (letter(peek(s, n + 1)) || digit(peek(s, n + 1)));
        if (!letter(c) && !digit(c) && !inner && (unsigned char)c < 0x80) break;
        n++;
    }
    word(s, n);
}

/* ---- signs ---- */

static const struct {
    const char *text;
    claims_kind kind;
} signs[] = {
    {"-->", CLAIMS_ARROW},
    {"->", CLAIMS_ARROW},
    {"=>", CLAIMS_ARROW},
    {"\xE2\x86\x92", CLAIMS_ARROW},
    {"\xE2\x87\x92", CLAIMS_ARROW},
    {"\xC3\x97", CLAIMS_TIMES},
    {"\xC2\xB7", CLAIMS_TIMES},
    {"\xE2\x8B\x85", CLAIMS_TIMES},
    {"\xC3\xB7", CLAIMS_SLASH},
    {"\xE2\x89\x88", CLAIMS_EQUALS},
    {"\xC2\xB1", CLAIMS_SPREAD},
    {"+/-", CLAIMS_SPREAD},
    {"+-", CLAIMS_SPREAD},
    {"\xE2\x80\x94", CLAIMS_DASH},
    {"\xE2\x80\xA2", CLAIMS_STOP},
    {"(", CLAIMS_OPEN},
    {")", CLAIMS_CLOSE},
    {"[", CLAIMS_OPEN},
    {"]", CLAIMS_CLOSE},
    {"{", CLAIMS_LIST},
    {"}", CLAIMS_LIST_END},
    {",", CLAIMS_COMMA},
    {":", CLAIMS_COLON},
    {";", CLAIMS_STOP},
    {"=", CLAIMS_EQUALS},
    {"/", CLAIMS_SLASH},
    {">", CLAIMS_GREATER},
    {"<", CLAIMS_LESS},
};

static size_t minus_at(const scan *s) {
    if (starts(s, "-")) return 1;
    return starts(s, "\xE2\x88\x92") || starts(s, "\xE2\x80\x93") ? 3 : 0;
}

/* A number before it makes "-" or "+" an operation unless a space stands before and none behind. */
static bool sign_or_operation(scan *s) {
    size_t minus = minus_at(s), n = minus ? minus : s->text[s->at] == '+';
    char was = before(s);
    if (!n || starts(s, "+-") || starts(s, "+/-") || starts(s, "-->") || starts(s, "->")) return false;
    bool opens = blank(was) || strchr("([{,:=~/*<>", was) || (unsigned char)was >= 0x80;
    if (opens && digit(peek(s, n)) && figure(s, n, minus != 0)) return true;
    if (blank(was) && blank(peek(s, n)))
        add(s, minus ? CLAIMS_MINUS : CLAIMS_PLUS, n);
    else
        s->at += n;
    return true;
}

static bool asterisk(scan *s) {
    if (s->text[s->at] != '*') return false;
    if (blank(before(s)) && blank(peek(s, 1)))
        add(s, CLAIMS_TIMES, 1);
    else
        s->at++;
    return true;
}

static bool times_letter(scan *s) {
    char c = s->text[s->at];
    if ((c != 'x' && c != 'X') || letter(peek(s, 1)) || digit(peek(s, 1))) return false;
    add(s, CLAIMS_TIMES, 1);
    return true;
}

/* A point ends a sentence unless it ends a short form. */
static bool stop(scan *s) {
    char c = s->text[s->at];
    if (c != '.' && c != '!' && c != '?') return false;
    const claims_doc *d = s->d;
    int last = d->token_count - 1;
    bool ends = blank(peek(s, 1)) || strchr("\"')*", peek(s, 1));
    if (c == '.' && claims_word(d, last, "vs|e|g|i|i.e|e.g|cf|approx|resp|incl|no|fig") &&
        d->tokens[last].at + d->tokens[last].len == s->at)
        ends = false;
    if (ends)
        add(s, CLAIMS_STOP, 1);
    else
        s->at++;
    return true;
}

static bool sign(scan *s) {
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!starts(s, signs[i].text)) continue;
        s->braces += signs[i].kind == CLAIMS_LIST;
        if (signs[i].kind == CLAIMS_LIST_END && s->braces) s->braces--;
        add(s, signs[i].kind, strlen(signs[i].text));
        return true;
    }
    return false;
}

static void other(scan *s) {
    unsigned char c = (unsigned char)s->text[s->at];
    s->at += c >= 0xE0 && c < 0xF0 && s->end - s->at >= 3 ? 3 : 1;
}

static bool follows(const claims_doc *d, const claims_token *t, const char *mark) {
    size_t n = strlen(mark);
    return t->at >= n && !memcmp(d->text + t->at - n, mark, n);
}

static int bound_of(const claims_doc *d, int i) {
    const claims_token *t = &d->tokens[i];
    bool than = claims_word(d, i - 1, "than");
    if (follows(d, t, "\xE2\x89\xA4") || claims_kind_at(d, i - 1) == CLAIMS_LESS) return 1;
    if (claims_word(d, i - 1, "most|under|below") || (than && claims_word(d, i - 2, "less|fewer|lower"))) return 1;
    if (claims_word(d, i - 1, "to") && claims_word(d, i - 2, "up")) return 1;
    if (follows(d, t, "\xE2\x89\xA5") || claims_word(d, i - 1, "least|over|above")) return -1;
    return than && claims_word(d, i - 2, "more|greater|higher") ? -1 : 0;
}

/* "~4.6" and bounds are marks of the figure that follows. */
static void mark_figures(claims_doc *d, int first) {
    for (int i = first; i < d->token_count; i++) {
        claims_token *t = &d->tokens[i];
        if (t->kind != CLAIMS_FIGURE || t->named) continue;
        t->about = follows(d, t, "~") || follows(d, t, "\xE2\x89\x88") ||
                   claims_word(d, i - 1, "about|around|roughly|approximately|circa|nearly|almost|some|ca");
        t->bound = bound_of(d, i);
    }
}

void claims_scan(claims_doc *d, size_t at, size_t end, int line) {
    scan s = {d, d->text, at, at, end, line, 0};
    int first = d->token_count;
    while (s.at < s.end && !d->failed && d->token_count < CLAIMS_TOKENS_MOST) {
        char c = s.text[s.at];
        if (blank(c) || (unsigned char)c < 32) {
            s.at++;
        } else if (c == '`' && code(&s)) {
            continue;
        } else if (digit(c)) {
            if (!figure(&s, 0, false)) name_of_digits(&s, 1);
        } else if (sign_or_operation(&s) || asterisk(&s) || times_letter(&s) || stop(&s) || sign(&s)) {
            continue;
        } else if (letter(c)) {
            word(&s, word_length(&s));
        } else {
            other(&s);
        }
    }
    mark_figures(d, first);
}
