/* foreign_json.c: a table's text to rows and back. Strict where Python's loaders are not: a key is a decimal whole
 * number without sign or leading zeros, a value a whole number in its field's range, a name known.
 */
#include "plan/foreign.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MOST = 4096, FILE_MOST = 4 << 20 };

typedef struct reader {
    const json_doc *doc;
    foreign_note *note;
    void *ctx;
    cadre_fail *why;
} reader;

/* Tells what is wrong with v, in a row or in the whole table (row NULL). With a listener the reading goes on. */
static cadre_err tell(const reader *r, const json *v, const json *row, const char *rule, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static cadre_err tell(const reader *r, const json *v, const json *row, const char *rule, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!r->note) return json_fail(r->doc, v, r->why, "%s", text);
    r->note(r->ctx, v->line, rule, row ? row->key : "", text);
    return CADRE_OK;
}

static cadre_err bad_value(const reader *r, const json *v, const json *row, const char *wanted) {
    char found[64];
    json_describe(v, found, sizeof found);
    return tell(r, v, row, "bad-value", "is %s, expected %s", found, wanted);
}

/* ---- keys ---- */

static bool is_key(const json *v, const char *name) {
    return v->key_len == strlen(name) && !memcmp(v->key, name, v->key_len);
}

/* 1..INT_MAX as a program writes it. */
static bool read_key(const json *row, int *m) {
    int64_t v = 0;
    if (!row->key_len || row->key_len > 10 || row->key[0] == '0') return false;
    for (size_t i = 0; i < row->key_len; i++) {
        if (row->key[i] < '0' || row->key[i] > '9') return false;
        v = v * 10 + (row->key[i] - '0');
    }
    if (v > INT_MAX) return false;
    *m = (int)v;
    return true;
}

/* "01" beside "1": which of the two Python's int() leaves is a matter of order. */
static const json *twin(const json *row) {
    const char *digits = row->key + strspn(row->key, "+0");
    return digits != row->key && *digits ? json_get(row->parent, digits) : NULL;
}

static cadre_err bad_key(const reader *r, const json *row) {
    const json *other = twin(row);
    if (other)
        return tell(r, row, row, "bad-key", "has the key \"%.40s\", the same number as key \"%.20s\" in line %d",
                    row->key, other->key, other->line);
    return tell(r, row, row, "bad-key", "has the key \"%.40s\", expected a whole number from 1 to %d", row->key,
                INT_MAX);
}

/* ---- rows ---- */

/* What benchmarks write beside a configuration. All of them 0 means that nothing was measured. */
static bool is_evidence(const json *v) {
    static const char *const names[] = {"us",    "us1",  "us2",  "time", "time_us", "latency",
                                        "error", "err1", "err2", "err",  "tflops",  "bandwidth"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_key(v, names[i])) return true;
    return false;
}

/* 0, 0.0, "0", "0.0%" */
static bool is_zero(const json *v) {
    if (v->kind == JSON_NUMBER) return v->number == 0;
    return v->kind == JSON_TEXT && v->len && strspn(v->text, "0.%") == v->len;
}

static int find_field(const json *v) {
    int i = 0;
    while (i < GEMM_FIELD_COUNT && !is_key(v, gemm_field_names[i])) i++;
    return i;
}

static bool read_value(const json *v, int field, int *out) {
    if (field == GEMM_TMA && v->kind == JSON_BOOL) {
        *out = v->truth;
        return true;
    }
    if (v->kind != JSON_NUMBER || !v->whole) return false;
    if (v->integer < gemm_field_least[field] || v->integer > gemm_field_most[field]) return false;
    *out = (int)v->integer;
    return true;
}

typedef struct seen {
    int evidence, zeros;
    bool source;
    bool bad; /* the row can't be used */
} seen;

static cadre_err read_field(const reader *r, const json *row, const json *v, foreign_row *out, seen *s) {
    int field = find_field(v);
    if (field < GEMM_FIELD_COUNT) {
        if (read_value(v, field, &out->config.v[field])) {
            out->config.has |= 1u << field;
            return CADRE_OK;
        }
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a whole number from %d to %d", gemm_field_least[field],
                 gemm_field_most[field]);
        s->bad = true;
        return bad_value(r, v, row, wanted);
    }
    if (is_evidence(v)) {
        s->evidence++;
        s->zeros += is_zero(v);
        return CADRE_OK;
    }
    if (is_key(v, "source") && v->kind == JSON_TEXT && v->len) {
        s->source = true;
        return CADRE_OK;
    }
    if (!out->unknown) out->unknown = v->key;
    return tell(r, v, row, "unknown-field", "is a field \"%.40s\" that no kernel declares", v->key);
}

/* Triton launches with 4 warps and 3 stages of its own where a row names none: shipped tables have such rows. */
static bool can_launch_without(int field) {
    return field == GEMM_WARPS || field == GEMM_STAGES;
}

static cadre_err check_row(const reader *r, const json *row, const foreign_row *out, const seen *s) {
    for (int i = 0; i < GEMM_FIELD_COUNT; i++) {
        if (out->config.has & 1u << i || !gemm_field_must[i] || (!r->note && can_launch_without(i))) continue;
        cadre_err err = tell(r, row, row, "missing-field", "has no %s, expected one", gemm_field_names[i]);
        if (err) return err;
    }
    if (s->evidence && s->zeros == s->evidence && !s->source)
        return tell(r, row, row, "zero-evidence",
                    "has nothing but zeros for evidence and no \"source\": it was written by hand, not measured");
    return CADRE_OK;
}

/* *usable: whether *out is a row. */
static cadre_err read_row(const reader *r, const json *row, foreign_row *out, bool *usable) {
    seen s = {0};
    *usable = false;
    memset(out, 0, sizeof *out);
    out->line = row->line;
    if (!read_key(row, &out->m)) return bad_key(r, row);
    if (row->kind != JSON_OBJECT) return bad_value(r, row, row, "a configuration");
    for (const json *v = row->child; v; v = v->next) {
        cadre_err err = read_field(r, row, v, out, &s);
        if (err) return err;
    }
    *usable = !s.bad;
    return s.bad ? CADRE_OK : check_row(r, row, out, &s);
}

/* ---- the table ---- */

/* triton_version is vLLM's; keys that start with '_' are nobody's yet, and stop every loader that makes each an
 * integer. */
static cadre_err read_meta(const reader *r, const json *v, foreign_table *t) {
    if (v->key[0] == '_') {
        if (!t->meta) t->meta = v->key, t->meta_line = v->line;
        return r->note ? tell(r, v, v, "metadata-key",
                              "is metadata, which the loaders of vLLM, SGLang and torchada "
                              "take for a number of tokens and stop at")
                       : CADRE_OK;
    }
    if (v->kind != JSON_TEXT || strlen(v->text) != v->len || v->len >= sizeof t->triton)
        return bad_value(r, v, v, "a text of at most 31 bytes");
    memcpy(t->triton, v->text, v->len + 1);
    t->triton_line = v->line;
    return CADRE_OK;
}

static cadre_err read_member(const reader *r, const json *v, foreign_table *t) {
    bool usable;
    if (v->key[0] == '_' || is_key(v, "triton_version")) return read_meta(r, v, t);
    cadre_err err = read_row(r, v, &t->rows[t->count], &usable);
    t->count += !err && usable;
    return err;
}

static cadre_err read_root(const reader *r, const json *root, foreign_table *t) {
    cadre_err err = CADRE_OK;
    if (root->kind != JSON_OBJECT) {
        char found[64];
        json_describe(root, found, sizeof found);
        return json_fail(r->doc, root, r->why, "is %s, expected {\"M\": {...}, ...}", found);
    }
    if (root->count > ROWS_MOST)
        return json_fail(r->doc, root, r->why, "has %d keys, expected at most %d", root->count, ROWS_MOST);
    t->rows = mem_new_array((size_t)root->count, sizeof *t->rows);
    if (!t->rows) return cadre_fail_set(r->why, CADRE_NOMEM, "%.200s: out of memory", t->path);
    for (const json *v = root->child; v && !err; v = v->next) err = read_member(r, v, t);
    if (!err && !t->count)
        err = tell(r, root, NULL, "no-rows", "has no rows that can be used: every M takes the default");
    return err;
}

static void read_name(const reader *r, foreign_table *t) {
    cadre_fail why;
    const char *slash = strrchr(t->path, '/');
    cadre_err err = foreign_name_parse(slash ? slash + 1 : t->path, &t->name, &why);
    if (err && r->note) r->note(r->ctx, 0, "bad-name", "", why.text);
    if (!err && r->note && *t->name.unknown) {
        char text[256];
        snprintf(text, sizeof text, "name field '%s' is not known: no system looks for this file", t->name.unknown);
        r->note(r->ctx, 0, "bad-name", t->name.unknown, text);
    }
}

cadre_err foreign_parse(const char *path, const char *text, size_t len, foreign_note *note, void *ctx,
                        foreign_table **out, cadre_fail *why) {
    json_doc *doc = NULL;
    cadre_err err = json_parse(path, text, len, &doc, why);
    if (err) return err;
    foreign_table *t = mem_new(sizeof *t);
    if (t) t->path = mem_copy_text(path, strlen(path));
    if (!t || !t->path) {
        mem_free(t);
        json_free(doc);
        return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory", path);
    }
    t->doc = doc;
    reader r = {doc, note, ctx, why};
    sha256 sha;
    sha256_init(&sha);
    sha256_add(&sha, text, len);
    sha256_hex(&sha, t->sha256);
    read_name(&r, t);
    err = read_root(&r, json_root(doc), t);
    if (err)
        foreign_free(t);
    else
        *out = t;
    return err;
}

cadre_err foreign_read(const char *path, foreign_note *note, void *ctx, foreign_table **out, cadre_fail *why) {
    char *text;
    size_t len;
    cadre_err err = file_read(path, FILE_MOST, &text, &len, why);
    if (err) return err;
    err = foreign_parse(path, text, len, note, ctx, out, why);
    mem_free(text);
    return err;
}

void foreign_free(foreign_table *table) {
    if (!table) return;
    json_free(table->doc);
    mem_free(table->rows);
    mem_free(table->path);
    mem_free(table);
}

cadre_err foreign_stop(foreign_system system, const foreign_table *table, cadre_fail *why) {
    bool triton = system != FOREIGN_VLLM && table->triton_line;
    bool first = triton && (!table->meta || table->triton_line < table->meta_line);
    if (!triton && !table->meta) return CADRE_OK;
    return cadre_fail_set(why, CADRE_FORMAT,
                          "%.300s:%d: %s stops at the key \"%.40s\": it takes each for a number of tokens", table->path,
                          first ? table->triton_line : table->meta_line, foreign_names[system],
                          first ? "triton_version" : table->meta);
}

/* ---- writing ---- */

/* More than any row takes: twelve fields of at most 20 + 11 + 6 bytes, and the key. */
enum { ROW_BYTES = 512 };

static size_t put_row(char *text, const foreign_row *row, bool last) {
    size_t n = (size_t)snprintf(text, ROW_BYTES, "  \"%d\": {", row->m);
    const char *comma = "";
    for (int i = 0; i < GEMM_FIELD_COUNT; i++) {
        if (!(row->config.has & 1u << i)) continue;
        n += (size_t)snprintf(text + n, ROW_BYTES - n, "%s\"%s\": ", comma, gemm_field_names[i]);
        if (i == GEMM_TMA)
            n += (size_t)snprintf(text + n, ROW_BYTES - n, "%s", row->config.v[i] ? "true" : "false");
        else
            n += (size_t)snprintf(text + n, ROW_BYTES - n, "%d", row->config.v[i]);
        comma = ", ";
    }
    return n + (size_t)snprintf(text + n, ROW_BYTES - n, last ? "}\n" : "},\n");
}

cadre_err foreign_print(const foreign_row *rows, int count, const char *triton, char **text, size_t *len,
                        cadre_fail *why) {
    json_out quoted = {0};
    size_t n = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].unknown)
            return cadre_fail_set(why, CADRE_UNSUPPORTED, "row %d has a field \"%.40s\", which would be lost",
                                  rows[i].m, rows[i].unknown);
    if (triton && *triton) json_put_text(&quoted, NULL, triton);
    char *out = quoted.failed ? NULL : mem_new_array((size_t)count + 1, ROW_BYTES + quoted.len);
    if (out) {
        n = (size_t)sprintf(out, "{\n");
        if (quoted.len)
            n += (size_t)sprintf(out + n, "  \"triton_version\": %.*s%s\n", (int)quoted.len, quoted.text,
                                 count ? "," : "");
        for (int i = 0; i < count; i++) n += put_row(out + n, &rows[i], i + 1 == count);
        n += (size_t)sprintf(out + n, "}\n");
        *text = out;
        *len = n;
    }
    json_out_free(&quoted);
    return out ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "a table of %d rows: out of memory", count);
}
