/* report_text.c: the page as text for a terminal or a review, and as Markdown for a pull request. */
#include "report.h"
#include <string.h>

/* ---- text ---- */

/* Characters, not bytes. */
static int width_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void pad(rep_text *out, int n) {
    for (; n > 0; n--) rep_put(out, " ");
}

/* Lines of at most 100 characters, broken at spaces; the first begins at column `at`. */
static void put_wrapped(rep_text *out, const char *text, int indent) {
    int column = indent;
    while (*text) {
        size_t n = strcspn(text, " \n");
        char word[200];
        for (size_t done = 0; done < n; done += sizeof word - 1) { /* a long word stays whole */
            size_t piece = n - done < sizeof word - 1 ? n - done : sizeof word - 1;
            memcpy(word, text + done, piece);
            word[piece] = 0;
            int wide = width_of(word);
            if (!done && column > indent && column + 1 + wide > 100) {
                rep_put(out, "\n");
                pad(out, indent);
                column = indent;
            } else if (!done && column > indent) {
                rep_put(out, " ");
                column++;
            }
            rep_put(out, word);
            column += wide;
        }
        text += n;
        if (*text == '\n') {
            rep_put(out, "\n");
            pad(out, indent);
            column = indent;
        }
        if (*text) text++;
    }
    rep_put(out, "\n");
}

enum { COLUMNS_MOST = 80 };

static int columns_of(const rep_block *b) {
    int n = (int)strlen(b->align);
    return n < COLUMNS_MOST ? n : COLUMNS_MOST;
}

static void table_text(const rep_page *p, const rep_block *b, rep_text *out) {
    int widths[COLUMNS_MOST] = {0}, columns = columns_of(b);
    const char *caption = rep_words(p, b), *cell = rep_next(caption);
    for (int i = 0; i < b->cells; i++, cell = rep_next(cell))
        if (width_of(cell) > widths[i % columns]) widths[i % columns] = width_of(cell);
    rep_put(out, "  ");
    rep_put(out, caption);
    rep_put(out, "\n");
    cell = rep_next(caption);
    for (int i = 0; i < b->cells; i++, cell = rep_next(cell)) {
        int column = i % columns, room = widths[column] - width_of(cell);
        bool right = b->align[column] == 'r', last = column + 1 == columns;
        pad(out, column ? 2 : 4);
        if (right) pad(out, room);
        rep_put(out, cell);
        if (!right && !last) pad(out, room);
        if (last) rep_put(out, "\n");
    }
    rep_put(out, "\n");
}

static void heading_text(rep_text *out, const char *text, char line) {
    rep_put(out, text);
    rep_put(out, "\n");
    for (int n = width_of(text); n > 0; n--) rep_put_n(out, &line, 1);
    rep_put(out, "\n");
}

static bool is_list(const rep_page *p, int i) {
    return i + 1 < p->count && p->blocks[i + 1].kind == REP_LINE;
}

void rep_write_blocks(const rep_page *p, rep_text *out) {
    for (int i = 0; i < p->count; i++) {
        const rep_block *b = &p->blocks[i];
        switch (b->kind) {
        case REP_HEADING:
            heading_text(out, rep_words(p, b), '-');
            break;
        case REP_LINE:
            rep_put(out, "  ");
            put_wrapped(out, rep_words(p, b), 2);
            if (!is_list(p, i)) rep_put(out, "\n");
            break;
        case REP_CODE:
            rep_put(out, "  ");
            rep_put(out, rep_words(p, b));
            rep_put(out, "\n");
            break;
        case REP_TABLE:
            if (!b->folded) table_text(p, b, out);
            break;
        case REP_FIGURE:
            break;
        }
    }
}

void rep_write_text(const rep_page *p, rep_text *out) {
    heading_text(out, p->title.text, '=');
    put_wrapped(out, p->asks.text, 0);
    rep_put(out, "\n");
    put_wrapped(out, p->outcome.text, 0);
    rep_put(out, "\n");
    rep_write_blocks(p, out);
}

/* ---- Markdown ---- */

/* What Markdown or HTML in it would read as more than text. */
static void put_markdown(rep_text *out, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            rep_put(out, "&lt;");
        else if (*text == '&')
            rep_put(out, "&amp;");
        else {
            if (strchr("\\`*_[]|~#@", *text)) rep_put(out, "\\");
            rep_put_n(out, text, 1);
        }
    }
}

static void table_markdown(const rep_page *p, const rep_block *b, rep_text *out) {
    int columns = columns_of(b);
    const char *cell = rep_next(rep_words(p, b));
    put_markdown(out, rep_words(p, b));
    rep_put(out, "\n\n");
    for (int i = 0; i < b->cells; i++, cell = rep_next(cell)) {
        rep_put(out, i % columns ? " | " : "| ");
        put_markdown(out, cell);
        if ((i + 1) % columns) continue;
        rep_put(out, " |\n");
        for (int c = 0; i + 1 == columns && c < columns; c++) rep_put(out, b->align[c] == 'r' ? "|---:" : "|:---");
        if (i + 1 == columns) rep_put(out, "|\n");
    }
    rep_put(out, "\n");
}

static void code_markdown(rep_text *out, const char *text) {
    const char *fence = strstr(text, "```") ? "~~~~~~" : "```";
    rep_putf(out, "%s\n", fence);
    rep_put(out, text);
    rep_putf(out, "\n%s\n\n", fence);
}

void rep_write_markdown(const rep_page *p, rep_text *out) {
    const char *line = p->outcome.text;
    rep_put(out, "## ");
    put_markdown(out, p->title.text);
    rep_put(out, "\n\n");
    put_markdown(out, p->asks.text);
    rep_put(out, "\n\n");
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        char sentence[2000];
        n = strcspn(line, "\n");
        snprintf(sentence, sizeof sentence, "%.*s", (int)n, line);
        rep_put(out, "- **");
        put_markdown(out, sentence);
        rep_put(out, "**\n");
    }
    rep_put(out, "\n");
    for (int i = 0; i < p->count; i++) {
        const rep_block *b = &p->blocks[i];
        switch (b->kind) {
        case REP_HEADING:
            rep_put(out, "### ");
            put_markdown(out, rep_words(p, b));
            rep_put(out, "\n\n");
            break;
        case REP_LINE:
            put_markdown(out, rep_words(p, b));
            rep_put(out, "\n\n");
            break;
        case REP_CODE:
            code_markdown(out, rep_words(p, b));
            break;
        case REP_TABLE:
            if (!b->folded) table_markdown(p, b, out);
            break;
        case REP_FIGURE:
            break;
        }
    }
}
