/* count_ref.c: the meaning of counting local tokens, one pair and one expert at a time. Its first share does it all. */
#include "op/count.h"

op_count_fn count_ref;
void count_ref(const op_count *a, const count_knobs *knobs, int ctas, int cta, int32_t *own) {
    (void)knobs, (void)ctas, (void)own;
    for (int64_t token = 0; token < a->capacity && token < *a->valid && cta == 0; token++)
        for (int slot = 0; slot < a->k; slot++)
            for (int i = 0; i < a->local; i++)
                a->counts[i] += a->start <= INT64_MAX - i && a->ids[token * a->k + slot] == a->start + i;
}
