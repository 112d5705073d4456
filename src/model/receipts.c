/* receipts.c: what a model's plans chose and how often they ran; layers with the same choice share one line. */
#include "model/model.h"

#include <string.h>

typedef struct collector {
    cadre_receipt *out;
    int count, cap;
} collector;

static bool same(const cadre_receipt *a, const cadre_receipt *b) {
    return a->n_lo == b->n_lo && !strcmp(a->op, b->op) && !strcmp(a->kernel, b->kernel) &&
           !strcmp(a->shape, b->shape) && !strcmp(a->config, b->config);
}

static void collect(collector *c, const cadre_receipt *r) {
    for (int i = 0; i < c->count && i < c->cap; i++)
        if (same(&c->out[i], r)) {
            c->out[i].runs += r->runs;
            return;
        }
    if (c->count < c->cap) c->out[c->count] = *r;
    c->count++;
}

static void collect_plan(collector *c, const plan *p) {
    cadre_receipt r[PLAN_ROWS_MAX];
    int n = plan_receipts(p, r, PLAN_ROWS_MAX);
    for (int i = 0; i < n; i++) collect(c, &r[i]);
}

static void collect_mlp(collector *c, const moe_layer *m) {
    cadre_receipt r[4 * PLAN_ROWS_MAX];
    int n = moe_layer_receipts(m, r, 4 * PLAN_ROWS_MAX);
    for (int i = 0; i < n; i++) collect(c, &r[i]);
}

int cadre_model_receipts(const cadre_model *m, cadre_receipt *receipts, int cap) {
    collector c = {receipts, 0, cap};
    collect_plan(&c, &m->norm_plan);
    collect_plan(&c, &m->attn_plan);
    for (int l = 0; l < m->config.layers; l++) {
        collect_plan(&c, &m->layer[l].qkv.plan);
        collect_plan(&c, &m->layer[l].o.plan);
        collect_mlp(&c, &m->layer[l].mlp);
    }
    collect_plan(&c, &m->head.plan);
    return c.count;
}
