/* bench_invariance.c: `cadre bench invariance`: does the way of running change a bit? With a planted fault: is it
 * found? */
#include "commands.h"
#include "dev/dev.h"
#include "invariance.h"
#include "op/kernel.h"
#include <string.h>

typedef struct invariance_opts {
    opts_common common;
    const char *model, *weights, *axes;
    int tokens;
    uint64_t seed;
} invariance_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(invariance_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    OPTS_MODEL(invariance_opts, model),
    OPTS_WEIGHTS(invariance_opts, weights),
    O(0, "--axes", OPTS_TEXT, "LIST", axes, 0, 0, "only these of threads,batch,chunk,rows,isa,knobs,pairs"),
    O(0, "--tokens", OPTS_INT, "N", tokens, 1, TRACK_TOKENS_MAX, "tokens per sequence (default 40)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of the prompts (default 0)"),
    OPTS_EVERYWHERE(invariance_opts),
};
#undef O

static const char *const examples[] = {
    "cadre bench invariance",
    "every axis on the demo model; exit status 0 when every bit is equal",
    "cadre bench invariance --set plant=3",
    "plant a fault (src/base/fault.h); exit status 0 when it was found",
    "cadre bench invariance -m DIR --axes batch,chunk --json",
    "a model of yours, two axes",
    NULL,
};
static const char notes[] =
    "Baseline: one thread, each sequence alone, whole prompts. A cell changes one thing (pairs: two) and must give\n"
    "the same tokens and the same bits of every row of logits.\n";

typedef struct outcome {
    cell cell;
    bool skipped;
    char reason[96]; /* why it was skipped */
    parting parting;
} outcome;

typedef struct invariance {
    const invariance_opts *o;
    trace want, got;
    outcome *cells;
    int count, ran, equal;
    long plant;
    char dir[OPEN_PATH_MAX], numerics[32], device[160];
} invariance;

/* ---- running ---- */

static const char *isa_missing(int isa) {
    static const unsigned need[OP_ISA_COUNT] = {0, DEV_AVX2_FMA, DEV_AVX512, DEV_AVX512BF16};
    return isa > 0 && (dev_features() & need[isa]) != need[isa] ? "the CPU lacks it" : NULL;
}

static cadre_err run_baseline(invariance *v, bed *b, cadre_fail *why) {
    cell base = {.name = "baseline", .threads = 1, .isa = -1, .family = -1, .tracks = TRACKS, .tokens = v->o->tokens};
    say_progress("baseline");
    switch_set(SWITCH_PLANT, 0);
    cadre_err err = bed_make(b, &base, why);
    if (!err && b->m.info.max_context < v->o->tokens + 32)
        err = cadre_fail_set(why, CADRE_RANGE, "the model's context is %d, the bench needs %d (--tokens)",
                             b->m.info.max_context, v->o->tokens + 32);
    if (!err) {
        snprintf(v->dir, sizeof v->dir, "%s", b->m.dir);
        snprintf(v->numerics, sizeof v->numerics, "%s", b->m.info.numerics);
        snprintf(v->device, sizeof v->device, "%s", cadre_device_name(b->m.device));
        err = bed_run(b, &base, v->o->seed, &v->want, why);
    }
    switch_set(SWITCH_PLANT, v->plant);
    bed_close(b);
    return err;
}

static cadre_err skip(outcome *o, const char *reason) {
    o->skipped = true;
    snprintf(o->reason, sizeof o->reason, "%.95s", reason);
    return CADRE_OK;
}

/* A cell that this CPU or a kernel can't run is skipped and says why; it's never counted as equal. */
static cadre_err run_cell(invariance *v, bed *b, outcome *o, cadre_fail *why) {
    const cell *c = &o->cell;
    const char *missing = c->isa >= 0 ? isa_missing(c->isa) : NULL;
    if (missing) return skip(o, missing);
    cadre_err err = bed_make(b, c, why);
    if (err == CADRE_RANGE && c->family >= 0) return skip(o, why->text);
    if (!err && strcmp(b->m.info.numerics, v->numerics)) return skip(o, "another numerics id");
    if (!err) err = bed_run(b, c, v->o->seed, &v->got, why);
    if (err) return err;
    if (!c->threads) snprintf(v->device, sizeof v->device, "%s", cadre_device_name(b->m.device));
    o->parting = trace_compare(&v->want, &v->got, c);
    v->ran++;
    v->equal += !o->parting.what;
    return CADRE_OK;
}

static cadre_err run_all(invariance *v, cadre_fail *why) {
    cell cells[CELLS_MAX];
    bed b = {.common = &v->o->common, .dir = v->o->model, .weights = v->o->weights};
    v->count = cells_list(v->o->axes, v->o->tokens, cells);
    v->cells = mem_new_array((size_t)v->count, sizeof *v->cells);
    if (!v->cells) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the bench");
    cadre_err err = run_baseline(v, &b, why);
    cadre_listen(NULL, NULL); /* cells set switches on purpose, and the report tells which */
    for (int i = 0; i < v->count && !err; i++) {
        v->cells[i].cell = cells[i];
        say_progress("cell %d of %d: %s", i + 1, v->count, cells[i].name);
        err = run_cell(v, &b, &v->cells[i], why);
    }
    bed_close(&b);
    say_start();
    say_progress_end();
    return err || v->ran ? err : cadre_fail_set(why, CADRE_UNSUPPORTED, "no cell of %s can run here", v->o->axes);
}

/* ---- report ---- */

typedef struct tally {
    int cells, equal, skipped;
} tally;

static tally tally_of(const invariance *v, const char *axis, size_t len) {
    tally t = {0};
    for (int i = 0; i < v->count; i++) {
        const outcome *o = &v->cells[i];
        if (strlen(o->cell.axis) != len || memcmp(o->cell.axis, axis, len)) continue;
        t.skipped += o->skipped;
        t.cells += !o->skipped;
        t.equal += !o->skipped && !o->parting.what;
    }
    return t;
}

static void put_axes(json_out *o, const invariance *v) {
    json_open(o, "axes", '{');
    for (const char *p = cell_axes; *p; p += strcspn(p, "|"), p += *p == '|') {
        char name[16];
        size_t n = strcspn(p, "|");
        tally t = tally_of(v, p, n);
        if (!t.cells && !t.skipped) continue;
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        json_open(o, name, '{');
        json_put_int(o, "cells", t.cells);
        json_put_int(o, "equal", t.equal);
        json_put_int(o, "skipped", t.skipped);
        json_close(o, '}');
    }
    json_close(o, '}');
}

static void put_lists(json_out *o, const invariance *v) {
    json_open(o, "skipped", '[');
    for (int i = 0; i < v->count; i++) {
        if (!v->cells[i].skipped) continue;
        json_open(o, NULL, '{');
        json_put_text(o, "cell", v->cells[i].cell.name);
        json_put_text(o, "reason", v->cells[i].reason);
        json_close(o, '}');
    }
    json_close(o, ']');
    json_open(o, "different", '[');
    for (int i = 0; i < v->count; i++) {
        const parting *p = &v->cells[i].parting;
        if (v->cells[i].skipped || !p->what) continue;
        json_open(o, NULL, '{');
        json_put_text(o, "cell", v->cells[i].cell.name);
        json_put_text(o, "what", p->what);
        json_put_int(o, "sequence", p->sequence);
        json_put_int(o, "step", p->step);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static int report_json(const invariance *v, int status) {
    json_out o = {0};
    say_json_open(&o, "bench invariance");
    json_put_int(&o, "cells", v->ran);
    json_put_int(&o, "equal", v->equal);
    put_axes(&o, v);
    put_lists(&o, v);
    if (v->plant) {
        json_put_int(&o, "plant", v->plant);
        json_put_bool(&o, "planted_fault_found", v->equal < v->ran);
    } else {
        json_put_null(&o, "plant");
        json_put_null(&o, "planted_fault_found");
    }
    json_put_text(&o, "model", v->dir);
    json_put_text(&o, "device", v->device);
    json_put_text(&o, "numerics", v->numerics);
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, status);
}

static void say_axes(const invariance *v) {
    table t;
    table_open(&t, "lrrr");
    for (const char *h = "axis\0cells\0equal\0skipped\0"; *h; h += strlen(h) + 1) table_cell(&t, "%s", h);
    for (const char *p = cell_axes; *p; p += strcspn(p, "|"), p += *p == '|') {
        size_t n = strcspn(p, "|");
        tally c = tally_of(v, p, n);
        if (!c.cells && !c.skipped) continue;
        table_cell(&t, "%.*s", (int)n, p);
        table_cell(&t, "%d", c.cells);
        table_cell(&t, "%d", c.equal);
        table_cell(&t, "%d", c.skipped);
    }
    table_print(&t, say_stream(), 2);
}

static void say_report(const invariance *v) {
    int shown = 0;
    say_pair("model", "%s", v->dir);
    say_pair("device", "%s", v->device);
    say_pair("numerics", "%s", v->numerics);
    say_axes(v);
    for (int i = 0; i < v->count; i++) {
        const outcome *o = &v->cells[i];
        if (o->skipped) say("  skipped    %s: %s", o->cell.name, o->reason);
        if (o->skipped || !o->parting.what || shown++ >= 8) continue;
        say("  different  %s: %s of sequence %d from step %d on", o->cell.name, o->parting.what, o->parting.sequence,
            o->parting.step);
    }
    if (shown > 8) say("  different  %d more", shown - 8);
    if (v->plant)
        say("fault %ld %s", v->plant, v->equal < v->ran ? "found" : "NOT found");
    else
        say(v->equal == v->ran ? "all %d cells equal" : "%d cells, %d equal: law L1 is broken", v->ran, v->equal);
}

/* ---- the command ---- */

static cadre_err check_axes(const char *axes, cadre_fail *why) {
    for (const char *p = axes; p && *p; p += strcspn(p, ","), p += *p == ',') {
        char one[24];
        snprintf(one, sizeof one, "%.*s", (int)(strcspn(p, ",") < 23 ? strcspn(p, ",") : 23), p);
        if (!opts_word(cell_axes, one))
            return cadre_fail_set(why, CADRE_RANGE, "--axes has '%s', expected some of %s", one, cell_axes);
    }
    return CADRE_OK;
}

static int run(void) {
    invariance_opts o = {.tokens = 40};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&bench_invariance_command, &o, &status)) return status;
    if (check_axes(o.axes, &why)) return say_failed(&why);
    invariance *v = mem_new(sizeof *v);
    if (!v) return say_failed(&(cadre_fail){CADRE_NOMEM, "out of memory for the bench"});
    v->o = &o;
    v->plant = switch_get(SWITCH_PLANT);
    if (run_all(v, &why)) {
        status = say_failed(&why);
    } else {
        bool good = v->plant ? v->equal < v->ran : v->equal == v->ran;
        say_report(v);
        status = good ? EXIT_FINE : EXIT_NO;
        if (o.common.json) status = report_json(v, status);
    }
    mem_free(v->cells);
    mem_free(v);
    return status;
}

const opts_command bench_invariance_command = {
    "bench invariance", "check that the way of running changes no bit", notes, OPTS_TABLE(defs), examples, run};
