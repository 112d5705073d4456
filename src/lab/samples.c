/* samples.c: files of samples. Each line is parsed by itself, and its tree is kept as long as the samples are: texts
 * and manifests point into it.
 *
 *   {"kind":"ab","run":"r1","arm":"off","visit":1,"order":1,"iteration":2,"metric":"tpot_ms","unit":"ms","value":6.62}
 *
 * Only arm, metric and value must be there. Members that are not known are passed over. What is done with a sample is
 * none of this file's business; visits and orders that were not told are worked out here, from the order of the file.
 */
#include "lab.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28, LINES_MOST = 1 << 22, NUMBER_MOST = 1 << 20 };

struct lab_samples {
    lab_sample *items;
    int *lines;
    int count, cap;
    json_doc **docs; /* of each item, NULL from memory */
    char **texts;    /* of each item: its run where that was a number, else NULL */
    bool torn;
};

/* ---- one line ---- */

/* Messages of the parser begin with "NAME:1:COLUMN"; the line of the file takes the place of the 1. */
static cadre_err at_line(const char *name, int line, const cadre_fail *found, cadre_fail *why) {
    const char *text = strncmp(found->text, ":1:", 3) ? found->text : found->text + 3;
    return cadre_fail_set(why, found->code, "%.200s:%d:%s", name, line, text);
}

static cadre_err bad(const json_doc *doc, const json *v, const char *wanted, cadre_fail *why) {
    char found[64];
    json_describe(v, found, sizeof found);
    return json_fail(doc, v, why, "is %s, expected %s", found, wanted);
}

static cadre_err required(const json_doc *doc, const char *key, const char **out, cadre_fail *why) {
    cadre_err err = json_text(doc, json_root(doc), key, NULL, out, why);
    if (!err && !*out) return json_fail(doc, json_root(doc), why, "has no .%s", key);
    if (!err && !**out) return bad(doc, json_get(json_root(doc), key), "a name", why);
    return err;
}

static cadre_err real(const json_doc *doc, const char *key, double low, double *out, cadre_fail *why) {
    return json_real(doc, json_root(doc), key, NAN, low, 1e300, out, why);
}

static cadre_err whole(const json_doc *doc, const char *key, int low, int *out, cadre_fail *why) {
    int64_t n = 0;
    cadre_err err = json_int(doc, json_root(doc), key, 0, low, NUMBER_MOST, &n, why);
    if (!err) *out = (int)n;
    return err;
}

static cadre_err value(const json_doc *doc, lab_sample *s, cadre_fail *why) {
    if (!json_get(json_root(doc), "value"))
        return json_fail(doc, json_root(doc), why, "has no .value (null: not measured)");
    return real(doc, "value", -1e300, &s->value, why);
}

/* A run may be called by a text or a whole number. */
static cadre_err run_name(const json_doc *doc, lab_sample *s, char **made, cadre_fail *why) {
    const json *v = json_get(json_root(doc), "run");
    if (!v || v->kind != JSON_NUMBER) return json_text(doc, json_root(doc), "run", NULL, &s->run, why);
    if (!v->whole) return bad(doc, v, "a text or a whole number", why);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v->integer);
    s->run = *made = mem_copy_text(text, strlen(text));
    return *made ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "out of memory for samples");
}

static cadre_err activity(const json_doc *doc, lab_sample *s, cadre_fail *why) {
    const json *v = json_get(json_root(doc), "active");
    s->active = LAB_ACTIVE_UNKNOWN;
    if (!v || v->kind == JSON_NULL) return CADRE_OK;
    if (v->kind != JSON_BOOL) return bad(doc, v, "true, false or null", why);
    s->active = v->truth ? LAB_ACTIVE_YES : LAB_ACTIVE_NO;
    return CADRE_OK;
}

static cadre_err digests(const json_doc *doc, lab_sample *s, cadre_fail *why) {
    const json *v = json_get(json_root(doc), "requests");
    if (!v || v->kind == JSON_NULL) return CADRE_OK;
    if (v->kind != JSON_ARRAY) return bad(doc, v, "an array of {id, sha256}", why);
    for (const json *r = v->child; r; r = r->next) {
        const json *id = json_get(r, "id"), *sha = json_get(r, "sha256");
        if (r->kind != JSON_OBJECT || !id || (id->kind != JSON_TEXT && id->kind != JSON_NUMBER))
            return bad(doc, r, "a request {id, sha256}", why);
        if (sha && sha->kind != JSON_TEXT && sha->kind != JSON_NULL) return bad(doc, sha, "a text", why);
    }
    s->requests = v;
    return CADRE_OK;
}

static cadre_err outputs(const json_doc *doc, lab_sample *s, cadre_fail *why) {
    cadre_err err = real(doc, "tokens", 0, &s->tokens, why);
    if (!err) err = real(doc, "failed", 0, &s->failed, why);
    if (!err) err = real(doc, "accepted", 0, &s->accepted, why);
    if (!err) err = real(doc, "drafts", 0, &s->drafts, why);
    if (!err) err = real(doc, "draft_tokens", 0, &s->draft_tokens, why);
    if (!err && s->accepted > s->draft_tokens)
        err = json_fail(doc, json_get(json_root(doc), "accepted"), why, "is more than .draft_tokens");
    if (!err) err = json_text(doc, json_root(doc), "family", NULL, &s->family, why);
    if (!err) err = digests(doc, s, why);
    if (!err) err = activity(doc, s, why);
    if (!err) err = json_text(doc, json_root(doc), "why", NULL, &s->why, why);
    return err;
}

static cadre_err surroundings(const json_doc *doc, lab_sample *s, cadre_fail *why) {
    cadre_err err = json_text(doc, json_root(doc), "started", NULL, &s->started, why);
    if (!err) err = real(doc, "load", 0, &s->load, why);
    if (!err) err = real(doc, "mhz", 0, &s->mhz, why);
    if (!err) err = real(doc, "celsius", -300, &s->celsius, why);
    const json *manifest = json_get(json_root(doc), "manifest");
    if (err || !manifest || manifest->kind == JSON_NULL) return err;
    if (manifest->kind != JSON_OBJECT) return bad(doc, manifest, "an object", why);
    s->manifest = manifest;
    return CADRE_OK;
}

static cadre_err sample_of(const json_doc *doc, lab_sample *s, char **made, cadre_fail *why) {
    cadre_err err = run_name(doc, s, made, why);
    if (!err) err = required(doc, "arm", &s->arm, why);
    if (!err) err = whole(doc, "visit", 1, &s->visit, why);
    if (!err) err = whole(doc, "order", 1, &s->order, why);
    if (!err) err = whole(doc, "iteration", 0, &s->iteration, why);
    if (!err) err = json_flag(doc, json_root(doc), "warmup", false, &s->warmup, why);
    if (!err) err = required(doc, "metric", &s->metric, why);
    if (!err) err = json_text(doc, json_root(doc), "unit", NULL, &s->unit, why);
    if (!err) err = value(doc, s, why);
    if (!err) err = outputs(doc, s, why);
    if (!err) err = surroundings(doc, s, why);
    return err;
}

/* ---- many ---- */

static bool grow(void **array, size_t size, int count, int cap) {
    void *more = mem_resize(*array, (size_t)count * size, (size_t)cap * size);
    if (more) *array = more;
    return more != NULL;
}

static bool room(lab_samples *s) {
    if (s->count < s->cap) return true;
    int cap = s->cap ? s->cap * 2 : 64;
    if (!grow((void **)&s->items, sizeof *s->items, s->count, cap)) return false;
    if (!grow((void **)&s->lines, sizeof *s->lines, s->count, cap)) return false;
    if (!grow((void **)&s->docs, sizeof *s->docs, s->count, cap)) return false;
    if (!grow((void **)&s->texts, sizeof *s->texts, s->count, cap)) return false;
    s->cap = cap;
    return true;
}

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for samples");
}

/* Takes the document. */
static cadre_err take(lab_samples *s, json_doc *doc, int line, cadre_fail *why) {
    lab_sample made = {0};
    char *text = NULL;
    cadre_err err = CADRE_OK;
    const json *kind = json_get(json_root(doc), "kind");
    bool other = kind && kind->kind != JSON_NULL && !json_is(kind, "ab");
    if (json_root(doc)->kind != JSON_OBJECT)
        err = bad(doc, json_root(doc), "an object", why);
    else if (other && kind->kind != JSON_TEXT)
        err = bad(doc, kind, "a text", why);
    else if (!other)
        err = sample_of(doc, &made, &text, why);
    if (!err && !other && !room(s)) err = no_memory(why);
    if (err || other) {
        json_free(doc);
        mem_free(text);
        return err;
    }
    s->items[s->count] = made;
    s->lines[s->count] = line;
    s->docs[s->count] = doc;
    s->texts[s->count++] = text;
    return CADRE_OK;
}

static bool blank(const char *p, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r') return false;
    return true;
}

/* `ended`: it has its end of line. A last line without one is whole if it can be read, else torn. */
static cadre_err one_line(lab_samples *s, const char *name, int line, const char *p, size_t len, bool ended,
                          cadre_fail *why) {
    json_doc *doc = NULL;
    cadre_fail found = {0};
    if (blank(p, len)) return CADRE_OK;
    cadre_err err = json_parse("", p, len, &doc, &found);
    if (err == CADRE_FORMAT && !ended) {
        s->torn = true;
        return CADRE_OK;
    }
    if (!err) err = take(s, doc, line, &found);
    return err ? at_line(name, line, &found, why) : CADRE_OK;
}

static cadre_err all_lines(lab_samples *s, const char *name, const char *text, size_t len, cadre_fail *why) {
    int line = 0;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (++line > LINES_MOST)
            return cadre_fail_set(why, CADRE_FORMAT, "%.200s: more than %d lines", name, LINES_MOST);
        cadre_err err = one_line(s, name, line, p, (size_t)((stop ? stop : end) - p), stop != NULL, why);
        if (err) return err;
        p = stop ? stop + 1 : end;
    }
    return CADRE_OK;
}

/* ---- visits and orders that were not told ---- */

/* One sample while it is sorted. */
typedef struct place {
    const lab_sample *s;
    int at, first; /* of its visit */
    int rank;
} place;

static int text_order(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}
static int by_arm(const void *a, const void *b) {
    const place *x = a, *y = b;
    int c = text_order(x->s->run, y->s->run);
    if (!c) c = strcmp(x->s->arm, y->s->arm);
    return c ? c : x->at - y->at;
}
static int by_visit(const void *a, const void *b) {
    const place *x = a, *y = b;
    int c = text_order(x->s->run, y->s->run);
    if (!c) c = strcmp(x->s->arm, y->s->arm);
    if (!c) c = x->s->visit - y->s->visit;
    return c ? c : x->at - y->at;
}
static int by_first(const void *a, const void *b) {
    const place *x = a, *y = b;
    int c = text_order(x->s->run, y->s->run);
    if (!c) c = x->first - y->first;
    return c ? c : x->at - y->at;
}

static bool same_arm(const place *a, const place *b) {
    return !text_order(a->s->run, b->s->run) && !strcmp(a->s->arm, b->s->arm);
}
static bool same_visit(const place *a, const place *b) {
    return same_arm(a, b) && a->s->visit == b->s->visit;
}

/* Lines of one arm that follow each other come from one process, as long as their iterations go on. */
static bool goes_on(const place *before, const place *p) {
    if (p->at != before->at + 1) return false;
    int last = before->s->iteration, now = p->s->iteration;
    return !now || now > last || (now == last && strcmp(p->s->metric, before->s->metric) != 0);
}

static void number_visits(lab_samples *s, place *p) {
    qsort(p, (size_t)s->count, sizeof *p, by_arm);
    for (int i = 0; i < s->count; i++) {
        lab_sample *it = &s->items[p[i].at];
        bool known = i && same_arm(&p[i - 1], &p[i]);
        int before = known ? p[i - 1].s->visit : 0;
        if (!it->visit) it->visit = known && goes_on(&p[i - 1], &p[i]) ? before : before + 1;
    }
}

/* The order of a visit is the least that any of its lines tells. A run in which some visit has none is numbered anew.
 */
static bool spread_orders(lab_samples *s, place *p, int from, int to) {
    for (int i = from, j; i < to; i = j) {
        int order = 0;
        for (j = i; j < to && same_visit(&p[i], &p[j]); j++)
            if (p[j].s->order && (!order || p[j].s->order < order)) order = p[j].s->order;
        if (!order) return false;
        for (int k = i; k < j; k++) s->items[p[k].at].order = order;
    }
    return true;
}

static void number_orders(lab_samples *s, place *p, int from, int to) {
    for (int i = from; i < to; i++) p[i].first = i > from && same_visit(&p[i - 1], &p[i]) ? p[i - 1].first : p[i].at;
    qsort(p + from, (size_t)(to - from), sizeof *p, by_first);
    for (int i = from, order = 0; i < to; i++) {
        if (i == from || p[i].first != p[i - 1].first) order++;
        s->items[p[i].at].order = order;
    }
}

static cadre_err number(lab_samples *s, cadre_fail *why) {
    place *p = mem_new_array((size_t)s->count, sizeof *p);
    if (!p) return no_memory(why);
    for (int i = 0; i < s->count; i++) p[i] = (place){.s = &s->items[i], .at = i};
    number_visits(s, p);
    qsort(p, (size_t)s->count, sizeof *p, by_visit);
    for (int i = 0, j; i < s->count; i = j) {
        for (j = i; j < s->count && !text_order(p[i].s->run, p[j].s->run);) j++;
        if (!spread_orders(s, p, i, j)) number_orders(s, p, i, j);
    }
    mem_free(p);
    return CADRE_OK;
}

/* ---- the room's calls ---- */

cadre_err lab_samples_parse(const char *name, const char *text, size_t len, lab_samples **out, cadre_fail *why) {
    lab_samples *s = mem_new(sizeof *s);
    if (!s) return no_memory(why);
    cadre_err err = all_lines(s, name, text, len, why);
    if (!err) err = number(s, why);
    if (err)
        lab_samples_free(s);
    else
        *out = s;
    return err;
}

cadre_err lab_samples_read(const char *path, lab_samples **out, cadre_fail *why) {
    char *text;
    size_t len;
    cadre_err err = file_read(path, FILE_MOST, &text, &len, why);
    if (err) return err;
    err = lab_samples_parse(path, text, len, out, why);
    mem_free(text);
    return err;
}

static bool can_be(const lab_sample *s) {
    return s->arm && *s->arm && s->metric && *s->metric && !isinf(s->value) && s->visit >= 0 && s->order >= 0;
}

cadre_err lab_samples_new(const lab_sample *items, int count, lab_samples **out, cadre_fail *why) {
    for (int i = 0; i < count; i++)
        if (!can_be(&items[i]))
            return cadre_fail_set(why, CADRE_RANGE, "sample %d: arm, metric, value, visit or order is none", i);
    lab_samples *s = mem_new(sizeof *s);
    if (!s) return no_memory(why);
    cadre_err err = CADRE_OK;
    for (int i = 0; i < count && !err; i++) {
        if (!room(s)) {
            err = no_memory(why);
            break;
        }
        s->items[i] = items[i];
        s->lines[i] = 0;
        s->docs[i] = NULL;
        s->texts[i] = NULL;
        s->count++;
    }
    if (!err) err = number(s, why);
    if (err)
        lab_samples_free(s);
    else
        *out = s;
    return err;
}

void lab_samples_free(lab_samples *s) {
    if (!s) return;
    for (int i = 0; i < s->count; i++) {
        json_free(s->docs[i]);
        mem_free(s->texts[i]);
    }
    mem_free(s->items);
    mem_free(s->lines);
    mem_free(s->docs);
    mem_free(s->texts);
    mem_free(s);
}

int lab_samples_count(const lab_samples *s) {
    return s->count;
}
const lab_sample *lab_samples_at(const lab_samples *s, int i) {
    return i >= 0 && i < s->count ? &s->items[i] : NULL;
}
int lab_samples_line(const lab_samples *s, int i) {
    return i >= 0 && i < s->count ? s->lines[i] : 0;
}
bool lab_samples_torn(const lab_samples *s) {
    return s->torn;
}
