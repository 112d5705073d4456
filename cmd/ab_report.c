/* ab_report.c: `cadre ab report`: the whole report of a file of samples, as text, Markdown, JSON or one HTML file. */
#include "ab_ask.h"
#include "commands.h"
#include "say.h"
#include <math.h>
#include <string.h>

enum { PROFILE_LIMIT = 1 << 26, PROFILE_MOST = 200 };

typedef struct report_opts {
    ask_opts ask;
    const char *format, *file, *title, *asks, *factors, *none, *profile;
} report_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(report_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    ASK_FILE(report_opts),
    O(0, "--format", OPTS_WORD, "text|md|json|html", format, 0, 0, "default: by the name of FILE, else text"),
    O('o', "--output", OPTS_TEXT, "FILE", file, 0, 0, "write there (default: standard output)"),
    O(0, "--title", OPTS_TEXT, "TEXT", title, 0, 0, "of the page (default: the experiment's name)"),
    O(0, "--asks", OPTS_TEXT, "TEXT", asks, 0, 0, "the question in words (default: the experiment's)"),
    O(0, "--factors", OPTS_TEXT, "A,B,...", factors, 0, 0, "report a stack of these factors too"),
    O(0, "--none", OPTS_TEXT, "ARM", none, 0, 0, "its arm without any factor (default: none, off, base)"),
    O(0, "--profile", OPTS_TEXT, "FILE", profile, 0, 0, "where a step's time goes: the JSON of cadre bench --profile"),
    ASK_ROWS(report_opts),
};
#undef O

static const char notes[] =
    "Every figure is computed from the samples; the last lines of a report are the command that makes it again.\n"
    "\n"
    "exit status   0: win or within_noise. 1: loss, underpowered or refused. 2: could not be read or written\n";

static const char *const examples[] = {
    "cadre ab report docs/samples/decode-ab.jsonl",
    "text, to paste in a review",
    "cadre ab report samples.jsonl --experiment exp.json -o report.html",
    "one HTML file with its plots, nothing loaded from elsewhere",
    NULL,
};

/* ---- the profile ---- */

typedef struct profile {
    json_doc *doc;
    lab_profile_row rows[PROFILE_MOST];
    int count;
} profile;

static cadre_err read_row(const json_doc *doc, const json *v, lab_profile_row *row, cadre_fail *why) {
    cadre_err err = json_text(doc, v, "op", NULL, &row->op, why);
    if (!err) err = json_text(doc, v, "kernel", NULL, &row->kernel, why);
    if (!err) err = json_real(doc, v, "launches", NAN, 0, 1e12, &row->launches, why);
    if (!err) err = json_real(doc, v, "us", NAN, 0, 1e12, &row->us, why);
    if (!err) err = json_real(doc, v, "share", NAN, 0, 1e6, &row->share, why);
    return err ? err : json_real(doc, v, "floor_us", NAN, 0, 1e12, &row->floor_us, why);
}

static cadre_err read_profile(const char *path, profile *p, cadre_fail *why) {
    cadre_err err = json_read_file(path, PROFILE_LIMIT, &p->doc, why);
    if (err) return err;
    const json *rows = json_get(json_root(p->doc), "profile");
    if (!rows || rows->kind != JSON_ARRAY)
        return json_fail(p->doc, json_root(p->doc), why, "has no list .profile (cadre bench --profile --json)");
    for (const json *v = rows->child; v && !err; v = v->next) {
        if (p->count == PROFILE_MOST)
            return json_fail(p->doc, v, why, "is one row too many, expected at most %d", PROFILE_MOST);
        err = read_row(p->doc, v, &p->rows[p->count++], why);
    }
    return err;
}

/* ---- the report ---- */

static lab_format format_of(const report_opts *o) {
    static const char *const names[] = {"text", "md", "json", "html"}, *const ends[] = {".txt", ".md", ".json",
                                                                                        ".html"};
    for (int i = 0; i < 4; i++)
        if (o->format && !strcmp(o->format, names[i])) return (lab_format)i;
    if (o->ask.common.json) return LAB_JSON;
    for (int i = 0; i < 4; i++) {
        size_t n = o->file ? strlen(o->file) : 0, k = strlen(ends[i]);
        if (n > k && !strcmp(o->file + n - k, ends[i])) return (lab_format)i;
    }
    return LAB_TEXT;
}

static int print(const report_opts *o, const lab_report *r) {
    cadre_fail why = {0};
    char *text, sentence[600];
    size_t len;
    cadre_err err = lab_report_write(r, format_of(o), &text, &len, &why);
    if (err) return say_failed(&why);
    if (!o->file)
        fwrite(text, 1, len, stdout);
    else
        err = file_write(o->file, text, len, &why);
    mem_free(text);
    if (err) return say_failed(&why);
    for (int i = 0; o->file && i + 1 < r->verdict->arm_count; i++) {
        lab_verdict_say(r->verdict, i, sentence, sizeof sentence);
        say("%s", sentence);
    }
    if (o->file) say("wrote %s", o->file);
    return ask_status(r->verdict);
}

static cadre_err compute(const report_opts *o, const asked *a, lab_stack **stack, lab_verdict **v, cadre_fail *why) {
    static ask_design design;
    bool stacked = o->factors || o->none || ask_has_factors(a);
    cadre_err err = stacked ? ask_factors(a, o->factors, o->none, &design, why) : CADRE_OK;
    if (!err && stacked) return ask_stack(a, &design, stack, why);
    return err ? err : lab_verdict_new(a->samples, &a->question, v, why);
}

static int run(void) {
    static report_opts o = {.ask = ASK_DEFAULTS};
    static profile p;
    cadre_fail why = {0};
    lab_verdict *v = NULL;
    lab_stack *stack = NULL;
    asked a;
    int status;
    if (!opts_read(&ab_report_command, &o, &status)) return status;
    say_to_stderr(!o.file || o.ask.common.json);
    if (ask_open(&o.ask, "ab report", &a, &why)) return say_failed(&why);
    cadre_err err = o.profile ? read_profile(o.profile, &p, &why) : CADRE_OK;
    if (!err) err = compute(&o, &a, &stack, &v, &why);
    lab_report r = {.title = o.title,
                    .asks = o.asks,
                    .command = opts_line(),
                    .verdict = stack ? stack->verdict : v,
                    .stack = stack,
                    .experiment = a.experiment,
                    .profile = p.rows,
                    .profile_count = p.count};
    status = err ? say_failed(&why) : print(&o, &r);
    lab_verdict_free(v);
    lab_stack_free(stack);
    json_free(p.doc);
    ask_close(&a);
    return status;
}

const opts_command ab_report_command = {
    "ab report", "report samples as text, Markdown, JSON or HTML", notes, OPTS_TABLE(defs), examples, run};
