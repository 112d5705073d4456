/* claims.c: `cadre claims`: does a report follow from its own figures, or from its samples? */
#include "commands.h"
#include "lab/lab.h"
#include "say.h"
#include <math.h>
#include <string.h>

enum { TEXT_LIMIT = 64 << 20 };

typedef struct claims_opts {
    opts_common common;
    opts_rest files;
    const char *samples;
    bool all;
} claims_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(claims_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "FILE", OPTS_REST, NULL, files, 0, 0, "a report: Markdown or plain text, - is standard input"),
    O(0, "--samples", OPTS_TEXT, "FILE", samples, 0, 0, "raw samples: figures of their arms are recomputed from them"),
    O(0, "--all", OPTS_FLAG, NULL, all, 0, 0, "print what follows, too"),
    {0, "--set", OPTS_SET, "NAME=VALUE", 0, 0, 0, "set a switch; may be repeated (cadre doctor --switches)", NULL},
    O(0, "--json", OPTS_FLAG, NULL, common.json, 0, 0, "one JSON object on stdout, text on stderr"),
    {'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL},
};
#undef O

static const char *const examples[] = {
    "cadre claims report.md",
    "figures that the others contradict",
    "cadre claims report.md --samples samples.jsonl",
    "and those that the samples contradict",
    "gh pr view 42 | cadre claims -",
    "the text of a pull request",
    NULL,
};
static const char notes[] =
    "A figure is checked when the text states how it hangs together with others: \"from 12.0 to 9.0 ms (-25 %)\", a "
    "column\n"
    "named mean, sd, total or delta, \"2.1x faster\", \"189 + 192 = 381\", \"10 seeds x 3 sizes\". It follows when "
    "some\n"
    "values that are printed like the others give one that is printed like it. Exit status 1: a figure does not "
    "follow.\n"
    "Notes are for the reader: two figures that are one measurement, arms that differ by more than is said.\n";

typedef struct tally {
    int checked, wrong, notes;
} tally;

static tally count(const lab_claims *c) {
    tally n = {0};
    for (int i = 0; i < lab_claims_count(c); i++) {
        const lab_claim *x = lab_claims_at(c, i);
        n.notes += x->note;
        n.checked += !x->note;
        n.wrong += !x->ok;
    }
    return n;
}

static void put_claim(json_out *o, const lab_claim *c) {
    json_open(o, NULL, '{');
    json_put_int(o, "line", c->line);
    json_put_text(o, "text", c->text);
    json_put_text(o, "rule", c->rule);
    json_put_real(o, "stated", c->stated);
    json_put_real(o, "recomputed", c->recomputed);
    json_put_bool(o, "ok", c->ok);
    json_put_bool(o, "note", c->note);
    json_put_text(o, "why", c->why);
    json_close(o, '}');
}

static int print_json(const char *path, const char *samples, const lab_claims *c, tally n, int status) {
    json_out o = {0};
    say_json_open(&o, "claims");
    json_put_text(&o, "file", path);
    json_put_text(&o, "samples", samples);
    json_put_int(&o, "checked", n.checked);
    json_put_int(&o, "wrong", n.wrong);
    json_put_int(&o, "notes", n.notes);
    json_put_int(&o, "unchecked", lab_claims_unchecked(c));
    json_open(&o, "claims", '[');
    for (int i = 0; i < lab_claims_count(c); i++) put_claim(&o, lab_claims_at(c, i));
    json_close(&o, ']');
    json_close(&o, '}');
    return say_json(&o, status);
}

static void print_text(const char *path, const lab_claims *c, tally n, bool all) {
    for (int i = 0; i < lab_claims_count(c); i++) {
        const lab_claim *x = lab_claims_at(c, i);
        if (x->ok && !x->note && !all) continue;
        const char *what = !x->ok ? "wrong" : x->note ? "note" : "follows";
        if (isnan(x->stated))
            say("%s:%d: %s: [%s] %s", path, x->line, what, x->rule, x->why);
        else
            say("%s:%d: %s: [%s] %.10g: %s", path, x->line, what, x->rule, x->stated, x->why);
        say("  in    %s", x->text);
    }
    say("%d figures checked, %d wrong, %d notes; %d that nothing in the text determines", n.checked, n.wrong, n.notes,
        lab_claims_unchecked(c));
}

static cadre_err check(const claims_opts *o, const char *path, lab_claims **out, cadre_fail *why) {
    lab_samples *samples = NULL;
    char *text = NULL;
    size_t len = 0;
    cadre_fail found = {0};
    cadre_err err = strcmp(path, "-") ? file_read(path, TEXT_LIMIT, &text, &len, why)
                                      : file_read_stdin(TEXT_LIMIT, &text, &len, why);
    if (!err && o->samples) err = lab_samples_read(o->samples, &samples, why);
    if (!err) {
        err = lab_claims_new(text, len, samples, out, &found);
        if (err) cadre_fail_set(why, err, "%.300s: %.180s", path, found.text);
    }
    lab_samples_free(samples);
    mem_free(text);
    return err;
}

static int run(void) {
    static claims_opts o;
    lab_claims *c = NULL;
    cadre_fail why = {0};
    int status;
    if (!opts_read(&claims_command, &o, &status)) return status;
    say_to_stderr(o.common.json);
    if (o.files.count != 1) return say_failed(&(cadre_fail){CADRE_RANGE, "claims needs one FILE"});
    const char *path = o.files.items[0];
    if (check(&o, path, &c, &why)) return say_failed(&why);
    tally n = count(c);
    status = n.wrong ? EXIT_NO : EXIT_FINE;
    if (o.common.json)
        status = print_json(path, o.samples, c, n, status);
    else
        print_text(path, c, n, o.all);
    lab_claims_free(c);
    return status;
}

const opts_command claims_command = {
    "claims", "does a report follow from its own figures?", notes, OPTS_TABLE(defs), examples, run};
