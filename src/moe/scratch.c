/* scratch.c: the working memory of a layer run, sized once for the largest of several layers: one list of its parts,
 * which is both what is taken and what is told. */
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

/* What sizes depend on: the largest of several layers. */
typedef struct sizes {
    size_t n, e, k, x, h, columns, members; /* x, h: bytes of one token's row */
    bool shared, shared_gate;
} sizes;

static sizes sizes_of(const moe_layer *const *layers, int count, int max_tokens, int members) {
    sizes z = {(size_t)max_tokens, 1, 1, 0, 0, 1, (size_t)members, false, false};
    for (int i = 0; i < count; i++) {
        const cadre_moe_desc *d = &layers[i]->desc;
        size_t size = op_dtype_size(d->dtype);
        z.e = most(z.e, (size_t)d->e), z.k = most(z.k, (size_t)d->k);
        z.x = most(z.x, op_stride(d->dtype, d->d) * size);
        z.h = most(z.h, op_stride(d->dtype, d->f) * size * (size_t)d->k);
        z.columns = most(z.columns, plan_columns(&layers[i]->experts.plan));
        z.columns = most(z.columns, plan_columns(&layers[i]->shared.plan));
        if (d->shared_f) z.h = most(z.h, op_stride(d->dtype, d->shared_f) * size);
        z.shared |= d->shared_f > 0, z.shared_gate |= layers[i]->has_shared_gate;
    }
    return z;
}

typedef struct part {
    const char *name;
    size_t count, size;
    moe_stage first, last;
} part;

/* In the order of moe_scratch. A shared expert runs behind the others, on the same x, and its gate's values take the
 * place of the logits. */
static void list_parts(arena *a, const sizes *z, part out[MOE_PARTS]) {
    size_t pairs = times(a, z->n, z->k), stride = times(a, pairs, OP_LANES * z->columns);
    const part all[MOE_PARTS] = {
        {"x", z->n, z->x, MOE_ROUND, z->shared ? MOE_COMBINE : MOE_UP},
        {"logits", times(a, z->n, z->e), sizeof(float), MOE_ROUTE, z->shared_gate ? MOE_COMBINE : MOE_ROUTE},
        {"route", times(a, z->members, 2 * z->e), sizeof(float), MOE_ROUTE, MOE_ROUTE},
        {"ids", pairs, sizeof(int32_t), MOE_ROUTE, MOE_ALIGN},
        {"weights", pairs, sizeof(float), MOE_ROUTE, MOE_COMBINE},
        {"offset", z->e + 1, sizeof(int32_t), MOE_ALIGN, MOE_COMBINE},
        {"pair", pairs, sizeof(int32_t), MOE_ALIGN, MOE_COMBINE},
        {"row", pairs, sizeof(int32_t), MOE_ALIGN, MOE_COMBINE},
        {"active", z->e, sizeof(int32_t), MOE_ALIGN, MOE_COMBINE},
        {"h", z->n, z->h, MOE_UP, MOE_DOWN},
        {"slots", times(a, z->members, stride), sizeof(float), MOE_DOWN, MOE_COMBINE},
    };
    for (int i = 0; i < MOE_PARTS; i++) out[i] = all[i];
}

void moe_scratch_take(moe_scratch *s, arena *a, const moe_layer *const *layers, int count, int max_tokens,
                      int members) {
    sizes z = sizes_of(layers, count, max_tokens, members);
    part parts[MOE_PARTS];
    void *at[MOE_PARTS];
    list_parts(a, &z, parts);
    for (int i = 0; i < MOE_PARTS; i++) at[i] = arena_take(a, parts[i].count, parts[i].size);
    s->slots_stride = z.n * z.k * OP_LANES * z.columns;
    s->x = at[0], s->logits = at[1], s->route = at[2], s->ids = at[3], s->weights = at[4], s->offset = at[5];
    s->pair = at[6], s->row = at[7], s->active = at[8], s->h = at[9], s->slots = at[10];
}

const char *const moe_stages[MOE_STAGES] = {"route", "align", "round", "up", "down", "combine"};

bool moe_scratch_parts(const moe_layer *layer, int tokens, int members, work_part out[MOE_PARTS]) {
    sizes z = sizes_of(&layer, 1, tokens, members);
    part parts[MOE_PARTS];
    arena a = {0};
    list_parts(&a, &z, parts);
    for (int i = 0; i < MOE_PARTS; i++)
        out[i] = (work_part){parts[i].name, times(&a, parts[i].count, parts[i].size), (int)parts[i].first,
                             (int)parts[i].last, NULL};
    return !a.overflow;
}
