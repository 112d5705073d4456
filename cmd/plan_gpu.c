/* plan_gpu.c: `cadre plan explain` and `plan check` with `--device cuda`: which kernel and which settings a layer has
 * on a GPU, for the one that is there or for one that is named. */
#include "dev/cuda.h"
#include "dev/dev.h"
#include "moe/moe.h"
#include "open.h"
#include "plan.h"
#include "plan/gpu.h"
#include <string.h>

typedef struct explained_gpu {
    const plan_opts *o;
    shape shape;
    plan_gpu plan;
    bool router; /* what is asked for; else the experts */
    char device[160];
    const char *numerics; /* NULL: none yet */
} explained_gpu;

/* ---- which GPU ---- */

/* What a plan is made for; another board of the same chip may have fewer multiprocessors. */
static const dev_cuda_traits known[] = {
    {.name = "NVIDIA H200", .major = 9, .sms = 132, .smem_block = 232448},
    {.name = "NVIDIA H100 80GB HBM3", .major = 9, .sms = 132, .smem_block = 232448},
    {.name = "NVIDIA H100 PCIe", .major = 9, .sms = 114, .smem_block = 232448},
    {.name = "NVIDIA GH200 480GB", .major = 9, .sms = 132, .smem_block = 232448},
    {.name = "NVIDIA A100-SXM4-80GB", .major = 8, .sms = 108, .smem_block = 166912},
};

enum { KNOWN = sizeof known / sizeof *known };

static cadre_err by_name(const char *name, dev_cuda_traits *t, cadre_fail *why) {
    char names[KNOWN * sizeof known->name] = "";
    for (size_t i = 0, n = 0; i < KNOWN; i++) {
        if (!strcmp(known[i].name, name)) {
            *t = known[i];
            return CADRE_OK;
        }
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", known[i].name);
    }
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "no GPU is known as '%.60s'; known are %s", name, names);
}

static cadre_err find_gpu(explained_gpu *x, dev_cuda_traits *t, cadre_fail *why) {
    cadre_device *device = NULL;
    cadre_err err;
    if (x->o->device_name) {
        err = by_name(x->o->device_name, t, why);
        if (!err) snprintf(x->device, sizeof x->device, "%s, %d multiprocessors, by name", t->name, t->sms);
        return err;
    }
    err = open_device(&x->o->common, &device, why);
    if (err) return err;
    *t = *dev_cuda_about(device->gpu);
    snprintf(x->device, sizeof x->device, "%s", cadre_device_name(device));
    cadre_device_close(device);
    return CADRE_OK;
}

/* ---- rows ---- */

static const plan_gpu_row *rows_of(const explained_gpu *x, int *count) {
    *count = x->router ? x->plan.router_count : x->plan.count;
    return x->router ? x->plan.routers : x->plan.rows;
}

static void put_config(json_out *o, const explained_gpu *x, const plan_gpu_knobs *k) {
    json_open(o, "config", '{');
    if (x->router)
        json_put_int(o, "tokens", k->router);
    else {
#define X(name, low, high, what) \
    if (strcmp(#name, "router") != 0) json_put_int(o, #name, k->name);
        PLAN_GPU_KNOBS(X)
#undef X
    }
    json_close(o, '}');
}

static void key_text(const explained_gpu *x, char text[160]) {
    const cadre_moe_desc *d = &x->shape.desc;
    if (x->router)
        snprintf(text, 160, "router d=%d e=%d k=%d bf16", d->d, d->e, d->k);
    else
        snprintf(text, 160, "experts d=%d f=%d e=%d k=%d bf16", d->d, d->f, d->e, d->k);
}

static void put_row(json_out *o, const explained_gpu *x, const plan_gpu_row *row) {
    char text[160];
    static const char *const none[] = {"file", "line", "distance", "sha256",
                                       "evidence"}; /* tables have no GPU rows yet */
    json_put_text(o, "source", row->source);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) json_put_null(o, none[i]);
    key_text(x, text);
    json_put_text(o, "key", text);
    put_config(o, x, &row->knobs);
    plan_gpu_shadows(row, text, sizeof text);
    json_put_text(o, "shadows", *text ? text : NULL);
    json_put_text(o, "why", row->rule);
    json_put_text(o, "kernel", plan_gpu_kernel(row));
    json_put_text(o, "numerics", x->numerics);
}

static void say_row(table *t, const plan_gpu_row *row, bool shadows) {
    char text[160];
    plan_gpu_text(&row->knobs, text, sizeof text);
    table_cell(t, "%s", text);
    table_cell(t, "%s", row->source);
    table_cell(t, "%s", row->rule);
    plan_gpu_shadows(row, text, sizeof text);
    if (shadows) table_cell(t, "%s", *text ? text : "-");
}

/* ---- the report: for each m, or the ranges ---- */

typedef struct report {
    const explained_gpu *x;
    json_out o;
    table t;
    bool shadows;
} report;

static void start(report *r, const char *command, const char *list) {
    const explained_gpu *x = r->x;
    int count;
    const plan_gpu_row *rows = rows_of(x, &count);
    for (int i = 0; i < count; i++) r->shadows |= rows[i].shadowed;
    shape_say(&x->shape);
    say_pair("device", "%s", x->device);
    say_pair("numerics", "%s", x->numerics ? x->numerics : "none yet: these kernels never ran on such a GPU");
    table_open(&r->t, r->shadows ? "rllll" : "rlll");
    for (const char *h = "m\0config\0source\0why\0"; *h; h += strlen(h) + 1) table_cell(&r->t, "%s", h);
    if (r->shadows) table_cell(&r->t, "shadows");
    say_json_open(&r->o, command);
    shape_put(&r->o, &x->shape);
    json_put_text(&r->o, "platform", "cuda");
    json_put_text(&r->o, "device", x->device);
    json_open(&r->o, list, '[');
}

static int finish(report *r) {
    table_print(&r->t, say_stream(), 2);
    json_close(&r->o, ']');
    open_put_switches(&r->o);
    json_close(&r->o, '}');
    if (r->x->o->common.json) return say_json(&r->o, EXIT_FINE);
    json_out_free(&r->o);
    return EXIT_FINE;
}

static int report_each(const explained_gpu *x, const int *m, int n) {
    report r = {.x = x};
    int count;
    const plan_gpu_row *rows = rows_of(x, &count);
    start(&r, "plan explain", "rows");
    for (int i = 0; i < n; i++) {
        const plan_gpu_row *row = &rows[plan_gpu_at(rows, count, m[i])];
        table_cell(&r.t, "%d", m[i]);
        say_row(&r.t, row, r.shadows);
        json_open(&r.o, NULL, '{');
        json_put_int(&r.o, "m", m[i]);
        put_row(&r.o, x, row);
        json_close(&r.o, '}');
    }
    return finish(&r);
}

static int report_ranges(const explained_gpu *x, int lo, int hi) {
    report r = {.x = x};
    int count;
    const plan_gpu_row *rows = rows_of(x, &count);
    start(&r, "plan check", "ranges");
    for (int i = 0; i < count; i++) {
        int from = rows[i].n_lo < lo ? lo : rows[i].n_lo, to = rows[i].n_hi > hi ? hi : rows[i].n_hi;
        if (from > to) continue;
        table_cell(&r.t, from == to ? "%d" : "%d..%d", from, to);
        say_row(&r.t, &rows[i], r.shadows);
        json_open(&r.o, NULL, '{');
        json_put_int(&r.o, "m_lo", from);
        json_put_int(&r.o, "m_hi", to);
        put_row(&r.o, x, &rows[i]);
        json_close(&r.o, '}');
    }
    return finish(&r);
}

int plan_gpu_explain(const plan_opts *o, cadre_fail *why) {
    static int m[PLAN_LIST_MOST];
    explained_gpu x = {.o = o, .router = !strcmp(o->op, "router")};
    dev_cuda_traits traits;
    int lo = 1, hi = 1, n = 0;
    cadre_err err = shape_read(o->shape, &x.shape, why);
    if (!err)
        err = o->check ? plan_range(o->list, &lo, &hi, why)
                       : opts_numbers("--m", o->list, 1, 1 << 24, m, PLAN_LIST_MOST, &n, why);
    if (!err) err = find_gpu(&x, &traits, why);
    if (!err) x.numerics = moe_gpu_numerics(&traits);
    if (!err) err = moe_gpu_plan(&traits, &x.shape.desc, &x.plan, why);
    if (!err && o->check) err = plan_gpu_check(&x.plan, lo, hi, why);
    for (int i = 0; i < n && !err; i++) err = plan_gpu_check(&x.plan, m[i], m[i], why);
    if (err) return say_failed(why);
    return o->check ? report_ranges(&x, lo, hi) : report_each(&x, m, n);
}
