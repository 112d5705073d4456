/* bench_report.c: medians over the passes of `cadre bench`, for people and for programs. */
#include "bench.h"
#include <inttypes.h>
#include <math.h>

/* ---- figures ---- */

/* Median over passes of one figure; values that were not measured are left out. */
static double over_passes(const bench *b, size_t at, int request) {
    double v[1000];
    int n = 0;
    for (int i = 0; i < b->o->repeat; i++) {
        const char *p = (const char *)&b->passes[i] + at;
        double x = request < 0 ? *(const double *)p : (*(double *const *)p)[request];
        if (!isnan(x)) v[n++] = x;
    }
    return stat_median(v, n);
}
#define FIGURE(b, member)     over_passes(b, offsetof(pass, member), -1)
#define REQUEST(b, member, i) over_passes(b, offsetof(pass, member), i)

/* Median over requests of their median. */
static double over_requests(const bench *b, size_t at) {
    double *v = mem_new_array((size_t)b->job.count, sizeof *v), median = NAN;
    int n = 0;
    for (int i = 0; v && i < b->job.count; i++) {
        double x = over_passes(b, at, i);
        if (!isnan(x)) v[n++] = x;
    }
    if (v) median = stat_median(v, n);
    mem_free(v);
    return median;
}

static void put_summary(json_out *o, const bench *b) {
    int tokens = 0;
    for (int i = 0; i < b->job.count; i++) tokens += b->job.requests[i].count;
    json_open(o, "summary", '{');
    json_put_int(o, "requests", b->job.count);
    json_put_int(o, "batch", b->job.batch);
    json_put_int(o, "passes", b->o->repeat);
    json_put_int(o, "tokens", tokens);
    json_put_real(o, "wall_ms", FIGURE(b, wall_ms));
    json_put_real(o, "ttft_ms", over_requests(b, offsetof(pass, ttft)));
    json_put_real(o, "tpot_ms", over_requests(b, offsetof(pass, tpot)));
    json_put_real(o, "itl_ms", FIGURE(b, itl_median));
    json_put_real(o, "itl_p99_ms", FIGURE(b, itl_p99));
    json_put_real(o, "tokens_per_s", FIGURE(b, rate));
    json_put_real(o, "output_tokens_per_s", FIGURE(b, out_rate));
    json_put_real(o, "allocs_per_step", FIGURE(b, allocations));
    json_put_real(o, "minor_faults", FIGURE(b, minor_faults));
    json_put_real(o, "major_faults", FIGURE(b, major_faults));
    json_put_real(o, "step_ms", FIGURE(b, step_ms));
    json_put_real(o, "step_bytes", FIGURE(b, step_bytes));
    json_put_real(o, "bandwidth_gbps", FIGURE(b, gbps));
    json_put_real(o, "floor_ms", FIGURE(b, floor_ms));
    json_put_real(o, "floor_over_time", FIGURE(b, of_floor));
    json_put_null(o, "acceptance");
    json_put_text(o, "sha256", b->passes[0].sha);
    json_put_bool(o, "same_every_pass", !b->differs);
    json_close(o, '}');
}

void bench_open_request(json_out *o, const gen_request *r, int i) {
    char hex[65];
    gen_sha(r->ids, r->count, hex);
    json_open(o, NULL, '{');
    json_put_int(o, "id", i);
    json_put_int(o, "prompt_tokens", r->prompt_len);
    json_put_int(o, "tokens", r->count);
    json_put_text(o, "sha256", hex);
}

void bench_put_protocol(json_out *o, const bench *b) {
    const bench_opts *c = b->o;
    json_open(o, "protocol", '{');
    json_put_text(o, "prompts", c->prompts ? c->prompts : "random ids");
    if (c->prompts)
        json_put_null(o, "prompt_len");
    else
        json_put_int(o, "prompt_len", c->prompt_len);
    json_put_int(o, "gen_len", c->gen_len);
    json_put_int(o, "batch", b->job.batch);
    json_put_int(o, "context", cadre_session_context(b->job.session));
    json_put_int(o, "prefill_chunk", b->job.chunk);
    json_put_bool(o, "ignore_eos", b->ignore_ends);
    json_put_int(o, "warmup", c->warmup);
    json_put_int(o, "repeat", c->repeat);
    json_put_text(o, "prefix_cache", "none");
    json_close(o, '}');
}

static void put_requests(json_out *o, const bench *b) {
    json_open(o, "requests", '[');
    for (int i = 0; i < b->job.count; i++) {
        bench_open_request(o, &b->job.requests[i], i);
        json_put_real(o, "ttft_ms", REQUEST(b, ttft, i));
        json_put_real(o, "tpot_ms", REQUEST(b, tpot, i));
        json_close(o, '}');
    }
    json_close(o, ']');
}

static int report_json(const bench *b, int status) {
    json_out o = {0};
    say_json_open(&o, "bench");
    put_requests(&o, b);
    put_summary(&o, b);
    open_put_memory(&o, &b->job.memory);
    bench_put_protocol(&o, b);
    open_put_sampling(&o, &b->sampling);
    json_put_text(&o, "samples", b->o->out);
    json_put_text(&o, "run", b->run);
    attribution a = attribution_typical(&b->attributions);
    attribution_put(&o, &a);
    json_put_text(&o, "model", b->m->dir);
    json_put_text(&o, "weights", b->m->info.weights);
    json_put_text(&o, "device", cadre_device_name(b->m->device));
    json_put_text(&o, "numerics", b->m->info.numerics);
    open_put_switches(&o);
    open_put_receipts(&o, b->m->model);
    json_close(&o, '}');
    return say_json(&o, status);
}

static const char *number(double v, const char *unit, char text[32]) {
    if (isnan(v)) return "-";
    snprintf(text, 32, "%.*f%s", v == 0 ? 0 : say_digits(v), v, unit);
    return text;
}

enum { SHOWN = 16 }; /* requests that people get to see */

static void say_requests(const bench *b) {
    static const char *const head[] = {"id", "prompt", "tokens", "ttft ms", "tpot ms", "sha256"};
    char text[32], hex[65];
    table t;
    table_open(&t, "rrrrrl");
    for (int i = 0; i < 6; i++) table_cell(&t, "%s", head[i]);
    int shown = b->job.count > SHOWN ? SHOWN : b->job.count;
    for (int i = 0; i < shown; i++) {
        const gen_request *r = &b->job.requests[i];
        gen_sha(r->ids, r->count, hex);
        table_cell(&t, "%d", i);
        table_cell(&t, "%d", r->prompt_len);
        table_cell(&t, "%d", r->count);
        table_cell(&t, "%s", number(REQUEST(b, ttft, i), "", text));
        table_cell(&t, "%s", number(REQUEST(b, tpot, i), "", text));
        table_cell(&t, "%.16s", hex);
    }
    table_print(&t, say_stream(), 2);
    if (shown < b->job.count) say("  and %d more (--json lists all)", b->job.count - shown);
}

static void say_summary(const bench *b) {
    char x[32], y[32], bytes[24], switches[512];
    const cadre_model_info *i = &b->m->info;
    say_pair("model", "%s (%s, %s, %s)", b->m->dir, i->arch, i->weights, say_bytes((double)i->weight_bytes, bytes));
    say_pair("device", "%s", cadre_device_name(b->m->device));
    say_pair("numerics", "%s, switches %s", i->numerics, open_switches(switches));
    say_pair("passes", "%d counted, %d warm-up, batch %d", b->o->repeat, b->o->warmup, b->job.batch);
    say_pair("protocol", "%s, %s, temperature %g, seed %" PRIu64 "; nothing is cached between passes",
             b->o->prompts ? b->o->prompts : "random ids", b->ignore_ends ? "end tokens ignored" : "until an end token",
             (double)b->sampling.temperature, b->sampling.seed);
    say_requests(b);
    say_pair("ttft", "%s", number(over_requests(b, offsetof(pass, ttft)), " ms", x));
    say_pair("tpot", "%s", number(over_requests(b, offsetof(pass, tpot)), " ms", x));
    say_pair("itl", "%s, p99 %s", number(FIGURE(b, itl_median), " ms", x), number(FIGURE(b, itl_p99), " ms", y));
    say_pair("decode", "%s tokens/s", number(FIGURE(b, rate), "", x));
    if (!isnan(FIGURE(b, of_floor)))
        say_pair("step", "%s, %s read: %.2f of the floor at %s", number(FIGURE(b, step_ms), " ms", x),
                 say_bytes(FIGURE(b, step_bytes), bytes), FIGURE(b, of_floor), number(FIGURE(b, gbps), " GB/s", y));
    say_pair("throughput", "%s tokens/s, prefill included", number(FIGURE(b, out_rate), "", x));
    say_pair("allocations", "%s per step", number(FIGURE(b, allocations), "", x));
    say_pair("page faults", "%s a pass, and %s from the disk", number(FIGURE(b, minor_faults), "", x),
             number(FIGURE(b, major_faults), "", y));
    open_say_memory(&b->job.memory);
    say_pair("sha256", "%s", b->passes[0].sha);
    say_pair("samples", "%s (run %s)", b->o->out, b->run);
}

int bench_report(const bench *b, int status) {
    if (b->differs) say_note("the passes gave different tokens: this breaks law L1 (docs/numerics.md)");
    say_summary(b);
    attribution a = attribution_typical(&b->attributions);
    attribution_say(&a);
    return b->o->common.json ? report_json(b, status) : status;
}
