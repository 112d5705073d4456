/* api.c: the public verdict: its samples become the room's, its figures are copied out. The header's structs say "not
 * told" by 0, since that is what C gives for nothing; the room says it by NaN. */
#include "cadre_lab.h"
#include "lab.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cadre_lab_verdict {
    lab_samples *samples;
    lab_verdict *verdict;
    char *texts; /* names and families of the samples, metric, unit, reference */
    cadre_lab_contrast *contrasts;
    cadre_lab_gate gates[LAB_GATES_MOST];
};

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a verdict");
}

/* ---- in ---- */

/* Copies of texts, one after another. With no base it only counts. */
typedef struct texts {
    char *base;
    size_t used;
} texts;

static const char *keep(texts *t, const char *text) {
    if (!text) return NULL;
    size_t n = strlen(text) + 1;
    char *at = t->base ? t->base + t->used : NULL;
    if (at) memcpy(at, text, n);
    t->used += n;
    return at;
}

static double told(double v) {
    return v == 0 ? NAN : v;
}

static lab_sample sample_of(const cadre_lab_sample *s, const char *metric, const char *unit, texts *t) {
    static const lab_active active[] = {[CADRE_LAB_NOT_TOLD] = LAB_ACTIVE_UNKNOWN,
                                        [CADRE_LAB_ACTIVE] = LAB_ACTIVE_YES,
                                        [CADRE_LAB_INACTIVE] = LAB_ACTIVE_NO};
    lab_sample made = {.arm = keep(t, s->arm), .visit = s->visit, .order = s->order, .iteration = s->iteration};
    made.warmup = s->warmup;
    made.metric = metric;
    made.unit = unit;
    made.value = s->value;
    made.tokens = told(s->tokens);
    made.failed = told(s->failed);
    made.family = keep(t, s->family);
    made.drafts = told(s->drafts);
    made.accepted = s->drafts > 0 ? s->accepted : NAN;
    made.draft_tokens = told(s->draft_tokens);
    made.active = active[s->active];
    made.load = made.mhz = made.celsius = NAN;
    return made;
}

static cadre_err check(const cadre_lab_sample *s, int count, const cadre_lab_question *q, cadre_fail *why) {
    if (q && (q->better < CADRE_LAB_BY_UNIT || q->better > CADRE_LAB_HIGHER))
        return cadre_fail_set(why, CADRE_RANGE, "better is %d: expected one of cadre_lab_better", (int)q->better);
    for (int i = 0; i < count; i++) {
        if (!s[i].arm || !*s[i].arm) return cadre_fail_set(why, CADRE_RANGE, "sample %d has no arm", i);
        if (isinf(s[i].value)) return cadre_fail_set(why, CADRE_RANGE, "sample %d is infinite", i);
        if (s[i].visit < 0 || s[i].order < 0 || s[i].iteration < 0)
            return cadre_fail_set(why, CADRE_RANGE, "sample %d has a negative visit, order or iteration", i);
        if (s[i].active < CADRE_LAB_NOT_TOLD || s[i].active > CADRE_LAB_INACTIVE)
            return cadre_fail_set(why, CADRE_RANGE, "sample %d: active is %d", i, (int)s[i].active);
    }
    return CADRE_OK;
}

/* Twice over the same texts: to count them, and to copy them. */
static cadre_err take(cadre_lab_verdict *v, const cadre_lab_sample *s, int count, const cadre_lab_question *q,
                      lab_question *question, cadre_fail *why) {
    lab_sample *made = mem_new_array((size_t)count, sizeof *made);
    if (!made) return no_memory(why);
    texts t = {0};
    for (int pass = 0; pass < 2; pass++) {
        t.used = 0;
        const char *metric = keep(&t, q->metric ? q->metric : "value"), *unit = keep(&t, q->unit);
        question->reference = keep(&t, q->reference);
        for (int i = 0; i < count; i++) made[i] = sample_of(&s[i], metric, unit, &t);
        if (pass) break;
        v->texts = t.base = mem_new(t.used);
        if (!t.base) break;
    }
    cadre_err err = v->texts ? lab_samples_new(made, count, &v->samples, why) : no_memory(why);
    mem_free(made);
    return err;
}

static double or_else(double v, double otherwise) {
    return v == 0 ? otherwise : v;
}

static lab_question question_of(const cadre_lab_question *q) {
    lab_question d = lab_question_default();
    d.better_told = q->better != CADRE_LAB_BY_UNIT;
    d.better = q->better == CADRE_LAB_HIGHER ? LAB_HIGHER : LAB_LOWER;
    d.effect = or_else(q->effect, d.effect);
    d.level = or_else(q->level, d.level);
    d.power = or_else(q->power, d.power);
    d.acceptance_bound = or_else(q->acceptance_bound, d.acceptance_bound);
    d.noise_floor = q->noise_floor;
    d.blocks_allowed = q->blocks_allowed;
    d.unproven_allowed = q->unproven_allowed;
    d.per_token = q->per_token;
    if (q->resamples) d.resamples = q->resamples < 0 ? 0 : q->resamples;
    if (q->seed) d.seed = q->seed;
    return d;
}

/* ---- out ---- */

static cadre_lab_outcome outcome_of(lab_outcome o) {
    static const cadre_lab_outcome outcomes[] = {[LAB_WIN] = CADRE_LAB_WIN,
                                                 [LAB_LOSS] = CADRE_LAB_LOSS,
                                                 [LAB_WITHIN_NOISE] = CADRE_LAB_WITHIN_NOISE,
                                                 [LAB_UNDERPOWERED] = CADRE_LAB_UNDERPOWERED,
                                                 [LAB_REFUSED] = CADRE_LAB_REFUSED};
    return outcomes[o];
}

const char *cadre_lab_outcome_name(cadre_lab_outcome outcome) {
    static const lab_outcome outcomes[] = {LAB_WIN, LAB_LOSS, LAB_WITHIN_NOISE, LAB_UNDERPOWERED, LAB_REFUSED};
    return outcome <= CADRE_LAB_REFUSED ? lab_outcome_name(outcomes[outcome]) : "none";
}

/* A refused arm has no figures: a number that was printed once is believed. */
static void show(const lab_contrast *c, cadre_lab_contrast *out) {
    *out = (cadre_lab_contrast){.arm = c->arm->name, .reference = c->reference->name, .why = c->why};
    out->outcome = outcome_of(c->outcome);
    bool refused = c->outcome == LAB_REFUSED;
    out->mean = c->arm->mean;
    out->reference_mean = c->reference->mean;
    out->ratio = refused ? NAN : c->ratio;
    for (int i = 0; i < 2; i++) {
        out->interval[i] = refused ? NAN : c->interval[i];
        out->bootstrap[i] = refused ? NAN : c->bootstrap[i];
    }
    out->p = refused ? NAN : c->p;
    out->p_floor = c->p_floor;
    out->p_interval = refused ? NAN : c->p_interval;
    out->p_adjusted = refused ? NAN : c->p_adjusted;
    out->noise = c->noise;
    out->noise_floor = c->noise_floor;
    out->samples = c->arm->n;
    out->visits = c->arm->visits;
    out->visits_needed = c->visits_needed;
}

static cadre_err conclude(cadre_lab_verdict *v, const lab_question *q, cadre_fail *why) {
    cadre_err err = lab_verdict_new(v->samples, q, &v->verdict, why);
    if (err) return err;
    int n = v->verdict->arm_count - 1;
    v->contrasts = mem_new_array((size_t)n, sizeof *v->contrasts);
    if (!v->contrasts) return no_memory(why);
    for (int i = 0; i < n; i++) show(&v->verdict->contrasts[i], &v->contrasts[i]);
    for (int i = 0; i < v->verdict->gate_count; i++) {
        const lab_gate *g = &v->verdict->gates[i];
        v->gates[i] = (cadre_lab_gate){g->name, g->ok, g->told, g->why};
    }
    return CADRE_OK;
}

/* ---- calls ---- */

cadre_err cadre_lab_verdict_new(const cadre_lab_sample *samples, int count, const cadre_lab_question *question,
                                cadre_lab_verdict **out, cadre_fail *why) {
    static const cadre_lab_question nothing;
    if (!out || count < 0 || (count && !samples))
        return cadre_fail_set(why, CADRE_RANGE, "samples, their count or the place of the result is none");
    if (!question) question = &nothing;
    cadre_err err = check(samples, count, question, why);
    if (err) return err;
    cadre_lab_verdict *v = mem_new(sizeof *v);
    if (!v) return no_memory(why);
    lab_question q = question_of(question);
    err = take(v, samples, count, question, &q, why);
    if (!err) err = conclude(v, &q, why);
    if (err) {
        cadre_lab_verdict_free(v);
        return err;
    }
    *out = v;
    return CADRE_OK;
}

void cadre_lab_verdict_free(cadre_lab_verdict *v) {
    if (!v) return;
    mem_free(v->contrasts);
    lab_verdict_free(v->verdict);
    lab_samples_free(v->samples);
    mem_free(v->texts);
    mem_free(v);
}

cadre_lab_outcome cadre_lab_verdict_outcome(const cadre_lab_verdict *v) {
    return outcome_of(v->verdict->outcome);
}

const cadre_lab_contrast *cadre_lab_verdict_contrast(const cadre_lab_verdict *v, int i) {
    return i >= 0 && i + 1 < v->verdict->arm_count ? &v->contrasts[i] : NULL;
}

const cadre_lab_gate *cadre_lab_verdict_gate(const cadre_lab_verdict *v, int i) {
    return i >= 0 && i < v->verdict->gate_count ? &v->gates[i] : NULL;
}

int cadre_lab_visits_needed(double effect, double sd, double level, double power) {
    return lab_visits_needed(effect, sd, level, power);
}
