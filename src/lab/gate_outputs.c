/* gate_outputs.c: did the arms put out the same? Samples are compared turn by turn: the n-th iteration of each visit
 * had the same work to do, so that a metric taken request by request is compared request by request.
 *
 *   turn 1:  base visit 1   base visit 2   new visit 1 ...     all families equal, all token counts equal
 *   turn 2:  ...
 *
 * Ceilings are left out: with something made free, what they put out is not the same. */
#include "verdict.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_turn(const void *a, const void *b) {
    const lab_pick *x = a, *y = b;
    if (x->turn != y->turn) return x->turn - y->turn;
    return x->arm != y->arm ? x->arm - y->arm : x->place - y->place;
}

static bool is_ceiling(const lab_box *b, int arm) {
    return b->ceilings >> arm & 1;
}

/* Those that count, by turn, the reference first. */
static lab_pick *sorted(lab_box *b, int *count) {
    lab_pick *p = lab_hold(b, (size_t)b->pick_count, sizeof *p);
    if (!p) return NULL;
    int n = 0;
    for (int i = 0; i < b->pick_count; i++)
        if (!b->picks[i].s->warmup && !isnan(b->picks[i].s->value) && !is_ceiling(b, b->picks[i].arm))
            p[n++] = b->picks[i];
    qsort(p, (size_t)n, sizeof *p, by_turn);
    *count = n;
    return p;
}

typedef bool teller(const lab_sample *s);
typedef bool equal(const lab_sample *a, const lab_sample *b);

/* Arms that differ from the first of a turn that tells; *one, *other: the first two that do. */
static uint64_t unequal(const lab_pick *p, int n, teller *tells, equal *same, const lab_pick **one,
                        const lab_pick **other) {
    uint64_t bad = 0;
    const lab_pick *first = NULL;
    *one = *other = NULL;
    for (int i = 0; i < n; i++) {
        if (!first || first->turn != p[i].turn) first = NULL;
        if (!tells(p[i].s)) continue;
        if (!first) first = &p[i];
        if (same(first->s, p[i].s)) continue;
        if (!bad) *one = first, *other = &p[i];
        bad |= (uint64_t)1 << p[i].arm;
    }
    return bad;
}

/* Arms of which some sample does not tell while any other does. */
static uint64_t silent(const lab_pick *p, int n, teller *tells, bool *told) {
    uint64_t quiet = 0;
    *told = false;
    for (int i = 0; i < n; i++) {
        if (tells(p[i].s))
            *told = true;
        else
            quiet |= (uint64_t)1 << p[i].arm;
    }
    return *told ? quiet : 0;
}

/* ---- families ---- */

static bool tells_family(const lab_sample *s) {
    return s->family || s->requests;
}

static const json *with_id(const json *requests, const json *id) {
    for (const json *r = requests->child; r; r = r->next)
        if (lab_same_json(json_get(r, "id"), id)) return r;
    return NULL;
}

/* The request of b with the id of r. Lists are mostly in one order: `guess` walks along. */
static const json *partner(const json *b, const json *r, const json **guess) {
    const json *id = json_get(r, "id"), *found = *guess;
    if (!found || !lab_same_json(json_get(found, "id"), id)) found = with_id(b, id);
    *guess = found ? found->next : NULL;
    return found;
}

static bool same_requests(const json *a, const json *b) {
    if (a->count != b->count) return false;
    const json *guess = b->child;
    for (const json *r = a->child; r; r = r->next) {
        const json *other = partner(b, r, &guess);
        if (!other || !lab_same_json(json_get(r, "sha256"), json_get(other, "sha256"))) return false;
    }
    return true;
}

static bool same_family(const lab_sample *a, const lab_sample *b) {
    if (a->family && b->family) return !strcmp(a->family, b->family);
    return a->requests && b->requests && same_requests(a->requests, b->requests);
}

static void id_text(const json *id, char *text, size_t size) {
    if (id->kind == JSON_TEXT)
        snprintf(text, size, "%.16s", id->text);
    else
        snprintf(text, size, "%g", id->number);
}

/* "requests 3, 7 differ; " of two samples; nothing where they tell none. */
static void differing_ids(const lab_sample *a, const lab_sample *b, char *text, size_t size) {
    size_t len = 0;
    *text = 0;
    if (!a->requests || !b->requests) return;
    const json *guess = b->requests->child;
    for (const json *r = a->requests->child; r && len + 40 < size; r = r->next) {
        const json *other = partner(b->requests, r, &guess);
        if (other && lab_same_json(json_get(r, "sha256"), json_get(other, "sha256"))) continue;
        char id[24];
        id_text(json_get(r, "id"), id, sizeof id);
        int n = snprintf(text + len, size - len, "%s%s", len ? ", " : "requests ", id);
        len += n > 0 ? (size_t)n : 0;
    }
    if (len) snprintf(text + len, size - len, " differ; ");
}

static int by_family(const void *a, const void *b) {
    const lab_pick *x = a, *y = b;
    if (x->arm != y->arm) return x->arm - y->arm;
    int c = strcmp(x->s->family ? x->s->family : "", y->s->family ? y->s->family : "");
    return c ? c : x->place - y->place;
}

/* Sorts the picks by arm and family; fills each arm's, and the table "base ad63e94a x10; new ad63e94a x5, 00aa x5". */
static void family_table(lab_box *b, lab_pick *p, int n, char *text, size_t size) {
    size_t len = 0;
    *text = 0;
    qsort(p, (size_t)n, sizeof *p, by_family);
    for (int i = 0, j; i < n; i = j) {
        lab_arm_figures *a = &b->v.arms[p[i].arm];
        const char *family = p[i].s->family;
        for (j = i; j < n && p[j].arm == p[i].arm &&
                    (family ? p[j].s->family && !strcmp(p[j].s->family, family) : !p[j].s->family);)
            j++;
        bool first = i == 0 || p[i - 1].arm != p[i].arm;
        if (family) a->family = a->families++ ? NULL : family;
        if (len + 8 >= size) continue;
        int m = snprintf(text + len, size - len, "%s%.24s%s%.8s x%d", first ? (i ? "; " : "") : ", ",
                         first ? a->name : "", first ? " " : "", family ? family : "none", j - i);
        len += m > 0 ? (size_t)m : 0;
    }
}

static void gate_family(lab_box *b, lab_pick *p, int n) {
    const lab_pick *one, *other;
    bool told;
    char table[200], ids[100] = "", names[100];
    uint64_t quiet = silent(p, n, tells_family, &told), bad = unequal(p, n, tells_family, same_family, &one, &other);
    if (bad) differing_ids(one->s, other->s, ids, sizeof ids);
    family_table(b, p, n, table, sizeof table);
    if (bad)
        lab_gate_add(b, "family", true, bad, "outputs differ: %s%s", ids, table);
    else if (quiet)
        lab_gate_add(b, "family", true, quiet, "no digest of outputs in every sample of %s",
                     lab_arm_names(b, quiet, names, sizeof names));
    else
        lab_gate_add(b, "family", told, 0, told ? "one family: %s" : "not told%s", told ? table : "");
    qsort(p, (size_t)n, sizeof *p, by_turn);
}

/* ---- tokens ---- */

static bool tells_tokens(const lab_sample *s) {
    return !isnan(s->tokens);
}
static bool same_tokens(const lab_sample *a, const lab_sample *b) {
    return a->tokens == b->tokens;
}

static void gate_tokens(lab_box *b, const lab_pick *p, int n) {
    const lab_pick *one, *other;
    bool told, allowed = b->v.question.per_token;
    char names[100];
    uint64_t quiet = silent(p, n, tells_tokens, &told), bad = unequal(p, n, tells_tokens, same_tokens, &one, &other);
    if (bad)
        lab_gate_add(b, "tokens", true, allowed ? 0 : bad, "%.40s put out %g tokens, %.40s %g%s",
                     b->v.arms[one->arm].name, one->s->tokens, b->v.arms[other->arm].name, other->s->tokens,
                     allowed ? "; values are per token" : "");
    else if (quiet)
        lab_gate_add(b, "tokens", true, allowed ? 0 : quiet, "no token count in every sample of %s",
                     lab_arm_names(b, quiet, names, sizeof names));
    else
        lab_gate_add(b, "tokens", told, 0, told ? "equal token counts" : "not told");
}

/* ---- acceptance ---- */

/* An arm without drafts takes one token a step. */
static double length(const lab_arm_figures *a) {
    return isnan(a->acceptance_length) ? 1 : a->acceptance_length;
}

static void gate_acceptance(lab_box *b) {
    const lab_verdict *v = &b->v;
    uint64_t bad = 0;
    bool told = false;
    double most = 0;
    int at = 0;
    for (int i = 0; i < v->arm_count; i++) {
        if (is_ceiling(b, i)) continue;
        double gap = fabs(length(&v->arms[i]) - length(&v->arms[0]));
        told = told || !isnan(v->arms[i].acceptance_length);
        if (gap > v->question.acceptance_bound + 1e-12) bad |= (uint64_t)1 << i;
        if (gap > most) most = gap, at = i;
    }
    if (!told)
        lab_gate_add(b, "acceptance", false, 0, "not told");
    else
        lab_gate_add(b, "acceptance", true, bad, "acceptance length %.3f of %.40s, %.3f of %.40s: %s the bound of %g",
                     length(&v->arms[0]), v->arms[0].name, length(&v->arms[at]), v->arms[at].name,
                     bad ? "apart by more than" : "within", v->question.acceptance_bound);
}

/* ---- metrics that are this one in other words ---- */

int lab_by_measurement(const void *a, const void *b) {
    const lab_pick *x = a, *y = b;
    int c = strcmp(x->s->arm, y->s->arm);
    if (c) return c;
    if (x->s->visit != y->s->visit) return x->s->visit - y->s->visit;
    if (x->s->iteration != y->s->iteration) return x->s->iteration - y->s->iteration;
    return x->place - y->place;
}

static bool same_run(const char *run, const lab_sample *s) {
    return run == s->run || (run && s->run && !strcmp(run, s->run));
}

int lab_measurements(const lab_box *b, const char *metric, lab_pick *out) {
    int n = 0, all = lab_samples_count(b->v.samples);
    for (int i = 0; i < all; i++) {
        const lab_sample *s = lab_samples_at(b->v.samples, i);
        if (strcmp(s->metric, metric) != 0 || isnan(s->value) || s->warmup) continue;
        if ((b->v.run || b->v.runs == 1) && !same_run(b->v.run, s)) continue;
        out[n++] = (lab_pick){.s = s, .place = i};
    }
    qsort(out, (size_t)n, sizeof *out, lab_by_measurement);
    return n;
}

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double v) {
    if (v < r->low) r->low = v;
    if (v > r->high) r->high = v;
}
static double relative(const range *r) {
    return r->low > 0 ? r->high / r->low - 1 : INFINITY;
}

/* Moves together, while it moves: 'x' where the product is constant, '/' where the quotient is, 0 else. */
static char tied(const lab_pick *p, const lab_pick *q, int n, double *constant) {
    range own = {INFINITY, -INFINITY}, product = own, quotient = own;
    for (int i = 0; i < n; i++) {
        if (lab_by_measurement(&(lab_pick){.s = p[i].s}, &(lab_pick){.s = q[i].s})) return 0;
        widen(&own, p[i].s->value);
        widen(&product, p[i].s->value * q[i].s->value);
        widen(&quotient, q[i].s->value / p[i].s->value);
    }
    double most = relative(&own) / 20 < 1e-3 ? relative(&own) / 20 : 1e-3;
    *constant = (product.low + product.high) / 2;
    if (relative(&product) < most) return 'x';
    *constant = (quotient.low + quotient.high) / 2;
    return relative(&quotient) < most ? '/' : 0;
}

enum { OTHERS_MOST = 16 };

static int other_metrics(const lab_box *b, const char **names) {
    int n = 0;
    for (int i = 0; i < lab_samples_count(b->v.samples) && n < OTHERS_MOST; i++) {
        const char *metric = lab_samples_at(b->v.samples, i)->metric;
        int k = 0;
        while (k < n && strcmp(names[k], metric) != 0) k++;
        if (k == n && strcmp(metric, b->v.metric) != 0) names[n++] = metric;
    }
    return n;
}

static cadre_err gate_derived(lab_box *b, cadre_fail *why) {
    const char *names[OTHERS_MOST];
    int others = other_metrics(b, names), all = lab_samples_count(b->v.samples);
    if (!others) return CADRE_OK;
    lab_pick *own = lab_hold(b, (size_t)all, sizeof *own), *other = lab_hold(b, (size_t)all, sizeof *other);
    if (!own || !other) return lab_no_memory(why);
    int n = lab_measurements(b, b->v.metric, own);
    for (int i = 0; i < others && n > 3; i++) {
        double constant;
        if (lab_measurements(b, names[i], other) != n) continue;
        char how = tied(own, other, n, &constant);
        if (!how) continue;
        lab_gate_add(b, "derived", true, 0,
                     "%.60s %c %.60s is always %.6g: one is the other in other words, no further evidence", names[i],
                     how, b->v.metric, constant);
        break;
    }
    return CADRE_OK;
}

cadre_err lab_gates_outputs(lab_box *b, cadre_fail *why) {
    int n;
    lab_pick *p = sorted(b, &n);
    if (!p) return lab_no_memory(why);
    gate_family(b, p, n);
    gate_tokens(b, p, n);
    gate_acceptance(b);
    cadre_err err = gate_derived(b, why);
    if (!err) err = lab_gate_untouched(b, why);
    return err ? err : lab_gate_floor(b, why);
}
