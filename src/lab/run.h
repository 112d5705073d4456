/* run.h: what the files that run an experiment share. Private to lab. */
#ifndef LAB_RUN_H
#define LAB_RUN_H
#include "experiment.h"
#include "machine.h"
#include "reading.h"

typedef struct run {
    const lab_experiment *e;
    const lab_run_setup *setup;
    lab_run_result *result;
    char folder[4096]; /* absolute */
    json_doc *manifests[LAB_ARMS_MOST];
    int done;                  /* whole visits that the file of samples holds */
    int visits[LAB_ARMS_MOST]; /* of them, by arm */
    int total, *order;         /* [total] arm of each visit */
    int lock;                  /* -1: not taken */
    cadre_fail *why;
} run;

/* run_resume.c: opens the folder, new or with samples; fills folder, done, visits and the result's run and counts. A
 * visit that was cut off is cut away. */
cadre_err run_open(run *r);

/* run_visit.c: one visit, its lines appended to the samples. *state: "ok", "failed", "not active". */
typedef struct run_turn {
    int order, arm, visit; /* from 1 but the arm; visit: of the arm */
    bool warmup, anchor;
    const char *state;
    char failed[220]; /* "failed: exit status 3" */
    double value;     /* mean of the metric asked for */
} run_turn;
cadre_err run_visit(run *r, run_turn *t);
#endif
