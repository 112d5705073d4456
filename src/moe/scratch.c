/* scratch.c: the working memory of a layer run, sized once for the largest of several layers. */
#include "moe/moe.h"

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* A count of elements that cannot be formed marks the arena as overflowing. */
static size_t times(arena *a, size_t x, size_t y) {
    size_t r = 0;
    if (!mem_mul(x, y, &r)) a->overflow = true;
    return r;
}

/* The most panels of outputs that a plan's rows take at a time. */
static size_t plan_columns(const plan *p) {
    size_t columns = 0;
    for (int i = 0; i < p->count; i++) columns = most(columns, (size_t)p->rows[i].knobs.experts.columns);
    return columns;
}

void moe_scratch_take(moe_scratch *s, arena *a, const moe_layer *const *layers, int count, int max_tokens,
                      int members) {
    size_t n = (size_t)max_tokens, e = 1, k = 1, x = 0, h = 0, columns = 1;
    for (int i = 0; i < count; i++) {
        const cadre_moe_desc *d = &layers[i]->desc;
        size_t size = op_dtype_size(d->dtype);
        e = most(e, (size_t)d->e), k = most(k, (size_t)d->k);
        x = most(x, op_stride(d->dtype, d->d) * size);
        h = most(h, op_stride(d->dtype, d->f) * size * (size_t)d->k);
        columns = most(columns, plan_columns(&layers[i]->experts.plan));
        columns = most(columns, plan_columns(&layers[i]->shared.plan));
        if (d->shared_f) h = most(h, op_stride(d->dtype, d->shared_f) * size);
    }
    size_t pairs = times(a, n, k);
    s->slots_stride = times(a, pairs, OP_LANES * columns);
    s->x = arena_take(a, n, x);
    s->logits = arena_take(a, times(a, n, e), sizeof *s->logits);
    s->route = arena_take(a, times(a, (size_t)members, 2 * e), sizeof *s->route);
    s->ids = arena_take(a, pairs, sizeof *s->ids);
    s->weights = arena_take(a, pairs, sizeof *s->weights);
    s->offset = arena_take(a, e + 1, sizeof *s->offset);
    s->pair = arena_take(a, pairs, sizeof *s->pair);
    s->row = arena_take(a, pairs, sizeof *s->row);
    s->active = arena_take(a, e, sizeof *s->active);
    s->h = arena_take(a, n, h);
    s->slots = arena_take(a, times(a, (size_t)members, s->slots_stride), sizeof *s->slots);
}
