/* pack.cu: row-major weights to packed tiles (common.cuh), 16 bytes a thread. */
#include "common.cuh"

/* Which output is row r of a row tile: NATURAL for the router; UP and UP_GATED so that what a lane makes is stored in lane
 * order; DOWN so that a lane has two neighbours. */
enum { PACK_NATURAL, PACK_UP_GATED, PACK_UP, PACK_DOWN };

DEVICE u32 load_bits(const void *p, int type, size_t i) {
    if (type == 0) return to_bf16(((const float *)p)[i]);
    u32 v = ((const u16 *)p)[i];
    if (type == 1) return v;
    u32 sign = (v & 0x8000u) << 16, exponent = (v >> 10) & 31u, mantissa = v & 1023u;
    float f = exponent == 31   ? __uint_as_float(0x7f800000u | mantissa << 13)
              : exponent == 0 ? (float)mantissa * 0x1p-24f
                              : __uint_as_float((exponent + 112) << 23 | mantissa << 13);
    return to_bf16(__uint_as_float(__float_as_uint(f) | sign));
}

/* rows: outputs of one source matrix; steps: of 16 inputs. type: 0 f32, 1 bf16, 2 f16. */
extern "C" __global__ void pack(uint4 *to, const void *from, const void *up, int type, int order, int rows, int in, int tiles, int steps) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)tiles * steps * 32) return;
    int lane = (int)(i & 31), g = lane >> 2, q = lane & 3, chunk = (int)(i / 32 / (4 * tiles)), wide = min(4, steps - 4 * chunk);
    int rest = (int)(i / 32 - (size_t)chunk * 4 * tiles), tile = rest / wide, step = 4 * chunk + rest % wide;
    u32 v[4];
    for (int j = 0; j < 4; j++) {
        int r = g + (j & 1) * 8, k = step * 16 + 2 * q + (j >> 1) * 8, half = r >> 3, row;
        const void *source = order == PACK_UP_GATED && half ? up : from;
        if (order == PACK_NATURAL)
            row = tile * 16 + r;
        else if (order == PACK_UP_GATED)
            row = lane_order(tile * 8 + (r & 7));
        else {
            row = tile * 16 + 2 * (r & 7) + half;
            if (order == PACK_UP) row = lane_order(row);
        }
        u32 lo = row < rows && k < in ? load_bits(source, type, (size_t)row * in + k) : 0;
        u32 hi = row < rows && k + 1 < in ? load_bits(source, type, (size_t)row * in + k + 1) : 0;
        v[j] = lo | hi << 16;
    }
    to[i] = make_uint4(v[0], v[1], v[2], v[3]);
}
