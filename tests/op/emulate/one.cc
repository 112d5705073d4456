/* one.cc: the text of one.cu, compiled for a CPU once for each case. tests/op/one.c runs them, and holds SHARE against the plan.
 *
 * Shapes are small, and so is shared memory where a ring has to wrap: it wraps while the down product is multiplied where it has
 * fewer chunks than f. */
#include "cuda.h"
#include "one.h"

#define ITEM_0_(a, ...)                a
#define ITEM_1_(a, b, ...)             b
#define ITEM_2_(a, b, c, ...)          c
#define ITEM_3_(a, b, c, d, ...)       d
#define ITEM_4_(a, b, c, d, e, ...)    e
#define ITEM_5_(a, b, c, d, e, f, ...) f
#define ITEM_(n, ...)                  ITEM_##n##_(__VA_ARGS__, )
#define ITEM(n, ...)                   ITEM_(n, __VA_ARGS__)
#define JOIN_(a, b)                    a##b
#define JOIN(a, b)                     JOIN_(a, b)
#define NAME_(word)                    #word
#define NAME(word)                     NAME_(word)

#define D_MODEL  ITEM(0, SHAPE)
#define F_EXPERT ITEM(1, SHAPE)
#define EXPERTS  ITEM(2, SHAPE)
#define CHOSEN   ITEM(3, SHAPE)
#define ACT      ITEM(4, SHAPE)
#define BLOCKS   ITEM(0, PLAN)
#define STAGES   ITEM(0, SHARE)
#define FLYING   ITEM(1, SHARE)

/* SHAPE: d, f, e, k, act. PLAN: sms, smem, ahead. SHARE: stages, flying. */

/* f fills no chunk */
#define CASE  narrow
#define SHAPE 128, 40, 5, 2, 0
#define PLAN  8, 232448, 48
#define SHARE 8, 8
#include "one_case.h"

/* some warps have a row tile of both products, some of one */
#define CASE  wide
#define SHAPE 256, 64, 9, 5, 0
#define PLAN  16, 232448, 48
#define SHARE 8, 8
#include "one_case.h"

/* the same on fewer multiprocessors: two row tiles of the down product of every slot */
#define CASE  wide_few
#define SHAPE 256, 64, 9, 5, 0
#define PLAN  8, 232448, 20
#define SHARE 8, 2
#include "one_case.h"

/* rings wrap, and eight of ten warps have the up product alone */
#define CASE  deep
#define SHAPE 128, 640, 4, 2, 2
#define PLAN  8, 147000, 48
#define SHARE 6, 2
#include "one_case.h"

/* a chunk on its way at a time */
#define CASE  deep_few
#define SHAPE 128, 640, 4, 2, 2
#define PLAN  5, 232448, 1
#define SHARE 6, 1
#include "one_case.h"

/* the whole ring on its way; it does not wrap */
#define CASE  deep_whole
#define SHAPE 128, 640, 4, 2, 2
#define PLAN  8, 232448, 256
#define SHARE 10, 10
#include "one_case.h"

/* the whole ring on its way, and it wraps; two blocks without the down product */
#define CASE  deep_full
#define SHAPE 128, 640, 4, 2, 2
#define PLAN  10, 120000, 256
#define SHARE 6, 6
#include "one_case.h"

/* two kinds of blocks, and the ring of the first alone wraps */
#define CASE  kinds
#define SHAPE 320, 384, 5, 4, 2
#define PLAN  16, 107000, 48
#define SHARE 5, 4
#include "one_case.h"

/* the same without */
#define CASE  kinds_whole
#define SHAPE 320, 384, 5, 4, 2
#define PLAN  16, 232448, 48
#define SHARE 8, 4
#include "one_case.h"

/* two kinds, and rings of both wrap */
#define CASE  kinds_deep
#define SHAPE 384, 512, 5, 5, 2
#define PLAN  20, 125000, 48
#define SHARE 5, 3
#include "one_case.h"

/* up to three row tiles of the down product of every slot */
#define CASE  three
#define SHAPE 192, 100, 6, 2, 1
#define PLAN  5, 232448, 48
#define SHARE 8, 3
#include "one_case.h"

/* the same, and rings wrap */
#define CASE  three_deep
#define SHAPE 192, 640, 4, 1, 2
#define PLAN  5, 107000, 48
#define SHARE 5, 3
#include "one_case.h"

/* one slot; every other warp has nothing */
#define CASE  single
#define SHAPE 192, 64, 33, 1, 1
#define PLAN  12, 232448, 48
#define SHARE 8, 8
#include "one_case.h"

/* half the blocks have the up product alone, and rings are as long as the down product */
#define CASE  few
#define SHAPE 64, 320, 6, 3, 2
#define PLAN  8, 110000, 16
#define SHARE 5, 1
#include "one_case.h"

extern "C" const one_case *const one_cases[] = {
    &narrow::about, &wide::about, &wide_few::about, &deep::about, &deep_few::about, &deep_whole::about,
    &deep_full::about, &kinds::about, &kinds_whole::about, &kinds_deep::about, &three::about, &three_deep::about,
    &single::about, &few::about, nullptr};

#define pack one_pack_thread
namespace packing {
#include "op/cuda/pack.cu"
}

void one_pack(void *to, const void *from, const void *up, int type, int order, int rows, int in, int tiles, int steps) {
    blockDim = {1, 1, 1}, threadIdx = {0, 0, 0};
    for (blockIdx.x = 0; blockIdx.x < (unsigned)(tiles * steps * 32); blockIdx.x++)
        packing::one_pack_thread((uint4 *)to, from, up, type, order, rows, in, tiles, steps);
}
