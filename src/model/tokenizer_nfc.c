/* tokenizer_nfc.c: Unicode normal form C in linear time.
 *
 * Tables and the pairing of characters are utf8proc's; the ordering of marks is our own, since its own is quadratic in
 * a run of marks. Most text is copied: only a stretch of characters that may change is taken apart,
 *
 *   copied ... | starter, mark, mark, ... | copied ...
 *
 * from the starter before the first mark (or jamo, or character that NFC replaces) to the next plain character.
 */
#include "model/tokenizer_parts.h"
#include <string.h>
#include <utf8proc.h>

typedef struct stretch {
    int32_t *cp, *tmp;
    size_t n, cap, tmp_cap;
} stretch;

enum { CANONICAL_MAX = 4, /* code points of the longest canonical decomposition */ SMALL = 16 };

static int combining_class(int32_t cp) {
    return utf8proc_get_property(cp)->combining_class;
}

/* Takes one character apart, behind what is there. */
static bool take_apart(stretch *s, int32_t cp) {
    int ignored = 0;
    if (!tok_grow((void **)&s->cp, &s->cap, s->n + CANONICAL_MAX, sizeof *s->cp)) return false;
    utf8proc_ssize_t n = utf8proc_decompose_char(cp, s->cp + s->n, CANONICAL_MAX, UTF8PROC_DECOMPOSE, &ignored);
    if (n < 1 || n > CANONICAL_MAX) s->cp[s->n] = cp, n = 1; /* no character does that */
    s->n += (size_t)n;
    return true;
}

static void sort_small(int32_t *cp, size_t n) {
    for (size_t i = 1; i < n; i++) {
        int32_t c = cp[i];
        int class = combining_class(c);
        size_t j = i;
        for (; j && combining_class(cp[j - 1]) > class; j--) cp[j] = cp[j - 1];
        cp[j] = c;
    }
}

/* A stable counting sort by class. */
static bool sort_large(stretch *s, int32_t *cp, size_t n) {
    size_t place[257] = {0};
    if (!tok_grow((void **)&s->tmp, &s->tmp_cap, n, sizeof *s->tmp)) return false;
    for (size_t i = 0; i < n; i++) place[combining_class(cp[i]) + 1]++;
    for (int c = 0; c < 256; c++) place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++) s->tmp[place[combining_class(cp[i])]++] = cp[i];
    memcpy(cp, s->tmp, n * sizeof *cp);
    return true;
}

/* Canonical ordering: each run of characters with a class is sorted by it. */
static bool order(stretch *s) {
    for (size_t i = 0, end; i < s->n; i = end) {
        end = i + 1;
        if (!combining_class(s->cp[i])) continue;
        while (end < s->n && combining_class(s->cp[end])) end++;
        if (end - i <= SMALL)
            sort_small(s->cp + i, end - i);
        else if (!sort_large(s, s->cp + i, end - i))
            return false;
    }
    return true;
}

/* Orders and composes the stretch, and writes it. */
static bool flush(stretch *s, tok_text *to) {
    if (!s->n) return true;
    if (!order(s)) return false;
    utf8proc_ssize_t n = utf8proc_normalize_utf32(s->cp, (utf8proc_ssize_t)s->n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n < 0 || !tok_text_room(to, (size_t)n * 4)) return false;
    for (utf8proc_ssize_t i = 0; i < n; i++) to->len += (size_t)utf8_encode((uint32_t)s->cp[i], to->p + to->len);
    s->n = 0;
    return true;
}

/* NFC never changes this character, nor joins it with the one before: marks and the vowels and finals of Hangul may be
 * joined, and a few characters are replaced by others. */
static bool plain(int32_t cp) {
    int32_t apart[CANONICAL_MAX];
    int ignored = 0;
    if (cp < 0x300 || (cp >= 0xAC00 && cp <= 0xD7A3)) return true;
    if (cp >= 0x1160 && cp <= 0x11FF) return false;
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    if (p->category >= UTF8PROC_CATEGORY_MN && p->category <= UTF8PROC_CATEGORY_ME) return false;
    if (p->combining_class) return false;
    if (p->decomp_seqindex == UINT16_MAX || p->decomp_type) return true; /* a type: not canonical */
    utf8proc_ssize_t n = utf8proc_decompose_char(cp, apart, CANONICAL_MAX, UTF8PROC_DECOMPOSE, &ignored);
    if (n < 1 || n > CANONICAL_MAX) return false;
    n = utf8proc_normalize_utf32(apart, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return n == 1 && apart[0] == cp;
}

static bool ascii(const char *text, size_t len) {
    unsigned char any = 0;
    for (size_t i = 0; i < len; i++) any |= (unsigned char)text[i];
    return any < 0xCC; /* below U+0300 */
}

static bool compose(stretch *s, tok_text *to, const unsigned char *p, const unsigned char *end) {
    const unsigned char *copied = p, *starter = p; /* starter: the last plain character */
    bool open = false;
    int n;
    for (; p < end; p += n) {
        int32_t cp = (int32_t)utf8_decode(p, end, &n);
        if (plain(cp)) {
            if (open && !flush(s, to)) return false;
            if (open) copied = p;
            open = false;
            starter = p;
            continue;
        }
        if (!open) {
            int m;
            if (!tok_text_add(to, (const char *)copied, (size_t)(starter - copied))) return false;
            if (starter < p && !take_apart(s, (int32_t)utf8_decode(starter, end, &m))) return false;
            open = true;
        }
        if (!take_apart(s, cp)) return false;
    }
    return open ? flush(s, to) : tok_text_add(to, (const char *)copied, (size_t)(end - copied));
}

bool tok_nfc(tok_text *to, const char *text, size_t len) {
    stretch s = {NULL, NULL, 0, 0, 0};
    const unsigned char *p = (const unsigned char *)text;
    bool ok = ascii(text, len) ? tok_text_add(to, text, len) : compose(&s, to, p, p + len);
    mem_free(s.cp);
    mem_free(s.tmp);
    return ok;
}
