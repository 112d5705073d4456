/* bench.h: what the passes of `cadre bench` and its report share. */
#ifndef CMD_BENCH_H
#define CMD_BENCH_H
#include "attribution.h"
#include "expect.h"
#include "job.h"
#include "measure.h"
#include "open.h"

typedef struct bench_opts {
    opts_common common;
    expect_opts expect;
    const char *model, *random, *weights, *prompts, *mtp, *out;
    int prompt_len, gen_len, batch, context, chunk, warmup, repeat, top_k, probe_mb;
    double temperature, top_p;
    uint64_t seed;
    bool ignore_eos, profile;
} bench_opts;

/* Everything measured in one pass, kept for the medians. */
typedef struct pass {
    double *ttft, *tpot; /* [requests], NaN: not measured */
    double wall_ms, rate, out_rate, allocations;
    double minor_faults, major_faults; /* page faults: served from memory, from the disk */
    double itl_median, itl_p99;
    double step_ms, step_bytes;      /* of a decode step, means of the pass */
    double gbps, floor_ms, of_floor; /* read bandwidth around the pass, bytes over it, that over step_ms */
    char sha[65];
} pass;

typedef struct bench {
    const bench_opts *o;
    const opened *m;
    cadre_sampling sampling;
    prompts prompts;
    job job;
    pass *passes;           /* [repeat] */
    probe probe;            /* device NULL: the weights fit the caches, so memory sets no floor */
    double gbps;            /* last probe */
    cadre_profile *profile; /* NULL: not wanted */
    attribution_list attributions;
    char run[13];
    bool ignore_ends, differs;
} bench;

/* `protocol`: what must be equal for two results to be compared. Nothing is kept from one pass to the next: prompts are
 * computed anew, `prefix_cache` is "none". */
void bench_put_protocol(json_out *o, const bench *b);
/* Opens the object of request i, for a sample and for the result: id, lengths, hash. The caller adds times, closes. */
void bench_open_request(json_out *o, const gen_request *r, int i);
int bench_report(const bench *b, int status);
#endif
