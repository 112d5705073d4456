/* find.c: paths into JSON, and JSON in the middle of other text. */
#include "find.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ---- */

typedef enum step_kind { STEP_MEMBER, STEP_INDEX, STEP_EACH, STEP_WHERE } step_kind;
typedef struct step {
    step_kind kind;
    const char *name; /* member, or the member that is compared */
    size_t name_len;
    const char *value; /* WHERE */
    size_t value_len;
    long index;
} step;

static const char *bare_end(const char *p) {
    while (*p && *p != '.' && *p != '[') p++;
    return p;
}

/* ["any name"]: no escapes; a name with a quote can't be written. */
static const char *quoted(const char **p, step *s) {
    const char *end = strchr(*p + 2, '"');
    if (!end || end[1] != ']') return "\"] is missing";
    *s = (step){.kind = STEP_MEMBER, .name = *p + 2, .name_len = (size_t)(end - *p) - 2};
    *p = end + 2;
    return NULL;
}

static const char *bracket(const char **p, step *s) {
    if ((*p)[1] == '"') return quoted(p, s);
    const char *in = *p + 1, *end = strchr(in, ']');
    if (!end) return "] is missing";
    const char *equals = memchr(in, '=', (size_t)(end - in));
    char *stop;
    *p = end + 1;
    *s = (step){.kind = STEP_EACH};
    if (end == in) return NULL;
    if (equals) {
        *s = (step){.kind = STEP_WHERE, .name = in, .name_len = (size_t)(equals - in)};
        s->value = equals + 1, s->value_len = (size_t)(end - equals) - 1;
        return s->name_len && s->value_len ? NULL : "[key=value] lacks one of the two";
    }
    *s = (step){.kind = STEP_INDEX, .index = strtol(in, &stop, 10)};
    return stop == end && s->index >= 0 && *in != '+' && *in != ' ' ? NULL
                                                                    : "[...] takes a number, key=value, or nothing";
}

/* The step at *p, which moves behind it; what is wrong, or NULL. */
static const char *next(const char **p, step *s) {
    if (**p == '[') return bracket(p, s);
    if (**p != '.') return "a step begins with . or [";
    const char *name = ++*p;
    if (*name == '[') return bracket(p, s); /* ".[0]" is as good as "[0]" */
    *p = bare_end(name);
    *s = (step){.kind = STEP_MEMBER, .name = name, .name_len = (size_t)(*p - name)};
    return s->name_len ? NULL : "a name is missing after .";
}

const char *lab_path_wrong(const char *path) {
    const char *wrong = *path ? NULL : "is empty";
    step s;
    if (!strcmp(path, ".")) return NULL;
    while (*path && !wrong) wrong = next(&path, &s);
    return wrong;
}

/* ---- walking ---- */

static bool equals(const json *v, const step *s) {
    char text[64];
    const json *m = json_get_n(v, s->name, s->name_len);
    if (!m) return false;
    if (m->kind == JSON_TEXT) return m->len == s->value_len && !memcmp(m->text, s->value, m->len);
    json_describe(m, text, sizeof text);
    return strlen(text) == s->value_len && !memcmp(text, s->value, s->value_len);
}

static int walk(const json *v, const char *path, lab_take take, void *ctx) {
    step s;
    int n = 0, i = 0;
    if (!*path) {
        take(ctx, v);
        return 1;
    }
    if (next(&path, &s)) return 0;
    if (s.kind == STEP_MEMBER) {
        const json *m = json_get_n(v, s.name, s.name_len);
        return m ? walk(m, path, take, ctx) : 0;
    }
    if (v->kind != JSON_ARRAY) return 0;
    for (const json *c = v->child; c; c = c->next, i++)
        if (s.kind == STEP_EACH || (s.kind == STEP_INDEX && s.index == i) || (s.kind == STEP_WHERE && equals(c, &s)))
            n += walk(c, path, take, ctx);
    return n;
}

int lab_path_each(const json *root, const char *path, lab_take take, void *ctx) {
    if (!root || !path || lab_path_wrong(path)) return 0;
    return walk(root, strcmp(path, ".") ? path : "", take, ctx);
}

static void keep_first(void *ctx, const json *v) {
    const json **first = ctx;
    if (!*first) *first = v;
}

const json *lab_path_first(const json *root, const char *path) {
    const json *first = NULL;
    lab_path_each(root, path, keep_first, &first);
    return first;
}

double lab_number(const json *v) {
    if (v && v->kind == JSON_NUMBER) return v->number;
    return v && v->kind == JSON_BOOL ? v->truth : NAN;
}

const json *lab_around(const json *v, const char *key) {
    const json *m = NULL;
    for (; v && !m; v = v->parent) m = json_get(v, key);
    return m;
}

/* ---- JSON in other text ---- */

/* Is every line that is not blank an object, and is there more than one? */
static bool lines_of_objects(const char *text, size_t len) {
    int lines = 0;
    for (size_t at = 0, n; at < len; at += n + 1) {
        const char *p = text + at, *end = memchr(p, '\n', len - at);
        n = end ? (size_t)(end - p) : len - at;
        size_t blank = strspn(p, " \t\r");
        if (blank >= n) continue;
        if (p[blank] != '{') return false;
        lines++;
    }
    return lines > 1;
}

/* They become one array. */
static cadre_err parse_lines(const char *name, const char *text, size_t len, json_doc **out, cadre_fail *why) {
    char *all = mem_new(len + 3), *to = all;
    bool first = true;
    if (!all) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory", name);
    *to++ = '[';
    for (size_t at = 0, n; at < len; at += n + 1) { /* the comma takes the place of the end of line before it */
        const char *p = text + at, *end = memchr(p, '\n', len - at);
        n = end ? (size_t)(end - p) : len - at;
        if (strspn(p, " \t\r") >= n) continue;
        if (!first) *to++ = ',';
        memcpy(to, p, n);
        to += n;
        first = false;
    }
    *to++ = ']';
    cadre_err err = json_parse(name, all, (size_t)(to - all), out, why);
    mem_free(all);
    return err;
}

/* From the first line that starts with a bracket to the last that ends with one. */
static bool middle(const char *text, size_t len, size_t *from, size_t *to) {
    bool found = false;
    for (size_t at = 0; at < len && !found;) {
        found = text[at] == '{' || text[at] == '[';
        const char *end = memchr(text + at, '\n', len - at);
        *from = at;
        at = end ? (size_t)(end - text) + 1 : len;
    }
    if (!found) return false;
    for (*to = len; *to > *from; --*to)
        if ((text[*to - 1] == '}' || text[*to - 1] == ']') && (*to == len || text[*to] == '\n' || text[*to] == '\r'))
            return true;
    return false;
}

cadre_err lab_json_in(const char *name, const char *text, size_t len, json_doc **out, cadre_fail *why) {
    size_t from, to;
    cadre_err err = json_parse(name, text, len, out, why);
    if (err != CADRE_FORMAT) return err;
    if (lines_of_objects(text, len) && !parse_lines(name, text, len, out, NULL)) return CADRE_OK;
    if (middle(text, len, &from, &to) && !json_parse(name, text + from, to - from, out, NULL)) return CADRE_OK;
    return err;
}
