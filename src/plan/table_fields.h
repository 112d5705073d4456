/* table_fields.h: the fields of a row, in the order they are written. Reader, writer and comparison follow from the
 * list; knobs come from op/knobs.h. Private to the table files. */
#ifndef CADRE_PLAN_TABLE_FIELDS_H
#define CADRE_PLAN_TABLE_FIELDS_H
#include "plan/table.h"

typedef enum field_kind {
    FIELD_OP,    /* family by name; always the first */
    FIELD_WORD,  /* text without blanks */
    FIELD_TEXT,  /* any text, in quotes when it has blanks */
    FIELD_DTYPE, /* by name */
    FIELD_INT,   /* low..high */
    FIELD_FLAG,  /* 0 or 1 */
    FIELD_RANGE, /* n_lo..n_hi */
    FIELD_KNOBS, /* rows=4 panels=2 ..., as the family lists them; prefix: "" or "default." */
    FIELD_FIXED, /* decimals after the point */
} field_kind;

typedef struct native_field {
    const char *name; /* FIELD_KNOBS: the prefix */
    field_kind kind;
    size_t at;
    long low, high; /* INT: the range. FIXED: low is the number of decimals. WORD and TEXT: high is the room */
    bool key;       /* part of what a row is looked up by */
} native_field;

/* X(name, kind, member, low, high, part of the key?) */
#define NATIVE_FIELDS(X)                                       \
    X("op", OP, family, 0, 0, true)                            \
    X("kernel", WORD, kernel, 0, NATIVE_WORD_MAX, true)        \
    X("code", WORD, code, 0, NATIVE_CODE_MAX, true)            \
    X("dtype", DTYPE, dtype, 0, 0, true)                       \
    X("d", INT, d, 0, 1 << 24, true)                           \
    X("f", INT, f, 0, 1 << 24, true)                           \
    X("e", INT, e, 0, 1 << 20, true)                           \
    X("k", INT, k, 0, 1 << 20, true)                           \
    X("act", WORD, act, 0, NATIVE_WORD_MAX, true)              \
    X("gated", FLAG, gated, 0, 1, true)                        \
    X("threads", INT, threads, 1, 1 << 16, true)               \
    X("n", RANGE, n_lo, 1, INT32_MAX, false)                   \
    X("", KNOBS, knobs, 0, 0, false)                           \
    X("default.", KNOBS, beaten, 0, 0, false)                  \
    X("at", INT, at, 1, INT32_MAX, false)                      \
    X("us", FIXED, us, 3, 0, false)                            \
    X("default_us", FIXED, default_us, 3, 0, false)            \
    X("ratio", FIXED, ratio, 4, 0, false)                      \
    X("ratio_lo", FIXED, ratio_lo, 4, 0, false)                \
    X("ratio_hi", FIXED, ratio_hi, 4, 0, false)                \
    X("runs", INT, runs, 0, 1 << 20, false)                    \
    X("routing", TEXT, routing, 0, NATIVE_TEXT_MAX, false)     \
    X("device", TEXT, device, 0, NATIVE_TEXT_MAX, false)       \
    X("driver", TEXT, driver, 0, NATIVE_TEXT_MAX, false)       \
    X("toolchain", TEXT, toolchain, 0, NATIVE_TEXT_MAX, false) \
    X("date", WORD, date, 0, NATIVE_WORD_MAX, false)           \
    X("run", WORD, run, 0, NATIVE_WORD_MAX, false)

enum { NATIVE_FIELD_COUNT = 27 };
extern const native_field native_fields[NATIVE_FIELD_COUNT];

/* As native_parse without `note`; *line: of the first fault (0: the name's or the whole file's). */
cadre_err native_parse_line(const char *path, const char *text, size_t len, native_table **out, int *line,
                            cadre_fail *why);
/* The evidence as a sentence, from the figures. */
void native_sentence(native_row *row);
/* NULL, or what is wrong with a key's letters. */
const char *native_key_fault(const native_row *row);
/* NULL, or what is wrong with the figures; *zero: they are missing rather than contradictory. */
const char *native_figures_fault(const native_row *row, bool *zero);
#endif
