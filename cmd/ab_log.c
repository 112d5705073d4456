/* ab_log.c: `cadre ab log`: what was tried, and what came of it; what failed too. */
#include "ab.h"
#include "commands.h"
#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct log_opts {
    opts_common common;
    opts_rest texts;
    const char *ledger;
    bool check;
} log_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(log_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "TEXT...", OPTS_REST, NULL, texts, 0, 0, "only entries that hold all of these, in any case"),
    O(0, "--check", OPTS_FLAG, NULL, check, 0, 0, "hash the samples again: exit 1 if any changed or is gone"),
    O(0, "--ledger", OPTS_TEXT, "FILE", ledger, 0, 0, "the ledger (default: cadre/ledger.jsonl of your state)"),
    AB_EVERYWHERE(log_opts),
};
#undef O

static const char *const examples[] = {
    "cadre ab log",
    "every experiment, the oldest first",
    "cadre ab log tpot avx512",
    "those that speak of both",
    "cadre ab log --check",
    "are the samples behind the outcomes still what was measured?",
    NULL,
};

static const char *const kept_names[] = {"as measured", "changed", "gone"};

static bool holds(const char *text, const char *part) {
    return text && strcasestr(text, part);
}

static bool matches(const lab_entry *e, const opts_rest *texts) {
    for (int i = 0; i < texts->count; i++) {
        const char *t = texts->items[i];
        if (!holds(e->id, t) && !holds(e->date, t) && !holds(e->name, t) && !holds(e->asks, t) &&
            !holds(e->outcome, t) && !holds(e->text, t) && !holds(e->samples, t))
            return false;
    }
    return true;
}

static void put_entry(json_out *o, const lab_entry *e, const lab_entry *later, int kept) {
    json_open(o, NULL, '{');
    lab_entry_json(e, o);
    json_put_text(o, "superseded_by", later ? later->id : NULL);
    json_put_text(o, "samples_are", kept < 0 ? NULL : kept_names[kept]);
    json_close(o, '}');
}

static void say_entry(const lab_entry *e, const lab_entry *later, int kept) {
    say("%s  %.10s  %s: %s%s%s", e->id, e->date ? e->date : "-", e->name, e->outcome, later ? ", superseded by " : "",
        later ? later->id : "");
    if (e->asks) say("          asked: %s", e->asks);
    if (e->text) say("          found: %s", e->text);
    if (e->samples)
        say("          samples: %s%s%s", e->samples, kept < 0 ? "" : ": ", kept < 0 ? "" : kept_names[kept]);
    if (e->supersedes) say("          supersedes %s", e->supersedes);
}

static int show(const log_opts *o, const lab_ledger *l, json_out *js) {
    int shown = 0, bad = 0;
    json_open(js, "entries", '[');
    for (int i = 0; i < lab_ledger_count(l); i++) {
        const lab_entry *e = lab_ledger_at(l, i), *later = lab_ledger_superseder(l, i);
        if (!matches(e, &o->texts)) continue;
        int kept = o->check ? (int)lab_ledger_check(e) : -1;
        bad += kept > 0;
        shown++;
        say_entry(e, later, kept);
        put_entry(js, e, later, kept);
    }
    json_close(js, ']');
    if (!shown) say(o->texts.count ? "no entry holds that" : "the ledger is empty");
    json_put_int(js, "count", shown);
    return bad ? EXIT_NO : EXIT_FINE;
}

static int run(void) {
    static log_opts o;
    char path[OPEN_PATH_MAX];
    lab_ledger *l = NULL;
    json_out js = {0};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&ab_log_command, &o, &status)) return status;
    cadre_err err = ab_ledger_path(o.ledger, path, &why);
    if (!err && o.ledger && !file_exists(path)) err = cadre_fail_set(&why, CADRE_IO, "%.300s: no such file", path);
    if (!err) err = lab_ledger_read(path, &l, &why);
    if (err) return say_failed(&why);
    say_json_open(&js, "ab log");
    json_put_text(&js, "ledger", path);
    status = show(&o, l, &js);
    json_close(&js, '}');
    lab_ledger_free(l);
    if (o.common.json) return say_json(&js, status);
    json_out_free(&js);
    return status;
}

const opts_command ab_log_command = {
    "ab log", "list the experiments that were made, negatives too", NULL, OPTS_TABLE(defs), examples, run};
