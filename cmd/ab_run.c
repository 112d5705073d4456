/* ab_run.c: `cadre ab run`: measures the arms of an experiment, in turns, and keeps what was measured. */
#include "ab.h"
#include "commands.h"
#include <math.h>
#include <signal.h>
#include <string.h>

typedef struct run_opts {
    opts_common common;
    opts_rest files;
    const char *out, *ledger, *supersedes, *lock;
    bool resume, wait, no_ledger;
    int repeat;
} run_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(run_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "the experiment (docs/lab.md)"),
    O('o', "--out", OPTS_TEXT, "DIR", out, 0, 0,
      "folder for samples and outputs (default: FILE's name and -run1, ...)"),
    O(0, "--resume", OPTS_FLAG, NULL, resume, 0, 0, "go on behind the last whole visit (default DIR: the newest)"),
    O(0, "--wait", OPTS_FLAG, NULL, wait, 0, 0, "wait while another experiment has the machine"),
    O(0, "--ledger", OPTS_TEXT, "FILE", ledger, 0, 0,
      "keep the outcome here (default: cadre/ledger.jsonl of your state)"),
    O(0, "--no-ledger", OPTS_FLAG, NULL, no_ledger, 0, 0, "keep no outcome"),
    O(0, "--supersedes", OPTS_TEXT, "ID", supersedes, 0, 0, "the entry of the ledger that this run replaces"),
    O(0, "--repeat", OPTS_INT, "N", repeat, 1, 10000,
      "the whole experiment N times: how often does it come to which outcome? (no ledger)"),
    O(0, "--lock", OPTS_TEXT, "FILE", lock, 0, 0, "the machine's lock (default /tmp/cadre-lab.lock)"),
    AB_EVERYWHERE(run_opts),
};
#undef O

static const char *const examples[] = {
    "cadre ab run isa.json",
    "every visit a fresh process, arms in turns; samples in isa-run1/samples.jsonl",
    "cadre ab run isa.json --resume",
    "go on after Ctrl-C, a crash or a power cut",
    "cadre ab run isa.json --wait --supersedes 3f2a9c01",
    "when the machine is free; the outcome replaces an earlier one",
    "cadre ab run noise.json --repeat 100",
    "of an A/A: how often would this experiment tell a win that is none?",
    NULL,
};

/* ---- the folder ---- */

/* FILE's name without .json, -run and the first number that is free; to resume, the last that is taken. */
static cadre_err name_folder(const run_opts *o, const char *file, char dir[OPEN_PATH_MAX], cadre_fail *why) {
    const char *name = strrchr(file, '/'), *dot;
    name = name ? name + 1 : file;
    dot = strrchr(name, '.');
    int len = dot && dot > name ? (int)(dot - name) : (int)strlen(name), n = 1;
    if (o->out) {
        snprintf(dir, OPEN_PATH_MAX, "%s", o->out);
        if (!o->resume || file_is_dir(dir)) return CADRE_OK;
        return cadre_fail_set(why, CADRE_RANGE, "%s is not there: nothing to resume", dir);
    }
    for (; n < 10000; n++) {
        snprintf(dir, OPEN_PATH_MAX, "%.*s-run%d", len, name, n);
        if (!file_exists(dir)) break;
    }
    if (!o->resume) return CADRE_OK;
    snprintf(dir, OPEN_PATH_MAX, "%.*s-run%d", len, name, n - 1);
    return n > 1 ? CADRE_OK : cadre_fail_set(why, CADRE_RANGE, "no %.*s-run1 to resume; name it by --out", len, name);
}

/* ---- while it runs ---- */

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    stopped = number;
}

/* The first one ends the visit in flight and leaves what was measured; the second ends this. */
static void catch_signals(void) {
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

static const char *unit_of(const lab_experiment *e) {
    size_t n = strcspn(e->question.metric, "@");
    for (int i = 0; i < e->metric_count; i++)
        if (strlen(e->metrics[i].name) == n && !memcmp(e->metrics[i].name, e->question.metric, n))
            return e->metrics[i].unit;
    return "";
}

static void on_visit(void *ctx, const lab_experiment *e, int order, int of, int arm, const char *state, double value) {
    bool *begun = ctx;
    if (!*begun) ab_say_experiment(e); /* not before it is known that there is something to say */
    *begun = true;
    if (!strcmp(state, "start")) {
        say_progress("visit %d of %d: %s", order, of, e->arms[arm].name);
        return;
    }
    char figure[40] = "-";
    if (!isnan(value)) snprintf(figure, sizeof figure, "%.6g %.16s", value, unit_of(e));
    if (strcmp(state, "ok"))
        say("%4d of %d  %-20s %-16s %s", order, of, e->arms[arm].name, figure, state);
    else
        say("%4d of %d  %-20s %s", order, of, e->arms[arm].name, figure);
}

/* ---- the end of it ---- */

static void put_result(json_out *o, const lab_experiment *e, const char *dir, const lab_run_result *r,
                       const ab_conclusion *c, bool concluded) {
    say_json_open(o, "ab run");
    json_put_text(o, "name", e->name);
    json_put_text(o, "run", r->run);
    json_put_text(o, "folder", dir);
    json_put_text(o, "samples", r->samples);
    json_put_int(o, "visits", r->visits);
    json_put_int(o, "of", lab_experiment_order(e, NULL, 0));
    json_put_int(o, "failed", r->failed);
    json_put_int(o, "unproven", r->unproven);
    json_put_bool(o, "stopped", r->stopped);
    json_put_text(o, "outcome", concluded ? lab_outcome_name(c->outcome) : NULL);
    json_put_text(o, "ledger_id", *c->id ? c->id : NULL);
    json_close(o, '}');
}

static void say_result(const lab_experiment *e, const run_opts *o, const char *file, const char *dir,
                       const lab_run_result *r) {
    if (r->failed) say_note("%d of %d visits failed: see stderr below %s/visits", r->failed, r->visits, dir);
    say_pair("samples", "%s (run %s)", file_short(r->samples), r->run);
    if (r->stopped)
        say_pair("go on", "cadre ab run %s --resume%s%s: %d of %d visits are kept", file, o->out ? " --out " : "",
                 o->out ? o->out : "", r->visits, lab_experiment_order(e, NULL, 0));
    else
        say_pair("next", "cadre ab verdict %s", dir);
}

static int finish(const run_opts *o, const lab_experiment *e, const char *file, const char *dir,
                  const lab_run_result *r) {
    char ledger[OPEN_PATH_MAX] = "";
    ab_conclusion c = {0};
    cadre_fail why = {0};
    json_out js = {0};
    cadre_err err = r->stopped || o->no_ledger ? CADRE_OK : ab_ledger_path(o->ledger, ledger, &why);
    say_result(e, o, file, dir, r);
    if (!err && !r->stopped) err = ab_conclude(e, r->samples, *ledger ? ledger : NULL, o->supersedes, &c, &why);
    if (*c.id) say_pair("kept", "as %s in %s", c.id, file_short(ledger));
    if (err) say_failed(&why); /* the samples are there all the same */
    int status = err ? EXIT_COULD_NOT : r->stopped || r->failed ? EXIT_NO : EXIT_FINE;
    if (!o->common.json) return status;
    put_result(&js, e, dir, r, &c, !err && !r->stopped);
    return say_json(&js, status);
}

/* What would be refused behind the last visit is refused before the first. */
static cadre_err check_ledger(const run_opts *o, cadre_fail *why) {
    char ledger[OPEN_PATH_MAX];
    if (!o->supersedes || o->no_ledger || o->repeat) return CADRE_OK;
    cadre_err err = ab_ledger_path(o->ledger, ledger, why);
    return err ? err : lab_ledger_has(ledger, o->supersedes, why);
}

static int run(void) {
    static run_opts o = {.lock = "/tmp/cadre-lab.lock"};
    lab_experiment *e = NULL;
    lab_run_result r;
    const char *file = NULL;
    char dir[OPEN_PATH_MAX], program[OPEN_PATH_MAX];
    cadre_fail why = {0};
    int status;
    if (!opts_read(&ab_run_command, &o, &status)) return status;
    cadre_err err = ab_one_file(&o.files, "ab run", &file, &why);
    if (!err) err = lab_experiment_read(file, &e, &why);
    if (!err) err = name_folder(&o, file, dir, &why);
    if (!err) err = check_ledger(&o, &why);
    if (!err) err = file_program(program, sizeof program, &why);
    if (!err) {
        bool begun = false;
        catch_signals();
        lab_run_setup setup = {.folder = dir,
                               .lock = o.lock,
                               .cadre = program,
                               .wait = o.wait,
                               .resume = o.resume,
                               .stop = &stopped,
                               .watch = {on_visit, &begun}};
        if (!o.repeat) err = lab_run(e, &setup, &r, &why);
        say_progress_end();
        status = err        ? EXIT_COULD_NOT
                 : o.repeat ? ab_repeat(e, &setup, o.repeat, o.common.json)
                            : finish(&o, e, file, dir, &r);
    }
    if (err) status = say_failed(&why);
    lab_experiment_free(e);
    return status;
}

const opts_command ab_run_command = {
    "ab run", "measure the arms of an experiment in turns", NULL, OPTS_TABLE(defs), examples, run};
