/* tokenizer_bpe.c: byte pair encoding of one piece: the pair of least rank is merged first, of equals the leftmost.
 *
 * Short pieces (nearly all) look for the least rank in an array; long ones keep a heap of (rank, position) over a
 * linked list, so that a piece of n symbols costs O(n log n). An entry of the heap is stale when the pair at its
 * position has another rank by now.
 */
#include "model/tokenizer_parts.h"
#include <string.h>

enum { SHORT = 48 };
static const uint32_t NO_RANK = UINT32_MAX;

static bool room(tok_bpe *b, size_t n) {
    size_t cap = b->cap;
    if (n <= cap) return true;
    if (!tok_grow((void **)&b->id, &cap, n, sizeof *b->id)) return false;
    size_t old = b->cap;
    int32_t **links[2] = {&b->prev, &b->next};
    uint32_t **pairs[2] = {&b->rank, &b->made};
    b->cap = 0; /* until all have grown, none is to be used; their blocks are freed by tok_bpe_done */
    for (int i = 0; i < 2; i++) {
        size_t a = old, c = old;
        if (!tok_grow((void **)links[i], &a, n, sizeof **links[i])) return false;
        if (!tok_grow((void **)pairs[i], &c, n, sizeof **pairs[i])) return false;
    }
    b->cap = cap;
    return true;
}

void tok_bpe_done(tok_bpe *b) {
    mem_free(b->id);
    mem_free(b->prev);
    mem_free(b->next);
    mem_free(b->rank);
    mem_free(b->made);
    mem_free(b->heap);
    mem_free(b->alphabet.p);
    *b = (tok_bpe){0};
}

/* ---- characters to first ids ---- */

typedef struct symbols {
    tok_bpe *b;
    size_t n;
    bool unk; /* an unknown token waits: it may be fused with the next */
} symbols;

static void flush_unk(const tok_vocab *v, symbols *s) {
    if (s->unk) s->b->id[s->n++] = v->unk;
    s->unk = false;
}

/* The tokens of the character's bytes, if all exist. */
static bool fall_back(const tok_vocab *v, symbols *s, const char *c, int n) {
    char wide[4];
    if (v->bytes) { /* the character is the alphabet's */
        n = utf8_encode(tok_alphabet_char((unsigned char)*c), wide);
        c = wide;
    }
    for (int i = 0; i < n; i++)
        if (v->fallback[(unsigned char)c[i]] < 0) return false;
    for (int i = 0; i < n; i++) s->b->id[s->n++] = v->fallback[(unsigned char)c[i]];
    return true;
}

static cadre_err unknown(const tok_vocab *v, symbols *s, const char *c, int n, cadre_fail *why) {
    if (v->byte_fallback && fall_back(v, s, c, n)) return CADRE_OK;
    if (v->unk_missing)
        return cadre_fail_set(why, CADRE_FORMAT,
                              "tokenizer: no token for the character of byte 0x%02X, and unk_token is not in the "
                              "vocabulary",
                              (unsigned char)*c);
    if (v->unk < 0) return CADRE_OK; /* dropped, as in the reference */
    if (!v->fuse_unk) flush_unk(v, s);
    s->unk = true;
    return CADRE_OK;
}

static cadre_err first_ids(const tok_vocab *v, symbols *s, const char *text, size_t len, cadre_fail *why) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    cadre_err err = CADRE_OK;
    int n = 1;
    for (; p < end && !err; p += n) {
        int32_t id;
        if (v->bytes || *p < 0x80) {
            n = 1;
            id = v->byte[*p];
        } else {
            utf8_decode(p, end, &n);
            id = tok_vocab_find_bytes(v, (const char *)p, (size_t)n);
        }
        if (id < 0) {
            err = unknown(v, s, (const char *)p, n, why);
        } else {
            flush_unk(v, s);
            s->b->id[s->n++] = id;
        }
    }
    flush_unk(v, s);
    return err;
}

/* ---- merging ---- */

static void look(const tok_vocab *v, tok_bpe *b, size_t at, int32_t left, int32_t right) {
    const tok_merge *m = tok_merge_find(v, left, right);
    b->rank[at] = m ? m->rank : NO_RANK;
    b->made[at] = m ? m->id : 0;
}

static void remove_at(uint32_t *p, size_t at, size_t n) {
    memmove(p + at, p + at + 1, (n - at - 1) * sizeof *p);
}

static size_t merge_short(const tok_vocab *v, tok_bpe *b, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) look(v, b, i, b->id[i], b->id[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (b->rank[i] < b->rank[best]) best = i;
        if (b->rank[best] == NO_RANK) break;
        b->id[best] = (int32_t)b->made[best];
        remove_at((uint32_t *)b->id, best + 1, n);
        remove_at(b->rank, best, n - 1);
        remove_at(b->made, best, n - 1);
        n--;
        if (best) look(v, b, best - 1, b->id[best - 1], b->id[best]);
        if (best + 1 < n) look(v, b, best, b->id[best], b->id[best + 1]);
    }
    return n;
}

/* ---- a binary heap of rank << 32 | position ---- */

static bool push(tok_bpe *b, size_t *n, uint64_t x) {
    if (!tok_grow((void **)&b->heap, &b->heap_cap, *n + 1, sizeof *b->heap)) return false;
    size_t i = (*n)++;
    for (; i && b->heap[(i - 1) / 2] > x; i = (i - 1) / 2) b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = x;
    return true;
}

static uint64_t pop(tok_bpe *b, size_t *n) {
    uint64_t top = b->heap[0], x = b->heap[--*n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < *n) {
        if (child + 1 < *n && b->heap[child + 1] < b->heap[child]) child++;
        if (b->heap[child] >= x) break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = x;
    return top;
}

/* Looks at the pair that starts at `at` and queues it. */
static bool queue(const tok_vocab *v, tok_bpe *b, size_t *heap, int32_t at) {
    int32_t next = b->next[at];
    b->rank[at] = NO_RANK;
    if (next >= 0) look(v, b, (size_t)at, b->id[at], b->id[next]);
    return b->rank[at] == NO_RANK || push(b, heap, (uint64_t)b->rank[at] << 32 | (uint32_t)at);
}

static bool merge_long(const tok_vocab *v, tok_bpe *b, size_t *count) {
    int32_t n = (int32_t)*count;
    size_t heap = 0, out = 0;
    for (int32_t i = 0; i < n; i++) {
        b->prev[i] = i - 1;
        b->next[i] = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i < n; i++)
        if (!queue(v, b, &heap, i)) return false;
    while (heap) {
        uint64_t top = pop(b, &heap);
        int32_t at = (int32_t)(uint32_t)top, next = b->next[at];
        if (b->rank[at] != top >> 32) continue;
        b->id[at] = (int32_t)b->made[at];
        b->rank[next] = NO_RANK; /* gone: what waits for it is stale */
        b->next[at] = b->next[next];
        if (b->next[at] >= 0) b->prev[b->next[at]] = at;
        if (!queue(v, b, &heap, at)) return false;
        if (b->prev[at] >= 0 && !queue(v, b, &heap, b->prev[at])) return false;
    }
    for (int32_t i = 0; i >= 0; i = b->next[i]) b->id[out++] = b->id[i];
    *count = out;
    return true;
}

/* ---- one piece ---- */

/* Most pieces are a token as a whole. Whether merging a token's text gives that token back is found out once per token
 * and kept; threads may find it out side by side, and come to the same answer. */
enum { SELF_UNKNOWN, SELF_YES, SELF_NO };

static cadre_err merge_piece(const tok_vocab *v, tok_bpe *b, const char *text, size_t len, size_t *n, cadre_fail *why) {
    symbols s = {b, 0, false};
    size_t most = len; /* a byte's character in the alphabet has up to two bytes to fall back to */
    if (v->bytes && v->byte_fallback && !mem_mul(len, 2, &most)) return tok_no_memory(why);
    if (most >= INT32_MAX || !room(b, most + 1)) return tok_no_memory(why);
    cadre_err err = first_ids(v, &s, text, len, why);
    if (err) return err;
    if (s.n <= SHORT)
        s.n = merge_short(v, b, s.n);
    else if (!merge_long(v, b, &s.n))
        return tok_no_memory(why);
    *n = s.n;
    return CADRE_OK;
}

cadre_err tok_bpe_run(const tok_vocab *v, tok_bpe *b, const char *text, size_t len, tok_ids *ids, cadre_fail *why) {
    int32_t whole = len <= v->longest ? tok_vocab_find_bytes(v, text, len) : -1;
    int self = whole >= 0 ? __atomic_load_n(&v->self[whole], __ATOMIC_RELAXED) : SELF_NO;
    if (whole >= 0 && (v->ignore_merges || self == SELF_YES)) {
        tok_ids_add(ids, whole);
        return CADRE_OK;
    }
    size_t n = 0;
    cadre_err err = merge_piece(v, b, text, len, &n, why);
    if (err) return err;
    if (self == SELF_UNKNOWN)
        __atomic_store_n(&v->self[whole], n == 1 && b->id[0] == whole ? SELF_YES : SELF_NO, __ATOMIC_RELAXED);
    for (size_t i = 0; i < n; i++) tok_ids_add(ids, b->id[i]);
    return CADRE_OK;
}
