/* ab_stack.c: `cadre ab stack`: do single changes add up? */
#include "ab_ask.h"
#include "commands.h"
#include "say.h"
#include <math.h>
#include <string.h>

typedef struct stack_opts {
    ask_opts ask;
    const char *factors, *none;
} stack_opts;

static const opts_def defs[] = {
    ASK_FILE(stack_opts),
    OPTS_ROW(stack_opts, 0, "--factors", OPTS_TEXT, "A,B,...", factors, 0, 0,
             "the factors in their order (default: of the experiment, the manifests or the arms' names)"),
    OPTS_ROW(stack_opts, 0, "--none", OPTS_TEXT, "ARM", none, 0, 0, "the arm without any (default: none, off, base)"),
    ASK_ROWS(stack_opts),
};

static const char notes[] =
    "Two expectations stand beside what all factors measured together: the sum of the single differences, which is "
    "right\n"
    "when they save parts of one step, and the product of the single ratios.\n"
    "\n"
    "exit status   0: every arm wins or is within noise. 1: loss, underpowered or refused. 2: could not be read\n";

static const char *const examples[] = {
    "cadre ab stack docs/samples/stack-ab.jsonl",
    "two changes alone and together",
    "cadre ab stack samples.jsonl --experiment stack.json --json",
    "the factors and the question of an experiment, for a script",
    NULL,
};

static int print(const stack_opts *o, const lab_report *r) {
    json_out out = {0};
    cadre_fail why = {0};
    char *text;
    size_t len;
    int status = ask_status(r->verdict);
    if (o->ask.common.json) {
        say_json_open(&out, "ab stack");
        json_put_text(&out, "samples", o->ask.samples.items[0]);
        lab_verdict_json(r->verdict, r->experiment, &out);
        lab_stack_json(r->stack, &out);
        json_close(&out, '}');
        return say_json(&out, status);
    }
    if (lab_report_write(r, LAB_TEXT, &text, &len, &why)) return say_failed(&why);
    fwrite(text, 1, len, stdout);
    mem_free(text);
    return status;
}

static int run(void) {
    static stack_opts o = {.ask = ASK_DEFAULTS};
    static ask_design design;
    cadre_fail why = {0};
    lab_stack *stack = NULL;
    asked a;
    int status;
    if (!opts_read(&ab_stack_command, &o, &status)) return status;
    say_to_stderr(o.ask.common.json);
    if (ask_open(&o.ask, "ab stack", &a, &why)) return say_failed(&why);
    cadre_err err = ask_factors(&a, o.factors, o.none, &design, &why);
    if (!err) err = ask_stack(&a, &design, &stack, &why);
    if (err)
        status = say_failed(&why);
    else
        status = print(
            &o, &(lab_report){
                    .verdict = stack->verdict, .stack = stack, .experiment = a.experiment, .command = opts_line()});
    lab_stack_free(stack);
    ask_close(&a);
    return status;
}

const opts_command ab_stack_command = {
    "ab stack", "say whether single changes add up", notes, OPTS_TABLE(defs), examples, run};
