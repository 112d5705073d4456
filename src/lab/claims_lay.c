/* claims_lay.c: a text to blocks: paragraphs, list items and tables (Markdown, tabs, columns aligned by spaces). Text
 * in code fences is no prose, but tables in it are tables. */
#include "claims.h"
#include <string.h>

enum { LINES_MOST = 1 << 20, PART_MOST = 400, COLUMNS_MOST = 64, ROWS_MOST = 100000 };

typedef struct lay {
    claims_doc *d;
    size_t *starts; /* of lines; starts[lines] is the end of the text */
    int lines;
    bool fenced;
    claims_place place; /* of the block that is open */
    int first;          /* its first token */
} lay;

static const char *line_at(const lay *l, int i, size_t *len) {
    size_t n = l->starts[i + 1] - l->starts[i];
    const char *text = l->d->text + l->starts[i];
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    *len = n;
    return text;
}

void claims_part_add(claims_doc *d, claims_place place, int first, int table) {
    if (!claims_grow(d, (void **)&d->parts, d->part_count, &d->part_cap, sizeof *d->parts)) return;
    d->parts[d->part_count++] = (claims_part){place, first, d->token_count, d->block, table};
}

/* Ends the open block: its tokens are cut into sentences. */
static void end_block(lay *l) {
    claims_doc *d = l->d;
    int end = d->token_count, from = l->first;
    for (int i = l->first; i < end && !d->failed; i++) {
        bool stops = d->tokens[i].kind == CLAIMS_STOP;
        if (!stops && i + 1 < end && i + 1 - from < PART_MOST) continue;
        claims_part_add(d, l->place, from, -1);
        if (!d->failed) d->parts[d->part_count - 1].end = i + 1;
        from = i + 1;
    }
    if (end > l->first) d->block++;
    l->first = end;
    l->place = CLAIMS_PROSE;
}

/* Bytes of a list marker, blanks before it included; 0: none. */
static size_t marker(const char *text, size_t len) {
    size_t n = 0;
    while (n < len && (text[n] == ' ' || text[n] == '\t')) n++;
    if (len - n >= 4 && !memcmp(text + n, "\xE2\x80\xA2", 3)) return n + 3;
    if (len - n >= 2 && strchr("-*+", text[n]) && text[n + 1] == ' ') return n + 2;
    size_t digits = n;
    while (digits < len && text[digits] >= '0' && text[digits] <= '9') digits++;
    if (digits == n || digits - n > 3 || len - digits < 2) return 0;
    return (text[digits] == '.' || text[digits] == ')') && text[digits + 1] == ' ' ? digits + 2 : 0;
}

/* Only marks: an underline, a rule. */
static bool is_rule(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!strchr("-=*_ \t", text[i]) || !text[i]) return false;
    return true;
}

static void lay_line(lay *l, int i) {
    size_t len, skip = 0;
    const char *text = line_at(l, i, &len);
    if (is_rule(text, len)) {
        end_block(l);
        return;
    }
    size_t mark = marker(text, len);
    while (skip < len && (text[skip] == ' ' || text[skip] == '>')) skip++;
    bool heading = text[skip < len ? skip : 0] == '#' && (len - skip < 2 || strchr("# ", text[skip + 1]));
    if (mark || heading) end_block(l);
    if (mark) l->place = CLAIMS_ITEM, skip = mark;
    while (heading && skip < len && text[skip] == '#') skip++;
    claims_scan(l->d, l->starts[i] + skip, l->starts[i] + len, i + 1);
    if (heading) end_block(l);
}

/* ---- tables ---- */

static int gaps(const char *text, size_t len) {
    int n = 0;
    size_t i = 0;
    while (i < len && text[i] == ' ') i++;
    for (; i + 1 < len; i++) {
        if (text[i] != ' ' || text[i + 1] != ' ') continue;
        while (i < len && text[i] == ' ') i++;
        n += i < len;
    }
    return n;
}

bool claims_is_table_line(const char *text, size_t len, char *mark) {
    size_t i = 0;
    while (i < len && text[i] == ' ') i++;
    if (i == len) return false;
    if (text[i] == '|' && memchr(text + i + 1, '|', len - i - 1)) return *mark = '|', true;
    if (text[0] != '\t' && memchr(text, '\t', len)) return *mark = '\t', true;
    if (!marker(text, len) && gaps(text, len) >= 1) return *mark = ' ', true;
    return false;
}

/* Lines from i on that make one table; 0: none does. Aligned columns must be the same in number, three lines or more.
 */
static int table_lines(const lay *l, int i, char *mark) {
    size_t len;
    const char *text = line_at(l, i, &len);
    char next = 0;
    int n = 0, columns = 0;
    if (!claims_is_table_line(text, len, mark)) return 0;
    if (*mark == ' ') columns = gaps(text, len);
    for (; i + n < l->lines && n < ROWS_MOST; n++) {
        text = line_at(l, i + n, &len);
        if (n && *mark == ' ' && len > 2 && is_rule(text, len)) continue; /* under a header */
        if (!claims_is_table_line(text, len, &next) || next != *mark) break;
        if (*mark == ' ' && gaps(text, len) != columns) break;
    }
    return n >= (*mark == ' ' ? 3 : 2) ? n : 0;
}

static bool is_separator(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!strchr("|-: ", text[i]) || !text[i]) return false;
    return true;
}

/* The next cell of a row from *at on; false: the row ends. */
static bool next_cell(const char *text, size_t len, char mark, size_t *at, size_t *from, size_t *to) {
    size_t i = *at;
    if (i > len) return false;
    *from = i;
    while (i < len && !(text[i] == mark && (mark != ' ' || (i + 1 < len && text[i + 1] == ' ')) &&
                        !(mark == '|' && i && text[i - 1] == '\\')))
        i++;
    *to = i;
    if (mark == ' ')
        while (i < len && text[i] == ' ') i++;
    *at = i < len ? i + (mark != ' ') : len + 1;
    return true;
}

static void trim(const char *text, size_t *from, size_t *to) {
    while (*from < *to && strchr(" \t\r\n*", text[*from])) ++*from;
    while (*to > *from && strchr(" \t\r\n*", text[*to - 1])) --*to;
}

/* The body of a row without outer bars and blanks. */
static void row_bounds(const char *text, size_t *from, size_t *to, char mark) {
    while (*from < *to && text[*from] == ' ') ++*from;
    while (*to > *from && strchr(mark == '\t' ? "\r\n" : " \t\r\n", text[*to - 1])) --*to;
    if (mark != '|') return;
    ++*from;
    if (*to > *from && text[*to - 1] == '|') --*to;
}

static void lay_row(claims_doc *d, size_t start, size_t end, int line, char mark, int columns, int table) {
    row_bounds(d->text, &start, &end, mark);
    size_t at = 0, from, to;
    for (int c = 0; c < columns; c++) {
        if (!claims_grow(d, (void **)&d->cells, d->cell_count, &d->cell_cap, sizeof *d->cells)) return;
        claims_cell *cell = &d->cells[d->cell_count++];
        *cell = (claims_cell){(uint32_t)end, 0, -1};
        if (start > end || !next_cell(d->text + start, end - start, mark, &at, &from, &to)) continue;
        from += start, to += start;
        trim(d->text, &from, &to);
        cell->at = (uint32_t)from, cell->len = (uint32_t)(to - from);
        int first = d->token_count;
        claims_scan(d, from, to, line);
        cell->part = d->part_count;
        claims_part_add(d, CLAIMS_CELL, first, table);
    }
}

static int columns_of(const char *text, size_t start, size_t end, char mark) {
    size_t at = 0, from, to;
    int n = 0;
    row_bounds(text, &start, &end, mark);
    while (start <= end && n < COLUMNS_MOST && next_cell(text + start, end - start, mark, &at, &from, &to)) n++;
    return n;
}

void claims_lay_table(claims_doc *d, const size_t *starts, int first, int count, char mark) {
    int columns = columns_of(d->text, starts[first], starts[first + 1], mark), rows = 0;
    if (!claims_grow(d, (void **)&d->tables, d->table_count, &d->table_cap, sizeof *d->tables)) return;
    claims_table *t = &d->tables[d->table_count++];
    *t = (claims_table){.line = first + 1, .block = d->block, .columns = columns, .cell = d->cell_count};
    for (int i = 0; i < count && !d->failed; i++) {
        size_t start = starts[first + i], end = starts[first + i + 1];
        while (end > start && strchr("\r\n", d->text[end - 1])) end--;
        if (mark == '|' && is_separator(d->text + start, end - start)) continue;
        if (mark == ' ' && is_rule(d->text + start, end - start)) continue;
        lay_row(d, start, end, first + i + 1, mark, columns, d->table_count - 1);
        rows++;
    }
    if (rows)
        d->tables[d->table_count - 1].rows = rows;
    else
        d->table_count--; /* rules alone */
    d->block++;
}

/* ---- the whole ---- */

static bool find_lines(lay *l) {
    const claims_doc *d = l->d;
    size_t n = 1;
    for (size_t i = 0; i < d->len; i++) n += d->text[i] == '\n';
    if (n > LINES_MOST) return false;
    l->starts = mem_new_array(n + 1, sizeof *l->starts);
    if (!l->starts) return false;
    for (size_t i = 0; i < d->len; i++)
        if (d->text[i] == '\n') l->starts[++l->lines] = i + 1;
    if (l->starts[l->lines] < d->len) l->starts[++l->lines] = d->len;
    return true;
}

static bool is_fence(const lay *l, int i) {
    size_t len, n = 0;
    const char *text = line_at(l, i, &len);
    while (n < len && text[n] == ' ') n++;
    return len - n >= 3 && (!memcmp(text + n, "```", 3) || !memcmp(text + n, "~~~", 3));
}

cadre_err claims_lay(claims_doc *d, cadre_fail *why) {
    lay l = {.d = d};
    char mark;
    if (!find_lines(&l))
        return l.lines || d->len < LINES_MOST ? cadre_fail_set(why, CADRE_NOMEM, "out of memory for a report")
                                              : cadre_fail_set(why, CADRE_FORMAT, "more than %d lines", LINES_MOST);
    for (int i = 0, n; i < l.lines && !d->failed && d->token_count < CLAIMS_TOKENS_MOST; i += n) {
        n = 1;
        if (is_fence(&l, i)) {
            end_block(&l);
            l.fenced = !l.fenced;
        } else if ((n = table_lines(&l, i, &mark))) {
            end_block(&l);
            claims_lay_table(d, l.starts, i, n, mark);
            l.first = d->token_count;
        } else {
            n = 1;
            if (!l.fenced) lay_line(&l, i);
        }
    }
    end_block(&l);
    mem_free(l.starts);
    if (d->failed) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a report");
    if (d->token_count >= CLAIMS_TOKENS_MOST)
        return cadre_fail_set(why, CADRE_FORMAT, "more than %d words and figures: not a report", CLAIMS_TOKENS_MOST);
    return CADRE_OK;
}
