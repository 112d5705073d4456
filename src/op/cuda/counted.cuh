/* counted.cuh: telling other blocks by counters, where tokens are many enough: a warp of its own counts finished items.
 */
struct telling {
    u64 stored[STORED], told[STORED];
};
DEVICE void telling_init(telling &t) {
    for (int i = 0; i < STORED; i++) {
        barrier_init(shared_address(&t.stored[i]), WARPS);
        barrier_init(shared_address(&t.told[i]), 1);
    }
}
/* By each warp that multiplies, when it has written its part of an item; the first leaves in sent[STORED] what the warp that
 * tells must know of it. That one may be busy with items before. */
template <class what> DEVICE void hand_over(telling &t, teller *at, what *sent, const what &item, int warp, int lane) {
    __syncwarp();
    barrier_wait(shared_address(&t.told[at->slot]), (u32)at->parity ^ 1u);
    if (lane == 0) {
        if (warp == 0) sent[at->slot] = item;
        barrier_arrive(shared_address(&t.stored[at->slot]));
    }
    at->next();
}
/* The warp that tells, of items that are nothing but the counter they are counted in; NULL: no more. Its fences take long;
 * those who multiply need not wait for them. */
DEVICE void tell(telling &t, int *const *counters, int lane) {
    teller at = {0, 0};
    for (;;) {
        barrier_wait(shared_address(&t.stored[at.slot]), (u32)at.parity);
        int *counter = counters[at.slot];
        if (!counter) break;
        if (lane == 0) {
            add_release(counter, 1);
            barrier_arrive(shared_address(&t.told[at.slot]));
        }
        at.next();
    }
}
