/* bench_moe.c: `cadre bench moe`: one layer at a time against the floor of this machine in the same window.
 *
 *   visit of an m:  probe | steps over all layers, timed | probe
 *
 * All m are visited by turns, again and again, so that drift hits every m alike.
 */
#include "bench_moe.h"
#include "commands.h"
#include <string.h>

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(moe_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--shape", OPTS_TEXT, "NAME", shape, 0, 0,
      "demo, qwen3-30b-a3b, nemotron-3-nano, deepseek-v2-lite, olmoe-1b-7b (routed experts alone), or "
      "E=..,d=..,f=..,k=.. and, after commas, act=swiglu|swiglu-clamp|relu2 gate=softmax|sigmoid "
      "dtype=bf16|f32|q8|q4 shared=.. (default demo)"),
    O(0, "--m", OPTS_TEXT, "LIST", list, 0, 0, "tokens per step: numbers and lo..hi (default 1,2,4,8,16,32)"),
    O(0, "--routing", OPTS_TEXT, "KIND", routing, 0, 0,
      "uniform, balanced, zipf:S; router: the layer's own, timed with it; router-free: the same choice, found before "
      "(on the "
      "CPU) (default uniform)"),
    O(0, "--repeat", OPTS_INT, "N", repeat, 1, 200, "visits of each m (default 9; an interval needs 6)"),
    O(0, "--visit-ms", OPTS_INT, "N", visit_ms, 1, 10000, "least time of a visit (default 40)"),
    O(0, "--layers", OPTS_INT, "N", layers, 1, 2048, "layers (default: a one-token step is four last-level caches)"),
    O(0, "--workspace", OPTS_TEXT, "KIND", spaces, 0, 0,
      "scratch of a run: own (each layer's), one (of all layers), or fresh (made for the run and freed; on the CPU)"),
    O(0, "--probe-mb", OPTS_INT, "N", probe_mb, 16, 1 << 20,
      "memory that a bandwidth probe reads (default: 1 GiB or 16 last-level caches)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of weights and routing (default 0)"),
    O(0, "--profile", OPTS_FLAG, NULL, profile, 0, 0,
      "watch as much again in each visit: the time of a layer by op and kernel"),
    O(0, "--out", OPTS_TEXT, "FILE", out, 0, 0, "raw samples are appended here (default bench-samples.jsonl)"),
    O(0, "--device", OPTS_TEXT, "NAME", common.device, 0, 0, "where to run: cpu, cuda or cuda:N (default cpu)"),
    OPTS_ALWAYS(moe_opts),
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
    "by order statistics.\n"
    "On a GPU (--device cuda): router and experts of many layers in one graph, timed by events; the bandwidth is\n"
    "probed before and after each round, and the floor is that of the bytes alone.\n"
    "--profile: rows of a layer that is watched; on a GPU events around each launch, which then don't overlap.\n";

enum { STEPS_MOST = 4096 };

/* ---- measuring ---- */

/* What ran, in the words of a table's row: recipes make rows from it. */
static void put_plan(json_out *o, const moe_bench *b, const moe_row *r) {
    const plan_row *p = plan_row_for(&b->plan, r->plan.m);
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

static double touched_of(const layer_plan *p) {
    double sum = 0;
    for (int i = 0; i < LAYER_SETS; i++) sum += p->touched[i];
    return sum / LAYER_SETS;
}

static cadre_err read_spaces(const char *text, layer_spaces *out, cadre_fail *why) {
    static const char *const names[] = {"own", "one", "fresh"};
    for (int i = 0; text && i < 3; i++)
        if (!strcmp(text, names[i])) return *out = (layer_spaces)i, CADRE_OK;
    if (!text) return *out = LAYER_SPACE_OWN, CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "--workspace is '%.40s', expected own, one or fresh", text);
}

/* The steps of a visit: their median, and all of them in all. */
typedef struct timing {
    double us, total; /* of a layer; of all layers and steps */
    int steps;
} timing;

/* The median: a step that lost its CPU to somebody else says nothing about the kernel. Every routing of the set has the
 * same share. */
static cadre_err time_steps(moe_bench *b, const moe_row *r, timing *time, cadre_fail *why) {
    double step[STEPS_MOST];
    uint64_t least = (uint64_t)b->o->visit_ms * 1000000, spent = 0;
    int n = 0;
    cadre_err err =
        layers_step(&b->layers, &r->plan, LAYER_SETS - 1, why); /* the team is awake, the probe's lines gone */
    if (b->profile) cadre_profile_clear(b->profile);
    while (!err && n < STEPS_MOST && (spent < least || n % LAYER_SETS)) {
        uint64_t start = clock_ns();
        err = layers_step(&b->layers, &r->plan, n % LAYER_SETS, why);
        uint64_t took = clock_ns() - start;
        spent += took;
        step[n++] = (double)took / 1e3 / b->layers.count;
    }
    *time = (timing){stat_median(step, n), (double)spent / 1e3, n};
    return err;
}

static cadre_err watch(moe_bench *b, const moe_row *r, attribution *a, cadre_fail *why) {
    timing time = {0};
    layers_watch(&b->layers, b->profile);
    cadre_err err = time_steps(b, r, &time, why);
    layers_watch(&b->layers, NULL);
    *a = attribution_of(b->profile, (double)time.steps * b->layers.count, time.total);
    a->watched_us = time.us;
    return err;
}

static cadre_err visit(moe_bench *b, moe_row *r, int at, int order, double *gbps, cadre_fail *why) {
    moe_visit v = {.visit = at, .order = order, .gbps = {*gbps}};
    timing time = {0};
    attribution a;
    uint64_t allocations = cadre_allocations();
    cadre_err err = time_steps(b, r, &time, why);
    v.allocations = (double)(cadre_allocations() - allocations) / b->layers.count / (time.steps + 1);
    r->us[at] = time.us, v.steps = time.steps;
    if (!err && b->profile) {
        err = watch(b, r, &a, why);
        v.watched = &a;
    }
    if (err) return err;
    *gbps = v.gbps[1] = probe_gbps(&b->probe);
    return moe_bench_keep(b, r, &v, why);
}

static cadre_err measure(moe_bench *b, cadre_fail *why) {
    double gbps = probe_gbps(&b->probe);
    for (int v = 0; v < b->o->repeat; v++)
        for (int i = 0; i < b->count; i++) {
            int at = v % 2 ? b->count - 1 - i : i; /* up and down, so that no m is always first */
            say_progress("visit %d of %d, m = %d", v + 1, b->o->repeat, b->rows[at].plan.m);
            cadre_err err = visit(b, &b->rows[at], v, v * b->count + i, &gbps, why);
            if (err) return err;
        }
    say_progress_end();
    for (int i = 0; i < b->count; i++) {
        cadre_err err = layers_sha(&b->layers, &b->rows[i].plan, 0, b->rows[i].sha, why);
        if (err) return err;
    }
    return CADRE_OK;
}

/* ---- the command ---- */

static cadre_err make_rows(moe_bench *b, const int *m, cadre_fail *why) {
    enum { FIGURES = 5 };
    size_t n = (size_t)b->o->repeat;
    b->figures = mem_new_array((size_t)b->count * FIGURES, n * sizeof(double));
    if (!b->figures) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the figures");
    for (int i = 0; i < b->count; i++) {
        moe_row *r = &b->rows[i];
        double *at = b->figures + (size_t)i * FIGURES * n;
        r->us = at, r->bytes = at + n, r->probe = at + 2 * n, r->floor = at + 3 * n, r->ratio = at + 4 * n;
        cadre_err err = layers_plan(&b->layers, &b->routing, m[i], b->o->seed, &r->plan, why);
        if (err) return err;
        r->touched = touched_of(&r->plan);
    }
    return CADRE_OK;
}

static size_t probe_bytes(const moe_bench *b) {
    return b->o->probe_mb ? (size_t)b->o->probe_mb << 20 : measure_probe_bytes(b->device);
}

static cadre_err measure_peak(moe_bench *b, cadre_fail *why) {
    enum { LITTLE = 16 << 20 }; /* only the compute peaks are wanted */
    dev_ceiling c;
    cadre_err err = dev_measure(b->device, LITTLE, 3, &c, why);
    bool pairs = b->shape.desc.dtype == CADRE_BF16 && c.bf16_gflops > 0 && b->device->isa == OP_ISA_AVX512BF16;
    if (!err) b->peak_gflops = pairs ? c.bf16_gflops : c.fma_gflops;
    return err;
}

/* What the layers are held against on the CPU; a GPU has its own. */
static cadre_err prepare_cpu(moe_bench *b, cadre_fail *why) {
    const cadre_moe_desc *d = &b->shape.desc;
    plan_key key = {OP_EXPERTS, d->dtype, d->d, d->f, d->e, d->k, "experts", d->act};
    b->numerics = op_numerics(d->dtype);
    b->put_plan = put_plan;
    cadre_err err = plan_make(b->device, &key, &b->plan, why);
    if (err) return err;
    b->kernel = b->plan.kernel->name;
    err = probe_init(&b->probe, b->device, probe_bytes(b), why);
    return err ? err : measure_peak(b, why);
}

static void name_config(const moe_bench *b, moe_row *r) {
    const plan_row *p = plan_row_for(&b->plan, r->plan.m);
    op_knobs_text(OP_EXPERTS, &p->knobs, r->config, sizeof r->config);
    r->source = p->source;
}

static cadre_err prepare(moe_bench *b, const int *m, cadre_fail *why) {
    cadre_moe_desc *d = &b->shape.desc;
    for (int i = 0; i < b->count; i++)
        if (m[i] > d->max_tokens) d->max_tokens = m[i];
    measure_run_id(b->run);
    cadre_err err = open_device(&b->o->common, &b->device, why);
    if (!err && !b->device->gpu) err = prepare_cpu(b, why);
    layer_spaces spaces = LAYER_SPACE_OWN;
    if (!err) err = read_spaces(b->o->spaces, &spaces, why);
    if (!err && b->device->gpu && spaces == LAYER_SPACE_FRESH)
        err = cadre_fail_set(why, CADRE_UNSUPPORTED, "--workspace fresh is for the CPU: a graph keeps its scratch");
    if (!err && b->device->gpu && b->routing.kind == ROUTING_FREE)
        err =
            cadre_fail_set(why, CADRE_UNSUPPORTED, "--routing router-free is for the CPU: a GPU's layer always routes");
    if (!err) err = layers_init(&b->layers, b->device, d, b->o->layers, spaces, b->o->seed, why);
    if (!err && !b->layers.cold)
        say_note("a step touches only %.0f MB of weights: part of them stays in the cache (--layers)",
                 b->layers.step_bytes / 1e6);
    if (!err) err = make_rows(b, m, why);
    if (!err && b->o->profile) err = cadre_profile_new(b->device, &b->profile, why);
    for (int i = 0; i < b->count && !err && !b->device->gpu; i++) name_config(b, &b->rows[i]);
    return err;
}

static void done(moe_bench *b) {
    for (int i = 0; i < b->count; i++) {
        layers_plan_done(&b->rows[i].plan);
        mem_free(b->rows[i].attributions.at);
    }
    mem_free(b->figures);
    layers_done(&b->layers);
    cadre_profile_free(b->profile);
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
    static moe_bench b; /* large */
    b.o = &o;
    int status, m[MOE_ROWS];
    if (!opts_read(&bench_moe_command, &o, &status)) return status;
    if (shape_read(o.shape, &b.shape, &why) || routing_read(o.routing, &b.routing, &why) ||
        opts_numbers("--m", o.list, 1, 1 << 16, m, MOE_ROWS, &b.count, &why))
        return say_failed(&why);
    if (prepare(&b, m, &why) || (b.device->gpu ? moe_bench_gpu(&b, &why) : measure(&b, &why)))
        status = say_failed(&why);
    else {
        moe_bench_say(&b);
        status = o.common.json ? moe_bench_json(&b) : EXIT_FINE;
    }
    done(&b);
    return status;
}

const opts_command bench_moe_command = {
    "bench moe", "measure one MoE layer against the floor", notes, OPTS_TABLE(defs), examples, run};
