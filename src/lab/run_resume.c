/* run_resume.c: the folder of a run: a new one, or one to go on with. What the file of samples holds is told from its
 * lines alone: each says to which visit it belongs and how many lines that visit has, so that a visit of which a killed
 * writer left only a part can be cut away. */
#include "run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES_MOST = 1 << 30 };

static cadre_err refuse(run *r, const char *format) {
    char text[400];
    snprintf(text, sizeof text, format, file_short(r->folder));
    return cadre_fail_set(r->why, CADRE_RANGE, "%s", text);
}

/* ---- the lines that are there ---- */

typedef struct scan {
    run *r;
    const char *text;
    size_t len, at;
    int line;
    size_t visit_at;      /* where the visit that is being read begins */
    int order, lines, of; /* its number, its lines so far, and how many it has */
    bool failed, unproven;
} scan;

static cadre_err bad(scan *s, const char *what) {
    return cadre_fail_set(s->r->why, CADRE_FORMAT, "%.300s:%d: %s", s->r->result->samples, s->line, what);
}

static int whole_in(const json *v, const char *key) {
    const json *m = json_get(v, key);
    return m && m->kind == JSON_NUMBER && m->whole && m->integer >= 0 && m->integer < 1 << 30 ? (int)m->integer : -1;
}

static void count_missing(void *ctx, const char *path, const json *a, const json *b) {
    (void)path, (void)b;
    *(int *)ctx += a != NULL; /* what samples add to a manifest is no difference */
}

/* A visit that was measured with another build, table or machine is none of this run's. */
static cadre_err same_manifest(scan *s, int arm, const json *manifest) {
    int differences = 0;
    if (!manifest) return bad(s, "a sample without a manifest");
    lab_manifest_diff(json_root(s->r->manifests[arm]), manifest, count_missing, &differences);
    if (!differences) return CADRE_OK;
    return cadre_fail_set(s->r->why, CADRE_RANGE,
                          "%.300s:%d: the program, a file or the machine of arm %.60s is not the same any more; start "
                          "a new folder",
                          s->r->result->samples, s->line, s->r->e->arms[arm].name);
}

static cadre_err begin_visit(scan *s, int order, const json *root) {
    run *r = s->r;
    const json *manifest = json_get(root, "manifest"), *visit = json_get(manifest, "visit");
    if (order != s->order + 1 || order > r->total) return bad(s, "a visit out of order");
    int arm = r->order[order - 1];
    if (!json_is(json_get(root, "arm"), r->e->arms[arm].name)) return bad(s, "a visit of another arm than planned");
    s->order = order;
    s->lines = 0;
    s->of = whole_in(visit, "samples");
    if (s->of < 1) return bad(s, "a sample that does not say how many its visit has");
    const json *run_id = json_get(root, "run"), *active = json_get(root, "active");
    if (run_id && run_id->kind == JSON_TEXT) snprintf(r->result->run, sizeof r->result->run, "%s", run_id->text);
    s->failed = json_get(visit, "error") && json_get(visit, "error")->kind == JSON_TEXT;
    s->unproven = !active || active->kind != JSON_BOOL || !active->truth;
    return same_manifest(s, arm, manifest);
}

static cadre_err take_line(scan *s, const char *line, size_t n) {
    json_doc *doc;
    cadre_err err = json_parse("", line, n, &doc, s->r->why);
    if (err) return err == CADRE_NOMEM ? err : bad(s, "cut off or changed; start a new folder");
    const json *root = json_root(doc);
    int order = whole_in(root, "order");
    size_t at = (size_t)(line - s->text);
    if (order < 1)
        err = bad(s, "no sample of a run");
    else if (order != s->order) {
        err =
            s->lines < s->of ? bad(s, "the visit before has fewer samples than it says") : begin_visit(s, order, root);
        s->visit_at = at;
    }
    if (!err && ++s->lines == s->of) {
        s->r->result->failed += s->failed;
        s->r->result->unproven += s->unproven;
    }
    json_free(doc);
    return err;
}

/* Whole lines and whole visits are kept; *keep: how many bytes they take. */
static cadre_err read_lines(scan *s, size_t *keep) {
    const char *end;
    cadre_err err = CADRE_OK;
    while (!err && s->at < s->len && (end = memchr(s->text + s->at, '\n', s->len - s->at))) {
        s->line++;
        err = take_line(s, s->text + s->at, (size_t)(end - s->text) - s->at);
        s->at = (size_t)(end - s->text) + 1;
    }
    if (err) return err;
    bool part = s->lines < s->of;
    *keep = part ? s->visit_at : s->at;
    s->r->done = part ? s->order - 1 : s->order;
    return CADRE_OK;
}

static cadre_err read_samples(run *r) {
    char *text;
    size_t len, keep = 0;
    cadre_err err = file_read(r->result->samples, SAMPLES_MOST, &text, &len, r->why);
    if (err) return err;
    scan s = {.r = r, .text = text, .len = len};
    err = read_lines(&s, &keep);
    mem_free(text);
    if (!err && keep < len) {
        log_line("%s: a visit that was cut off is measured again", file_short(r->result->samples));
        err = file_cut(r->result->samples, keep, r->why);
    }
    for (int i = 0; i < r->done && !err; i++) r->visits[r->order[i]]++;
    r->result->visits = r->done;
    return err;
}

/* ---- the folder ---- */

static void new_id(run *r) {
    char date[24], hex[65], text[200];
    clock_date(date);
    snprintf(text, sizeof text, "%s %llu %ld", r->e->sha256, (unsigned long long)clock_ns(), (long)getpid());
    cadre_sha256(text, strlen(text), hex);
    snprintf(r->result->run, sizeof r->result->run, "%.4s%.2s%.2sT%.2s%.2s%.2s-%.8s", date, date + 5, date + 8,
             date + 11, date + 14, date + 17, hex);
}

/* The copy: what the samples were measured by, whatever becomes of the file. One without samples is of a start that
 * failed. */
static cadre_err copy_experiment(run *r) {
    char path[4200], hex[65], *text;
    size_t len;
    snprintf(path, sizeof path, "%s/experiment.json", r->folder);
    bool there = file_exists(path) && file_exists(r->result->samples);
    cadre_err err = file_read(there ? path : r->e->path, 1 << 24, &text, &len, r->why);
    if (err) return err;
    cadre_sha256(text, len, hex);
    if (strcmp(hex, r->e->sha256))
        err = refuse(r, there ? "%.200s holds another experiment" : "the experiment changed while it was read");
    else if (!there)
        err = file_write(path, text, len, r->why);
    mem_free(text);
    return err;
}

cadre_err run_open(run *r) {
    char visits[4200];
    cadre_err err = file_make_dir_for_all(r->setup->folder, r->why);
    if (!err) err = file_canonical(r->setup->folder, r->folder, sizeof r->folder - 100, r->why);
    if (err) return err;
    snprintf(r->result->samples, sizeof r->result->samples, "%.3900s/samples.jsonl", r->folder);
    snprintf(visits, sizeof visits, "%s/visits", r->folder);
    err = copy_experiment(r);
    if (!err) err = file_make_dir_for_all(visits, r->why);
    if (err) return err;
    if (file_exists(r->result->samples)) {
        if (!r->setup->resume) return refuse(r, "%.200s holds samples already; --resume goes on with them");
        err = read_samples(r);
    }
    if (!*r->result->run) new_id(r);
    return err;
}
