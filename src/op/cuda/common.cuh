/* common.cuh: what every CUDA kernel here shares: types, the packed tile, the scalar functions of the id, and thin names
 * for the PTX instructions in use. Included by the other texts; no system header is needed.
 *
 * The packed tile. Weights are rows (outputs) by k (inputs), cut into tiles of 16 x 16, 512 bytes each, a tile being the
 * register operand of mma.m16n8k16 as it lies in a warp: lane l = 4 g + q holds 16 bytes,
 *
 *     (row g, k 2q 2q+1)  (row g+8, k 2q 2q+1)  (row g, k 2q+8 2q+9)  (row g+8, k 2q+8 2q+9)
 *
 * A *row tile* is 16 rows over all k. A matrix is cut along k into chunks of 64 inputs (4 steps); a chunk has all row tiles
 * one after the other, 2 KB each, so any run of row tiles of a chunk is one run of memory:
 *
 *     chunk 0: row tile 0: steps 0..3 | row tile 1: steps 0..3 | ...      chunk 1: row tile 0: steps 4..7 | ...
 *
 * k is padded to 32 (the last chunk may have 2 steps).
 *
 * Lane order. Activations that meet packed tiles are stored so that lane q of a quad reads its operands of two steps as
 * 16 bytes: of each 32 inputs, the place 8 q + j holds input lane_order(8 q + j). Steps still are 16 inputs in order.
 */
#include "exp.h"

/* What sm_90 has and sm_80 lacks: the copy engine, clusters, launches that overlap. Set to 0, texts do without everywhere. */
#ifndef COPY_ENGINE
#    define COPY_ENGINE (__CUDA_ARCH__ >= 900)
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u16 bf16; /* bits */

#define DEVICE        static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__

/* The input stored at place p of a row in lane order. */
DEVICE int lane_order(int p) {
    int q = (p >> 3) & 3, j = p & 7;
    return (p & ~31) + 2 * q + (j & 1) + 8 * (j >> 1);
}

DEVICE float from_bf16(bf16 v) {
    return __uint_as_float((u32)v << 16);
}
/* Two at once, lo in the low half, to nearest even. */
DEVICE u32 to_bf16x2(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE uint4 to_bf16x8(float4 lo, float4 hi) {
    return make_uint4(to_bf16x2(lo.x, lo.y), to_bf16x2(lo.z, lo.w), to_bf16x2(hi.x, hi.y), to_bf16x2(hi.z, hi.w));
}
DEVICE bf16 to_bf16(float v) {
    return (bf16)to_bf16x2(v, 0.0f);
}

/* exp of docs/numerics.md, the same bits as op_exp. Compiled with -fmad=false -ftz=true. No branches, so that several run
 * side by side; t's low bits are n. exp_plain: for EXP_LOW < x <= EXP_HIGH. */
DEVICE float exp_plain(float x) {
    float t = __fmaf_rn(x, EXP_LOG2E, EXP_MAGIC), n = __fadd_rn(t, -EXP_MAGIC);
    float r = __fmaf_rn(n, -EXP_LN2_HI, x);
    r = __fmaf_rn(n, -EXP_LN2_LO, r);
    float p = EXP_C6;
    p = __fmaf_rn(p, r, EXP_C5);
    p = __fmaf_rn(p, r, EXP_C4);
    p = __fmaf_rn(p, r, EXP_C3);
    p = __fmaf_rn(p, r, EXP_C2);
    p = __fmaf_rn(p, r, EXP_C1);
    p = __fmaf_rn(p, r, EXP_C0);
    return __fmul_rn(p, __uint_as_float((__float_as_uint(t) << 23) + 0x3f800000u));
}
DEVICE float exp_id(float x) {
    float p = exp_plain(x > EXP_HIGH ? EXP_HIGH : x);
    return x > EXP_LOW ? p : x == x ? 0.0f : x;
}
DEVICE float silu_id(float x) {
    return __fdiv_rn(x, __fadd_rn(1.0f, exp_id(-x)));
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
/* The same bits as silu_id while *plain stays true: look once behind several. For 2^-40 <= |x| <= 40. */
DEVICE float silu_plain(float x, bool *plain) {
    u32 low = 2u * 0x2b800000u, high = 2u * 0x42200000u; /* bits of 2^-40 and 40, without a sign */
    *plain = *plain & (2u * __float_as_uint(x) - low <= high - low);
    return divide_plain(x, __fadd_rn(1.0f, exp_plain(-x)));
}
DEVICE float sigmoid_id(float x) {
    return __fdiv_rn(1.0f, __fadd_rn(1.0f, exp_id(-x)));
}

/* Tokens of a launch that count: *valid is of all launches of a run. */
DEVICE int valid_tokens(int n, const int *valid, int before) {
    return valid ? max(0, min(n, *(volatile const int *)valid - before)) : n;
}

/* ---- instructions ---- */
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
