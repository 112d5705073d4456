/* plan_memory.c: `cadre plan explain --memory`: what one step of a layer needs, which stage needs most, who shares
 * what. */
#include "moe/moe.h"
#include "op/align.h"
#include "open.h"
#include "plan.h"
#include "plan/count.h"
#include <string.h>

static void say_parts(const plan_memory *a) {
    table t;
    char bytes[24], peak[24];
    table_open(&t, "lrll");
    for (const char *h = "part\0bytes\0lives\0memory\0"; *h; h += strlen(h) + 1) table_cell(&t, "%s", h);
    for (int i = 0; i < a->count; i++) {
        const work_part *p = &a->parts[i];
        table_cell(&t, "%s", p->name);
        table_cell(&t, "%zu", p->bytes);
        table_cell(&t, p->first == p->last ? "%s" : "%s..%s", a->stages[p->first], a->stages[p->last]);
        table_cell(&t, "%s%s", p->slot ? "shared: " : "its own", p->slot ? p->slot : "");
    }
    int stage;
    size_t most = work_peak(a->parts, a->count, a->stage_count, &stage);
    say("\nmemory of one step, M = %d: %s held; most live at %s: %s", a->m,
        say_bytes((double)work_total(a->parts, a->count), bytes), a->stages[stage], say_bytes((double)most, peak));
    table_print(&t, say_stream(), 2);
    say("  %s", a->who);
    if (a->counting[0]) say("  %s", a->counting);
}

void plan_memory_say(const plan_memory *a) {
    say_parts(a);
}

void plan_memory_put(json_out *o, const plan_memory *a) {
    int stage;
    json_open(o, NULL, '{');
    json_put_int(o, "m", a->m);
    json_put_int(o, "total", (int64_t)work_total(a->parts, a->count));
    json_put_int(o, "peak", (int64_t)work_peak(a->parts, a->count, a->stage_count, &stage));
    json_put_text(o, "peak_stage", a->stages[stage]);
    json_open(o, "parts", '[');
    for (int i = 0; i < a->count; i++) {
        const work_part *p = &a->parts[i];
        json_open(o, NULL, '{');
        json_put_text(o, "name", p->name);
        json_put_int(o, "bytes", (int64_t)p->bytes);
        json_put_text(o, "first", a->stages[p->first]);
        json_put_text(o, "last", a->stages[p->last]);
        json_put_text(o, "shares", p->slot);
        json_close(o, '}');
    }
    json_close(o, ']');
    json_close(o, '}');
}

static cadre_err finish(plan_memory *a, cadre_fail *why) {
    return a->count ? work_check(a->parts, a->count, why)
                    : cadre_fail_set(why, CADRE_RANGE, "M=%d: the sizes do not fit", a->m);
}

cadre_err plan_memory_own(plan_memory *a, cadre_device *device, const cadre_moe_desc *desc, int m, int threads,
                          cadre_fail *why) {
    moe_layer layer;
    cadre_moe_desc d = *desc;
    *a = (plan_memory){.m = m, .stages = moe_stages, .stage_count = MOE_STAGES};
    d.max_tokens = m;
    cadre_err err = moe_layer_plan(&layer, device, &d, why);
    if (err) return err;
    a->count = moe_scratch_parts(&layer, m, threads, a->parts) ? MOE_PARTS : 0;
    moe_layer_done(&layer);
    a->who = "one scratch for all layers, taken once for the largest M; poisoned between uses with --set poison=1";
    return finish(a, why);
}

/* What `cadre bench count` measures, for the layer's pairs on a GPU as large as an H100 or H200. */
static void say_counting(plan_memory *a, int64_t pairs, bool naive) {
    enum { SMS = 132 };
    count_knobs knobs;
    plan_count_knobs(&knobs);
    int ctas = plan_count_ctas(&knobs, SMS);
    count_grid g = count_grid_of(pairs, knobs.block, ctas);
    snprintf(a->counting, sizeof a->counting,
             "%s; counting %lld pairs by count.block=%d: %lld of %d CTAs busy, %lld block%s each",
             naive ? "so few pairs that vLLM sorts nothing" : "sorted by expert", (long long)pairs, knobs.block,
             (long long)g.busy, ctas, (long long)g.per_cta, g.per_cta == 1 ? "" : "s");
}

cadre_err plan_memory_foreign(plan_memory *a, const gemm_key *key, const gemm_config *config, cadre_fail *why) {
    int64_t pairs = (int64_t)key->m * key->topk;
    align_plan p = align_plan_of(pairs, key->e, config->v[GEMM_BM]);
    *a = (plan_memory){.m = key->m, .stages = work_stages, .stage_count = WORK_STAGES};
    a->count = work_foreign(key, p.capacity, p.blocks, a->parts);
    a->who = "vLLM's buffers: one set for all layers; the outputs of up and down share memory";
    say_counting(a, pairs, align_naive(key->m, key->topk, key->e, false));
    return finish(a, why);
}
