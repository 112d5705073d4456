/* claims_word.c: how rules read tokens and cells. */
#include "claims.h"
#include <math.h>
#include <string.h>

static char low(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool equal(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (low(a[i]) != low(b[i])) return false;
    return true;
}

/* word against one of "a|b*|c" */
static bool among(const char *word, size_t len, const char *words) {
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, "|");
        bool open = n && w[n - 1] == '*';
        if (open ? len >= n - 1 && equal(word, w, n - 1) : len == n && equal(word, w, n)) return true;
        w += n + (w[n] == '|');
    }
    return false;
}

bool claims_word(const claims_doc *d, int i, const char *words) {
    if (i < 0 || i >= d->token_count || d->tokens[i].kind != CLAIMS_WORD) return false;
    return among(d->text + d->tokens[i].at, d->tokens[i].len, words);
}

int claims_find(const claims_doc *d, int first, int end, const char *words) {
    if (end > d->token_count) end = d->token_count;
    for (int i = first < 0 ? 0 : first; i < end; i++)
        if (claims_word(d, i, words)) return i;
    return -1;
}

claims_kind claims_kind_at(const claims_doc *d, int i) {
    return i < 0 || i >= d->token_count ? CLAIMS_STOP : d->tokens[i].kind;
}

bool claims_figure(const claims_doc *d, int i) {
    return claims_kind_at(d, i) == CLAIMS_FIGURE && !d->tokens[i].named;
}

int claims_next_figure(const claims_doc *d, int first, int end) {
    for (int i = first < 0 ? 0 : first; i < end && i < d->token_count; i++)
        if (claims_figure(d, i)) return i;
    return -1;
}

int claims_last_figure(const claims_doc *d, int first, int end) {
    for (int i = (end > d->token_count ? d->token_count : end) - 1; i >= first && i >= 0; i--)
        if (claims_figure(d, i)) return i;
    return -1;
}

double claims_count_at(const claims_doc *d, int i) {
    if (i < 0 || i >= d->token_count) return NAN;
    const claims_token *t = &d->tokens[i];
    if (t->kind == CLAIMS_WORD) return t->value;
    if (t->kind != CLAIMS_FIGURE || !claims_exact(t)) return NAN;
    return t->value;
}

static bool inside_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool claims_text_has(const char *text, size_t len, const char *words) {
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && inside_word(text[i + n])) n++;
        if (n && among(text + i, n, words)) return true;
        i += n ? n : 1;
    }
    return false;
}

const claims_cell *claims_cell_at(const claims_doc *d, const claims_table *t, int row, int column) {
    return &d->cells[t->cell + row * t->columns + column];
}

int claims_cell_figure(const claims_doc *d, const claims_table *t, int row, int column, bool first) {
    const claims_cell *c = claims_cell_at(d, t, row, column);
    if (c->part < 0) return -1;
    const claims_part *p = &d->parts[c->part];
    int i = claims_next_figure(d, p->first, p->end);
    int more = i < 0 || first ? -1 : claims_next_figure(d, i + 1, p->end);
    if (more >= 0 && claims_kind_at(d, more - 1) == CLAIMS_SPREAD) more = claims_next_figure(d, more + 1, p->end);
    return more >= 0 ? -1 : i;
}

bool claims_header_has(const claims_doc *d, const claims_table *t, int column, const char *words) {
    const claims_cell *c = claims_cell_at(d, t, 0, column);
    return claims_text_has(d->text + c->at, c->len, words);
}

int claims_row_named(claims_doc *d, const claims_table *t, const char *name, size_t len) {
    if ((d->budget -= t->rows) < 0) return -1;
    for (int r = 1; r < t->rows; r++) {
        const claims_cell *c = claims_cell_at(d, t, r, 0);
        if (c->len == len && equal(d->text + c->at, name, len)) return r;
    }
    return -1;
}
