/* router.c: one row of logits to k experts and their weights (docs/numerics.md, "Router").
 * Scores are what a chosen expert weighs; choices are what it is chosen by: score plus bias, NaN as minus infinity. */
#include <math.h>

#include "op/op.h"

static float no_nan(float v) {
    return v == v ? v : -INFINITY;
}

/* A logit equal to the largest scores exp(0) even if both are infinite, so no row makes a NaN. */
static void softmax(const float *logits, int e, float *scores) {
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < e; i++) {
        if (logits[i] > top) top = logits[i];
    }
    for (int i = 0; i < e; i++) {
        float v = no_nan(logits[i]);
        scores[i] = v == top ? 1.0f : op_exp(v - top);
        sum = sum + scores[i];
    }
    for (int i = 0; i < e; i++) scores[i] = scores[i] / sum;
}

static void score(const op_router *r, const float *logits, float *scores, float *choices) {
    if (r->gate == CADRE_SOFTMAX) {
        softmax(logits, r->e, scores);
    } else {
        for (int i = 0; i < r->e; i++) scores[i] = op_sigmoid(no_nan(logits[i]));
    }
    for (int i = 0; i < r->e; i++) {
        float choice = r->bias != NULL ? scores[i] + r->bias[i] : scores[i];
        choices[i] = logits[i] == logits[i] ? no_nan(choice) : -INFINITY;
    }
}

/* ---- groups ---- */

typedef struct place {
    float score;
    int id;
} place;

static bool before(place a, place b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

static place place_of(const op_router *r, const float *choices, int group) {
    int size = r->e / r->groups;
    const float *c = choices + (size_t)group * (size_t)size;
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < size; i++) {
        if (c[i] > first) {
            second = first;
            first = c[i];
        } else if (c[i] > second) {
            second = c[i];
        }
    }
    if (r->bias == NULL || size == 1) return (place){first, group};
    return (place){no_nan(first + second), group};
}

/* The last group that is kept. Walking down the order needs no memory for who was taken. */
static place last_kept(const op_router *r, const float *choices) {
    place last = {INFINITY, -1};
    for (int t = 0; t < r->topk_groups; t++) {
        place next = {-INFINITY, r->groups};
        for (int g = 0; g < r->groups; g++) {
            place p = place_of(r, choices, g);
            if (before(last, p) && before(p, next)) next = p;
        }
        last = next;
    }
    return last;
}

/* ---- choice ---- */

typedef struct chosen {
    const float *choices;
    int32_t *ids; /* best first */
    int count, k;
    bool tie_up; /* planted: a tie goes to the higher id */
} chosen;

static bool wins(const chosen *c, int a, int b) {
    return c->choices[a] > c->choices[b] || (c->tie_up && c->choices[a] == c->choices[b]);
}

/* Experts come by rising id, so one that only equals another stays behind it. */
static void offer(chosen *c, int id) {
    int s = c->count;
    if (c->count < c->k)
        c->count++;
    else if (!wins(c, id, c->ids[--s]))
        return;
    for (; s > 0 && wins(c, id, c->ids[s - 1]); s--) c->ids[s] = c->ids[s - 1];
    c->ids[s] = id;
}

static bool has(const chosen *c, int id) {
    for (int s = 0; s < c->count; s++) {
        if (c->ids[s] == id) return true;
    }
    return false;
}

static void choose(const op_router *r, chosen *c) {
    bool grouped = r->groups > 1 && r->topk_groups < r->groups;
    int groups = grouped ? r->groups : 1, size = r->e / groups;
    place last = grouped ? last_kept(r, c->choices) : (place){0};
    for (int g = 0; g < groups; g++) {
        if (grouped && before(last, place_of(r, c->choices, g))) continue;
        for (int i = g * size; i < (g + 1) * size; i++) offer(c, i);
    }
    /* Kept groups that hold fewer than k experts: the rest is minus infinity everywhere, so the lowest ids. */
    for (int i = 0; i < r->e && c->count < c->k; i++) {
        if (!has(c, i)) c->ids[c->count++] = i;
    }
}

static void weigh(const op_router *r, const float *scores, const int32_t *ids, float *weights) {
    float sum = 0.0f;
    for (int s = 0; s < r->k; s++) {
        weights[s] = scores[ids[s]];
        sum = sum + weights[s];
    }
    if (r->renormalize != fault_planted(FAULT_RENORM)) {
        if (r->gate == CADRE_SIGMOID) sum = sum + 1e-20f;
        if (sum > 0.0f) { /* a bias can choose experts that all weigh nothing */
            for (int s = 0; s < r->k; s++) weights[s] = weights[s] / sum;
        }
    }
    if (r->scale != 0.0f && r->scale != 1.0f) {
        for (int s = 0; s < r->k; s++) weights[s] = weights[s] * r->scale;
    }
}

void op_route(const op_router *r, const float *logits, int32_t *ids, float *weights, float *scratch) {
    float *scores = scratch, *choices = scratch + r->e;
    score(r, logits, scores, choices);
    chosen c = {choices, ids, 0, r->k, fault_planted(FAULT_TIE)};
    choose(r, &c);
    weigh(r, scores, ids, weights);
}
