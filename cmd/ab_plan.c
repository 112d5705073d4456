/* ab_plan.c: `cadre ab plan`: what an experiment would do, before it does: what differs between its arms, in which
 * order they are visited, how many visits the effect that is asked for needs, and how long that takes. */
#include "ab.h"
#include "commands.h"
#include <math.h>
#include <string.h>

typedef struct plan_opts {
    opts_common common;
    opts_rest files;
    const char *noise, *lock;
    double sd;
    bool try;
} plan_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(plan_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "the experiment (docs/lab.md)"),
    O(0, "--noise", OPTS_TEXT, "SAMPLES|DIR", noise, 0, 0, "take the noise between visits, and their time, from these"),
    O(0, "--sd", OPTS_REAL, "PERCENT", sd, 1e-6, 1000, "the noise between visits, as a standard deviation"),
    O(0, "--try", OPTS_FLAG, NULL, try, 0, 0,
      "visit each arm once, in a folder of TMPDIR: are its figures found, is it at work?"),
    O(0, "--lock", OPTS_TEXT, "FILE", lock, 0, 0, "the machine's lock, for --try (default /tmp/cadre-lab.lock)"),
    AB_EVERYWHERE(plan_opts),
};
#undef O

static const char *const examples[] = {
    "cadre ab plan isa.json",
    "what differs between the arms, and the order of the visits",
    "cadre ab plan isa.json --try",
    "one visit of each arm: are the figures found, is each arm at work?",
    "cadre ab plan isa.json --noise aa-run1/samples.jsonl",
    "how many visits the effect needs at the noise of an earlier run",
    NULL,
};

/* What is known of noise and time. */
typedef struct plan {
    const plan_opts *o;
    lab_experiment *e;
    json_doc *manifests[LAB_ARMS_MOST];
    double sd, seconds; /* relative, between visits; of a visit. NaN: not known */
    const char *from;   /* where the sd is from */
    lab_samples *tried; /* of --try */
    bool missed;        /* an arm of it failed, was not at work or did not show the metric asked for */
    char dir[OPEN_PATH_MAX];
    json_out js;
} plan;

/* ---- differences ---- */

typedef struct differences {
    plan *p;
    const char *arm;
} differences;

static void short_text(const json *v, char text[200]) {
    json_out o = {0};
    if (!v) {
        snprintf(text, 200, "-");
        return;
    }
    json_put_value(&o, NULL, v);
    snprintf(text, 200, "%.190s%s", o.text ? o.text : "?", o.len > 190 ? "..." : "");
    json_out_free(&o);
}

/* Of two commands only the words in which they differ, by what is the same before and behind. */
static void short_words(const json *v, const json *other, char text[200]) {
    const json *a = v->child, *b = other->child;
    int head = 0, tail = 0, n = v->count < other->count ? v->count : other->count;
    size_t len = 0;
    for (; a && b && json_is(a, b->text); a = a->next, b = b->next) head++;
    for (; tail < n - head; tail++) {
        const json *x = v->child, *y = other->child;
        for (int i = 0; i < v->count - 1 - tail; i++) x = x->next;
        for (int i = 0; i < other->count - 1 - tail; i++) y = y->next;
        if (!json_is(x, y->text)) break;
    }
    len += (size_t)snprintf(text, 200, "%s", head ? "..." : "");
    for (int i = head; i < v->count - tail && len < 180; i++, a = a->next)
        len += (size_t)snprintf(text + len, 200 - len, "%s%.150s", len ? " " : "", a->text);
    if (len < 190) snprintf(text + len, 200 - len, "%s", tail ? len ? " ..." : "..." : "");
}

static bool are_words(const json *v) {
    for (const json *c = v && v->kind == JSON_ARRAY ? v->child : NULL; c; c = c->next)
        if (c->kind != JSON_TEXT) return false;
    return v && v->kind == JSON_ARRAY;
}

static void on_difference(void *ctx, const char *path, const json *arm, const json *reference) {
    differences *d = ctx;
    char a[200], b[200];
    if (!strcmp(path, "command") && are_words(arm) && are_words(reference)) {
        short_words(reference, arm, a);
        short_words(arm, reference, b);
    } else {
        short_text(reference, a);
        short_text(arm, b);
    }
    say("    %-14s %s -> %s", path, a, b);
    json_open(&d->p->js, NULL, '{');
    json_put_text(&d->p->js, "what", path);
    if (reference)
        json_put_value(&d->p->js, "reference", reference);
    else
        json_put_null(&d->p->js, "reference");
    if (arm)
        json_put_value(&d->p->js, "arm", arm);
    else
        json_put_null(&d->p->js, "arm");
    json_close(&d->p->js, '}');
}

static bool proven(const lab_experiment *e, const lab_arm *a) {
    bool cadre = e->program && !strncmp(e->program, "cadre", 5); /* tells its switches */
    return cadre || (a->must && *a->must) || (a->must_not && *a->must_not) || a->counter_count;
}

static void show_arm(plan *p, int i) {
    const lab_arm *a = &p->e->arms[i];
    bool reference = i == p->e->reference;
    differences d = {p, a->name};
    json_open(&p->js, NULL, '{');
    json_put_text(&p->js, "name", a->name);
    json_put_text(&p->js, "role", reference ? "reference" : "arm");
    json_put_text(&p->js, "prediction", a->prediction);
    json_put_real(&p->js, "predicted", a->predicted);
    json_put_real(&p->js, "predicted_delta", a->predicted_delta);
    json_put_bool(&p->js, "ceiling", a->ceiling);
    json_put_bool(&p->js, "proves_itself", proven(p->e, a));
    say("  %s%s", a->name, reference ? " (the reference)" : a->ceiling ? " (a ceiling)" : "");
    json_open(&p->js, "differences", '[');
    int n = reference ? 0
                      : lab_manifest_diff(json_root(p->manifests[i]), json_root(p->manifests[p->e->reference]),
                                          on_difference, &d);
    json_close(&p->js, ']');
    json_close(&p->js, '}');
    if (a->prediction || !isnan(a->predicted) || !isnan(a->predicted_delta)) {
        char by[40] = "";
        if (!isnan(a->predicted)) snprintf(by, sizeof by, "%+.4g %%", 100 * a->predicted);
        if (!isnan(a->predicted_delta)) snprintf(by, sizeof by, "%+.4g", a->predicted_delta);
        say("    %-14s %s%s%s", "predicted", by, *by && a->prediction ? ": " : "", a->prediction ? a->prediction : "");
    }
    if (!reference && !n) say("    nothing differs");
}

static void show_arms(plan *p) {
    say("arms");
    json_open(&p->js, "arms", '[');
    for (int i = 0; i < p->e->arm_count; i++) show_arm(p, i);
    json_close(&p->js, ']');
    for (int i = 0; i < p->e->arm_count; i++)
        if (!proven(p->e, &p->e->arms[i]) && !p->e->question.unproven_allowed)
            say_note(
                "arm %s names nothing that shows it at work, and the verdict will refuse it: give it must, must_not "
                "or counters, or say \"unproven_allowed\": true",
                p->e->arms[i].name);
}

/* ---- order ---- */

static cadre_err show_order(plan *p, cadre_fail *why) {
    static const char *const orders[] = {"interleaved", "balanced", "blocks"};
    const lab_experiment *e = p->e;
    int total = lab_experiment_order(e, NULL, 0);
    int *order = mem_new_array((size_t)total, sizeof *order);
    char text[300] = "";
    if (!order) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for %d visits", total);
    lab_experiment_order(e, order, total);
    json_put_int(&p->js, "visits", e->visits);
    json_put_int(&p->js, "warmup", e->warmup);
    json_put_int(&p->js, "total", total);
    json_open(&p->js, "order", '[');
    for (int i = 0; i < total; i++) {
        const char *name = e->arms[order[i]].name;
        size_t n = strlen(text);
        json_put_text(&p->js, NULL, name);
        if (n + strlen(name) + 8 < sizeof text && i < 12)
            snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", name);
    }
    json_close(&p->js, ']');
    mem_free(order);
    say_pair("order", "%s: %s%s", orders[e->order], text, total > 12 ? ", ..." : "");
    say_pair("visits", "%d: of each arm %d%s%d warm-up, and the reference once more at the end", total, e->visits,
             " after ", e->warmup);
    return CADRE_OK;
}

/* ---- noise and time ---- */

/* Figures of one visit, met one after the other in the file. */
typedef struct group {
    const char *arm;
    int visit, n;
    double sum;
} group;

/* Relative sd between the means of visits, pooled over arms: root of the mean of the squares by degrees of freedom. */
static double between(const group *g, int n) {
    double squares = 0;
    int degrees = 0;
    for (int i = 0; i < n; i++) {
        double mean = 0, square = 0;
        int same = 0;
        bool first = true;
        for (int k = 0; k < i; k++) first &= strcmp(g[k].arm, g[i].arm) != 0;
        for (int k = i; k < n && first; k++)
            if (!strcmp(g[k].arm, g[i].arm)) mean += g[k].sum / g[k].n, same++;
        if (same < 2 || mean == 0) continue;
        mean /= same;
        for (int k = i; k < n; k++)
            if (!strcmp(g[k].arm, g[i].arm)) square += (g[k].sum / g[k].n / mean - 1) * (g[k].sum / g[k].n / mean - 1);
        squares += square;
        degrees += same - 1;
    }
    return degrees ? sqrt(squares / degrees) : NAN;
}

static void gather(plan *p, const lab_samples *s, group *g, int *count, double *seconds) {
    int n = 0, timed = 0;
    for (int i = 0; i < lab_samples_count(s); i++) {
        const lab_sample *x = lab_samples_at(s, i);
        if (strcmp(x->metric, p->e->question.metric) || isnan(x->value)) continue;
        const json *took = json_get(json_get(x->manifest, "visit"), "seconds");
        if (took && took->kind == JSON_NUMBER) *seconds += took->number, timed++;
        if (x->warmup) continue;
        if (!n || g[n - 1].visit != x->visit || strcmp(g[n - 1].arm, x->arm))
            g[n++] = (group){.arm = x->arm, .visit = x->visit};
        g[n - 1].sum += x->value;
        g[n - 1].n++;
    }
    *count = n;
    *seconds = timed ? *seconds / timed : NAN;
}

static cadre_err read_noise(plan *p, const char *told, cadre_fail *why) {
    lab_samples *s;
    int n = 0;
    double seconds = 0;
    static char path[OPEN_PATH_MAX];
    if (file_is_dir(told) ? !file_join(path, sizeof path, told, "samples.jsonl")
                          : snprintf(path, sizeof path, "%s", told) >= (int)sizeof path)
        return cadre_fail_set(why, CADRE_IO, "%.200s...: path too long", told);
    cadre_err err = lab_samples_read(path, &s, why);
    if (err) return err;
    group *g = mem_new_array((size_t)lab_samples_count(s) + 1, sizeof *g);
    if (!g) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for %s", path);
    if (!err) gather(p, s, g, &n, &seconds);
    if (!err) p->seconds = seconds;
    if (!err && isnan(p->sd)) p->sd = between(g, n), p->from = told;
    if (!err && !n) err = cadre_fail_set(why, CADRE_RANGE, "%.300s: no sample of %.60s", path, p->e->question.metric);
    mem_free(g);
    lab_samples_free(s);
    return err;
}

static void show_noise(plan *p) {
    const lab_question *q = &p->e->question;
    int needed = isnan(p->sd) ? 0 : lab_visits_needed(q->effect, p->sd, q->level, q->power);
    double power = isnan(p->sd) ? NAN : lab_power(p->e->visits, q->effect, p->sd, q->level);
    json_put_real(&p->js, "effect", q->effect);
    json_put_real(&p->js, "level", q->level);
    json_put_real(&p->js, "power", q->power);
    json_put_real(&p->js, "noise", p->sd);
    if (needed)
        json_put_int(&p->js, "visits_needed", needed);
    else
        json_put_null(&p->js, "visits_needed");
    json_put_real(&p->js, "power_planned", power);
    if (isnan(p->sd)) {
        say_pair("power", "not known: give the noise between visits by --noise SAMPLES or --sd PERCENT");
        return;
    }
    say_pair("noise", "%.3g %% between visits%s%s", 100 * p->sd, p->from ? ", from " : "", p->from ? p->from : "");
    if (needed)
        say_pair("power", "%d visits of each arm find %.3g %% %.0f times of 100; with %d planned: %.0f of 100", needed,
                 100 * q->effect, 100 * q->power, p->e->visits, 100 * power);
    else
        say_pair("power", "no number of visits finds %.3g %% at this noise", 100 * q->effect);
}

static void show_time(plan *p) {
    int total = lab_experiment_order(p->e, NULL, 0);
    double all = total * p->seconds + (total - 1) * p->e->pause_s;
    json_put_real(&p->js, "seconds", all);
    if (isnan(all))
        say_pair("time", "not known, at most %.3g h by the limit of %g s a visit; --try measures one",
                 total * (p->e->timeout_s + p->e->pause_s) / 3600, p->e->timeout_s);
    else
        say_pair("time", all < 120 ? "about %.0f s" : "about %.0f minutes", all < 120 ? all : all / 60);
}

/* ---- a try ---- */

/* The first line of each figure that a visit gave. */
static void show_figures(plan *p, const lab_samples *s) {
    say("tried in %s", p->dir);
    json_open(&p->js, "tried", '[');
    for (int i = 0; i < lab_samples_count(s); i++) {
        const lab_sample *x = lab_samples_at(s, i);
        if (x->iteration > 1 || x->order > p->e->arm_count) continue;
        p->missed |= x->active == LAB_ACTIVE_NO || (isnan(x->value) && !strcmp(x->metric, p->e->question.metric));
        bool first = !i || lab_samples_at(s, i - 1)->order != x->order;
        if (first)
            say("  %s: %s%s%s%s", x->arm,
                x->active == LAB_ACTIVE_YES  ? "at work"
                : x->active == LAB_ACTIVE_NO ? "NOT at work: "
                                             : "nothing shows it at work",
                x->active != LAB_ACTIVE_NO && x->why && isnan(x->value) ? ", failed: " : "",
                x->active == LAB_ACTIVE_NO || (x->why && isnan(x->value)) ? x->why : "",
                x->family ? ", outputs hashed" : ", outputs not told");
        if (isnan(x->value))
            say("    %-20s not measured", x->metric);
        else
            say("    %-20s %.6g %s", x->metric, x->value, x->unit);
        json_open(&p->js, NULL, '{');
        json_put_text(&p->js, "arm", x->arm);
        json_put_text(&p->js, "metric", x->metric);
        json_put_real(&p->js, "value", x->value);
        json_put_text(&p->js, "unit", x->unit);
        json_put_text(&p->js, "active", x->active == LAB_ACTIVE_UNKNOWN ? NULL : x->active ? "yes" : "no");
        json_put_text(&p->js, "why", x->why);
        json_close(&p->js, '}');
    }
    json_close(&p->js, ']');
}

static cadre_err try_once(plan *p, const char *cadre, cadre_fail *why) {
    int visits = p->e->visits, warmup = p->e->warmup;
    double sd = p->sd;
    const char *from = p->from;
    lab_run_result r;
    cadre_err err = file_temp_dir(opts_temp_dir(), "cadre-try", p->dir, sizeof p->dir, why);
    if (err) return err;
    p->e->visits = 1, p->e->warmup = 0;
    err = lab_run(p->e, &(lab_run_setup){.folder = p->dir, .lock = p->o->lock, .cadre = cadre}, &r, why);
    if (!err) err = lab_samples_read(r.samples, &p->tried, why);
    if (!err && isnan(p->seconds)) read_noise(p, r.samples, NULL); /* its time alone: one visit each has no noise */
    p->sd = sd, p->from = from;
    p->e->visits = visits, p->e->warmup = warmup;
    return err;
}

/* ---- all of it ---- */

/* Whatever may fail comes before anything is said. */
static cadre_err look(plan *p, cadre_fail *why) {
    char cadre[OPEN_PATH_MAX];
    cadre_err err = file_program(cadre, sizeof cadre, why);
    if (!err) err = lab_manifests(p->e, cadre, p->manifests, why);
    if (!err && p->o->noise) err = read_noise(p, p->o->noise, why);
    if (!err && p->o->try) err = try_once(p, cadre, why);
    return err;
}

static cadre_err show(plan *p, cadre_fail *why) {
    cadre_err err = look(p, why);
    if (err) return err;
    ab_say_experiment(p->e);
    json_put_text(&p->js, "name", p->e->name);
    json_put_text(&p->js, "asks", p->e->asks);
    json_put_text(&p->js, "metric", p->e->question.metric);
    json_put_text(&p->js, "floor", p->e->question.floor);
    json_put_text(&p->js, "program", p->e->program);
    json_put_bool(&p->js, "aa", p->e->aa);
    show_arms(p);
    err = show_order(p, why);
    if (!err && p->tried) show_figures(p, p->tried);
    if (!err) show_noise(p);
    if (!err) show_time(p);
    return err;
}

static int run(void) {
    static plan_opts o = {.lock = "/tmp/cadre-lab.lock"};
    static plan p = {.sd = NAN, .seconds = NAN};
    const char *file = NULL;
    cadre_fail why = {0};
    int status;
    p.o = &o;
    if (!opts_read(&ab_plan_command, &o, &status)) return status;
    if (o.sd > 0) p.sd = o.sd / 100;
    cadre_err err = ab_one_file(&o.files, "ab plan", &file, &why);
    if (!err) err = lab_experiment_read(file, &p.e, &why);
    say_json_open(&p.js, "ab plan");
    if (!err) err = show(&p, &why);
    json_close(&p.js, '}');
    for (int i = 0; i < LAB_ARMS_MOST; i++) json_free(p.manifests[i]);
    lab_samples_free(p.tried);
    lab_experiment_free(p.e);
    status = p.missed ? EXIT_NO : EXIT_FINE;
    if (!err && o.common.json) return say_json(&p.js, status);
    json_out_free(&p.js);
    return err ? say_failed(&why) : status;
}

const opts_command ab_plan_command = {
    "ab plan", "what an experiment would do, and how many visits it needs", NULL, OPTS_TABLE(defs), examples, run};
