/* job.h: all prompts of a run in groups of `batch`, one session for all; may be run again and again. */
#ifndef CMD_JOB_H
#define CMD_JOB_H
#include "generate.h"
#include "prompts.h"

typedef struct job_options {
    const char *name; /* of the model, for a refusal */
    int most;         /* tokens to generate per prompt */
    int batch;        /* sequences side by side */
    int context;      /* 0: enough for the longest prompt and its tokens, at most the model's own */
    int chunk;        /* most prompt tokens in one step */
    bool times;       /* keep when each token came */
} job_options;

typedef struct job {
    cadre_model *model;
    cadre_session *session;
    gen_request *requests; /* [count], in the order of the prompts; sequence = index */
    int count, batch, chunk;
    cadre_memory memory; /* planned */
} job;

/* Packs the model's weights if that is still to be done, and if they fit beside the session. */
cadre_err job_init(job *j, cadre_model *model, const prompts *p, const job_options *options, cadre_fail *why);
void job_done(job *j);
/* `done` (may be NULL) is told when requests first..first+n-1 have ended. The request number that gen_options'
 * callbacks get counts inside the group. Results of the groups are added up in *total. */
cadre_err job_run(job *j, const gen_options *options, void (*done)(void *ctx, int first, int n), gen_result *total,
                  cadre_fail *why);

/* Tokens per second of decode steps, NaN without one. */
double job_rate(const gen_result *r);
/* SHA-256 over the ids of all requests in order. */
void job_sha(const job *j, char hex[65]);
/* Requests that ended for this reason. */
int job_ended(const job *j, gen_end end);
#endif
