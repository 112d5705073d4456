/* ledger.c: every experiment that came to a verdict, one JSON object a line, appended and never rewritten. A later
 * entry may supersede an earlier one; both stay. A last line that a killed writer left torn is passed over, and the
 * next entry begins a line of its own. */
#include "lab.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEDGER_MOST = 256 << 20 };

typedef struct line {
    struct line *next;
    json_doc *doc;
} line;

struct lab_ledger {
    lab_entry *entries;
    int count, cap;
    line *lines;
};

/* ---- reading ---- */

static cadre_err no_memory(const char *path, cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", path);
}

static double real(const json *v) {
    return v && v->kind == JSON_NUMBER ? v->number : NAN;
}

static const char *text(const json *root, const char *key) {
    const json *v = json_get(root, key);
    return v && v->kind == JSON_TEXT ? v->text : NULL;
}

static lab_entry entry_of(const json *root) {
    lab_entry e = {.id = text(root, "id"),
                   .date = text(root, "date"),
                   .name = text(root, "name"),
                   .asks = text(root, "asks"),
                   .outcome = text(root, "outcome"),
                   .text = text(root, "text"),
                   .experiment_sha256 = text(root, "experiment_sha256"),
                   .samples = text(root, "samples"),
                   .samples_sha256 = text(root, "samples_sha256"),
                   .supersedes = text(root, "supersedes"),
                   .ratio = real(json_get(root, "ratio"))};
    const json *interval = json_get(root, "interval"), *low = interval ? interval->child : NULL;
    e.interval[0] = real(low);
    e.interval[1] = low ? real(low->next) : NAN;
    return e;
}

static bool grow(lab_ledger *l) {
    size_t cap = l->cap ? 2 * (size_t)l->cap : 32;
    lab_entry *grown = mem_resize(l->entries, (size_t)l->cap * sizeof *grown, cap * sizeof *grown);
    if (!grown) return false;
    l->entries = grown;
    l->cap = (int)cap;
    return true;
}

static cadre_err add_line(lab_ledger *l, const char *path, int number, const char *at, size_t n, cadre_fail *why) {
    char name[400];
    json_doc *doc;
    snprintf(name, sizeof name, "%.300s:%d", path, number);
    cadre_err err = json_parse(name, at, n, &doc, why);
    if (err) return err;
    line *kept = mem_new(sizeof *kept);
    if (!kept || (l->count == l->cap && !grow(l))) {
        json_free(doc);
        mem_free(kept);
        return no_memory(path, why);
    }
    *kept = (line){l->lines, doc};
    l->lines = kept;
    lab_entry e = entry_of(json_root(doc));
    if (!e.id || !e.name || !e.outcome)
        return cadre_fail_set(why, CADRE_FORMAT, "%s: an entry without id, name or outcome", name);
    l->entries[l->count++] = e;
    return CADRE_OK;
}

/* A line that can't be read is an error, unless it is one that was torn: the last, or one with no end of its own. */
static cadre_err add_lines(lab_ledger *l, const char *path, const char *all, size_t len, cadre_fail *why) {
    int number = 0;
    for (size_t at = 0, n; at < len; at += n + 1) {
        const char *end = memchr(all + at, '\n', len - at);
        n = end ? (size_t)(end - all) - at : len - at;
        number++;
        if (!n) continue;
        cadre_err err = add_line(l, path, number, all + at, n, why);
        bool torn = err == CADRE_FORMAT && (!end || end[1] == '\n'); /* a writer behind a torn line leaves one empty */
        if (torn)
            log_line("%s:%d: an entry that was cut off is passed over", file_short(path), number);
        else if (err)
            return err;
    }
    return CADRE_OK;
}

cadre_err lab_ledger_read(const char *path, lab_ledger **out, cadre_fail *why) {
    char *all = NULL;
    size_t len = 0;
    lab_ledger *l = mem_new(sizeof *l);
    if (!l) return no_memory(path, why);
    cadre_err err = file_exists(path) ? file_read(path, LEDGER_MOST, &all, &len, why) : CADRE_OK;
    if (!err) err = add_lines(l, path, all ? all : "", len, why);
    mem_free(all);
    if (err)
        lab_ledger_free(l);
    else
        *out = l;
    return err;
}

void lab_ledger_free(lab_ledger *l) {
    if (!l) return;
    while (l->lines) {
        line *first = l->lines;
        l->lines = first->next;
        json_free(first->doc);
        mem_free(first);
    }
    mem_free(l->entries);
    mem_free(l);
}

int lab_ledger_count(const lab_ledger *l) {
    return l->count;
}

const lab_entry *lab_ledger_at(const lab_ledger *l, int i) {
    return i >= 0 && i < l->count ? &l->entries[i] : NULL;
}

const lab_entry *lab_ledger_superseder(const lab_ledger *l, int i) {
    for (int k = l->count - 1; k > i; k--)
        if (l->entries[k].supersedes && !strcmp(l->entries[k].supersedes, l->entries[i].id)) return &l->entries[k];
    return NULL;
}

/* ---- the samples behind an entry ---- */

static cadre_err hash_file(const char *path, char hex[65], cadre_fail *why) {
    file_map map;
    cadre_err err = file_open_map(path, &map, why);
    if (err) return err;
    cadre_sha256(map.data, map.size, hex);
    file_close_map(&map);
    return CADRE_OK;
}

lab_kept lab_ledger_check(const lab_entry *e) {
    char hex[65];
    if (!e->samples || !e->samples_sha256) return LAB_KEPT;
    if (hash_file(e->samples, hex, NULL)) return LAB_GONE;
    return strcmp(hex, e->samples_sha256) ? LAB_CHANGED : LAB_KEPT;
}

/* ---- adding ---- */

cadre_err lab_ledger_has(const char *path, const char *id, cadre_fail *why) {
    lab_ledger *l;
    cadre_err err = lab_ledger_read(path, &l, why);
    if (err) return err;
    bool there = false;
    for (int i = 0; i < l->count; i++) there |= !strcmp(l->entries[i].id, id);
    lab_ledger_free(l);
    return there ? CADRE_OK : cadre_fail_set(why, CADRE_RANGE, "%.300s: no entry %.60s to supersede", path, id);
}

static bool same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

/* An entry that says the same of the same samples: a run that was whole already was resumed. Its id is told. A ledger
 * that cannot be read is appended to all the same. */
static bool find_equal(const char *path, const lab_entry *e, char id[16]) {
    lab_ledger *l;
    bool there = false;
    if (!e->samples_sha256 || lab_ledger_read(path, &l, NULL)) return false;
    for (int i = 0; i < l->count && !there; i++) {
        const lab_entry *k = &l->entries[i];
        there = same_text(k->samples_sha256, e->samples_sha256) && same_text(k->name, e->name) &&
                same_text(k->experiment_sha256, e->experiment_sha256) && same_text(k->text, e->text) &&
                same_text(k->outcome, e->outcome) && (!e->supersedes || same_text(k->supersedes, e->supersedes));
        if (there) snprintf(id, 16, "%.15s", k->id);
    }
    lab_ledger_free(l);
    return there;
}

static void make_id(const lab_entry *e, const char *date, char id[16]) {
    char all[2000], hex[65];
    int n = snprintf(all, sizeof all, "%s\n%s\n%s\n%s\n%llu\n%ld", date, e->name, e->outcome, e->text ? e->text : "",
                     (unsigned long long)clock_ns(), (long)getpid());
    cadre_sha256(all, n < (int)sizeof all ? (size_t)n : sizeof all - 1, hex);
    snprintf(id, 16, "%.8s", hex);
}

void lab_entry_json(const lab_entry *e, json_out *o) {
    json_put_text(o, "id", e->id);
    json_put_text(o, "date", e->date);
    json_put_text(o, "name", e->name);
    json_put_text(o, "asks", e->asks);
    json_put_text(o, "outcome", e->outcome);
    json_put_text(o, "text", e->text);
    json_put_real(o, "ratio", e->ratio);
    json_open(o, "interval", '[');
    json_put_real(o, NULL, e->interval[0]);
    json_put_real(o, NULL, e->interval[1]);
    json_close(o, ']');
    json_put_text(o, "experiment_sha256", e->experiment_sha256);
    json_put_text(o, "samples", e->samples);
    json_put_text(o, "samples_sha256", e->samples_sha256);
    json_put_text(o, "supersedes", e->supersedes);
}

static void put_entry(json_out *o, const lab_entry *e) {
    json_open(o, NULL, '{');
    json_put_text(o, "kind", "ledger");
    lab_entry_json(e, o);
    json_close(o, '}');
}

/* What goes in front: ends a line that was torn, and leaves an empty one behind it as its mark. */
static const char *mend(const char *path) {
    file_map map;
    if (file_open_map(path, &map, NULL)) return "";
    bool torn = map.size && map.data[map.size - 1] != '\n';
    file_close_map(&map);
    return torn ? "\n\n" : "";
}

static cadre_err append(const char *path, const json_out *o, cadre_fail *why) {
    const char *before = mend(path);
    size_t head = strlen(before), len = head + o->len + 1;
    char *all = o->failed ? NULL : mem_new(len);
    if (!all) return no_memory(path, why);
    memcpy(all, before, head);
    memcpy(all + head, o->text, o->len);
    all[len - 1] = '\n';
    cadre_err err = file_append_synced(path, all, len, why);
    mem_free(all);
    return err;
}

cadre_err lab_ledger_add(const char *path, const lab_entry *entry, char made[16], cadre_fail *why) {
    lab_entry e = *entry;
    char date[24], id[16], hex[65], folder[4096];
    json_out o = {0};
    const char *slash = strrchr(path, '/');
    clock_date(date);
    if (!e.date) e.date = date;
    cadre_err err = e.supersedes ? lab_ledger_has(path, e.supersedes, why) : CADRE_OK;
    if (!err && e.samples && !e.samples_sha256) err = hash_file(e.samples, hex, why), e.samples_sha256 = hex;
    if (err) return err;
    bool there = !e.id && find_equal(path, &e, id);
    if (there && made) snprintf(made, 16, "%s", id);
    if (there) return CADRE_OK;
    if (!e.id) make_id(&e, e.date, id), e.id = id;
    if (slash && slash > path && slash - path < (int)sizeof folder) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        err = file_make_dir(folder, why);
    }
    if (err) return err;
    put_entry(&o, &e);
    err = append(path, &o, why);
    json_out_free(&o);
    if (!err && made) snprintf(made, 16, "%s", e.id);
    return err;
}
