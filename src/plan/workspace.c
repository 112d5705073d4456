/* workspace.c: sums and overlaps of lifetimes. */
#include "plan/workspace.h"

#include <string.h>

const char *const work_stages[WORK_STAGES] = {"align", "up", "act", "down", "sum"};

static bool same_slot(const work_part *a, const work_part *b) {
    return a->slot && b->slot && !strcmp(a->slot, b->slot);
}

cadre_err work_check(const work_part *parts, int count, cadre_fail *why) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (same_slot(&parts[i], &parts[j]) && parts[i].first <= parts[j].last && parts[j].first <= parts[i].last)
                return cadre_fail_set(why, CADRE_RANGE, "%s and %s share %s and both live at stage %d", parts[j].name,
                                      parts[i].name, parts[i].slot,
                                      parts[i].first > parts[j].first ? parts[i].first : parts[j].first);
    return CADRE_OK;
}

/* Is this the part that gives its slot the size? The first of the largest. */
static bool sizes_slot(const work_part *parts, int count, int i) {
    for (int j = 0; j < count; j++) {
        if (j == i || !same_slot(&parts[i], &parts[j])) continue;
        if (parts[j].bytes > parts[i].bytes || (parts[j].bytes == parts[i].bytes && j < i)) return false;
    }
    return true;
}

size_t work_total(const work_part *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        if (sizes_slot(parts, count, i)) sum += parts[i].bytes;
    return sum;
}

size_t work_peak(const work_part *parts, int count, int stages, int *stage) {
    size_t most = 0;
    *stage = 0;
    for (int s = 0; s < stages; s++) {
        size_t live = 0;
        for (int i = 0; i < count; i++)
            if (parts[i].first <= s && s <= parts[i].last) live += parts[i].bytes;
        if (live > most) most = live, *stage = s;
    }
    return most;
}

/* a * b * size; false when it does not fit. */
static bool bytes_of(int64_t a, int64_t b, size_t size, size_t *out) {
    size_t n;
    return mem_mul((size_t)a, (size_t)b, &n) && mem_mul(n, size, out);
}

int work_foreign(const gemm_key *k, int64_t sorted, int64_t experts, work_part parts[WORK_FOREIGN_PARTS]) {
    int64_t pairs = (int64_t)k->m * k->topk, up = (int64_t)k->n * (k->gated ? 2 : 1);
    size_t size = k->dtype == GEMM_FP32 ? 4 : 2; /* activations are 16 bits whatever the weights */
    work_part all[WORK_FOREIGN_PARTS] = {
        {"sorted ids", 0, WORK_ALIGN, WORK_DOWN, NULL},      {"block experts", 0, WORK_ALIGN, WORK_DOWN, NULL},
        {"padded count", 4, WORK_ALIGN, WORK_DOWN, NULL},    {"up output", 0, WORK_UP, WORK_ACT, "up/down output"},
        {"activation output", 0, WORK_ACT, WORK_DOWN, NULL}, {"down output", 0, WORK_DOWN, WORK_SUM, "up/down output"},
    };
    if (!bytes_of(sorted, 1, 4, &all[0].bytes) || !bytes_of(experts, 1, 4, &all[1].bytes) ||
        !bytes_of(pairs, up, size, &all[3].bytes) || !bytes_of(pairs, k->n, size, &all[4].bytes) ||
        !bytes_of(pairs, k->hidden, size, &all[5].bytes))
        return 0;
    memcpy(parts, all, sizeof all);
    return WORK_FOREIGN_PARTS;
}

bool work_fits(const work_key *have, const work_key *want, int n) {
    return have->device == want->device && have->stream == want->stream && have->dtype == want->dtype &&
           have->captured == want->captured && n <= have->capacity;
}
