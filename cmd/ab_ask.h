/* ab_ask.h: the question that `ab verdict`, `ab stack` and `ab report` share: samples, an experiment if there is one,
 * and what the options say against its question. */
#ifndef CMD_AB_ASK_H
#define CMD_AB_ASK_H
#include "lab/lab.h"
#include "opts.h"

typedef struct ask_opts {
    opts_common common;
    opts_rest samples;
    const char *experiment, *run, *metric, *better, *reference, *untouched, *ceilings, *floor;
    double effect, noise_floor, level, power, acceptance; /* NaN: not told */
    bool blocks, unproven, per_token;
    int resamples;
    uint64_t seed;
} ask_opts;
#define ASK_DEFAULTS \
    { .effect = NAN, .noise_floor = NAN, .level = NAN, .power = NAN, .acceptance = NAN, .seed = UINT64_MAX }

/* T has an ask_opts `ask` as its first member. */
#define ASK_ROW(T, letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(T, letter, name, kind, arg, ask.member, low, high, what)
#define ASK_FILE(T)                                                    \
    ASK_ROW(T, 0, "SAMPLES.jsonl|DIR", OPTS_REST, NULL, samples, 0, 0, \
            "what was measured, one JSON object a line; or the folder of a run")
#define ASK_ROWS(T)                                                                                                 \
    ASK_ROW(T, 0, "--experiment", OPTS_TEXT, "FILE", experiment, 0, 0,                                              \
            "its description: the question, unless options say another (default: DIR's own)"),                      \
        ASK_ROW(T, 0, "--run", OPTS_TEXT, "ID", run, 0, 0, "which run (default: the last that has two arms)"),      \
        ASK_ROW(T, 0, "--metric", OPTS_TEXT, "NAME", metric, 0, 0, "which metric, when the samples hold several"),  \
        ASK_ROW(T, 0, "--better", OPTS_WORD, "lower|higher", better, 0, 0,                                          \
                "what is better (default by the unit: times lower, rates higher)"),                                 \
        ASK_ROW(T, 0, "--reference", OPTS_TEXT, "ARM", reference, 0, 0,                                             \
                "what the others are compared with (default: the arm of the first visit)"),                         \
        ASK_ROW(T, 0, "--effect", OPTS_REAL, "R", effect, 1e-6, 10,                                                 \
                "the smallest relative difference that matters (default 0.01)"),                                    \
        ASK_ROW(T, 0, "--noise-floor", OPTS_REAL, "R", noise_floor, 0, 10,                                          \
                "what a run of equal arms showed: a smaller difference never wins"),                                \
        ASK_ROW(T, 0, "--level", OPTS_REAL, "P", level, 1e-6, 0.5, "1 - level is the interval's (default 0.05)"),   \
        ASK_ROW(T, 0, "--power", OPTS_REAL, "P", power, 0.5, 0.9999, "of the visits needed (default 0.8)"),         \
        ASK_ROW(T, 0, "--acceptance", OPTS_REAL, "D", acceptance, 0, 100,                                           \
                "acceptance lengths that differ by no more are equal (default 0.05)"),                              \
        ASK_ROW(T, 0, "--untouched", OPTS_TEXT, "NAMES", untouched, 0, 0,                                           \
                "metrics that the change must leave alone, \"ttft_ms,load_ms\"; an arm that moves one is refused"), \
        ASK_ROW(T, 0, "--ceilings", OPTS_TEXT, "ARMS", ceilings, 0, 0,                                              \
                "arms in which something was made free: the most that it could bring"),                             \
        ASK_ROW(T, 0, "--floor", OPTS_TEXT, "NAME", floor, 0, 0,                                                    \
                "metric measured with nothing to do, \"empty_us@256\": no arm goes below it"),                      \
        ASK_ROW(T, 0, "--blocks", OPTS_FLAG, NULL, blocks, 0, 0, "compare arms that were not interleaved"),         \
        ASK_ROW(T, 0, "--unproven", OPTS_FLAG, NULL, unproven, 0, 0,                                                \
                "compare arms that never declared what shows them at work"),                                        \
        ASK_ROW(T, 0, "--per-token", OPTS_FLAG, NULL, per_token, 0, 0,                                              \
                "compare arms that emitted other numbers of tokens, per token"),                                    \
        ASK_ROW(T, 0, "--resamples", OPTS_INT, "N", resamples, 100, 1000000, "of the bootstrap (default 10000)"),   \
        ASK_ROW(T, 0, "--seed", OPTS_SEED, "N", seed, 0, 0, "of bootstrap and sampled permutations"),               \
        ASK_ROW(T, 0, "--json", OPTS_FLAG, NULL, common.json, 0, 0, "one JSON object on stdout, text on stderr"), { \
        'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL                                                  \
    }

/* What was read; texts of the question point into the experiment and the options. */
typedef struct asked {
    char path[4096]; /* of the samples */
    lab_samples *samples;
    lab_experiment *experiment; /* NULL: none */
    lab_question question;
} asked;
cadre_err ask_open(const ask_opts *o, const char *command, asked *out, cadre_fail *why);
void ask_close(asked *a);

/* 0 for a win and for no difference that matters; 1 for a loss, too little data and a refused difference. */
int ask_status(const lab_verdict *v);

/* A stack's design: which factors each arm of the samples has on. */
typedef struct ask_design {
    const char *factors[LAB_FACTORS_MOST];
    int factor_count;
    const char *arms[LAB_ARMS_MOST];
    unsigned masks[LAB_ARMS_MOST];
    int arm_count;
    char text[LAB_FACTORS_MOST][80];
} ask_design;
/* From the experiment's arms, else the manifests' "factors", else the arms' names ("none", "a", "b", "a+b"). `list`
 * ("a,b") fixes the order of the factors, `none` the name of the arm without any; both may be NULL. Errors: RANGE. */
cadre_err ask_factors(const asked *a, const char *list, const char *none, ask_design *out, cadre_fail *why);
/* Does anything but names tell of factors? */
bool ask_has_factors(const asked *a);
/* The stack of the samples; arms beyond the design are left out. */
cadre_err ask_stack(const asked *a, const ask_design *d, lab_stack **out, cadre_fail *why);
#endif
