/* plan.c: a key becomes a kernel and knobs per range of n; the choice is kept with its reason and counted. */
#include "plan/plan.h"
#include "plan/policy.h"
#include "plan/tables.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Halves what was not overridden, the largest first, until the kernel can run it; false if it never can. */
static bool yield(const op_kernel *kernel, const bool *fixed, op_knobs *knobs) {
    const op_family_def *family = &op_families[kernel->family];
    while (!kernel->ok(knobs)) {
        int most = -1;
        for (int i = 0; i < family->count; i++)
            if (!fixed[i] && knobs->v[i] > family->knobs[i].low && (most < 0 || knobs->v[i] > knobs->v[most])) most = i;
        if (most < 0) return false;
        knobs->v[most] /= 2;
    }
    return true;
}

/* Overrides win over every row; the row then says so. */
static cadre_err apply_overrides(const op_kernel *kernel, plan_row *row, cadre_fail *why) {
    const op_family_def *family = &op_families[kernel->family];
    bool fixed[OP_KNOBS_MAX] = {0}, any = false;
    op_knobs before = row->knobs;
    for (int i = 0; i < family->count; i++) {
        int v = plan_override(kernel->family, i);
        if (v != 0) row->knobs.v[i] = v, fixed[i] = any = true;
    }
    if (!any) return CADRE_OK;
    if (!yield(kernel, fixed, &row->knobs)) {
        char text[96];
        op_knobs_text(kernel->family, &row->knobs, text, sizeof text);
        return cadre_fail_set(why, CADRE_RANGE, "switches give %s, which kernel %s cannot run", text, kernel->name);
    }
    *row = (plan_row){.n_lo = row->n_lo,
                      .n_hi = row->n_hi,
                      .knobs = row->knobs,
                      .source = "override",
                      .rule = "set by switch",
                      .shadowed = true,
                      .shadows = before};
    return CADRE_OK;
}

/* What runs for n in [lo, hi]: the chosen row over the policy's, or the policy's with what was passed over. */
static plan_row make_row(const plan_row *policy, const table_set *set, const table_choice *c, int lo, int hi) {
    plan_row row = {.n_lo = lo, .n_hi = hi, .knobs = policy->knobs, .source = policy->source, .rule = policy->rule};
    const table_match *m = c->best.row ? &c->best : &c->passed;
    if (m->row) row.file = m->table->path, row.sha256 = m->table->sha256, row.line = m->row->line;
    if (c->best.row) {
        row.source = m->source, row.rule = m->row->why, row.distance = m->distance;
        row.knobs = m->row->knobs, row.shadowed = true, row.shadows = policy->knobs;
    } else if (m->row) {
        row.rule = c->text;
    } else {
        row.file = tables_fault(set, &row.line);
        if (row.file) row.rule = "a table could not be read: the policy runs";
    }
    return row;
}

static bool same_origin(const plan_row *a, const plan_row *b) {
    return a->source == b->source && a->rule == b->rule && a->file == b->file && a->line == b->line &&
           !memcmp(&a->knobs, &b->knobs, sizeof a->knobs) && !memcmp(&a->shadows, &b->shadows, sizeof a->shadows);
}

/* False: there is no room. */
static bool add_row(plan *p, const plan_row *row) {
    plan_row *last = p->count ? &p->rows[p->count - 1] : NULL;
    if (last && same_origin(last, row))
        last->n_hi = row->n_hi;
    else if (p->count < PLAN_ROWS_MAX)
        p->rows[p->count++] = *row;
    else
        return false;
    return true;
}

/* The policy's last rule ends a plan that the tables have more ranges for. */
static void cut(plan *p, const plan_row *end) {
    plan_row *last = &p->rows[PLAN_ROWS_MAX - 1];
    log_once("a plan holds %d ranges, the tables have more: the policy runs from n=%d on", PLAN_ROWS_MAX, last->n_lo);
    *last =
        (plan_row){.n_lo = last->n_lo, .n_hi = INT_MAX, .knobs = end->knobs, .source = end->source, .rule = end->rule};
}

static void say_passed(const table_choice *c) {
    if (c->passed.row)
        log_once("%s:%d: %s; %s", c->passed.table->path, c->passed.row->line, c->text,
                 c->best.row ? "another row runs" : "the policy runs");
}

/* Ranges of n, each with one answer. */
static void fill(plan *p, const cadre_device *device, const table_set *set) {
    plan_row policy[PLAN_ROWS_MAX];
    int count = policy_rows(&p->key, p->kernel, pool_threads(device->threads), policy), at = 0;
    for (int lo, hi = 0; hi < INT_MAX;) {
        lo = hi + 1;
        while (lo > policy[at].n_hi) at++;
        table_choice c = tables_choose(set, device, &p->key, p->kernel, lo);
        hi = policy[at].n_hi < c.next ? policy[at].n_hi : c.next;
        plan_row row = make_row(&policy[at], set, &c, lo, hi);
        say_passed(&c);
        if (!add_row(p, &row)) {
            cut(p, &policy[count - 1]);
            return;
        }
    }
}

cadre_err plan_make(const cadre_device *device, const plan_key *key, plan *p, cadre_fail *why) {
    const table_set *set;
    memset(p, 0, sizeof *p);
    p->key = *key;
    p->kernel = op_find(key->family, key->dtype, (op_isa)device->isa);
    cadre_err err = tables_get(&set, why);
    if (err) return err;
    fill(p, device, set);
    for (int i = 0; i < p->count; i++)
        if ((err = apply_overrides(p->kernel, &p->rows[i], why))) return err;
    return CADRE_OK;
}

static int row_index(const plan *p, int n) {
    int i = 0;
    while (i < p->count - 1 && n > p->rows[i].n_hi) i++;
    return i;
}

const plan_row *plan_row_for(const plan *p, int n) {
    return &p->rows[row_index(p, n)];
}

const plan_row *plan_use(plan *p, int n) {
    plan_row *row = &p->rows[row_index(p, n)];
    atomic_fetch_add_explicit(&row->runs, 1, memory_order_relaxed);
    return row;
}

const plan_row *plan_use_team(plan *p, const team *t, int n) {
    return team_id(t) == 0 ? plan_use(p, n) : plan_row_for(p, n);
}

static void shape_text(const plan_key *k, char *text, size_t size) {
    const char *type = op_dtype_name(k->dtype);
    switch (k->family) {
    case OP_DENSE:
        snprintf(text, size, "in=%d out=%d %s", k->d, k->f, type);
        break;
    case OP_EXPERTS:
        snprintf(text, size, "d=%d f=%d e=%d k=%d %s", k->d, k->f, k->e, k->k, type);
        break;
    case OP_ATTN:
        snprintf(text, size, "heads=%d kv=%d head_dim=%d %s", k->f, k->e, k->d, type);
        break;
    default:
        snprintf(text, size, "d=%d", k->d);
        break;
    }
}

int plan_receipts(const plan *p, cadre_receipt *out, int cap) {
    for (int i = 0; i < p->count && i < cap; i++) {
        const plan_row *row = &p->rows[i];
        out[i] = (cadre_receipt){.op = p->key.role,
                                 .kernel = p->kernel->name,
                                 .source = row->source,
                                 .why = row->rule,
                                 .file = row->file,
                                 .line = row->line,
                                 .n_lo = row->n_lo,
                                 .n_hi = row->n_hi,
                                 .runs = atomic_load_explicit(&row->runs, memory_order_relaxed)};
        op_knobs_text(p->key.family, &row->knobs, out[i].config, sizeof out[i].config);
        if (row->shadowed) op_knobs_text(p->key.family, &row->shadows, out[i].shadows, sizeof out[i].shadows);
        shape_text(&p->key, out[i].shape, sizeof out[i].shape);
    }
    return p->count;
}
