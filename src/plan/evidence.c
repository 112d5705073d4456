/* evidence.c: one row of a native table from raw samples of `cadre bench moe`: its key and settings as the samples say,
 * its figures from pairs of runs.
 *
 *   runs:          a0   a1   a2 ...     of the row's settings       ratio i, at one m:
 *   default_runs:  b0   b1   b2 ...     of the policy's             median us of a_i / median us of b_i
 *   in the file:   a0 b0  b1 a1  a2 b2  pairs one after the other, so that drift of the machine meets both
 */
#include "plan/recipe_parts.h"
#include "plan/table_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MOST = 256, PAIRS_LEAST = 6, SAMPLES_MOST = 1 << 14 };

typedef struct sample {
    int pair, arm; /* arm 0: the row's settings, 1: the default's */
    int m;
    double us;
} sample;

typedef struct evidence {
    const recipe *r;
    const json *at; /* the row of the recipe */
    const json *runs[2];
    int pairs;
    native_row row; /* the key, from the first sample; knobs and beaten, from the first of each arm */
    bool seen[2];
    char klass[NATIVE_WORD_MAX];
    sample *samples;
    int count, cap;
    int first[PAIRS_MOST], last[PAIRS_MOST]; /* lines of a pair's samples */
    const char *file;
    int line;
} evidence;

/* ---- one sample ---- */

static cadre_err bad_sample(const evidence *e, cadre_fail *why, const char *what) {
    return recipe_fault(e->r, e->at, why, "%.120s:%d: %s", e->file, e->line, what);
}

static bool copy(const json *object, const char *key, char *out, size_t size) {
    const json *v = json_get(object, key);
    if (!v || v->kind != JSON_TEXT || !v->len || v->len >= size || strlen(v->text) != v->len) return false;
    for (size_t i = 0; i < v->len; i++)
        if ((unsigned char)v->text[i] < ' ' || v->text[i] == '"') return false;
    memcpy(out, v->text, v->len + 1);
    return true;
}

static bool whole(const json *object, const char *key, int low, int high, int *out) {
    const json *v = json_get(object, key);
    if (!v || v->kind != JSON_NUMBER || !v->whole || v->integer < low || v->integer > high) return false;
    *out = (int)v->integer;
    return true;
}

static bool word(const char *text) {
    return *text && !strchr(text, ' ');
}

static bool read_knobs(const json *config, op_family family, op_knobs *knobs) {
    *knobs = (op_knobs){.v = {0}};
    for (int i = 0; i < op_families[family].count; i++) {
        const op_knob_def *def = &op_families[family].knobs[i];
        if (!whole(config, def->name, def->low, def->high, &knobs->v[i])) return false;
    }
    return true;
}

static bool read_family(const json *plan, native_row *row) {
    for (int i = 0; i < OP_FAMILY_COUNT; i++)
        if (json_is(json_get(plan, "op"), op_families[i].name)) {
            row->family = (op_family)i;
            return true;
        }
    return false;
}

/* The key and what goes with it; knobs are the arm's. */
static bool read_plan(const json *root, native_row *row, op_knobs *knobs, char *klass) {
    const json *plan = json_get(root, "plan"), *manifest = json_get(root, "manifest");
    char dtype[16];
    int v;
    if (!read_family(plan, row) || !copy(plan, "dtype", dtype, sizeof dtype)) return false;
    if ((v = op_dtype_find(dtype)) < 0) return false;
    row->dtype = (cadre_dtype)v;
    snprintf(row->driver, sizeof row->driver, "-");
    bool good =
        copy(plan, "kernel", row->kernel, sizeof row->kernel) && copy(plan, "code", row->code, sizeof row->code);
    good = good && whole(plan, "d", 0, 1 << 24, &row->d) && whole(plan, "f", 0, 1 << 24, &row->f);
    good = good && whole(plan, "e", 0, 1 << 20, &row->e) && whole(plan, "k", 0, 1 << 20, &row->k);
    good = good && copy(plan, "act", row->act, sizeof row->act) && whole(plan, "threads", 1, 1 << 16, &row->threads);
    good = good && copy(plan, "cpu", row->device, sizeof row->device) && copy(plan, "class", klass, NATIVE_WORD_MAX);
    good = good && copy(root, "routing", row->routing, sizeof row->routing);
    good = good && copy(manifest, "compiler", row->toolchain, sizeof row->toolchain);
    good = good && copy(manifest, "date", row->date, sizeof row->date) && copy(root, "run", row->run, sizeof row->run);
    row->gated = row->family == OP_EXPERTS && strcmp(row->act, "relu2");
    return good && word(row->kernel) && word(row->code) && word(row->act) && word(klass) && word(row->date) &&
           word(row->run) && read_knobs(json_get(plan, "config"), row->family, knobs) && !native_key_fault(row);
}

/* Samples of one row agree in everything but time, run and date. */
static const char *differs(const evidence *e, const native_row *row, const char *klass) {
    const native_row *first = &e->row;
    if (!native_same_key(first, row)) return "has another key than the samples before it";
    if (strcmp(first->device, row->device) || strcmp(e->klass, klass)) return "is of another device";
    if (strcmp(first->toolchain, row->toolchain)) return "is of another compiler";
    return strcmp(first->routing, row->routing) ? "has another routing" : NULL;
}

static cadre_err take_plan(evidence *e, const json *root, int arm, cadre_fail *why) {
    native_row row;
    op_knobs knobs, *mine = arm ? &e->row.beaten : &e->row.knobs;
    char klass[NATIVE_WORD_MAX];
    memset(&row, 0, sizeof row);
    if (!read_plan(root, &row, &knobs, klass))
        return bad_sample(e, why, "the sample does not say what ran, as those of this version do (plan, manifest)");
    bool policy = json_is(json_get(json_get(root, "plan"), "source"), "policy");
    if (arm && !policy) return bad_sample(e, why, "a run of the default must have run the policy");
    if (!e->seen[0] && !e->seen[1]) {
        op_knobs none = {.v = {0}};
        row.knobs = row.beaten = none;
        e->row = row;
        memcpy(e->klass, klass, sizeof klass);
    }
    const char *text = differs(e, &row, klass);
    if (!text && e->seen[arm] && memcmp(mine, &knobs, sizeof knobs))
        text = arm ? "has another default than the samples before it: split the range of n"
                   : "has other settings than the samples before it";
    if (text) return bad_sample(e, why, text);
    *mine = knobs;
    e->seen[arm] = true;
    if (strcmp(row.date, e->row.date) >= 0) memcpy(e->row.date, row.date, sizeof row.date);
    return CADRE_OK;
}

static int position(const json *list, const json *run) {
    int i = 0;
    for (const json *c = list->child; c; c = c->next, i++)
        if (json_is(run, c->text)) return i;
    return -1;
}

static cadre_err keep(evidence *e, sample s, cadre_fail *why) {
    if (e->count == SAMPLES_MOST) return bad_sample(e, why, "too many samples of one row");
    if (e->count == e->cap) {
        int cap = 2 * e->cap + 256;
        sample *grown = mem_resize(e->samples, (size_t)e->cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for samples", e->file);
        e->samples = grown, e->cap = cap;
    }
    e->samples[e->count++] = s;
    return CADRE_OK;
}

static cadre_err take_sample(evidence *e, const json *root, cadre_fail *why) {
    sample s = {0};
    const json *run = json_get(root, "run"), *us = json_get(root, "us");
    for (s.arm = 0; s.arm < 2; s.arm++)
        if ((s.pair = position(e->runs[s.arm], run)) >= 0) break;
    if (s.arm == 2) return CADRE_OK; /* of another run */
    if (!whole(root, "m", 1, INT32_MAX, &s.m)) return bad_sample(e, why, "the sample has no m");
    if (s.m < e->row.n_lo || s.m > e->row.n_hi) return CADRE_OK;
    if (!us || us->kind != JSON_NUMBER || !isfinite(us->number) || us->number <= 0)
        return bad_sample(e, why, "the sample has no time: it was not measured");
    s.us = us->number;
    int lo = e->row.n_lo, hi = e->row.n_hi;
    cadre_err err = take_plan(e, root, s.arm, why);
    e->row.n_lo = lo, e->row.n_hi = hi;
    if (err) return err;
    if (!e->first[s.pair]) e->first[s.pair] = e->line;
    e->last[s.pair] = e->line;
    return keep(e, s, why);
}

/* ---- the file ---- */

static cadre_err read_lines(evidence *e, const char *text, size_t len, cadre_fail *why) {
    const char *end = text + len;
    cadre_err err = CADRE_OK;
    while (!err && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        json_doc *doc = NULL;
        e->line++;
        if (n) {
            err = json_parse(e->file, text, n, &doc, why);
            if (err == CADRE_FORMAT) err = bad_sample(e, why, "is no JSON");
            if (!err) err = take_sample(e, json_root(doc), why);
            json_free(doc);
        }
        text += n + 1;
    }
    return err;
}

/* Relative to the recipe's folder. */
static bool beside(const char *recipe_path, const char *name, char *out, size_t size) {
    const char *slash = strrchr(recipe_path, '/');
    if (*name == '/' || !slash) return (size_t)snprintf(out, size, "%s", name) < size;
    return (size_t)snprintf(out, size, "%.*s/%s", (int)(slash - recipe_path), recipe_path, name) < size;
}

static cadre_err read_samples(evidence *e, cadre_fail *why) {
    enum { LIMIT = 1 << 28 };
    char path[4096], *text;
    size_t len;
    const json *file = json_get(e->at, "samples");
    if (!beside(e->r->path, file->text, path, sizeof path)) return recipe_fault(e->r, file, why, "is too long a path");
    cadre_err err = file_read(path, LIMIT, &text, &len, why);
    if (err) return err;
    e->file = file->text;
    err = read_lines(e, text, len, why);
    mem_free(text);
    return err;
}

/* ---- figures ---- */

static cadre_err check_turns(const evidence *e, cadre_fail *why) {
    for (int i = 0; i < e->pairs; i++) {
        if (!e->first[i]) return recipe_fault(e->r, e->runs[0], why, "runs %d of both lists have no samples", i);
        for (int j = 0; j < e->pairs; j++)
            if (i != j && e->first[i] < e->first[j] && e->last[i] > e->first[j])
                return recipe_fault(e->r, e->runs[0], why,
                                    "pairs %d and %d do not take turns in %.100s: drift could pass for a gain", i, j,
                                    e->file);
    }
    return CADRE_OK;
}

/* Median of a run's visits at m; NaN: none. v: room for all samples. */
static double run_median(const evidence *e, int pair, int arm, int m, double *v) {
    int n = 0;
    for (int i = 0; i < e->count; i++) {
        const sample *s = &e->samples[i];
        if (s->pair == pair && s->arm == arm && s->m == m) v[n++] = s->us;
    }
    return stat_median(v, n);
}

static double rounded(double v, double scale) {
    return (double)llround(v * scale) / scale;
}

/* The figures at m, as they are written; false if a run lacks m. */
static bool figures_at(const evidence *e, int m, double *v, native_row *row) {
    double us[2][PAIRS_MOST], ratio[PAIRS_MOST], interval[2];
    for (int i = 0; i < e->pairs; i++) {
        for (int arm = 0; arm < 2; arm++) us[arm][i] = run_median(e, i, arm, m, v);
        ratio[i] = us[0][i] / us[1][i];
        if (isnan(ratio[i])) return false;
    }
    row->at = m, row->runs = e->pairs;
    row->us = rounded(stat_median(us[0], e->pairs), 1e3);
    row->default_us = rounded(stat_median(us[1], e->pairs), 1e3);
    row->ratio = rounded(stat_median(ratio, e->pairs), 1e4);
    stat_interval(ratio, e->pairs, interval);
    row->ratio_lo = rounded(interval[0], 1e4), row->ratio_hi = rounded(interval[1], 1e4);
    return true;
}

/* The worst of the measured m speaks for the range; both its ends must be among them. */
static cadre_err worst(evidence *e, cadre_fail *why) {
    double *v = mem_new_array((size_t)e->count + 1, sizeof *v);
    native_row *row = &e->row, one;
    bool lo = false, hi = false;
    cadre_err err = v ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for figures", e->file);
    for (int i = 0; !err && i < e->count; i++) {
        int m = e->samples[i].m;
        bool done = false;
        for (int j = 0; j < i && !done; j++) done = e->samples[j].m == m;
        if (done) continue;
        memset(&one, 0, sizeof one);
        if (!figures_at(e, m, v, &one)) {
            err = recipe_fault(e->r, e->at, why, "m=%d was not measured in every run", m);
            break;
        }
        lo |= m == row->n_lo, hi |= m == row->n_hi;
        if (row->at && one.ratio_hi <= row->ratio_hi) continue;
        row->at = m, row->runs = one.runs, row->us = one.us, row->default_us = one.default_us;
        row->ratio = one.ratio, row->ratio_lo = one.ratio_lo, row->ratio_hi = one.ratio_hi;
    }
    mem_free(v);
    if (!err && (!lo || !hi))
        err = recipe_fault(e->r, json_get(e->at, "n"), why, "both ends of the range must have been measured");
    return err;
}

static cadre_err check_gain(const evidence *e, cadre_fail *why) {
    const native_row *row = &e->row;
    bool zero;
    const char *text = native_figures_fault(row, &zero);
    if (text) return recipe_fault(e->r, e->at, why, "%s", text);
    if (!memcmp(&row->knobs, &row->beaten, sizeof row->knobs))
        return recipe_fault(e->r, e->at, why, "these runs have the default's own settings");
    if (row->ratio_hi >= 1)
        return recipe_fault(e->r, e->at, why,
                            "does not beat the default at m=%d: ratio %.4f [%.4f, %.4f]; the policy is kept", row->at,
                            row->ratio, row->ratio_lo, row->ratio_hi);
    return CADRE_OK;
}

static cadre_err gather(evidence *e, cadre_fail *why) {
    const json *last = e->runs[0]->child;
    cadre_err err = read_samples(e, why);
    if (!err) err = check_turns(e, why);
    if (!err && (!e->seen[0] || !e->seen[1]))
        err = recipe_fault(e->r, e->at, why, "no sample of %s in its range", e->seen[0] ? "the default" : "the row");
    if (!err) err = worst(e, why);
    if (!err) err = check_gain(e, why);
    while (last->next) last = last->next;
    snprintf(e->row.run, sizeof e->row.run, "%s", last->text);
    native_sentence(&e->row);
    return err;
}

cadre_err evidence_row(const recipe *r, const json *at, native_row *row, char *klass, cadre_fail *why) {
    evidence *e = mem_new(sizeof *e);
    if (!e) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for samples", r->path);
    const json *n = json_get(at, "n");
    e->r = r, e->at = at;
    e->runs[0] = json_get(at, "runs"), e->runs[1] = json_get(at, "default_runs");
    e->pairs = e->runs[0]->count;
    e->row.n_lo = (int)n->child->integer, e->row.n_hi = (int)n->child->next->integer;
    cadre_err err = gather(e, why);
    if (!err) {
        *row = e->row;
        memcpy(klass, e->klass, sizeof e->klass);
    }
    mem_free(e->samples);
    mem_free(e);
    return err;
}

/* ---- what a recipe may say ---- */

static cadre_err check_runs(const recipe *r, const json *row, const char *key, cadre_fail *why) {
    const json *v = json_get(row, key);
    if (!v) return recipe_fault(r, row, why, "%s is missing: a row has a source", key);
    if (v->kind != JSON_ARRAY || v->count < PAIRS_LEAST || v->count > PAIRS_MOST)
        return recipe_fault(r, v, why, "expected a list of %d to %d run ids: fewer have no 95 %% interval", PAIRS_LEAST,
                            PAIRS_MOST);
    for (const json *c = v->child; c; c = c->next) {
        if (c->kind != JSON_TEXT || !c->len || c->len >= NATIVE_WORD_MAX || strlen(c->text) != c->len || !word(c->text))
            return recipe_fault(r, c, why, "expected a run id");
        for (const json *b = v->child; b != c; b = b->next)
            if (json_is(b, c->text)) return recipe_fault(r, c, why, "run %s is named twice", c->text);
    }
    return CADRE_OK;
}

static cadre_err check_row(const recipe *r, const json *row, cadre_fail *why) {
    const char *samples = NULL;
    const json *n = json_get(row, "n"), *a, *b;
    cadre_err err = recipe_known(r, row, "samples|runs|default_runs|n|comment", why);
    if (!err) err = recipe_text(r, row, "samples", true, &samples, why);
    if (!err) err = check_runs(r, row, "runs", why);
    if (!err) err = check_runs(r, row, "default_runs", why);
    if (err) return err;
    a = json_get(row, "runs"), b = json_get(row, "default_runs");
    if (a->count != b->count)
        return recipe_fault(r, b, why, "has %d runs, expected %d: one beside each run of the row", b->count, a->count);
    for (const json *c = a->child; c; c = c->next)
        if (position(b, c) >= 0) return recipe_fault(r, c, why, "run %s is in both lists", c->text);
    if (!n) return recipe_fault(r, row, why, "n is missing: the range [lo, hi]");
    bool good = n->kind == JSON_ARRAY && n->count == 2;
    for (const json *c = good ? n->child : NULL; c; c = c->next)
        good = good && c->kind == JSON_NUMBER && c->whole && c->integer >= 1 && c->integer <= INT32_MAX;
    if (!good || n->child->integer > n->child->next->integer)
        return recipe_fault(r, n, why, "expected two whole numbers from 1 on, the lower first");
    return CADRE_OK;
}

cadre_err recipe_check_rows(const recipe *r, cadre_fail *why) {
    int version = 0;
    const json *rows = json_get(r->root, "rows");
    cadre_err err = recipe_known(r, r->root, "cadre_recipe|comment|rows", why);
    if (!err) err = recipe_int(r, r->root, "cadre_recipe", true, 1, 1, &version, why);
    if (err) return err;
    if (!rows || rows->kind != JSON_ARRAY || !rows->count || rows->count > NATIVE_ROWS_MAX)
        return recipe_fault(r, rows ? rows : r->root, why, "rows must be a list of 1 to %d rows", NATIVE_ROWS_MAX);
    for (const json *v = rows->child; v && !err; v = v->next) err = check_row(r, v, why);
    return err;
}

static cadre_err build(const recipe *r, native_row *rows, char *klass, recipe_owner *tell, void *ctx, cadre_fail *why) {
    int i = 0;
    for (const json *v = json_get(r->root, "rows")->child; v; v = v->next, i++) {
        char mine[NATIVE_WORD_MAX], key[200], source[480];
        cadre_err err = evidence_row(r, v, &rows[i], mine, why);
        if (err) return err;
        if (i && (strcmp(rows[0].device, rows[i].device) || strcmp(klass, mine)))
            return recipe_fault(r, v, why, "is of %s, the rows before of %s: a table is of one device", rows[i].device,
                                rows[0].device);
        memcpy(klass, mine, sizeof mine);
        native_key_text(&rows[i], key, sizeof key);
        snprintf(source, sizeof source, "%.200s, run %s and %d before: %s", json_get(v, "samples")->text, rows[i].run,
                 rows[i].runs - 1, rows[i].why);
        if (tell) tell(ctx, key, source);
    }
    return CADRE_OK;
}

cadre_err recipe_build_rows(const recipe *r, recipe_owner *tell, void *ctx, recipe_output *out, cadre_fail *why) {
    int count = json_get(r->root, "rows")->count;
    char klass[NATIVE_WORD_MAX] = "";
    native_row *rows = mem_new_array((size_t)count, sizeof *rows);
    if (!rows) return cadre_fail_set(why, CADRE_NOMEM, "%.200s: out of memory for rows", r->path);
    cadre_err err = build(r, rows, klass, tell, ctx, why);
    if (!err) err = native_print(rows[0].device, klass, rows, count, &out->text, &out->len, why);
    if (!err) native_file_name(rows[0].device, out->name, sizeof out->name);
    out->rows = count;
    mem_free(rows);
    return err;
}
