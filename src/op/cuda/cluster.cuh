/* cluster.cuh: what blocks of a cluster tell each other (sm_90). */
DEVICE u32 cluster_rank() {
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
DEVICE void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
DEVICE void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
DEVICE void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* What block `rank` of the cluster has at the place of `mine`. */
DEVICE u32 cluster_address(u32 mine, u32 rank) {
    u32 address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(mine), "r"(rank));
    return address;
}
/* At a cluster_address. Released to this block alone, as far as the words go: what is handed over is that reads are done, and
 * a release to the cluster would wait for all of this thread's writes on their way to memory. */
DEVICE void arrive_there(u32 barrier, int times = 1) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(times) : "memory");
}
/* Until what blocks of the cluster sent is there: their stores are counted by the barrier. */
DEVICE void barrier_wait_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
