/* count.cuh: the arguments of the kernels of count.cu, for device text and for the host that fills them in. Pointers are
 * the GPU's; op/count.h says what they mean. */
typedef struct count_args {
    const long long *ids; /* [capacity][k] */
    const int *valid;
    long long capacity, start;
    int k, local;
    int extra; /* pairs past the limit: 0 */
    int *counts;
    int *never; /* takes what the compiler must believe is used */
} count_args;
/* Local experts that a histogram in a block's shared memory has room for. */
#define COUNT_PRIVATE_MOST 12288
