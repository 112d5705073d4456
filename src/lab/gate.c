/* gate.c: may a difference be told at all? Each gate is asked of every arm, and speaks against those that fail it; the
 * reference refuses all. What the samples do not tell cannot fail, except where they tell it of other arms. The gates
 * about what was put out (tokens, families, acceptance) are gate_outputs.c's; drift is drift.c's. */
#include "verdict.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Control characters and broken UTF-8 of names never reach a terminal; a cut text ends at a whole character. */
void lab_gate_add(lab_box *b, const char *name, bool told, uint64_t arms, const char *format, ...) {
    cadre_assert(b->v.gate_count < LAB_GATES_MOST);
    lab_gate *g = &b->v.gates[b->v.gate_count++];
    *g = (lab_gate){.name = name, .ok = !arms, .told = told, .arms = arms};
    va_list args;
    va_start(args, format);
    vsnprintf(g->why, sizeof g->why, format, args);
    va_end(args);
    err_one_line(g->why);
}

const char *lab_arm_names(const lab_box *b, uint64_t arms, char *text, size_t size) {
    size_t len = 0;
    *text = 0;
    for (int i = 0; i < b->v.arm_count && len < size; i++) {
        if (!(arms >> i & 1)) continue;
        int n = snprintf(text + len, size - len, "%s%.40s", len ? ", " : "", b->v.arms[i].name);
        len += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static uint64_t all_arms(const lab_box *b) {
    return b->v.arm_count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << b->v.arm_count) - 1;
}

/* ---- failed requests ---- */

static void gate_failed(lab_box *b) {
    uint64_t bad = 0, told = 0;
    char text[160];
    double sum = 0;
    for (int i = 0; i < b->v.arm_count; i++) {
        double failed = b->v.arms[i].failed;
        if (isnan(failed)) continue;
        told |= (uint64_t)1 << i;
        if (failed > 0) bad |= (uint64_t)1 << i, sum += failed;
    }
    if (bad)
        lab_gate_add(b, "failed", true, bad, "%g requests failed: %s", sum, lab_arm_names(b, bad, text, sizeof text));
    else
        lab_gate_add(b, "failed", told != 0, 0, told ? "no request failed" : "not told");
}

/* ---- activation ---- */

static void gate_activation(lab_box *b) {
    uint64_t refuted = 0, unknown = 0;
    char text[120];
    const char *why = NULL;
    for (int i = 0; i < b->v.arm_count; i++) {
        const lab_arm_figures *a = &b->v.arms[i];
        if (a->active == LAB_ACTIVE_NO) refuted |= (uint64_t)1 << i, why = why ? why : a->why;
        if (a->active == LAB_ACTIVE_UNKNOWN) unknown |= (uint64_t)1 << i;
    }
    if (refuted)
        lab_gate_add(b, "activation", true, refuted, "invalid arm: %s was not what it claims to be%s%.100s",
                     lab_arm_names(b, refuted, text, sizeof text), why ? ": " : "", why ? why : "");
    else if (unknown == all_arms(b))
        lab_gate_add(b, "activation", false, 0, "no arm tells whether what it is about was at work");
    else if (unknown && !b->v.question.unproven_allowed)
        lab_gate_add(b, "activation", true, unknown, "not proven to be active: %s",
                     lab_arm_names(b, unknown, text, sizeof text));
    else if (unknown)
        lab_gate_add(b, "activation", true, 0, "allowed although not proven to be active: %s",
                     lab_arm_names(b, unknown, text, sizeof text));
    else
        lab_gate_add(b, "activation", true, 0, "every arm was proven to be what it claims to be");
}

/* ---- manifests ---- */

static bool same_child(const json *c, const json *in) {
    return lab_same_json(c, json_get_n(in, c->key, c->key_len));
}

bool lab_same_json(const json *a, const json *b) {
    if (!a || !b || a->kind != b->kind) return false;
    switch (a->kind) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return a->truth == b->truth;
    case JSON_NUMBER:
        return a->number == b->number || (isnan(a->number) && isnan(b->number));
    case JSON_TEXT:
        return a->len == b->len && !memcmp(a->text, b->text, a->len);
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    if (a->count != b->count) return false;
    const json *d = b->child;
    for (const json *c = a->child; c; c = c->next, d = d->next)
        if (a->kind == JSON_ARRAY ? !lab_same_json(c, d) : !same_child(c, b)) return false;
    return true;
}

static const json *protocol_of(const lab_sample *s) {
    const json *p = json_get(s->manifest, "protocol");
    return p && p->kind != JSON_NULL ? p : NULL;
}

static const json *device_of(const lab_sample *s) {
    const json *d = json_get(s->manifest, "device"), *name = json_get(d, "name");
    if (name) d = name;
    return d && d->kind == JSON_TEXT ? d : NULL;
}

typedef const json *reader(const lab_sample *s);

/* Arms for which the first that is told (the reference's, where it tells) is told otherwise; in *silent those that do
 * not tell. Samples between which nothing changed share their tree's text, so most comparisons are short. */
static uint64_t differing(const lab_box *b, reader *read, uint64_t *silent, const json **first) {
    uint64_t bad = 0, told = 0;
    *first = NULL;
    for (int i = 0; i < b->pick_count && !*first; i++)
        if (!b->picks[i].arm) *first = read(b->picks[i].s);
    for (int i = 0; i < b->pick_count; i++) {
        const json *v = read(b->picks[i].s);
        if (!v) continue;
        told |= (uint64_t)1 << b->picks[i].arm;
        if (!*first) *first = v;
        if (!lab_same_json(*first, v)) bad |= (uint64_t)1 << b->picks[i].arm;
    }
    *silent = told ? all_arms(b) & ~told : 0;
    return bad;
}

/* The member in which two protocols differ, for the message. */
static const char *difference(const json *a, const lab_box *b, uint64_t arms, reader *read) {
    for (int i = 0; i < b->pick_count; i++) {
        const json *v = read(b->picks[i].s);
        if (!v || !(arms >> b->picks[i].arm & 1) || a->kind != JSON_OBJECT || v->kind != JSON_OBJECT) continue;
        for (const json *c = a->child; c; c = c->next)
            if (!same_child(c, v)) return c->key;
        for (const json *c = v->child; c; c = c->next)
            if (!same_child(c, a)) return c->key;
    }
    return "all";
}

static void gate_protocol(lab_box *b) {
    const json *protocol, *device;
    uint64_t silent, quiet, other = differing(b, protocol_of, &silent, &protocol);
    uint64_t elsewhere = differing(b, device_of, &quiet, &device);
    char text[120];
    const char *but = (other | silent) & b->ceilings ? ", but for ceilings" : "";
    other &= ~b->ceilings, silent &= ~b->ceilings;
    if (other)
        lab_gate_add(b, "protocol", true, other, "another protocol (%.60s): %s",
                     difference(protocol, b, other, protocol_of), lab_arm_names(b, other, text, sizeof text));
    else if (elsewhere)
        lab_gate_add(b, "protocol", true, elsewhere, "not on %.60s: %s", device->text,
                     lab_arm_names(b, elsewhere, text, sizeof text));
    else if (silent)
        lab_gate_add(b, "protocol", true, silent, "no protocol told by %s, while others tell one",
                     lab_arm_names(b, silent, text, sizeof text));
    else
        lab_gate_add(b, "protocol", protocol != NULL, 0, protocol ? "one protocol for all arms%s" : "not told%s",
                     protocol ? but : "");
}

/* Outputs can be compared only where they repeat: greedy, or with a fixed seed. */
static void gate_sampling(lab_box *b) {
    uint64_t bad = 0;
    bool told = false;
    double hot = 0;
    char text[120];
    for (int i = 0; i < b->pick_count; i++) {
        const json *p = protocol_of(b->picks[i].s), *inner = json_get(p, "sampling");
        const json *t = json_get(p, "temperature"), *seed = json_get(p, "seed");
        if (!t) t = json_get(inner, "temperature");
        if (!seed) seed = json_get(inner, "seed");
        if (!t || t->kind != JSON_NUMBER) continue;
        told = true;
        if (t->number == 0 || (seed && seed->kind != JSON_NULL)) continue;
        bad |= (uint64_t)1 << b->picks[i].arm;
        hot = t->number;
    }
    if (bad)
        lab_gate_add(b, "sampling", true, bad, "temperature %g without a seed does not repeat: not comparable (%s)",
                     hot, lab_arm_names(b, bad, text, sizeof text));
    else
        lab_gate_add(b, "sampling", told, 0, told ? "greedy, or with a seed" : "not told");
}

/* ---- the machine ---- */

static bool others_at_work(const json *v) {
    if (!v) return false;
    switch (v->kind) {
    case JSON_NULL:
        return false;
    case JSON_BOOL:
        return v->truth;
    case JSON_NUMBER:
        return v->number > 0;
    case JSON_TEXT:
        return v->len > 0;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return v->count > 0;
}

enum { VISITS_MOST = 64 };
static const double seconds_least = 0.5; /* a shorter visit says nothing: CPU time is counted in ticks */

/* CPUs that others used during each visit of an arm, as far as it is told; *most: in the worst so far. */
static int others_cpus(const lab_box *b, int arm, double *out, double *most) {
    int n = 0, visit = 0;
    for (int i = 0; i < b->pick_count && n < VISITS_MOST; i++) {
        const json *v = json_get(b->picks[i].s->manifest, "visit"), *used = json_get(v, "others_cpus");
        const json *seconds = json_get(v, "seconds");
        if (b->picks[i].arm != arm || b->picks[i].s->visit == visit || !used || used->kind != JSON_NUMBER) continue;
        if (seconds && seconds->number < seconds_least) continue;
        visit = b->picks[i].s->visit;
        out[n++] = used->number;
        if (!(used->number <= *most)) *most = used->number;
    }
    return n;
}

/* What others use always is in every arm's noise; what they use beside one arm only looks like a difference. By half a
 * CPU, and by more than chance does: bursts fall where they fall. */
static uint64_t uneven_load(const lab_box *b, double *most) {
    uint64_t bad = 0;
    double reference[VISITS_MOST], arm[VISITS_MOST];
    *most = NAN;
    int n = others_cpus(b, 0, reference, most);
    double mean = lab_mean(reference, n), bound = mean > 2 ? mean / 4 : 0.5;
    for (int i = 1; i < b->v.arm_count; i++) {
        lab_welch w = lab_welch_of(reference, n, arm, others_cpus(b, i, arm, most));
        if (fabs(w.difference) > bound && lab_welch_p(&w) < 0.01) bad |= (uint64_t)1 << i;
    }
    return bad;
}

static uint64_t disturbed(const lab_box *b, bool *told, char *found, size_t size) {
    uint64_t bad = 0;
    *told = false;
    *found = 0;
    for (int i = 0; i < b->pick_count; i++) {
        const json *had = json_get(b->picks[i].s->manifest, "exclusive");
        const json *others = json_get(b->picks[i].s->manifest, "others");
        bool says = had && had->kind == JSON_BOOL, busy = others_at_work(others);
        *told = *told || says || others;
        if (!(says && !had->truth) && !busy) continue;
        bad |= (uint64_t)1 << b->picks[i].arm;
        if (busy && !*found) json_describe(others->kind == JSON_ARRAY ? others->child : others, found, size);
    }
    return bad;
}

static void gate_exclusive(lab_box *b) {
    char text[120], found[64];
    bool told;
    double most;
    uint64_t bad = disturbed(b, &told, found, sizeof found), uneven = uneven_load(b, &most);
    if (bad)
        lab_gate_add(b, "exclusive", true, bad, "not alone on the machine: %s%s%s",
                     lab_arm_names(b, bad, text, sizeof text), *found ? ": " : "", found);
    else if (uneven)
        lab_gate_add(b, "exclusive", true, uneven, "others used the CPUs unlike in visits of %.40s: %s",
                     b->v.arms[0].name, lab_arm_names(b, uneven, text, sizeof text));
    else if (!isnan(most))
        lab_gate_add(b, "exclusive", true, 0, "others used up to %.2f CPUs%s", most, told ? "; the lock was held" : "");
    else
        lab_gate_add(b, "exclusive", told, 0, told ? "no other experiment was at work" : "not told");
}

/* ---- the order of visits ---- */

/* How far apart the middles of two arms lie, among their own visits: 0 side by side, 1 one after the other. */
static double apart(const lab_arm_figures *a, const lab_arm_figures *b) {
    double sum_a = 0, sum_b = 0;
    int i = 0, k = 0;
    for (int at = 1; i < a->visits || k < b->visits; at++) {
        if (k == b->visits || (i < a->visits && a->visit_orders[i] <= b->visit_orders[k]))
            sum_a += at, i++;
        else
            sum_b += at, k++;
    }
    return fabs(sum_a / a->visits - sum_b / b->visits) / ((a->visits + b->visits) / 2.0);
}

static uint64_t gate_interleaved(lab_box *b) {
    const lab_arm_figures *r = &b->v.arms[0];
    uint64_t bad = 0;
    bool told = false;
    char text[120];
    for (int i = 1; i < b->v.arm_count; i++) {
        const lab_arm_figures *a = &b->v.arms[i];
        if (!a->visits || !r->visits || a->visits + r->visits < 3) continue;
        told = true;
        if (apart(r, a) > 0.5 + 1e-9) bad |= (uint64_t)1 << i;
    }
    if (!told)
        lab_gate_add(b, "interleaved", false, 0, "one visit each: nothing to interleave");
    else if (!bad)
        lab_gate_add(b, "interleaved", true, 0, "visits of all arms alternate");
    else
        lab_gate_add(b, "interleaved", true, b->v.question.blocks_allowed ? 0 : bad,
                     "in blocks%s, not side by side with %.60s: %s", b->v.question.blocks_allowed ? " (allowed)" : "",
                     r->name, lab_arm_names(b, bad, text, sizeof text));
    return bad;
}

cadre_err lab_gates(lab_box *b, cadre_fail *why) {
    gate_failed(b);
    gate_activation(b);
    cadre_err err = lab_gates_outputs(b, why);
    if (err) return err;
    gate_protocol(b);
    gate_sampling(b);
    gate_exclusive(b);
    lab_drift(b, !gate_interleaved(b));
    return CADRE_OK;
}
