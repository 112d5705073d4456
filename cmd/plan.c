/* plan.c: `cadre plan explain` and `plan check` for cadre's own plans: which kernel and which settings run for a shape
 * and m tokens, from where, and what would run without. */
#include "plan.h"
#include "commands.h"
#include "dev/dev.h"
#include "open.h"
#include "plan/foreign.h"
#include "plan/table.h"
#include <string.h>

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(plan_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--shape", OPTS_TEXT, "NAME", shape, 0, 0,
      "demo, qwen3-30b-a3b, nemotron-3-nano, deepseek-v2-lite, olmoe-1b-7b or E=..,d=..,f=..,k=.. (default demo)"),
    O(0, "--m", OPTS_TEXT, "LIST", list, 0, 0,
      "tokens per step: numbers and lo..hi (default 1,2,4,8,16,32; plan check: 1..4096)"),
    O(0, "--op", OPTS_WORD, "experts|router", op, 0, 0, "which product of the layer (default experts)"),
    O(0, "--platform", OPTS_WORD, "cpu|cuda|rocm|musa|corex", platform, 0, 0,
      "whose defaults; all but cpu are those of other systems (default cpu)"),
    O(0, "--table", OPTS_TEXT, "FILE|DIR", table, 0, 0, "a table, or the folder to look for one as the system does"),
    O(0, "--rule", OPTS_WORD, "vllm|sglang|torchada|native", rule, 0, 0, "whose look-up (default vllm)"),
    O(0, "--policy", OPTS_TEXT, "NAME[@V]", policy, 0, 0, "the default to use (default: the platform's of today)"),
    O(0, "--device-name", OPTS_TEXT, "NAME", device_name, 0, 0, "the device to look for (\"NVIDIA H200\")"),
    O(0, "--device-smem", OPTS_INT, "BYTES", smem, 1024, 1 << 30,
      "on-chip memory of a block (default: by device name)"),
    O(0, "--triton", OPTS_TEXT, "VERSION", triton, 0, 0, "the running version, for folders by version"),
    O(0, "--dtype", OPTS_WORD, "bf16|fp16|float32|fp8_w8a8|int8_w8a8|int8_w8a16|int4_w4a16", dtype, 0, 0,
      "types as tables name them (default: the shape's)"),
    O(0, "--block-shape", OPTS_TEXT, "BN,BK", block, 0, 0, "block of weights that shares a scale"),
    O(0, "--tp", OPTS_INT, "N", tp, 1, 1024, "tensor-parallel size: tables are keyed by f / N (default 1)"),
    O(0, "--memory", OPTS_FLAG, NULL, memory, 0, 0, "also what one step needs: parts, lifetimes, who shares what"),
    O(0, "--device", OPTS_TEXT, "NAME", common.device, 0, 0,
      "where the layer would run: cpu, cuda or cuda:N (default cpu); a GPU may be named (--device-name)"),
    OPTS_ALWAYS(plan_opts),
};
#undef O

static const char *const examples[] = {
    "cadre plan explain --shape qwen3-30b-a3b --m 1..8",
    "the settings for one to eight tokens",
    "cadre plan explain --m 32 --set experts.rows=8",
    "an override, and what it shadows",
    "cadre plan explain --shape nemotron-3-nano --platform musa --table FILE --rule torchada --m 1,7,49",
    "a table of another system, its ties, its reach, and what it shadows",
    NULL,
};

typedef struct explained {
    const plan_opts *o;
    shape shape;
    plan plan;
    int m[PLAN_LIST_MOST], count;
    char key[160], device[160];
    plan_memory *memory; /* [count] with --memory */
} explained;

static cadre_err make_plans(explained *x, const cadre_device *device, cadre_fail *why) {
    const cadre_moe_desc *d = &x->shape.desc;
    plan_key experts = {OP_EXPERTS, d->dtype, d->d, d->f, d->e, d->k, "experts", d->act};
    plan_key router = {.family = OP_DENSE, .dtype = CADRE_F32, .d = d->d, .f = d->e, .role = "router"};
    const plan_key *key = !strcmp(x->o->op, "router") ? &router : &experts;
    cadre_receipt receipt;
    cadre_err err = plan_make(device, key, &x->plan, why);
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
    if (l.row->shadowed) op_knobs_text(family, &l.row->shadows, l.shadows, sizeof l.shadows);
    return l;
}

/* A row of a table runs, and not the policy or an override. */
static bool is_table(const plan_row *row) {
    return strcmp(row->source, "override") != 0 && strcmp(row->source, "policy") != 0;
}

static void put_config(json_out *o, const explained *x, const plan_row *row) {
    const op_family_def *family = &op_families[x->plan.key.family];
    json_open(o, "config", '{');
    for (int i = 0; i < family->count; i++) json_put_int(o, family->knobs[i].name, row->knobs.v[i]);
    json_close(o, '}');
}

static void put_row(json_out *o, const explained *x, const line *l) {
    const plan_row *row = l->row;
    json_put_text(o, "source", row->source);
    json_put_text(o, "file", row->file ? file_short(row->file) : NULL);
    if (row->line)
        json_put_int(o, "line", row->line);
    else
        json_put_null(o, "line");
    json_put_text(o, "key", x->key);
    if (is_table(row))
        json_put_int(o, "distance", row->distance);
    else
        json_put_null(o, "distance");
    json_put_text(o, "sha256", row->sha256);
    put_config(o, x, row);
    json_put_text(o, "shadows", *l->shadows ? l->shadows : NULL);
    json_put_text(o, "evidence", is_table(row) ? row->rule : NULL);
    json_put_text(o, "why", row->rule);
    json_put_text(o, "kernel", x->plan.kernel->name);
    json_put_text(o, "numerics", op_numerics(x->plan.key.dtype));
}

static void put_head(json_out *o, const explained *x, const char *command) {
    say_json_open(o, command);
    shape_put(o, &x->shape);
    json_put_text(o, "platform", x->o->platform);
    json_put_text(o, "device", x->device);
}

static int report_json(const explained *x) {
    json_out o = {0};
    put_head(&o, x, "plan explain");
    json_open(&o, "rows", '[');
    for (int i = 0; i < x->count; i++) {
        line l = line_of(x, x->m[i]);
        json_open(&o, NULL, '{');
        json_put_int(&o, "m", x->m[i]);
        put_row(&o, x, &l);
        json_close(&o, '}');
    }
    json_close(&o, ']');
    if (x->memory) json_open(&o, "memory", '[');
    for (int i = 0; x->memory && i < x->count; i++) plan_memory_put(&o, &x->memory[i]);
    if (x->memory) json_close(&o, ']');
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

static void say_head(const explained *x) {
    shape_say(&x->shape);
    say_pair("device", "%s", x->device);
    say_pair("kernel", "%s, numerics %s", x->plan.kernel->name, op_numerics(x->plan.key.dtype));
}

static void table_head(table *t, const char *first, bool shadows) {
    table_open(t, shadows ? "rllll" : "rlll");
    table_cell(t, "%s", first);
    for (const char *h = "config\0source\0why\0"; *h; h += strlen(h) + 1) table_cell(t, "%s", h);
    if (shadows) table_cell(t, "shadows");
}

static void table_row(table *t, const line *l, bool shadows) {
    table_cell(t, "%s", l->config);
    if (l->row->line)
        table_cell(t, "%s %s:%d", l->row->source, file_short(l->row->file), l->row->line);
    else
        table_cell(t, "%s", l->row->source);
    table_cell(t, "%s", l->row->rule);
    if (shadows) table_cell(t, "%s", *l->shadows ? l->shadows : "-");
}

static void say_report(const explained *x) {
    table t;
    bool shadows = false;
    for (int i = 0; i < x->count; i++) shadows |= *line_of(x, x->m[i]).shadows != 0;
    say_head(x);
    table_head(&t, "m", shadows);
    for (int i = 0; i < x->count; i++) {
        line l = line_of(x, x->m[i]);
        table_cell(&t, "%d", x->m[i]);
        table_row(&t, &l, shadows);
    }
    table_print(&t, say_stream(), 2);
    for (int i = 0; x->memory && i < x->count; i++) plan_memory_say(&x->memory[i]);
}

/* ---- check: the plan's rows are the ranges ---- */

cadre_err plan_range(const char *list, int *lo, int *hi, cadre_fail *why) {
    const char *dots = strstr(list, "..");
    char first[32];
    snprintf(first, sizeof first, "%.*s", (int)(dots ? dots - list : 31), list);
    cadre_err err = opts_int("--m", first, 1, PLAN_M_MOST, lo, why);
    *hi = *lo;
    if (!err && dots) err = opts_int("--m", dots + 2, 1, PLAN_M_MOST, hi, why);
    if (!err && *hi < *lo) err = cadre_fail_set(why, CADRE_RANGE, "--m is %.60s, which runs backwards", list);
    return err;
}

static int report_ranges(const explained *x, int lo, int hi) {
    json_out o = {0};
    table t;
    bool shadows = false;
    for (int i = 0; i < x->plan.count; i++) shadows |= x->plan.rows[i].shadowed;
    say_head(x);
    put_head(&o, x, "plan check");
    json_open(&o, "ranges", '[');
    table_head(&t, "m", shadows);
    for (int i = 0; i < x->plan.count; i++) {
        int from = x->plan.rows[i].n_lo, to = x->plan.rows[i].n_hi;
        from = from < lo ? lo : from, to = to > hi ? hi : to;
        if (from > to) continue;
        line l = line_of(x, from);
        table_cell(&t, from == to ? "%d" : "%d..%d", from, to);
        table_row(&t, &l, shadows);
        json_open(&o, NULL, '{');
        json_put_int(&o, "m_lo", from);
        json_put_int(&o, "m_hi", to);
        put_row(&o, x, &l);
        json_close(&o, '}');
    }
    table_print(&t, say_stream(), 2);
    json_close(&o, ']');
    open_put_switches(&o);
    json_close(&o, '}');
    if (x->o->common.json) return say_json(&o, EXIT_FINE);
    json_out_free(&o);
    return EXIT_FINE;
}

/* A native table of one's own: its folder is looked at in place of the user's. What is wrong with a file that was named
 * is an error; of a folder it is said. */
static cadre_err use_table(const char *path, cadre_fail *why) {
    char set[4200];
    const char *slash = strrchr(path, '/');
    if (file_is_dir(path))
        snprintf(set, sizeof set, "tables_dir=%s", path);
    else
        snprintf(set, sizeof set, "tables_dir=%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    native_table *t = NULL;
    cadre_err err = file_is_dir(path) ? CADRE_OK : native_read(path, NULL, NULL, &t, why);
    native_free(t);
    return err ? err : cadre_set(set, why);
}

static cadre_err account(explained *x, cadre_device *device, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    if (!x->o->memory || x->o->check) return CADRE_OK;
    x->memory = mem_new_array((size_t)x->count, sizeof *x->memory);
    if (!x->memory) return cadre_fail_set(why, CADRE_NOMEM, "out of memory");
    for (int i = 0; i < x->count && !err; i++)
        err = plan_memory_own(&x->memory[i], device, &x->shape.desc, x->m[i], pool_threads(device->threads), why);
    return err;
}

static int explain(explained *x, cadre_fail *why) {
    cadre_device *device;
    int lo = 1, hi = 1;
    if (shape_read(x->o->shape, &x->shape, why) || (x->o->table && use_table(x->o->table, why)) ||
        (x->o->check ? plan_range(x->o->list, &lo, &hi, why)
                     : opts_numbers("--m", x->o->list, 1, 1 << 24, x->m, PLAN_LIST_MOST, &x->count, why)) ||
        open_device(&x->o->common, &device, why))
        return say_failed(why);
    cadre_err err = make_plans(x, device, why);
    if (!err) err = account(x, device, why);
    snprintf(x->device, sizeof x->device, "%s", cadre_device_name(device));
    cadre_device_close(device);
    if (err) return say_failed(why);
    if (x->o->check) return report_ranges(x, lo, hi);
    say_report(x);
    return x->o->common.json ? report_json(x) : EXIT_FINE;
}

/* ---- options that one half takes and the other does not ---- */

/* Appends the option if it was given. */
static void name_given(char *text, size_t size, bool given, const char *name) {
    size_t n = strlen(text);
    if (given) snprintf(text + n, size - n, "%s%s", n ? ", " : "", name);
}

/* `given` is set: what asks for the half that does not know the options in `list`. */
static cadre_err clash(const char *list, const char *given, const char *why_not, cadre_fail *why) {
    return *list ? cadre_fail_set(why, CADRE_RANGE, "%s and %s do not go together: %s", list, given, why_not)
                 : CADRE_OK;
}

static cadre_err check_foreign(const plan_opts *o, cadre_fail *why) {
    char list[160] = "", whose[80];
    bool cpu = o->platform && !strcmp(o->platform, "cpu"), native = o->rule && !strcmp(o->rule, "native");
    name_given(list, sizeof list, cpu || native, native ? "--rule native" : "--platform cpu");
    if (native && o->platform && !cpu)
        snprintf(whose, sizeof whose, "--platform %s", o->platform);
    else if (o->policy)
        snprintf(whose, sizeof whose, "--policy %.60s", o->policy);
    else if (o->rule)
        snprintf(whose, sizeof whose, "--rule %s", o->rule);
    else
        snprintf(whose, sizeof whose, "--table");
    cadre_err err =
        clash(list, whose, "cpu and native are cadre's own plans (--rule native for a table of cadre's)", why);
    if (err) return err;
    name_given(list, sizeof list, !strcmp(o->op, "router"), "--op router");
    if (o->platform) snprintf(whose, sizeof whose, "--platform %s", o->platform);
    return clash(list, whose, "tables and defaults of other systems are for experts", why);
}

/* A layer on a GPU: nothing of other systems, and no table. */
static cadre_err check_gpu(const plan_opts *o, cadre_fail *why) {
    char list[160] = "";
    name_given(list, sizeof list, o->platform, "--platform");
    name_given(list, sizeof list, o->table, "--table");
    name_given(list, sizeof list, o->rule, "--rule");
    name_given(list, sizeof list, o->policy, "--policy");
    name_given(list, sizeof list, o->tp, "--tp");
    name_given(list, sizeof list, o->dtype, "--dtype");
    name_given(list, sizeof list, o->block, "--block-shape");
    name_given(list, sizeof list, o->smem, "--device-smem");
    name_given(list, sizeof list, o->triton, "--triton");
    name_given(list, sizeof list, o->memory, "--memory");
    return clash(list, "--device cuda", "it asks for cadre's own kernels on a GPU", why);
}

static cadre_err check_own(const plan_opts *o, cadre_fail *why) {
    char list[160] = "";
    name_given(list, sizeof list, o->tp, "--tp");
    name_given(list, sizeof list, o->dtype, "--dtype");
    name_given(list, sizeof list, o->block, "--block-shape");
    name_given(list, sizeof list, o->device_name, "--device-name");
    name_given(list, sizeof list, o->smem, "--device-smem");
    name_given(list, sizeof list, o->triton, "--triton");
    return clash(list,
                 o->rule       ? "--rule native"
                 : o->platform ? "--platform cpu"
                               : "--platform cpu (the default)",
                 "the former is for plans of other systems; --device-name is for GPUs too (--device cuda)", why);
}

/* Also fills in the defaults of what was not given. */
static cadre_err check_options(plan_opts *o, cadre_fail *why) {
    cadre_err err = open_where(&o->common, &o->gpu, why);
    if (!err)
        err = o->gpu != DEV_CPU ? check_gpu(o, why) : plan_is_foreign(o) ? check_foreign(o, why) : check_own(o, why);
    if (!err && o->check && o->memory) err = clash("--memory", "plan check", "plan explain tells it for one M", why);
    if (!o->platform) o->platform = "cpu";
    if (!o->tp) o->tp = 1;
    return err;
}

static int run_with(const opts_command *command, plan_opts *o) {
    cadre_fail why = {0};
    int status;
    if (!opts_read(command, o, &status)) return status;
    if (check_options(o, &why)) return say_failed(&why);
    if (o->triton && !foreign_is_version(o->triton)) {
        cadre_fail_set(&why, CADRE_RANGE, "--triton is '%.40s', expected a version, 3.4.0", o->triton);
        return say_failed(&why);
    }
    if (o->gpu != DEV_CPU) return plan_gpu_explain(o, &why);
    if (plan_is_foreign(o)) return plan_foreign(o, &why);
    explained *x = mem_new(sizeof *x);
    if (!x) return say_failed(&(cadre_fail){CADRE_NOMEM, "out of memory"});
    x->o = o;
    status = explain(x, &why);
    mem_free(x->memory);
    mem_free(x);
    return status;
}

static int run(void) {
    plan_opts o = {.shape = "demo", .list = "1,2,4,8,16,32", .op = "experts"};
    return run_with(&plan_explain_command, &o);
}

static int run_check(void) {
    plan_opts o = {.shape = "demo", .list = "1..4096", .op = "experts", .check = true};
    return run_with(&plan_check_command, &o);
}

static const char *const check_examples[] = {
    "cadre plan check --shape qwen3-30b-a3b --m 1..4096",
    "what runs for every M, as ranges of equal answers",
    "cadre plan check --shape nemotron-3-nano --platform musa --table FILE --rule torchada",
    "the same for a table; its down table must agree at every M",
    NULL,
};

const opts_command plan_explain_command = {
    "plan explain", "say what runs for a shape and why", NULL, OPTS_TABLE(defs), examples, run};
const opts_command plan_check_command = {
    "plan check", "say what runs for every M, as ranges", NULL, OPTS_TABLE(defs), check_examples, run_check};
