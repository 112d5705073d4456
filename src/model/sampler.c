/* sampler.c: logits to one token: greedy, or drawn from the softmax at a temperature, cut by top-k and top-p.
 *
 * A draw needs the candidates by falling logit only as far as it reaches: they lie in a heap and are popped on demand,
 * the popped ones collecting behind it. Sums are in double; the noise is a pure function of (seed, sequence, position).
 */
#include "model/session.h"

#include <float.h>
#include <math.h>

typedef struct ranking {
    sample_candidate *heap; /* [left] a heap, then [n - left] popped ones in rising order */
    const float *weights;   /* by id */
    int n, left;
} ranking;

static bool before(sample_candidate a, sample_candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift(sample_candidate *heap, int n, int i) {
    sample_candidate v = heap[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], v)) break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

static void pop(ranking *r) {
    sample_candidate best = r->heap[0];
    r->heap[0] = r->heap[--r->left];
    r->heap[r->left] = best;
    if (r->left) sift(r->heap, r->left, 0);
}

/* The i-th candidate by falling logit. */
static sample_candidate nth(ranking *r, int i) {
    while (r->n - r->left <= i) pop(r);
    return r->heap[r->n - 1 - i];
}

static double weight(const ranking *r, sample_candidate c) {
    return r->weights[c.id];
}

/* Candidates are finite logits: NaN and masked ids are left out. Returns their whole weight, summed by rising id. */
static double rank(cadre_session *s, ranking *r, const float *logits, float best, float temperature) {
    double total = 0.0;
    int vocab = s->model->config.vocab;
    for (int id = 0; id < vocab; id++) s->weights[id] = (logits[id] - best) / temperature;
    op_exp_many(s->model->device->isa >= OP_ISA_AVX2, s->weights, vocab);
    for (int id = 0; id < vocab; id++)
        if (isfinite(logits[id])) {
            r->heap[r->n++] = (sample_candidate){logits[id], id};
            total += (double)s->weights[id];
        }
    r->left = r->n;
    for (int i = r->n / 2 - 1; i >= 0; i--) sift(r->heap, r->n, i);
    return total;
}

static int32_t draw(ranking *r, const cadre_sampling *o, double total, double unit) {
    int kept = r->n;
    if (o->top_k > 0 && o->top_k < kept) {
        kept = o->top_k;
        total = 0.0;
        for (int i = 0; i < kept; i++) total += weight(r, nth(r, i));
    }
    if (o->top_p > 0.0f && o->top_p < 1.0f) {
        double sum = 0.0, want = (double)o->top_p * total;
        int i = 0;
        while (i < kept && sum < want) sum += weight(r, nth(r, i++));
        kept = i, total = sum;
    }
    double sum = 0.0, target = unit * total;
    int32_t last = nth(r, 0).id; /* for a target that rounding left at the very end */
    for (int i = 0; i < kept; i++) {
        double w = weight(r, nth(r, i));
        if ((sum += w) > target) return nth(r, i).id;
        if (w > 0.0) last = nth(r, i).id;
    }
    return last;
}

static cadre_err check_sampling(const cadre_sampling *o, cadre_fail *why) {
    if (!(o->temperature >= 0.0f) || !isfinite(o->temperature))
        return cadre_fail_set(why, CADRE_RANGE, "temperature is %g, expected 0 or more", (double)o->temperature);
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return cadre_fail_set(why, CADRE_RANGE, "top_p is %g, expected 0..1", (double)o->top_p);
    if (o->top_k < 0) return cadre_fail_set(why, CADRE_RANGE, "top_k is %d, expected 0 or more", o->top_k);
    return CADRE_OK;
}

/* Greedy also when the best is not finite, or the temperature is so small that dividing by it would flush. */
static int32_t choose(cadre_session *s, const float *logits, const cadre_sampling *o, double unit) {
    int best = op_argmax(logits, s->model->config.vocab);
    if (!(o->temperature >= FLT_MIN) || !isfinite(logits[best])) return best;
    ranking r = {.heap = s->candidates, .weights = s->weights};
    double total = rank(s, &r, logits, logits[best], o->temperature);
    return draw(&r, o, total, unit);
}

cadre_err cadre_session_sample(cadre_session *s, int i, const cadre_sampling *o, uint64_t sequence, uint64_t position,
                               int32_t *id, cadre_fail *why) {
    if (!s || !o || !id) return cadre_fail_set(why, CADRE_RANGE, "cadre_session_sample: an argument is NULL");
    const float *logits = cadre_session_logits(s, i);
    if (!logits)
        return cadre_fail_set(why, CADRE_RANGE, "row %d has no logits, the last step has %d rows", i,
                              s->step.logit_rows);
    cadre_err err = check_sampling(o, why);
    if (err) return err;
    uint64_t mode = pool_enter_mode(), start = s->profile ? clock_ns() : 0;
    *id = choose(s, logits, o, rand_unit(o->seed, sequence, position));
    pool_leave_mode(mode);
    if (s->profile) profile_book(s->profile, &(profile_op){.op = "sample"}, clock_ns() - start, 0);
    return CADRE_OK;
}
