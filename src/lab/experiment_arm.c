/* experiment_arm.c: the arms of an experiment's file. */
#include "experiment.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- commands: an array of words, or a text that is split at blanks; no shell, so nothing is quoted ---- */

static cadre_err split(experiment *e, const json *v, const char **words, int *n) {
    if (strpbrk(v->text, "'\"\\`$|;&<>*?()"))
        return json_fail(e->doc, v, e->why,
                         "holds a character that only a shell understands: write an array of words, [\"sh\", \"-c\", "
                         "...] if you need a shell");
    for (const char *p = v->text + strspn(v->text, " \t"); *p;) {
        size_t len = strcspn(p, " \t");
        if (*n == LAB_WORDS_MOST) return json_fail(e->doc, v, e->why, "has more than %d words", LAB_WORDS_MOST);
        if (!(words[(*n)++] = lab_keep_text(e, "%.*s", (int)len, p))) return CADRE_NOMEM;
        p += len;
        p += strspn(p, " \t");
    }
    return CADRE_OK;
}

static cadre_err add_words(experiment *e, const json *v, const char **words, int *n) {
    if (!v || v->kind == JSON_NULL) return CADRE_OK;
    if (v->kind == JSON_TEXT && strlen(v->text) == v->len) return split(e, v, words, n);
    if (v->kind != JSON_ARRAY) return json_fail(e->doc, v, e->why, "is no text and no array of texts");
    for (const json *c = v->child; c; c = c->next) {
        if (c->kind != JSON_TEXT || strlen(c->text) != c->len) return json_fail(e->doc, c, e->why, "is no text");
        if (*n == LAB_WORDS_MOST) return json_fail(e->doc, v, e->why, "has more than %d words", LAB_WORDS_MOST);
        words[(*n)++] = c->text;
    }
    return CADRE_OK;
}

static bool has_word(const char *const *words, int n, const char *word) {
    size_t len = strlen(word);
    for (int i = 0; i < n; i++)
        if (!strncmp(words[i], word, len) && (!words[i][len] || words[i][len] == '=')) return true;
    return false;
}

/* Commands of cadre are read as JSON, and their own raw samples belong to the visit. */
static void complete(const lab_readers *p, const char **words, int *n) {
    if (!p || !p->cadre) return;
    if (!has_word(words, *n, "--json")) words[(*n)++] = "--json";
    if (strncmp(p->name, "cadre bench", 11) || has_word(words, *n, "--out")) return;
    words[(*n)++] = "--out";
    words[(*n)++] = "{dir}/bench-samples.jsonl";
}

static cadre_err command(experiment *e, const json *v, lab_arm *a) {
    int n = 0;
    const char **words = lab_keep(e, LAB_WORDS_MOST + 8, sizeof *words);
    const json *own = json_get(v, "command");
    if (!words) return CADRE_NOMEM;
    cadre_err err = add_words(e, own ? own : e->command, words, &n);
    if (!err) err = add_words(e, json_get(v, "args"), words, &n);
    if (!err && !n) err = json_fail(e->doc, v, e->why, "has no command, and the experiment has none");
    if (err) return err;
    a->argv = words;
    complete(lab_program_of(words), words, &n);
    return CADRE_OK;
}

/* ---- names with values ---- */

static cadre_err value_text(experiment *e, const json *v, char text[64], const char **out) {
    *out = text;
    if (v->kind == JSON_TEXT && strlen(v->text) == v->len)
        *out = v->text;
    else if (v->kind == JSON_NUMBER && v->whole)
        snprintf(text, 64, "%lld", (long long)v->integer);
    else if (v->kind == JSON_NUMBER && isfinite(v->number))
        snprintf(text, 64, "%.17g", v->number);
    else
        return json_fail(e->doc, v, e->why, "is no text and no number");
    return CADRE_OK;
}

/* {"NAME": value, ...} of both objects, the second over the first, as "NAME=value". */
static cadre_err pairs(experiment *e, const json *base, const json *own, const char *const **out) {
    const json *of[] = {base, own};
    int n = 0;
    for (int i = 0; i < 2; i++)
        if (of[i] && of[i]->kind != JSON_OBJECT && of[i]->kind != JSON_NULL)
            return json_fail(e->doc, of[i], e->why, "is no object");
    *out = NULL;
    if ((!base || !base->count) && (!own || !own->count)) return CADRE_OK;
    const char **list =
        lab_keep(e, (size_t)(base ? base->count : 0) + (size_t)(own ? own->count : 0) + 1, sizeof *list);
    if (!list) return CADRE_NOMEM;
    for (int i = 0; i < 2; i++)
        for (const json *c = of[i] ? of[i]->child : NULL; c; c = c->next) {
            char text[64];
            const char *value;
            if (!i && json_get_n(own, c->key, c->key_len)) continue;
            if (!c->key_len || strlen(c->key) != c->key_len || strchr(c->key, '='))
                return json_fail(e->doc, c, e->why, "is no name");
            cadre_err err = value_text(e, c, text, &value);
            if (err) return err;
            if (!(list[n++] = lab_keep_text(e, "%s=%s", c->key, value))) return CADRE_NOMEM;
        }
    *out = list;
    return CADRE_OK;
}

/* ---- expectations ---- */

static cadre_err counter(experiment *e, const json *v, lab_counter *c) {
    cadre_err err = lab_keys(e, v, "a counter", "name json pattern low high");
    if (!err) err = json_text(e->doc, v, "name", NULL, &c->name, e->why);
    if (!err && (!c->name || !*c->name)) err = json_fail(e->doc, v, e->why, "needs a name");
    if (!err) err = json_real(e->doc, v, "low", -INFINITY, -INFINITY, INFINITY, &c->low, e->why);
    if (!err) err = json_real(e->doc, v, "high", INFINITY, -INFINITY, INFINITY, &c->high, e->why);
    if (!err) err = lab_where(e, v, &c->reader, &c->where);
    if (!err && !json_get(v, "low") && !json_get(v, "high"))
        err = json_fail(e->doc, v, e->why, "needs low, high or both");
    if (!err && c->low > c->high) err = json_fail(e->doc, v, e->why, "has a low above its high");
    return err;
}

static cadre_err counters(experiment *e, const json *list, lab_arm *a) {
    if (!list || list->kind == JSON_NULL) return CADRE_OK;
    if (list->kind != JSON_ARRAY) return json_fail(e->doc, list, e->why, "is no array of counters");
    lab_counter *all = lab_keep(e, (size_t)list->count + 1, sizeof *all);
    if (!all) return CADRE_NOMEM;
    for (const json *c = list->child; c; c = c->next) {
        cadre_err err = counter(e, c, &all[a->counter_count++]);
        if (err) return err;
    }
    a->counters = all;
    return CADRE_OK;
}

static cadre_err patterns(experiment *e, const json *v, const char *key, const char *const **out) {
    cadre_err err = lab_texts(e, v, key, out);
    const json *list = json_get(v, key);
    for (const json *c = !err && *out ? list->child : NULL; c && !err; c = c->next) err = lab_check_pattern(e, c);
    return err;
}

/* ---- an arm ---- */

static cadre_err check_factors(experiment *e, const json *v, const lab_arm *a) {
    const json *c = a->factors ? json_get(v, "factors")->child : NULL;
    for (; c; c = c->next) {
        bool there = false;
        for (const char *const *f = e->shown.factors; f && *f; f++) there |= !strcmp(*f, c->text);
        if (!there) return json_fail(e->doc, c, e->why, "is none of the experiment's factors");
    }
    return CADRE_OK;
}

static cadre_err name(experiment *e, const json *v, const lab_arm *all, int count, lab_arm *a) {
    cadre_err err = json_text(e->doc, v, "name", NULL, &a->name, e->why);
    if (err) return err;
    if (!a->name || !*a->name || strlen(a->name) > 60)
        return json_fail(e->doc, v, e->why, "needs a name of 1 to 60 characters");
    for (const char *p = a->name; *p; p++)
        if ((unsigned char)*p < ' ') return json_fail(e->doc, v, e->why, "has a control character in its name");
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i].name, a->name)) return json_fail(e->doc, v, e->why, "has the name of another arm");
    return CADRE_OK;
}

/* In words, and as one number: relative, or in the metric's unit. */
static cadre_err prediction(experiment *e, const json *v, lab_arm *a) {
    cadre_err err = json_text(e->doc, v, "prediction", NULL, &a->prediction, e->why);
    if (!err) err = json_real(e->doc, v, "predicted", NAN, -1, 1000, &a->predicted, e->why);
    if (!err) err = json_real(e->doc, v, "predicted_delta", NAN, -1e12, 1e12, &a->predicted_delta, e->why);
    if (!err && !isnan(a->predicted) && !isnan(a->predicted_delta))
        err = json_fail(e->doc, json_get(v, "predicted_delta"), e->why, "stands beside predicted: one of them");
    return err;
}

static cadre_err arm(experiment *e, const json *v, const lab_arm *all, int count, lab_arm *a) {
    cadre_err err =
        lab_keys(e, v, "an arm",
                 "name command args env set files must must_not counters factors prediction predicted predicted_delta "
                 "ceiling");
    if (!err) err = name(e, v, all, count, a);
    if (!err) err = command(e, v, a);
    if (!err) err = pairs(e, e->env, json_get(v, "env"), &a->env);
    if (!err) err = pairs(e, NULL, json_get(v, "set"), &a->set);
    if (!err && a->set) {
        const lab_readers *p = lab_program_of(a->argv);
        if (!p || !p->cadre)
            err = json_fail(e->doc, json_get(v, "set"), e->why, "is for commands of cadre; use env or args");
    }
    if (!err) err = lab_texts(e, v, "files", &a->files);
    if (!err) err = patterns(e, v, "must", &a->must);
    if (!err) err = patterns(e, v, "must_not", &a->must_not);
    if (!err) err = counters(e, json_get(v, "counters"), a);
    if (!err) err = lab_texts(e, v, "factors", &a->factors);
    if (!err) err = check_factors(e, v, a);
    if (!err) err = json_flag(e->doc, v, "ceiling", false, &a->ceiling, e->why);
    if (!err && a->ceiling && e->shown.factors)
        err = json_fail(e->doc, json_get(v, "ceiling"), e->why, "is for arms that are no part of a stack");
    return err ? err : prediction(e, v, a);
}

/* "a,b" of the arms that are ceilings. */
static cadre_err ceilings(experiment *e) {
    const char *list = NULL;
    for (int i = 0; i < e->shown.arm_count; i++) {
        const lab_arm *a = &e->shown.arms[i];
        if (!a->ceiling) continue;
        if (strchr(a->name, ','))
            return json_fail(e->doc, json_root(e->doc), e->why, "has a ceiling with a comma in its name: %.60s",
                             a->name);
        list = lab_keep_text(e, "%s%s%s", list ? list : "", list ? "," : "", a->name);
        if (!list) return CADRE_NOMEM;
    }
    e->shown.question.ceilings = list;
    return CADRE_OK;
}

cadre_err lab_arms(experiment *e, const json *list) {
    lab_arm *all = lab_keep(e, (size_t)list->count + 1, sizeof *all);
    int n = 0;
    if (!all) return CADRE_NOMEM;
    for (const json *c = list->child; c; c = c->next, n++) {
        cadre_err err = arm(e, c, all, n, &all[n]);
        if (err) return err;
    }
    if (n == 1 && e->shown.aa) { /* one arm is enough to be measured against itself */
        all[1] = all[0];
        if (!(all[n++].name = lab_keep_text(e, "%s again", all[0].name))) return CADRE_NOMEM;
    }
    if (n < 2) return json_fail(e->doc, list, e->why, "is one arm; only \"aa\": true measures one against itself");
    e->shown.arms = all;
    e->shown.arm_count = n;
    return ceilings(e);
}
