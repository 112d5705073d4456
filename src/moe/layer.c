/* layer.c: a whole MoE layer: its parts made from a description, and their run by a team. */
#include "moe/experts.h"
#include "op/align.h"

/* ---- making ---- */
static cadre_err init_shared(moe_layer *m, cadre_device *device, const cadre_moe_weights *w, moe_source *from,
                             cadre_fail *why) {
    const cadre_moe_desc *d = &m->desc;
    m->has_shared = d->shared_f > 0;
    if (!m->has_shared) return CADRE_OK;
    cadre_err err = moe_experts_init(&m->shared, device, "shared expert", d->dtype, 1, 1, d->d, d->shared_f, d->act,
                                     d->limit, &w->shared_gate, &w->shared_up, &w->shared_down, from, why);
    m->has_shared_gate = w->shared_expert_gate.data != NULL;
    if (!err && m->has_shared_gate)
        err = moe_dense_init(&m->shared_gate, device, "shared gate", CADRE_F32, 1, d->d, w->shared_expert_gate,
                             (cadre_tensor){0}, from, why);
    return err;
}

static const char *experts_role(bool router) {
    return router ? "experts" : "mlp";
}

static cadre_err init_parts(moe_layer *m, cadre_device *device, const cadre_moe_weights *w, moe_source *from,
                            cadre_fail *why) {
    const cadre_moe_desc *d = &m->desc;
    cadre_err err = w->bias.data ? moe_vector(w->bias, d->e, from, &m->bias, why) : CADRE_OK;
    if (!err && w->router.data) {
        m->has_router = true;
        err = moe_dense_init(&m->router, device, "router", CADRE_F32, d->e, d->d, w->router, (cadre_tensor){0}, from,
                             why);
    }
    if (!err)
        err = moe_experts_init(&m->experts, device, experts_role(m->has_router), d->dtype, d->e, d->k, d->d, d->f,
                               d->act, d->limit, w->gate, w->up, w->down, from, why);
    return err ? err : init_shared(m, device, w, from, why);
}

cadre_err moe_layer_init(moe_layer *m, cadre_device *device, const cadre_moe_desc *desc,
                         const cadre_moe_weights *weights, moe_source *from, cadre_fail *why) {
    *m = (moe_layer){.desc = *desc};
    if (m->desc.scale == 0.0f) m->desc.scale = 1.0f;
    cadre_err err = init_parts(m, device, weights, from, why);
    if (err) moe_layer_done(m);
    return err;
}

cadre_err moe_layer_plan(moe_layer *m, cadre_device *device, const cadre_moe_desc *desc, cadre_fail *why) {
    const cadre_moe_desc *d = desc;
    *m = (moe_layer){.desc = *desc};
    cadre_err err = moe_experts_plan(&m->experts.plan, device, experts_role(d->e > 1), d->dtype, d->e, d->k, d->d, d->f,
                                     d->act, why);
    if (!err && d->shared_f)
        err =
            moe_experts_plan(&m->shared.plan, device, "shared expert", d->dtype, 1, 1, d->d, d->shared_f, d->act, why);
    return err;
}

cadre_moe_desc moe_layer_mlp(cadre_dtype dtype, int d, int f, int max_tokens, cadre_act act) {
    return (cadre_moe_desc){
        .d = d, .f = f, .e = 1, .k = 1, .max_tokens = max_tokens, .dtype = dtype, .act = act, .scale = 1.0f};
}

cadre_err moe_layer_init_mlp(moe_layer *m, cadre_device *device, cadre_dtype dtype, int d, int f, int max_tokens,
                             cadre_act act, cadre_tensor gate, cadre_tensor up, cadre_tensor down, moe_source *from,
                             cadre_fail *why) {
    cadre_moe_desc desc = moe_layer_mlp(dtype, d, f, max_tokens, act);
    cadre_moe_weights w = {.gate = &gate, .up = &up, .down = &down};
    return moe_layer_init(m, device, &desc, &w, from, why);
}

void moe_layer_done(moe_layer *m) {
    moe_dense_done(&m->router);
    moe_dense_done(&m->shared_gate);
    moe_experts_done(&m->experts);
    moe_experts_done(&m->shared);
    mem_free(m->bias);
    *m = (moe_layer){0};
}

static size_t experts_bytes(const moe_experts *m) {
    return (m->up_stride + m->down_stride) * (size_t)m->e;
}

size_t moe_layer_weight_bytes(const moe_layer *m) {
    return experts_bytes(&m->experts) + experts_bytes(&m->shared) + moe_layer_fixed_bytes(m);
}

size_t moe_layer_fixed_bytes(const moe_layer *m) {
    return m->router.bytes + m->shared_gate.bytes;
}

int moe_layer_receipts(const moe_layer *m, cadre_receipt *out, int cap) {
    const plan *plans[] = {m->has_router ? &m->router.plan : NULL, &m->experts.plan,
                           m->has_shared ? &m->shared.plan : NULL, m->has_shared_gate ? &m->shared_gate.plan : NULL};
    int count = 0;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (plans[i])
            count += plan_receipts(plans[i], out + (count < cap ? count : cap), count < cap ? cap - count : 0);
    return count;
}

/* ---- running ---- */
/* This member's share of the rows of x, rounded to the layer's type. */
static void round_rows(const moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx) {
    size_t row = op_stride(m->desc.dtype, m->desc.d) * op_dtype_size(m->desc.dtype);
    int lo, hi;
    team_split(t, n, 1, &lo, &hi);
    for (int i = lo; i < hi; i++)
        op_round_row(m->desc.dtype, x + (size_t)i * ldx, m->desc.d, (char *)s->x + (size_t)i * row);
}

/* Which experts have rows, by ascending id. */
static void list_active(moe_scratch *s, int e) {
    s->active_count = 0;
    for (int i = 0; i < e; i++)
        if (s->offset[i + 1] > s->offset[i]) s->active[s->active_count++] = i;
}

/* Every token to expert 0: the routing of a plain MLP and of a shared expert. */
static void route_all_to_one(moe_scratch *s, int n) {
    s->offset[0] = 0, s->offset[1] = n;
    s->active[0] = 0, s->active_count = 1;
    for (int i = 0; i < n; i++) s->pair[i] = s->row[i] = i;
}

static void align_routing(moe_layer *m, moe_scratch *s, int n) {
    align_rows(s->ids, n * m->desc.k, m->desc.e, s->offset, s->pair, s->row);
    list_active(s, m->desc.e);
}

void moe_route_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx) {
    const cadre_moe_desc *d = &m->desc;
    op_router r = {.e = d->e,
                   .k = d->k,
                   .gate = d->gate,
                   .renormalize = d->renormalize,
                   .scale = d->scale,
                   .groups = d->groups,
                   .topk_groups = d->topk_groups,
                   .bias = m->bias};
    moe_dense_team(&m->router, t, n, x, ldx, s->logits, (size_t)d->e, false);
    float *scratch = s->route + (size_t)team_id(t) * 2 * (size_t)d->e;
    int lo, hi;
    team_split(t, n, 1, &lo, &hi);
    for (int i = lo; i < hi; i++)
        op_route(&r, s->logits + (size_t)i * (size_t)d->e, s->ids + (size_t)i * (size_t)d->k,
                 s->weights + (size_t)i * (size_t)d->k, scratch);
    team_end(t, &(profile_op){.op = "top-k"});
}

static void run_shared(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx, const void *z,
                       size_t ldz, float *out, size_t ldo) {
    if (m->has_shared_gate) moe_dense_team(&m->shared_gate, t, n, x, ldx, s->logits, 1, false);
    if (team_id(t) == 0) {
        route_all_to_one(s, n);
        for (int i = 0; i < n; i++) s->weights[i] = m->has_shared_gate ? op_sigmoid(s->logits[i]) : 1.0f;
    }
    team_end(t, &(profile_op){.op = "shared expert", .part = "weights"});
    moe_experts_run(&m->shared, t, s, n, z, ldz, out, ldo, true);
}

void moe_experts_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx, const void *z,
                      size_t ldz, float *out, size_t ldo, bool add) {
    if (n == 0) return;
    if (team_id(t) == 0) {
        if (m->has_router)
            align_routing(m, s, n);
        else {
            route_all_to_one(s, n);
            for (int i = 0; i < n; i++) s->weights[i] = 1.0f;
        }
    }
    const char *op = z ? "align" : "align+round";
    if (!z) {
        round_rows(m, t, s, n, x, ldx);
        z = s->x, ldz = op_stride(m->desc.dtype, m->desc.d);
    }
    team_end(t, &(profile_op){.op = op});
    moe_experts_run(&m->experts, t, s, n, z, ldz, out, ldo, add);
    if (m->has_shared) run_shared(m, t, s, n, x, ldx, z, ldz, out, ldo);
}

void moe_layer_team(moe_layer *m, team *t, moe_scratch *s, int n, const float *x, size_t ldx, const void *z, size_t ldz,
                    float *out, size_t ldo, bool add) {
    if (n == 0) return;
    if (m->has_router) moe_route_team(m, t, s, n, x, ldx);
    moe_experts_team(m, t, s, n, x, ldx, z, ldz, out, ldo, add);
}
