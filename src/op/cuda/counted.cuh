/* counted.cuh: telling other blocks by counters, where tokens are many enough: a warp of its own counts finished items.
 */
struct telling {
    u64 stored[STORED], told[STORED];
    int *counter[STORED]; /* that the item is counted in, NULL: no more */
};
DEVICE void telling_init(telling &t) {
    for (int i = 0; i < STORED; i++) {
        barrier_init(shared_address(&t.stored[i]), WARPS);
        barrier_init(shared_address(&t.told[i]), 1);
    }
}
/* By each warp that multiplies, when it has written its part of an item; the first says where it counts. The teller may be
 * busy with items before. */
DEVICE void hand_over(telling &t, teller *at, int *counter, int warp, int lane) {
    __syncwarp();
    barrier_wait(shared_address(&t.told[at->slot]), (u32)at->parity ^ 1u);
    if (lane == 0) {
        if (warp == 0) t.counter[at->slot] = counter;
        barrier_arrive(shared_address(&t.stored[at->slot]));
    }
    at->next();
}
/* The warp that tells. Its fences take long; those who multiply need not wait for them. */
DEVICE void tell(telling &t, int lane) {
    teller at = {0, 0};
    for (;;) {
        barrier_wait(shared_address(&t.stored[at.slot]), (u32)at.parity);
        int *counter = t.counter[at.slot];
        if (!counter) break;
        if (lane == 0) {
            add_release(counter, 1);
            barrier_arrive(shared_address(&t.told[at.slot]));
        }
        at.next();
    }
}
