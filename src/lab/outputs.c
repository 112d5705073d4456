/* outputs.c: the identity of what was generated: a digest per request, and one over all of them in the order of their
 * ids, so that the order in which they were completed does not matter.
 *
 *   family = sha256 of "id TAB sha256 LF" for each request */
#include "reading.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct request {
    char id[80], sha[65];
    double number; /* of an id that is one, else NaN */
} request;

typedef struct requests {
    const char *id; /* member that names a request; NULL: by position */
    void (*hash)(const json *v, char sha[65]);
    request *items;
    int count, cap;
    double bytes;
    bool failed;
} requests;

static request *add(requests *all) {
    if (all->count == all->cap) {
        size_t cap = all->cap ? 2 * (size_t)all->cap : 16;
        request *grown = mem_resize(all->items, (size_t)all->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown) return all->failed = true, NULL;
        all->items = grown;
        all->cap = (int)cap;
    }
    request *r = &all->items[all->count];
    snprintf(r->id, sizeof r->id, "%d", all->count);
    r->number = all->count++;
    return r;
}

static void name(request *r, const json *id) {
    if (!id) return;
    if (id->kind == JSON_TEXT)
        snprintf(r->id, sizeof r->id, "%s", id->text);
    else
        json_describe(id, r->id, sizeof r->id);
    r->number = id->kind == JSON_NUMBER ? id->number : NAN;
}

static void take(void *ctx, const json *v) {
    requests *all = ctx;
    request *r = add(all);
    if (!r) return;
    all->hash(v, r->sha);
    if (v->kind == JSON_TEXT) all->bytes += (double)v->len;
    if (all->id && v->parent && v->parent->kind == JSON_OBJECT) name(r, json_get(v->parent, all->id));
}

static void hash_sha(const json *v, char sha[65]) {
    snprintf(sha, 65, "%s", v->kind == JSON_TEXT ? v->text : "");
}

static void hash_text(const json *v, char sha[65]) {
    *sha = 0;
    if (v->kind == JSON_TEXT) cadre_sha256(v->text, v->len, sha);
}

/* Token ids as little-endian int32, as cadre hashes them. */
static void hash_ids(const json *v, char sha[65]) {
    sha256 s;
    *sha = 0;
    if (v->kind != JSON_ARRAY) return;
    sha256_init(&s);
    for (const json *c = v->child; c; c = c->next) {
        if (c->kind != JSON_NUMBER || !c->whole) return;
        uint32_t id = (uint32_t)c->integer;
        unsigned char bytes[4] = {(unsigned char)id, (unsigned char)(id >> 8), (unsigned char)(id >> 16),
                                  (unsigned char)(id >> 24)};
        sha256_add(&s, bytes, 4);
    }
    sha256_hex(&s, sha);
}

static bool take_hit(void *ctx, const char *hit, size_t n) {
    requests *all = ctx;
    request *r = add(all);
    if (!r) return false;
    cadre_sha256(hit, n, r->sha);
    all->bytes += (double)n;
    return true;
}

/* Numbers by value, then texts by bytes. */
static int by_id(const void *a, const void *b) {
    const request *x = a, *y = b;
    bool nx = !isnan(x->number), ny = !isnan(y->number);
    if (nx != ny) return nx ? -1 : 1;
    if (nx && x->number != y->number) return x->number < y->number ? -1 : 1;
    int order = strcmp(x->id, y->id);
    return order ? order : strcmp(x->sha, y->sha);
}

/* A request without a digest makes the whole of them untold. */
static bool all_told(const requests *all) {
    for (int i = 0; i < all->count; i++)
        if (!*all->items[i].sha) return false;
    return all->count > 0;
}

static cadre_err combine(requests *all, lab_reading *r, cadre_fail *why) {
    sha256 s;
    json_out o = {0};
    qsort(all->items, (size_t)all->count, sizeof *all->items, by_id);
    sha256_init(&s);
    json_open(&o, NULL, '[');
    for (int i = 0; i < all->count; i++) {
        const request *q = &all->items[i];
        char line[160];
        int n = snprintf(line, sizeof line, "%s\t%s\n", q->id, q->sha);
        sha256_add(&s, line, (size_t)n);
        json_open(&o, NULL, '{');
        json_put_text(&o, "id", q->id);
        json_put_text(&o, "sha256", q->sha);
        json_close(&o, '}');
    }
    json_close(&o, ']');
    sha256_hex(&s, r->family);
    cadre_err err = o.failed ? CADRE_NOMEM : json_parse("requests", o.text, o.len, &r->requests, why);
    json_out_free(&o);
    return err == CADRE_NOMEM ? cadre_fail_set(why, err, "out of memory for the digests of the outputs") : err;
}

cadre_err lab_reading_outputs(const lab_outputs *from, const lab_output *o, lab_reading *r, cadre_fail *why) {
    requests all = {.id = from->id};
    const char *path = from->sha256 ? from->sha256 : from->ids ? from->ids : from->text;
    cadre_err err = CADRE_OK;
    all.hash = from->sha256 ? hash_sha : from->ids ? hash_ids : hash_text;
    if (path && o->doc) lab_path_each(json_root(o->doc), path, take, &all);
    if (!path && from->pattern) err = lab_reading_each(o, from->pattern, take_hit, &all, why);
    if (!err && all.failed) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for the digests of the outputs");
    if (!err && all_told(&all)) err = combine(&all, r, why);
    if (from->text || from->pattern) r->text_bytes = all.count ? all.bytes : NAN;
    mem_free(all.items);
    return err;
}
