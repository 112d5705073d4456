/* instructions.cuh: thin names for the PTX instructions in use. For common.cuh, whose types they take. tests/op/emulate has the
 * same names for a CPU.
 */
/* Two at once, lo in the low half, to nearest even. */
DEVICE u32 to_bf16x2(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
/* a / b as __fdiv_rn has it, without its checks: for 2^-40 <= |a| <= 2^40 and 1 <= b <= 2^60, where nothing underflows. */
DEVICE float divide_plain(float a, float b) {
    float r, e, q;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    asm("fma.rn.f32 %0, %1, %2, 0f3f800000;" : "=f"(e) : "f"(-b), "f"(r));
    asm("fma.rn.f32 %0, %1, %2, %1;" : "=f"(r) : "f"(r), "f"(e));
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(r));
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(e) : "f"(-b), "f"(q), "f"(a));
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(q) : "f"(r), "f"(e), "f"(q));
    return q;
}

DEVICE u32 shared_address(const void *p) {
    return (u32)__cvta_generic_to_shared(p);
}
DEVICE uint4 load_shared16(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
    return v;
}
/* c += a . b, 16 rows x 8 tokens x 16 inputs. */
DEVICE void mma(float *c, uint4 a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

DEVICE void barrier_init(u32 barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
DEVICE void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
#if COPY_ENGINE
#    define BARRIER_TEST "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"
#else
#    define BARRIER_TEST "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64"
#endif
DEVICE void barrier_wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 BARRIER_TEST " done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
#if COPY_ENGINE
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* bytes: a multiple of 16; both ends on 16. */
DEVICE void bulk_copy(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}
DEVICE void bulk_copy_hint(u32 to, const void *from, u32 bytes, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}
/* Into the L2 cache. bytes: a multiple of 16. */
DEVICE void bulk_prefetch(const void *from, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
DEVICE u64 policy_evict_first(void) {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
DEVICE void fence_async(void) { /* ordinary writes before, copies by the copy engine after */
    asm volatile("fence.proxy.async;" ::: "memory");
}
DEVICE void fence_async_shared(void) { /* writes to the block's own shared memory alone: does not wait for global memory */
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
DEVICE int load_acquire(const int *p) {
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
/* What other blocks write while it is read. */
DEVICE uint4 load_relaxed16(const void *p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}
DEVICE int load_relaxed(const int *p) {
    int v;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
DEVICE void arrive_warps(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEVICE void store_relaxed(void *p, u32 v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE void store_shared16(u32 address, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE void add_release(int *p, int v) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE void grid_wait(void) { /* what the launch before this one wrote can be read */
#if COPY_ENGINE
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void grid_launch_next(void) {
#if COPY_ENGINE
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void sync_warps(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

DEVICE void barriers_ready() { /* their initial state is seen by the copy engine and the other threads after a sync */
#if COPY_ENGINE
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/* One thread's 16 bytes, asynchronous. */
DEVICE void copy16(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void copy16_hint(u32 to, const void *from, u64 policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy) : "memory");
}
DEVICE void copies_end() { /* of a group */
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> DEVICE void copies_wait() { /* all of this thread's groups but the last LEFT are there */
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
DEVICE void copies_arrive(u32 barrier) { /* when this thread's copies so far are there */
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
