/* bench_moe.c: `cadre bench moe`: one layer at a time against the floor of this machine in the same window.
 *
 *   visit of an m:  probe | steps over all layers, timed | probe
 *
 * All m are visited by turns, again and again, so that drift hits every m alike.
 */
#include "commands.h"
#include "layers.h"
#include "measure.h"
#include "open.h"
#include "plan/plan.h"
#include <math.h>
#include <string.h>

typedef struct moe_opts {
    opts_common common;
    const char *shape, *list, *routing, *out;
    int repeat, layers, visit_ms, probe_mb;
    uint64_t seed;
} moe_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(moe_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--shape", OPTS_TEXT, "NAME", shape, 0, 0,
      "demo, qwen3-30b-a3b, nemotron-3-nano, deepseek-v2-lite, olmoe-1b-7b (routed experts alone), or "
      "E=..,d=..,f=..,k=.. and, after commas, act=swiglu|swiglu-clamp|relu2 gate=softmax|sigmoid "
      "dtype=bf16|f32|q8|q4 shared=.. (default demo)"),
    O(0, "--m", OPTS_TEXT, "LIST", list, 0, 0, "tokens per step: numbers and lo..hi (default 1,2,4,8,16,32)"),
    O(0, "--routing", OPTS_TEXT, "KIND", routing, 0, 0,
      "uniform, balanced, zipf:S, or router: the layer's own, timed with it (default uniform)"),
    O(0, "--repeat", OPTS_INT, "N", repeat, 1, 200, "visits of each m (default 9; an interval needs 6)"),
    O(0, "--visit-ms", OPTS_INT, "N", visit_ms, 1, 10000, "least time of a visit (default 40)"),
    O(0, "--layers", OPTS_INT, "N", layers, 1, 2048, "layers (default: a one-token step is four last-level caches)"),
    O(0, "--probe-mb", OPTS_INT, "N", probe_mb, 16, 1 << 20,
      "memory that a bandwidth probe reads (default: 1 GiB or 16 last-level caches)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of weights and routing (default 0)"),
    O(0, "--out", OPTS_TEXT, "FILE", out, 0, 0, "raw samples are appended here (default bench-samples.jsonl)"),
    OPTS_EVERYWHERE(moe_opts),
};
#undef O

static const char *const examples[] = {
    "cadre bench moe --m 1..8",
    "the demo model's layer, one to eight tokens",
    "cadre bench moe --shape qwen3-30b-a3b --m 1,8,32 --json",
    "a layer of Qwen3-30B-A3B, for a script",
    "cadre bench moe --shape E=64,d=1024,f=512,k=4 --routing zipf:1.1",
    "a shape of your own with skewed experts",
    NULL,
};
static const char notes[] =
    "floor: bytes of the touched experts / read bandwidth probed beside the visit, or operations / peak if that\n"
    "is longer. floor/time: 1 is the floor. Times are per layer; medians over the visits, the interval is 95 %\n"
    "by order statistics.\n";

enum { ROWS = 64, STEPS_MOST = 4096 };
typedef struct row {
    layer_plan plan;
    double *us, *bytes, *probe, *floor, *ratio; /* [repeat] */
} row;

typedef struct bench {
    const moe_opts *o;
    cadre_device *device;
    shape shape;
    routing routing;
    layers layers;
    probe probe;
    plan plan;
    double peak_gflops; /* 0: not measured */
    row rows[ROWS];
    int count;
    double *figures; /* all rows' arrays */
    char run[13];
} bench;

/* ---- measuring ---- */

/* What ran, in the words of a table's row: recipes make rows from it. */
static void put_plan(json_out *o, const bench *b, int m) {
    const plan_row *p = plan_row_for(&b->plan, m);
    char klass[48];
    plan_device_class(b->device, klass, sizeof klass);
    json_open(o, "plan", '{');
    json_put_text(o, "op", op_families[OP_EXPERTS].name);
    json_put_text(o, "kernel", b->plan.kernel->name);
    json_put_text(o, "code", op_kernel_source(b->plan.kernel));
    json_put_text(o, "dtype", op_dtype_name(b->shape.desc.dtype));
    json_put_int(o, "d", b->shape.desc.d);
    json_put_int(o, "f", b->shape.desc.f);
    json_put_int(o, "e", b->shape.desc.e);
    json_put_int(o, "k", b->shape.desc.k);
    json_put_text(o, "act", op_act_name(b->shape.desc.act));
    json_put_int(o, "threads", cadre_device_threads(b->device));
    json_put_text(o, "cpu", b->device->cpu);
    json_put_text(o, "class", klass);
    json_put_text(o, "source", p->source);
    json_open(o, "config", '{');
    for (int i = 0; i < op_families[OP_EXPERTS].count; i++)
        json_put_int(o, op_families[OP_EXPERTS].knobs[i].name, p->knobs.v[i]);
    json_close(o, '}');
    json_close(o, '}');
}

static cadre_err keep_sample(const bench *b, const row *r, int visit, int order, int steps, const double gbps[2],
                             cadre_fail *why) {
    json_out o = {0};
    say_sample_open(&o, "bench moe");
    json_put_text(&o, "run", b->run);
    json_put_int(&o, "visit", visit);
    json_put_int(&o, "order", order);
    shape_put(&o, &b->shape);
    json_put_text(&o, "routing", b->routing.text);
    json_put_int(&o, "m", r->plan.m);
    put_plan(&o, b, r->plan.m);
    json_put_int(&o, "layers", b->layers.count);
    json_put_int(&o, "steps", steps);
    json_put_real(&o, "us", r->us[visit]);
    json_put_real(&o, "bytes", r->bytes[visit]);
    json_put_real(&o, "gbps_before", gbps[0]);
    json_put_real(&o, "gbps_after", gbps[1]);
    json_put_int(&o, "probe_bytes", (int64_t)b->probe.bytes);
    json_put_real(&o, "peak_gflops", b->peak_gflops > 0 ? b->peak_gflops : NAN);
    open_put_manifest(&o, b->device, NULL, op_numerics(b->shape.desc.dtype));
    json_close(&o, '}');
    cadre_err err = open_append(b->o->out, &o, why);
    json_out_free(&o);
    return err;
}

static double touched_of(const layer_plan *p) {
    double sum = 0;
    for (int i = 0; i < LAYER_SETS; i++) sum += p->touched[i];
    return sum / LAYER_SETS;
}

static double row_bytes(const bench *b, double touched) {
    double router = b->routing.kind == ROUTING_ROUTER ? 4.0 * b->shape.desc.e * b->shape.desc.d : 0;
    return touched * shape_expert_bytes(&b->shape.desc) + shape_shared_bytes(&b->shape.desc) + router;
}

static double floor_us(const bench *b, int m, double bytes, double gbps) {
    double memory = bytes / gbps / 1e3;
    double compute = b->peak_gflops > 0 ? shape_flops(&b->shape.desc, m) / b->peak_gflops / 1e3 : 0;
    return memory > compute ? memory : compute;
}

/* The median step of a visit: a step that lost its CPU to somebody else says nothing about the kernel. Every routing of
 * the set has the same share. */
static cadre_err time_steps(bench *b, const row *r, double *us, int *steps, cadre_fail *why) {
    double step[STEPS_MOST];
    uint64_t least = (uint64_t)b->o->visit_ms * 1000000, spent = 0;
    int n = 0;
    cadre_err err =
        layers_step(&b->layers, &r->plan, LAYER_SETS - 1, why); /* the team is awake, the probe's lines gone */
    while (!err && n < STEPS_MOST && (spent < least || n % LAYER_SETS)) {
        uint64_t start = clock_ns();
        err = layers_step(&b->layers, &r->plan, n % LAYER_SETS, why);
        uint64_t took = clock_ns() - start;
        spent += took;
        step[n++] = (double)took / 1e3 / b->layers.count;
    }
    *steps = n;
    *us = stat_median(step, n);
    return err;
}

static cadre_err visit(bench *b, row *r, int at, int order, double *gbps, cadre_fail *why) {
    double probes[2] = {*gbps, 0};
    int steps;
    cadre_err err = time_steps(b, r, &r->us[at], &steps, why);
    if (err) return err;
    *gbps = probes[1] = probe_gbps(&b->probe);
    r->bytes[at] = row_bytes(b, touched_of(&r->plan));
    r->probe[at] = (probes[0] + probes[1]) / 2;
    r->floor[at] = floor_us(b, r->plan.m, r->bytes[at], r->probe[at]);
    r->ratio[at] = r->floor[at] / r->us[at];
    return keep_sample(b, r, at, order, steps, probes, why);
}

static cadre_err measure(bench *b, cadre_fail *why) {
    double gbps = probe_gbps(&b->probe);
    for (int v = 0; v < b->o->repeat; v++)
        for (int i = 0; i < b->count; i++) {
            int at = v % 2 ? b->count - 1 - i : i; /* up and down, so that no m is always first */
            say_progress("visit %d of %d, m = %d", v + 1, b->o->repeat, b->rows[at].plan.m);
            cadre_err err = visit(b, &b->rows[at], v, v * b->count + i, &gbps, why);
            if (err) return err;
        }
    say_progress_end();
    return CADRE_OK;
}

/* ---- report ---- */

typedef struct figures {
    double touched, bytes, us, interval[2], floor, ratio, gbps, bandwidth;
    char config[96];
    const char *source;
} figures;

static figures figures_of(const bench *b, const row *r) {
    int n = b->o->repeat;
    const plan_row *p = plan_row_for(&b->plan, r->plan.m);
    figures f = {.touched = touched_of(&r->plan), .source = p->source};
    f.bytes = row_bytes(b, f.touched);
    f.us = stat_median(r->us, n);
    stat_interval(r->us, n, f.interval);
    f.floor = stat_median(r->floor, n);
    f.ratio = stat_median(r->ratio, n);
    f.bandwidth = stat_median(r->probe, n);
    f.gbps = f.bytes / f.us / 1e3;
    op_knobs_text(OP_EXPERTS, &p->knobs, f.config, sizeof f.config);
    return f;
}

static void put_row(json_out *o, const bench *b, const row *r) {
    figures f = figures_of(b, r);
    json_open(o, NULL, '{');
    json_put_int(o, "m", r->plan.m);
    json_put_real(o, "experts_touched", f.touched);
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
    json_put_text(o, "config", f.config);
    json_put_text(o, "source", f.source);
    json_put_text(o, "kernel", b->plan.kernel->name);
    json_put_text(o, "numerics", op_numerics(b->shape.desc.dtype));
    json_close(o, '}');
}

static int report_json(const bench *b) {
    json_out o = {0};
    say_json_open(&o, "bench moe");
    shape_put(&o, &b->shape);
    json_put_text(&o, "routing", b->routing.text);
    json_put_int(&o, "layers", b->layers.count);
    json_put_bool(&o, "cold", b->layers.cold);
    json_open(&o, "rows", '[');
    for (int i = 0; i < b->count; i++) put_row(&o, b, &b->rows[i]);
    json_close(&o, ']');
    json_put_text(&o, "samples", b->o->out);
    json_put_text(&o, "run", b->run);
    json_put_real(&o, "peak_gflops", b->peak_gflops > 0 ? b->peak_gflops : NAN);
    json_put_text(&o, "device", cadre_device_name(b->device));
    json_put_text(&o, "numerics", op_numerics(b->shape.desc.dtype));
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

static void say_row(table *t, const bench *b, const row *r) {
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
    table_cell(t, "%s", f.config);
    table_cell(t, "%s", f.source);
}

/* Every floor is as good as the memory was steady. */
static void say_drift(const bench *b) {
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

static void say_report(const bench *b) {
    static const char *const head[] = {"m",          "experts", "MB",    "us",     "95 %",  "floor us",
                                       "floor/time", "GB/s",    "probe", "config", "source"};
    char switches[512];
    table t;
    shape_say(&b->shape);
    say_pair("routing", "%s, %d layers of random weights%s", b->routing.text, b->layers.count,
             b->layers.cold ? "" : ": too few to leave the cache");
    say_pair("device", "%s", cadre_device_name(b->device));
    say_pair("kernel", "%s, numerics %s, switches %s", b->plan.kernel->name, op_numerics(b->shape.desc.dtype),
             open_switches(switches));
    table_open(&t, "rrrrrrrrrll");
    for (int i = 0; i < 11; i++) table_cell(&t, "%s", head[i]);
    for (int i = 0; i < b->count; i++) say_row(&t, b, &b->rows[i]);
    table_print(&t, say_stream(), 2);
    say_drift(b);
    say_pair("samples", "%s (run %s)", b->o->out, b->run);
}

/* ---- the command ---- */

static cadre_err make_rows(bench *b, const int *m, cadre_fail *why) {
    size_t n = (size_t)b->o->repeat;
    b->figures = mem_new_array((size_t)b->count * 5, n * sizeof(double));
    if (!b->figures) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the figures");
    for (int i = 0; i < b->count; i++) {
        row *r = &b->rows[i];
        double *at = b->figures + (size_t)i * 5 * n;
        r->us = at, r->bytes = at + n, r->probe = at + 2 * n, r->floor = at + 3 * n, r->ratio = at + 4 * n;
        cadre_err err = layers_plan(&b->layers, &b->routing, m[i], b->o->seed, &r->plan, why);
        if (err) return err;
    }
    return CADRE_OK;
}

static size_t probe_bytes(const bench *b) {
    return b->o->probe_mb ? (size_t)b->o->probe_mb << 20 : measure_probe_bytes(b->device);
}

static cadre_err measure_peak(bench *b, cadre_fail *why) {
    enum { LITTLE = 16 << 20 }; /* only the compute peaks are wanted */
    dev_ceiling c;
    cadre_err err = dev_measure(b->device, LITTLE, 3, &c, why);
    bool pairs = b->shape.desc.dtype == CADRE_BF16 && c.bf16_gflops > 0 && b->device->isa == OP_ISA_AVX512BF16;
    if (!err) b->peak_gflops = pairs ? c.bf16_gflops : c.fma_gflops;
    return err;
}

static cadre_err prepare(bench *b, const int *m, cadre_fail *why) {
    cadre_moe_desc *d = &b->shape.desc;
    plan_key key = {OP_EXPERTS, d->dtype, d->d, d->f, d->e, d->k, "experts", d->act};
    for (int i = 0; i < b->count; i++)
        if (m[i] > d->max_tokens) d->max_tokens = m[i];
    measure_run_id(b->run);
    cadre_err err = open_device(&b->o->common, &b->device, why);
    if (!err) err = plan_make(b->device, &key, &b->plan, why);
    if (!err) err = probe_init(&b->probe, b->device, probe_bytes(b), why);
    if (!err) err = measure_peak(b, why);
    if (!err) err = layers_init(&b->layers, b->device, d, b->o->layers, b->o->seed, why);
    if (!err && !b->layers.cold)
        say_note("a step touches only %.0f MB of weights: part of them stays in the cache (--layers)",
                 b->layers.step_bytes / 1e6);
    return err ? err : make_rows(b, m, why);
}

static void done(bench *b) {
    for (int i = 0; i < b->count; i++) layers_plan_done(&b->rows[i].plan);
    mem_free(b->figures);
    layers_done(&b->layers);
    probe_done(&b->probe);
    cadre_device_close(b->device);
}

static int run(void) {
    moe_opts o = {.shape = "demo",
                  .list = "1,2,4,8,16,32",
                  .routing = "uniform",
                  .out = "bench-samples.jsonl",
                  .repeat = 9,
                  .visit_ms = 40};
    cadre_fail why = {0};
    bench b = {.o = &o};
    int status, m[ROWS];
    if (!opts_read(&bench_moe_command, &o, &status)) return status;
    if (shape_read(o.shape, &b.shape, &why) || routing_read(o.routing, &b.routing, &why) ||
        opts_numbers("--m", o.list, 1, 1 << 16, m, ROWS, &b.count, &why))
        return say_failed(&why);
    if (prepare(&b, m, &why) || measure(&b, &why))
        status = say_failed(&why);
    else {
        say_report(&b);
        status = o.common.json ? report_json(&b) : EXIT_FINE;
    }
    done(&b);
    return status;
}

const opts_command bench_moe_command = {
    "bench moe", "measure one MoE layer against the floor", notes, OPTS_TABLE(defs), examples, run};
