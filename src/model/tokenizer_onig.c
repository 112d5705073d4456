/* tokenizer_onig.c: a pattern written for Oniguruma (Ruby's syntax), rewritten for PCRE2.
 *
 * Most of both languages is the same. What differs is rewritten where that is short, else refused: a pattern that
 * compiles but cuts elsewhere would give wrong ids in silence. Rewritten: \s \S \w \b \B (other sets of characters),
 * \v, \u, {,n}, script names (Oniguruma's \p{Han} is sc, PCRE2's scx). Refused: nested and intersected classes, POSIX
 * brackets, options other than a leading or scoped i, recursion, callouts, verbs, conditions, \K, \G, \R, \X, \h,
 * references by number, and intervals followed by ? or + (there Ruby repeats the repeat).
 */
#include "model/tokenizer_onig.h"
#include <stdio.h>
#include <string.h>

/* White_Space. PCRE2's own \s has U+180E too. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define NO_SPACE \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{7f}-\\x{84}\\x{86}-\\x{9f}\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Cn}"
/* Letters, marks, decimal digits, connectors, what else is Alphabetic, and by a whim of Oniguruma five of Latin-1. */
#define WORD                                                                                                        \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

typedef struct reader {
    const char *p, *end, *start;
    tok_text out;
    bool full;     /* out of memory */
    char what[80]; /* the reason to refuse; empty: none */
} reader;

static void put(reader *r, const char *text) {
    if (!tok_text_add(&r->out, text, strlen(text))) r->full = true;
}

/* Copies n bytes of the pattern. */
static void copy(reader *r, size_t n) {
    if (!tok_text_add(&r->out, r->p, n)) r->full = true;
    r->p += n;
}

static void refuse(reader *r, const char *what) {
    if (!r->what[0]) snprintf(r->what, sizeof r->what, "%s at byte %zu", what, (size_t)(r->p - r->start));
}

static bool at(const reader *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->end - r->p) >= n && !memcmp(r->p, text, n);
}

static char peek(const reader *r, size_t i) {
    return (size_t)(r->end - r->p) > i ? r->p[i] : 0;
}

static bool hex(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* \p{Name} or \P{Name}: names of three letters and more are scripts. Categories get what newer Unicode has added, in a
 * class of its own if need be; a negated one inside a class can't, and stays as PCRE2 knows it. */
static void property(reader *r, bool inside) {
    const char *brace = peek(r, 2) == '{' ? memchr(r->p, '}', (size_t)(r->end - r->p)) : NULL;
    if (!brace) {
        refuse(r, "a property without braces");
        return;
    }
    bool no = (r->p[1] == 'P') != (r->p[3] == '^');
    r->p += 3 + (r->p[3] == '^');
    size_t len = (size_t)(brace - r->p);
    const char *newer = no && inside ? "" : tok_newer(r->p, len);
    if (*newer && !inside) put(r, no ? "[^" : "[");
    put(r, no && !*newer ? "\\P{" : "\\p{");
    if (len > 2 && memcmp(r->p, "Any", 3)) put(r, "sc:");
    copy(r, len + 1);
    put(r, newer);
    if (*newer && !inside) put(r, "]");
}

/* \xHH, \x{H...}, \uHHHH. */
static void number(reader *r) {
    char text[16];
    if (r->p[1] == 'x' && peek(r, 2) == '{') {
        const char *brace = memchr(r->p, '}', (size_t)(r->end - r->p));
        copy(r, brace ? (size_t)(brace - r->p) + 1 : 2);
        return;
    }
    int digits = r->p[1] == 'x' ? 2 : 4;
    for (int i = 0; i < digits; i++)
        if (!hex(peek(r, 2 + (size_t)i))) refuse(r, "a short hexadecimal escape");
    if (digits == 2 && peek(r, 2) >= '8') refuse(r, "a byte above 7F");
    if (r->what[0]) return;
    snprintf(text, sizeof text, "\\x{%.*s}", digits, r->p + 2);
    put(r, text);
    r->p += 2 + digits;
}

/* The escapes with a rewriting: outside of a class, inside. */
typedef struct rewrite {
    char letter;
    const char *outside, *inside;
} rewrite;
static const rewrite rewrites[] = {
    {'s', "[" SPACE "]", SPACE},
    {'S', "[^" SPACE "]", NO_SPACE},
    {'w', "[" WORD "]", WORD},
    {'W', "[^" WORD "]", NULL},
    {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\x{8}"},
    {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'v', "\\x{b}", "\\x{b}"},
};

static void item(reader *r);
static void escape(reader *r, bool inside);

/* The rewriting is in the same language, with other escapes in it. */
static void expand(reader *r, const char *text, bool inside) {
    reader sub = {.p = text, .end = text + strlen(text), .start = text, .out = r->out, .what = ""};
    while (sub.p < sub.end && !sub.full)
        if (!inside)
            item(&sub);
        else if (*sub.p == '\\')
            escape(&sub, true);
        else
            copy(&sub, 1);
    r->out = sub.out;
    r->full |= sub.full;
}

static bool rewritten(reader *r, char c, bool inside) {
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
        const char *text = inside ? rewrites[i].inside : rewrites[i].outside;
        if (rewrites[i].letter != c || !text) continue;
        expand(r, text, inside);
        r->p += 2;
        return true;
    }
    return false;
}

/* An escape; r->p is at the backslash. */
static void escape(reader *r, bool inside) {
    char c = peek(r, 1), text[24];
    bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
    if (r->p + 1 >= r->end)
        refuse(r, "a backslash at the end");
    else if (rewritten(r, c, inside))
        return;
    else if (c == 'p' || c == 'P')
        property(r, inside);
    else if (c == 'x' || c == 'u')
        number(r);
    else if (!letter || strchr(inside ? "nrtfae" : "nrtfaeAzZ", c))
        copy(r, 2);
    else {
        snprintf(text, sizeof text, "\\%c", c);
        refuse(r, text);
    }
}

/* [...]; r->p is at the bracket. */
static void class(reader *r) {
    copy(r, 1);
    if (peek(r, 0) == '^') copy(r, 1);
    if (peek(r, 0) == ']') refuse(r, "']' first in a class");
    while (!r->what[0] && !r->full && r->p < r->end && *r->p != ']') {
        if (*r->p == '[')
            refuse(r, peek(r, 1) == ':' ? "a POSIX bracket" : "a class in a class");
        else if (at(r, "&&"))
            refuse(r, "an intersection of classes");
        else if (*r->p == '\\')
            escape(r, true);
        else
            copy(r, 1);
    }
    if (r->what[0] || r->full) return;
    if (r->p == r->end)
        refuse(r, "a class without end");
    else
        copy(r, 1);
}

/* "(" and what follows it. */
static void group(reader *r) {
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    char text[24];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (at(r, known[i])) {
            copy(r, strlen(known[i]));
            return;
        }
    char c = peek(r, 2);
    bool name = at(r, "(?<") && (peek(r, 3) == '_' || ((peek(r, 3) | 32) >= 'a' && (peek(r, 3) | 32) <= 'z'));
    if (name || (at(r, "(?i)") && r->p == r->start)) {
        copy(r, name ? 3 : 4);
    } else if (peek(r, 1) == '*') {
        refuse(r, "(*");
    } else if (peek(r, 1) == '?') {
        snprintf(text, sizeof text, "(?%c", c >= ' ' && c < 127 ? c : '?');
        refuse(r, text);
    } else {
        put(r, "(?:"); /* nobody asks what a group held */
        r->p++;
    }
}

static size_t digits(const reader *r, size_t i) {
    size_t from = i;
    while (peek(r, i) >= '0' && peek(r, i) <= '9') i++;
    return i - from;
}

/* {n}, {n,}, {n,m}, {,m}; anything else is a brace. */
static void interval(reader *r) {
    size_t low = digits(r, 1), i = 1 + low, high = 0;
    bool comma = peek(r, i) == ',';
    if (comma) high = digits(r, ++i);
    i += high;
    if (peek(r, i) != '}' || !(low || high)) {
        put(r, "\\{");
        r->p++;
        return;
    }
    char next = peek(r, i + 1);
    if (next == '+' || next == '*' || (next == '?' && !comma)) refuse(r, "an interval that is repeated");
    if (!low) {
        put(r, "{0");
        r->p++;
        i--;
    }
    copy(r, i + 1);
}

static void item(reader *r) {
    if (*r->p == '\\')
        escape(r, false);
    else if (*r->p == '[')
        class(r);
    else if (*r->p == '(')
        group(r);
    else if (*r->p == '{')
        interval(r);
    else
        copy(r, 1);
}

cadre_err tok_onig(const char *regex, size_t len, tok_text *out, char what[80]) {
    reader r = {.p = regex, .end = regex + len, .start = regex, .what = ""};
    while (r.p < r.end && !r.what[0] && !r.full) item(&r);
    *out = r.out;
    memcpy(what, r.what, sizeof r.what);
    return r.full ? CADRE_NOMEM : r.what[0] ? CADRE_UNSUPPORTED : CADRE_OK;
}
