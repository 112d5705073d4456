/* bench_count_report.c: samples and report of `cadre bench count`. */
#include "bench_count.h"
#include <math.h>
#include <string.h>

/* ---- samples ---- */

static void put_cell(json_out *o, const count_bench *b, const count_cell *c) {
    json_put_int(o, "tokens", c->tokens);
    json_put_int(o, "pairs", c->pairs);
    json_put_int(o, "block", c->knobs.block);
    json_put_int(o, "warps", c->knobs.warps);
    json_put_int(o, "ctas", c->ctas);
    json_put_int(o, "atomics", c->knobs.atomics);
    json_put_bool(o, "private", c->knobs.private);
    json_put_int(o, "busy_ctas", c->busy);
    if (b->device->gpu) json_put_int(o, "pairs_per_thread", c->depth);
}

static void put_list(json_out *o, const char *key, const double *v, int n) {
    json_open(o, key, '[');
    for (int i = 0; i < n; i++) json_put_real(o, NULL, v[i]);
    json_close(o, ']');
}

static void put_problem(json_out *o, const count_bench *b) {
    json_put_int(o, "k", b->o->k);
    json_put_int(o, "experts", b->o->experts);
    json_put_int(o, "local", b->o->local);
    json_put_int(o, "start", b->o->start);
    json_put_int(o, "capacity", b->capacity);
}

cadre_err count_bench_keep(const count_bench *b, const count_cell *c, int visit, int order, const count_visit *v,
                           cadre_fail *why) {
    json_out o = {0};
    say_sample_open(&o, "bench count");
    json_put_text(&o, "run", b->run);
    json_put_int(&o, "visit", visit);
    json_put_int(&o, "order", order);
    put_problem(&o, b);
    put_cell(&o, b, c);
    json_put_int(&o, "launches", v->launches);
    json_put_real(&o, "us", c->us[visit]);
    json_put_real(&o, "empty_us", c->empty[visit]);
    put_list(&o, "step_us", v->us, v->steps);
    put_list(&o, "step_empty_us", v->empty, v->steps);
    open_put_manifest(&o, b->device, NULL, NULL);
    json_close(&o, '}');
    cadre_err err = open_append(b->o->out, &o, why);
    json_out_free(&o);
    return err;
}

/* ---- figures ---- */

typedef struct figures {
    double us, interval[2], empty;
} figures;

static figures figures_of(const count_bench *b, const count_cell *c) {
    double v[256];
    int n = b->o->repeat;
    figures f;
    memcpy(v, c->us, (size_t)n * sizeof *v);
    f.us = stat_median(v, n);
    stat_interval(v, n, f.interval);
    memcpy(v, c->empty, (size_t)n * sizeof *v);
    f.empty = stat_median(v, n);
    return f;
}

/* ---- for programs ---- */

static void put_row(json_out *o, const count_bench *b, const count_cell *c) {
    figures f = figures_of(b, c);
    json_open(o, NULL, '{');
    put_cell(o, b, c);
    json_put_real(o, "us", f.us);
    put_list(o, "us_interval", f.interval, 2);
    json_put_real(o, "empty_us", f.empty);
    json_put_real(o, "above_empty_us", f.us - f.empty);
    json_close(o, '}');
}

static void put_factors(json_out *o, const count_bench *b) {
    json_open(o, "factors", '[');
    for (int i = 0; i < b->factor_count; i++) {
        json_open(o, NULL, '{');
        json_put_text(o, "name", b->factors[i].name);
        json_put_int(o, "low", b->factors[i].low);
        json_put_int(o, "high", b->factors[i].high);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_effects(json_out *o, const count_bench *b) {
    count_effect all[COUNT_EFFECTS_MOST];
    double rest;
    int n = count_bench_effects(b, all, &rest);
    json_open(o, "effects", '[');
    for (int i = 0; i < n; i++) {
        json_open(o, NULL, '{');
        json_put_text(o, "name", all[i].name);
        json_put_real(o, "ratio", all[i].ratio);
        put_list(o, "interval", all[i].interval, 2);
        json_put_real(o, "us", all[i].us);
        json_put_real(o, "share", all[i].share);
        json_close(o, '}');
    }
    json_close(o, ']');
    json_put_real(o, "share_of_others", rest);
}

static void put_contrasts(json_out *o, const count_bench *b) {
    count_contrast all[COUNT_CONTRASTS];
    int n = b->device->gpu ? count_bench_contrasts(b, all) : 0;
    json_open(o, "contrasts", '[');
    for (int i = 0; i < n; i++) {
        json_open(o, NULL, '{');
        json_put_text(o, "differs", all[i].depth ? "pairs_per_thread" : "busy_ctas");
        json_put_text(o, "equal", all[i].depth ? "busy_ctas" : "pairs_per_thread");
        json_put_int(o, "from", all[i].from);
        json_put_int(o, "to", all[i].to);
        json_put_int(o, "cells", all[i].cells);
        json_put_real(o, "ratio", all[i].ratio);
        json_put_real(o, "least", all[i].least);
        json_put_real(o, "most", all[i].most);
        json_close(o, '}');
    }
    json_close(o, ']');
}

int count_bench_json(const count_bench *b) {
    json_out o = {0};
    say_json_open(&o, "bench count");
    put_problem(&o, b);
    json_open(&o, "rows", '[');
    for (int i = 0; i < b->count; i++) put_row(&o, b, &b->cells[i]);
    json_close(&o, ']');
    if (b->factor_count) {
        put_factors(&o, b);
        put_effects(&o, b);
        put_contrasts(&o, b);
    }
    json_put_text(&o, "samples", b->o->out);
    json_put_text(&o, "run", b->run);
    json_put_text(&o, "device", cadre_device_name(b->device));
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

/* ---- for people ---- */

static void head(table *t, const char *words) {
    for (const char *w = words; *w; w += strlen(w) + 1) table_cell(t, "%s", w);
}

static void say_row(table *t, const count_bench *b, const count_cell *c) {
    figures f = figures_of(b, c);
    table_cell(t, "%d", c->tokens);
    table_cell(t, "%d", c->knobs.block);
    table_cell(t, "%d", c->knobs.warps);
    table_cell(t, "%d of %d", c->busy, c->ctas);
    table_cell(t, b->device->gpu ? "%lld" : "-", (long long)c->depth);
    table_cell(t, "%s%s",
               c->knobs.atomics == COUNT_NONE      ? "none"
               : c->knobs.atomics == COUNT_ORDERED ? "ordered"
                                                   : "relaxed",
               c->knobs.private ? ", private" : "");
    table_cell(t, "%.2f", f.us);
    if (isnan(f.interval[0]))
        table_cell(t, "-");
    else
        table_cell(t, "%.2f..%.2f", f.interval[0], f.interval[1]);
    table_cell(t, "%.2f", f.empty);
    table_cell(t, "%.2f", f.us - f.empty);
}

static void say_rows(const count_bench *b) {
    table t;
    table_open(&t, "rrrrrlrrrr");
    head(&t, "tokens\0block\0warps\0busy CTAs\0pairs/thread\0additions\0us\0interval\0empty\0above empty\0");
    for (int i = 0; i < b->count; i++) say_row(&t, b, &b->cells[i]);
    table_print(&t, say_stream(), 0);
}

static void say_effects(const count_bench *b) {
    count_effect all[COUNT_EFFECTS_MOST];
    double rest;
    table t;
    int n = count_bench_effects(b, all, &rest);
    say("\neffects: high / low, the rest averaged; of a pair: how many times the first's ratio is larger at the "
        "second's high");
    table_open(&t, "lrrrrr");
    head(&t, "factor\0levels\0ratio\0interval\0us\0share\0");
    for (int i = 0; i < n; i++) {
        const count_effect *e = &all[i];
        table_cell(&t, "%s", e->name);
        if (i < b->factor_count)
            table_cell(&t, "%d -> %d", b->factors[i].low, b->factors[i].high);
        else
            table_cell(&t, "%s", "");
        table_cell(&t, "%.3f", e->ratio);
        if (isnan(e->interval[0]))
            table_cell(&t, "-");
        else
            table_cell(&t, "%.3f..%.3f", e->interval[0], e->interval[1]);
        table_cell(&t, "%+.2f", e->us);
        table_cell(&t, "%.1f %%", e->share * 100);
    }
    table_print(&t, say_stream(), 0);
    say("three and more together: %.1f %% of the variance of log time", rest * 100);
}

static void say_contrasts(const count_bench *b) {
    count_contrast all[COUNT_CONTRASTS];
    table t;
    int n = b->device->gpu ? count_bench_contrasts(b, all) : 0;
    if (!n) return;
    say("\ncells that are alike but for one thing");
    table_open(&t, "lrrrr");
    head(&t, "differs\0from -> to\0cells\0ratio\0range\0");
    for (int i = 0; i < n; i++) {
        table_cell(&t, all[i].depth ? "pairs per thread, busy CTAs equal" : "busy CTAs, pairs per thread equal");
        table_cell(&t, "%lld -> %lld", (long long)all[i].from, (long long)all[i].to);
        table_cell(&t, "%d", all[i].cells);
        table_cell(&t, "%.3f", all[i].ratio);
        table_cell(&t, "%.3f..%.3f", all[i].least, all[i].most);
    }
    table_print(&t, say_stream(), 0);
}

void count_bench_say(const count_bench *b) {
    say_pair("device", "%s", cadre_device_name(b->device));
    say_pair("problem", "%d of %d experts from %d on, k=%d, a buffer of %d tokens", b->o->local, b->o->experts,
             b->o->start, b->o->k, b->capacity);
    say("%s", "");
    say_rows(b);
    if (b->factor_count) {
        say_effects(b);
        say_contrasts(b);
    }
    say("\nraw samples: %s, run %s", b->o->out, b->run);
}
