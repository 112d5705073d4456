/* claims.h: a report as its checker sees it. Private to claims*.c.
 *
 *   text -> claims_scan -> tokens:    TPOT   11.635   ->    9.563 ms   (    -17.80 %   )   .
 *                          parts:     '--------- one sentence, list item or cell ---------'
 *                          tables:    rows x columns of parts, the first row is the header
 *        -> rules       -> claims:    line 3, "change", stated -17.80, recomputed -17.81
 *
 * A rule looks for words or columns that state how figures hang together, and settles the figure that the others
 * determine. Figures stand for the interval of all numbers that are printed like them; a claim is fine when the
 * interval of what is recomputed meets its own. */
#ifndef LAB_CLAIMS_H
#define LAB_CLAIMS_H
#include "lab.h"

typedef enum claims_kind {
    CLAIMS_WORD,
    CLAIMS_FIGURE,
    CLAIMS_ARROW,
    CLAIMS_TIMES,
    CLAIMS_SLASH,
    CLAIMS_PLUS,
    CLAIMS_MINUS,
    CLAIMS_EQUALS,
    CLAIMS_GREATER,
    CLAIMS_LESS,
    CLAIMS_SPREAD, /* plus or minus */
    CLAIMS_OPEN,   /* ( or [ */
    CLAIMS_CLOSE,
    CLAIMS_LIST, /* { */
    CLAIMS_LIST_END,
    CLAIMS_COMMA,
    CLAIMS_COLON,
    CLAIMS_STOP, /* end of a sentence, or ; */
    CLAIMS_DASH
} claims_kind;

/* Times in seconds, sizes in bytes. `measured`: a whole number in it is rounded; else it is counted. */
typedef enum claims_shape {
    CLAIMS_PLAIN,
    CLAIMS_PERCENT,
    CLAIMS_FOLD, /* 3.8x */
    CLAIMS_TIME,
    CLAIMS_RATE, /* tokens, bytes, operations in a second: higher is better */
    CLAIMS_SIZE,
    CLAIMS_OTHER
} claims_shape;
typedef struct claims_unit {
    const char *name;
    claims_shape shape;
    int seconds, bytes; /* exponents */
    double scale;
    bool measured;
} claims_unit;
extern const claims_unit claims_units[];
/* The unit that text begins with, its length to *len; 0: none. `glued`: it follows the number without a space. */
int claims_unit_at(const char *text, size_t len, bool glued, size_t *length);

typedef struct claims_token {
    claims_kind kind;
    int line;
    uint32_t at, len; /* in the text */
    int unit;         /* of a figure: index into claims_units, 0 none */
    int decimals;     /* digits behind the point; below 0: zeros before it that are not known */
    double value;     /* of a figure, or of a word that counts ("five"); NaN else */
    double high;      /* of a range "3-4", else NaN */
    bool is_signed;   /* + or - is written */
    bool about;       /* ~, about */
    int bound;        /* 1: at most, up to; -1: at least, more than */
    bool named;       /* the value of a setting: k=8 */
    int claim;        /* 1 + index of the claim that settles it; 0: none */
} claims_token;

typedef struct claims_span {
    double lo, hi;
} claims_span;

typedef enum claims_place { CLAIMS_PROSE, CLAIMS_ITEM, CLAIMS_CELL } claims_place;
typedef struct claims_part {
    claims_place place;
    int first, end; /* tokens */
    int block;      /* paragraphs and list items count up */
    int table;      /* of a cell; else -1 */
} claims_part;

typedef struct claims_cell {
    uint32_t at, len; /* trimmed text */
    int part;         /* -1: the row has no such cell */
} claims_cell;
typedef struct claims_table {
    int line, block, rows, columns; /* row 0 is the header */
    int cell;                       /* the first, in claims_doc.cells; rows follow each other */
} claims_table;

typedef struct claims_doc {
    const char *text;
    size_t len;
    claims_token *tokens;
    claims_part *parts;
    claims_cell *cells;
    claims_table *tables;
    lab_claim *claims;
    int token_count, part_count, cell_count, table_count, claim_count, block;
    size_t token_cap, part_cap, cell_cap, table_cap, claim_cap;
    const lab_samples *samples;
    int64_t budget; /* rows that searches by name may still look at */
    double p;       /* of the samples' two arms */
    bool p_asked, p_exact;
    bool failed; /* out of memory */
} claims_doc;

/* Grows an array of `size`-byte items to hold one more than count; false: out of memory, doc->failed set. */
bool claims_grow(claims_doc *d, void **items, int count, size_t *cap, size_t size);
enum { CLAIMS_TOKENS_MOST = 1 << 20 };
/* ---- claims_scan.c, claims_lay.c: text to tokens, parts and tables ---- */
/* Appends the tokens of text[at .. end), which lies in line `line`. */
void claims_scan(claims_doc *d, size_t at, size_t end, int line);
/* The whole text. Errors: FORMAT (too many words), NOMEM. */
cadre_err claims_lay(claims_doc *d, cadre_fail *why);
bool claims_is_table_line(const char *text, size_t len, char *mark);
/* Lays lines first .. first + count - 1 (offsets into the text; starts[first + count] is the end) as a table. */
void claims_lay_table(claims_doc *d, const size_t *starts, int first, int count, char mark);
void claims_part_add(claims_doc *d, claims_place place, int first, int table);

/* ---- claims_span.c: what figures stand for ---- */
claims_span claims_span_of(const claims_token *t); /* in its unit */
claims_span claims_base_of(const claims_token *t); /* in seconds, bytes, ...; percents as they are */
double claims_scale_of(const claims_token *t);
claims_shape claims_shape_of(const claims_token *t);
bool claims_same_shape(const claims_token *a, const claims_token *b);
bool claims_exact(const claims_token *t); /* counted, not measured */
claims_span claims_add(claims_span a, claims_span b);
claims_span claims_sub(claims_span a, claims_span b);
claims_span claims_mul(claims_span a, claims_span b);
claims_span claims_div(claims_span a, claims_span b); /* NaNs where b may be 0 */
claims_span claims_scaled(claims_span a, double by);
claims_span claims_change(claims_span from, claims_span to); /* percent */
claims_span claims_abs(claims_span a);
claims_span claims_whole(double v);
double claims_mid(claims_span a);
bool claims_known(claims_span a);
bool claims_meet(claims_span a, claims_span b);

/* ---- claims_word.c: reading tokens ---- */
/* Token i is one of the words "a|b|c", in any case; "fast*" takes every ending. False out of range. */
bool claims_word(const claims_doc *d, int i, const char *words);
/* One of them stands in [first, end), at most `far` tokens wide; its index, else -1. */
int claims_find(const claims_doc *d, int first, int end, const char *words);
bool claims_figure(const claims_doc *d, int i);                  /* a figure that is no setting */
int claims_next_figure(const claims_doc *d, int first, int end); /* -1: none */
int claims_last_figure(const claims_doc *d, int first, int end); /* the last in [first, end) */
double claims_count_at(const claims_doc *d, int i);              /* whole number or number word; NaN else */
claims_kind claims_kind_at(const claims_doc *d, int i);          /* CLAIMS_STOP out of range */
/* Does text[at..] (a cell) hold one of the words "a|b" (as claims_word)? */
bool claims_text_has(const char *text, size_t len, const char *words);
const claims_cell *claims_cell_at(const claims_doc *d, const claims_table *t, int row, int column);
/* The only figure of a cell (a spread behind it, "12.3 +- 0.4", is none of its own); -1: none or several. `first`: the
 * first of several will do. */
int claims_cell_figure(const claims_doc *d, const claims_table *t, int row, int column, bool first);
bool claims_header_has(const claims_doc *d, const claims_table *t, int column, const char *words);
/* The row of the table whose label is this word; -1: none. */
int claims_row_named(claims_doc *d, const claims_table *t, const char *name, size_t len);

/* ---- claims.c: settling ---- */
/* Token `figure` is determined: `recomputed` in its unit. Fine when they meet. A figure that one rule finds fine stays
 * so. Returns whether they meet; nothing is recorded when recomputed is not known. */
bool claims_settle(claims_doc *d, int figure, const char *rule, claims_span recomputed, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Any of several readings will do; the first is told when none does. */
bool claims_settle_any(claims_doc *d, int figure, const char *rule, const claims_span *readings, int count,
                       const char *format, ...) __attribute__((format(printf, 6, 7)));
/* The claim of this figure, which is fine, deserves to be read. */
void claims_mark(claims_doc *d, int figure);
/* What no reading can mend, or what only deserves to be read (`note`): figure may be a word. */
void claims_tell(claims_doc *d, int figure, const char *rule, bool note, double recomputed, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- the rules ---- */
void claims_header_units(claims_doc *d); /* claims_table.c: cells take the unit of their header; comes first */
void claims_prose_rules(claims_doc *d);  /* claims_prose.c: changes, ratios, differences of pairs */
void claims_sum_rules(claims_doc *d);    /* claims_equation.c: a + b = c, a x b cases */
void claims_count_rules(claims_doc *d);  /* claims_count.c: N/N, lists, calls and savings */
void claims_list_rules(claims_doc *d);   /* claims_list.c: values that a sentence lists, and their mean */
void claims_table_rules(claims_doc *d);  /* claims_table.c: means, sds, totals, deltas, ratios, shares */
void claims_arm_rules(claims_doc *d);    /* claims_arm.c: A -> B, min(ON), sd of an arm */
void claims_link_rules(claims_doc *d);   /* claims_link.c: figures of several sentences */
void claims_serve_rules(claims_doc *d);  /* claims_serve.c: what holds for serving: tokens, acceptance, mixed arms */
void claims_stack_rules(claims_doc *d);  /* claims_stack.c: what single changes predict for all of them */
void claims_sample_rules(claims_doc *d); /* claims_sample.c: figures of arms against raw samples */
#endif
