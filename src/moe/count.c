/* count.c: the kernel of count.cu for one set of knobs. */
#include "moe/count.h"
#include "moe/gpu.h"
#include "op/cuda/args.h"

#include <stdio.h>

enum { WORD = sizeof(int) };

struct moe_count {
    dev_cuda *gpu;
    count_knobs knobs;
    int ctas;
    gpu_kernel count, empty;
    void *never; /* device */
};

static cadre_err compile(moe_count *c, cadre_fail *why) {
    char text[4][32];
    const char *options[4] = {text[0], text[1], text[2], text[3]};
    unsigned threads = 32 * (unsigned)c->knobs.warps;
    size_t shared = c->knobs.private ? COUNT_PRIVATE_MOST * WORD : 0;
    snprintf(text[0], sizeof text[0], "-DBLOCK=%d", c->knobs.block);
    snprintf(text[1], sizeof text[1], "-DWARPS=%d", c->knobs.warps);
    snprintf(text[2], sizeof text[2], "-DATOMICS=%d", c->knobs.atomics);
    snprintf(text[3], sizeof text[3], "-DPRIVATE=%d", c->knobs.private);
    cadre_err err = gpu_kernel_new(c->gpu, "count.cu", "count", options, 4, threads, shared, &c->count, why);
    return err ? err : gpu_kernel_new(c->gpu, "count.cu", "empty", options, 4, threads, 0, &c->empty, why);
}

cadre_err moe_count_new(dev_cuda *gpu, const count_knobs *knobs, moe_count **out, cadre_fail *why) {
    moe_count *c = mem_new(sizeof *c);
    if (!c) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the count");
    *c = (moe_count){.gpu = gpu, .knobs = *knobs};
    c->ctas = knobs->ctas ? knobs->ctas : dev_cuda_about(gpu)->sms;
    cadre_err err = dev_cuda_alloc(gpu, WORD, &c->never, why);
    if (!err) err = compile(c, why);
    if (err)
        moe_count_free(c);
    else
        *out = c;
    return err;
}

void moe_count_free(moe_count *c) {
    if (!c) return;
    dev_cuda_module_free(c->gpu, c->count.module);
    dev_cuda_module_free(c->gpu, c->empty.module);
    dev_cuda_free(c->gpu, c->never);
    mem_free(c);
}

int moe_count_ctas(const moe_count *c) {
    return c->ctas;
}

static cadre_err launch(moe_count *c, const gpu_kernel *k, count_args *args, unsigned dynamic, void *stream,
                        cadre_fail *why) {
    void *list[] = {args};
    dev_cuda_launch l = {.kernel = &k->kernel,
                         .grid = {(unsigned)c->ctas},
                         .block = {k->threads},
                         .dynamic = dynamic,
                         .stream = stream,
                         .args = list};
    return dev_cuda_run(c->gpu, &l, why);
}

static cadre_err check(const moe_count *c, const op_count *a, cadre_fail *why) {
    if (a->capacity < 0 || a->k < 1 || a->local < 0)
        return cadre_fail_set(why, CADRE_RANGE,
                              "counting: capacity %lld, k %d, %d local experts: expected >= 0, >= 1, >= 0",
                              (long long)a->capacity, a->k, a->local);
    if (c->knobs.private && a->local > COUNT_PRIVATE_MOST)
        return cadre_fail_set(why, CADRE_RANGE,
                              "counting: %d local experts, a histogram (count.private) has room for %d", a->local,
                              COUNT_PRIVATE_MOST);
    return CADRE_OK;
}

cadre_err moe_count_enqueue(moe_count *c, const op_count *a, void *stream, cadre_fail *why) {
    count_args args = {.ids = (const long long *)(const void *)a->ids,
                       .valid = a->valid,
                       .capacity = a->capacity,
                       .start = a->start,
                       .k = a->k,
                       .local = a->local,
                       .extra = a->extra,
                       .counts = a->counts,
                       .never = c->never};
    cadre_err err = check(c, a, why);
    return err ? err : launch(c, &c->count, &args, c->knobs.private ? (unsigned)a->local * WORD : 0, stream, why);
}

cadre_err moe_count_empty(moe_count *c, void *stream, cadre_fail *why) {
    count_args args = {.k = 1, .never = c->never};
    return launch(c, &c->empty, &args, 0, stream, why);
}
