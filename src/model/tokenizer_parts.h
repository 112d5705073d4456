/* tokenizer_parts.h: the pieces that tokenizer_*.c share. Nobody outside those files includes it.
 *
 *   text -> added tokens (raw) -> normalizer -> added tokens (normalized) -> splits -> BPE -> ids -> post-processor
 *   ids  -> text of each id (made at load, the decoder's own rules applied) -> stream
 *
 * Byte-level files write their tokens in an alphabet of printable characters, one per byte. Such tokens are turned into
 * the bytes they mean once, at load; a token with a character outside the alphabet is RAW: kept as written, never made
 * by a merge.
 */
#ifndef CADRE_MODEL_TOKENIZER_PARTS_H
#define CADRE_MODEL_TOKENIZER_PARTS_H
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/model.h"
#include <pcre2.h>

enum {
    TOK_FILE_MAX = 64 << 20,    /* bytes of tokenizer.json; the largest known is 33 MB */
    TOK_ID_MAX = (1 << 22) - 1, /* tables are sized by the highest id */
    TOK_ADDED_LEN_MAX = 1024,   /* bytes of an added token; bounds what a scan costs per position */
    TOK_STEPS_MAX = 32          /* steps of one chain */
};

/* ---- growing arrays ---- */
typedef struct tok_text {
    char *p;
    size_t len, cap;
} tok_text;
bool tok_text_room(tok_text *b, size_t more); /* false: out of memory */
bool tok_text_add(tok_text *b, const char *text, size_t len);
typedef struct tok_piece {
    size_t start, end;
} tok_piece;
typedef struct tok_pieces {
    tok_piece *p;
    size_t n, cap;
} tok_pieces;
bool tok_pieces_add(tok_pieces *l, size_t start, size_t end);
/* Grows an array of `size`-byte things to hold n. */
bool tok_grow(void **p, size_t *cap, size_t n, size_t size);

/* ---- characters ---- */
bool tok_is_space(uint32_t cp); /* White_Space */
bool tok_is_word(uint32_t cp);  /* letters, marks, decimal digits, connectors, joiners */
/* End of the spaces that start at `at`; start of the spaces that end at `at`, not below `low`. */
size_t tok_space_after(const char *text, size_t at, size_t len);
size_t tok_space_before(const char *text, size_t low, size_t at);

/* ---- reading ---- */
cadre_err tok_no_memory(cadre_fail *why);
/* v.type of a step; NULL (with *err set) if it is missing or no text. */
const char *tok_step_type(const json_doc *doc, const json *v, cadre_err *err, cadre_fail *why);
/* Walks a step and, if it is a Sequence, its members (under key `list`), calling add for each that is none. */
typedef cadre_err (*tok_step_add)(void *to, const json_doc *doc, const json *v, const char *type, cadre_fail *why);
cadre_err tok_steps_walk(void *to, const json_doc *doc, const json *v, const char *list, tok_step_add add,
                         cadre_fail *why);

/* ---- the byte alphabet ---- */
uint32_t tok_alphabet_char(unsigned char byte);
int tok_alphabet_byte(uint32_t cp); /* -1: not in the alphabet */
/* text, if all of it is in the alphabet, as bytes at the end of `to` and *in true; else nothing and *in false. */
bool tok_alphabet_read(tok_text *to, const char *text, size_t len, bool *in);
bool tok_alphabet_write(tok_text *to, const char *bytes, size_t len);

/* ---- tokenizer_pattern.c: literals and regular expressions ---- */
typedef struct tok_pattern {
    char *literal;
    size_t literal_len;
    pcre2_code *code;
    bool jit;
    bool trailing_space; /* \s+$, which backtracking makes quadratic, is searched by hand */
} tok_pattern;
/* FORMAT if it does not compile, UNSUPPORTED if it means something else in PCRE2 than in Oniguruma,
 * for which the files are written. `at` is named in messages. */
cadre_err tok_pattern_regex(pcre2_general_context *mem, const char *regex, size_t len, tok_pattern *p,
                            const json_doc *doc, const json *at, cadre_fail *why);
cadre_err tok_pattern_literal(const char *text, size_t len, tok_pattern *p, cadre_fail *why);
/* From {"Regex": ...} or {"String": ...}. */
cadre_err tok_pattern_read(pcre2_general_context *mem, const json_doc *doc, const json *v, tok_pattern *p,
                           cadre_fail *why);
void tok_pattern_done(tok_pattern *p);

/* What one thread needs to match. */
typedef struct tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    uint64_t deadline; /* ns; a search that is quadratic in its text ends here with an error */
    unsigned calls;
} tok_matcher;
cadre_err tok_matcher_init(tok_matcher *m, pcre2_general_context *mem, size_t text_len, cadre_fail *why);
void tok_matcher_done(tok_matcher *m);

/* Finds one match after the other, never two empty ones at one place. */
typedef struct tok_finder {
    const tok_pattern *pattern;
    const char *text;
    size_t len, at, last;
    bool has_last;
} tok_finder;
/* *found false: no more. UNSUPPORTED when the pattern needs too much work on this text. */
cadre_err tok_find_next(tok_matcher *m, tok_finder *f, tok_piece *match, bool *found, cadre_fail *why);

/* ---- tokenizer_normal.c ---- */
typedef enum tok_normal_kind {
    NORMAL_NFC,
    NORMAL_PREPEND,
    NORMAL_REPLACE,
    NORMAL_LOWERCASE,
    NORMAL_STRIP
} tok_normal_kind;
typedef struct tok_normal {
    tok_normal_kind kind;
    tok_pattern pattern;
    char *text; /* to prepend, or to put in the match's place */
    size_t len;
    bool left, right;
} tok_normal;
typedef struct tok_normals {
    pcre2_general_context *mem;
    tok_normal step[TOK_STEPS_MAX];
    int n;
} tok_normals;
cadre_err tok_normals_read(tok_normals *l, const json_doc *doc, const json *v, cadre_fail *why);
void tok_normals_done(tok_normals *l);
/* *out: text itself or one of the buffers; *cut tells whether something went from its left. */
cadre_err tok_normalize(const tok_normals *l, tok_matcher *m, const char *text, size_t len, tok_text buffer[2],
                        const char **out, size_t *out_len, bool *cut, cadre_fail *why);
/* Appends text with every match replaced by content. *cut becomes true when that took bytes from the left. */
cadre_err tok_replace(const tok_pattern *p, const char *content, size_t content_len, tok_matcher *m, const char *text,
                      size_t len, tok_text *to, bool *cut, cadre_fail *why);
/* ---- tokenizer_nfc.c ---- */
bool tok_nfc(tok_text *to, const char *text, size_t len); /* appends; false: out of memory */

/* ---- tokenizer_split.c: pre-tokenizers ---- */
typedef enum tok_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_PREVIOUS,
    SPLIT_MERGED_NEXT
} tok_behavior;
typedef enum tok_scheme { META_ALWAYS, META_FIRST, META_NEVER } tok_scheme;
typedef enum tok_split_kind { STEP_SPLIT, STEP_PREFIX, STEP_META, STEP_ALPHABET } tok_split_kind;
typedef struct tok_split {
    tok_split_kind kind;
    tok_pattern pattern; /* SPLIT */
    tok_behavior behavior;
    bool invert;
    char meta[5]; /* META: the character that stands for a space */
    int meta_len;
    tok_scheme scheme;
} tok_split;
typedef struct tok_splits {
    pcre2_general_context *mem;
    tok_split step[TOK_STEPS_MAX];
    int n;
    bool bytes;    /* ByteLevel is among them */
    bool alphabet; /* and is not the last, so that later steps see the alphabet: pieces end up in it */
} tok_splits;
cadre_err tok_splits_read(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why);
void tok_splits_done(tok_splits *l);
/* Scratch, and what came out: pieces are ranges of `result` (the text given, or one of the buffers). */
typedef struct tok_split_work {
    tok_text text[2];
    tok_pieces list[2];
    const char *result;
    const tok_pieces *pieces;
} tok_split_work;
void tok_split_work_done(tok_split_work *w);
/* first: the piece begins where the user's text does. */
cadre_err tok_split_run(const tok_splits *l, tok_matcher *m, const char *text, size_t len, bool first,
                        tok_split_work *w, cadre_fail *why);

/* Metaspace's members, which its decoder has too. */
cadre_err tok_meta_char(const json_doc *doc, const json *v, const char *key, char out[5], int *len, cadre_fail *why);
cadre_err tok_meta_scheme(const json_doc *doc, const json *v, tok_scheme *out, cadre_fail *why);

/* ---- tokenizer_vocab.c: tokens, their ids, and merges ---- */
enum { TOKEN_KNOWN = 1, TOKEN_RAW = 2, TOKEN_ADDED = 4, TOKEN_SPECIAL = 8, TOKEN_BYTE = 16 };
typedef struct tok_token {
    uint32_t start, len;         /* in vocab.text: what the model matches */
    uint32_t out_start, out_len; /* what it decodes to */
    uint8_t flags;
    uint8_t byte; /* TOKEN_BYTE: a byte-fallback token's value */
} tok_token;
typedef struct tok_slot {
    uint32_t hash, taken; /* taken: id + 1, 0: free */
} tok_slot;
typedef struct tok_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank, id;
} tok_merge;
typedef struct tok_vocab {
    bool bytes; /* texts are bytes, not characters */
    tok_text text;
    tok_token *token; /* [size] */
    int size;         /* highest id + 1 */
    size_t cap;       /* of token */
    uint8_t *self;    /* [size] by tokenizer_bpe.c: merging a token's text gives it back */
    size_t longest;   /* bytes of the longest token */
    tok_slot *slot;
    uint32_t slot_mask;
    uint64_t seed;
    tok_merge *merge;
    uint32_t merge_mask;
    int32_t byte[256];     /* id of a token of this one byte; below 128 of this character */
    int32_t fallback[256]; /* id of <0xHH> */
    int32_t unk;           /* -1: none */
    bool unk_missing;      /* unk_token is named but not in the vocabulary */
    bool fuse_unk, byte_fallback, ignore_merges;
} tok_vocab;
cadre_err tok_vocab_read(tok_vocab *v, const json_doc *doc, const json *model, bool bytes, cadre_fail *why);
void tok_vocab_done(tok_vocab *v);
/* By the text as the file writes it (find) or as the model matches it (find_bytes). -1: none. */
int32_t tok_vocab_find(const tok_vocab *v, const char *text, size_t len);
int32_t tok_vocab_find_bytes(const tok_vocab *v, const char *bytes, size_t len);
bool tok_vocab_size(tok_vocab *v, int size); /* grows the table of ids; false: out of memory */
static inline bool tok_known(const tok_vocab *v, int64_t id) {
    return id >= 0 && id < v->size && (v->token[id].flags & TOKEN_KNOWN);
}
static inline uint32_t tok_hash(uint64_t seed, uint64_t x) {
    x = (x ^ seed) * 0x9E3779B97F4A7C15u;
    return (uint32_t)((x ^ x >> 29) * 0xBF58476D1CE4E5B9u >> 32);
}
static inline const tok_merge *tok_merge_find(const tok_vocab *v, int32_t left, int32_t right) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint32_t i = tok_hash(v->seed, pair) & v->merge_mask;; i = (i + 1) & v->merge_mask) {
        if (v->merge[i].pair == pair) return &v->merge[i];
        if (v->merge[i].pair == UINT64_MAX) return NULL;
    }
}

/* ---- tokenizer_bpe.c ---- */
typedef struct tok_bpe {
    int32_t *id, *prev, *next;
    uint32_t *rank, *made; /* of the pair that starts here: rank, and the id it makes */
    uint64_t *heap;
    size_t cap, heap_cap;
    tok_text alphabet;
} tok_bpe;
typedef struct tok_ids {
    int32_t *p;
    size_t n, cap; /* n counts on beyond cap */
} tok_ids;
static inline void tok_ids_add(tok_ids *l, int32_t id) {
    if (l->n < l->cap) l->p[l->n] = id;
    l->n++;
}
cadre_err tok_bpe_run(const tok_vocab *v, tok_bpe *b, const char *text, size_t len, tok_ids *ids, cadre_fail *why);
void tok_bpe_done(tok_bpe *b);

/* ---- tokenizer_added.c ---- */
typedef struct tok_added {
    char *content, *pattern; /* pattern: content after the normalizer, if normalized; else content itself */
    size_t len, pattern_len;
    int32_t id;
    bool single_word, left, right, normalized, special;
} tok_added;
typedef struct tok_added_set {
    const tok_added **by; /* sorted by pattern */
    int n, first[257];    /* range by the first byte */
} tok_added_set;
typedef struct tok_addeds {
    tok_added *token;
    int n;
    size_t cap;
    tok_added_set raw, normal, content; /* content: all, by content */
} tok_addeds;
/* .added_tokens of tokenizer.json, then .added_tokens_decoder of tokenizer_config.json (config may be NULL). */
cadre_err tok_addeds_read(tokenizer *t, const json_doc *doc, const json_doc *config, cadre_fail *why);
void tok_addeds_done(tok_addeds *a);
const tok_added *tok_added_named(const tok_addeds *a, const char *content, size_t len);
/* Walks a text from added token to added token. */
typedef struct tok_scan {
    const tok_added_set *set;
    const char *text;
    size_t len, at, done; /* searched so far; given out so far */
    size_t space_start, space_end;
    bool special; /* match special tokens too */
} tok_scan;
/* The text before the next token (may be empty) and the token, NULL at the end. */
const tok_added *tok_scan_next(tok_scan *s, tok_piece *before);

/* ---- tokenizer_decode.c ---- */
/* A rule for single tokens, applied at load. */
typedef struct tok_rule {
    tok_pattern pattern; /* Replace */
    char *content;
    size_t len;
    char strip[5]; /* Strip, if strip_len */
    int strip_len;
    int64_t left, right; /* most to take from each side */
} tok_rule;
typedef struct tok_decoder {
    pcre2_general_context *mem;
    tok_rule rule[TOK_STEPS_MAX];
    int rules;
    bool bytes;           /* ByteLevel: texts are bytes of one UTF-8 stream */
    bool join;            /* no decoder: tokens are joined by spaces */
    bool fallback;        /* <0xHH> are bytes */
    bool fused;           /* while reading: tokens have become one text */
    bool meta, meta_drop; /* Metaspace; meta_drop: its character gives nothing in the first token */
    char meta_char[5], strip[5];
    int meta_len, strip_len;
    int64_t strip_count; /* of strip, taken from the start of the stream */
    size_t longest;      /* bytes of the longest token */
} tok_decoder;
cadre_err tok_decoder_read(tok_decoder *d, const json_doc *doc, const json *v, cadre_fail *why);
void tok_decoder_done(tok_decoder *d);
/* Fills out_start, out_len, TOKEN_BYTE of every token. */
cadre_err tok_decoder_apply(tokenizer *t, cadre_fail *why);

struct tokenizer {
    pcre2_general_context *mem;
    tok_vocab vocab;
    tok_addeds added;
    tok_normals normal;
    tok_splits split;
    tok_decoder decoder;
    int32_t *before, *after; /* what the post-processor adds */
    int befores, afters;
};
#endif
