/* told.cuh: telling other blocks by data, where tokens are few. The router's ids, h and y are all ones, which no rounding
 * makes, until they are written, and readers wait for that. There are two of each: a launch uses one and clears the other
 * for the next. Which one is in the lowest bit of *state, above it the pairs of the launch before.
 */
#define FEW_PAIRS (8 * CHOSEN) /* most whose ids are told */

DEVICE bool is_told(uint4 v) {
    return v.x != ~0u && v.y != ~0u && v.z != ~0u && v.w != ~0u;
}

/* By `threads` threads of every block. */
DEVICE void ones(bf16 *at, size_t vectors, int thread, int threads) {
    for (size_t i = (size_t)thread * gridDim.x + blockIdx.x; i < vectors; i += (size_t)gridDim.x * threads)
        ((uint4 *)at)[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
}
DEVICE void clear_other(const experts_args &a, int parity, int before, int thread, int threads) {
    size_t pairs = (size_t)before;
    ones(parity ? a.told_h[0] : a.told_h[1], pairs * (DOWN_STEPS * 2), thread, threads);
    for (int i = thread; i < min(before, FEW_PAIRS) && blockIdx.x == 0; i += threads) (parity ? a.told_ids[0] : a.told_ids[1])[i] = -1;
    ones(parity ? a.told_y[0] : a.told_y[1], pairs * (DOWN_ROWS * 2), thread, threads);
}
/* By one thread, when all blocks know which is theirs: the other one, for the next launch. */
DEVICE void turn_over(const experts_args &a, int parity) {
    *a.next = 0, *a.state = (a.n * CHOSEN) << 1 | (parity ^ 1);
}
