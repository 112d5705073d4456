/* recipe.c: reading a recipe: which kind it is, what its members may be, and faults with their place. */
#include "plan/recipe_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- faults ---- */

static int index_of(const json *v) {
    int i = 0;
    for (const json *c = v->parent->child; c != v; c = c->next) i++;
    return i;
}

/* RFC 6901: ~ and / of a key are written ~0 and ~1. */
static void put_pointer(const json *v, char *out, size_t size) {
    if (!v->parent) return;
    put_pointer(v->parent, out, size);
    size_t n = strlen(out);
    if (v->parent->kind == JSON_ARRAY) {
        snprintf(out + n, size - n, "/%d", index_of(v));
        return;
    }
    if (n + 1 < size) out[n++] = '/';
    for (const char *p = v->key; *p && n + 2 < size; p++) {
        out[n++] = *p == '~' || *p == '/' ? '~' : *p;
        if (*p == '~' || *p == '/') out[n++] = *p == '~' ? '0' : '1';
    }
    out[n < size ? n : size - 1] = 0;
}

cadre_err recipe_fault(const recipe *r, const json *at, cadre_fail *why, const char *format, ...) {
    char text[300], pointer[120] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_pointer(at, pointer, sizeof pointer);
    return cadre_fail_set(why, CADRE_FORMAT, "%.160s:%d:%d: %s: %s", r->path, at->line, at->column,
                          *pointer ? pointer : "/", text);
}

/* ---- members ---- */

static const json *member(const recipe *r, const json *object, const char *key, bool must, cadre_err *err,
                          cadre_fail *why) {
    const json *v = json_get(object, key);
    *err = !v && must ? recipe_fault(r, object, why, "%s is missing", key) : CADRE_OK;
    return v;
}

cadre_err recipe_int(const recipe *r, const json *object, const char *key, bool must, int low, int high, int *out,
                     cadre_fail *why) {
    cadre_err err;
    const json *v = member(r, object, key, must, &err, why);
    if (!v) return err;
    if (v->kind != JSON_NUMBER || !v->whole || v->integer < low || v->integer > high)
        return recipe_fault(r, v, why, "expected a whole number in %d..%d", low, high);
    *out = (int)v->integer;
    return CADRE_OK;
}

cadre_err recipe_text(const recipe *r, const json *object, const char *key, bool must, const char **out,
                      cadre_fail *why) {
    cadre_err err;
    const json *v = member(r, object, key, must, &err, why);
    if (!v) return err;
    if (v->kind != JSON_TEXT || !v->len || strlen(v->text) != v->len)
        return recipe_fault(r, v, why, "expected a text that is not empty");
    *out = v->text;
    return CADRE_OK;
}

cadre_err recipe_real(const recipe *r, const json *object, const char *key, double *out, cadre_fail *why) {
    cadre_err err;
    const json *v = member(r, object, key, true, &err, why);
    if (!v) return err;
    if (v->kind != JSON_NUMBER || !isfinite(v->number) || v->number <= 0)
        return recipe_fault(r, v, why, "expected a number above 0: what is 0 was not measured");
    *out = v->number;
    return CADRE_OK;
}

static bool one_of(const char *keys, const char *key, size_t len) {
    while (*keys) {
        size_t n = strcspn(keys, "|");
        if (n == len && !memcmp(keys, key, n)) return true;
        keys += n + (keys[n] == '|');
    }
    return false;
}

cadre_err recipe_known(const recipe *r, const json *object, const char *keys, cadre_fail *why) {
    if (object->kind != JSON_OBJECT) return recipe_fault(r, object, why, "expected an object");
    for (const json *c = object->child; c; c = c->next)
        if (!one_of(keys, c->key, c->key_len))
            return recipe_fault(r, c, why, "is not a field of a recipe; there are %s", keys);
    return CADRE_OK;
}

/* ---- whole recipes ---- */

static cadre_err check(const recipe *r, cadre_fail *why) {
    if (r->native) return recipe_check_rows(r, why);
    if (r->root->kind == JSON_OBJECT) return recipe_check_entry(r, r->root, why);
    if (r->root->kind != JSON_ARRAY || !r->root->count)
        return recipe_fault(r, r->root, why, "expected a list of entries, or an object with cadre_recipe");
    for (const json *e = r->root->child; e; e = e->next) {
        cadre_err err = recipe_check_entry(r, e, why);
        if (err) return err;
    }
    return CADRE_OK;
}

cadre_err recipe_parse(const char *path, const char *text, size_t len, recipe **out, cadre_fail *why) {
    recipe *r = mem_new(sizeof *r);
    if (r) r->path = mem_copy_text(path, strlen(path));
    if (!r || !r->path) {
        mem_free(r);
        return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for a recipe", path);
    }
    cadre_err err = json_parse(path, text, len, &r->doc, why);
    if (!err) {
        r->root = json_root(r->doc);
        r->native = json_get(r->root, "cadre_recipe") != NULL;
        err = check(r, why);
    }
    if (err)
        recipe_free(r);
    else
        *out = r;
    return err;
}

cadre_err recipe_read(const char *path, recipe **out, cadre_fail *why) {
    enum { LIMIT = 16 << 20 };
    char *text;
    size_t len;
    cadre_err err = file_read(path, LIMIT, &text, &len, why);
    if (err) return err;
    err = recipe_parse(path, text, len, out, why);
    mem_free(text);
    return err;
}

void recipe_free(recipe *r) {
    if (!r) return;
    json_free(r->doc);
    mem_free(r->path);
    mem_free(r);
}

bool recipe_is(const char *path, const char *text, size_t len) {
    json_doc *doc;
    if (json_parse(path, text, len, &doc, NULL)) return false;
    const json *root = json_root(doc), *first = root->kind == JSON_ARRAY ? root->child : root;
    bool yes = first && (json_get(first, "cadre_recipe") || json_get(first, "pinned_rows") ||
                         json_get(first, "shard_intermediate_size"));
    json_free(doc);
    return yes;
}

bool recipe_is_native(const recipe *r) {
    return r->native;
}

int recipe_tables(const recipe *r) {
    return r->root->kind == JSON_ARRAY ? r->root->count : 1;
}

static const json *entry_at(const recipe *r, int i) {
    const json *e = r->root;
    if (e->kind == JSON_ARRAY)
        for (e = e->child; i > 0; i--) e = e->next;
    return e;
}

int recipe_batch_sizes(const recipe *r, int table, int *out, int cap) {
    return recipe_sizes(json_get(entry_at(r, table), "batch_sizes"), out, cap);
}

cadre_err recipe_build(const recipe *r, int table, recipe_owner *tell, void *ctx, recipe_output *out, cadre_fail *why) {
    *out = (recipe_output){0};
    if (r->native) return recipe_build_rows(r, tell, ctx, out, why);
    return recipe_build_entry(r, entry_at(r, table), tell, ctx, out, why);
}
