/* emulate.h: one launch of a device text on this thread: every CUDA thread is a fiber, and lanes, warps and blocks take
 * turns in an order drawn from a seed. For a text (cuda.h, instructions.cuh) and for the test that launches it.
 *
 *     emulate() --> warp, warp, the launch before, warp ...   again and again, until all threads have ended
 *                    '--> lane, lane, lane ...                 each until it waits
 *
 * One block, or the launch before, is late: it has its turn when all others wait.
 *
 * Warps are lanes that meet: whoever calls a collective waits until the other 31 have. What no order of turns can end,
 * a collective that lanes do not share, and accesses outside shared memory are faults, with a line.
 *
 * Copies to shared memory are as late as they may be: their bytes are all ones from the moment they are asked for, and
 * come when the thread waits for their group. So what is read too early, and what is asked for over bytes still in use,
 * is found.
 *
 * Not here: orders of memory. What one thread writes all others see at once. */
#ifndef TESTS_OP_EMULATE_H
#define TESTS_OP_EMULATE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for the test ---- */

typedef struct emulate_launch {
    void (*text)(const void *args); /* what a thread does */
    const void *args;
    void (*before)(void *before_args); /* the launch before this one, not yet at its end, as one more thread */
    void *before_args;
    int blocks, threads, shared; /* threads of a block: whole warps; shared: bytes */
    uint64_t seed;
    int at_once; /* copies come when they are asked for */
} emulate_launch;
/* NULL, or what went wrong; good until the next call. */
const char *emulate(const emulate_launch *launch);

/* ---- for the text ---- */

typedef struct emulate_dim {
    unsigned x, y, z;
} emulate_dim;
extern emulate_dim threadIdx, blockIdx, blockDim, gridDim; /* of the thread whose turn it is */
extern unsigned char *emulate_memory[1];                   /* its block's shared memory */

/* The others' turn. why: what the thread waits for, for a fault's line. */
void emulate_wait(const char *why);
/* Others may go on now: not all wait for each other. */
void emulate_told(void);
/* The lanes of a warp hand an item to each other. Returns all 32, lane i's at i * EMULATE_ITEM, kept until a lane calls
 * again. what: the same in all lanes. */
enum { EMULATE_ITEM = 32 };
const unsigned char *emulate_meet(const char *what, const void *item, size_t bytes);
/* Barriers of a block: 16, by `threads` threads each time. */
void emulate_arrive(int id, int threads);
void emulate_sync(int id, int threads);
void emulate_wait_before(void);
/* 16 bytes of shared memory. */
unsigned char *emulate_shared(uint32_t address);
void emulate_copy16(uint32_t to, const void *from);
void emulate_copies_end(void);
void emulate_copies_wait(int left);

#ifdef __cplusplus
}
#endif
#endif
