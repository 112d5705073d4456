/* count.c: the one kernel that the stand-in really runs: counting local tokens, by the arguments of its launch. So what
 * a command counts and checks on a GPU can be tested without one; the text itself is tested on a GPU
 * (tests/gpu/count.c). */
#include "op/cuda/count.cuh"
#include "fake.h"

void fake_count(void **args) {
    const count_args *a = args[0];
    long long valid = *a->valid < 0 ? 0 : *a->valid > a->capacity ? a->capacity : *a->valid;
    long long pairs = valid * a->k + a->extra, all = a->capacity * a->k;
    for (long long p = 0; p < pairs && p < all; p++)
        if (a->ids[p] >= a->start && (unsigned long long)a->ids[p] - (unsigned long long)a->start < (unsigned)a->local)
            a->counts[a->ids[p] - a->start]++;
}
