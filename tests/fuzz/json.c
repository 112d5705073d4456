/* json: any bytes either give a tree whose parts hang together and that survives writing and reading again, or one line
 * that starts with the name and a position. */
#include "base/base.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool c) {
    if (!c) abort();
}

static void check(const json *v, int depth) {
    int count = 0;
    must(depth <= 64 && v->line >= 1 && v->column >= 1);
    if (v->kind == JSON_TEXT) must(utf8_valid(v->text, v->len) && !v->text[v->len]);
    if (v->kind == JSON_NUMBER && v->whole) must((double)v->integer == v->number);
    for (const json *c = v->child; c; c = c->next, count++) {
        must(c->parent == v);
        if (v->kind == JSON_OBJECT) {
            must(utf8_valid(c->key, c->key_len) && !c->key[c->key_len]);
            must(json_get_n(v, c->key, c->key_len) == c);
        }
        check(c, depth + 1);
    }
    must(count == v->count && (v->kind >= JSON_ARRAY || !count));
}

/* Keys with NULs can't be written: json_out takes terminated keys. */
static bool writable(const json *v) {
    for (const json *c = v->child; c; c = c->next)
        if ((c->key && strlen(c->key) != c->key_len) || !writable(c)) return false;
    return v->kind != JSON_NUMBER || isfinite(v->number);
}

static void same(const json *a, const json *b) {
    must(a->kind == b->kind && a->count == b->count && a->truth == b->truth);
    must(a->number == b->number && a->key_len == b->key_len && a->len == b->len);
    if (a->key) must(!memcmp(a->key, b->key, a->key_len));
    if (a->kind == JSON_TEXT) must(!memcmp(a->text, b->text, a->len));
    for (a = a->child, b = b->child; a; a = a->next, b = b->next) same(a, b);
}

static void round_trip(const json *root) {
    json_out o = {0};
    json_doc *again = NULL;
    json_put_value(&o, NULL, root);
    must(!o.failed && !json_parse("again", o.text, o.len, &again, NULL));
    same(root, json_root(again));
    json_free(again);
    json_out_free(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_doc *doc = NULL;
    cadre_fail why = {0};
    cadre_err err = json_parse("in", (const char *)data, size, &doc, &why);
    if (err) {
        must(err == CADRE_FORMAT && why.code == err && !strncmp(why.text, "in:", 3) &&
             utf8_valid(why.text, strlen(why.text)));
        return 0;
    }
    check(json_root(doc), 1);
    if (writable(json_root(doc))) round_trip(json_root(doc));
    json_free(doc);
    return 0;
}

#include "replay.h"
