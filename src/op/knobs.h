/* knobs.h: per kernel family one list of settings that change speed and never bits: X(name, default, low, high, what).
 * Legal values are low, then doubling up to high. From a line follow the struct, the range check, the switch
 * `family.name`, the columns of a table row and the points a test or a tuner tries. */
#ifndef CADRE_OP_KNOBS_H
#define CADRE_OP_KNOBS_H

#define CADRE_DENSE_KNOBS(X)                                     \
    X(rows, 4, 1, 8, "tokens per register tile")                 \
    X(panels, 2, 1, 4, "panels of 16 outputs per register tile") \
    X(grain, 4, 1, 64, "panels a member takes at a time")
#define CADRE_EXPERTS_KNOBS(X)                                                            \
    X(rows, 4, 1, 8, "rows of an expert per register tile")                               \
    X(panels, 2, 1, 4, "panels of 16 outputs per register tile")                          \
    X(chunk, 4, 1, 64, "panels of one expert a member takes at a time in the up product") \
    X(columns, 2, 1, 8, "panels of outputs a member takes at a time in the down product")
#define CADRE_NORM_KNOBS(X)                         \
    X(rows, 1, 1, 4, "rows worked on side by side") \
    X(grain, 1, 1, 16, "rows a member takes at a time")
#define CADRE_ATTN_KNOBS(X)                                            \
    X(heads, 4, 1, 8, "query heads that share one pass over the keys") \
    X(keys, 4, 1, 8, "keys scored side by side")                       \
    X(grain, 1, 1, 4, "(row, kv head) units a member takes at a time")

#define CADRE_FAMILIES(F)                    \
    F(DENSE, dense, CADRE_DENSE_KNOBS)       \
    F(EXPERTS, experts, CADRE_EXPERTS_KNOBS) \
    F(NORM, norm, CADRE_NORM_KNOBS)          \
    F(ATTN, attn, CADRE_ATTN_KNOBS)

#define X(name, def, low, high, what) int name;
#define F(id, family, knobs)        \
    typedef struct family##_knobs { \
        knobs(X)                    \
    } family##_knobs;
CADRE_FAMILIES(F)
#undef F
#undef X

typedef enum op_family {
#define F(id, family, knobs) OP_##id,
    CADRE_FAMILIES(F)
#undef F
        OP_FAMILY_COUNT
} op_family;

enum { OP_KNOBS_MAX = 4 };
typedef union op_knobs {
#define F(id, family, knobs) family##_knobs family;
    CADRE_FAMILIES(F)
#undef F
    int v[OP_KNOBS_MAX]; /* the same settings in list order */
} op_knobs;

typedef struct op_knob_def {
    const char *name;
    int def, low, high;
    const char *what;
} op_knob_def;
typedef struct op_family_def {
    const char *name;
    const op_knob_def *knobs;
    int count;
} op_family_def;
extern const op_family_def op_families[OP_FAMILY_COUNT];

/* Counting local tokens (op/count.h) is no family of the model's step: nothing here does it on its own, since the lists
 * of experts are made with their counts. Values are as low..high says; block and warps are powers of two. */
#define CADRE_COUNT_KNOBS(X)                                                                                  \
    X(block, 128, 64, 1024,                                                                                   \
      "pairs that a block counts where tokens per expert are counted, a power of two; 1024 restores the old") \
    X(warps, 4, 1, 32, "warps of a block of threads that counts, a power of two")                             \
    X(ctas, 0, 0, 65535, "blocks of threads that count; 0: one per multiprocessor, or per thread of the CPU") \
    X(atomics, 1, 0, 2,                                                                                       \
      "how a pair is added: 1 relaxed, 2 with acquire and release; 0 not at all, to see what the rest takes") \
    X(private, 0, 0, 1, "each block of threads sums up in a histogram of its own, and adds that")
enum { COUNT_NONE, COUNT_RELAXED, COUNT_ORDERED }; /* atomics */
typedef struct count_knobs {
#define X(name, def, low, high, what) int name;
    CADRE_COUNT_KNOBS(X)
#undef X
} count_knobs;
#define X(name, def, low, high, what) +1
enum { COUNT_KNOBS = 0 CADRE_COUNT_KNOBS(X) };
#undef X
#endif
