/* table_lint.c: `cadre table lint`: what is wrong with tables. */
#include "commands.h"
#include "lint_print.h"
#include "shape.h"
#include <string.h>

typedef struct lint_opts {
    opts_common common;
    opts_rest paths;
    const char *format, *level, *system, *against, *shape, *rounding;
    int tp, max_m, smem;
} lint_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(lint_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "FILE|DIR...", OPTS_REST, NULL, paths, 0, 0, "tables; of folders, all below them that are tables of experts"),
    O(0, "--format", OPTS_WORD, "text|json|sarif|github", format, 0, 0, "how to print (default text)"),
    O(0, "--level", OPTS_WORD, "note|warning|error", level, 0, 0,
      "the least level to print (default: note, but warning for github and for text of many tables)"),
    O(0, "--rule", OPTS_WORD, "vllm|sglang|torchada", system, 0, 0,
      "whose look-up (default: told from the folder and the name)"),
    O(0, "--against", OPTS_TEXT, "POLICY", against, 0, 0, "compare rows with this default (default: the system's own)"),
    O(0, "--shape", OPTS_TEXT, "NAME", shape, 0, 0, "the layer that tables with its number of experts are for"),
    O(0, "--tp", OPTS_INT, "N", tp, 1, 1024, "its tensor-parallel size (default: any power of two)"),
    O(0, "--max-m", OPTS_INT, "N", max_m, 1, 1 << 30, "no call has more tokens: rows beyond are unreachable"),
    O(0, "--rounding", OPTS_WORD, "none|pow2", rounding, 0, 0, "the look-up rounds M up to a power of two first"),
    O(0, "--device-smem", OPTS_INT, "BYTES", smem, 1024, 1 << 30,
      "on-chip memory of a block (default: by device name)"),
    {0, "--set", OPTS_SET, "NAME=VALUE", 0, 0, 0, "set a switch; may be repeated (cadre doctor --switches)", NULL},
    O(0, "--json", OPTS_FLAG, NULL, common.json, 0, 0, "the same as --format json"),
    {'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL},
};
#undef O

static const char *const examples[] = {
    "cadre table lint vllm/model_executor/layers/fused_moe/configs",
    "every table of a checkout",
    "cadre table lint 'E=128,N=1856,device_name=MTT_S5000.json' --against vllm-musa-242",
    "one table, against a default by name",
    "cadre table lint configs --format github",
    "annotations for a pull request",
    NULL,
};

static cadre_err no_policy(const char *name, cadre_fail *why) {
    char all[300] = "";
    for (const gemm_policy *p = gemm_policies; p->name; p++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", p == gemm_policies ? "" : ", ", p->name);
    return cadre_fail_set(why, CADRE_RANGE, "--against is '%.60s', expected one of %s", name, all);
}

static cadre_err read_options(const lint_opts *o, lint_options *x, cadre_fail *why) {
    struct shape layer;
    *x = (lint_options){.system = -1, .max_m = o->max_m, .tp = o->tp, .smem = (size_t)o->smem};
    for (int i = 0; o->system && i < FOREIGN_SYSTEM_COUNT; i++)
        if (!strcmp(o->system, foreign_names[i])) x->system = i;
    x->pow2 = !strcmp(o->rounding, "pow2");
    if (o->against && !(x->against = gemm_policy_find(o->against))) return no_policy(o->against, why);
    if (o->tp && !o->shape) return cadre_fail_set(why, CADRE_RANGE, "--tp needs --shape");
    cadre_err err = o->shape ? shape_read(o->shape, &layer, why) : CADRE_OK;
    if (!err && o->shape) x->e = layer.desc.e, x->f = layer.desc.f;
    return err;
}

static lint_level level_of(const lint_opts *o, const lint *l) {
    for (int i = 0; o->level && i < LINT_LEVELS; i++)
        if (!strcmp(o->level, lint_levels[i])) return (lint_level)i;
    if (!strcmp(o->format, "github")) return LINT_WARNING;
    return !strcmp(o->format, "text") && l->files > 1 ? LINT_WARNING : LINT_NOTE;
}

static int print(const lint_opts *o, const lint *l) {
    lint_level least = level_of(o, l);
    int status = lint_count(l, NULL, LINT_WARNING) ? EXIT_NO : EXIT_FINE;
    if (!strcmp(o->format, "json")) return lint_print_json(l, least, status);
    if (!strcmp(o->format, "sarif")) return lint_print_sarif(l, least, status);
    if (!strcmp(o->format, "github")) return lint_print_github(l, least, status);
    return lint_print_text(l, least, status);
}

static cadre_err lint_all(lint *l, const opts_rest *paths, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (int i = 0; i < paths->count && !err; i++) err = lint_path(l, paths->items[i], why);
    if (!err && !paths->count) err = cadre_fail_set(why, CADRE_RANGE, "table lint needs a FILE or a DIR");
    if (!err && !l->files)
        err = cadre_fail_set(why, CADRE_IO, "no tables below %.200s%s", paths->items[0],
                             paths->count > 1 ? " and the others" : "");
    return err;
}

static int run(void) {
    static lint_opts o = {.format = "text", .rounding = "none"};
    cadre_fail why = {0};
    lint_options options;
    lint l;
    int status;
    if (!opts_read(&table_lint_command, &o, &status)) return status;
    if (o.common.json) o.format = "json";
    say_to_stderr(strcmp(o.format, "text") != 0);
    if (read_options(&o, &options, &why)) return say_failed(&why);
    lint_init(&l, &options);
    cadre_err err = lint_all(&l, &o.paths, &why);
    status = err ? say_failed(&why) : print(&o, &l);
    lint_done(&l);
    return status;
}

const opts_command table_lint_command = {
    "table lint", "say what is wrong with tables", NULL, OPTS_TABLE(defs), examples, run};
