/* count.c: the arithmetic of shares and knobs, and counting on the CPU. Slices may run at the same time: by default
 * every pair is one atomic addition, or (knob private) each slice sums up alone and adds once per expert. */
#include "op/count.h"
#include "op/kernels.h"

#include <stdio.h>
#include <string.h>

#define K(name) op_count_fn name;
CADRE_COUNT_KERNELS(K)
#undef K
const op_count_kernel op_count_kernels[] = {
#define K(name) {#name, name},
    CADRE_COUNT_KERNELS(K)
#undef K
        {NULL, NULL},
};

const op_knob_def count_knob_defs[COUNT_KNOBS] = {
#define X(name, def, low, high, what) {#name, def, low, high, what},
    CADRE_COUNT_KNOBS(X)
#undef X
};

/* ---- shares ---- */

static int64_t up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

count_grid count_grid_of(int64_t pairs, int64_t block, int64_t ctas) {
    int64_t blocks = up(pairs, block), per_cta = up(blocks, ctas);
    return (count_grid){blocks, per_cta, per_cta ? up(blocks, per_cta) : 0};
}

int64_t count_depth(int64_t pairs, const count_knobs *knobs, int64_t ctas) {
    return count_grid_of(pairs, knobs->block, ctas).per_cta * up(knobs->block, 32 * (int64_t)knobs->warps);
}

void count_knobs_default(count_knobs *knobs) {
#define X(name, def, low, high, what) knobs->name = def;
    CADRE_COUNT_KNOBS(X)
#undef X
}

void count_knobs_text(const count_knobs *knobs, char *text, size_t size) {
    snprintf(text, size, "block=%d warps=%d ctas=%d atomics=%d private=%d", knobs->block, knobs->warps, knobs->ctas,
             knobs->atomics, knobs->private);
}

/* ---- counting on the CPU ---- */

static int64_t pairs_of(const op_count *a) {
    int64_t valid = *a->valid < 0 ? 0 : *a->valid > a->capacity ? a->capacity : *a->valid;
    int64_t pairs = valid * a->k + a->extra, all = a->capacity * a->k;
    return pairs < all ? pairs : all;
}

static void add(int32_t *to, int32_t n, int atomics) {
    if (atomics == COUNT_ORDERED)
        __atomic_fetch_add(to, n, __ATOMIC_ACQ_REL);
    else
        __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

/* The local expert of an id, -1: none of them. Unsigned, since the difference of two far ids does not fit. */
static int local_of(const op_count *a, int64_t id) {
    return id >= a->start && (uint64_t)id - (uint64_t)a->start < (uint64_t)a->local ? (int)(id - a->start) : -1;
}

/* What is left of the work without additions: the ids are read and looked at. */
static void look(const op_count *a, int64_t lo, int64_t hi) {
    volatile int64_t seen = 0;
    int64_t sum = 0;
    for (int64_t p = lo; p < hi; p++) sum += local_of(a, a->ids[p]);
    seen = sum;
    (void)seen;
}

void count_cpu(const op_count *a, const count_knobs *knobs, int ctas, int cta, int32_t *own) {
    int64_t pairs = pairs_of(a), run = count_grid_of(pairs, knobs->block, ctas).per_cta * knobs->block;
    int64_t lo = run * cta < pairs ? run * cta : pairs, hi = pairs - lo < run ? pairs : lo + run;
    if (knobs->atomics == COUNT_NONE) {
        look(a, lo, hi);
        return;
    }
    if (knobs->private) memset(own, 0, (size_t)a->local * sizeof *own);
    for (int64_t p = lo; p < hi; p++) {
        int i = local_of(a, a->ids[p]);
        if (i < 0) continue;
        if (knobs->private)
            own[i]++;
        else
            add(&a->counts[i], 1, knobs->atomics);
    }
    for (int i = 0; i < a->local && knobs->private; i++)
        if (own[i]) add(&a->counts[i], own[i], knobs->atomics);
}
