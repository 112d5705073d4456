/* run_report.c: the figures of a run, for people and for programs. */
#include "dev/dev.h"
#include "run.h"
#include <math.h>

/* Mean over the requests that have the figure; NaN if none has. */
static double mean(const job *j, double (*figure)(const gen_request *r)) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < j->count; i++) {
        double v = figure(&j->requests[i]);
        if (!isnan(v)) sum += v, n++;
    }
    return n ? sum / n : NAN;
}

static int64_t tokens_of(const job *j) {
    int64_t n = 0;
    for (int i = 0; i < j->count; i++) n += j->requests[i].count;
    return n;
}

/* ---- JSON ---- */

static void put_text(json_out *o, const cadre_model *m, const gen_request *r, int count) {
    growing g = {0};
    cadre_err err = CADRE_OK;
    for (int i = 0; i < count && !err; i++) err = prompts_decode(m, r[i].ids, r[i].count, &g, NULL);
    if (err)
        json_put_null(o, "text");
    else
        json_put_text_n(o, "text", g.text ? g.text : "", g.len);
    mem_free(g.text);
    json_open(o, "token_ids", '[');
    for (int i = 0; i < count; i++)
        for (int k = 0; k < r[i].count; k++) json_put_int(o, NULL, r[i].ids[k]);
    json_close(o, ']');
}

static void put_request(json_out *o, const cadre_model *m, const gen_request *r, int i) {
    char hex[65];
    gen_sha(r->ids, r->count, hex);
    json_open(o, NULL, '{');
    json_put_int(o, "id", i);
    put_text(o, m, r, 1);
    json_put_text(o, "sha256", hex);
    json_put_int(o, "prompt_tokens", r->prompt_len);
    json_put_int(o, "tokens", r->count);
    json_put_text(o, "end", gen_end_names[r->end]);
    json_put_real(o, "ttft_ms", gen_ttft_ms(r));
    json_put_real(o, "tpot_ms", gen_tpot_ms(r));
    json_close(o, '}');
}

static int report_json(const run_opts *o, const opened *m, const job *j, const gen_result *g) {
    json_out out = {0};
    char hex[65];
    cadre_sampling sampling = run_sampling(o, m->model);
    job_sha(j, hex);
    say_json_open(&out, "run");
    put_text(&out, m->model, j->requests, j->count);
    json_put_text(&out, "sha256", hex);
    json_put_int(&out, "tokens", tokens_of(j));
    json_put_real(&out, "ttft_ms", mean(j, gen_ttft_ms));
    json_put_real(&out, "tpot_ms", mean(j, gen_tpot_ms));
    json_put_real(&out, "tokens_per_s", job_rate(g));
    json_put_null(&out, "acceptance");
    json_put_real(&out, "allocs_per_step", gen_allocs_per_step(g));
    json_open(&out, "requests", '[');
    for (int i = 0; i < j->count; i++) put_request(&out, m->model, &j->requests[i], i);
    json_close(&out, ']');
    open_put_sampling(&out, &sampling);
    open_put_memory(&out, &j->memory);
    json_put_text(&out, "model", m->dir);
    json_put_text(&out, "weights", m->info.weights);
    json_put_text(&out, "device", cadre_device_name(m->device));
    json_put_text(&out, "numerics", m->info.numerics);
    open_put_switches(&out);
    open_put_receipts(&out, m->model);
    json_close(&out, '}');
    return say_json(&out, EXIT_FINE);
}

/* ---- people ---- */

static void say_sampling(const cadre_sampling *s) {
    char k[32] = "", p[32] = "";
    if (s->temperature == 0) {
        say_pair("sampling", "greedy");
        return;
    }
    if (s->top_k) snprintf(k, sizeof k, ", top-k %d", s->top_k);
    if (s->top_p > 0 && s->top_p < 1) snprintf(p, sizeof p, ", top-p %g", (double)s->top_p);
    say_pair("sampling", "temperature %g%s%s, seed %llu", (double)s->temperature, k, p, (unsigned long long)s->seed);
}

/* "0.412 ms", "-" when it was not measured. */
static const char *ms(double v, char text[24]) {
    if (isnan(v)) return "-";
    snprintf(text, 24, v < 10 ? "%.3f ms" : "%.1f ms", v);
    return text;
}

static void say_one(const gen_request *r, const gen_result *g) {
    char a[24], b[24], hex[65];
    gen_sha(r->ids, r->count, hex);
    say_pair("prompt", "%d tokens, first token after %s", r->prompt_len, ms(gen_ttft_ms(r), a));
    if (r->count > 1)
        say_pair("generated", "%d tokens (%s), %s each, %.*f tokens/s", r->count, gen_end_names[r->end],
                 ms(gen_tpot_ms(r), b), say_digits(job_rate(g)), job_rate(g));
    else
        say_pair("generated", "%d tokens (%s)", r->count, gen_end_names[r->end]);
    say_pair("sha256", "%s", hex);
}

static void say_many(const job *j, const gen_result *g) {
    static const char *const head[] = {"", "prompt", "tokens", "end", "ttft", "tpot", "sha256"};
    char a[24], hex[65];
    table t;
    table_open(&t, "rrrlrrl");
    for (int i = 0; i < 7; i++) table_cell(&t, "%s", head[i]);
    for (int i = 0; i < j->count; i++) {
        const gen_request *r = &j->requests[i];
        gen_sha(r->ids, r->count, hex);
        table_cell(&t, "[%d]", i + 1);
        table_cell(&t, "%d", r->prompt_len);
        table_cell(&t, "%d", r->count);
        table_cell(&t, "%s", gen_end_names[r->end]);
        table_cell(&t, "%s", ms(gen_ttft_ms(r), a));
        table_cell(&t, "%s", ms(gen_tpot_ms(r), a));
        table_cell(&t, "%.16s", hex);
    }
    table_print(&t, say_stream(), 0);
    job_sha(j, hex);
    say_pair("generated", "%lld tokens, %.*f tokens/s in all", (long long)tokens_of(j), say_digits(job_rate(g)),
             job_rate(g));
    say_pair("sha256", "%s", hex);
}

static void say_stats(const run_opts *o, const opened *m, const job *j, const gen_result *g) {
    const cadre_model_info *i = &m->info;
    char bytes[24], switches[512], threads[200];
    double allocations = gen_allocs_per_step(g);
    cadre_sampling sampling = run_sampling(o, m->model);
    say_pair("model", "%s", m->dir);
    say_pair("", "%s, %d layers, %d experts, %d per token, %s, %s", i->arch, i->layers, i->e, i->k, i->weights,
             say_bytes((double)i->weight_bytes, bytes));
    say_pair("device", "%s", cadre_device_name(m->device));
    cpus_explain(&m->device->cpus, cadre_device_threads(m->device), threads, sizeof threads);
    say_pair("threads", "%s", threads);
    open_say_memory(&j->memory);
    say_pair("numerics", "%s", i->numerics);
    say_pair("switches", "%s", open_switches(switches));
    say_sampling(&sampling);
    if (j->count == 1)
        say_one(&j->requests[0], g);
    else
        say_many(j, g);
    if (isnan(allocations))
        say_pair("allocations", "- per step");
    else
        say_pair("allocations", "%g per step", allocations);
    if (!o->stats) return;
    say("receipts");
    open_say_receipts(m->model);
}

int run_report(const run_opts *o, const opened *m, const job *j, const gen_result *g) {
    if (job_ended(j, GEN_CONTEXT))
        say_note("the context is full (%d positions); --ctx sets it, the model has at most %d",
                 cadre_session_context(j->session), m->info.max_context);
    if (run_stopped) say_note("interrupted");
    if (o->stats || (run_stopped && !o->common.json)) say_stats(o, m, j, g);
    return o->common.json ? report_json(o, m, j, g) : EXIT_FINE;
}
