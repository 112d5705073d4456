/* run.c: the visits of an experiment, one after the other, each a fresh process; the machine's lock around them. What a
 * run has written is whole at any moment: samples are appended a visit at a time, and --resume goes on behind them.
 *
 *   FOLDER/experiment.json     the copy of the file
 *          samples.jsonl       appended, never rewritten
 *          visits/0007-name/   stdout, stderr and what the command wrote to {dir}
 */
#include "run.h"
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool stops(const run *r) {
    return r->setup->stop && *r->setup->stop;
}

/* ---- before the first visit ---- */

static cadre_err take_lock(run *r) {
    char who[200], date[24];
    if (!r->e->exclusive || !r->setup->lock) return CADRE_OK;
    clock_date(date);
    snprintf(who, sizeof who, "'%.100s' (process %ld, since %s)\n", r->e->name, (long)getpid(), date);
    return file_lock(r->setup->lock, who, r->setup->wait, &r->lock, r->why);
}

static cadre_err plan_order(run *r) {
    r->total = lab_experiment_order(r->e, NULL, 0);
    r->order = mem_new_array((size_t)r->total, sizeof *r->order);
    if (!r->order) return cadre_fail_set(r->why, CADRE_NOMEM, "out of memory for %d visits", r->total);
    lab_experiment_order(r->e, r->order, r->total);
    return CADRE_OK;
}

/* ---- the visits ---- */

static void pause_between(const run *r) {
    uint64_t begin = clock_ns();
    while (!stops(r)) {
        double left = r->e->pause_s - (double)(clock_ns() - begin) / 1e9;
        if (left <= 0) return;
        poll(NULL, 0, left > 1 ? 1000 : (int)(left * 1e3) + 1);
    }
}

static void tell(const run *r, int order, int arm, const char *state, double value) {
    const lab_run_watch *w = &r->setup->watch;
    if (w->visit) w->visit(w->ctx, r->e, order, r->total, arm, state, value);
}

static cadre_err visits(run *r) {
    cadre_err err = CADRE_OK;
    for (int i = r->done; i < r->total && !err && !r->result->stopped; i++) {
        run_turn t = {.order = i + 1, .arm = r->order[i], .anchor = i == r->total - 1, .value = NAN};
        if (i > r->done) pause_between(r);
        if ((r->result->stopped = stops(r))) break;
        t.visit = ++r->visits[t.arm];
        t.warmup = t.visit <= r->e->warmup;
        tell(r, t.order, t.arm, "start", NAN);
        err = run_visit(r, &t);
        if (!err && !r->result->stopped) tell(r, t.order, t.arm, t.state, t.value);
    }
    return err;
}

/* What an arm is must be the same behind the last visit as before the first: tables and programs can be rebuilt while a
 * run goes on. */
static cadre_err check_unchanged(run *r) {
    for (int i = 0; i < r->e->arm_count; i++) {
        json_doc *now = NULL;
        cadre_err err = lab_manifest(r->e, i, r->setup->cadre, &now, r->why);
        int n = err ? 0 : lab_manifest_diff(json_root(r->manifests[i]), json_root(now), NULL, NULL);
        json_free(now);
        if (err) return err;
        if (n)
            return cadre_fail_set(
                r->why, CADRE_RANGE,
                "the program or a file of arm %.60s changed while the run went on; its samples do not "
                "belong together",
                r->e->arms[i].name);
    }
    return CADRE_OK;
}

static void done(run *r) {
    for (int i = 0; i < r->e->arm_count; i++) json_free(r->manifests[i]);
    mem_free(r->order);
    if (r->lock >= 0) file_close(r->lock);
}

cadre_err lab_run(const lab_experiment *e, const lab_run_setup *setup, lab_run_result *out, cadre_fail *why) {
    lab_run_result result = {0};
    run r = {.e = e, .setup = setup, .result = &result, .lock = -1, .why = why};
    cadre_err err = lab_manifests(e, setup->cadre, r.manifests, why);
    if (!err) err = plan_order(&r);
    if (!err) err = take_lock(&r);
    if (!err) err = run_open(&r);
    if (!err) err = visits(&r);
    if (!err && !result.stopped) err = check_unchanged(&r);
    if (!err) *out = result;
    done(&r);
    return err;
}
