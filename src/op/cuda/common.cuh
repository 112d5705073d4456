/* common.cuh: what every CUDA kernel here shares: types, the packed tile, the scalar functions of the id. Included by the
 * other texts; no system header is needed.
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

#include <instructions.cuh> /* not beside this file: a test has its own */

/* The input stored at place p of a row in lane order. */
DEVICE int lane_order(int p) {
    int q = (p >> 3) & 3, j = p & 7;
    return (p & ~31) + 2 * q + (j & 1) + 8 * (j >> 1);
}

DEVICE float from_bf16(bf16 v) {
    return __uint_as_float((u32)v << 16);
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
