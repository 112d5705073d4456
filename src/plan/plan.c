/* plan.c: a key becomes a kernel and knobs per range of n; the choice is kept with its reason and counted. */
#include "plan/plan.h"
#include "plan/policy.h"

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
    row->source = "override";
    row->rule = "set by switch";
    return CADRE_OK;
}

cadre_err plan_make(const cadre_device *device, const plan_key *key, plan *p, cadre_fail *why) {
    memset(p, 0, sizeof *p);
    p->key = *key;
    p->kernel = op_find(key->family, key->dtype, (op_isa)device->isa);
    p->count = policy_rows(key, p->kernel, pool_threads(device->threads), p->rows);
    for (int i = 0; i < p->count; i++) {
        cadre_err err = apply_overrides(p->kernel, &p->rows[i], why);
        if (err) return err;
    }
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
                                 .n_lo = row->n_lo,
                                 .n_hi = row->n_hi,
                                 .runs = atomic_load_explicit(&row->runs, memory_order_relaxed)};
        op_knobs_text(p->key.family, &row->knobs, out[i].config, sizeof out[i].config);
        shape_text(&p->key, out[i].shape, sizeof out[i].shape);
    }
    return p->count;
}
