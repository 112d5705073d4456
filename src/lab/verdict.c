/* verdict.c: which samples a verdict is about: the run, the metric, the arms, and the order of time.
 *
 *   samples -> those of the run -> those of the metric -> picks, sorted by (order, arm, visit, iteration, place)
 *           -> figures -> drift -> gates -> contrasts */
#include "verdict.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *lab_outcome_name(lab_outcome o) {
    static const char *const names[] = {"win", "loss", "within_noise", "underpowered", "refused"};
    return names[o];
}

lab_question lab_question_default(void) {
    return (lab_question){
        .effect = 0.01, .level = 0.05, .power = 0.8, .acceptance_bound = 0.05, .resamples = 10000, .seed = 0x1ab};
}

/* ---- memory ---- */

cadre_err lab_no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a verdict");
}

void *lab_hold(lab_box *b, size_t count, size_t size) {
    if (b->held_count == b->held_cap) {
        int cap = b->held_cap ? 2 * b->held_cap : 32;
        void **more = mem_resize(b->held, (size_t)b->held_count * sizeof *more, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        b->held = more;
        b->held_cap = cap;
    }
    void *p = mem_new_array(count ? count : 1, size);
    if (p) b->held[b->held_count++] = p;
    return p;
}

void lab_verdict_free(lab_verdict *v) {
    lab_box *b = (lab_box *)v;
    if (!b) return;
    for (int i = 0; i < b->held_count; i++) mem_free(b->held[i]);
    mem_free(b->held);
    mem_free(b);
}

/* ---- the run ---- */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static int by_run(const void *a, const void *b) {
    const lab_pick *x = a, *y = b;
    int c = strcmp(x->s->run ? x->s->run : "", y->s->run ? y->s->run : "");
    return c ? c : x->place - y->place;
}

/* All samples, sorted by run; the run that is asked for, or the last of two arms, is left alone: picks[from, to). */
static cadre_err choose_run(lab_box *b, int *from, int *to, cadre_fail *why) {
    const char *wanted = b->v.question.run;
    int n = b->pick_count, last = -1;
    *from = 0, *to = n;
    qsort(b->picks, (size_t)n, sizeof *b->picks, by_run);
    for (int i = 0, j; i < n; i = j) {
        bool two = false;
        for (j = i; j < n && same_text(b->picks[i].s->run, b->picks[j].s->run); j++)
            two = two || strcmp(b->picks[i].s->arm, b->picks[j].s->arm) != 0;
        b->v.runs++;
        if (wanted ? same_text(wanted, b->picks[i].s->run) : two && b->picks[j - 1].place > last) {
            *from = i, *to = j;
            last = b->picks[j - 1].place;
        }
    }
    if (wanted && last < 0) return cadre_fail_set(why, CADRE_RANGE, "no run \"%.80s\" in the samples", wanted);
    b->v.run = last >= 0 || b->v.runs == 1 ? b->picks[*from].s->run : NULL;
    return CADRE_OK;
}

/* ---- the metric ---- */

enum { METRICS_SHOWN = 12 };

static int distinct_metrics(const lab_box *b, int from, int to, const char **names) {
    int n = 0;
    for (int i = from; i < to; i++) {
        int k = 0;
        while (k < n && strcmp(names[k], b->picks[i].s->metric) != 0) k++;
        if (k == n && n < METRICS_SHOWN) names[n++] = b->picks[i].s->metric;
    }
    return n;
}

static cadre_err choose_metric(lab_box *b, int from, int to, cadre_fail *why) {
    const char *names[METRICS_SHOWN] = {0}, *wanted = b->v.question.metric;
    int n = distinct_metrics(b, from, to, names);
    bool found = false;
    for (int i = from; i < to && wanted; i++) found = found || !strcmp(b->picks[i].s->metric, wanted);
    b->v.metric = wanted ? wanted : names[0];
    if (wanted ? found : n == 1) return CADRE_OK;
    char text[200] = "";
    size_t len = 0;
    for (int i = 0; i < n && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.40s", i ? ", " : "", names[i]);
    if (wanted)
        return cadre_fail_set(why, CADRE_RANGE, "no metric \"%.80s\" in the samples; there are: %s", wanted, text);
    return cadre_fail_set(why, CADRE_RANGE, "several metrics in the samples: name one of %s", text);
}

/* Keeps the samples of the metric and finds its unit. */
static cadre_err keep_metric(lab_box *b, int from, int to, cadre_fail *why) {
    int n = 0, unit_of = -1;
    for (int i = from; i < to; i++) {
        const lab_sample *s = b->picks[i].s;
        if (strcmp(s->metric, b->v.metric) != 0) continue;
        if (s->unit && b->v.unit && strcmp(s->unit, b->v.unit) != 0)
            return cadre_fail_set(why, CADRE_FORMAT, "%.60s is in %.20s on line %d and in %.20s on line %d",
                                  b->v.metric, b->v.unit, lab_samples_line(b->v.samples, unit_of), s->unit,
                                  lab_samples_line(b->v.samples, b->picks[i].place));
        if (s->unit && !b->v.unit) b->v.unit = s->unit, unit_of = b->picks[i].place;
        b->picks[n++] = b->picks[i];
    }
    b->pick_count = n;
    b->v.metric = b->picks[0].s->metric; /* the samples' own text */
    return CADRE_OK;
}

/* ---- what is better ---- */

static bool one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (!strcasecmp(text, *words)) return true;
    return false;
}

static bool ends(const char *text, const char *const *words) {
    size_t n = strlen(text);
    for (; *words; words++)
        if (strlen(*words) <= n && !strcasecmp(text + n - strlen(*words), *words)) return true;
    return false;
}

static bool holds(const char *text, const char *const *words) {
    for (; *words; words++)
        if (strcasestr(text, *words)) return true;
    return false;
}

static const char *const rates[] = {"/s", "per_s", "per second", "per_second", "throughput", "tps", "flops", NULL};
static const char *const times[] = {"s",  "sec", "second", "seconds", "ms",    "us",   "\xC2\xB5s", "\xCE\xBCs",
                                    "ns", "min", "h",      "cycles",  "ticks", "tick", NULL};
static const char *const time_units[] = {"s/", "ms/", "us/", "ns/", NULL};
static const char *const time_names[] = {"_ms", "_us", "_ns", "_s", "tpot", "ttft", "itl", "e2e", NULL};

bool lab_better_by(const char *unit, const char *metric, lab_better *out) {
    bool rate = holds(unit, rates) || (!*unit && holds(metric, rates));
    bool time = one_of(unit, times) || holds(unit, time_units) ||
                (!*unit && (ends(metric, time_names) || strcasestr(metric, "latency") || strcasestr(metric, "time")));
    *out = rate ? LAB_HIGHER : LAB_LOWER;
    return rate || time;
}

static cadre_err choose_better(lab_verdict *v, cadre_fail *why) {
    v->better = v->question.better;
    if (v->question.better_told || lab_better_by(v->unit ? v->unit : "", v->metric, &v->better)) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "nothing says whether more or less %.60s (unit %.20s) is better: say which",
                          v->metric, v->unit ? v->unit : "not told");
}

/* ---- the arms ---- */

static int arm_of(const lab_verdict *v, const char *name) {
    for (int i = 0; i < v->arm_count; i++)
        if (!strcmp(v->arms[i].name, name)) return i;
    return -1;
}

static int by_time(const void *a, const void *b) {
    const lab_pick *x = a, *y = b;
    if (x->s->order != y->s->order) return x->s->order - y->s->order;
    int c = strcmp(x->s->arm, y->s->arm);
    if (c) return c;
    if (x->s->visit != y->s->visit) return x->s->visit - y->s->visit;
    if (x->s->iteration != y->s->iteration) return x->s->iteration - y->s->iteration;
    return x->place - y->place;
}

static void swap_first(lab_verdict *v, int i) {
    const char *name = v->arms[i].name;
    for (; i > 0; i--) v->arms[i].name = v->arms[i - 1].name;
    v->arms[0].name = name;
}

/* In order of time: picks are sorted. */
static cadre_err find_arms(lab_box *b, cadre_fail *why) {
    lab_verdict *v = &b->v;
    v->arms = lab_hold(b, LAB_ARMS_MOST, sizeof *v->arms);
    if (!v->arms) return lab_no_memory(why);
    for (int i = 0; i < b->pick_count; i++) {
        if (arm_of(v, b->picks[i].s->arm) >= 0) continue;
        if (v->arm_count == LAB_ARMS_MOST)
            return cadre_fail_set(why, CADRE_RANGE, "more than %d arms in one run", LAB_ARMS_MOST);
        v->arms[v->arm_count++].name = b->picks[i].s->arm;
    }
    const char *wanted = v->question.reference;
    int reference = wanted ? arm_of(v, wanted) : 0;
    if (reference < 0) return cadre_fail_set(why, CADRE_RANGE, "no arm \"%.80s\" with %.60s", wanted, v->metric);
    if (v->arm_count < 2)
        return cadre_fail_set(why, CADRE_RANGE, "one arm, %.80s: nothing to compare it with", v->arms[0].name);
    swap_first(v, reference);
    for (int i = 0; i < b->pick_count; i++) b->picks[i].arm = arm_of(v, b->picks[i].s->arm);
    return CADRE_OK;
}

static cadre_err find_ceilings(lab_box *b, cadre_fail *why) {
    const char *list = b->v.question.ceilings ? b->v.question.ceilings : "";
    char name[200];
    while (lab_next_name(&list, name, sizeof name)) {
        int arm = arm_of(&b->v, name);
        if (!arm) return cadre_fail_set(why, CADRE_RANGE, "the reference, %.80s, can't be a ceiling", name);
        if (arm > 0) b->ceilings |= (uint64_t)1 << arm;
    }
    return CADRE_OK;
}

static cadre_err twice(const lab_box *b, const lab_pick *p, const lab_pick *q, cadre_fail *why) {
    char lines[40] = "";
    int one = lab_samples_line(b->v.samples, p->place), other = lab_samples_line(b->v.samples, q->place);
    if (one) snprintf(lines, sizeof lines, " (lines %d, %d)", one, other);
    return cadre_fail_set(why, CADRE_FORMAT, "%.60s of arm %.60s, visit %d, iteration %d is there twice%s", b->v.metric,
                          p->s->arm, p->s->visit, p->s->iteration, lines);
}

/* Turns; and a line that is there twice is a fault of the file, which would count one measurement as two. */
static cadre_err number_turns(lab_box *b, cadre_fail *why) {
    for (int i = 0; i < b->pick_count; i++) {
        lab_pick *p = &b->picks[i], *q = i ? p - 1 : NULL;
        bool same = q && q->arm == p->arm && q->s->visit == p->s->visit;
        p->turn = p->s->iteration ? p->s->iteration : same ? q->turn + 1 : 1;
        if (same && p->s->iteration && p->s->iteration == q->s->iteration && p->s->value == q->s->value &&
            p->s->warmup == q->s->warmup)
            return twice(b, q, p, why);
    }
    return CADRE_OK;
}

static cadre_err choose(lab_box *b, cadre_fail *why) {
    int n = lab_samples_count(b->v.samples), from, to;
    if (!n) return cadre_fail_set(why, CADRE_RANGE, "no samples");
    b->picks = lab_hold(b, (size_t)n, sizeof *b->picks);
    if (!b->picks) return lab_no_memory(why);
    b->pick_count = n;
    for (int i = 0; i < n; i++) b->picks[i] = (lab_pick){.s = lab_samples_at(b->v.samples, i), .place = i};
    cadre_err err = choose_run(b, &from, &to, why);
    if (!err) err = choose_metric(b, from, to, why);
    if (!err) err = keep_metric(b, from, to, why);
    if (!err) err = choose_better(&b->v, why);
    if (err) return err;
    qsort(b->picks, (size_t)b->pick_count, sizeof *b->picks, by_time);
    err = find_arms(b, why);
    if (!err) err = find_ceilings(b, why);
    return err ? err : number_turns(b, why);
}

/* ---- all of it ---- */

static cadre_err check(const lab_question *q, cadre_fail *why) {
    if (!(q->level > 0 && q->level < 1))
        return cadre_fail_set(why, CADRE_RANGE, "level %g: expected a number between 0 and 1", q->level);
    if (!(q->effect >= 0 && q->effect < 1e9))
        return cadre_fail_set(why, CADRE_RANGE, "effect %g: expected a relative difference, as 0.01", q->effect);
    if (!(q->power >= 0 && q->power < 1))
        return cadre_fail_set(why, CADRE_RANGE, "power %g: expected a number between 0 and 1", q->power);
    if (q->resamples < 0 || q->resamples > 10000000)
        return cadre_fail_set(why, CADRE_RANGE, "%d resamples: expected 0 to 10000000", q->resamples);
    return CADRE_OK;
}

static lab_outcome worst(const lab_verdict *v) {
    static const int badness[] = {
        [LAB_WIN] = 0, [LAB_WITHIN_NOISE] = 1, [LAB_UNDERPOWERED] = 2, [LAB_LOSS] = 3, [LAB_REFUSED] = 4};
    bool all = true; /* ceilings: then one is what is asked for */
    lab_outcome o = LAB_WIN;
    for (int i = 0; i + 1 < v->arm_count; i++) all = all && v->contrasts[i].ceiling;
    for (int i = 0; i + 1 < v->arm_count; i++)
        if ((all || !v->contrasts[i].ceiling) && badness[v->contrasts[i].outcome] > badness[o])
            o = v->contrasts[i].outcome;
    return o;
}

cadre_err lab_verdict_new(const lab_samples *s, const lab_question *q, lab_verdict **out, cadre_fail *why) {
    lab_question question = q ? *q : lab_question_default();
    cadre_err err = check(&question, why);
    if (err) return err;
    lab_box *b = mem_new(sizeof *b);
    if (!b) return lab_no_memory(why);
    b->v.samples = s;
    b->v.question = question;
    b->v.floor = NAN;
    b->residual_scale = 1;
    err = choose(b, why);
    if (!err) err = lab_figures(b, why);
    if (!err) err = lab_gates(b, why);
    if (!err) err = lab_contrasts(b, why);
    if (err) {
        lab_verdict_free(&b->v);
        return err;
    }
    b->v.outcome = worst(&b->v);
    *out = &b->v;
    return CADRE_OK;
}
