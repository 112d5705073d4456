/* lint_print.c: findings for people, for programs, for code scanners and for a pull request's page. */
#include "lint_print.h"
#include "open.h"
#include <string.h>

/* ---- text ---- */

static void print_place(const lint_finding *f) {
    FILE *out = say_stream();
    fprintf(out, "%s", file_short(f->file));
    if (f->line) fprintf(out, ":%d", f->line);
    fprintf(out, ": %s: [%s] ", lint_levels[f->level], f->rule->id);
    if (*f->key) fprintf(out, "key %s: ", f->key);
}

/* The ranges of one file's keys in one line, from finding i on. */
static void print_ranges(const lint *l, int i) {
    const char *file = l->findings[i].file;
    const lint_rule *rule = l->findings[i].rule;
    FILE *out = say_stream();
    fprintf(out, "%s: note: [%s] ", file_short(file), rule->id);
    for (int j = i; j < l->count && l->findings[j].file == file; j++) {
        const lint_finding *f = &l->findings[j];
        if (f->rule != rule) continue;
        fprintf(out, "%s%s %s", j > i ? "; " : "", f->key, f->text);
    }
    fputc('\n', out);
}

static bool is_range(const lint_finding *f) {
    return !strcmp(f->rule->id, "nearest-range");
}

static void print_findings(const lint *l, lint_level least) {
    const char *ranges = NULL; /* the file whose ranges have been told */
    for (int i = 0; i < l->count; i++) {
        const lint_finding *f = &l->findings[i];
        if (f->level < least || (is_range(f) && f->file == ranges)) continue;
        if (is_range(f)) {
            print_ranges(l, i);
            ranges = f->file;
            continue;
        }
        print_place(f);
        fprintf(say_stream(), "%s\n", f->text);
    }
}

/* Each rule that was met: how often, why it hurts, what to do. */
static void print_rules(const lint *l, lint_level least) {
    for (const lint_rule *r = lint_rules; r->id; r++) {
        int n = lint_count(l, r->id, least);
        if (n) say("\n%s (%d): %s\n  why   %s\n  do    %s", r->id, n, r->what, r->why, r->fix);
    }
}

int lint_print_text(const lint *l, lint_level least, int status) {
    int warnings = lint_count(l, NULL, LINT_WARNING), notes = l->count - warnings;
    print_findings(l, least);
    print_rules(l, least);
    say("%s%d table%s%s, %d errors and warnings, %d notes%s", lint_count(l, NULL, least) ? "\n" : "", l->files,
        l->files == 1 ? "" : "s", l->skipped ? " (and files that are no tables of experts)" : "", warnings, notes,
        notes && least > LINT_NOTE ? " (--level note shows them)" : "");
    return status;
}

/* ---- JSON ---- */

static void put_finding(json_out *o, const lint_finding *f) {
    json_open(o, NULL, '{');
    json_put_text(o, "rule", f->rule->id);
    json_put_text(o, "level", lint_levels[f->level]);
    json_put_text(o, "file", file_short(f->file));
    if (f->line)
        json_put_int(o, "line", f->line);
    else
        json_put_null(o, "line");
    json_put_text(o, "key", *f->key ? f->key : NULL);
    json_put_text(o, "found", f->text);
    json_put_text(o, "why", f->rule->why);
    json_put_text(o, "fix", f->rule->fix);
    json_close(o, '}');
}

int lint_print_json(const lint *l, lint_level least, int status) {
    json_out o = {0};
    say_json_open(&o, "table lint");
    json_put_int(&o, "files", l->files);
    json_put_int(&o, "skipped", l->skipped);
    json_open(&o, "findings", '[');
    for (int i = 0; i < l->count; i++)
        if (l->findings[i].level >= least) put_finding(&o, &l->findings[i]);
    json_close(&o, ']');
    json_open(&o, "counts", '{');
    for (const lint_rule *r = lint_rules; r->id; r++) json_put_int(&o, r->id, lint_count(l, r->id, least));
    json_close(&o, '}');
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, status);
}

/* ---- SARIF ---- */

/* A path as the URI of an artifact: what is no plain character of a path is escaped. */
static void uri_of(const char *path, char *uri, size_t size) {
    size_t n = (size_t)snprintf(uri, size, "%s", *path == '/' ? "file://" : "");
    for (; *path && n + 4 < size; path++) {
        unsigned char c = (unsigned char)*path;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain || strchr("/-._~,=", c))
            uri[n++] = (char)c;
        else
            n += (size_t)snprintf(uri + n, size - n, "%%%02X", c);
    }
    uri[n] = 0;
}

static void put_message(json_out *o, const char *key, const char *text) {
    json_open(o, key, '{');
    json_put_text(o, "text", text);
    json_close(o, '}');
}

static void put_rule(json_out *o, const lint_rule *r) {
    json_open(o, NULL, '{');
    json_put_text(o, "id", r->id);
    put_message(o, "shortDescription", r->what);
    put_message(o, "fullDescription", r->why);
    put_message(o, "help", r->fix);
    json_open(o, "defaultConfiguration", '{');
    json_put_text(o, "level", lint_levels[r->level]);
    json_close(o, '}');
    json_close(o, '}');
}

static void put_location(json_out *o, const lint_finding *f) {
    char uri[4096];
    uri_of(file_short(f->file), uri, sizeof uri);
    json_open(o, "locations", '[');
    json_open(o, NULL, '{');
    json_open(o, "physicalLocation", '{');
    json_open(o, "artifactLocation", '{');
    json_put_text(o, "uri", uri);
    json_close(o, '}');
    if (f->line) {
        json_open(o, "region", '{');
        json_put_int(o, "startLine", f->line);
        json_close(o, '}');
    }
    json_close(o, '}');
    json_close(o, '}');
    json_close(o, ']');
}

/* One text: the key, what was found, why it hurts, what to do. */
static void message_of(const lint_finding *f, char *text, size_t size) {
    snprintf(text, size, "%s%s%s%s. Why it hurts: %s. What to do: %s.", *f->key ? "key " : "", f->key,
             *f->key ? ": " : "", f->text, f->rule->why, f->rule->fix);
}

static void put_result(json_out *o, const lint_finding *f) {
    char text[1024];
    message_of(f, text, sizeof text);
    json_open(o, NULL, '{');
    json_put_text(o, "ruleId", f->rule->id);
    json_put_int(o, "ruleIndex", f->rule - lint_rules);
    json_put_text(o, "level", lint_levels[f->level]);
    put_message(o, "message", text);
    put_location(o, f);
    json_close(o, '}');
}

int lint_print_sarif(const lint *l, lint_level least, int status) {
    json_out o = {0};
    json_open(&o, NULL, '{');
    json_put_text(&o, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    json_put_text(&o, "version", "2.1.0");
    json_open(&o, "runs", '[');
    json_open(&o, NULL, '{');
    json_open(&o, "tool", '{');
    json_open(&o, "driver", '{');
    json_put_text(&o, "name", "cadre table lint");
    json_put_text(&o, "version", cadre_version());
    json_open(&o, "rules", '[');
    for (const lint_rule *r = lint_rules; r->id; r++) put_rule(&o, r);
    json_close(&o, ']');
    json_close(&o, '}');
    json_close(&o, '}');
    json_open(&o, "results", '[');
    for (int i = 0; i < l->count; i++)
        if (l->findings[i].level >= least) put_result(&o, &l->findings[i]);
    json_close(&o, ']');
    json_close(&o, '}');
    json_close(&o, ']');
    json_close(&o, '}');
    return say_json(&o, status);
}

/* ---- GitHub ---- */

/* `also`: characters that properties escape beside those of messages. */
static void print_escaped(const char *text, const char *also) {
    for (; *text; text++) {
        if (strchr("%\r\n", *text) || strchr(also, *text))
            printf("%%%02X", (unsigned char)*text);
        else
            putchar(*text);
    }
}

int lint_print_github(const lint *l, lint_level least, int status) {
    static const char *const commands[LINT_LEVELS] = {"notice", "warning", "error"};
    for (int i = 0; i < l->count; i++) {
        const lint_finding *f = &l->findings[i];
        char text[1024];
        if (f->level < least) continue;
        printf("::%s file=", commands[f->level]);
        print_escaped(file_short(f->file), ":,");
        printf(",line=%d,title=%s::", f->line ? f->line : 1, f->rule->id);
        message_of(f, text, sizeof text);
        print_escaped(text, "");
        putchar('\n');
    }
    return status;
}
