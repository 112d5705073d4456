/* json.h: a strict JSON reader with positions.
 *
 * Strict: UTF-8 checked, no comments, no trailing commas, no duplicate keys, depth limited, lone surrogates refused.
 * Two literals beyond the standard are read because real configs hold them: NaN, Infinity and -Infinity. A UTF-8 BOM at
 * the start is refused with a clear line. Nodes lie in blocks that never move; children of a node are linked by `next`.
 *
 *   {"a": [1, 2]}     node 0 object -> node 1 (key "a") array -> node 2 number -> node 3 number
 */
#ifndef CADRE_BASE_JSON_H
#define CADRE_BASE_JSON_H
#include "cadre.h"

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    bool truth;       /* JSON_BOOL */
    bool whole;       /* JSON_NUMBER written without . or exponent and in range of int64: `integer` holds it */
    int line, column; /* 1-based, of the value's first byte; column counts bytes */
    double number;
    int64_t integer;
    union {
        const char *text;               /* JSON_TEXT: unescaped, terminated, may hold NULs; len counts */
        const struct json_index *index; /* JSON_OBJECT with many members: private to json.c */
    };
    size_t len;
    const char *key; /* as member of an object: unescaped, terminated */
    size_t key_len;
    int count;                 /* ARRAY, OBJECT: children */
    const struct json *child;  /* first */
    const struct json *next;   /* sibling */
    const struct json *parent; /* NULL at the root */
} json;

typedef struct json_doc json_doc;

/* `name` (a path) starts every message: "config.json:3:14: expected ',' or '}', found 'x'". The text may be freed
 * afterwards. Errors: FORMAT, NOMEM. */
cadre_err json_parse(const char *name, const char *text, size_t len, json_doc **out, cadre_fail *why);
cadre_err json_read_file(const char *path, size_t limit, json_doc **out, cadre_fail *why);
void json_free(json_doc *doc);
const json *json_root(const json_doc *doc);
const char *json_name(const json_doc *doc);

/* Member by name, NULL if absent or v is not an object. O(1) on big objects (an index is made on parse). */
const json *json_get(const json *v, const char *key);
const json *json_get_n(const json *v, const char *key, size_t len);
bool json_is(const json *v, const char *text); /* v is a TEXT equal to text */

/* Reads one member with its range; a missing or null key takes `def`. A wrong kind or an out-of-range value is FORMAT:
 * "config.json:7:20: .hidden_size is "64" (text), expected a whole number in 1..1048576". */
cadre_err json_int(const json_doc *doc, const json *object, const char *key, int64_t def, int64_t low, int64_t high,
                   int64_t *out, cadre_fail *why);
cadre_err json_real(const json_doc *doc, const json *object, const char *key, double def, double low, double high,
                    double *out, cadre_fail *why);
cadre_err json_flag(const json_doc *doc, const json *object, const char *key, bool def, bool *out, cadre_fail *why);
cadre_err json_text(const json_doc *doc, const json *object, const char *key, const char *def, const char **out,
                    cadre_fail *why);
/* What v is, for messages: "64" (text), -1, true, null, an array of 3. Cut at size. */
void json_describe(const json *v, char *text, size_t size);
/* "file:line:column: .path.to.value " + message. */
cadre_err json_fail(const json_doc *doc, const json *v, cadre_fail *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for what is well formed but not supported. */
cadre_err json_refuse(const json_doc *doc, const json *v, cadre_fail *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writing: a growing text with correct escapes; one NOMEM at the end covers all calls. Zero-initialise. */
typedef struct json_out {
    char *text;
    size_t len, cap;
    bool failed, comma;
} json_out;
void json_open(json_out *o, const char *key, char bracket); /* '{' or '['; key NULL inside arrays and at the root */
void json_close(json_out *o, char bracket);                 /* '}' or ']' */
void json_put_text(json_out *o, const char *key, const char *text); /* text NULL writes null; invalid UTF-8 -> U+FFFD */
void json_put_text_n(json_out *o, const char *key, const char *text, size_t len);
void json_put_int(json_out *o, const char *key, int64_t v);
void json_put_real(json_out *o, const char *key,
                   double v); /* shortest that reads back; NaN and infinities write null */
void json_put_bool(json_out *o, const char *key, bool v);
void json_put_null(json_out *o, const char *key);
/* A value as it was read, with all below it. */
void json_put_value(json_out *o, const char *key, const json *v);
void json_out_free(json_out *o);
#endif
