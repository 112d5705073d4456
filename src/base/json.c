/* json.c: text to tree. One pass over a private copy of the text, in which strings are unescaped where they stand; open
 * containers are a fixed stack, so depth costs nothing but a limit. Reading values is json_value.c's, writing
 * json_out.c's.
 *
 *   doc -> text   {"key\0: "value\0 ...      keys and texts of nodes point in here
 *       -> blocks [node node node ...] [node ...]
 *       -> indexes, one per object of more than FEW members
 */
#include "json.h"
#include "clock.h"
#include "err.h"
#include "file.h"
#include "json_index.h"
#include "mem.h"
#include "utf8.h"
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, FEW = 16, BLOCK_FIRST = 32, BLOCK_MOST = 1 << 17 };
/* Twice what the largest tokenizers hold; a hostile file of zeros would take 50 bytes of memory per byte. */
enum { VALUES_MOST = 1 << 22 };

typedef struct block {
    struct block *next;
    int used, cap;
    json nodes[];
} block;

struct json_doc {
    int values; /* nodes in use */
    char *name, *text;
    size_t len;
    json *root;
    block *blocks; /* newest first */
    json_index *indexes;
    uint64_t seed;
};

typedef struct frame {
    json *node, *last; /* an open container and its newest member */
} frame;

typedef struct parser {
    json_doc *doc;
    const char *p, *end, *line_start;
    int line, depth;
    json *value; /* the node that takes the next value */
    cadre_fail *why;
    frame stack[DEPTH];
} parser;

/* ---- what went wrong ---- */

static cadre_err fail_at(parser *r, const char *at, const char *message) {
    return cadre_fail_set(r->why, CADRE_FORMAT, "%.200s:%d:%d: %s", r->doc->name, r->line,
                          (int)(at - r->line_start) + 1, message);
}

static cadre_err no_memory(parser *r) {
    return cadre_fail_set(r->why, CADRE_NOMEM, "%.200s: out of memory", r->doc->name);
}

/* "expected X, found Y" at r->p. */
static cadre_err expected(parser *r, const char *what) {
    char found[24], text[160];
    const unsigned char *p = (const unsigned char *)r->p;
    int n;
    uint32_t cp = r->p < r->end ? utf8_decode(p, (const unsigned char *)r->end, &n) : 0;
    if (r->p >= r->end)
        strcpy(found, "the end");
    else if (cp == UTF8_BAD)
        snprintf(found, sizeof found, "byte 0x%02X", *p);
    else if (cp > ' ' && cp < 127)
        snprintf(found, sizeof found, "'%c'", (char)cp);
    else
        snprintf(found, sizeof found, "U+%04X", cp);
    snprintf(text, sizeof text, "expected %s, found %s", what, found);
    return fail_at(r, r->p, text);
}

/* ---- nodes ---- */

static json *new_node(json_doc *doc) {
    block *b = doc->blocks;
    if (!b || b->used == b->cap) {
        int cap = !b ? BLOCK_FIRST : b->cap < BLOCK_MOST ? b->cap * 2 : BLOCK_MOST;
        block *fresh = mem_new(sizeof *fresh + (size_t)cap * sizeof(json));
        if (!fresh) return NULL;
        fresh->next = b;
        fresh->cap = cap;
        doc->blocks = b = fresh;
    }
    return &b->nodes[b->used++];
}

static frame *top(parser *r) {
    return r->depth ? &r->stack[r->depth - 1] : NULL;
}

/* Makes r->value, a member of the open container or the root. */
static cadre_err add_node(parser *r) {
    if (r->doc->values++ == VALUES_MOST) return fail_at(r, r->p, "more than 4194304 values");
    json *v = new_node(r->doc);
    frame *f = top(r);
    if (!v) return no_memory(r);
    r->value = v;
    if (!f) {
        r->doc->root = v;
        return CADRE_OK;
    }
    v->parent = f->node;
    if (f->last)
        f->last->next = v;
    else
        f->node->child = v;
    f->last = v;
    f->node->count++;
    return CADRE_OK;
}

/* ---- small pieces ---- */

static void space(parser *r) {
    for (;; r->p++) {
        if (*r->p == '\n') {
            r->line++;
            r->line_start = r->p + 1;
        } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
            return;
        }
    }
}

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static bool word(parser *r, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, text, n)) return false;
    r->p += n;
    return true;
}

/* ---- numbers ---- */

/* strtod in the C locale whatever the program has set; the text ends in a byte that is no part of a number. */
static double real(const char *text) {
    static locale_t c_locale;
    locale_t l = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);
    if (!l) {
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the C library's own static object: nothing to free */
        __atomic_store_n(&c_locale, l, __ATOMIC_RELEASE);
    }
    return l ? strtod_l(text, NULL, l) : strtod(text, NULL);
}

static cadre_err digits(parser *r) {
    if (!digit(*r->p)) return expected(r, "a digit");
    while (digit(*r->p)) r->p++;
    return CADRE_OK;
}

/* The grammar of a number; *whole: neither '.' nor exponent. */
static cadre_err number_text(parser *r, bool *whole) {
    cadre_err err = CADRE_OK;
    *whole = true;
    if (*r->p == '-') r->p++;
    if (*r->p == '0' && digit(r->p[1])) return fail_at(r, r->p, "a number does not start with 0");
    if ((err = digits(r))) return err;
    if (*r->p == '.') {
        *whole = false;
        r->p++;
        if ((err = digits(r))) return err;
    }
    if (*r->p == 'e' || *r->p == 'E') {
        *whole = false;
        r->p++;
        if (*r->p == '+' || *r->p == '-') r->p++;
        err = digits(r);
    }
    return err;
}

static bool integer(const char *p, const char *end, int64_t *out) {
    bool minus = *p == '-';
    int64_t v = 0;
    for (p += minus; p < end; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v)) return false;
    if (!minus && v == INT64_MIN) return false;
    *out = minus ? v : -v; /* gathered below zero, where there is room for one more */
    return true;
}

static cadre_err number(parser *r, json *v) {
    const char *start = r->p;
    bool whole;
    cadre_err err = number_text(r, &whole);
    if (err) return err;
    v->kind = JSON_NUMBER;
    v->whole = whole && integer(start, r->p, &v->integer);
    bool small = v->whole && r->p - start <= 15 && v->integer;
    v->number = small ? (double)v->integer : real(start); /* -0 keeps its sign */
    if (isinf(v->number)) return fail_at(r, start, "number out of range");
    return CADRE_OK;
}

/* ---- strings ---- */

static int hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i], low = (char)(c | 32);
        int d = digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* \uXXXX, or a pair of them; r->p is at the backslash and moves behind. Reading past the end is stopped by the
 * terminating 0, which is no hex digit. */
static cadre_err unicode(parser *r, uint32_t *cp) {
    int a = hex4(r->p + 2);
    if (a < 0) return fail_at(r, r->p, "expected four hex digits after \\u");
    bool high = a >= 0xD800 && a < 0xDC00, low = a >= 0xDC00 && a < 0xE000;
    int b = high && r->p[6] == '\\' && r->p[7] == 'u' ? hex4(r->p + 8) : -1;
    if (low || (high && (b < 0xDC00 || b > 0xDFFF))) return fail_at(r, r->p, "lone surrogate in a string");
    *cp = high ? 0x10000u + (((uint32_t)a - 0xD800u) << 10) + ((uint32_t)b - 0xDC00u) : (uint32_t)a;
    r->p += high ? 12 : 6;
    return CADRE_OK;
}

static cadre_err escape(parser *r, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = r->p[1];
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        *(*to)++ = into[at - from];
        r->p += 2;
        return CADRE_OK;
    }
    if (c != 'u') return fail_at(r, r->p, "unknown escape in a string");
    uint32_t cp = 0;
    cadre_err err = unicode(r, &cp);
    if (!err) *to += utf8_encode(cp, *to);
    return err;
}

/* One character beyond ASCII, checked and moved. */
static cadre_err wide(parser *r, char **to) {
    int n;
    if (utf8_decode((const unsigned char *)r->p, (const unsigned char *)r->end, &n) == UTF8_BAD)
        return expected(r, "UTF-8");
    memmove(*to, r->p, (size_t)n);
    *to += n;
    r->p += n;
    return CADRE_OK;
}

static bool plain(char c) {
    return (signed char)c >= ' ' && c != '"' && c != '\\';
}

/* A string, unescaped where it stands: what is written never overtakes what is read. r->p is at the quote. */
static cadre_err string(parser *r, const char **text, size_t *len) {
    cadre_err err = CADRE_OK;
    const char *start = ++r->p;
    while (plain(*r->p)) r->p++;
    char *to = r->doc->text + (r->p - r->doc->text);
    while (*r->p != '"') {
        char c = *r->p;
        if (c == '\\')
            err = escape(r, &to);
        else if ((signed char)c < 0)
            err = wide(r, &to);
        else if (r->p >= r->end)
            err = expected(r, "'\"'");
        else if (c < ' ')
            err = expected(r, "an escaped control character");
        else
            *to++ = *r->p++;
        if (err) return err;
    }
    *to = 0;
    r->p++;
    *text = start;
    *len = (size_t)(to - start);
    return CADRE_OK;
}

/* ---- objects ---- */

static bool same_key(const json *v, const char *key, size_t len) {
    return v->key_len == len && !memcmp(v->key, key, len);
}

static const json *walk(const json *object, const char *key, size_t len) {
    const json *v = object->child;
    while (v && !same_key(v, key, len)) v = v->next;
    return v;
}

const json *json_get_n(const json *v, const char *key, size_t len) {
    if (!v || v->kind != JSON_OBJECT) return NULL;
    return v->index ? json_index_find(v->index, key, len) : walk(v, key, len);
}

/* The object has just grown past FEW members: from now on they are found by hash. */
static bool begin_index(json_doc *doc, json *object) {
    json_index *x = json_index_new(doc->seed, &doc->indexes);
    if (!x) return false;
    for (const json *v = object->child; v; v = v->next)
        if (!json_index_add(x, v)) return false;
    object->index = x;
    return true;
}

/* "key": and r->value for what follows. */
static cadre_err key(parser *r) {
    const char *at = r->p, *text;
    size_t len;
    if (*r->p != '"') return expected(r, top(r)->last ? "a key" : "a key or '}'");
    cadre_err err = string(r, &text, &len);
    if (err) return err;
    json *object = top(r)->node;
    if (json_get_n(object, text, len)) {
        char message[96];
        snprintf(message, sizeof message, "key \"%.60s\" was given before", text);
        return fail_at(r, at, message);
    }
    if ((err = add_node(r))) return err;
    r->value->key = text;
    r->value->key_len = len;
    bool indexed = true;
    if (object->index)
        indexed = json_index_add((json_index *)(uintptr_t)object->index, r->value);
    else if (object->count > FEW)
        indexed = begin_index(r->doc, object);
    if (!indexed) return no_memory(r);
    space(r);
    if (*r->p != ':') return expected(r, "':'");
    r->p++;
    space(r);
    return CADRE_OK;
}

/* ---- the walk ---- */

/* '{' or '['. *inside: the first member's value is next; else the container was empty and is done. */
static cadre_err enter(parser *r, json *v, bool *inside) {
    bool object = *r->p == '{';
    if (r->depth == DEPTH) return fail_at(r, r->p, "nested deeper than 64");
    v->kind = object ? JSON_OBJECT : JSON_ARRAY;
    r->stack[r->depth++] = (frame){v, NULL};
    r->p++;
    space(r);
    if (*r->p == (object ? '}' : ']')) {
        r->p++;
        r->depth--;
        return CADRE_OK;
    }
    *inside = true;
    return object ? key(r) : add_node(r);
}

static cadre_err literal(parser *r, json *v) {
    bool minus = *r->p == '-';
    v->kind = JSON_NUMBER;
    if (word(r, "NaN"))
        v->number = NAN;
    else if (word(r, minus ? "-Infinity" : "Infinity"))
        v->number = minus ? -INFINITY : INFINITY;
    else if (word(r, "null"))
        v->kind = JSON_NULL;
    else if (word(r, "true") || word(r, "false"))
        v->kind = JSON_BOOL, v->truth = r->p[-2] == 'u';
    else
        return expected(r, "a value");
    return CADRE_OK;
}

static cadre_err value(parser *r, bool *inside) {
    json *v = r->value;
    char c = *r->p;
    *inside = false;
    v->line = r->line;
    v->column = (int)(r->p - r->line_start) + 1;
    if (c == '{' || c == '[') return enter(r, v, inside);
    if (digit(c) || (c == '-' && r->p[1] != 'I')) return number(r, v);
    if (c != '"') return literal(r, v);
    v->kind = JSON_TEXT;
    return string(r, &v->text, &v->len);
}

/* After a value: closes what ends here, and stands at the next value (*more) or behind the root. */
static cadre_err after(parser *r, bool *more) {
    *more = false;
    while (r->depth) {
        bool object = top(r)->node->kind == JSON_OBJECT;
        space(r);
        if (*r->p == ',') {
            r->p++;
            space(r);
            *more = true;
            return object ? key(r) : add_node(r);
        }
        if (*r->p != (object ? '}' : ']')) return expected(r, object ? "',' or '}'" : "',' or ']'");
        r->p++;
        r->depth--;
    }
    return CADRE_OK;
}

static cadre_err document(parser *r) {
    if (!strncmp(r->p, "\xEF\xBB\xBF", 3)) return fail_at(r, r->p, "expected JSON, found a UTF-8 byte order mark");
    space(r);
    cadre_err err = add_node(r);
    bool more = true, inside;
    while (!err && more) {
        err = value(r, &inside);
        if (!err && !inside) err = after(r, &more);
    }
    if (err) return err;
    space(r);
    return r->p < r->end ? expected(r, "the end") : CADRE_OK;
}

/* Takes `text` (mem_new memory, terminated) in every case. */
static cadre_err parse_own(const char *name, char *text, size_t len, json_doc **out, cadre_fail *why) {
    json_doc *doc = mem_new(sizeof *doc);
    if (doc) doc->name = mem_copy_text(name, strlen(name));
    if (!doc || !doc->name) {
        mem_free(text);
        mem_free(doc);
        return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory", name);
    }
    doc->text = text;
    doc->len = len;
    doc->seed = clock_ns() ^ (uintptr_t)doc;
    parser r = {.doc = doc, .p = text, .end = text + len, .line_start = text, .line = 1, .why = why};
    cadre_err err = document(&r);
    if (err)
        json_free(doc);
    else
        *out = doc;
    return err;
}

cadre_err json_parse(const char *name, const char *text, size_t len, json_doc **out, cadre_fail *why) {
    if (len >= INT_MAX) return cadre_fail_set(why, CADRE_FORMAT, "%.200s: larger than 2 GiB", name);
    char *own = mem_copy_text(text, len);
    if (!own) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory", name);
    return parse_own(name, own, len, out, why);
}

cadre_err json_read_file(const char *path, size_t limit, json_doc **out, cadre_fail *why) {
    char *text;
    size_t len;
    cadre_err err = file_read(path, limit < INT_MAX ? limit : INT_MAX - 1, &text, &len, why);
    return err ? err : parse_own(path, text, len, out, why);
}

void json_free(json_doc *doc) {
    if (!doc) return;
    for (block *b = doc->blocks, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    json_index_free(doc->indexes);
    mem_free(doc->name);
    mem_free(doc->text);
    mem_free(doc);
}

const json *json_root(const json_doc *doc) {
    return doc->root;
}
const char *json_name(const json_doc *doc) {
    return doc->name;
}
