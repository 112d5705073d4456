/* run_visit.c: one visit: the process, what it wrote, its lines. Nothing is written before it is over, and then all at
 * once. */
#include "run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct visit {
    run *r;
    run_turn *t;
    char folder[4400], started[24];
    process_end end;
    char error[200]; /* how it ended, if badly */
    lab_machine before, after;
    char *gpus;
    lab_output output;
    lab_reading reading;
    json_doc *manifest;
    int lines;
} visit;

/* ---- the folder and the words of the command ---- */

static cadre_err make_folder(visit *v) {
    char name[100];
    const char *arm = v->r->e->arms[v->t->arm].name;
    size_t n = 0;
    for (; arm[n] && n < 60; n++)
        name[n] = strchr(" /\\:*?\"<>|", arm[n]) || (unsigned char)arm[n] < ' ' ? '-' : arm[n];
    name[n] = 0;
    int len = snprintf(v->folder, sizeof v->folder, "%s/visits/%04d-%s", v->r->folder, v->t->order, name);
    for (int i = 2; file_exists(v->folder); i++) /* of a visit that was cut off: what it wrote is nobody's result */
        snprintf(v->folder + len, sizeof v->folder - (size_t)len, ".%d", i);
    return file_make_dir_for_all(v->folder, v->r->why);
}

/* {dir}, {visit} and {order} in a word; NULL: out of memory. */
static char *filled(const visit *v, const char *word) {
    char visit_text[16], order_text[16];
    snprintf(visit_text, sizeof visit_text, "%d", v->t->visit);
    snprintf(order_text, sizeof order_text, "%d", v->t->order);
    const struct {
        const char *name, *value;
    } marks[] = {{"{dir}", v->folder}, {"{visit}", visit_text}, {"{order}", order_text}};
    size_t most = strlen(word) + (strlen(word) / 5 + 1) * strlen(v->folder); /* a mark has 5 characters or more */
    char *out = mem_new(most + 64), *to = out;
    while (out && *word) {
        int hit = -1;
        for (int i = 0; i < 3; i++)
            if (!strncmp(word, marks[i].name, strlen(marks[i].name))) hit = i;
        const char *piece = hit < 0 ? word : marks[hit].value;
        size_t n = hit < 0 ? 1 : strlen(piece);
        memcpy(to, piece, n);
        to += n;
        word += hit < 0 ? 1 : strlen(marks[hit].name);
    }
    return out;
}

enum { WORDS = LAB_WORDS_MOST * 3 };
typedef struct words {
    char *items[WORDS + 1];
    int count;
    bool failed;
} words;

static void add_word(words *w, const visit *v, const char *word) {
    if (w->count == WORDS || !(w->items[w->count] = filled(v, word)))
        w->failed = true;
    else
        w->count++;
}

static void free_words(words *w) {
    for (int i = 0; i < w->count; i++) mem_free(w->items[i]);
}

static cadre_err fill_words(visit *v, words *argv, words *env) {
    const lab_arm *a = &v->r->e->arms[v->t->arm];
    char program[4096];
    cadre_err err = lab_find_program(v->r->e, a->argv[0], v->r->setup->cadre, program, sizeof program, v->r->why);
    if (err) return err;
    add_word(argv, v, program);
    for (int i = 1; a->argv[i]; i++) add_word(argv, v, a->argv[i]);
    for (int i = 0; a->set && a->set[i]; i++) {
        add_word(argv, v, "--set");
        add_word(argv, v, a->set[i]);
    }
    for (int i = 0; a->env && a->env[i]; i++) add_word(env, v, a->env[i]);
    return argv->failed || env->failed ? cadre_fail_set(v->r->why, CADRE_NOMEM, "out of memory for a command")
                                       : CADRE_OK;
}

/* ---- the process ---- */

static void how_it_ended(visit *v) {
    const process_end *e = &v->end;
    if (e->timed_out)
        snprintf(v->error, sizeof v->error, "ran past its limit of %g s", v->r->e->timeout_s);
    else if (e->signal)
        snprintf(v->error, sizeof v->error, "ended by signal %d", e->signal);
    else if (e->status)
        snprintf(v->error, sizeof v->error, "exit status %d", e->status);
}

static cadre_err run_process(visit *v) {
    static const char *const drop[] = {"CADRE_SET", NULL};
    words argv = {0}, env = {0};
    char out[4500], err_path[4500];
    snprintf(out, sizeof out, "%s/stdout", v->folder);
    snprintf(err_path, sizeof err_path, "%s/stderr", v->folder);
    cadre_err err = fill_words(v, &argv, &env);
    process_setup setup = {.argv = (const char *const *)argv.items,
                           .env = (const char *const *)env.items,
                           .drop = drop,
                           .folder = v->r->e->folder,
                           .out = out,
                           .err = err_path,
                           .timeout_s = v->r->e->timeout_s,
                           .stop = v->r->setup->stop};
    clock_date(v->started);
    lab_machine_read("", &v->before);
    if (!err) err = process_run(&setup, &v->end, v->r->why);
    lab_machine_read("", &v->after);
    v->r->result->stopped = !err && v->end.stopped;
    if (!err) how_it_ended(v);
    free_words(&argv);
    free_words(&env);
    return err;
}

/* ---- its manifest: the arm's, and what this visit told ---- */

static void put_told(json_out *o, const visit *v, const json *declared) {
    const lab_readers *p = lab_experiment_readers(v->r->e);
    const json *root = v->output.doc ? json_root(v->output.doc) : NULL;
    json_open(o, "protocol", '{');
    for (const json *c = declared ? declared->child : NULL; c; c = c->next) json_put_value(o, c->key, c);
    for (int i = 0; i < LAB_TOLD_MOST && p->told[i].name; i++) {
        const json *first = lab_path_first(root, p->told[i].path);
        double sum = NAN;
        if (!first || first->kind == JSON_NULL || json_get(declared, p->told[i].name)) continue;
        lab_reading_sum(&v->output, p->told[i].path, &sum, NULL);
        if (isnan(sum))
            json_put_value(o, p->told[i].name, first);
        else
            json_put_real(o, p->told[i].name, sum);
    }
    if (v->reading.sampling && !json_get(declared, "sampling")) json_put_value(o, "sampling", v->reading.sampling);
    json_close(o, '}');
}

static void put_lines(json_out *o, const char *key, const char *text) {
    json_open(o, key, '[');
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        json_put_text_n(o, NULL, text, n);
        text += n + (text[n] == '\n');
    }
    json_close(o, ']');
}

static void put_visit(json_out *o, const visit *v) {
    const process_end *e = &v->end;
    double busy = v->after.busy_s - v->before.busy_s - e->user_s - e->system_s;
    json_open(o, "visit", '{');
    json_put_int(o, "samples", v->lines);
    json_put_text(o, "folder", v->folder + strlen(v->r->folder) + 1);
    json_put_real(o, "seconds", e->seconds);
    json_put_real(o, "cpu_s", e->user_s + e->system_s);
    json_put_int(o, "peak_bytes", (int64_t)e->peak_bytes);
    json_put_int(o, "status", e->status);
    json_put_text(o, "error", *v->error ? v->error : NULL);
    json_put_real(o, "load_after", v->after.load);
    json_put_real(o, "others_cpus", e->seconds > 0 && busy > 0 ? busy / e->seconds : 0);
    json_put_real(o, "text_bytes", v->reading.text_bytes);
    if (v->gpus) put_lines(o, "gpus", v->gpus);
    json_close(o, '}');
}

/* What programs say of a CPU names kernels and threads, which arms may differ in; the device is the CPU itself. */
static void put_device(json_out *o, const json *told, const json *cpu) {
    if (!told || told->kind != JSON_TEXT) return;
    bool on_cpu = !strncasecmp(told->text, "cpu", 3);
    json_put_text(o, "runs_on", told->text);
    json_put_text(o, "device", !on_cpu ? told->text : cpu && cpu->kind == JSON_TEXT ? cpu->text : "cpu");
}

static cadre_err make_manifest(visit *v) {
    const json *arm = json_root(v->r->manifests[v->t->arm]);
    json_out o = {0};
    json_open(&o, NULL, '{');
    for (const json *c = arm->child; c; c = c->next)
        if (!strcmp(c->key, "role"))
            json_put_text(&o, "role", v->t->anchor ? "anchor" : c->text);
        else if (strcmp(c->key, "protocol"))
            json_put_value(&o, c->key, c);
    put_told(&o, v, json_get(arm, "protocol"));
    if (v->r->lock >= 0) json_put_bool(&o, "exclusive", true);
    put_device(&o, v->reading.device, json_get(json_get(arm, "machine"), "cpu"));
    if (v->reading.numerics) json_put_value(&o, "numerics", v->reading.numerics);
    if (v->reading.sampling) json_put_value(&o, "sampling", v->reading.sampling);
    put_visit(&o, v);
    json_close(&o, '}');
    cadre_err err = o.failed ? CADRE_NOMEM : json_parse("manifest", o.text, o.len, &v->manifest, v->r->why);
    json_out_free(&o);
    return err == CADRE_NOMEM ? cadre_fail_set(v->r->why, err, "out of memory for a manifest") : err;
}

/* ---- its samples ---- */

/* A figure that a failed visit printed on its way is none. */
static bool failed(const visit *v) {
    return *v->error;
}

static void put_sample(json_out *o, const visit *v, const char *metric, const char *unit, double value, double tokens,
                       int iteration) {
    const lab_experiment *e = v->r->e;
    const lab_reading *r = &v->reading;
    lab_sample s = {.run = v->r->result->run,
                    .arm = e->arms[v->t->arm].name,
                    .visit = v->t->visit,
                    .order = v->t->order,
                    .iteration = iteration,
                    .warmup = v->t->warmup || (iteration > 0 && iteration <= e->skip),
                    .metric = metric,
                    .unit = unit,
                    .value = failed(v) ? NAN : value,
                    .tokens = tokens,
                    .failed = failed(v) && !(r->failed >= 1) ? 1 : r->failed,
                    .family = *r->family ? r->family : NULL,
                    .requests = r->requests ? json_root(r->requests) : NULL,
                    .accepted = r->accepted,
                    .drafts = r->drafts,
                    .draft_tokens = r->draft_tokens,
                    .active = r->active,
                    .why = *r->why     ? r->why
                           : *v->error ? v->error
                                       : NULL,
                    .started = v->started,
                    .load = v->before.load,
                    .mhz = v->after.mhz,
                    .celsius = v->after.celsius,
                    .manifest = json_root(v->manifest)};
    lab_sample_write(&s, o);
}

static bool is_asked(const visit *v, const char *name) {
    const char *asked = v->r->e->question.metric;
    return !strcmp(name, asked);
}

static int asked_figures(const visit *v, double *mean) {
    double sum = 0;
    int n = 0, told = 0;
    for (int i = 0; i < v->reading.count; i++) {
        const lab_figure *f = &v->reading.figures[i];
        if (!is_asked(v, f->name)) continue;
        n++;
        if (!isnan(f->value) && f->iteration > v->r->e->skip) sum += f->value, told++;
    }
    *mean = told && !failed(v) ? sum / told : NAN;
    return n;
}

static const lab_metric *metric_of(const lab_experiment *e, const char *name) {
    size_t n = strcspn(name, "@");
    for (int i = 0; i < e->metric_count; i++)
        if (strlen(e->metrics[i].name) == n && !memcmp(e->metrics[i].name, name, n)) return &e->metrics[i];
    return NULL;
}

/* Figures that a visit should have and has not are lines too: null. */
static cadre_err write_samples(visit *v) {
    const lab_experiment *e = v->r->e;
    const lab_metric *m = metric_of(e, e->question.metric);
    json_out o = {0};
    int have = asked_figures(v, &v->t->value), want = e->iterations > 1 ? e->iterations : 1;
    int missing = have < want ? want - have : 0;
    v->lines = v->reading.count + missing;
    cadre_err err = make_manifest(v);
    if (err) return err;
    for (int i = 0; i < v->reading.count; i++) {
        const lab_figure *f = &v->reading.figures[i];
        put_sample(&o, v, f->name, f->metric->unit, f->value, f->tokens, f->iteration);
    }
    for (int i = 0; i < missing; i++) put_sample(&o, v, e->question.metric, m ? m->unit : "", NAN, NAN, have + i + 1);
    if (o.failed)
        err = cadre_fail_set(v->r->why, CADRE_NOMEM, "out of memory for the samples of a visit");
    else
        err = file_append_synced(v->r->result->samples, o.text, o.len, v->r->why);
    json_out_free(&o);
    return err;
}

/* ---- the visit ---- */

/* The first visit of an arm shows whether its figures are where the experiment looks for them. */
static cadre_err check_first(const visit *v) {
    double mean;
    const lab_metric *m = metric_of(v->r->e, v->r->e->question.metric);
    if (v->t->visit > 1 || failed(v) || asked_figures(v, &mean)) return CADRE_OK;
    return cadre_fail_set(v->r->why, CADRE_RANGE, "arm %.60s gave no %.60s at %.100s in %.200s%s%.200s",
                          v->r->e->arms[v->t->arm].name, v->r->e->question.metric, m && m->where ? m->where : "?",
                          file_short(v->folder), *v->output.no_doc ? ": " : "", v->output.no_doc);
}

static cadre_err measure(visit *v) {
    const lab_experiment *e = v->r->e;
    cadre_err err = make_folder(v);
    if (!err) err = run_process(v);
    if (err || v->r->result->stopped) return err;
    v->gpus = lab_machine_gpus(v->folder);
    err = lab_output_read(v->folder, e->output, &v->output, v->r->why);
    if (!err) err = lab_reading_make(e, &e->arms[v->t->arm], &v->output, v->end.seconds, &v->reading, v->r->why);
    if (!err) err = check_first(v);
    return err ? err : write_samples(v);
}

cadre_err run_visit(run *r, run_turn *t) {
    visit v = {.r = r, .t = t};
    cadre_err err = measure(&v);
    bool counts = !err && !r->result->stopped;
    snprintf(t->failed, sizeof t->failed, "failed: %s", v.error);
    t->state = failed(&v) ? t->failed : v.reading.active == LAB_ACTIVE_NO ? "not active" : "ok";
    r->result->visits += counts;
    r->result->failed += counts && failed(&v);
    r->result->unproven += counts && v.reading.active != LAB_ACTIVE_YES;
    json_free(v.manifest);
    lab_reading_free(&v.reading);
    lab_output_free(&v.output);
    mem_free(v.gpus);
    return err;
}
