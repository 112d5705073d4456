/* verdict.h: what the files of a verdict share.
 *
 *   verdict.c  choose run, metric, arms; keep samples in order of time
 *   figures.c  figures of each arm and visit
 *   drift.c    the straight line over the order of visits
 *   gate.c, gate_outputs.c, gate_untouched.c, gate_floor.c    may differences be told at all?
 *   contrast.c one arm against the reference; the outcome */
#ifndef CADRE_LAB_VERDICT_H
#define CADRE_LAB_VERDICT_H
#include "stat.h"

/* One sample of the run and metric, in order of time. */
typedef struct lab_pick {
    const lab_sample *s;
    int arm;   /* index into the verdict's arms */
    int turn;  /* its iteration, or its place in the visit from 1: samples of equal turns did the same work */
    int place; /* in the samples */
} lab_pick;

typedef struct lab_box {
    lab_verdict v; /* first: what callers hold */
    void **held;   /* blocks of memory */
    int held_count, held_cap;
    lab_pick *picks;
    int pick_count;
    uint64_t ceilings;     /* arms that are */
    double **logs;         /* [arms][visits] logs of visit means, drift taken out; NULL where a mean is not positive */
    double line_middle;    /* the order at which nothing is taken out */
    double line_variance;  /* of drift_slope */
    double line_df;        /* of the residuals; 0: no line was fitted */
    double residual_scale; /* what the fit of the line costs: (V - arms) / (V - arms - 1); 1 without */
    double *room;          /* for permutations, bootstraps */
} lab_box;

/* Zeroed memory that goes with the verdict; NULL when there is none. */
void *lab_hold(lab_box *b, size_t count, size_t size);
cadre_err lab_no_memory(cadre_fail *why);

cadre_err lab_figures(lab_box *b, cadre_fail *why);
/* Fills drift*, takes the line out of the logs where it is needed and may be, adds the gate. */
void lab_drift(lab_box *b, bool interleaved);
/* All gates; those about outputs; about other metrics; one more. The text of `format` becomes its why. */
cadre_err lab_gates(lab_box *b, cadre_fail *why);
cadre_err lab_gates_outputs(lab_box *b, cadre_fail *why);
cadre_err lab_gate_untouched(lab_box *b, cadre_fail *why);
cadre_err lab_gate_floor(lab_box *b, cadre_fail *why);
/* The next name of "a, b,c" into name, cut at size; false at the end. */
bool lab_next_name(const char **list, char *name, size_t size);
void lab_gate_add(lab_box *b, const char *name, bool told, uint64_t arms, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Measured samples of the run with this metric, by arm, visit and iteration; `out` holds as many as there are samples.
 */
int lab_measurements(const lab_box *b, const char *metric, lab_pick *out);
int lab_by_measurement(const void *a, const void *b); /* two lab_picks, for qsort */
/* "a, c" of the arms in the mask; cut at size. */
const char *lab_arm_names(const lab_box *b, uint64_t arms, char *text, size_t size);
cadre_err lab_contrasts(lab_box *b, cadre_fail *why);

/* Mean of the orders of an arm's visits; 0 without any. */
double lab_order_mean(const lab_arm_figures *a);
/* Logs of visit means, arm less reference, as the verdict compares them. */
lab_welch lab_compare(const lab_box *b, int arm, int reference);
/* True when both are there and equal as JSON; the order of members does not count. */
bool lab_same_json(const json *a, const json *b);
#endif
