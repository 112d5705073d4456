/* experiment.c: the file of an experiment: its question, its protocol, its metrics; arms are experiment_arm.c's. A key
 * that is not known is refused: a misspelt one must not be a setting that was never made. */
#include "experiment.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 };

/* ---- pieces ---- */

void *lab_keep(experiment *e, size_t count, size_t size) {
    size_t bytes = 0;
    kept *k = mem_mul(count, size, &bytes) && mem_add(bytes, sizeof *k + 64, &bytes) ? mem_new(bytes) : NULL;
    if (!k) {
        cadre_fail_set(e->why, CADRE_NOMEM, "%.200s: out of memory", e->shown.path ? e->shown.path : "experiment");
        return NULL;
    }
    k->next = e->blocks;
    e->blocks = k;
    return k->bytes;
}

char *lab_keep_text(experiment *e, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : lab_keep(e, (size_t)n + 1, 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

static bool listed(const char *keys, const json *m) {
    for (const char *p = keys; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == m->key_len && !memcmp(p, m->key, m->key_len)) return true;
    return false;
}

/* Edits (one character more, less or other) between two short words. */
static int distance(const char *a, size_t na, const char *b, size_t nb) {
    enum { MOST = 30 };
    int row[MOST + 1];
    if (na > MOST || nb > MOST) return MOST;
    for (size_t k = 0; k <= nb; k++) row[k] = (int)k;
    for (size_t i = 0; i < na; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t k = 0; k < nb; k++) {
            int best = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            if (diagonal + 1 < best) best = diagonal + 1;
            if (row[k] + 1 < best) best = row[k] + 1;
            row[k + 1] = best;
        }
    }
    return row[nb];
}

static cadre_err unknown_key(experiment *e, const json *m, const char *what, const char *keys) {
    const char *near = NULL;
    int best = 3;
    for (const char *p = keys; *p; p += strcspn(p, " "), p += *p == ' ') {
        int d = distance(m->key, m->key_len, p, strcspn(p, " "));
        if (d < best) best = d, near = p;
    }
    if (near)
        return json_fail(e->doc, m, e->why, "is no key of %s; did you mean %.*s?", what, (int)strcspn(near, " "), near);
    return json_fail(e->doc, m, e->why, "is no key of %s; it has %s", what, keys);
}

cadre_err lab_keys(experiment *e, const json *v, const char *what, const char *keys) {
    char found[64];
    json_describe(v, found, sizeof found);
    if (v->kind != JSON_OBJECT) return json_fail(e->doc, v, e->why, "is %s, expected %s, an object", found, what);
    for (const json *m = v->child; m; m = m->next)
        if (!listed(keys, m)) return unknown_key(e, m, what, keys);
    return CADRE_OK;
}

cadre_err lab_texts(experiment *e, const json *object, const char *key, const char *const **out) {
    const json *v = json_get(object, key);
    *out = NULL;
    if (!v || v->kind == JSON_NULL) return CADRE_OK;
    if (v->kind != JSON_ARRAY) return json_fail(e->doc, v, e->why, "is no array of texts");
    const char **list = lab_keep(e, (size_t)v->count + 1, sizeof *list);
    if (!list) return CADRE_NOMEM;
    int n = 0;
    for (const json *c = v->child; c; c = c->next) {
        if (c->kind != JSON_TEXT || strlen(c->text) != c->len) return json_fail(e->doc, c, e->why, "is no text");
        list[n++] = c->text;
    }
    *out = list;
    return CADRE_OK;
}

cadre_err lab_check_path(experiment *e, const json *v) {
    if (v->kind != JSON_TEXT) return json_fail(e->doc, v, e->why, "is no text, expected a path like \".a.b[].c\"");
    const char *wrong = lab_path_wrong(v->text);
    return wrong ? json_fail(e->doc, v, e->why, "is no path: %s", wrong) : CADRE_OK;
}

cadre_err lab_check_pattern(experiment *e, const json *v) {
    char what[200];
    lab_pattern *p = NULL;
    if (v->kind != JSON_TEXT || strlen(v->text) != v->len)
        return json_fail(e->doc, v, e->why, "is no text, expected a pattern");
    cadre_err err = lab_pattern_new(v->text, &p, what);
    lab_pattern_free(p);
    if (err == CADRE_FORMAT) return json_fail(e->doc, v, e->why, "%s", what);
    return err ? cadre_fail_set(e->why, err, "%s", what) : CADRE_OK;
}

cadre_err lab_where(experiment *e, const json *v, lab_reader *reader, const char **where) {
    const json *path = json_get(v, "json"), *pattern = json_get(v, "pattern"), *one = path ? path : pattern;
    if (!one || (path && pattern)) return json_fail(e->doc, v, e->why, "needs one of json and pattern");
    *reader = path ? LAB_READ_JSON : LAB_READ_PATTERN;
    cadre_err err = path ? lab_check_path(e, one) : lab_check_pattern(e, one);
    *where = one->text;
    return err;
}

/* ---- metrics ---- */

static cadre_err metric(experiment *e, const json *v, lab_metric *m) {
    const char *unit = "";
    cadre_err err = lab_keys(e, v, "a metric", "name unit json pattern scale label");
    if (!err) err = json_text(e->doc, v, "name", NULL, &m->name, e->why);
    if (!err && (!m->name || !*m->name || strlen(m->name) > 60 || strchr(m->name, '@')))
        err = json_fail(e->doc, v, e->why, "needs a name of 1 to 60 characters without @");
    if (!err) err = json_text(e->doc, v, "unit", "", &unit, e->why);
    if (!err) err = json_text(e->doc, v, "label", NULL, &m->label, e->why);
    if (!err) err = json_real(e->doc, v, "scale", 1, -1e30, 1e30, &m->scale, e->why);
    if (!err) err = lab_where(e, v, &m->reader, &m->where);
    m->unit = unit;
    return err;
}

static bool has_metric(const lab_metric *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return true;
    return false;
}

/* The file's own, then those of the program that it does not name itself, and the wall time of a visit always. */
static cadre_err metrics(experiment *e, const json *list) {
    static const lab_metric wall = {"wall_s", "s", LAB_READ_WALL, NULL, NULL, 1};
    int n = 0, own = list ? list->count : 0;
    if (list && list->kind != JSON_ARRAY) return json_fail(e->doc, list, e->why, "is no array of metrics");
    lab_metric *all = lab_keep(e, (size_t)own + LAB_METRICS_MOST + 1, sizeof *all);
    if (!all) return CADRE_NOMEM;
    for (const json *c = list ? list->child : NULL; c; c = c->next, n++) {
        cadre_err err = metric(e, c, &all[n]);
        if (!err && has_metric(all, n, all[n].name)) err = json_fail(e->doc, c, e->why, "has the name of another");
        if (err) return err;
    }
    for (int i = 0; i < LAB_METRICS_MOST && e->readers.metrics[i].name; i++)
        if (!has_metric(all, n, e->readers.metrics[i].name)) all[n++] = e->readers.metrics[i];
    if (!has_metric(all, n, wall.name)) all[n++] = wall;
    e->shown.metrics = all;
    e->shown.metric_count = n;
    return CADRE_OK;
}

/* Known before anything is measured: the verdict would refuse it after all of it. */
static cadre_err direction(experiment *e, const lab_metric *m) {
    const lab_question *q = &e->shown.question;
    lab_better side;
    if (q->better_told || lab_better_by(m->unit ? m->unit : "", q->metric, &side)) return CADRE_OK;
    return json_fail(e->doc, json_root(e->doc), e->why,
                     "does not say whether more or less %.60s (unit %.20s) is better; add \"better\": \"lower\" or "
                     "\"higher\"",
                     q->metric, m->unit && *m->unit ? m->unit : "not told");
}

/* "us@8" is one of the figures of "us". */
static cadre_err asked(experiment *e, const json *root) {
    const char *name = e->shown.question.metric, *first = e->shown.metrics[0].name;
    char names[200] = "";
    if (!name) name = e->shown.question.metric = first;
    size_t n = strcspn(name, "@");
    for (int i = 0; i < e->shown.metric_count; i++) {
        const lab_metric *m = &e->shown.metrics[i];
        if (strlen(m->name) == n && !memcmp(m->name, name, n) && (!name[n] || m->label)) return direction(e, m);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", m->name);
    }
    return json_fail(e->doc, json_get(root, "metric"), e->why, "is no metric of this experiment; it has %s", names);
}

/* ---- readers ---- */

/* A path; of a number also '/' and a pattern; READ_MEMBER: or the name of a member. */
typedef enum read_kind { READ_VALUE, READ_NUMBER, READ_MEMBER } read_kind;
static cadre_err reader(experiment *e, const json *from, const char *key, read_kind kind, const char **out) {
    const json *v = json_get(from, key);
    char what[200];
    lab_pattern *p = NULL;
    if (!v) return CADRE_OK;
    if (v->kind == JSON_NULL) return *out = NULL, CADRE_OK;
    if (v->kind != JSON_TEXT || !v->len || strlen(v->text) != v->len) return json_fail(e->doc, v, e->why, "is no text");
    *out = v->text;
    if (*v->text == '/' && kind != READ_VALUE) {
        cadre_err err = lab_pattern_new(v->text + 1, &p, what);
        lab_pattern_free(p);
        if (err == CADRE_NOMEM) return cadre_fail_set(e->why, err, "%s", what);
        return err ? json_fail(e->doc, v, e->why, "%s", what) : CADRE_OK;
    }
    return kind == READ_MEMBER && *v->text != '.' && *v->text != '[' ? CADRE_OK : lab_check_path(e, v);
}

static cadre_err reads(experiment *e, const json *v) {
    lab_readers *r = &e->readers;
    if (!v) return CADRE_OK;
    cadre_err err =
        lab_keys(e, v, "reads", "tokens failed accepted drafts draft_tokens receipts device numerics sampling");
    if (!err) err = reader(e, v, "tokens", READ_MEMBER, &r->tokens);
    if (!err) err = reader(e, v, "failed", READ_NUMBER, &r->failed);
    if (!err) err = reader(e, v, "accepted", READ_NUMBER, &r->accepted);
    if (!err) err = reader(e, v, "drafts", READ_NUMBER, &r->drafts);
    if (!err) err = reader(e, v, "draft_tokens", READ_NUMBER, &r->draft_tokens);
    if (!err) err = reader(e, v, "receipts", READ_VALUE, &r->receipts);
    if (!err) err = reader(e, v, "device", READ_VALUE, &r->device);
    if (!err) err = reader(e, v, "numerics", READ_VALUE, &r->numerics);
    if (!err) err = reader(e, v, "sampling", READ_VALUE, &r->sampling);
    return err;
}

static cadre_err outputs(experiment *e, const json *v) {
    lab_outputs *o = &e->readers.outputs;
    if (!v) return CADRE_OK;
    cadre_err err = lab_keys(e, v, "outputs", "sha256 ids text pattern id");
    if (err) return err;
    *o = (lab_outputs){0};
    const char **places[] = {&o->sha256, &o->ids, &o->text, &o->pattern};
    static const char *const names[] = {"sha256", "ids", "text", "pattern"};
    int n = 0;
    for (int i = 0; i < 4 && !err; i++) {
        const json *m = json_get(v, names[i]);
        if (!m || m->kind == JSON_NULL) continue;
        err = i == 3 ? lab_check_pattern(e, m) : lab_check_path(e, m);
        *places[i] = m->text;
        n++;
    }
    if (!err && n != 1) err = json_fail(e->doc, v, e->why, "needs one of sha256, ids, text and pattern");
    return err ? err : json_text(e->doc, v, "id", NULL, &o->id, e->why);
}

/* Which program this is: as the file says, or as the first arm's command looks. */
static cadre_err program(experiment *e, const json *root) {
    const char *name = NULL;
    char names[200] = "";
    cadre_err err = json_text(e->doc, root, "program", NULL, &name, e->why);
    if (err) return err;
    const lab_readers *p = name ? lab_program_named(name) : lab_program_of(e->shown.arms[0].argv);
    if (name && !p && strcmp(name, "none")) {
        for (int i = 0; lab_program_name(i); i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", lab_program_name(i));
        return json_fail(e->doc, json_get(root, "program"), e->why, "is not known; there are %snone", names);
    }
    if (p) e->readers = *p;
    e->shown.program = p ? p->name : NULL;
    e->shown.output = e->readers.output;
    return CADRE_OK;
}

/* ---- the question and the protocol ---- */

static cadre_err word(experiment *e, const json *root, const char *key, const char *const *words, int *out) {
    const char *text = NULL;
    char all[100] = "";
    cadre_err err = json_text(e->doc, root, key, NULL, &text, e->why);
    if (err || !text) return err;
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) return *out = i, CADRE_OK;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", words[i]);
    }
    return json_fail(e->doc, json_get(root, key), e->why, "is \"%.40s\", expected one of %s", text, all);
}

static cadre_err whole(experiment *e, const json *root, const char *key, int def, int low, int high, int *out) {
    int64_t v = def;
    cadre_err err = json_int(e->doc, root, key, def, low, high, &v, e->why);
    *out = (int)v;
    return err;
}

static cadre_err question(experiment *e, const json *root) {
    static const char *const sides[] = {"lower", "higher", NULL};
    lab_question *q = &e->shown.question;
    int side = -1;
    const json_doc *d = e->doc;
    *q = lab_question_default();
    cadre_err err = json_text(d, root, "metric", NULL, &q->metric, e->why);
    if (!err) err = word(e, root, "better", sides, &side);
    if (!err) err = json_real(d, root, "effect", q->effect, 1e-6, 10, &q->effect, e->why);
    if (!err) err = json_real(d, root, "level", q->level, 1e-6, 0.5, &q->level, e->why);
    if (!err) err = json_real(d, root, "power", q->power, 0.01, 0.9999, &q->power, e->why);
    if (!err) err = json_real(d, root, "acceptance_bound", q->acceptance_bound, 0, 100, &q->acceptance_bound, e->why);
    if (!err) err = json_real(d, root, "noise_floor", q->noise_floor, 0, 10, &q->noise_floor, e->why);
    if (!err) err = json_text(d, root, "untouched", NULL, &q->untouched, e->why);
    if (!err) err = json_text(d, root, "floor", NULL, &q->floor, e->why);
    if (!err) err = json_flag(d, root, "per_token", false, &q->per_token, e->why);
    if (!err) err = json_flag(d, root, "unproven_allowed", e->shown.aa, &q->unproven_allowed, e->why);
    q->better_told = side >= 0;
    q->better = side == 1 ? LAB_HIGHER : LAB_LOWER;
    return err;
}

static cadre_err protocol(experiment *e, const json *root) {
    static const char *const orders[] = {"interleaved", "balanced", "blocks", NULL};
    lab_experiment *x = &e->shown;
    int order = LAB_INTERLEAVED;
    cadre_err err = word(e, root, "order", orders, &order);
    if (!err) err = whole(e, root, "visits", 6, 1, 10000, &x->visits);
    if (!err) err = whole(e, root, "warmup", 1, 0, 1000, &x->warmup);
    if (!err) err = whole(e, root, "iterations", 0, 0, 1000000, &x->iterations);
    if (!err) err = whole(e, root, "skip", 0, 0, 1000000, &x->skip);
    if (!err) err = json_real(e->doc, root, "timeout_s", 600, 0.01, 1e6, &x->timeout_s, e->why);
    if (!err) err = json_real(e->doc, root, "pause_s", 0, 0, 3600, &x->pause_s, e->why);
    if (!err) err = json_flag(e->doc, root, "exclusive", true, &x->exclusive, e->why);
    if (!err && x->iterations && x->skip >= x->iterations)
        err = json_fail(e->doc, json_get(root, "skip"), e->why, "leaves none of the %d iterations", x->iterations);
    x->order = (lab_order)order;
    x->question.blocks_allowed = order == LAB_BLOCKS;
    x->protocol = json_get(root, "protocol");
    if (!err && x->protocol && x->protocol->kind != JSON_OBJECT)
        err = json_fail(e->doc, x->protocol, e->why, "is no object");
    return err;
}

static cadre_err reference(experiment *e, const json *root) {
    lab_experiment *x = &e->shown;
    const char *name = NULL;
    cadre_err err = json_text(e->doc, root, "reference", NULL, &name, e->why);
    if (err) return err;
    x->reference = name ? -1 : 0;
    for (int i = 0; i < x->arm_count; i++)
        if (name && !strcmp(x->arms[i].name, name)) x->reference = i;
    if (x->reference < 0) return json_fail(e->doc, json_get(root, "reference"), e->why, "is not the name of an arm");
    if (x->arms[x->reference].ceiling)
        return json_fail(e->doc, root, e->why, "has a ceiling as its reference: nothing can be held against that");
    x->question.reference = x->arms[x->reference].name;
    return CADRE_OK;
}

/* ---- all of it ---- */

static const char top[] = "name asks metric better effect level power reference acceptance_bound per_token "
                          "unproven_allowed noise_floor untouched floor order visits warmup iterations skip timeout_s "
                          "pause_s exclusive protocol "
                          "program output outputs reads metrics command env arms factors aa";

static cadre_err names(experiment *e, const json *root) {
    lab_experiment *x = &e->shown;
    cadre_err err = json_text(e->doc, root, "name", NULL, &x->name, e->why);
    if (!err && (!x->name || !*x->name || strlen(x->name) > 100))
        err = json_fail(e->doc, root, e->why, "needs a name of 1 to 100 characters");
    if (!err) err = json_text(e->doc, root, "asks", NULL, &x->asks, e->why);
    if (!err) err = json_flag(e->doc, root, "aa", false, &x->aa, e->why);
    if (!err) err = lab_texts(e, root, "factors", &x->factors);
    int n = 0;
    while (x->factors && x->factors[n]) n++;
    if (!err && n > LAB_FACTORS_MOST)
        err = json_fail(e->doc, json_get(root, "factors"), e->why, "are %d, at most %d are", n, LAB_FACTORS_MOST);
    e->command = json_get(root, "command");
    e->env = json_get(root, "env");
    return err;
}

static cadre_err read_all(experiment *e) {
    const json *root = json_root(e->doc);
    lab_experiment *x = &e->shown;
    cadre_err err = lab_keys(e, root, "an experiment", top);
    if (!err) err = names(e, root);
    if (!err) err = question(e, root);
    if (!err) err = protocol(e, root);
    const json *arms = json_get(root, "arms");
    if (!err && (!arms || arms->kind != JSON_ARRAY || !arms->count || arms->count > LAB_ARMS_MOST))
        err = json_fail(e->doc, arms ? arms : root, e->why, "needs arms, an array of 1 to %d", LAB_ARMS_MOST);
    if (!err) err = lab_arms(e, arms);
    if (!err) err = reference(e, root);
    if (!err) err = program(e, root);
    if (!err) err = json_text(e->doc, root, "output", x->output, &x->output, e->why);
    if (!err) err = reads(e, json_get(root, "reads"));
    if (!err) err = outputs(e, json_get(root, "outputs"));
    if (!err) err = metrics(e, json_get(root, "metrics"));
    if (!err) err = asked(e, root);
    x->outputs = e->readers.outputs;
    return err;
}

/* path: absolute, of the file. */
static cadre_err place(experiment *e, const char *path) {
    lab_experiment *x = &e->shown;
    const char *slash = strrchr(path, '/');
    x->path = lab_keep_text(e, "%s", path);
    x->folder = lab_keep_text(e, "%.*s", slash && slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    return x->path && x->folder ? CADRE_OK : CADRE_NOMEM;
}

static cadre_err read_text(experiment *e, const char *name, const char *path, const char *text, size_t len) {
    char *hex = lab_keep(e, 65, 1);
    cadre_err err = hex ? place(e, path) : CADRE_NOMEM;
    if (err) return err;
    cadre_sha256(text, len, hex);
    e->shown.sha256 = hex;
    err = json_parse(name, text, len, &e->doc, e->why);
    return err ? err : read_all(e);
}

cadre_err lab_experiment_parse(const char *name, const char *path, const char *text, size_t len, lab_experiment **out,
                               cadre_fail *why) {
    experiment *e = mem_new(sizeof *e);
    if (!e) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory", name);
    e->why = why;
    cadre_err err = read_text(e, name, path, text, len);
    e->why = NULL;
    if (err)
        lab_experiment_free(&e->shown);
    else
        *out = &e->shown;
    return err;
}

cadre_err lab_experiment_read(const char *path, lab_experiment **out, cadre_fail *why) {
    char *text, full[4096];
    size_t len;
    cadre_err err = file_read(path, FILE_MOST, &text, &len, why);
    if (err) return err;
    err = file_canonical(path, full, sizeof full, why);
    if (!err) err = lab_experiment_parse(path, full, text, len, out, why);
    mem_free(text);
    return err;
}

void lab_experiment_free(lab_experiment *x) {
    experiment *e = (experiment *)x;
    if (!e) return;
    while (e->blocks) {
        kept *k = e->blocks;
        e->blocks = k->next;
        mem_free(k);
    }
    json_free(e->doc);
    mem_free(e);
}

const lab_readers *lab_experiment_readers(const lab_experiment *x) {
    return &((const experiment *)x)->readers;
}

/* ---- the order of visits ---- */

int lab_experiment_order(const lab_experiment *e, int *arms, int cap) {
    int rounds = e->warmup + e->visits, n = e->arm_count, all = rounds * n;
    for (int i = 0; i < all && i < cap; i++) {
        int round = i / n, at = i % n;
        arms[i] = e->order == LAB_BLOCKS ? i / rounds : e->order == LAB_BALANCED && round % 2 ? n - 1 - at : at;
    }
    if (all < cap) arms[all] = e->reference;
    return all + 1;
}
