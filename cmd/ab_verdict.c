/* ab_verdict.c: `cadre ab verdict`: gates, then the difference, then what it is worth. */
#include "ab.h"
#include "ab_ask.h"
#include "commands.h"
#include "say.h"
#include <math.h>
#include <string.h>

typedef struct verdict_opts {
    ask_opts ask;
    const char *ledger, *supersedes;
} verdict_opts;

static const opts_def defs[] = {
    ASK_FILE(verdict_opts),
    OPTS_ROW(verdict_opts, 0, "--ledger", OPTS_TEXT, "FILE", ledger, 0, 0, "add what came out to this ledger"),
    OPTS_ROW(verdict_opts, 0, "--supersedes", OPTS_TEXT, "ID", supersedes, 0, 0,
             "the entry of the ledger that this one replaces"),
    ASK_ROWS(verdict_opts),
};

static const char notes[] =
    "Arms are compared only when every gate holds: the same outputs, token counts and acceptance, activation shown, "
    "one\n"
    "protocol, interleaved visits, no drift. Else the verdict is refused, and tables show why.\n"
    "\n"
    "verdict       win, loss, within_noise, underpowered, refused\n"
    "exit status   0: win or within_noise. 1: loss, underpowered or refused. 2: could not be read\n";

static const char *const examples[] = {
    "cadre ab verdict docs/samples/decode-ab.jsonl",
    "a decode experiment with two visits per arm",
    "cadre ab verdict samples.jsonl --metric tpot_ms --effect 0.02 --json",
    "a difference below 2 % does not matter; for a script",
    NULL,
};

static void say_contrast(const lab_verdict *v, const lab_experiment *e, int i) {
    const lab_contrast *c = &v->contrasts[i];
    char sentence[600];
    lab_verdict_say(v, i, sentence, sizeof sentence);
    say("%s", sentence);
    if (*c->why) say("  %s", c->why);
    if (c->outcome == LAB_REFUSED) return;
    say("  ratio %.6g (%.6g to %.6g; %s), p %.3g (its floor is %.3g), separation %.6g, noise %.3g %%", c->ratio,
        c->interval[0], c->interval[1], c->estimator, c->p, c->p_floor, c->separation, c->noise * 100);
    lab_conversion came;
    if (!lab_conversion_of(e, v, i, &came)) return;
    lab_conversion_say(&came, sentence, sizeof sentence);
    if (*sentence)
        say("  %s%s", sentence, came.before_run ? "" : "; nothing shows that this is older than the samples");
}

static void say_verdict(const lab_verdict *v, const lab_experiment *e) {
    char untold[300] = "";
    for (int i = 0; i + 1 < v->arm_count; i++) say_contrast(v, e, i);
    if (v->arm_count < 2) say("only one arm: nothing to compare");
    for (int i = 0; i < v->gate_count; i++) {
        const lab_gate *g = &v->gates[i];
        size_t n = strlen(untold);
        if (g->ok && !strcmp(g->name, "floor")) say("floor: %s", g->why);
        if (!g->ok) say("gate %s FAILED: %s", g->name, g->why);
        if (g->ok && !g->told) snprintf(untold + n, sizeof untold - n, "%s%s", n ? ", " : "", g->name);
    }
    char *evidence = NULL;
    if (v->outcome == LAB_REFUSED && !lab_verdict_evidence(v, &evidence, NULL) && evidence && *evidence)
        say("%s", evidence);
    mem_free(evidence);
    if (*untold) say("gates that the samples tell nothing of: %s", untold);
}

static int print(const verdict_opts *o, const lab_verdict *v, const lab_experiment *e, const char *id) {
    json_out out = {0};
    say_verdict(v, e);
    if (id) say("ledger %s: %s", o->ledger, id);
    if (!o->ask.common.json) return ask_status(v);
    say_json_open(&out, "ab verdict");
    json_put_text(&out, "samples", o->ask.samples.items[0]);
    lab_verdict_json(v, e, &out);
    json_put_text(&out, "ledger_id", id);
    json_close(&out, '}');
    return say_json(&out, ask_status(v));
}

static int run(void) {
    static verdict_opts o = {.ask = ASK_DEFAULTS};
    cadre_fail why = {0};
    lab_verdict *v = NULL;
    char id[16] = "";
    asked a;
    int status;
    if (!opts_read(&ab_verdict_command, &o, &status)) return status;
    say_to_stderr(o.ask.common.json);
    if (o.supersedes && !o.ledger) return say_failed(&(cadre_fail){CADRE_RANGE, "--supersedes needs --ledger"});
    if (ask_open(&o.ask, "ab verdict", &a, &why)) return say_failed(&why);
    cadre_err err = lab_verdict_new(a.samples, &a.question, &v, &why);
    if (!err && o.ledger) err = ab_keep(a.experiment, v, a.path, o.ledger, o.supersedes, id, &why);
    status = err ? say_failed(&why) : print(&o, v, a.experiment, *id ? id : NULL);
    lab_verdict_free(v);
    ask_close(&a);
    return status;
}

const opts_command ab_verdict_command = {
    "ab verdict", "say what a file of samples shows", notes, OPTS_TABLE(defs), examples, run};
