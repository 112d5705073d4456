/* json_value.c: reading members with their kind and range checked, and saying where a bad one stands. */
#include "err.h"
#include "json.h"
#include "utf8.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const json *json_get(const json *v, const char *key) {
    return json_get_n(v, key, strlen(key));
}

bool json_is(const json *v, const char *text) {
    return v && v->kind == JSON_TEXT && v->len == strlen(text) && !memcmp(v->text, text, v->len);
}

/* ---- where ---- */

typedef struct line {
    char text[400];
    size_t len;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->len, sizeof l->text - l->len, format, args);
    va_end(args);
    if (n > 0) l->len += (size_t)n;
    if (l->len >= sizeof l->text) l->len = sizeof l->text - 1;
}

static bool bare(const json *v) {
    static const char word[] = "_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return v->key_len && strspn(v->key, word) == v->key_len;
}

static void add_step(line *l, const json *v) {
    if (v->parent->kind == JSON_ARRAY) {
        int i = 0;
        for (const json *c = v->parent->child; c != v; c = c->next) i++;
        add(l, "[%d]", i);
    } else if (bare(v)) {
        add(l, ".%.60s", v->key);
    } else {
        add(l, "[\"%.60s\"]", v->key);
    }
}

static void add_path(line *l, const json *v) {
    const json *up[64];
    int n = 0;
    for (; v->parent && n < 64; v = v->parent) up[n++] = v;
    if (!n) add(l, "the root");
    if (n > 4) add(l, "..."); /* the steps nearest to the value tell most */
    for (int i = n > 4 ? 3 : n - 1; i >= 0; i--) add_step(l, up[i]);
}

static cadre_err fail_as(cadre_err code, const json_doc *doc, const json *v, cadre_fail *why, const char *format,
                         va_list args) {
    if (!why) return code;
    line l = {{0}, 0};
    char message[256];
    vsnprintf(message, sizeof message, format, args);
    add_path(&l, v);
    return cadre_fail_set(why, code, "%.200s:%d:%d: %s %s", json_name(doc), v->line, v->column, l.text, message);
}

cadre_err json_fail(const json_doc *doc, const json *v, cadre_fail *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cadre_err err = fail_as(CADRE_FORMAT, doc, v, why, format, args);
    va_end(args);
    return err;
}

cadre_err json_refuse(const json_doc *doc, const json *v, cadre_fail *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cadre_err err = fail_as(CADRE_UNSUPPORTED, doc, v, why, format, args);
    va_end(args);
    return err;
}

/* ---- what ---- */

void json_describe(const json *v, char *text, size_t size) {
    switch (v->kind) {
    case JSON_NULL:
        snprintf(text, size, "null");
        break;
    case JSON_BOOL:
        snprintf(text, size, v->truth ? "true" : "false");
        break;
    case JSON_TEXT:
        snprintf(text, size, "\"%.40s\" (text)", v->text);
        break;
    case JSON_ARRAY:
        snprintf(text, size, "an array of %d", v->count);
        break;
    case JSON_OBJECT:
        snprintf(text, size, "an object of %d", v->count);
        break;
    case JSON_NUMBER:
        if (v->whole)
            snprintf(text, size, "%lld", (long long)v->integer);
        else
            snprintf(text, size, "%.9g", v->number);
        break;
    }
}

static cadre_err not_a(const json_doc *doc, const json *v, const char *wanted, cadre_fail *why) {
    char found[64];
    json_describe(v, found, sizeof found);
    return json_fail(doc, v, why, "is %s, expected %s", found, wanted);
}

/* The member, or NULL where the default holds. */
static cadre_err member(const json_doc *doc, const json *object, const char *key, const json **v, cadre_fail *why) {
    *v = NULL;
    if (!object || object->kind == JSON_NULL) return CADRE_OK;
    if (object->kind != JSON_OBJECT) return not_a(doc, object, "an object", why);
    const json *m = json_get(object, key);
    if (m && m->kind != JSON_NULL) *v = m;
    return CADRE_OK;
}

cadre_err json_int(const json_doc *doc, const json *object, const char *key, int64_t def, int64_t low, int64_t high,
                   int64_t *out, cadre_fail *why) {
    const json *v;
    cadre_err err = member(doc, object, key, &v, why);
    if (err) return err;
    if (v && (v->kind != JSON_NUMBER || !v->whole || v->integer < low || v->integer > high)) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "a whole number in %lld..%lld", (long long)low, (long long)high);
        return not_a(doc, v, wanted, why);
    }
    *out = v ? v->integer : def;
    return CADRE_OK;
}

cadre_err json_real(const json_doc *doc, const json *object, const char *key, double def, double low, double high,
                    double *out, cadre_fail *why) {
    const json *v;
    cadre_err err = member(doc, object, key, &v, why);
    if (err) return err;
    if (v && (v->kind != JSON_NUMBER || !(v->number >= low && v->number <= high))) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "a number in %g..%g", low, high);
        return not_a(doc, v, wanted, why);
    }
    *out = v ? v->number : def;
    return CADRE_OK;
}

cadre_err json_flag(const json_doc *doc, const json *object, const char *key, bool def, bool *out, cadre_fail *why) {
    const json *v;
    cadre_err err = member(doc, object, key, &v, why);
    if (err) return err;
    if (v && v->kind != JSON_BOOL) return not_a(doc, v, "true or false", why);
    *out = v ? v->truth : def;
    return CADRE_OK;
}

/* Callers get a terminated text without its length, so one that holds a NUL would be cut in silence. */
cadre_err json_text(const json_doc *doc, const json *object, const char *key, const char *def, const char **out,
                    cadre_fail *why) {
    const json *v;
    cadre_err err = member(doc, object, key, &v, why);
    if (err) return err;
    if (v && v->kind != JSON_TEXT) return not_a(doc, v, "a text", why);
    if (v && strlen(v->text) != v->len) return not_a(doc, v, "a text without U+0000", why);
    *out = v ? v->text : def;
    return CADRE_OK;
}
