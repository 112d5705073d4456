/* bench_moe_report.c: the samples and the report of `cadre bench moe`, for people and for programs. */
#include "bench_moe.h"
#include <math.h>

/* ---- samples ---- */

static double row_bytes(const moe_bench *b, double touched) {
    double router = b->routing.kind == ROUTING_ROUTER ? 4.0 * b->shape.desc.e * b->shape.desc.d : 0;
    return touched * shape_expert_bytes(&b->shape.desc) + shape_shared_bytes(&b->shape.desc) + router;
}

static double floor_us(const moe_bench *b, int m, double bytes, double gbps) {
    double memory = bytes / gbps / 1e3;
    double compute = b->peak_gflops > 0 ? shape_flops(&b->shape.desc, m) / b->peak_gflops / 1e3 : 0;
    return memory > compute ? memory : compute;
}

static const char *spaces_of(const moe_bench *b) {
    static const char *const names[] = {"own", "one", "fresh"};
    return names[b->layers.spaces];
}

static void put_steps(json_out *o, const moe_visit *v) {
    json_put_int(o, "instances", v->instances);
    json_open(o, "step_us", '[');
    for (int i = 0; i < v->steps; i++) json_put_real(o, NULL, v->step_us[i]);
    json_close(o, ']');
}

static cadre_err keep_sample(const moe_bench *b, const moe_row *r, const moe_visit *v, cadre_fail *why) {
    json_out o = {0};
    say_sample_open(&o, "bench moe");
    json_put_text(&o, "run", b->run);
    json_put_int(&o, "visit", v->visit);
    json_put_int(&o, "order", v->order);
    shape_put(&o, &b->shape);
    json_put_text(&o, "routing", b->routing.text);
    json_put_int(&o, "m", r->plan.m);
    routing_load_put(&o, &r->plan.load);
    b->put_plan(&o, b, r);
    json_put_int(&o, "layers", b->layers.count);
    json_put_int(&o, "steps", v->steps);
    json_put_real(&o, "us", r->us[v->visit]);
    json_put_text(&o, "workspace", spaces_of(b));
    json_put_real(&o, "allocs_per_run", b->device->gpu ? NAN : v->allocations);
    if (v->step_us) put_steps(&o, v);
    json_put_real(&o, "bytes", r->bytes[v->visit]);
    json_put_real(&o, "gbps_before", v->gbps[0]);
    json_put_real(&o, "gbps_after", v->gbps[1]);
    if (b->probe.bytes) json_put_int(&o, "probe_bytes", (int64_t)b->probe.bytes);
    if (v->watched) attribution_put_raw(&o, v->watched);
    json_put_real(&o, "peak_gflops", b->peak_gflops > 0 ? b->peak_gflops : NAN);
    open_put_manifest(&o, b->device, NULL, b->numerics);
    json_close(&o, '}');
    cadre_err err = open_append(b->o->out, &o, why);
    json_out_free(&o);
    return err;
}

static cadre_err keep_both(const moe_bench *b, moe_row *r, const moe_visit *v, cadre_fail *why) {
    attribution a = *v->watched;
    a.step_us = r->us[v->visit];
    a.gbps = r->probe[v->visit];
    cadre_err err = attribution_keep(&r->attributions, &a, why);
    return err ? err : keep_sample(b, r, v, why);
}

cadre_err moe_bench_keep(const moe_bench *b, moe_row *r, const moe_visit *v, cadre_fail *why) {
    int at = v->visit;
    r->bytes[at] = row_bytes(b, r->touched);
    r->probe[at] = (v->gbps[0] + v->gbps[1]) / 2;
    r->floor[at] = floor_us(b, r->plan.m, r->bytes[at], r->probe[at]);
    r->ratio[at] = r->floor[at] / r->us[at];
    r->allocations += v->allocations / b->o->repeat;
    return v->watched ? keep_both(b, r, v, why) : keep_sample(b, r, v, why);
}

/* ---- report ---- */

typedef struct figures {
    double touched, bytes, us, interval[2], floor, ratio, gbps, bandwidth;
} figures;

static figures figures_of(const moe_bench *b, const moe_row *r) {
    int n = b->o->repeat;
    figures f = {.touched = r->touched};
    f.bytes = row_bytes(b, f.touched);
    f.us = stat_median(r->us, n);
    stat_interval(r->us, n, f.interval);
    f.floor = stat_median(r->floor, n);
    f.ratio = stat_median(r->ratio, n);
    f.bandwidth = stat_median(r->probe, n);
    f.gbps = f.bytes / f.us / 1e3;
    return f;
}

static void put_row(json_out *o, const moe_bench *b, const moe_row *r) {
    figures f = figures_of(b, r);
    json_open(o, NULL, '{');
    json_put_int(o, "m", r->plan.m);
    json_put_real(o, "experts_touched", f.touched);
    routing_load_put(o, &r->plan.load);
    json_put_real(o, "bytes", f.bytes);
    json_put_real(o, "us", f.us);
    json_open(o, "us_interval", '[');
    json_put_real(o, NULL, f.interval[0]);
    json_put_real(o, NULL, f.interval[1]);
    json_close(o, ']');
    json_put_real(o, "floor_us", f.floor);
    json_put_real(o, "floor_over_time", f.ratio);
    json_put_real(o, "gbps", f.gbps);
    json_put_real(o, "bandwidth_gbps", f.bandwidth);
    json_put_text(o, "config", r->config);
    json_put_text(o, "source", r->source);
    json_put_text(o, "kernel", b->kernel);
    json_put_real(o, "allocs_per_run", b->device->gpu ? NAN : r->allocations);
    json_put_text(o, "sha256", r->sha);
    json_put_text(o, "numerics", b->numerics);
    attribution a = attribution_typical(&r->attributions);
    attribution_put(o, &a);
    json_close(o, '}');
}

enum { MOE_RECEIPTS = 64 };

int moe_bench_json(const moe_bench *b) {
    json_out o = {0};
    cadre_receipt receipts[MOE_RECEIPTS];
    int n = layers_receipts(&b->layers, receipts, MOE_RECEIPTS);
    say_json_open(&o, "bench moe");
    shape_put(&o, &b->shape);
    json_put_text(&o, "routing", b->routing.text);
    json_put_int(&o, "layers", b->layers.count);
    json_put_text(&o, "workspace", spaces_of(b));
    json_put_bool(&o, "cold", b->layers.cold);
    json_open(&o, "rows", '[');
    for (int i = 0; i < b->count; i++) put_row(&o, b, &b->rows[i]);
    json_close(&o, ']');
    if (b->count == 1) { /* where the profile of `bench` is, for those who read both */
        attribution a = attribution_typical(&b->rows[0].attributions);
        attribution_put(&o, &a);
    }
    json_put_text(&o, "samples", b->o->out);
    json_put_text(&o, "run", b->run);
    json_put_real(&o, "peak_gflops", b->peak_gflops > 0 ? b->peak_gflops : NAN);
    json_put_text(&o, "device", cadre_device_name(b->device));
    json_put_text(&o, "numerics", b->numerics);
    open_put_switches(&o);
    open_put_list(&o, receipts, n < MOE_RECEIPTS ? n : MOE_RECEIPTS);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

static void say_row(table *t, const moe_bench *b, const moe_row *r) {
    figures f = figures_of(b, r);
    table_cell(t, "%d", r->plan.m);
    table_cell(t, "%.1f", f.touched);
    table_cell(t, "%.2f", f.bytes / 1e6);
    table_cell(t, f.us < 100 ? "%.2f" : "%.0f", f.us);
    if (isnan(f.interval[0]))
        table_cell(t, "-");
    else
        table_cell(t, f.us < 100 ? "%.2f..%.2f" : "%.0f..%.0f", f.interval[0], f.interval[1]);
    table_cell(t, f.floor < 100 ? "%.2f" : "%.0f", f.floor);
    table_cell(t, "%.2f", f.ratio);
    table_cell(t, "%.1f", f.gbps);
    table_cell(t, "%.1f", f.bandwidth);
    table_cell(t, "%s", r->config);
    table_cell(t, "%s", r->source);
}

/* Every floor is as good as the memory was steady. */
static void say_drift(const moe_bench *b) {
    double low = INFINITY, high = 0;
    for (int i = 0; i < b->count; i++)
        for (int v = 0; v < b->o->repeat; v++) {
            double p = b->rows[i].probe[v];
            low = p < low ? p : low;
            high = p > high ? p : high;
        }
    if (high > 1.5 * low)
        say_note("read bandwidth wandered between %.0f and %.0f GB/s: compare floor/time, not times", low, high);
}

/* Random weights may send nearly all tokens to a few experts: the figure goes with its histogram. */
static void say_loads(const moe_bench *b) {
    char text[400];
    say("  rows of an expert: experts of a layer that have so many");
    for (int i = 0; i < b->count; i++)
        say("    m = %-5d %s", b->rows[i].plan.m, routing_load_text(&b->rows[i].plan.load, text));
}

void moe_bench_say(const moe_bench *b) {
    static const char *const head[] = {"m",          "experts", "MB",    "us",     "95 %",  "floor us",
                                       "floor/time", "GB/s",    "probe", "config", "source"};
    char switches[512];
    table t;
    shape_say(&b->shape);
    say_pair("routing", "%s, %d layers of random weights%s", b->routing.text, b->layers.count,
             b->layers.cold ? "" : ": too few to leave the cache");
    say_pair("device", "%s", cadre_device_name(b->device));
    say_pair("kernel", "%s, numerics %s, switches %s", b->kernel, b->numerics ? b->numerics : "none yet",
             open_switches(switches));
    table_open(&t, "rrrrrrrrrll");
    for (int i = 0; i < 11; i++) table_cell(&t, "%s", head[i]);
    for (int i = 0; i < b->count; i++) say_row(&t, b, &b->rows[i]);
    table_print(&t, say_stream(), 2);
    say_loads(b);
    say_drift(b);
    for (int i = 0; i < b->count && b->profile; i++) {
        attribution a = attribution_typical(&b->rows[i].attributions);
        say("  m = %d, a layer:", b->rows[i].plan.m);
        attribution_say(&a);
    }
    say_pair("samples", "%s (run %s)", b->o->out, b->run);
}
