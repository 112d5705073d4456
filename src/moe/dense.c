/* dense.c: a packed matrix and its product by a team. */
#include "moe/pack.h"

#include <string.h>

typedef struct pack_job {
    cadre_dtype dtype;
    int out, in;
    const cadre_tensor *w, *up;
    void *dst;
} pack_job;

static void pack_member(void *ctx, team *t) {
    const pack_job *j = ctx;
    int lo, hi;
    while (team_take(t, op_panels(j->out), 8, &lo, &hi))
        op_pack(j->dtype, j->out, j->in, *j->w, j->up ? *j->up : (cadre_tensor){0}, lo, hi, j->dst);
    team_barrier(t);
}

void moe_pack(cadre_device *device, cadre_dtype dtype, int out, int in, const cadre_tensor *w, const cadre_tensor *up,
              void *dst) {
    pack_job job = {dtype, out, in, w, up, dst};
    pool_run(device->threads, pack_member, &job);
}

/* A bias of any type as owned fp32. */
static cadre_err copy_bias(moe_dense *m, cadre_tensor bias, cadre_fail *why) {
    m->bias = mem_new_array((size_t)m->out, sizeof *m->bias);
    if (!m->bias) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a bias of %d values", m->out);
    for (int i = 0; i < m->out; i++) m->bias[i] = op_load(bias.dtype, bias.data, (size_t)i);
    return CADRE_OK;
}

cadre_err moe_dense_init(moe_dense *m, cadre_device *device, const char *role, cadre_dtype dtype, int out, int in,
                         cadre_tensor w, cadre_tensor bias, cadre_fail *why) {
    *m = (moe_dense){.in = in, .out = out, .dtype = dtype};
    plan_key key = {.family = OP_DENSE, .dtype = dtype, .d = in, .f = out, .role = role};
    cadre_err err = plan_make(device, &key, &m->plan, why);
    if (err) return err;
    if (!op_packed_bytes(dtype, out, in, false, &m->bytes))
        return cadre_fail_set(why, CADRE_RANGE, "%s: a matrix of %d x %d is too large", role, out, in);
    m->w = mem_new_huge(m->bytes);
    if (!m->w) return cadre_fail_set(why, CADRE_NOMEM, "%s: no memory for %zu bytes of weights", role, m->bytes);
    if (bias.data && (err = copy_bias(m, bias, why))) {
        moe_dense_done(m);
        return err;
    }
    moe_pack(device, dtype, out, in, &w, NULL, m->w);
    return CADRE_OK;
}

void moe_dense_done(moe_dense *m) {
    if (m->w) mem_free_huge(m->w, m->bytes);
    mem_free(m->bias);
    *m = (moe_dense){0};
}

void moe_dense_team(moe_dense *m, team *t, int n, const void *x, size_t ldx, float *y, size_t ldy, bool add) {
    if (n == 0) return;
    const plan_row *row = plan_use_team(&m->plan, t, n);
    const dense_knobs *knobs = &row->knobs.dense;
    op_dense a = {.n = n,
                  .in = m->in,
                  .out = m->out,
                  .x = x,
                  .ldx = ldx,
                  .w = m->w,
                  .bias = m->bias,
                  .y = y,
                  .ldy = ldy,
                  .add = add};
    int lo, hi;
    while (team_take(t, op_panels(m->out), knobs->grain, &lo, &hi)) m->plan.kernel->run.dense(&a, knobs, lo, hi);
    team_barrier(t);
}
