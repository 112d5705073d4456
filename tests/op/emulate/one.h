/* one.h: one.cu as it is compiled for cases of tests/op/one.c, and what packs their weights. */
#ifndef TESTS_OP_EMULATE_ONE_H
#define TESTS_OP_EMULATE_ONE_H
#ifdef __cplusplus
extern "C" {
#endif

typedef struct one_case {
    const char *name;
    int d, f, e, k, act;
    int sms, smem, ahead; /* what the plan is made for: multiprocessors, bytes of shared memory; gpu.ahead */
    int stages, flying, warps, downs; /* what the plan should give; the last two as the text has them */
    void (*text)(const void *args);   /* one thread of one.cu */
} one_case;
extern const one_case *const one_cases[]; /* ends with NULL */

/* pack.cu, all of its threads. */
void one_pack(void *to, const void *from, const void *up, int type, int order, int rows, int in, int tiles, int steps);

#ifdef __cplusplus
}
#endif
#endif
