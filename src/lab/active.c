/* active.c: was what the arm is about at work? Patterns that must and must not be seen, and counters with their ranges.
 * Receipts are searched as lines too, "op=experts kernel=... source=user runs=40", so that one pattern can ask for the
 * row and for its being used. An arm that is refuted is no arm: its figures say nothing about what it is named after.
 */
#include "reading.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- receipts as lines ---- */

typedef struct growing {
    char *text;
    size_t len, cap;
    bool failed;
} growing;

static void add(growing *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(growing *g, const char *format, ...) {
    char piece[1200];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1;
    if (g->len + len + 1 > g->cap) {
        size_t cap = 2 * g->cap + len + 1024;
        char *grown = mem_resize(g->text, g->cap, cap);
        if (!grown) {
            g->failed = true;
            return;
        }
        g->text = grown;
        g->cap = cap;
    }
    memcpy(g->text + g->len, piece, len + 1);
    g->len += len;
}

static void put_receipt(void *ctx, const json *v) {
    growing *g = ctx;
    for (const json *c = v->kind == JSON_OBJECT ? v->child : NULL; c; c = c->next) {
        char text[64];
        if (c->kind != JSON_TEXT) json_describe(c, text, sizeof text);
        add(g, "%s%s=%s", c == v->child ? "" : " ", c->key, c->kind == JSON_TEXT ? c->text : text);
    }
    add(g, "\n");
}

/* ---- expectations ---- */

typedef struct search {
    const lab_output *output;
    growing receipts;
    const char *where; /* the text that the pattern was seen in */
} search;

static cadre_err seen(search *s, const char *pattern, bool *found, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    *found = false;
    for (int i = 0; i < s->output->count && !err && !*found; i++) {
        const lab_text *t = &s->output->texts[i];
        s->where = t->name;
        err = lab_pattern_in(pattern, t->text, t->len, found, why);
    }
    if (!err && !*found && s->receipts.text) {
        s->where = "receipts";
        err = lab_pattern_in(pattern, s->receipts.text, s->receipts.len, found, why);
    }
    return err;
}

static cadre_err patterns(search *s, const char *const *list, bool wanted, lab_reading *r, cadre_fail *why) {
    bool found = wanted;
    cadre_err err = CADRE_OK;
    for (; list && *list && !*r->why && !err; list++) {
        err = seen(s, *list, &found, why);
        bool blind = !wanted && !found && *s->output->unread;
        if (err || (found == wanted && !blind)) continue;
        if (blind)
            snprintf(r->why, sizeof r->why, "must_not '%.60s': not told: %s could not be searched (over 64 MiB?)",
                     *list, s->output->unread);
        else if (wanted)
            snprintf(r->why, sizeof r->why, "must '%.100s': not seen in stdout, stderr, %d other files and receipts",
                     *list, s->output->count - 2);
        else
            snprintf(r->why, sizeof r->why, "must_not '%.100s': seen in %s", *list, s->where);
    }
    return err;
}

static void range_text(const lab_counter *c, char text[60]) {
    if (isinf(c->high))
        snprintf(text, 60, "at least %.9g", c->low);
    else if (isinf(c->low))
        snprintf(text, 60, "at most %.9g", c->high);
    else
        snprintf(text, 60, "%.9g to %.9g", c->low, c->high);
}

static cadre_err counter(const lab_output *o, const lab_counter *c, lab_reading *r, cadre_fail *why) {
    char where[1024], range[60];
    double v = NAN;
    snprintf(where, sizeof where, "%s%s", c->reader == LAB_READ_PATTERN ? "/" : "", c->where);
    cadre_err err = lab_reading_sum(o, where, &v, why);
    range_text(c, range);
    if (err || (v >= c->low && v <= c->high)) return err;
    if (isnan(v))
        snprintf(r->why, sizeof r->why, "counter %.50s: no number at %.80s, expected %s", c->name, c->where, range);
    else
        snprintf(r->why, sizeof r->why, "counter %.60s is %.9g, expected %s", c->name, v, range);
    return CADRE_OK;
}

/* A program that tells its switches proves by that what it was set to: nothing else is in force, and what is has the
 * value that was asked for. (One set to its default is not told.) */
static bool was_set(const lab_arm *arm, const json *told) {
    size_t n = strcspn(told->text, "=");
    for (const char *const *s = arm->set; s && *s; s++)
        if (!strncmp(*s, told->text, n) && (*s)[n] == '=')
            return !strchr("0123456789", (*s)[n + 1]) || !strcmp(*s, told->text); /* words are told as numbers */
    return false;
}

static void check_switches(const lab_arm *arm, const json *list, lab_reading *r) {
    for (const json *c = list->child; c && !*r->why; c = c->next)
        if (c->kind == JSON_TEXT && !was_set(arm, c))
            snprintf(r->why, sizeof r->why, "switch %.100s was in force, which the arm does not set", c->text);
}

cadre_err lab_reading_active(const lab_readers *p, const lab_arm *arm, const lab_output *o, lab_reading *r,
                             cadre_fail *why) {
    search s = {.output = o};
    const json *root = o->doc ? json_root(o->doc) : NULL, *switches = lab_path_first(root, p->switches);
    bool told = switches && switches->kind == JSON_ARRAY;
    bool any = told || (arm->must && *arm->must) || (arm->must_not && *arm->must_not) || arm->counter_count;
    if (!any) return CADRE_OK;
    if (told) check_switches(arm, switches, r);
    if (root) lab_path_each(root, p->receipts, put_receipt, &s.receipts);
    cadre_err err = s.receipts.failed ? cadre_fail_set(why, CADRE_NOMEM, "out of memory for receipts") : CADRE_OK;
    if (!err) err = patterns(&s, arm->must, true, r, why);
    if (!err) err = patterns(&s, arm->must_not, false, r, why);
    for (int i = 0; i < arm->counter_count && !err && !*r->why; i++) err = counter(o, &arm->counters[i], r, why);
    if (!err) r->active = *r->why ? LAB_ACTIVE_NO : LAB_ACTIVE_YES;
    mem_free(s.receipts.text);
    return err;
}
