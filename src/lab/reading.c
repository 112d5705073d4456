/* reading.c: the figures of a visit. A figure that is not there is not a 0: it is null, or no sample at all. */
#include "reading.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for what a visit wrote");
}

/* ---- what it wrote ---- */

static cadre_err add_text(lab_output *o, const char *folder, const char *name, cadre_fail *why) {
    char path[4096];
    lab_text *t = &o->texts[o->count];
    if (!file_join(path, sizeof path, folder, name))
        return cadre_fail_set(why, CADRE_IO, "%.200s: path too long", folder);
    cadre_err err = file_read(path, LAB_TEXT_MAX, &t->text, &t->len, why);
    if (err) return err;
    snprintf(t->name, sizeof t->name, "%s", name);
    o->count++;
    return CADRE_OK;
}

/* The other files of the folder; one that is too large or can't be read is none of them, and told. */
static cadre_err add_rest(lab_output *o, const char *folder, cadre_fail *why) {
    const char **names;
    int n;
    cadre_err err = file_list(folder, "", &names, &n, why);
    if (err) return err;
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (!strcmp(names[i], "stdout") || !strcmp(names[i], "stderr")) continue;
        if (!file_join(path, sizeof path, folder, names[i]) || file_is_dir(path)) continue;
        bool room = o->count < LAB_TEXTS_MOST;
        if ((!room || add_text(o, folder, names[i], NULL)) && !*o->unread)
            snprintf(o->unread, sizeof o->unread, "%.60s", names[i]);
    }
    mem_free(names);
    return CADRE_OK;
}

cadre_err lab_output_read(const char *folder, const char *figures, lab_output *o, cadre_fail *why) {
    cadre_fail inner = {0};
    *o = (lab_output){0};
    cadre_err err = add_text(o, folder, "stdout", why);
    if (!err) err = add_text(o, folder, "stderr", why);
    if (!err) err = add_rest(o, folder, why);
    const lab_text *t = figures ? NULL : &o->texts[0];
    for (int i = 0; i < o->count && figures; i++)
        if (!strcmp(o->texts[i].name, figures)) t = &o->texts[i];
    if (!err && t) err = lab_json_in(t->name, t->text, t->len, &o->doc, &inner);
    if (!t) snprintf(o->no_doc, sizeof o->no_doc, "%s was not written", figures);
    if (err == CADRE_FORMAT) {
        snprintf(o->no_doc, sizeof o->no_doc, "no JSON: %.200s", inner.text);
        err = CADRE_OK;
    } else if (err && !*(why ? why->text : inner.text)) {
        err = no_memory(why);
    }
    if (err) lab_output_free(o);
    return err;
}

void lab_output_free(lab_output *o) {
    for (int i = 0; i < o->count; i++) mem_free(o->texts[i].text);
    json_free(o->doc);
    *o = (lab_output){0};
}

static const json *root_of(const lab_output *o) {
    return o->doc ? json_root(o->doc) : NULL;
}

/* ---- searching ---- */

cadre_err lab_reading_each(const lab_output *o, const char *pattern, bool (*take)(void *ctx, const char *hit, size_t n),
                           void *ctx, cadre_fail *why) {
    lab_pattern *p = NULL;
    char what[200];
    const char *hit;
    size_t n;
    bool found = false, any = false, go = true;
    cadre_err err = lab_pattern_new(pattern, &p, what);
    if (err) return cadre_fail_set(why, err, "'%.100s' %s", pattern, what);
    for (int i = 0; i < o->count && !err && !any; i++) {
        size_t at = 0;
        do {
            err = lab_pattern_next(p, o->texts[i].text, o->texts[i].len, &at, &hit, &n, &found, why);
            any |= found;
            if (!err && found) go = take(ctx, hit, n);
        } while (!err && found && go);
    }
    lab_pattern_free(p);
    if (!err && !go) err = no_memory(why);
    return err;
}

/* A number as programs print it: 1234.5, 1,234.5 is not one. */
static double number_text(const char *hit, size_t n) {
    char text[64], *end;
    if (!n || n >= sizeof text) return NAN;
    memcpy(text, hit, n);
    text[n] = 0;
    double v = strtod(text, &end);
    return end == text || *end || !isfinite(v) ? NAN : v;
}

typedef struct adder {
    double sum;
    int n;
} adder;

static void add_json(void *ctx, const json *v) {
    adder *a = ctx;
    a->sum += lab_number(v);
    a->n++;
}

static bool add_hit(void *ctx, const char *hit, size_t n) {
    adder *a = ctx;
    a->sum += number_text(hit, n);
    a->n++;
    return true;
}

cadre_err lab_reading_sum(const lab_output *o, const char *where, double *sum, cadre_fail *why) {
    adder a = {0};
    cadre_err err = CADRE_OK;
    *sum = NAN;
    if (!where) return CADRE_OK;
    if (*where == '/')
        err = lab_reading_each(o, where + 1, add_hit, &a, why);
    else
        lab_path_each(root_of(o), where, add_json, &a);
    if (a.n) *sum = a.sum;
    return err;
}

/* ---- figures ---- */

typedef struct taker {
    lab_reading *r;
    const lab_readers *p;
    const lab_metric *m;
    double tokens; /* of all figures, when they are not told one by one */
    bool failed;
} taker;

/* How many figures of this name there are; those of one name mostly follow each other. */
static int iteration_of(const lab_reading *r, const char *name) {
    for (int i = r->count - 1; i >= 0; i--)
        if (!strcmp(r->figures[i].name, name)) return r->figures[i].iteration + 1;
    return 1;
}

static lab_figure *add_figure(taker *t, double value) {
    lab_reading *r = t->r;
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * (size_t)r->cap : 16;
        lab_figure *grown = mem_resize(r->figures, (size_t)r->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown) return t->failed = true, NULL;
        r->figures = grown;
        r->cap = (int)cap;
    }
    lab_figure *f = &r->figures[r->count];
    *f = (lab_figure){.metric = t->m, .value = value * t->m->scale, .tokens = t->tokens};
    snprintf(f->name, sizeof f->name, "%s", t->m->name);
    if (t->p->zero_is_null && value == 0) f->value = NAN;
    return f;
}

static void end_figure(taker *t, lab_figure *f) {
    if (!f) return;
    f->iteration = iteration_of(t->r, f->name);
    t->r->count++;
}

static void label(lab_figure *f, const json *v, const char *key) {
    char text[40];
    const json *m = key ? lab_around(v, key) : NULL;
    if (!m) return;
    if (m->kind == JSON_TEXT)
        snprintf(text, sizeof text, "%s", m->text);
    else
        json_describe(m, text, sizeof text);
    size_t n = strlen(f->name);
    snprintf(f->name + n, sizeof f->name - n, "@%s", text);
}

static void take_json(void *ctx, const json *v) {
    taker *t = ctx;
    lab_figure *f = add_figure(t, v->kind == JSON_NUMBER ? v->number : NAN);
    if (!f) return;
    label(f, v, t->m->label);
    const char *tokens = t->p->tokens;
    if (tokens && !strchr("./[", *tokens)) f->tokens = lab_number(lab_around(v, tokens));
    end_figure(t, f);
}

static bool take_hit(void *ctx, const char *hit, size_t n) {
    taker *t = ctx;
    end_figure(t, add_figure(t, number_text(hit, n)));
    return !t->failed;
}

static cadre_err read_metric(taker *t, const lab_output *o, double seconds, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    switch (t->m->reader) {
    case LAB_READ_WALL:
        end_figure(t, add_figure(t, seconds));
        break;
    case LAB_READ_JSON:
        lab_path_each(root_of(o), t->m->where, take_json, t);
        break;
    case LAB_READ_PATTERN:
        err = lab_reading_each(o, t->m->where, take_hit, t, why);
        break;
    }
    return !err && t->failed ? no_memory(why) : err;
}

static cadre_err read_figures(const lab_experiment *e, const lab_output *o, double seconds, lab_reading *r,
                              cadre_fail *why) {
    const lab_readers *p = lab_experiment_readers(e);
    bool member = p->tokens && !strchr("./[", *p->tokens);
    double tokens = NAN;
    cadre_err err = member ? CADRE_OK : lab_reading_sum(o, p->tokens, &tokens, why);
    for (int i = 0; i < e->metric_count && !err; i++) {
        const lab_metric *m = &e->metrics[i];
        taker t = {r, p, m, tokens, false};
        if (member && m->reader != LAB_READ_JSON) t.tokens = lab_number(lab_around(root_of(o), p->tokens));
        err = read_metric(&t, o, seconds, why);
    }
    return err;
}

/* Requests that failed: told, or those asked for less those done. */
static cadre_err read_failed(const lab_readers *p, const lab_output *o, lab_reading *r, cadre_fail *why) {
    double asked = NAN, done = NAN;
    cadre_err err = lab_reading_sum(o, p->failed, &r->failed, why);
    if (!err) err = lab_reading_sum(o, p->asked, &asked, why);
    if (!err) err = lab_reading_sum(o, p->done, &done, why);
    if (isnan(r->failed)) r->failed = p->cadre && o->doc ? 0 : asked - done;
    return err;
}

static void count_zero(void *ctx, const json *v) {
    *(int *)ctx += v->kind == JSON_NUMBER && v->number == 0;
}

/* A request that was answered without its first token's time went into the means as if that had been 0. */
static void drop_spoiled(const lab_readers *p, const lab_output *o, lab_reading *r) {
    int zeros = 0;
    lab_path_each(root_of(o), p->first_times, count_zero, &zeros);
    if (!(zeros > (isnan(r->failed) ? 0 : r->failed))) return;
    for (int i = 0; i < r->count; i++)
        if (strstr(r->figures[i].name, "ttft") || strstr(r->figures[i].name, "tpot")) r->figures[i].value = NAN;
}

cadre_err lab_reading_make(const lab_experiment *e, const lab_arm *arm, const lab_output *o, double seconds,
                           lab_reading *r, cadre_fail *why) {
    const lab_readers *p = lab_experiment_readers(e);
    const json *root = root_of(o);
    *r = (lab_reading){.active = LAB_ACTIVE_UNKNOWN, .text_bytes = NAN};
    cadre_err err = read_figures(e, o, seconds, r, why);
    if (!err) err = read_failed(p, o, r, why);
    if (!err) drop_spoiled(p, o, r);
    if (!err) err = lab_reading_sum(o, p->accepted, &r->accepted, why);
    if (!err) err = lab_reading_sum(o, p->drafts, &r->drafts, why);
    if (!err) err = lab_reading_sum(o, p->draft_tokens, &r->draft_tokens, why);
    if (!err) err = lab_reading_outputs(&p->outputs, o, r, why);
    if (!err) err = lab_reading_active(p, arm, o, r, why);
    r->device = lab_path_first(root, p->device);
    r->numerics = lab_path_first(root, p->numerics);
    r->sampling = lab_path_first(root, p->sampling);
    if (err) lab_reading_free(r);
    return err;
}

void lab_reading_free(lab_reading *r) {
    mem_free(r->figures);
    json_free(r->requests);
    *r = (lab_reading){0};
}
