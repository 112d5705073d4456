/* bits.cu: one product, 64 rows of weights by 32 tokens, by every instruction that the id sm90-bf16-k16 lets stand for another:
 *
 *   BITS_MMA        mma.sync, weights as the first operand          BITS_SWAPPED   mma.sync, tokens as the first operand
 *   BITS_WGMMA_8    wgmma of 8 tokens, weights in registers         BITS_WGMMA_32  of 32 tokens, the same
 *   BITS_SHARED     wgmma of 32 tokens, both in shared memory
 *
 * and two that must differ, so that the comparison shows something: BITS_BACKWARD, the steps of 16 from the last to the first;
 * BITS_FMA, a fused multiply-add for each input. A block of four warps is one problem; warp w has rows 16 w .. 16 w + 15.
 */
#include "common.cuh"
#include "bits.cuh"

enum { WIDE = 64, LINE = 128 }; /* inputs of a chunk in shared memory; its bytes */

/* Rows of 128 bytes, the 16-byte part p of row r at place p ^ (r & 7); zeros past k. */
DEVICE void copy_chunk(unsigned char *to, const bf16 *from, int rows, int k, int k0) {
    for (int i = (int)threadIdx.x; i < rows * 8; i += 128) {
        int r = i / 8, p = i % 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (k0 + p * 8 < k) v = *(const uint4 *)(from + (size_t)r * k + k0 + p * 8);
        *(uint4 *)(to + r * LINE + ((p ^ (r & 7)) * 16)) = v;
    }
}

DEVICE u32 pair_at(const bf16 *m, int k, int row, int i) {
    return *(const u32 *)(m + (size_t)row * k + i);
}
/* 16 rows of a step as the first operand of mma, which is also a warp's part of wgmma's. */
DEVICE uint4 tile_at(const bf16 *m, int k, int row, int step, int lane) {
    int g = row + (lane >> 2), i = step * 16 + 2 * (lane & 3);
    return make_uint4(pair_at(m, k, g, i), pair_at(m, k, g + 8, i), pair_at(m, k, g, i + 8), pair_at(m, k, g + 8, i + 8));
}
/* A tile's sums: a row and two columns, and the row 8 further. */
DEVICE void store(float *out, const float *c, int row, int column, bool swapped, int lane) {
    for (int i = 0; i < 4; i++) {
        int r = row + (lane >> 2) + i / 2 * 8, n = column + 2 * (lane & 3) + i % 2;
        out[swapped ? r * BITS_ROWS + n : n * BITS_ROWS + r] = c[i];
    }
}

/* out [token][row] = a . b, 16 rows of a by 8 of b. */
DEVICE void by_mma(const bf16 *a, const bf16 *b, int k, int row, int column, bool backward, float *c, int lane) {
    int steps = k / 16;
    c[0] = c[1] = c[2] = c[3] = 0.0f;
    for (int i = 0; i < steps; i++) {
        int s = backward ? steps - 1 - i : i, at = s * 16 + 2 * (lane & 3), g = column + (lane >> 2);
        mma(c, tile_at(a, k, row, s, lane), pair_at(b, k, g, at), pair_at(b, k, g, at + 8));
    }
}

/* Start, rows of 128 bytes in groups of 8, 128-byte swizzle. */
DEVICE u64 matrix(u32 address) {
    return (u64)((address & 0x3ffffu) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
DEVICE void wgmma_8(float *c, uint4 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}
#define SUMS_32                                                                                                        \
    "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),        \
        "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
DEVICE void wgmma_32(float *c, uint4 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
                 : SUMS_32
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}
DEVICE void wgmma_32_shared(float *c, u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
                 : SUMS_32
                 : "l"(a), "l"(b));
}
DEVICE void begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void end(void) {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* The sums of the three ways by wgmma: four groups of 8 tokens each. */
struct sums {
    float eight[4][4], wide[16], both[16];
};
DEVICE void step_of(sums &c, uint4 a, u64 weights, u64 tokens) {
    begin();
    wgmma_32(c.wide, a, tokens);
    end();
    begin();
    wgmma_32_shared(c.both, weights, tokens);
    end();
#pragma unroll
    for (int t = 0; t < 4; t++) {
        begin();
        wgmma_8(c.eight[t], a, tokens + (u64)(t * 8 * LINE >> 4));
        end();
    }
}

extern "C" __global__ void __launch_bounds__(128) bits(const __grid_constant__ bits_args a) {
    __shared__ __align__(1024) unsigned char weights[BITS_ROWS * LINE], tokens[BITS_TOKENS * LINE];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31, row = warp * 16, k = a.k;
    const bf16 *w = a.w + (size_t)blockIdx.x * BITS_ROWS * k, *x = a.x + (size_t)blockIdx.x * BITS_TOKENS * k;
    const int size = BITS_TOKENS * BITS_ROWS;
    float *out = a.out + (size_t)blockIdx.x * BITS_WAYS * size, c[4];
    for (int t = 0; t < BITS_TOKENS; t += 8) {
        by_mma(w, x, k, row, t, false, c, lane);
        store(out + BITS_MMA * size, c, row, t, false, lane);
        by_mma(w, x, k, row, t, true, c, lane);
        store(out + BITS_BACKWARD * size, c, row, t, false, lane);
    }
    for (int t = 0; t < BITS_TOKENS; t += 16)
        for (int r = row; r < row + 16; r += 8) {
            by_mma(x, w, k, t, r, false, c, lane);
            store(out + BITS_SWAPPED * size, c, t, r, true, lane);
        }
    sums s = {};
    for (int k0 = 0; k0 < k; k0 += WIDE) {
        __syncthreads();
        copy_chunk(weights, w, BITS_ROWS, k, k0);
        copy_chunk(tokens, x, BITS_TOKENS, k, k0);
        fence_async();
        __syncthreads();
        for (int i = 0; i < 4 && k0 + i * 16 < k; i++)
            step_of(s, tile_at(w, k, row, k0 / 16 + i, lane), matrix(shared_address(weights)) + (u64)(2 * i),
                    matrix(shared_address(tokens)) + (u64)(2 * i));
    }
    for (int t = 0; t < 4; t++) {
        store(out + BITS_WGMMA_8 * size, s.eight[t], row, t * 8, false, lane);
        store(out + BITS_WGMMA_32 * size, s.wide + 4 * t, row, t * 8, false, lane);
        store(out + BITS_SHARED * size, s.both + 4 * t, row, t * 8, false, lane);
    }
    for (int i = (int)threadIdx.x; i < size; i += 128) {
        float sum = 0.0f;
        for (int j = 0; j < k; j++)
            sum = __fmaf_rn(from_bf16(w[(size_t)(i % BITS_ROWS) * k + j]), from_bf16(x[(size_t)(i / BITS_ROWS) * k + j]), sum);
        out[BITS_FMA * size + i] = sum;
    }
}
