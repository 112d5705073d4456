/* bench.c: `cadre bench`: end to end, over prompts of a file or of random ids; every pass's raw times are kept. */
#include "bench.h"
#include "commands.h"
#include "random_model.h"
#include <math.h>
#include <string.h>

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(bench_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    OPTS_MODEL(bench_opts, model),
    O(0, "--random-weights", OPTS_TEXT, "CONFIG", random, 0, 0,
      "no checkpoint: random weights in the shape of a config.json (or of a folder's)"),
    O(0, "--prompt-len", OPTS_INT, "N", prompt_len, 1, 1 << 24, "random ids per prompt (default 128)"),
    O(0, "--gen-len", OPTS_INT, "N", gen_len, 0, 1 << 24, "tokens to generate per prompt (default 128)"),
    O(0, "--batch", OPTS_INT, "B", batch, 1, 4096, "sequences side by side (default 1)"),
    O(0, "--prompts", OPTS_TEXT, "FILE", prompts, 0, 0,
      "JSON lines with the key prompt or question, B at a time, in place of random ids"),
    O(0, "--warmup", OPTS_INT, "N", warmup, 0, 1000, "passes that are kept as samples but not counted (default 1)"),
    O(0, "--repeat", OPTS_INT, "N", repeat, 1, 1000, "passes that count (default 3)"),
    O(0, "--ctx", OPTS_INT, "N", context, 1, 1 << 24, "positions per sequence (default: enough)"),
    O(0, "--prefill-chunk", OPTS_INT, "N", chunk, 1, 1 << 16, "most prompt tokens in one step (default 512)"),
    O(0, "--mtp", OPTS_TEXT, "0", mtp, 0, 0, "draft depths; only 0 in this version"),
    O(0, "--temp", OPTS_REAL, "T", temperature, 0, 100, "temperature (default 0: greedy)"),
    O(0, "--top-k", OPTS_INT, "K", top_k, 0, 1 << 24, "only the K likeliest tokens (default 0: all)"),
    O(0, "--top-p", OPTS_REAL, "P", top_p, 0, 1, "only the likeliest tokens that make up P (default 0: all)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of random ids, random weights and sampling (default 0)"),
    O(0, "--ignore-eos", OPTS_FLAG, NULL, ignore_eos, 0, 0, "go on after an end token (always so with random ids)"),
    OPTS_WEIGHTS(bench_opts, weights),
    O(0, "--probe-mb", OPTS_INT, "N", probe_mb, 16, 1 << 20,
      "memory that a bandwidth probe reads (default: 1 GiB or 16 last-level caches)"),
    O(0, "--out", OPTS_TEXT, "FILE", out, 0, 0, "raw samples are appended here (default bench-samples.jsonl)"),
    O(0, "--profile", OPTS_FLAG, NULL, profile, 0, 0,
      "after each counted pass one more that is watched: the time of its decode steps by op and kernel"),
    EXPECT_OPTS(bench_opts, expect),
    OPTS_EVERYWHERE(bench_opts),
};
#undef O

static const char *const examples[] = {
    "cadre bench --profile",
    "the demo model, one sequence, and where the time of its steps goes",
    "cadre bench --random-weights config.json --batch 8 --gen-len 64",
    "the speed of a shape, without its checkpoint",
    "cadre bench --prompts questions.jsonl --batch 4 --repeat 5 --json",
    "your own prompts, for a script",
    NULL,
};
static const char notes[] =
    "TTFT: start to first token. TPOT: (last - first token) / (tokens - 1). ITL: the gaps\n"
    "between tokens, pooled. Figures are medians over the counted passes.\n"
    "Floor of a decode step: the bytes it must read (matrices, experts that have rows, keys and\n"
    "values) / read bandwidth probed before and after each pass; 1 is the floor. None when the\n"
    "weights are less than four last-level caches.\n"
    "--profile: rows of watched decode steps; they and what is in no row sum up to the step. Overhead: a watched\n"
    "step over one that is not. Waiting: of the leading thread for the others, part of the row's time.\n";

/* ---- one pass ---- */

static double per_step(const gen_result *g, double v) {
    return g->decode_steps ? v / g->decode_steps : NAN;
}

static attribution watched_steps(const bench *b, const gen_result *g) {
    return attribution_of(b->profile, g->decode_steps, (double)g->decode_ns / 1e3);
}

typedef struct sample {
    int visit;
    bool warmup, watched;
    double gbps[2];
} sample;

static void put_sample(json_out *o, const bench *b, const gen_result *g, const sample *s) {
    say_sample_open(o, "bench");
    json_put_text(o, "run", b->run);
    json_put_int(o, "visit", s->visit);
    json_put_bool(o, "warmup", s->warmup);
    json_put_bool(o, "profiled", s->watched);
    json_put_real(o, "wall_ms", (double)g->wall_ns / 1e6);
    json_put_real(o, "decode_ms", (double)g->decode_ns / 1e6);
    json_put_int(o, "decode_tokens", g->decode_tokens);
    json_put_int(o, "steps", g->steps);
    json_put_int(o, "decode_steps", g->decode_steps);
    json_put_real(o, "step_bytes", per_step(g, (double)g->decode_bytes));
    json_put_real(o, "gbps_before", s->gbps[0]);
    json_put_real(o, "gbps_after", s->gbps[1]);
    json_put_real(o, "allocs_per_step", gen_allocs_per_step(g));
    json_put_int(o, "minor_faults", (int64_t)g->minor_faults);
    json_put_int(o, "major_faults", (int64_t)g->major_faults);
    json_open(o, "requests", '[');
    for (int i = 0; i < b->job.count; i++) {
        const gen_request *r = &b->job.requests[i];
        bench_open_request(o, r, i);
        json_open(o, "at_ms", '[');
        for (int k = 0; k < r->count; k++) json_put_real(o, NULL, (double)r->at_ns[k] / 1e6);
        json_close(o, ']');
        json_close(o, '}');
    }
    json_close(o, ']');
    if (s->watched) {
        attribution a = watched_steps(b, g);
        attribution_put_raw(o, &a);
    }
    json_put_int(o, "prompt_tokens", g->prompt_tokens); /* that were computed */
    bench_put_protocol(o, b);
    open_put_sampling(o, &b->sampling);
    open_put_manifest(o, b->m->device, b->m->dir, b->m->info.numerics);
    json_close(o, '}');
}

static cadre_err keep_sample(const bench *b, const gen_result *g, const sample *s, cadre_fail *why) {
    json_out o = {0};
    put_sample(&o, b, g, s);
    cadre_err err = open_append(b->o->out, &o, why);
    json_out_free(&o);
    return err;
}

static void pool_gaps(const job *j, pass *p) {
    int n = 0;
    for (int i = 0; i < j->count; i++) n += j->requests[i].count > 1 ? j->requests[i].count - 1 : 0;
    double *gaps = mem_new_array((size_t)n, sizeof *gaps);
    p->itl_median = p->itl_p99 = NAN;
    if (!gaps) return;
    n = 0;
    for (int i = 0; i < j->count; i++)
        for (int k = 1; k < j->requests[i].count; k++)
            gaps[n++] = (double)(j->requests[i].at_ns[k] - j->requests[i].at_ns[k - 1]) / 1e6;
    p->itl_median = stat_median(gaps, n);
    p->itl_p99 = stat_quantile(gaps, n, 0.99);
    mem_free(gaps);
}

static void keep_pass(const bench *b, const gen_result *g, const double gbps[2], pass *p) {
    for (int i = 0; i < b->job.count; i++) {
        p->ttft[i] = gen_ttft_ms(&b->job.requests[i]);
        p->tpot[i] = gen_tpot_ms(&b->job.requests[i]);
    }
    p->wall_ms = (double)g->wall_ns / 1e6;
    p->rate = job_rate(g);
    p->out_rate = g->tokens ? (double)g->tokens * 1e9 / (double)g->wall_ns : NAN;
    p->allocations = gen_allocs_per_step(g);
    p->minor_faults = (double)g->minor_faults;
    p->major_faults = (double)g->major_faults;
    p->step_ms = per_step(g, (double)g->decode_ns / 1e6);
    p->step_bytes = per_step(g, (double)g->decode_bytes);
    p->gbps = (gbps[0] + gbps[1]) / 2;
    p->floor_ms = p->step_bytes / p->gbps / 1e6;
    p->of_floor = p->floor_ms / p->step_ms;
    pool_gaps(&b->job, p);
    job_sha(&b->job, p->sha);
}

/* Generates once more and keeps the sample. *s comes with visit and kind. */
static cadre_err generate_all(bench *b, sample *s, gen_result *g, cadre_fail *why) {
    gen_options options = {
        .sampling = &b->sampling, .ignore_ends = b->ignore_ends, .profile = s->watched ? b->profile : NULL};
    s->gbps[0] = b->gbps, s->gbps[1] = NAN;
    cadre_err err = job_run(&b->job, &options, NULL, g, why);
    if (b->probe.device) b->gbps = s->gbps[1] = probe_gbps(&b->probe);
    return err ? err : keep_sample(b, g, s, why);
}

static void compare_sha(bench *b) {
    char sha[65];
    job_sha(&b->job, sha);
    if (strcmp(sha, b->passes[0].sha)) b->differs = true;
}

static cadre_err watched_pass(bench *b, int visit, const pass *beside, cadre_fail *why) {
    gen_result g;
    sample s = {.visit = visit, .watched = true};
    cadre_profile_clear(b->profile);
    cadre_err err = generate_all(b, &s, &g, why);
    if (err) return err;
    attribution a = watched_steps(b, &g);
    a.step_us = beside->step_ms * 1e3;
    a.gbps = (s.gbps[0] + s.gbps[1]) / 2;
    err = attribution_keep(&b->attributions, &a, why);
    compare_sha(b);
    return err;
}

static cadre_err one_pass(bench *b, int visit, cadre_fail *why) {
    int counted = visit - b->o->warmup;
    gen_result g;
    sample s = {.visit = visit, .warmup = counted < 0};
    say_progress("pass %d of %d%s", visit + 1, b->o->warmup + b->o->repeat, counted < 0 ? " (warm-up)" : "");
    cadre_err err = generate_all(b, &s, &g, why);
    if (err || counted < 0) return err;
    keep_pass(b, &g, s.gbps, &b->passes[counted]);
    compare_sha(b);
    return b->profile ? watched_pass(b, visit, &b->passes[counted], why) : CADRE_OK;
}

/* ---- the command ---- */

static cadre_err make_prompts(bench *b, cadre_fail *why) {
    const bench_opts *o = b->o;
    if (o->prompts) return prompts_add_jsonl(&b->prompts, b->m->model, o->prompts, why);
    cadre_err err = CADRE_OK;
    for (int i = 0; i < o->batch && !err; i++)
        err = prompts_add_random(&b->prompts, b->m->info.tokens, o->prompt_len, o->seed, why);
    return err;
}

static cadre_err make_passes(bench *b, cadre_fail *why) {
    size_t n = (size_t)b->job.count;
    b->passes = mem_new_array((size_t)b->o->repeat, sizeof *b->passes);
    bool ok = b->passes != NULL;
    for (int i = 0; i < b->o->repeat && ok; i++) {
        b->passes[i].ttft = mem_new_array(n, sizeof(double));
        b->passes[i].tpot = mem_new_array(n, sizeof(double));
        ok = b->passes[i].ttft && b->passes[i].tpot;
    }
    return ok ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "out of memory for the figures");
}

/* Weights of less than four caches may be read from them: no floor then. */
static cadre_err make_probe(bench *b, cadre_fail *why) {
    cadre_device *device = b->m->device;
    b->gbps = NAN;
    if (b->m->info.weight_bytes / 4 < dev_last_cache(device)) return CADRE_OK;
    size_t bytes = b->o->probe_mb ? (size_t)b->o->probe_mb << 20 : measure_probe_bytes(device);
    cadre_err err = probe_init(&b->probe, device, bytes, why);
    if (!err) b->gbps = probe_gbps(&b->probe);
    return err;
}

static cadre_err measure(bench *b, cadre_fail *why) {
    const bench_opts *o = b->o;
    job_options options = {.name = b->m->dir,
                           .most = o->gen_len,
                           .batch = o->batch,
                           .context = o->context,
                           .chunk = o->chunk,
                           .times = true};
    b->ignore_ends = o->ignore_eos || !o->prompts;
    b->sampling = (cadre_sampling){(float)o->temperature, o->top_k, (float)o->top_p, o->seed};
    measure_run_id(b->run);
    cadre_err err = make_prompts(b, why);
    if (!err) err = job_init(&b->job, b->m->model, &b->prompts, &options, why);
    if (!err) err = make_passes(b, why);
    if (!err && o->profile) err = cadre_profile_new(b->m->device, &b->profile, why);
    if (!err) err = make_probe(b, why);
    for (int i = 0; i < o->warmup + o->repeat && !err; i++) err = one_pass(b, i, why);
    say_progress_end();
    return err;
}

static void done(bench *b) {
    for (int i = 0; b->passes && i < b->o->repeat; i++) {
        mem_free(b->passes[i].ttft);
        mem_free(b->passes[i].tpot);
    }
    mem_free(b->passes);
    probe_done(&b->probe);
    if (b->job.requests) job_done(&b->job);
    cadre_profile_free(b->profile);
    mem_free(b->attributions.at);
    prompts_done(&b->prompts);
}

/* The folder of random weights is only needed while the model is opened. */
static cadre_err open_for(const bench_opts *o, opened *m, cadre_fail *why) {
    char dir[OPEN_PATH_MAX];
    if (!o->random) return open_prepared(&o->common, o->model, o->weights, m, why);
    if (o->model || o->prompts)
        return cadre_fail_set(why, CADRE_RANGE, "--random-weights goes without -m and --prompts: it has no tokenizer");
    cadre_err err = random_model_write(o->random, o->seed, dir, why);
    if (err) return err;
    *m = (opened){0};
    snprintf(m->dir, sizeof m->dir, "random weights of %s", o->random);
    err = open_device(&o->common, &m->device, why);
    cadre_listen(NULL, NULL); /* what is said about the temporary folder helps nobody */
    if (!err) err = open_model(m->device, dir, o->weights, &m->model, why);
    say_start();
    random_model_remove(dir);
    if (err)
        open_close(m);
    else
        cadre_model_get_info(m->model, &m->info);
    return err;
}

static int run(void) {
    static bench_opts o = {.prompt_len = 128,
                           .gen_len = 128,
                           .batch = 1,
                           .chunk = 512,
                           .warmup = 1,
                           .repeat = 3,
                           .out = "bench-samples.jsonl"};
    cadre_fail why = {0};
    opened m;
    int status;
    if (!opts_read(&bench_command, &o, &status)) return status;
    if (!opts_only_zero("--mtp", o.mtp, &why) || open_for(&o, &m, &why)) return say_failed(&why);
    bench b = {.o = &o, .m = &m};
    status = measure(&b, &why) ? say_failed(&why) : bench_report(&b, b.differs ? EXIT_NO : EXIT_FINE);
    status = expect_model(&o.expect, m.model, status);
    done(&b);
    open_close(&m);
    return status;
}

const opts_command bench_command = {"bench", "measure generation end to end", notes, OPTS_TABLE(defs), examples, run};
