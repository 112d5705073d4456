/* gpu.c: a layer on a GPU made and freed. */
#include "moe/gpu.h"
#include "op/cuda/args.h"

static cadre_err check_device(const dev_cuda_traits *t, const cadre_moe_desc *d, cadre_fail *why) {
    if ((t->major != 9 && t->major != 8) || t->minor != 0)
        return cadre_fail_set(why, CADRE_UNSUPPORTED,
                              "MoE layers run on GPUs of compute capability 8.0 and 9.0 in this version, %s has %d.%d",
                              t->name, t->major, t->minor);
    if (d->dtype != CADRE_BF16)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "moe dtype is %s, on a GPU bf16 alone is there",
                              op_dtype_name(d->dtype));
    return CADRE_OK;
}

static cadre_err plan_set(gpu_set *s, const dev_cuda_traits *t, const char *role, bool router, cadre_fail *why) {
    plan_gpu_key key = {.d = s->d,
                        .f = s->f,
                        .e = s->e,
                        .k = s->k,
                        .act = s->act,
                        .sms = t->sms,
                        .smem = t->smem_block,
                        .engine = t->major >= 9,
                        .role = role,
                        .router = router};
    return plan_gpu_make(&key, &s->plan, why);
}

static gpu_set routed(const cadre_moe_desc *d) {
    return (gpu_set){.e = d->e, .k = d->k, .d = d->d, .f = d->f, .act = d->act};
}

cadre_err moe_gpu_plan(const dev_cuda_traits *t, const cadre_moe_desc *desc, plan_gpu *out, cadre_fail *why) {
    gpu_set s = routed(desc);
    cadre_err err = check_device(t, desc, why);
    if (!err) err = plan_set(&s, t, "experts", true, why);
    if (!err) *out = s.plan;
    return err;
}

const char *moe_gpu_numerics(const dev_cuda_traits *t) {
    return t->major >= 9 ? "sm90-bf16-k16" : NULL;
}

cadre_err moe_gpu_new(dev_cuda *gpu, const cadre_moe_desc *desc, const cadre_moe_weights *weights, moe_gpu **out,
                      cadre_fail *why) {
    const dev_cuda_traits *t = dev_cuda_about(gpu);
    const cadre_moe_desc *d = desc;
    cadre_err err = check_device(t, desc, why);
    if (err) return err;
    moe_gpu *m = mem_new(sizeof *m);
    if (!m) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a MoE layer");
    m->gpu = gpu;
    m->desc = *desc;
    if (m->desc.scale == 0.0f) m->desc.scale = 1.0f;
    m->experts = routed(d);
    m->shared = (gpu_set){.e = 1, .k = 1, .d = d->d, .f = d->shared_f, .act = d->act};
    err = plan_set(&m->experts, t, "experts", true, why);
    if (!err) err = plan_gpu_check(&m->experts.plan, 1, d->max_tokens, why);
    if (!err && d->shared_f) err = plan_set(&m->shared, t, "shared expert", false, why);
    if (!err && d->shared_f) err = plan_gpu_check(&m->shared.plan, 1, d->max_tokens, why);
    if (!err) err = gpu_compile(m, why);
    if (!err) err = gpu_weights(m, weights, why);
    if (!err) err = dev_cuda_turns_new(gpu, why);
    if (err)
        moe_gpu_free(m);
    else
        *out = m;
    return err;
}

void moe_gpu_free(moe_gpu *m) {
    if (!m) return;
    gpu_weights_done(m);
    gpu_compile_done(m);
    mem_free(m);
}

int moe_gpu_receipts(const moe_gpu *m, cadre_receipt *out, int cap) {
    int n = plan_gpu_receipts(&m->experts.plan, out, cap);
    return n + (m->desc.shared_f ? plan_gpu_receipts(&m->shared.plan, out + (n < cap ? n : cap), cap > n ? cap - n : 0)
                                 : 0);
}
