/* router.cuh: the arguments of the router kernel, for device text and for the host that fills them in. */
typedef struct router_args {
    int n, cap;            /* tokens now; places of an expert's list */
    const int *valid;      /* how many of this and earlier launches' tokens are: the others have empty slots; NULL: all */
    int before;            /* tokens of earlier launches */
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
    int *told[2];          /* [n * k] ids where the experts look for them before this launch ends; NULL: in lists */
    const void *soon;      /* what the next launch reads first, most likely: into the L2 cache while memory is idle */
    int soon_kb;           /* a multiple of 16; 0: nothing */
    const int *state;      /* with told: which of the two, in the lowest bit */
    float *logits;         /* [n][e] or NULL */
} router_args;

/* Blocks of a cluster, each with an eighth of the inputs. */
#define ROUTER_CLUSTER 8

/* Bytes of dynamic shared memory of a block that takes 8 tokens; cluster: in clusters of 8, each block with an eighth. */
#define ROUTER_QUADS(d)         (((d) + 31) / 32)
#define ROUTER_EACH(d)          ((ROUTER_QUADS(d) + 7) / 8)
#define ROUTER_PITCH(quads)     ((quads) * 64 + ((quads) % 2 ? 0 : 64))
#define ROUTER_SUMS(experts)    (((experts) + 15) / 16 * 64)
#define ROUTER_SHARED(d, experts, cluster) \
    (16 + 64 * (experts) + 8 * ((cluster) ? ROUTER_PITCH(ROUTER_EACH(d)) + ROUTER_SUMS(experts) : ROUTER_PITCH(ROUTER_QUADS(d)) + 8 * ROUTER_SUMS(experts)))

/* router_many.cu: chunks of 64 inputs in an eighth, parts of 8 row tiles of the experts, weights of both, sums of a token. The
 * rings have x_stages chunks (all of an eighth, at least) and w_stages weights, and `sides` groups' sums. */
#define ROUTER_MANY_THREADS 640
#define ROUTER_CHUNKS(d)    ((ROUTER_EACH(d) + 1) / 2)
#define ROUTER_PARTS(e)     (((e) + 127) / 128)
#define ROUTER_UNIT(e)      ((e) > 112 ? 16384 : ((e) + 15) / 16 * 2048)
#define ROUTER_MANY_SHARED(tokens, e, k, x_stages, w_stages, sides) \
    ((x_stages) * ((tokens) * 128 + 16) + (w_stages) * (ROUTER_UNIT(e) + 8) + (sides) * ((tokens) * ROUTER_SUMS(e) + 16) + (e) * 8 + 128 * (k) + 32)
