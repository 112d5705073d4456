/* experts.c: the packed experts of one layer, and the two grouped products by a team. */
#include "moe/experts.h"
#include "moe/pack.h"

static cadre_err take_weights(moe_experts *m, const char *role, cadre_fail *why) {
    size_t up = 0, down = 0, all_up = 0, all_down = 0;
    bool fits = op_packed_bytes(m->dtype, m->f, m->d, m->act != CADRE_RELU2, &up) &&
                op_packed_bytes(m->dtype, m->d, m->f, false, &down) && mem_mul(up, (size_t)m->e, &all_up) &&
                mem_mul(down, (size_t)m->e, &all_down);
    if (!fits)
        return cadre_fail_set(why, CADRE_RANGE, "%s: %d experts of %d x %d are too large", role, m->e, m->d, m->f);
    m->up_stride = up, m->down_stride = down;
    m->w_up = mem_new_huge(all_up);
    m->w_down = mem_new_huge(all_down);
    if (!m->w_up || !m->w_down)
        return cadre_fail_set(why, CADRE_NOMEM, "%s: no memory for %zu bytes of weights", role, all_up + all_down);
    return CADRE_OK;
}

cadre_err moe_experts_plan(plan *p, cadre_device *device, const char *role, cadre_dtype dtype, int e, int k, int d,
                           int f, cadre_act act, cadre_fail *why) {
    plan_key key = {.family = OP_EXPERTS, .dtype = dtype, .d = d, .f = f, .e = e, .k = k, .role = role, .act = act};
    return plan_make(device, &key, p, why);
}

cadre_err moe_experts_init(moe_experts *m, cadre_device *device, const char *role, cadre_dtype dtype, int e, int k,
                           int d, int f, cadre_act act, float limit, const cadre_tensor *gate, const cadre_tensor *up,
                           const cadre_tensor *down, moe_source *from, cadre_fail *why) {
    *m = (moe_experts){.e = e, .k = k, .d = d, .f = f, .dtype = dtype, .act = act, .limit = limit};
    cadre_err err = moe_experts_plan(&m->plan, device, role, dtype, e, k, d, f, act, why);
    if (!err) err = take_weights(m, role, why);
    bool gated = act != CADRE_RELU2;
    for (int i = 0; i < e && !err; i++) {
        err = moe_pack(device, dtype, f, d, gated ? &gate[i] : &up[i], gated ? &up[i] : NULL, from,
                       (char *)m->w_up + (size_t)i * m->up_stride, why);
        if (!err)
            err = moe_pack(device, dtype, d, f, &down[i], NULL, from, (char *)m->w_down + (size_t)i * m->down_stride,
                           why);
    }
    if (err) moe_experts_done(m);
    return err;
}

void moe_experts_done(moe_experts *m) {
    if (m->w_up) mem_free_huge(m->w_up, m->up_stride * (size_t)m->e);
    if (m->w_down) mem_free_huge(m->w_down, m->down_stride * (size_t)m->e);
    *m = (moe_experts){0};
}

static void end(const moe_experts *m, team *t, const char *part, size_t bytes) {
    team_end(t, &(profile_op){m->plan.key.role, part, m->plan.kernel->name, bytes});
}

/* Units of the up product: every active expert in `chunks` pieces of its panels. */
static void up_team(const moe_experts *m, team *t, const moe_scratch *s, op_experts *a, const experts_knobs *knobs) {
    int step = op_up_step(m->dtype), chunk = knobs->chunk > step ? knobs->chunk : step;
    int panels = op_panels(m->f), chunks = (panels + chunk - 1) / chunk, units = s->active_count * chunks;
    size_t panel = m->up_stride / (size_t)panels;
    for (team_walk w = team_walk_start(t, units, 1); team_walk_on(t, &w);) {
        int lo = w.lo % chunks * chunk, hi = lo + chunk < panels ? lo + chunk : panels;
        const char *next = (char *)m->w_up + (size_t)(w.next % chunks * chunk) * panel;
        a->next = w.next < units ? next + (size_t)s->active[w.next / chunks] * m->up_stride : NULL;
        m->plan.kernel->run.experts.up(a, knobs, s->active[w.lo / chunks], lo, hi);
    }
    end(m, t, m->act == CADRE_RELU2 ? "up+act" : "gate+up+act", (size_t)s->active_count * m->up_stride);
}

static void down_team(const moe_experts *m, team *t, const moe_scratch *s, op_experts *a, const experts_knobs *knobs) {
    int panels = op_panels(m->d);
    const char *first = (char *)m->w_down + (s->active_count ? (size_t)s->active[0] * m->down_stride : 0);
    size_t panel = m->down_stride / (size_t)panels;
    for (team_walk w = team_walk_start(t, panels, knobs->columns); team_walk_on(t, &w);) {
        a->next = w.next < panels ? first + (size_t)w.next * panel : NULL;
        m->plan.kernel->run.experts.down(a, knobs, w.lo, w.hi);
    }
    end(m, t, "down+combine", (size_t)s->active_count * m->down_stride);
}

void moe_experts_run(moe_experts *m, team *t, moe_scratch *s, int n, const void *z, size_t ldz, float *out, size_t ldo,
                     bool add) {
    const plan_row *row = plan_use_team(&m->plan, t, n);
    op_experts a = {.n = n,
                    .d = m->d,
                    .f = m->f,
                    .e = m->e,
                    .k = m->k,
                    .act = m->act,
                    .limit = m->limit,
                    .x = z,
                    .ldx = ldz,
                    .offset = s->offset,
                    .pair = s->pair,
                    .row = s->row,
                    .w_up = m->w_up,
                    .w_down = m->w_down,
                    .up_stride = m->up_stride,
                    .down_stride = m->down_stride,
                    .h = s->h,
                    .ldh = op_stride(m->dtype, m->f),
                    .weight = s->weights,
                    .out = out,
                    .ldo = ldo,
                    .add = add,
                    .slots = s->slots + (size_t)team_id(t) * s->slots_stride};
    if (team_id(t) == 0) s->touched += (size_t)s->active_count * (m->up_stride + m->down_stride);
    up_team(m, t, s, &a, &row->knobs.experts);
    down_team(m, t, s, &a, &row->knobs.experts);
}
