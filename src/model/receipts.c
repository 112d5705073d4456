/* receipts.c: what a model's plans chose and how often they ran; layers with the same choice share their lines. */
#include "model/model.h"

#include <string.h>

enum { PARTS = 6 }; /* plans of a layer */

/* NULL: the layer has no such part. */
static const plan *part_plan(const model_layer *layer, int part) {
    const moe_layer *m = &layer->mlp;
    switch (part) {
    case 0:
        return &layer->qkv.plan;
    case 1:
        return &layer->o.plan;
    case 2:
        return m->has_router ? &m->router.plan : NULL;
    case 3:
        return &m->experts.plan;
    case 4:
        return m->has_shared ? &m->shared.plan : NULL;
    default:
        return m->has_shared_gate ? &m->shared_gate.plan : NULL;
    }
}

static bool same(const plan *a, const plan *b) {
    const plan_key *x = &a->key, *y = &b->key;
    if (a->kernel != b->kernel || a->count != b->count || x->d != y->d || x->f != y->f || x->e != y->e || x->k != y->k)
        return false;
    if (strcmp(x->role, y->role)) return false;
    for (int i = 0; i < a->count; i++)
        if (a->rows[i].n_lo != b->rows[i].n_lo || memcmp(&a->rows[i].knobs, &b->rows[i].knobs, sizeof(op_knobs)))
            return false;
    return true;
}

typedef struct collector {
    cadre_receipt *out;
    int count, cap;
} collector;

/* The lines of p; `m` not NULL: with the runs of the plans of `part` in layers from `next` on that chose the same. */
static void collect(collector *c, const plan *p, const cadre_model *m, int part, int next) {
    cadre_receipt r[PLAN_ROWS_MAX], more[PLAN_ROWS_MAX];
    int n = plan_receipts(p, r, PLAN_ROWS_MAX);
    for (int l = next; m && l < m->config.layers; l++) {
        const plan *other = part_plan(&m->layer[l], part);
        if (!other || !same(other, p)) continue;
        plan_receipts(other, more, PLAN_ROWS_MAX);
        for (int j = 0; j < n; j++) r[j].runs += more[j].runs;
    }
    for (int j = 0; j < n; j++, c->count++)
        if (c->count < c->cap) c->out[c->count] = r[j];
}

/* One part over all layers: the first layer of each choice speaks for those like it. */
static void collect_part(collector *c, const cadre_model *m, int part) {
    for (int l = 0; l < m->config.layers; l++) {
        const plan *p = part_plan(&m->layer[l], part);
        bool seen = !p;
        for (int i = 0; i < l && !seen; i++) {
            const plan *before = part_plan(&m->layer[i], part);
            seen = before && same(before, p);
        }
        if (!seen) collect(c, p, m, part, l + 1);
    }
}

int cadre_model_receipts(const cadre_model *m, cadre_receipt *receipts, int cap) {
    collector c = {receipts, 0, cap};
    collect(&c, &m->norm_plan, NULL, 0, 0);
    collect(&c, &m->attn_plan, NULL, 0, 0);
    for (int part = 0; part < PARTS; part++) collect_part(&c, m, part);
    collect(&c, &m->head.plan, NULL, 0, 0);
    return c.count;
}
