/* ab_conclude.c: from the samples of a run to its outcome and its entry in the ledger; and small things that the
 * commands of the lab share. */
#include "ab.h"
#include <math.h>
#include <string.h>

cadre_err ab_one_file(const opts_rest *files, const char *command, const char **path, cadre_fail *why) {
    if (files->count != 1)
        return cadre_fail_set(why, CADRE_RANGE, "%s needs one FILE (cadre %s --help)", command, command);
    *path = files->items[0];
    return CADRE_OK;
}

cadre_err ab_ledger_path(const char *told, char path[OPEN_PATH_MAX], cadre_fail *why) {
    if (told) {
        snprintf(path, OPEN_PATH_MAX, "%s", told);
        return CADRE_OK;
    }
    if (opts_state_path("cadre/ledger.jsonl", path, OPEN_PATH_MAX)) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "no HOME for the ledger; name one by --ledger, or say --no-ledger");
}

void ab_sampling(const json *protocol, char text[100]) {
    const json *inner = json_get(protocol, "sampling"), *t = json_get(protocol, "temperature");
    const json *seed = json_get(protocol, "seed");
    char a[40] = "", b[40] = "";
    if (!t) t = json_get(inner, "temperature");
    if (!seed) seed = json_get(inner, "seed");
    if (t) json_describe(t, a, sizeof a);
    if (seed) json_describe(seed, b, sizeof b);
    snprintf(text, 100, "%s%s%s%s", t ? "temperature " : "", a, seed ? t ? ", seed " : "seed " : "", b);
    if (!t && !seed) snprintf(text, 100, "not told");
}

void ab_say_experiment(const lab_experiment *e) {
    char sampling[100];
    ab_sampling(e->protocol, sampling);
    say_pair("experiment", "%s%s%s", e->name, e->asks ? ": " : "", e->asks ? e->asks : "");
    say_pair("metric", "%s%s", e->question.metric,
             !e->question.better_told          ? ""
             : e->question.better == LAB_LOWER ? ", lower is better"
                                               : ", higher is better");
    say_pair("read as", "%s%s%s", e->program ? e->program : "the experiment says", e->output ? ", from " : "",
             e->output ? e->output : "");
    say_pair("sampling", "%s%s", sampling, e->protocol ? "" : "; the outcome tells it if the program does");
}

cadre_err ab_keep(const lab_experiment *e, const lab_verdict *v, const char *samples, const char *ledger,
                  const char *supersedes, char id[16], cadre_fail *why) {
    const lab_contrast *only = v->arm_count == 2 && v->outcome != LAB_REFUSED ? v->contrasts : NULL;
    char text[4000] = "";
    for (int i = 0; i + 1 < v->arm_count && strlen(text) + 700 < sizeof text; i++) {
        size_t n = strlen(text);
        if (n) text[n++] = ' ';
        lab_verdict_say(v, i, text + n, 600);
    }
    return lab_ledger_add(ledger,
                          &(lab_entry){
                              .name = e ? e->name : v->metric,
                              .asks = e ? e->asks : NULL,
                              .outcome = lab_outcome_name(v->outcome),
                              .text = text,
                              .experiment_sha256 = e ? e->sha256 : NULL,
                              .samples = samples,
                              .supersedes = supersedes,
                              .ratio = only ? only->ratio : NAN,
                              .interval = {only ? only->interval[0] : NAN, only ? only->interval[1] : NAN},
                          },
                          id, why);
}

/* As it ran, whatever the experiment says: what the first sample's program told, or its protocol. */
static void say_sampling(const lab_samples *s) {
    char text[100];
    const lab_sample *first = lab_samples_count(s) ? lab_samples_at(s, 0) : NULL;
    if (!first) return;
    ab_sampling(json_get(first->manifest, "protocol"), text);
    say_pair("sampling", "%s", text);
}

/* Whoever else was at work: the mean over visits of the CPUs that others kept busy. */
static void say_others(const lab_samples *s) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < lab_samples_count(s); i++) {
        const lab_sample *x = lab_samples_at(s, i);
        const json *busy = json_get(json_get(x->manifest, "visit"), "others_cpus");
        if (x->iteration > 1 || !busy || busy->kind != JSON_NUMBER) continue;
        sum += busy->number;
        n++;
    }
    if (n && sum / n > 0.25)
        say_note("others kept %.1f CPUs busy while it ran; that is noise which a quiet machine does not have", sum / n);
}

cadre_err ab_conclude(const lab_experiment *e, const char *samples, const char *ledger, const char *supersedes,
                      ab_conclusion *out, cadre_fail *why) {
    lab_samples *s = NULL;
    lab_verdict *v = NULL;
    char text[600];
    *out = (ab_conclusion){0};
    cadre_err err = lab_samples_read(samples, &s, why);
    if (!err) say_sampling(s);
    if (!err) say_others(s);
    if (!err) err = lab_verdict_new(s, &e->question, &v, why);
    for (int i = 0; !err && i < v->arm_count - 1; i++) {
        lab_verdict_say(v, i, text, sizeof text);
        say_pair(i ? "" : "outcome", "%s", text);
        if (*v->contrasts[i].why) say_pair("", "%s", v->contrasts[i].why);
        lab_conversion came;
        if (!lab_conversion_of(e, v, i, &came)) continue;
        lab_conversion_say(&came, text, sizeof text);
        if (*text) say_pair("", "%s", text);
    }
    if (!err) out->outcome = v->outcome;
    if (!err && ledger) err = ab_keep(e, v, samples, ledger, supersedes, out->id, why);
    lab_verdict_free(v);
    lab_samples_free(s);
    return err;
}

cadre_err ab_judge(const lab_experiment *e, const char *samples, ab_outcome *out, cadre_fail *why) {
    lab_samples *s = NULL;
    lab_verdict *v = NULL;
    cadre_err err = lab_samples_read(samples, &s, why);
    if (!err) err = lab_verdict_new(s, &e->question, &v, why);
    if (!err) {
        const lab_contrast *c = v->contrasts;
        *out = (ab_outcome){v->outcome, NAN, {NAN, NAN}};
        if (c->outcome != LAB_REFUSED) *out = (ab_outcome){v->outcome, c->ratio, {c->interval[0], c->interval[1]}};
    }
    lab_verdict_free(v);
    lab_samples_free(s);
    return err;
}
