/* plan.c: `cadre plan explain`: which kernel and which settings run for a shape and m tokens, and why. */
#include "plan/plan.h"
#include "commands.h"
#include "open.h"
#include "shape.h"
#include <string.h>

typedef struct plan_opts {
    opts_common common;
    const char *shape, *list, *op, *platform;
} plan_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(plan_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--shape", OPTS_TEXT, "NAME", shape, 0, 0,
      "demo, qwen3-30b-a3b, nemotron-3-nano, deepseek-v2-lite, olmoe-1b-7b or E=..,d=..,f=..,k=.. (default demo)"),
    O(0, "--m", OPTS_TEXT, "LIST", list, 0, 0, "tokens per step: numbers and lo..hi (default 1,2,4,8,16,32)"),
    O(0, "--op", OPTS_WORD, "experts|router", op, 0, 0, "which product of the layer (default experts)"),
    {0, "--platform", OPTS_WORD, "cpu", offsetof(plan_opts, platform), 0, 0, "whose policy", "cuda|rocm|musa|corex"},
    OPTS_EVERYWHERE(plan_opts),
};
#undef O

static const char *const examples[] = {
    "cadre plan explain --shape qwen3-30b-a3b --m 1..8",
    "the settings for one to eight tokens",
    "cadre plan explain --m 32 --set experts.rows=8",
    "an override, and what it shadows",
    "cadre plan explain --shape E=64,d=1024,f=512,k=4 --m 1,16 --json",
    "a shape of your own, for a script",
    NULL,
};

enum { LIST_MOST = 4096 };

typedef struct explained {
    const plan_opts *o;
    shape shape;
    plan plan, policy; /* policy: without overrides */
    int m[LIST_MOST], count;
    char key[160], device[160];
} explained;

/* The plan without the overrides of its family, to tell what they shadow. */
static cadre_err plan_policy(const cadre_device *device, const plan_key *key, plan *p, cadre_fail *why) {
    int saved[OP_KNOBS_MAX];
    const op_family_def *family = &op_families[key->family];
    char text[96];
    for (int i = 0; i < family->count; i++) {
        saved[i] = plan_override(key->family, i);
        snprintf(text, sizeof text, "%s.%s=0", family->name, family->knobs[i].name);
        cadre_set(text, NULL);
    }
    cadre_err err = plan_make(device, key, p, why);
    for (int i = 0; i < family->count; i++) {
        snprintf(text, sizeof text, "%s.%s=%d", family->name, family->knobs[i].name, saved[i]);
        cadre_set(text, NULL);
    }
    return err;
}

static cadre_err make_plans(explained *x, const cadre_device *device, cadre_fail *why) {
    const cadre_moe_desc *d = &x->shape.desc;
    plan_key experts = {OP_EXPERTS, d->dtype, d->d, d->f, d->e, d->k, "experts", d->act};
    plan_key router = {.family = OP_DENSE, .dtype = CADRE_F32, .d = d->d, .f = d->e, .role = "router"};
    const plan_key *key = !strcmp(x->o->op, "router") ? &router : &experts;
    cadre_receipt receipt;
    cadre_err err = plan_make(device, key, &x->plan, why);
    if (!err) err = plan_policy(device, key, &x->policy, why);
    if (err) return err;
    plan_receipts(&x->plan, &receipt, 1);
    snprintf(x->key, sizeof x->key, "%s %s", receipt.op, receipt.shape);
    return CADRE_OK;
}

typedef struct line {
    const plan_row *row;
    char config[96], shadows[96]; /* shadows "": nothing */
} line;

static line line_of(const explained *x, int m) {
    line l = {.row = plan_row_for(&x->plan, m)};
    op_family family = x->plan.key.family;
    op_knobs_text(family, &l.row->knobs, l.config, sizeof l.config);
    if (!strcmp(l.row->source, "override"))
        op_knobs_text(family, &plan_row_for(&x->policy, m)->knobs, l.shadows, sizeof l.shadows);
    return l;
}

static void put_config(json_out *o, const explained *x, const plan_row *row) {
    const op_family_def *family = &op_families[x->plan.key.family];
    json_open(o, "config", '{');
    for (int i = 0; i < family->count; i++) json_put_int(o, family->knobs[i].name, row->knobs.v[i]);
    json_close(o, '}');
}

static int report_json(const explained *x) {
    json_out o = {0};
    say_json_open(&o, "plan explain");
    shape_put(&o, &x->shape);
    json_put_text(&o, "platform", x->o->platform);
    json_put_text(&o, "device", x->device);
    json_open(&o, "rows", '[');
    for (int i = 0; i < x->count; i++) {
        line l = line_of(x, x->m[i]);
        json_open(&o, NULL, '{');
        json_put_int(&o, "m", x->m[i]);
        json_put_text(&o, "source", l.row->source);
        json_put_null(&o, "file");
        json_put_null(&o, "line");
        json_put_text(&o, "key", x->key);
        json_put_null(&o, "distance");
        put_config(&o, x, l.row);
        json_put_text(&o, "shadows", *l.shadows ? l.shadows : NULL);
        json_put_text(&o, "why", l.row->rule);
        json_put_text(&o, "kernel", x->plan.kernel->name);
        json_put_text(&o, "numerics", op_numerics(x->plan.key.dtype));
        json_close(&o, '}');
    }
    json_close(&o, ']');
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

static void say_report(const explained *x) {
    table t;
    bool shadows = false;
    for (int i = 0; i < x->count; i++) shadows |= *line_of(x, x->m[i]).shadows != 0;
    shape_say(&x->shape);
    say_pair("device", "%s", x->device);
    say_pair("kernel", "%s, numerics %s", x->plan.kernel->name, op_numerics(x->plan.key.dtype));
    table_open(&t, shadows ? "rllll" : "rlll");
    for (const char *h = "m\0config\0source\0why\0"; *h; h += strlen(h) + 1) table_cell(&t, "%s", h);
    if (shadows) table_cell(&t, "shadows");
    for (int i = 0; i < x->count; i++) {
        line l = line_of(x, x->m[i]);
        table_cell(&t, "%d", x->m[i]);
        table_cell(&t, "%s", l.config);
        table_cell(&t, "%s", l.row->source);
        table_cell(&t, "%s", l.row->rule);
        if (shadows) table_cell(&t, "%s", *l.shadows ? l.shadows : "-");
    }
    table_print(&t, say_stream(), 2);
}

static int explain(explained *x, cadre_fail *why) {
    cadre_device *device;
    if (shape_read(x->o->shape, &x->shape, why) ||
        opts_numbers("--m", x->o->list, 1, 1 << 24, x->m, LIST_MOST, &x->count, why) ||
        open_device(&x->o->common, &device, why))
        return say_failed(why);
    cadre_err err = make_plans(x, device, why);
    snprintf(x->device, sizeof x->device, "%s", cadre_device_name(device));
    cadre_device_close(device);
    if (err) return say_failed(why);
    say_report(x);
    return x->o->common.json ? report_json(x) : EXIT_FINE;
}

static int run(void) {
    plan_opts o = {.shape = "demo", .list = "1,2,4,8,16,32", .op = "experts", .platform = "cpu"};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&plan_explain_command, &o, &status)) return status;
    explained *x = mem_new(sizeof *x);
    if (!x) return say_failed(&(cadre_fail){CADRE_NOMEM, "out of memory"});
    x->o = &o;
    status = explain(x, &why);
    mem_free(x);
    return status;
}

const opts_command plan_explain_command = {
    "plan explain", "say what runs for a shape and why", NULL, OPTS_TABLE(defs), examples, run};
