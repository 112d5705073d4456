/* bench_count_check.c: `cadre bench count --check`: the matrix of op/count_matrix.h, by the CPU's team or by a GPU. */
#include "bench_count.h"
#include "op/count_matrix.h"
#include "plan/count.h"
#include <string.h>

typedef struct checked {
    cadre_device *device;
    /* the CPU's */
    const op_count *a;
    const count_knobs *knobs;
    int ctas;
    int32_t *own; /* [threads][MATRIX_LOCAL] */
    /* the GPU's: a kernel for each block */
    dev_cuda *gpu;
    void *stream, *ids, *valid, *counts;
    moe_count *kernels[1025];
} checked;

/* ---- subjects ---- */

static void share(void *ctx, team *t) {
    checked *c = ctx;
    int32_t *own = c->own + (size_t)team_id(t) * MATRIX_LOCAL;
    for (int cta = team_id(t); cta < c->ctas; cta += team_size(t))
        op_count_kernels[1].run(c->a, c->knobs, c->ctas, cta, own);
}

static cadre_err count_cpu_team(void *ctx, const op_count *a, const count_knobs *knobs, cadre_fail *why) {
    checked *c = ctx;
    (void)why;
    c->a = a, c->knobs = knobs;
    c->ctas = plan_count_ctas(knobs, cadre_device_threads(c->device));
    memset(a->counts, 0, (size_t)a->local * sizeof *a->counts);
    pool_run(c->device->threads, share, c);
    return CADRE_OK;
}

static cadre_err put_gpu(void *ctx, const int64_t *ids, size_t pairs, cadre_fail *why) {
    checked *c = ctx;
    return dev_cuda_put(c->gpu, c->ids, ids, pairs * sizeof *ids, why);
}

static cadre_err count_gpu(void *ctx, const op_count *a, const count_knobs *knobs, cadre_fail *why) {
    checked *c = ctx;
    moe_count **kernel = &c->kernels[knobs->block];
    op_count there = *a;
    size_t bytes = (size_t)a->local * sizeof *a->counts;
    there.ids = c->ids, there.valid = c->valid, there.counts = c->counts;
    cadre_err err = *kernel ? CADRE_OK : moe_count_new(c->gpu, knobs, kernel, why);
    if (!err) err = dev_cuda_put(c->gpu, c->valid, a->valid, sizeof *a->valid, why);
    if (!err) err = dev_cuda_fill_async(c->gpu, c->counts, 0, bytes, c->stream, why);
    if (!err) err = moe_count_enqueue(*kernel, &there, c->stream, why);
    if (!err) err = dev_cuda_sync(c->gpu, c->stream, why);
    return err ? err : dev_cuda_get(c->gpu, a->counts, c->counts, bytes, why);
}

static cadre_err ready(checked *c, cadre_fail *why) {
    c->gpu = c->device->gpu;
    if (!c->gpu) {
        c->own = mem_new_array((size_t)cadre_device_threads(c->device) * MATRIX_LOCAL, sizeof *c->own);
        return c->own ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "out of memory for the counts");
    }
    cadre_err err = dev_cuda_stream_new(c->gpu, &c->stream, why);
    if (!err) err = dev_cuda_alloc(c->gpu, (size_t)MATRIX_MOST * MATRIX_K * sizeof(int64_t), &c->ids, why);
    if (!err) err = dev_cuda_alloc(c->gpu, sizeof(int32_t), &c->valid, why);
    return err ? err : dev_cuda_alloc(c->gpu, MATRIX_LOCAL * sizeof(int32_t), &c->counts, why);
}

static void done(checked *c) {
    mem_free(c->own);
    if (!c->gpu) return;
    for (size_t i = 0; i < sizeof c->kernels / sizeof *c->kernels; i++) moe_count_free(c->kernels[i]);
    dev_cuda_free(c->gpu, c->ids), dev_cuda_free(c->gpu, c->valid), dev_cuda_free(c->gpu, c->counts);
    dev_cuda_stream_free(c->gpu, c->stream);
}

/* ---- telling ---- */

static void say_matrix(const count_matrix *m) {
    say_pair("cells", "%d of %d equal to block 1024 and to the meaning", m->equal, m->cells);
    say_pair("full product", "%d: %d seeds, 7 numbers of tokens in 3 capacities, 4 offsets, 3 blocks", m->full,
             MATRIX_SEEDS);
    for (int i = 0; i < m->skip_count; i++)
        say_pair("skipped", "%d cells: %d tokens do not fit into %d", m->skips[i].cells, m->skips[i].valid,
                 m->skips[i].capacity);
    say_pair("counted", "%lld; like decoding: %d over %d of %d experts", (long long)m->sum, m->decode_sum,
             m->decode_populated, MATRIX_LOCAL);
    say_pair("planted", "one pair past the limit: found in %d of %d cells (a pair in four is local)", m->caught,
             m->planted);
    if (*m->first) say_pair("differs", "%s", m->first);
}

static int put_matrix(const count_matrix *m, const cadre_device *device, bool ok) {
    json_out o = {0};
    char text[80];
    say_json_open(&o, "bench count");
    json_put_bool(&o, "ok", ok);
    json_put_int(&o, "full", m->full);
    json_put_int(&o, "cells", m->cells);
    json_put_int(&o, "equal", m->equal);
    json_open(&o, "skipped", '[');
    for (int i = 0; i < m->skip_count; i++) {
        json_open(&o, NULL, '{');
        snprintf(text, sizeof text, "%d tokens do not fit into %d", m->skips[i].valid, m->skips[i].capacity);
        json_put_int(&o, "cells", m->skips[i].cells);
        json_put_text(&o, "reason", text);
        json_close(&o, '}');
    }
    json_close(&o, ']');
    json_put_int(&o, "sum", m->sum);
    json_put_int(&o, "populated", m->populated);
    json_put_int(&o, "decode_sum", m->decode_sum);
    json_put_int(&o, "decode_populated", m->decode_populated);
    json_put_int(&o, "planted", m->planted);
    json_put_int(&o, "caught", m->caught);
    json_put_text(&o, "first", *m->first ? m->first : NULL);
    json_put_text(&o, "device", cadre_device_name(device));
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, ok ? EXIT_FINE : EXIT_NO);
}

int count_bench_check(const count_opts *o, cadre_device *device) {
    static checked c;
    cadre_fail why = {0};
    count_knobs knobs;
    count_matrix m;
    c = (checked){.device = device};
    plan_count_knobs(&knobs);
    count_subject s = {device->gpu ? put_gpu : NULL, device->gpu ? count_gpu : count_cpu_team, &c};
    cadre_err err = ready(&c, &why);
    if (!err) err = count_matrix_run(&s, &knobs, MATRIX_SEEDS, &m, &why);
    done(&c);
    if (err) return say_failed(&why);
    bool ok = count_matrix_ok(&m);
    say_pair("device", "%s", cadre_device_name(device));
    say_matrix(&m);
    return o->common.json ? put_matrix(&m, device, ok) : ok ? EXIT_FINE : EXIT_NO;
}
