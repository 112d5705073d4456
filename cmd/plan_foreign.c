/* plan_foreign.c: `cadre plan explain` and `plan check` for the tables and defaults of vLLM, SGLang and torchada. */
#include "open.h"
#include "plan.h"
#include "plan/answer.h"
#include "plan/lint.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct foreign {
    const plan_opts *o;
    shape shape;
    answer_setup setup;
    foreign_table *table, *down;
    cadre_fail pair;          /* of table and down, at any M; code 0: they agree */
    char key[160], where[64]; /* where the device's memory is known from */
} foreign;

bool plan_is_foreign(const plan_opts *o) {
    return (o->platform && strcmp(o->platform, "cpu") != 0) || (o->rule && strcmp(o->rule, "native") != 0) ||
           o->policy || (o->table && !o->rule);
}

/* ---- setting up ---- */

static int index_of(const char *const *names, int count, const char *text) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], text)) return i;
    return -1;
}

/* "vllm" or "vllm@4f819f8" */
static cadre_err read_policy(const char *text, const gemm_policy **out, cadre_fail *why) {
    char name[64];
    size_t n = strcspn(text, "@");
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), text);
    const gemm_policy *p = gemm_policy_find(name);
    if (p && (!text[n] || !strcmp(text + n + 1, p->version))) {
        *out = p;
        return CADRE_OK;
    }
    char all[400] = "";
    for (const gemm_policy *q = gemm_policies; q->name; q++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s@%s", q == gemm_policies ? "" : ", ", q->name,
                 q->version);
    return cadre_fail_set(why, CADRE_RANGE, "--policy is '%.60s', expected one of %s", text, all);
}

static const gemm_policy *usual_policy(foreign_system rule, gemm_platform platform) {
    const gemm_policy *own = rule == FOREIGN_VLLM ? NULL : gemm_policy_find(foreign_names[rule]);
    if (own && own->platforms & 1u << platform && platform != GEMM_MUSA) return own;
    return gemm_policy_of(platform);
}

static gemm_dtype dtype_of(cadre_dtype t) {
    return t == CADRE_F32 ? GEMM_FP32 : GEMM_BF16;
}

static cadre_err read_key(foreign *x, cadre_fail *why) {
    const cadre_moe_desc *d = &x->shape.desc;
    const plan_opts *o = x->o;
    gemm_key *k = &x->setup.key;
    if (d->f % o->tp) return cadre_fail_set(why, CADRE_RANGE, "--tp is %d, which does not divide f=%d", o->tp, d->f);
    *k = (gemm_key){.m = 1, .e = d->e, .n = d->f / o->tp, .hidden = d->d, .topk = d->k, .dtype = dtype_of(d->dtype)};
    k->gated = d->act != CADRE_RELU2;
    int t = o->dtype ? index_of(gemm_dtype_names, GEMM_DTYPE_COUNT, o->dtype) : (int)k->dtype;
    k->dtype = (gemm_dtype)t;
    if (!o->block) return CADRE_OK;
    int block[2], count;
    cadre_err err = opts_numbers("--block-shape", o->block, 1, 65536, block, 2, &count, why);
    if (err) return err;
    if (count != 2) return cadre_fail_set(why, CADRE_RANGE, "--block-shape is '%.40s', expected BN,BK", o->block);
    k->block_n = block[0], k->block_k = block[1];
    return CADRE_OK;
}

/* The file of a folder that the system would open for this call. */
static cadre_err find_table(foreign *x, foreign_place *place, cadre_fail *why) {
    const gemm_key *k = &x->setup.key;
    foreign_name name = {.e = k->e, .dtype = k->dtype, .block_n = k->block_n, .block_k = k->block_k};
    if (!x->o->device_name)
        return cadre_fail_set(why, CADRE_RANGE, "--table is a folder, so --device-name is needed (\"NVIDIA H200\")");
    name.n = foreign_n(x->setup.rule, k->dtype, k->n, false);
    name.dtype_written = k->dtype != GEMM_BF16 && k->dtype != GEMM_FP16;
    snprintf(name.device, sizeof name.device, "%s", x->o->device_name);
    return foreign_find(x->setup.rule, x->o->table, x->o->triton, &name, place, why);
}

/* The last part of the first of `paths`, one per line. */
static size_t last_part(const char *paths, const char **part) {
    size_t n = strcspn(paths, "\n"), at = n;
    while (at && paths[at - 1] != '/') at--;
    *part = paths + at;
    return n - at;
}

static void tell_miss(const foreign *x, const foreign_place *place) {
    const char *system = foreign_names[x->setup.rule], *want, *have;
    say_note("no table; looked at:");
    for (const char *p = place->tried; *p; p += strcspn(p, "\n"), p += *p == '\n')
        say_note("  %.*s", (int)strcspn(p, "\n"), p);
    if (place->no_versions)
        say_note("%s has no folder triton_X_Y_Z, and %s looks only into those", x->o->table, system);
    if (!*place->closest) return;
    size_t n = last_part(place->tried, &want), m = last_part(place->closest, &have);
    if (n == m && !memcmp(want, have, n))
        say_note("a file of just this name is %s, where %s does not look", place->closest, system);
    else
        say_note("the closest existing file is %s", place->closest);
}

static cadre_err read_down(foreign *x, cadre_fail *why) {
    char path[2048];
    size_t n = strlen(x->table->path), tail = strlen(".json");
    if (x->setup.rule == FOREIGN_VLLM || n <= tail) return CADRE_OK;
    snprintf(path, sizeof path, "%.*s_down.json", (int)(n - tail), x->table->path);
    if (!file_exists(path)) return CADRE_OK;
    cadre_err err = foreign_read(path, NULL, NULL, &x->down, why);
    if (!err) err = foreign_stop(x->setup.rule, x->down, why);
    if (!err) foreign_pair(x->setup.rule, x->table, x->down, INT_MAX, &x->pair);
    return err;
}

static cadre_err read_table(foreign *x, cadre_fail *why) {
    foreign_place place;
    const char *path = x->o->table;
    if (!path) return CADRE_OK;
    if (file_is_dir(path)) {
        cadre_err err = find_table(x, &place, why);
        if (err) return err;
        path = place.path;
        if (!*path) tell_miss(x, &place);
        if (!*path) return CADRE_OK;
        if (place.other_version) say_note("the table is of another Triton version: %s", path);
    }
    cadre_err err = foreign_read(path, NULL, NULL, &x->table, why);
    if (!err) err = foreign_stop(x->setup.rule, x->table, why);
    if (err) return err;
    const foreign_name *n = &x->table->name;
    int want = foreign_n(x->setup.rule, x->setup.key.dtype, x->setup.key.n, false);
    if (n->e && (n->e != x->setup.key.e || n->n != want))
        say_note("the table is for E=%d, N=%d; this call has E=%d, N=%d", n->e, n->n, x->setup.key.e, want);
    x->setup.table = x->table;
    return read_down(x, why);
}

static void know_device(foreign *x) {
    const char *device = x->o->device_name ? x->o->device_name : x->table ? x->table->name.device : "", *source = "";
    x->setup.smem = x->o->smem ? (size_t)x->o->smem : lint_device_smem(device, &source);
    snprintf(x->where, sizeof x->where, "%s", x->o->smem ? "--device-smem" : source ? source : "");
    x->setup.wgmma = strstr(device, "H100") || strstr(device, "H20") || strstr(device, "H800"); /* and H200 */
}

static cadre_err set_up(foreign *x, cadre_fail *why) {
    const plan_opts *o = x->o;
    answer_setup *s = &x->setup;
    cadre_err err = shape_read(o->shape, &x->shape, why);
    if (err) return err;
    int platform = index_of(gemm_platform_names, GEMM_PLATFORM_COUNT, o->platform);
    int rule = o->rule ? index_of(foreign_names, FOREIGN_SYSTEM_COUNT, o->rule) : FOREIGN_VLLM;
    s->platform = platform < 0 ? GEMM_CUDA : (gemm_platform)platform; /* cpu with a foreign table: as on CUDA */
    s->rule = (foreign_system)rule;
    err = read_key(x, why);
    if (!err) err = read_table(x, why);
    s->policy = usual_policy(s->rule, s->platform);
    if (!err && o->policy) err = read_policy(o->policy, &s->policy, why);
    know_device(x);
    char block[40] = "";
    if (s->key.block_k) snprintf(block, sizeof block, " block=[%d,%d]", s->key.block_n, s->key.block_k);
    snprintf(x->key, sizeof x->key, "E=%d N=%d hidden=%d topk=%d %s%s%s", s->key.e, s->key.n, s->key.hidden,
             s->key.topk, gemm_dtype_names[s->key.dtype], block, s->key.gated ? " gated" : "");
    return err;
}

/* ---- telling ---- */

static const char *why_of(const foreign *x, const answer *a, char text[320]) {
    int n = 0;
    if (a->row) {
        char reach[40];
        lint_range_text(reach, sizeof reach, a->reach_lo, a->reach_hi);
        n = snprintf(text, 320, "row %d takes M = %s", a->row->m, reach);
        if (a->tie) n += snprintf(text + n, 320 - (size_t)n, "; row %d is as near and stands later", a->tie->m);
    } else {
        n = snprintf(text, 320, "%s (%s): %s", x->setup.policy->name, x->setup.policy->version, a->cell);
    }
    if (a->clamped) {
        char asked[96];
        gemm_text(&a->asked, asked, sizeof asked);
        snprintf(text + n, 320 - (size_t)n, "; lowered from %s to fit %zu bytes", asked, x->setup.smem);
    }
    return text;
}

/* What would run without the table; "" when there is none or no default. */
static const char *shadows_of(const answer *a, char text[96]) {
    *text = 0;
    if (a->row && a->has_default) gemm_text(&a->without, text, 96);
    return text;
}

static void put_config(json_out *o, const char *key, const gemm_config *c) {
    json_open(o, key, '{');
    for (int i = 0; i < GEMM_FIELD_COUNT; i++) {
        if (!(c->has & 1u << i)) continue;
        if (i == GEMM_TMA)
            json_put_bool(o, gemm_field_names[i], c->v[i]);
        else
            json_put_int(o, gemm_field_names[i], c->v[i]);
    }
    json_close(o, '}');
}

static void put_int_or_null(json_out *o, const char *key, bool there, int64_t v) {
    if (there)
        json_put_int(o, key, v);
    else
        json_put_null(o, key);
}

static void put_answer(json_out *o, const foreign *x, const answer *a) {
    char text[320], shadows[96], key[16];
    snprintf(key, sizeof key, "%d", a->row ? a->row->m : 0);
    json_put_text(o, "source", a->row ? "user" : "policy");
    json_put_text(o, "file", a->row ? file_short(x->table->path) : NULL);
    put_int_or_null(o, "line", a->row, a->row ? a->row->line : 0);
    json_put_text(o, "key", a->row ? key : x->key);
    put_int_or_null(o, "distance", a->row, a->distance);
    put_int_or_null(o, "tie", a->tie, a->tie ? a->tie->m : 0);
    json_put_text(o, "sha256", a->row ? x->table->sha256 : NULL);
    put_config(o, "config", &a->config);
    json_put_text(o, "shadows", *shadows_of(a, shadows) ? shadows : NULL);
    json_put_bool(o, "same_as_default", a->has_default && gemm_equal(&a->config, &a->without));
    if (a->has_default)
        put_config(o, "without", &a->without);
    else
        json_put_null(o, "without");
    json_put_text(o, "evidence", NULL); /* these formats have none */
    put_int_or_null(o, "smem", a->need, (int64_t)a->need);
    put_int_or_null(o, "smem_device", x->setup.smem, (int64_t)x->setup.smem);
    json_put_bool(o, "clamped", a->clamped);
    json_put_text(o, "why", why_of(x, a, text));
}

static void put_head(json_out *o, const foreign *x, const char *command) {
    say_json_open(o, command);
    shape_put(o, &x->shape);
    json_put_text(o, "platform", gemm_platform_names[x->setup.platform]);
    json_put_text(o, "rule", foreign_names[x->setup.rule]);
    json_put_text(o, "policy", x->setup.policy->name);
    json_put_text(o, "policy_version", x->setup.policy->version);
    json_put_text(o, "call", x->key);
    json_put_text(o, "triton", x->table && *x->table->triton ? x->table->triton : NULL);
}

static void say_head(const foreign *x) {
    shape_say(&x->shape);
    say_pair("call", "%s", x->key);
    say_pair("policy", "%s (%s) on %s: %s", x->setup.policy->name, x->setup.policy->version,
             gemm_platform_names[x->setup.platform], x->setup.policy->what);
    if (x->table)
        say_pair("table", "%s, %d rows, sha256 %.16s, look-up of %s, no evidence in the file%s%s",
                 file_short(x->table->path), x->table->count, x->table->sha256, foreign_names[x->setup.rule],
                 *x->table->triton ? ", Triton " : "", x->table->triton);
    if (x->setup.smem) say_pair("on-chip memory", "%zu bytes a block (%s)", x->setup.smem, x->where);
}

static void table_answer(table *t, const foreign *x, const answer *a) {
    char config[96], shadows[96], text[320];
    gemm_text(&a->config, config, sizeof config);
    table_cell(t, "%s", config);
    if (a->row)
        table_cell(t, "line %d", a->row->line);
    else
        table_cell(t, "policy");
    table_cell(t, a->row ? "%d" : "-", a->distance);
    table_cell(t, a->need ? "%zu" : "-", a->need);
    if (a->row && a->has_default && gemm_equal(&a->config, &a->without))
        table_cell(t, "the same");
    else
        table_cell(t, "%s", *shadows_of(a, shadows) ? shadows : "-");
    table_cell(t, "%s", why_of(x, a, text));
}

static void table_head(table *t, const char *first) {
    table_open(t, "rllrrll");
    table_cell(t, "%s", first);
    for (const char *h = "config\0source\0distance\0smem\0without the table\0why\0"; *h; h += strlen(h) + 1)
        table_cell(t, "%s", h);
}

static cadre_err account(const foreign *x, const int *m, int count, json_out *o, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    json_open(o, "memory", '[');
    for (int i = 0; i < count && !err; i++) {
        answer a;
        plan_memory memory;
        gemm_key key = x->setup.key;
        key.m = m[i];
        err = answer_at(&x->setup, m[i], &a, why);
        if (!err) err = plan_memory_foreign(&memory, &key, &a.config, why);
        if (err) break;
        plan_memory_say(&memory);
        plan_memory_put(o, &memory);
    }
    json_close(o, ']');
    return err;
}

/* What the down table says, after the rows; the exit status. */
static int report_down(const foreign *x, json_out *o) {
    if (x->down)
        say_pair("down table", "%s: %s", file_short(x->down->path),
                 x->pair.code ? x->pair.text : "BLOCK_SIZE_M is equal at every M");
    json_put_text(o, "down", x->down ? file_short(x->down->path) : NULL);
    json_put_text(o, "down_fault", x->pair.code ? x->pair.text : NULL);
    return x->pair.code ? EXIT_NO : EXIT_FINE;
}

static int explain(const foreign *x, cadre_fail *why) {
    static int m[PLAN_LIST_MOST];
    int count, status = EXIT_FINE;
    json_out o = {0};
    table t;
    cadre_err err = opts_numbers("--m", x->o->list, 1, 1 << 24, m, PLAN_LIST_MOST, &count, why);
    if (err) return say_failed(why);
    say_head(x);
    put_head(&o, x, "plan explain");
    json_open(&o, "rows", '[');
    table_head(&t, "m");
    for (int i = 0; i < count && !err; i++) {
        answer a;
        if ((err = answer_at(&x->setup, m[i], &a, why))) break;
        table_cell(&t, "%d", m[i]);
        table_answer(&t, x, &a);
        json_open(&o, NULL, '{');
        json_put_int(&o, "m", m[i]);
        put_answer(&o, x, &a);
        json_close(&o, '}');
    }
    if (!err) table_print(&t, say_stream(), 2);
    if (err) mem_free(t.text);
    json_close(&o, ']');
    if (!err && x->o->memory) err = account(x, m, count, &o, why);
    if (!err) status = report_down(x, &o);
    open_put_switches(&o);
    json_close(&o, '}');
    if (!err && x->o->common.json) return say_json(&o, status);
    json_out_free(&o);
    return err ? say_failed(why) : status;
}

/* One line per range of equal answers. */
static cadre_err check_ranges(const foreign *x, int lo, int hi, table *t, json_out *o, cadre_fail *why) {
    answer a, next;
    cadre_err err = answer_at(&x->setup, lo, &a, why);
    for (int from = lo, m = lo; !err && m <= hi; m++) {
        if (m < hi) err = answer_at(&x->setup, m + 1, &next, why);
        if (err || (m < hi && answer_same(&a, &next))) continue;
        if (a.row && abs(a.row->m - m) > a.distance) a.distance = abs(a.row->m - m); /* the farther end */
        table_cell(t, from == m ? "%d" : "%d..%d", from, m);
        table_answer(t, x, &a);
        json_open(o, NULL, '{');
        json_put_int(o, "m_lo", from);
        json_put_int(o, "m_hi", m);
        put_answer(o, x, &a);
        json_close(o, '}');
        from = m + 1, a = next;
    }
    return err;
}

static int check(const foreign *x, cadre_fail *why) {
    int lo, hi, status = EXIT_FINE;
    json_out o = {0};
    table t;
    if (plan_range(x->o->list, &lo, &hi, why)) return say_failed(why);
    say_head(x);
    put_head(&o, x, "plan check");
    json_open(&o, "ranges", '[');
    table_head(&t, "m");
    cadre_err err = check_ranges(x, lo, hi, &t, &o, why);
    if (!err) table_print(&t, say_stream(), 2);
    if (err) mem_free(t.text);
    json_close(&o, ']');
    if (!err) status = report_down(x, &o);
    open_put_switches(&o);
    json_close(&o, '}');
    if (!err && x->o->common.json) return say_json(&o, status);
    json_out_free(&o);
    return err ? say_failed(why) : status;
}

int plan_foreign(const plan_opts *o, cadre_fail *why) {
    foreign x = {.o = o};
    int status = set_up(&x, why) ? say_failed(why) : o->check ? check(&x, why) : explain(&x, why);
    foreign_free(x.table);
    foreign_free(x.down);
    return status;
}
