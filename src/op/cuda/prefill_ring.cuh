/* prefill_ring.cuh: what goes between the two blocks of prefill.cu's cluster, and the ring that its copies fill.
 */
/* ---- between the blocks of a cluster ---- */
/* A word into another block, counted by its barrier. */
DEVICE void send(u32 to, int word, u32 barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(word), "r"(barrier) : "memory");
}
/* Out of this block. bytes: a multiple of 16. */
DEVICE void bulk_store(void *to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
DEVICE void bulk_read() { /* what this thread stores may be overwritten */
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
DEVICE void bulk_written() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* Into the same place of all blocks; each block's barrier counts what it gets. */
DEVICE void bulk_copy_all(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((u16)((1 << CLUSTER) - 1))
                 : "memory");
}

/* ---- the ring ---- */
/* Stages one behind the other in ROOM bytes, as large as their tokens, from the start again where the end is too near. Those
 * who fill it and those who empty it find the same places, since they see the same sizes. */
struct ring {
    int slot, parity;
    u32 head; /* where the next may begin */
    DEVICE_METHOD void next() {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
    DEVICE_METHOD u32 begin(u32 bytes, u32 reach) { /* reach: as far as it is read */
        u32 at = head + reach <= ROOM ? head : 0;
        head = at + bytes;
        return at;
    }
};
/* What is not free yet, for the one who fills; a whole warp. */
struct fill {
    ring r, oldest;
    int used;
    u32 bytes, mine; /* lane i: what slot i takes, with what it left out at the end */
};
/* A stage as soon as there is room for it. */
DEVICE u32 place(shared &s, fill &f, u32 bytes, u32 reach, int lane) {
    u32 before = f.r.head, at = f.r.begin(bytes, reach), whole = at < before ? ROOM - before + bytes : bytes;
    while (f.used == SLOTS || f.bytes + whole > ROOM) {
        barrier_wait(shared_address(&s.empty[f.oldest.slot]), (u32)f.oldest.parity);
        f.bytes -= __shfl_sync(~0u, f.mine, f.oldest.slot);
        f.used--;
        f.oldest.next();
    }
    if (lane == f.r.slot) f.mine = whole;
    f.bytes += whole, f.used++;
    return at;
}
DEVICE u32 stage_bytes(int wide) {
    return (u32)(W_BYTES + wide * 128);
}
