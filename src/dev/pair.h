/* pair.h: the check behind dev_bf16_pair_exact. Private to dev. */
#ifndef CADRE_DEV_PAIR_H
#define CADRE_DEV_PAIR_H
#include <stdint.h>

/* How many of `cases` (rounded up to 16) inputs vdpbf16ps takes elsewhere than the pair of fmas. NaNs count as equal.
 */
uint64_t pair_differences_avx512bf16(uint64_t cases, uint64_t seed);
#endif
