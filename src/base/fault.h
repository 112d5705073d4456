/* fault.h: faults planted on purpose (switch plant), so that a test can show that it would find them.
 * Each sits at one place in the code and is off unless asked for. */
#ifndef CADRE_BASE_FAULT_H
#define CADRE_BASE_FAULT_H
#include <stdbool.h>

typedef enum fault {
    FAULT_NONE,
    FAULT_ORDER,     /* 1: a kernel with more than one row per tile adds each pair in the other order */
    FAULT_TAIL,      /* 2: the last row of a tile that is not full repeats its neighbour's input */
    FAULT_NEIGHBOUR, /* 3: a sequence's attention reads the keys of the sequence beside it */
    FAULT_CHUNK,     /* 4: the first row of a prefill chunk sees one key too few */
    FAULT_SPLIT,     /* 5: a member's static share of the work starts one unit late */
    FAULT_NORM,      /* 6: norms skip their weight */
    FAULT_ROPE,      /* 7: rotary pairs are neighbours instead of halves */
    FAULT_RENORM,    /* 8: routing weights are renormalised when they should not be, and the reverse */
    FAULT_TIE,       /* 9: router ties go to the higher id */
    FAULT_COUNT
} fault;

bool fault_planted(fault f); /* f is the one planted by switch plant */
#endif
