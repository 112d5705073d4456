/* exp.h: the constants of the fp32 exp that every kernel computes to the same bits (docs/numerics.md).
 * x = n ln2 + r, |r| <= ln2/2; exp(r) by a polynomial of degree 6 through Chebyshev nodes. ln2_hi has 16 significant
 * bits, so n * ln2_hi is exact for |n| <= 128. Largest error over every float in -87..88: 0.966 ulp, near x = -27.38
 * (tests/op/meaning.c walks every 61st). Not strictly monotone: 2925 of 620 million neighbours fall, by one ulp. */
#ifndef CADRE_OP_EXP_H
#define CADRE_OP_EXP_H

#define EXP_LOW    -87.0f /* at or below: 0 */
#define EXP_HIGH   88.0f  /* above: as this */
#define EXP_LOG2E  0x1.715476p+0f
#define EXP_MAGIC  0x1.8p+23f /* adding it rounds to the nearest whole number */
#define EXP_LN2_HI 0x1.62e4p-1f
#define EXP_LN2_LO 0x1.7f7d1cp-20f
#define EXP_C0     1.0f
#define EXP_C1     1.0f
#define EXP_C2     0.5f
#define EXP_C3     0x1.5554dcp-3f
#define EXP_C4     0x1.55551ap-5f
#define EXP_C5     0x1.120ba2p-7f
#define EXP_C6     0x1.6d113cp-10f
#endif
