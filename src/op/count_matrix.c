/* count_matrix.c: walks the cells, and the same cells with a fault planted. */
#include "op/count_matrix.h"

#include <stdio.h>
#include <string.h>

static const int valids[] = {0, 1, 7, 63, 256, 1000, 4096}, capacities[] = {16384, 4096, 512};
static const int offsets[] = {0, 32, 64, 96}, blocks[] = {128, 256, 512};
enum { VALIDS = 7, CAPACITIES = 3, OFFSETS = 4, BLOCKS = 3, OLD = 1024 };

typedef struct walk {
    const count_subject *subject;
    count_knobs knobs;
    int64_t *ids; /* [MATRIX_MOST][MATRIX_K] */
    int seed, capacity, valid;
    op_count a;
    int32_t want[MATRIX_LOCAL], old[MATRIX_LOCAL], got[MATRIX_LOCAL];
    count_matrix *m;
    cadre_fail *why;
} walk;

void count_matrix_ids(uint64_t seed, int tokens, int experts, int k, int64_t *ids) {
    rand_stream r = {seed, 0};
    for (int t = 0; t < tokens; t++)
        for (int s = 0; s < k; s++) {
            int64_t *row = ids + (size_t)t * (size_t)k, id;
            int at;
            do {
                id = (int64_t)rand_below(&r, (uint32_t)experts);
                for (at = 0; at < s && row[at] != id; at++) continue;
            } while (at < s);
            row[s] = id;
        }
}

static cadre_err count_at(walk *w, int block, int32_t *counts) {
    w->knobs.block = block;
    w->a.counts = counts;
    memset(counts, 0xcd, sizeof w->got); /* the subject sets them */
    return w->subject->count(w->subject->ctx, &w->a, &w->knobs, w->why);
}

static void name_first(walk *w, int block) {
    for (int i = 0; i < MATRIX_LOCAL && !*w->m->first; i++)
        if (w->got[i] != w->want[i] || w->old[i] != w->want[i])
            snprintf(
                w->m->first, sizeof w->m->first,
                "seed %d, %d tokens in %d, offset %lld: local expert %d has %d with block %d, %d with block %d, not %d",
                w->seed, w->valid, w->capacity, (long long)w->a.start, i, w->got[i], block, w->old[i], OLD, w->want[i]);
}

static void look_at(walk *w, int block) {
    count_matrix *m = w->m;
    bool decode = w->seed == 0 && w->valid == 256 && w->capacity == MATRIX_MOST && w->a.start == 0 && block == 128;
    m->cells++;
    if (memcmp(w->got, w->want, sizeof w->got) || memcmp(w->old, w->want, sizeof w->old))
        name_first(w, block);
    else
        m->equal++;
    for (int i = 0; i < MATRIX_LOCAL; i++) {
        m->populated += w->got[i] > 0, m->sum += w->got[i];
        if (decode) m->decode_populated += w->got[i] > 0, m->decode_sum += w->got[i];
    }
}

/* A subject that is wrong anyway finds nothing by it: what it counts must have been right without the fault. */
static cadre_err plant(walk *w) {
    bool right = !memcmp(w->old, w->want, sizeof w->old);
    w->a.extra = 1;
    cadre_err err = count_at(w, OLD, w->got);
    w->a.extra = 0;
    w->m->planted++;
    w->m->caught += !err && right && memcmp(w->got, w->want, sizeof w->got) != 0;
    return err;
}

static cadre_err cells_of(walk *w) {
    const int32_t valid = w->valid;
    w->a = (op_count){w->ids, &valid, w->capacity, MATRIX_K, 0, MATRIX_LOCAL, NULL, 0};
    cadre_err err = CADRE_OK;
    for (int o = 0; o < OFFSETS && !err; o++) {
        w->a.start = offsets[o];
        memset(w->want, 0, sizeof w->want);
        w->a.counts = w->want;
        op_count_kernels[0].run(&w->a, &w->knobs, 1, 0, NULL);
        err = count_at(w, OLD, w->old);
        for (int b = 0; b < BLOCKS && !err; b++) {
            err = count_at(w, blocks[b], w->got);
            if (!err) look_at(w, blocks[b]);
        }
        if (!err && valid < w->capacity) err = plant(w);
    }
    return err;
}

static void skip(walk *w) {
    count_matrix *m = w->m;
    int i = 0;
    while (i < m->skip_count && (m->skips[i].valid != w->valid || m->skips[i].capacity != w->capacity)) i++;
    if (i == MATRIX_SKIPS) return;
    if (i == m->skip_count) m->skips[m->skip_count++] = (count_skip){w->valid, w->capacity, 0};
    m->skips[i].cells += OFFSETS * BLOCKS;
    m->skipped += OFFSETS * BLOCKS;
}

static cadre_err buffer_of(walk *w, int c) {
    size_t pairs = (size_t)capacities[c] * MATRIX_K;
    w->capacity = capacities[c];
    count_matrix_ids((uint64_t)w->seed * CAPACITIES + (uint64_t)c, w->capacity, MATRIX_EXPERTS, MATRIX_K, w->ids);
    cadre_err err = w->subject->put ? w->subject->put(w->subject->ctx, w->ids, pairs, w->why) : CADRE_OK;
    for (int v = 0; v < VALIDS && !err; v++) {
        w->valid = valids[v];
        if (w->valid > w->capacity)
            skip(w);
        else
            err = cells_of(w);
    }
    return err;
}

cadre_err count_matrix_run(const count_subject *subject, const count_knobs *knobs, int seeds, count_matrix *out,
                           cadre_fail *why) {
    walk w = {.subject = subject, .knobs = *knobs, .m = out, .why = why};
    *out = (count_matrix){.full = seeds * VALIDS * CAPACITIES * OFFSETS * BLOCKS};
    w.ids = mem_new_array((size_t)MATRIX_MOST * MATRIX_K, sizeof *w.ids);
    if (!w.ids) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the ids of the matrix");
    cadre_err err = CADRE_OK;
    for (w.seed = 0; w.seed < seeds && !err; w.seed++)
        for (int c = 0; c < CAPACITIES && !err; c++) err = buffer_of(&w, c);
    mem_free(w.ids);
    return err;
}

bool count_matrix_ok(const count_matrix *m) {
    return m->cells > 0 && m->equal == m->cells && m->cells + m->skipped == m->full && m->sum > 0 && m->populated > 0 &&
           m->decode_sum > 0 && m->decode_populated == MATRIX_LOCAL && m->caught > 0;
}
