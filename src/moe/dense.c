/* dense.c: a packed matrix and its product by a team. */
#include "moe/pack.h"

/* The bytes are read to the end of the block: values grow in place, from the first on. */
cadre_err moe_vector(cadre_tensor v, int n, moe_source *from, float **out, cadre_fail *why) {
    size_t size = op_dtype_size(v.dtype), count = (size_t)n;
    float *block = mem_new_array(count, sizeof *block);
    if (!block) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a vector of %d values", n);
    char *raw = (char *)block + count * (sizeof *block - size);
    cadre_err err = moe_source_read(from, v.data, count * size, raw, why);
    for (size_t i = 0; i < count && !err; i++) block[i] = op_load(v.dtype, raw, i);
    if (err)
        mem_free(block);
    else
        *out = block;
    return err;
}

cadre_err moe_dense_init(moe_dense *m, cadre_device *device, const char *role, cadre_dtype dtype, int out, int in,
                         cadre_tensor w, cadre_tensor bias, moe_source *from, cadre_fail *why) {
    *m = (moe_dense){.in = in, .out = out, .dtype = dtype};
    plan_key key = {.family = OP_DENSE, .dtype = dtype, .d = in, .f = out, .role = role};
    cadre_err err = plan_make(device, &key, &m->plan, why);
    if (err) return err;
    if (!op_packed_bytes(dtype, out, in, false, &m->bytes))
        return cadre_fail_set(why, CADRE_RANGE, "%s: a matrix of %d x %d is too large", role, out, in);
    m->w = mem_new_huge(m->bytes);
    if (!m->w) return cadre_fail_set(why, CADRE_NOMEM, "%s: no memory for %zu bytes of weights", role, m->bytes);
    if (bias.data) err = moe_vector(bias, out, from, &m->bias, why);
    if (!err) err = moe_pack(device, dtype, out, in, &w, NULL, from, m->w, why);
    if (err) moe_dense_done(m);
    return err;
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
    int panels = op_panels(m->out);
    size_t panel = m->bytes / (size_t)panels;
    for (team_walk w = team_walk_start(t, panels, knobs->grain); team_walk_on(t, &w);) {
        a.next = w.next < panels ? (char *)m->w + (size_t)w.next * panel : NULL;
        m->plan.kernel->run.dense(&a, knobs, w.lo, w.hi);
    }
    team_end(t, &(profile_op){m->plan.key.role, NULL, m->plan.kernel->name, m->bytes});
}
