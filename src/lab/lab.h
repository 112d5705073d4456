/* lab.h: experiments whose verdicts hold. Arms are commands; runs are interleaved; gates come before any difference;
 * statistics have names; every experiment is kept.
 *
 *   experiment.json -> lab_experiment -> lab_run -> samples.jsonl (append only) -> lab_samples -> lab_verdict -> report
 *                                                                                            '-> lab_stack -'
 * Nothing here knows what is measured: cadre, another engine and a shell script are all commands that print numbers.
 * Prints nothing; starts processes through base/process only. */
#ifndef CADRE_LAB_LAB_H
#define CADRE_LAB_LAB_H
#include "base/base.h"

/* ---- samples (samples.c): what was measured, one JSON object a line ---- */

typedef enum lab_active { LAB_ACTIVE_UNKNOWN = -1, LAB_ACTIVE_NO, LAB_ACTIVE_YES } lab_active;

/* Numbers that were not told are NaN, texts NULL. Texts and manifest belong to the lab_samples they came from. */
typedef struct lab_sample {
    const char *run;    /* id of the run: one execution of one experiment */
    const char *arm;    /* its name */
    int visit;          /* of this arm, from 1: one fresh process. Not told: lines of one arm that follow each other are
                           one visit, as long as their iterations go on */
    int order;          /* of the visit among all visits of the run, from 1. Not told: as in the file */
    int iteration;      /* within the visit, from 1; 0: not told */
    bool warmup;        /* kept, and left out of every figure */
    const char *metric; /* "tpot_ms" */
    const char *unit;   /* "ms" */
    double value;       /* NaN: not measured (null); never 0 for that */
    double tokens;      /* emitted by the requests of this sample, counted from ids or usage */
    double failed;      /* requests that failed */
    const char *family; /* digest over the digests of all requests, in the order of their ids */
    const json *requests; /* array of {id, sha256}; NULL: not told */
    double accepted;      /* draft tokens accepted, the bonus token not counted */
    double drafts;        /* drafts made (one a step) */
    double draft_tokens;  /* tokens in them */
    lab_active active;    /* was what the arm is about proven to be at work? */
    const char *why;      /* the expectation that was not met */
    const char *started;  /* of the visit, UTC */
    double load, mhz, celsius;
    /* What ran (docs/lab.md): experiment_sha256, aa, role ("reference", "arm"; "anchor": the reference again at the
     * end), command, env, switches, program and files with hashes, sampling as the program told it, numerics, machine,
     * visit {seconds, status, error, ...}. Gates read: protocol (any JSON, equal over the arms; of an object also
     * temperature and seed, at its top or in `sampling`), device (a text, or an object with a name), exclusive (true:
     * had; false: not had; missing: not asked), others (a text, a count or an array: what else was at work) and
     * visit.others_cpus (CPUs that others used meanwhile: must not differ between arms; visit.seconds). */
    const json *manifest;
} lab_sample;

typedef struct lab_samples lab_samples;
/* Reads a file of samples, in the order of the file. Lines of other kinds (a "kind" that is not "ab") are passed over;
 * a torn last line (a killed writer) is passed over and counted. Errors: IO, FORMAT (file:line: what), NOMEM. */
cadre_err lab_samples_read(const char *path, lab_samples **out, cadre_fail *why);
cadre_err lab_samples_parse(const char *name, const char *text, size_t len, lab_samples **out, cadre_fail *why);
/* From memory: copies the structs, borrows texts and trees. visit and order 0: as above. Errors: RANGE, NOMEM. */
cadre_err lab_samples_new(const lab_sample *items, int count, lab_samples **out, cadre_fail *why);
void lab_samples_free(lab_samples *s);
int lab_samples_count(const lab_samples *s);
const lab_sample *lab_samples_at(const lab_samples *s, int i);
int lab_samples_line(const lab_samples *s, int i); /* of the file, from 1; 0: from memory */
bool lab_samples_torn(const lab_samples *s);
/* One line with its end of line, for file_append. */
void lab_sample_write(const lab_sample *s, json_out *o);

/* ---- statistics (stat.c, permutation.c, power.c): each with its known-answer test ---- */

double lab_mean(const double *v, int n);
double lab_sd(const double *v, int n); /* n - 1 below; NaN under two */
/* Root of the mean of the groups' variances, weighted by their degrees of freedom. */
double lab_pooled_sd(const double *const *groups, const int *counts, int groups_count);
/* Exact two-sided permutation p of the difference of means, all relabellings counted. Above LAB_EXACT_MOST relabellings
 * Monte Carlo, seeded: 100000 of them (2000 and more for over 2000 values) with the counted +1 rule, or as many as it
 * takes to meet 400 that are as extreme, and p is 400 / drawn. */
enum { LAB_EXACT_MOST = 2000000 };
double lab_permutation_p(const double *a, int na, const double *b, int nb, uint64_t seed, bool *exact);
/* The smallest p that na against nb can give: 1 / choose(na + nb, na); twice that where na = nb. */
double lab_permutation_floor(int na, int nb);
/* Percentile bootstrap of mean(b) / mean(a), resampling within each arm. */
void lab_bootstrap_ratio(const double *a, int na, const double *b, int nb, double level, int resamples, uint64_t seed,
                         double interval[2]);
/* Welch interval of the mean of log b less the mean of log a, as a ratio. All values > 0, else NaNs. */
void lab_log_ratio(const double *a, int na, const double *b, int nb, double level, double interval[2]);
/* Visits per arm that tell a relative effect from none with the power wanted, when the sd between visits is `sd`
 * (relative); at least 2. 0: not known (sd or effect is 0 or NaN), or more than LAB_VISITS_MOST. */
enum { LAB_VISITS_MOST = 100000 };
int lab_visits_needed(double effect, double sd, double level, double power);
/* Of Welch's t on logs of visit means; NaN under two visits. The exact p over samples asks for a little more where an
 * arm has fewer than 6 samples in all. */
double lab_power(int visits, double effect, double sd, double level);

/* ---- the verdict (verdict.c, gate.c) ---- */

typedef enum lab_better { LAB_LOWER, LAB_HIGHER } lab_better;
/* By the unit, or where it is "" by the metric's name; false: neither says. */
bool lab_better_by(const char *unit, const char *metric, lab_better *out);
typedef enum lab_outcome { LAB_WIN, LAB_LOSS, LAB_WITHIN_NOISE, LAB_UNDERPOWERED, LAB_REFUSED } lab_outcome;
const char *lab_outcome_name(lab_outcome o); /* "win", "loss", "within_noise", "underpowered", "refused" */

typedef struct lab_question {
    const char *run;    /* NULL: the last one that has two arms; all samples if none has */
    const char *metric; /* NULL: the only one in the samples */
    lab_better better;  /* used when `better_told`; else from the unit: times lower, rates higher */
    bool better_told;
    const char *reference; /* arm; NULL: the arm of order 1 */
    double
        effect; /* smallest that matters, relative: 0.01. One that is told from none, but estimated below this, is
                   within_noise: so plan (lab_visits_needed) for what is hoped for, and state here what is worth it */
    double noise_floor;  /* relative, of a run of equal arms (A/A) before: a smaller difference never wins; 0: none */
    double level, power; /* 0.05, 0.8 */
    double acceptance_bound; /* largest difference of acceptance length that counts as equal: 0.05 */
    const char *untouched; /* metrics that the change must leave alone, "ttft_ms,load_ms"; NULL: none. An arm that moves
                              one, by `effect` and beyond its noise, is no clean isolation: refused */
    const char
        *ceilings;         /* arms in which something was made free, "a,b"; NULL: none. They tell the most that it could
                              bring: their outputs, tokens, acceptance and protocol may be others, the verdict as a whole
                              does not count them, and no claim is made from them. Names that are not there say nothing */
    const char *floor;     /* metric of the same samples and unit that is measured with nothing to do (an empty launch):
                              the judged one can't go below it. An arm that does was not measured right: refused */
    bool blocks_allowed;   /* arms that were not interleaved are refused unless this */
    bool unproven_allowed; /* arms that declare nothing about being active pass; one refuted never does */
    bool per_token;        /* token counts may differ: values are per token by their meaning; labelled */
    int resamples;         /* 10000; fewer are drawn where samples are over 5000; 0: no bootstrap */
    uint64_t seed;
} lab_question;
lab_question lab_question_default(void);

typedef struct lab_arm_figures {
    const char *name;
    int n, visits, left_out, unmeasured; /* samples used; visits; warm-ups left out; null values */
    const double *values;                /* [n], in order of time */
    const int *visit_of;                 /* [n] index into visit_means */
    const double *visit_means;           /* [visits], in order of time */
    const int *visit_orders;             /* [visits] lab_sample.order of each */
    double mean, median, sd, low, high;  /* sd with n - 1 */
    double within_sd;                    /* pooled over visits */
    double failed, tokens;
    double acceptance_length; /* 1 + accepted / drafts; NaN without drafts */
    double accepted_per_draft, acceptance_rate;
    double per_step;    /* mean x acceptance length, of a time per token; NaN else */
    const char *family; /* NULL: not told, or several */
    int families;
    lab_active active;
    const char *why;
} lab_arm_figures;

enum { LAB_GATES_MOST = 16, LAB_ARMS_MOST = 64 };
typedef struct lab_gate {
    const char *name; /* "family", "tokens", "acceptance", "activation", "protocol", "interleaved", "drift", "failed",
                         "exclusive", "sampling", "untouched", "floor"; and "derived", which is always ok: other metrics
                         that are this one in other words, so that they are no further evidence */
    bool ok;          /* false: no difference is told of the arms below */
    bool told;        /* the samples speak of it */
    uint64_t arms;    /* bit i: arms[i] fails it; bit 0 (the reference) refuses every contrast */
    char why[240];    /* what was found, also when it is fine */
} lab_gate;

/* One arm against the reference. Ratios are arm / reference. */
typedef struct lab_contrast {
    const lab_arm_figures *arm, *reference;
    lab_outcome outcome;
    bool ceiling;                    /* the arm is one of the question's ceilings */
    char why[240];                   /* one sentence: why this outcome */
    double delta;                    /* mean less mean, in the unit */
    double ratio;                    /* of means, drift corrected where the verdict says so */
    double p_interval;               /* two-sided, of the interval's t */
    double interval[2];              /* of the ratio, at 1 - level: over visits, the one the outcome is made from */
    const char *estimator;           /* its name: "Welch t on logs of visit means, 6 + 6 visits" */
    double bootstrap[2];             /* of the ratio, over samples */
    double log_ratio[2];             /* of the ratio, over samples */
    double p, p_floor;               /* exact permutation over samples; these three less the drift if corrected */
    double p_visits, p_visits_floor; /* over visit means; NaN under two visits */
    double p_adjusted;               /* Holm over the contrasts of the verdict, of the larger of p and p_interval */
    double separation;   /* best of the worse arm to worst of the better; > 0: every sample of one beats the other */
    const double *pairs; /* [pair_count] visit i of the arm / visit i of the reference - 1 */
    int pair_count;
    double per_step_ratio; /* NaN without acceptance */
    double noise;          /* relative sd between visits of equal set-ups, pooled over both arms; NaN: not known */
    double noise_floor; /* relative: what two equal set-ups would show in this many visits (1 - level of the time), or
                           what equal arms of this run or the question did show, if more. Less never wins */
    int visits_needed;  /* per arm, to tell `effect` from none at this noise; 0: not known */
} lab_contrast;

typedef struct lab_verdict {
    lab_outcome outcome;             /* of the only contrast; with several: the worst kind among them (refused first) */
    const char *run, *metric, *unit; /* run: NULL for all samples */
    int runs;                        /* in the samples */
    lab_better better;
    lab_question question;
    lab_arm_figures *arms; /* [arm_count], the reference first */
    int arm_count;
    lab_contrast *contrasts; /* [arm_count - 1] */
    lab_gate gates[LAB_GATES_MOST];
    int gate_count;
    double drift, drift_sd; /* relative, of the reference from its first to its last visit; in sds of its noise, as a
                               normal deviate (few visits count less). NaN: not known */
    bool drift_corrected;   /* a straight line over the order of visits was taken out of the logs of visit means */
    double drift_slope;     /* its slope, per visit; 0 if not corrected */
    double floor;           /* mean of the question's floor in the reference's visits; NaN: none */
    const lab_samples *samples; /* borrowed */
} lab_verdict;
/* Errors: RANGE (no such metric, arm or run; nothing says what is better; more than LAB_ARMS_MOST arms), FORMAT (the
 * same sample twice), NOMEM. Gates that fail are no error: outcome LAB_REFUSED. The samples must live as long. */
cadre_err lab_verdict_new(const lab_samples *s, const lab_question *q, lab_verdict **out, cadre_fail *why);
void lab_verdict_free(lab_verdict *v);

/* ---- stacks (stack.c): 2^k designs ---- */

enum { LAB_FACTORS_MOST = 6 };
typedef struct lab_effect {
    char name[160];                          /* "a", "a x b" */
    unsigned mask;                           /* bit i: factor i */
    double alone;                            /* relative change of this mask's arm against none */
    double additive;                         /* what the sum of the single differences predicts for the arm's mean */
    double multiplicative;                   /* what the product of the single ratios predicts */
    double additive_gap, multiplicative_gap; /* measured / predicted - 1 */
    double interval[2];                      /* of the multiplicative gap */
    double additive_interval[2];
} lab_effect;
typedef struct lab_stack {
    const char *factors[LAB_FACTORS_MOST];
    int factor_count;
    lab_effect *effects;                    /* [2^k - 1], by mask from 1 */
    double leave_one_out[LAB_FACTORS_MOST]; /* all / all but this one - 1 */
    double leave_interval[LAB_FACTORS_MOST][2];
    lab_verdict *verdict; /* of all arms against none */
} lab_stack;              /* texts are copied; the samples must live as long */
/* Effects whose arms are not there, or refused by a gate, are NaN. One factor alone predicts itself: gaps 0, intervals
 * NaN. Intervals: delta method and Welch's degrees of freedom over visits.
 * `factors` names the factors in the order of the bits; arm_masks[i] is the mask of arm_names[i]; all 2^k masks are
 * there (or the singles, none and all: then only those effects are told). Errors: as lab_verdict_new. */
cadre_err lab_stack_new(const lab_samples *s, const lab_question *q, const char *const *factors, int factor_count,
                        const char *const *arm_names, const unsigned *arm_masks, int arm_count, lab_stack **out,
                        cadre_fail *why);
void lab_stack_free(lab_stack *s);

/* ---- experiments (experiment*.c, program.c): the file that describes the arms; docs/lab.md tells its keys ---- */

typedef enum lab_reader { LAB_READ_JSON, LAB_READ_PATTERN, LAB_READ_WALL } lab_reader; /* WALL: seconds of the visit */
/* Where a figure is found in what a command wrote: a path into JSON (find.h), or a pattern whose first group is the
 * number. A path or pattern that matches several times gives several iterations. The rows of `programs` (cadre run,
 * cadre bench, cadre bench moe, vllm bench serve, llama-bench) are tables of these, in program.c. */
typedef struct lab_metric {
    const char *name, *unit;
    lab_reader reader;
    const char *where; /* ".requests[].tpot_ms" or a pattern */
    const char *label; /* member of the nearest object around the figure whose value is added to the name, so that
                          figures of several set-ups in one output stay apart: "us@8"; NULL: none */
    double scale;      /* 1 */
} lab_metric;

typedef struct lab_counter {
    const char *name;
    lab_reader reader;
    const char *where;
    double low, high;
} lab_counter;

typedef struct lab_arm {
    const char *name;
    const char *const *argv;  /* NULL ends; as in the file: {dir}, {visit}, {order} stand for what differs by visit */
    const char *const *env;   /* "NAME=VALUE", NULL ends; the lab's own environment is passed on except CADRE_SET */
    const char *const *set;   /* switches "name=value": --set arguments for cadre commands, recorded */
    const char *const *files; /* tables and others whose content is part of the arm: hashed into the manifest */
    const char *const *must, *const *must_not; /* patterns over stdout, stderr, the files that the visit left and
                                                  receipts; NULL ends */
    const lab_counter *counters;
    int counter_count;
    const char *const *factors; /* of a stack: those that are on; NULL ends */
    const char *prediction;     /* written before the run; NULL: none */
    double predicted;           /* relative change predicted; NaN */
    double predicted_delta;     /* the same as a difference in the metric's unit: what a microbenchmark saw; NaN */
    bool ceiling;               /* something is made free in it: the most that it could bring (lab_question.ceilings) */
} lab_arm;

/* Where the outputs of the requests are found, for their digests: one of `sha256`, `ids` (token ids, hashed as
 * little-endian int32), `text` (paths) or `pattern` (its first group, else all of it, is hashed as text). */
typedef struct lab_outputs {
    const char *sha256, *ids, *text, *pattern; /* at most one is not NULL; none: not told */
    const char *id;                            /* member beside it that names the request; NULL: by position */
} lab_outputs;

typedef enum lab_order { LAB_INTERLEAVED, LAB_BALANCED, LAB_BLOCKS } lab_order;
typedef struct lab_experiment {
    const char *name, *asks; /* the question in words */
    lab_question question;
    const lab_arm *arms; /* the reference is arm `reference` */
    int arm_count, reference;
    const lab_metric *metrics; /* the file's own, else the program's */
    int metric_count;
    const char *const *factors; /* of a stack, NULL ends; NULL: none */
    const char *program;        /* whose table of readers is used; NULL: none */
    const char *output;         /* file in the visit's folder that holds the figures; NULL: stdout, then stderr */
    lab_outputs outputs;
    bool aa; /* the arms are equal on purpose: the noise is what is asked for */
    lab_order order;
    int visits, warmup;   /* per arm: that count, and before them those that are kept and left out */
    int iterations, skip; /* figures that a visit must give (0: any number); the first of them that are left out */
    double timeout_s, pause_s;
    bool exclusive;            /* take the machine's lock */
    const json *protocol;      /* what must be equal over the arms: prompt, lengths, batch, sampling; NULL: not told */
    const char *path, *sha256; /* of the file */
    const char *folder;        /* that holds it: commands start there, and relative files are found there */
} lab_experiment;
/* Errors: IO, FORMAT ("exp.json:7:20: ..."), RANGE, NOMEM. */
cadre_err lab_experiment_read(const char *path, lab_experiment **out, cadre_fail *why);
void lab_experiment_free(lab_experiment *e);
/* Arm of each visit, by the order: (warmup + visits) x arm_count of them, and the reference's own last visit, for
 * drift, on top. The number of all; at most `cap` are written. */
int lab_experiment_order(const lab_experiment *e, int *arms, int cap);
/* The names of the programs that have a table of readers, and of the metrics of each; NULL past the end. */
const char *lab_program_name(int program);
const lab_metric *lab_program_metric(int program, int i);

/* What an arm is, as one object: program and files with hashes, command, env, switches, protocol, machine. `cadre` is
 * the file that a command's first word "cadre" means. Errors: IO (a file or program that is not there), NOMEM. */
cadre_err lab_manifest(const lab_experiment *e, int arm, const char *cadre, json_doc **out, cadre_fail *why);
/* Those of all arms, [arm_count], for json_free. RANGE: arms that do not differ, unless it is an A/A; else as above. */
cadre_err lab_manifests(const lab_experiment *e, const char *cadre, json_doc **out, cadre_fail *why);
/* Tells each member in which two manifests differ, by path; NULL: not there. Returns how many. */
int lab_manifest_diff(const json *a, const json *b,
                      void (*tell)(void *ctx, const char *path, const json *, const json *), void *ctx);

/* ---- runs (run*.c): interleaved, each visit a fresh process ---- */

typedef struct lab_run_watch {
    /* state "start", or when it is over "ok", "not active", "failed: exit status 3"; value: mean of the metric asked
     * for, NaN */
    void (*visit)(void *ctx, const lab_experiment *e, int order, int of, int arm, const char *state, double value);
    void *ctx;
} lab_run_watch;
typedef struct lab_run_setup {
    const char *folder; /* holds samples.jsonl, the experiment's copy and every visit's stdout and stderr */
    const char *lock;   /* the machine's lock file */
    const char *cadre;  /* the file that "cadre" means in commands */
    bool wait;          /* until the lock is free, instead of BUSY */
    bool resume;        /* go on after the last whole visit; the experiment must be the same */
    const volatile sig_atomic_t *stop; /* turns to something: end the visit in flight and return; NULL: none */
    lab_run_watch watch;
} lab_run_setup;
typedef struct lab_run_result {
    char run[40], samples[4096];
    int visits, failed, unproven; /* visits made in all; of them ended badly; without proof of activation */
    bool stopped;
} lab_run_result;
/* Errors: IO (cannot start, cannot write), RANGE (the folder holds another experiment, or samples and no `resume`; a
 * metric that the first visit of an arm does not show), BUSY (another holds the lock). A visit that fails is a sample
 * with `failed`, not an error. */
cadre_err lab_run(const lab_experiment *e, const lab_run_setup *setup, lab_run_result *out, cadre_fail *why);

/* ---- the ledger (ledger.c): every experiment, negatives too, one append-only file ---- */

typedef struct lab_entry {
    const char *id, *date, *name, *asks, *outcome, *text; /* text: what was found, one line */
    const char *experiment_sha256, *samples, *samples_sha256, *supersedes;
    double ratio, interval[2];
} lab_entry;
typedef struct lab_ledger lab_ledger;
cadre_err lab_ledger_read(const char *path, lab_ledger **out, cadre_fail *why);
void lab_ledger_free(lab_ledger *l);
int lab_ledger_count(const lab_ledger *l);
const lab_entry *lab_ledger_at(const lab_ledger *l, int i);
const lab_entry *lab_ledger_superseder(const lab_ledger *l, int i); /* NULL: none */
/* Whether the file of samples is still what was measured: LAB_KEPT, ... of an entry without samples: LAB_KEPT. */
typedef enum lab_kept { LAB_KEPT, LAB_CHANGED, LAB_GONE } lab_kept;
lab_kept lab_ledger_check(const lab_entry *e);
/* The members of an entry into an open object. */
void lab_entry_json(const lab_entry *e, json_out *o);
/* RANGE: no entry has this id, so that none could supersede it. */
cadre_err lab_ledger_has(const char *path, const char *id, cadre_fail *why);
/* Adds one line. `id` NULL: it is made from the rest, or that of an entry which says the same of the same samples, and
 * nothing is added; `date` NULL: now; `samples_sha256` NULL: of the file. `id` is told in `made` (may be NULL). Errors:
 * RANGE (supersedes an id that is not there), IO. */
cadre_err lab_ledger_add(const char *path, const lab_entry *e, char made[16], cadre_fail *why);

/* ---- reports (report_*.c): from a verdict, and a stack if there is one; nothing is typed by hand ---- */

typedef enum lab_format { LAB_TEXT, LAB_MARKDOWN, LAB_JSON, LAB_HTML } lab_format;
typedef struct lab_profile_row {
    const char *op, *kernel;
    double launches, us, share, floor_us; /* per step */
} lab_profile_row;
typedef struct lab_report {
    const char *title, *asks, *command; /* command: what recomputes this report */
    const lab_verdict *verdict;
    const lab_stack *stack;           /* NULL: none */
    const lab_experiment *experiment; /* NULL: samples alone */
    const lab_profile_row *profile;   /* where a step's time goes; NULL: none */
    int profile_count;
} lab_report;
/* The report as one text, for mem_free. */
cadre_err lab_report_write(const lab_report *r, lab_format format, char **text, size_t *len, cadre_fail *why);
/* What came out for one contrast, a sentence for people; cut at size. */
void lab_verdict_say(const lab_verdict *v, int contrast, char *text, size_t size);
/* The tables that show why a gate refuses (outputs, acceptance, activation, order, by arm and visit) as text for
 * mem_free; NULL or "" if none does. Errors: NOMEM. */
cadre_err lab_verdict_evidence(const lab_verdict *v, char **text, cadre_fail *why);
/* The members of `ab verdict --json` into an open object. e: whose predictions stand beside what came; NULL: none. */
void lab_verdict_json(const lab_verdict *v, const lab_experiment *e, json_out *o);
void lab_stack_json(const lab_stack *s, json_out *o);

/* ---- predictions (conversion.c): how much of what was predicted came? ---- */

typedef struct lab_conversion {
    double predicted, measured; /* relative changes; NaN: not told */
    double conversion;          /* measured / predicted; NaN: one is not told, or none was predicted */
    double interval[2];         /* of the conversion, from that of the ratio */
    bool odd;                   /* below 0.5 or above 1.1: what the prediction says of the step is not what happens */
    bool below_floor;           /* the prediction goes below the floor: it can't come */
    bool before_run;            /* the samples are of this very file: the prediction was written before they were */
} lab_conversion;
/* Of one contrast; false: the experiment (may be NULL) predicts nothing of its arm, in words or as a number. */
bool lab_conversion_of(const lab_experiment *e, const lab_verdict *v, int contrast, lab_conversion *out);
/* "conversion 0.88 (0.81 to 0.95): -2.54 % predicted, -2.24 % measured"; what it means where it is odd; "" where there
 * is no number to convert. */
void lab_conversion_say(const lab_conversion *c, char *text, size_t size);

/* ---- claims (claims*.c): figures of a text against each other and against samples ---- */

typedef struct lab_claim {
    int line;                  /* 1-based */
    const char *text;          /* the words around the figure */
    const char *rule;          /* "change", "ratio", "mean", "sd", "sum", "product", "count", "unit", ... */
    double stated, recomputed; /* NaN: none */
    bool ok;
    bool note; /* nothing is wrong by arithmetic, and yet it should be read: two figures that are one measurement */
    const char *why; /* "8.08 / 2.11 = 3.829" */
} lab_claim;
typedef struct lab_claims lab_claims;
/* Errors: FORMAT (not text), NOMEM. `samples` NULL: only what the text quotes. */
cadre_err lab_claims_new(const char *text, size_t len, const lab_samples *samples, lab_claims **out, cadre_fail *why);
void lab_claims_free(lab_claims *c);
int lab_claims_count(const lab_claims *c);
const lab_claim *lab_claims_at(const lab_claims *c, int i);
/* Figures that nothing in the text determines. */
int lab_claims_unchecked(const lab_claims *c);
#endif
