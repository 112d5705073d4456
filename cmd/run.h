/* run.h: what `cadre run` and its chat share. */
#ifndef CMD_RUN_H
#define CMD_RUN_H
#include "expect.h"
#include "job.h"
#include "open.h"

typedef struct run_opts {
    opts_common common;
    expect_opts expect;
    const char *model, *prompt, *file, *weights, *mtp;
    bool chat, ignore_eos, stats;
    int tokens, context, batch, chunk, top_k;
    double temperature, top_p; /* -1: not given; so is top_k */
    char *text;                /* of -f, mem_new memory */
    size_t len;
    uint64_t seed;
} run_opts;

/* Ctrl-C: the first one sets run_stopped, the second ends the process. */
extern volatile sig_atomic_t run_stopped;
void run_catch_interrupt(void);

/* --temp and its kind, each from the command line, else from generation_config, else greedy. */
cadre_sampling run_sampling(const run_opts *o, const cadre_model *model);

/* The JSON object, or what --stats and Ctrl-C ask for; says when a context was full. Returns an exit status. */
int run_report(const run_opts *o, const opened *m, const job *j, const gen_result *result);

/* Reads lines from standard input and answers each. Returns an exit status. */
int run_chat(const run_opts *o, const opened *m, cadre_fail *why);
#endif
