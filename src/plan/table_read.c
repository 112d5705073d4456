/* table_read.c: the text of a native table becomes rows. Each fault is told with its line; a reader without a listener
 * stops at the first. */
#include "plan/table_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path, *p, *end; /* p: what was not read yet */
    int line;                   /* of the text before p */
    native_note *note;
    void *ctx;
    cadre_fail *why;
    cadre_err err; /* set: stop */
    int fault;     /* line of the first fault */
    native_table *table;
    size_t cap;
    bool any_name; /* the file need not be called after its device */
} reader;

/* Tells a fault; false when reading must stop. */
static bool tell(reader *r, int line, const char *rule, const native_row *row, const char *text) {
    if (!r->err && !r->fault) r->fault = line;
    if (r->note) {
        r->note(r->ctx, line, rule, row, text);
        return true;
    }
    if (!r->err && line)
        r->err = cadre_fail_set(r->why, CADRE_FORMAT, "%.200s:%d: %s", r->path, line, text);
    else if (!r->err)
        r->err = cadre_fail_set(r->why, CADRE_FORMAT, "%.200s: %s", r->path, text);
    return false;
}

/* ---- lines ---- */

typedef struct span {
    const char *p;
    size_t len;
} span;

/* The next line without its end; false at the end of the text. */
static bool next_line(reader *r, span *out) {
    if (r->p == r->end) return false;
    const char *stop = memchr(r->p, '\n', (size_t)(r->end - r->p));
    *out = (span){r->p, (size_t)((stop ? stop : r->end) - r->p)};
    r->p = stop ? stop + 1 : r->end;
    r->line++;
    return true;
}

static bool is(span s, const char *text) {
    return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}

/* "device x" -> x; false if the line begins otherwise. */
static bool after(span s, const char *word, span *rest) {
    size_t n = strlen(word);
    if (s.len <= n || memcmp(s.p, word, n) || s.p[n] != ' ') return false;
    *rest = (span){s.p + n + 1, s.len - n - 1};
    return true;
}

/* Text that may be in quotes, without control characters, quotes or invalid UTF-8 inside, into out. */
static bool copy_text(span s, char *out, size_t size, bool blanks) {
    if (s.len >= 2 && s.p[0] == '"' && s.p[s.len - 1] == '"' && blanks) s = (span){s.p + 1, s.len - 2};
    if (!s.len || s.len >= size || !utf8_valid(s.p, s.len)) return false;
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == '"' || s.p[i] == 127 || (s.p[i] == ' ' && !blanks)) return false;
    memcpy(out, s.p, s.len);
    out[s.len] = 0;
    return true;
}

/* Decimal digits alone, at most `high`. */
static bool copy_int(span s, long low, long high, long *out) {
    long v = 0;
    if (!s.len || (s.len > 1 && s.p[0] == '0')) return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || v > high / 10) return false;
        v = v * 10 + (s.p[i] - '0');
    }
    if (v < low || v > high) return false;
    *out = v;
    return true;
}

/* "16409.250" with just so many decimals: written and read as a whole number, so that no locale can change it. */
static bool copy_fixed(span s, int decimals, double *out) {
    char digits[32];
    if (s.len < (size_t)decimals + 2 || s.len > 18 || s.p[s.len - (size_t)decimals - 1] != '.') return false;
    size_t whole = s.len - (size_t)decimals - 1;
    if (whole > 1 && s.p[0] == '0') return false;
    memcpy(digits, s.p, whole);
    memcpy(digits + whole, s.p + whole + 1, (size_t)decimals);
    long v = 0, scale = 1;
    for (size_t i = 0; i < whole + (size_t)decimals; i++) {
        if (digits[i] < '0' || digits[i] > '9') return false;
        v = v * 10 + (digits[i] - '0');
    }
    for (int i = 0; i < decimals; i++) scale *= 10;
    *out = (double)v / (double)scale;
    return true;
}

/* ---- rows ---- */

enum { PAIRS_MOST = 64 };
typedef struct pair {
    span name, value;
    bool used;
} pair;

/* key=value key="a b" ...; false and *bad on what is neither. */
static bool split(span s, pair *pairs, int *count, const char **bad) {
    *count = 0;
    while (s.len) {
        const char *eq = memchr(s.p, '=', s.len);
        *bad = "expected name=value, one blank between";
        if (!eq || eq == s.p || *count == PAIRS_MOST || memchr(s.p, ' ', (size_t)(eq - s.p))) return false;
        pair *x = &pairs[(*count)++];
        *x = (pair){.name = {s.p, (size_t)(eq - s.p)}};
        size_t left = s.len - x->name.len - 1;
        const char *v = eq + 1, *stop = NULL;
        if (left && *v == '"') {
            stop = memchr(v + 1, '"', left - 1);
            *bad = "a quote is not closed";
            if (!stop) return false;
            stop++;
        } else {
            stop = memchr(v, ' ', left);
            if (!stop) stop = v + left;
        }
        x->value = (span){v, (size_t)(stop - v)};
        left -= x->value.len;
        *bad = "expected a blank after a value, and a field after a blank";
        if (left == 1 || (left && *stop != ' ')) return false;
        s = left ? (span){stop + 1, left - 1} : (span){stop, 0};
        for (int i = 0; i + 1 < *count; i++)
            if (pairs[i].name.len == x->name.len && !memcmp(pairs[i].name.p, x->name.p, x->name.len)) {
                *bad = "a field is given twice";
                return false;
            }
    }
    return true;
}

static pair *find(pair *pairs, int count, const char *prefix, const char *name) {
    size_t a = strlen(prefix), b = strlen(name);
    for (int i = 0; i < count; i++)
        if (pairs[i].name.len == a + b && !memcmp(pairs[i].name.p, prefix, a) && !memcmp(pairs[i].name.p + a, name, b))
            return &pairs[i];
    return NULL;
}

static bool copy_family(span s, op_family *out) {
    for (int i = 0; i < OP_FAMILY_COUNT; i++)
        if (is(s, op_families[i].name)) {
            *out = (op_family)i;
            return true;
        }
    return false;
}

static bool copy_dtype(span s, cadre_dtype *out) {
    char word[16];
    int v = copy_text(s, word, sizeof word, false) ? op_dtype_find(word) : -1;
    if (v < 0) return false;
    *out = (cadre_dtype)v;
    return true;
}

static bool copy_range(span s, native_row *row) {
    long lo, hi;
    for (size_t i = 1; i + 2 < s.len; i++)
        if (s.p[i] == '.' && s.p[i + 1] == '.') {
            if (!copy_int((span){s.p, i}, 1, INT32_MAX, &lo)) return false;
            if (!copy_int((span){s.p + i + 2, s.len - i - 2}, lo, INT32_MAX, &hi)) return false;
            row->n_lo = (int)lo, row->n_hi = (int)hi;
            return true;
        }
    return false;
}

static bool copy_knob(span s, const op_knob_def *def, int *out) {
    long v;
    if (!copy_int(s, def->low, def->high, &v)) return false;
    for (long x = def->low; x <= def->high; x *= 2)
        if (x == v) {
            *out = (int)v;
            return true;
        }
    return false;
}

static bool copy_value(span s, const native_field *f, native_row *row) {
    void *to = (char *)row + f->at;
    long v;
    switch (f->kind) {
    case FIELD_OP:
        return copy_family(s, to);
    case FIELD_DTYPE:
        return copy_dtype(s, to);
    case FIELD_RANGE:
        return copy_range(s, row);
    case FIELD_FIXED:
        return copy_fixed(s, (int)f->low, to);
    case FIELD_WORD:
    case FIELD_TEXT:
        return copy_text(s, to, (size_t)f->high, f->kind == FIELD_TEXT);
    case FIELD_FLAG:
        if (!copy_int(s, 0, 1, &v)) return false;
        *(bool *)to = v;
        return true;
    default:
        if (!copy_int(s, f->low, f->high, &v)) return false;
        *(int *)to = (int)v;
        return true;
    }
}

/* What was said of a field that is not good. */
typedef struct complaint {
    const char *rule;
    char text[200];
} complaint;

static bool complain(complaint *c, const char *rule, const char *name, const char *what, span value) {
    c->rule = rule;
    snprintf(c->text, sizeof c->text, "field %.40s %s%s%.*s%s", name, what, value.p ? " '" : "",
             value.len > 60 ? 60 : (int)value.len, value.p ? value.p : "", value.p ? "'" : "");
    err_one_line(c->text);
    return false;
}

static bool take_knobs(pair *pairs, int count, const native_field *f, native_row *row, complaint *c) {
    const op_family_def *family = &op_families[row->family];
    op_knobs *knobs = (op_knobs *)(void *)((char *)row + f->at);
    *knobs = (op_knobs){.v = {0}};
    for (int i = 0; i < family->count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", f->name, family->knobs[i].name);
        pair *x = find(pairs, count, f->name, family->knobs[i].name);
        if (!x) return complain(c, "missing-field", name, "is missing", (span){0});
        x->used = true;
        if (!copy_knob(x->value, &family->knobs[i], &knobs->v[i]))
            return complain(c, "bad-row", name, "is out of its range:", x->value);
    }
    return true;
}

static bool take_fields(pair *pairs, int count, native_row *row, complaint *c) {
    for (int i = 0; i < NATIVE_FIELD_COUNT; i++) {
        const native_field *f = &native_fields[i];
        if (f->kind == FIELD_KNOBS) {
            if (!take_knobs(pairs, count, f, row, c)) return false;
            continue;
        }
        pair *x = find(pairs, count, "", f->name);
        if (!x) return complain(c, "missing-field", f->name, "is missing", (span){0});
        x->used = true;
        if (!copy_value(x->value, f, row))
            return complain(c, f->key || f->kind == FIELD_RANGE ? "bad-key" : "bad-row", f->name,
                            "is no value of its:", x->value);
    }
    for (int i = 0; i < count; i++)
        if (!pairs[i].used) return complain(c, "unknown-field", "", "is not known:", pairs[i].name);
    return true;
}

/* A line's fields as a row; false with the complaint. */
static bool read_row(span s, native_row *row, complaint *c) {
    pair pairs[PAIRS_MOST];
    int count;
    const char *bad;
    bool zero = false;
    *c = (complaint){.rule = "bad-row"};
    if (!split(s, pairs, &count, &bad)) {
        snprintf(c->text, sizeof c->text, "%s", bad);
        return false;
    }
    if (!take_fields(pairs, count, row, c)) return false;
    if ((bad = native_key_fault(row))) c->rule = "bad-key";
    if (!bad && (bad = native_figures_fault(row, &zero))) c->rule = zero ? "zero-evidence" : "bad-row";
    if (bad) snprintf(c->text, sizeof c->text, "%s", bad);
    native_sentence(row);
    return !bad;
}

static bool keep(reader *r, const native_row *row) {
    native_table *t = r->table;
    if (t->count == NATIVE_ROWS_MAX) {
        tell(r, r->line, "bad-row", NULL, "more than 4096 rows");
        r->p = r->end;
        return false;
    }
    if ((size_t)t->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 16;
        native_row *grown = mem_resize(t->rows, r->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown) {
            r->err = cadre_fail_set(r->why, CADRE_NOMEM, "%.200s: out of memory for rows", r->path);
            return false;
        }
        t->rows = grown, r->cap = cap;
    }
    t->rows[t->count++] = *row;
    return true;
}

static void take_row(reader *r, span rest) {
    native_row row;
    complaint c;
    memset(&row, 0, sizeof row);
    row.line = r->line;
    if (read_row(rest, &row, &c))
        keep(r, &row);
    else
        tell(r, r->line, c.rule, &row, c.text);
}

/* ---- the frame ---- */

/* The four lines at the top; false when what follows cannot be read. */
static bool take_head(reader *r) {
    span s, rest;
    if (!next_line(r, &s) || !is(s, "cadre table 1"))
        return tell(r, 1, "bad-row", NULL, "expected 'cadre table 1': this is no table of this version"), false;
    if (!next_line(r, &s) || !after(s, "device", &rest) ||
        !copy_text(rest, r->table->device, sizeof r->table->device, true))
        tell(r, r->line, "bad-row", NULL, "expected device and its name in quotes");
    if (!r->err && (!next_line(r, &s) || !after(s, "class", &rest) ||
                    !copy_text(rest, r->table->klass, sizeof r->table->klass, false)))
        tell(r, r->line, "bad-row", NULL, "expected class and its name");
    if (!r->err && (!next_line(r, &s) || !is(s, "outside policy")))
        tell(r, r->line, "bad-row", NULL, "expected 'outside policy': what runs where no row speaks");
    return !r->err;
}

static void check_hash(reader *r, const char *text, span line, span hash) {
    sha256 h;
    char hex[65];
    sha256_init(&h);
    sha256_add(&h, text, (size_t)(line.p - text));
    sha256_hex(&h, hex);
    memcpy(r->table->sha256, hex, sizeof hex);
    bool last = r->p == r->end && r->end[-1] == '\n';
    if (!is(hash, hex))
        tell(r, r->line, "hand-edited", NULL,
             "the lines above are not the ones this hash was made of: edited by hand, or cut");
    else if (!last)
        tell(r, r->line, "hand-edited", NULL, "text after the hash: edited by hand");
}

static void take_body(reader *r, const char *text) {
    span s, rest;
    while (!r->err && next_line(r, &s)) {
        if (after(s, "sha256", &rest)) {
            check_hash(r, text, s, rest);
            return;
        }
        if (after(s, "row", &rest))
            take_row(r, rest);
        else
            tell(r, r->line, "bad-row", NULL, "expected a row, or sha256 and the hash of the lines above");
    }
    if (!r->err) tell(r, r->line, "hand-edited", NULL, "the last line, sha256 and a hash, is missing: cut");
}

static int rising(const void *a, const void *b) {
    int c = native_compare(a, b);
    return c ? c : ((const native_row *)a)->line - ((const native_row *)b)->line;
}

/* Rows of one key whose ranges meet: the later line goes. */
static void check_overlaps(reader *r) {
    native_table *t = r->table;
    int kept = 0;
    if (t->count) qsort(t->rows, (size_t)t->count, sizeof *t->rows, rising);
    for (int i = 0; i < t->count && !r->err; i++) {
        native_row *row = &t->rows[i], *before = kept ? &t->rows[kept - 1] : NULL;
        if (before && native_same_key(before, row) && row->n_lo <= before->n_hi) {
            char text[160];
            const native_row *later = row->line > before->line ? row : before, *other = row == later ? before : row;
            snprintf(text, sizeof text, "n=%d..%d meets n=%d..%d of line %d, which has the same key", later->n_lo,
                     later->n_hi, other->n_lo, other->n_hi, other->line);
            tell(r, later->line, "overlapping-rows", later, text);
            if (later == before) *before = *row;
            continue;
        }
        if (kept != i) t->rows[kept] = *row;
        kept++;
    }
    t->count = kept;
}

static void check_name(reader *r) {
    char want[NATIVE_TEXT_MAX + 16], text[NATIVE_TEXT_MAX + 120];
    const char *slash = strrchr(r->path, '/'), *name = slash ? slash + 1 : r->path;
    if (!*r->table->device) return;
    native_file_name(r->table->device, want, sizeof want);
    if (!strcmp(name, want)) return;
    snprintf(text, sizeof text, "the file of this device must be called %s: nothing will look for it here", want);
    tell(r, 0, "dead-file", NULL, text);
}

static cadre_err parse(reader *r, const char *text, native_table **out) {
    r->table = mem_new(sizeof *r->table);
    if (r->table) r->table->path = mem_copy_text(r->path, strlen(r->path));
    if (!r->table || !r->table->path) {
        mem_free(r->table);
        return cadre_fail_set(r->why, CADRE_NOMEM, "%.200s: out of memory for a table", r->path);
    }
    if (take_head(r)) take_body(r, text);
    if (!r->err) check_overlaps(r);
    if (!r->err && !r->any_name) check_name(r);
    if (r->err)
        native_free(r->table);
    else
        *out = r->table;
    return r->err;
}

cadre_err native_parse(const char *path, const char *text, size_t len, native_note *note, void *ctx, native_table **out,
                       cadre_fail *why) {
    reader r = {.path = path, .p = text, .end = text + len, .note = note, .ctx = ctx, .why = why};
    return parse(&r, text, out);
}

cadre_err native_parse_any(const char *path, const char *text, size_t len, native_table **out, cadre_fail *why) {
    reader r = {.path = path, .p = text, .end = text + len, .any_name = true, .why = why};
    return parse(&r, text, out);
}

cadre_err native_parse_line(const char *path, const char *text, size_t len, native_table **out, int *line,
                            cadre_fail *why) {
    reader r = {.path = path, .p = text, .end = text + len, .why = why};
    cadre_err err = parse(&r, text, out);
    *line = r.fault;
    return err;
}
