/* cadre_lab.h: verdicts over measurements, for programs that measure: samples in, an outcome with its ratio, interval
 * and p out. It is what `cadre ab verdict` says of a file of samples; running arms is the command's.
 *
 *   cadre_lab_sample s[] = {{.arm = "off", .visit = 1, .iteration = 1, .value = 11.2}, ...};
 *   cadre_lab_verdict *v;
 *   cadre_lab_question q = {.metric = "tpot_ms", .unit = "ms"};
 *   if (!cadre_lab_verdict_new(s, n, &q, &v, &why)) printf("%s\n", cadre_lab_verdict_contrast(v, 0)->why);
 *   cadre_lab_verdict_free(v);
 *
 * A visit is one fresh process of an arm. Iterations of one visit are not independent, so that outcomes are made from
 * visits: two of each arm at least, interleaved (off on off on ...), and more where the machine is noisy.
 * The rules of cadre.h hold: errors are returned, nothing is printed, objects that are made here are freed here. Any
 * number of threads may use this at once, each its own verdict. In every struct 0 means: not told, or the default. */
#ifndef CADRE_LAB_H
#define CADRE_LAB_H
#include "cadre.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum cadre_lab_active {
    CADRE_LAB_NOT_TOLD,
    CADRE_LAB_ACTIVE,  /* what the arm is about was proven to be at work */
    CADRE_LAB_INACTIVE /* was proven not to be: the arm is refused */
} cadre_lab_active;

typedef struct cadre_lab_sample {
    const char *arm;       /* its name */
    double value;          /* finite; NaN: not measured */
    int visit;             /* of the arm, from 1. 0: samples of an arm that follow each other are one visit while their
                              iterations go on */
    int order;             /* of the visit among all visits, from 1. 0: as the samples come */
    int iteration;         /* within the visit, from 1 */
    bool warmup;           /* left out of every figure */
    double tokens, failed; /* put out; requests that failed */
    const char *family;    /* digest of all that was put out: must be equal over the arms */
    double accepted, drafts, draft_tokens; /* of speculative decoding */
    cadre_lab_active active;
} cadre_lab_sample;

typedef enum cadre_lab_better { CADRE_LAB_BY_UNIT, CADRE_LAB_LOWER, CADRE_LAB_HIGHER } cadre_lab_better;

typedef struct cadre_lab_question {
    const char *metric, *unit; /* "tpot_ms", "ms"; for words, and for what is better (times: less, rates: more) */
    cadre_lab_better better;
    const char *reference;   /* arm. Default: that of the first visit */
    double effect;           /* smallest relative difference that matters. Default 0.01 */
    double level, power;     /* defaults 0.05, 0.8 */
    double acceptance_bound; /* of the acceptance length. Default 0.05 */
    double noise_floor;      /* what equal arms showed before; a smaller difference never wins */
    bool blocks_allowed;     /* arms that were not interleaved are refused unless this */
    bool unproven_allowed;   /* arms that tell nothing of being active, while others do */
    bool per_token;          /* token counts may differ */
    int resamples;           /* of the bootstrap. Default 10000; below 0: none */
    uint64_t seed;
} cadre_lab_question;

typedef enum cadre_lab_outcome {
    CADRE_LAB_WIN,
    CADRE_LAB_LOSS,
    CADRE_LAB_WITHIN_NOISE, /* no difference that matters */
    CADRE_LAB_UNDERPOWERED, /* nothing can be said; visits_needed */
    CADRE_LAB_REFUSED       /* a gate objects; why */
} cadre_lab_outcome;
const char *cadre_lab_outcome_name(cadre_lab_outcome outcome); /* "win", ..., "within_noise", ... */

/* One arm against the reference. NaN: not known. Texts belong to the verdict. */
typedef struct cadre_lab_contrast {
    const char *arm, *reference;
    cadre_lab_outcome outcome;
    const char *why;                    /* one sentence */
    double mean, reference_mean;        /* over samples */
    double ratio;                       /* of the means, arm / reference; a drift of the machine taken out */
    double interval[2];                 /* of the ratio, at 1 - level, over visits */
    double bootstrap[2];                /* of the ratio, over samples */
    double p, p_floor;                  /* exact permutation over samples; the least that so many samples can give */
    double p_interval;                  /* of the interval's t */
    double p_adjusted;                  /* Holm over all arms */
    double noise, noise_floor;          /* relative sd between visits; difference that equal arms would show */
    int samples, visits, visits_needed; /* of the arm; needed per arm to tell `effect`, 0: not known */
} cadre_lab_contrast;

typedef struct cadre_lab_gate {
    const char *name; /* "family", "tokens", "acceptance", "activation", "interleaved", "drift", "failed" and others */
    bool ok, told;    /* told: the samples speak of it */
    const char *why;
} cadre_lab_gate;

/* Samples and question are copied. Errors: RANGE (fewer than two arms, more than 64, no such reference, a sample
 * without arm or with an infinite value, a level out of (0, 1), nothing says what is better), FORMAT (the same sample
 * twice), NOMEM. Gates that object are no error: their arms are CADRE_LAB_REFUSED. */
typedef struct cadre_lab_verdict cadre_lab_verdict;
cadre_err cadre_lab_verdict_new(const cadre_lab_sample *samples, int count, const cadre_lab_question *question,
                                cadre_lab_verdict **out, cadre_fail *why);
void cadre_lab_verdict_free(cadre_lab_verdict *verdict); /* NULL is fine */
/* The outcome of the only arm; of several the worst: refused, loss, underpowered, within_noise, win. */
cadre_lab_outcome cadre_lab_verdict_outcome(const cadre_lab_verdict *verdict);
/* The i-th arm beside the reference, the i-th gate; NULL past the last. Borrowed. */
const cadre_lab_contrast *cadre_lab_verdict_contrast(const cadre_lab_verdict *verdict, int i);
const cadre_lab_gate *cadre_lab_verdict_gate(const cadre_lab_verdict *verdict, int i);

/* Visits per arm that tell a relative effect from none with this power, when visits of equal arms differ by `sd`
 * (relative); 0: more than 100000, or not known. */
int cadre_lab_visits_needed(double effect, double sd, double level, double power);

#ifdef __cplusplus
}
#endif
#endif
