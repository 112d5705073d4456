/* lists.cuh: the arguments of the kernels of lists.cu, for device text and for the host that fills them in. */
typedef struct lists_args {
    int n, d, e, k;        /* tokens now; widths */
    int cap;               /* places of an expert's list */
    const int *valid;      /* as router_args' */
    int before;
    int x_f32;             /* x is fp32, else bf16 */
    const void *x;         /* [n][ldx] */
    long long ldx, ldq;    /* elements */
    unsigned short *xq;    /* [n][ldq] bf16 in lane order, or NULL */
    unsigned short *xb;    /* [n][ldq] bf16 as it is, or NULL */
    const int *given;      /* [n * k] the caller's ids; those outside 0 .. e - 1 are empty slots */
    const float *gate;     /* single: [d] of the sigmoid that weighs the expert, NULL: 1 */
    int *counts;           /* [e], zero at first */
    int *list;             /* [e][cap] */
    int *ids;              /* [n * k] */
    float *weights;        /* single: [n] */
    int *told[2];          /* as router_args' */
    const int *state;
} lists_args;
