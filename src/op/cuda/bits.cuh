/* bits.cuh: the arguments of the kernel of bits.cu, for device text and for the host that fills them in. */
enum { BITS_ROWS = 64, BITS_TOKENS = 32 };
/* The ways of one product. Those before BITS_BACKWARD must agree in every bit. */
enum { BITS_MMA, BITS_SWAPPED, BITS_WGMMA_8, BITS_WGMMA_32, BITS_SHARED, BITS_BACKWARD, BITS_FMA, BITS_WAYS };
typedef struct bits_args {
    const unsigned short *w; /* [problems][BITS_ROWS][k] bf16 */
    const unsigned short *x; /* [problems][BITS_TOKENS][k] */
    float *out;              /* [problems][BITS_WAYS][BITS_TOKENS][BITS_ROWS] */
    int k;                   /* a multiple of 16 */
} bits_args;
