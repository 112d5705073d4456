/* ab_ask.c: samples and the question about them. */
#include "ab_ask.h"
#include "say.h"
#include <math.h>
#include <string.h>

static void told(const ask_opts *o, lab_question *q) {
    bool another = o->metric && q->metric && strcmp(o->metric, q->metric) != 0;
    if (another) q->floor = NULL; /* that of the experiment's own metric */
    if (o->run) q->run = o->run;
    if (o->metric) q->metric = o->metric;
    if (o->reference) q->reference = o->reference;
    if (o->better) {
        q->better = !strcmp(o->better, "higher") ? LAB_HIGHER : LAB_LOWER;
        q->better_told = true;
    }
    if (!isnan(o->effect)) q->effect = o->effect;
    if (!isnan(o->noise_floor)) q->noise_floor = o->noise_floor;
    if (!isnan(o->level)) q->level = o->level;
    if (!isnan(o->power)) q->power = o->power;
    if (!isnan(o->acceptance)) q->acceptance_bound = o->acceptance;
    if (o->untouched) q->untouched = o->untouched;
    if (o->ceilings) q->ceilings = o->ceilings;
    if (o->floor) q->floor = o->floor;
    if (o->resamples) q->resamples = o->resamples;
    if (o->seed != UINT64_MAX) q->seed = o->seed;
    q->blocks_allowed = q->blocks_allowed || o->blocks;
    q->unproven_allowed = q->unproven_allowed || o->unproven;
    q->per_token = q->per_token || o->per_token;
}

/* A run's folder holds its samples and its own copy of the experiment; the folder may be named, or its samples. */
static cadre_err find(const ask_opts *o, asked *a, cadre_fail *why) {
    const char *told = o->samples.items[0], *slash = strrchr(told, '/');
    char folder[sizeof a->path], copy[sizeof a->path];
    bool is_folder = file_is_dir(told), is_samples = !strcmp(slash ? slash + 1 : told, "samples.jsonl");
    int n = is_folder ? snprintf(folder, sizeof folder, "%s", told)
                      : snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - told) : 1, slash ? told : ".");
    if (n < 0 || n >= (int)sizeof folder || !file_join(copy, sizeof copy, *folder ? folder : "/", "experiment.json") ||
        (is_folder ? !file_join(a->path, sizeof a->path, told, "samples.jsonl")
                   : snprintf(a->path, sizeof a->path, "%s", told) >= (int)sizeof a->path))
        return cadre_fail_set(why, CADRE_IO, "%.200s...: path too long", told);
    if (o->experiment) return lab_experiment_read(o->experiment, &a->experiment, why);
    bool there = (is_folder || is_samples) && file_exists(copy);
    return there ? lab_experiment_read(copy, &a->experiment, why) : CADRE_OK;
}

cadre_err ask_open(const ask_opts *o, const char *command, asked *out, cadre_fail *why) {
    *out = (asked){.question = lab_question_default()};
    if (o->samples.count != 1)
        return cadre_fail_set(why, CADRE_RANGE, "%s takes one file of samples, not %d (cadre %s --help)", command,
                              o->samples.count, command);
    cadre_err err = find(o, out, why);
    if (out->experiment) out->question = out->experiment->question;
    told(o, &out->question);
    if (!err) err = lab_samples_read(out->path, &out->samples, why);
    if (err)
        ask_close(out);
    else if (lab_samples_torn(out->samples))
        say_note("%s: the last line is torn and was passed over", out->path);
    return err;
}

void ask_close(asked *a) {
    lab_samples_free(a->samples);
    lab_experiment_free(a->experiment);
    *a = (asked){0};
}

int ask_status(const lab_verdict *v) {
    return v->outcome == LAB_WIN || v->outcome == LAB_WITHIN_NOISE ? EXIT_FINE : EXIT_NO;
}

/* ---- the design of a stack ---- */

static cadre_err add_factor(ask_design *d, const char *name, size_t len, cadre_fail *why) {
    for (int i = 0; i < d->factor_count; i++)
        if (strlen(d->factors[i]) == len && !memcmp(d->factors[i], name, len)) return CADRE_OK;
    if (d->factor_count == LAB_FACTORS_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "more than %d factors: %.*s is one too many", LAB_FACTORS_MOST,
                              (int)(len < 60 ? len : 60), name);
    if (!len || len >= sizeof d->text[0])
        return cadre_fail_set(why, CADRE_RANGE, "a factor's name has %zu characters, expected 1 to %zu", len,
                              sizeof d->text[0] - 1);
    memcpy(d->text[d->factor_count], name, len);
    d->text[d->factor_count][len] = 0;
    d->factors[d->factor_count] = d->text[d->factor_count];
    d->factor_count++;
    return CADRE_OK;
}

/* "a,b" or "a+b": its names become factors, or the bits of a mask. */
static cadre_err each_name(ask_design *d, const char *list, char parted, unsigned *mask, cadre_fail *why) {
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, (char[2]){parted, 0});
        cadre_err err = mask ? CADRE_OK : add_factor(d, p, n, why);
        bool found = !mask;
        for (int i = 0; i < d->factor_count && !found; i++) {
            if (strlen(d->factors[i]) != n || memcmp(d->factors[i], p, n) != 0) continue;
            *mask |= 1u << i;
            found = true;
        }
        if (!found)
            err = cadre_fail_set(why, CADRE_RANGE, "arm \"%.60s\" has \"%.*s\", which is no factor", list,
                                 (int)(n < 60 ? n : 60), p);
        if (err) return err;
        p += n;
        if (!*p) return CADRE_OK;
    }
}

static bool names_none(const char *arm, const char *none) {
    static const char *const usual[] = {"none", "off", "OFF", "base", "baseline", "reference"};
    if (none) return !strcmp(arm, none);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!strcmp(arm, usual[i])) return true;
    return false;
}

static const json *factors_of(const lab_sample *s) {
    const json *f = json_get(s->manifest, "factors");
    return f && f->kind == JSON_ARRAY ? f : NULL;
}

/* One arm: its factors become factors, or its mask. From the experiment, the manifest, or the name. */
static cadre_err arm_factors(const asked *a, const lab_sample *s, const char *none, ask_design *d, unsigned *mask,
                             cadre_fail *why) {
    const lab_experiment *e = a->experiment;
    cadre_err err = CADRE_OK;
    for (int i = 0; e && e->factors && i < e->arm_count; i++) {
        if (strcmp(e->arms[i].name, s->arm) != 0) continue;
        for (const char *const *f = e->arms[i].factors; f && *f && !err; f++) err = each_name(d, *f, 0, mask, why);
        return err;
    }
    const json *f = factors_of(s);
    for (const json *c = f ? f->child : NULL; c && !err; c = c->next)
        if (c->kind == JSON_TEXT) err = each_name(d, c->text, 0, mask, why);
    if (f || names_none(s->arm, none)) return err;
    return each_name(d, s->arm, '+', mask, why);
}

static bool first_of_arm(const ask_design *d, const char *arm) {
    for (int i = 0; i < d->arm_count; i++)
        if (!strcmp(d->arms[i], arm)) return false;
    return true;
}

bool ask_has_factors(const asked *a) {
    if (a->experiment && a->experiment->factors) return true;
    for (int i = 0; i < lab_samples_count(a->samples); i++) {
        const json *f = factors_of(lab_samples_at(a->samples, i));
        if (f && f->count > 1) return true;
    }
    return false;
}

/* The factors, in the order in which the arms name them. */
static cadre_err find_factors(const asked *a, const char *none, ask_design *d, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (int i = 0; i < lab_samples_count(a->samples) && !err; i++)
        err = arm_factors(a, lab_samples_at(a->samples, i), none, d, NULL, why);
    return err;
}

cadre_err ask_factors(const asked *a, const char *list, const char *none, ask_design *d, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    *d = (ask_design){0};
    if (list)
        err = each_name(d, list, ',', NULL, why);
    else if (a->experiment && a->experiment->factors)
        for (const char *const *f = a->experiment->factors; *f && !err; f++) err = add_factor(d, *f, strlen(*f), why);
    else
        err = find_factors(a, none, d, why);
    for (int i = 0; i < lab_samples_count(a->samples) && !err; i++) {
        const lab_sample *s = lab_samples_at(a->samples, i);
        if (!first_of_arm(d, s->arm)) continue;
        if (d->arm_count == LAB_ARMS_MOST)
            return cadre_fail_set(why, CADRE_RANGE, "more than %d arms in the samples", LAB_ARMS_MOST);
        d->masks[d->arm_count] = 0;
        err = arm_factors(a, s, none, d, &d->masks[d->arm_count], why);
        d->arms[d->arm_count++] = s->arm;
    }
    if (!err && d->factor_count < 2)
        err = cadre_fail_set(why, CADRE_RANGE, "a stack needs two factors, the samples tell %d", d->factor_count);
    return err;
}

cadre_err ask_stack(const asked *a, const ask_design *d, lab_stack **out, cadre_fail *why) {
    return lab_stack_new(a->samples, &a->question, d->factors, d->factor_count, d->arms, d->masks, d->arm_count, out,
                         why);
}
