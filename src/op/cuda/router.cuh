/* router.cuh: the arguments of the router kernel, for device text and for the host that fills them in. */
typedef struct router_args {
    int n, cap;            /* tokens now; places of an expert's list */
    const void *x;         /* [n][ldx], bf16 or (X_F32) fp32; rows on 16 bytes */
    long long ldx, ldq;    /* elements */
    const void *w;         /* packed tiles of the gate, rows are experts */
    const float *bias;     /* [e] or NULL */
    unsigned short *xq;    /* [n][ldq] bf16 in lane order, or NULL */
    unsigned short *xb;    /* [n][ldq] bf16 as it is, or NULL */
    int sigmoid, renormalize, groups, topk_groups;
    float scale;
    const int *forced;     /* [n * k] ids instead of those chosen, or NULL: for measuring a given routing */
    int *counts;           /* [e], zero at first */
    int *list;             /* [e][cap] */
    int *ids;              /* [n * k] */
    float *weights;        /* [n * k] */
    float *logits;         /* [n][e] or NULL */
} router_args;

/* Bytes of dynamic shared memory of a block that takes `tokens` tokens. */
#define ROUTER_EACH(d) ((((d) + 31) / 32 + 7) / 8)
#define ROUTER_SHARED(tokens, d, experts) \
    ((tokens) * (ROUTER_EACH(d) * 64 + (ROUTER_EACH(d) % 2 ? 0 : 64) + (((experts) + 31) / 32 * 32 + 4) * 4) + 64 * (experts))
