/* tokenizer_parts.c: growing arrays, the byte alphabet, and reading chains of steps. */
#include "model/tokenizer_parts.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* ---- growing arrays ---- */

bool tok_grow(void **p, size_t *cap, size_t n, size_t size) {
    size_t bytes, want = *cap < 16 ? 16 : *cap;
    if (n <= *cap) return true;
    while (want < n)
        if (!mem_mul(want, 2, &want)) return false;
    if (!mem_mul(want, size, &bytes)) return false;
    void *to = mem_resize(*p, *cap * size, bytes);
    if (!to) return false;
    *p = to;
    *cap = want;
    return true;
}

bool tok_text_room(tok_text *b, size_t more) {
    size_t need;
    return mem_add(b->len, more, &need) && tok_grow((void **)&b->p, &b->cap, need, 1);
}

bool tok_text_add(tok_text *b, const char *text, size_t len) {
    if (!tok_text_room(b, len)) return false;
    if (len) memcpy(b->p + b->len, text, len);
    b->len += len;
    return true;
}

bool tok_pieces_add(tok_pieces *l, size_t start, size_t end) {
    if (!tok_grow((void **)&l->p, &l->cap, l->n + 1, sizeof *l->p)) return false;
    l->p[l->n++] = (tok_piece){start, end};
    return true;
}

/* ---- characters ---- */

bool tok_is_space(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

bool tok_is_word(uint32_t cp) {
    if (cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9)) return true; /* joiners; circled letters */
    if ((cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189))
        return true; /* letters in squares and circles */
    utf8proc_category_t c = utf8proc_category((int32_t)cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC;
}

size_t tok_space_after(const char *text, size_t at, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    int n;
    while (at < len && tok_is_space(utf8_decode(p + at, p + len, &n))) at += (size_t)n;
    return at;
}

size_t tok_space_before(const char *text, size_t low, size_t at) {
    const unsigned char *p = (const unsigned char *)text;
    int n;
    while (at > low) {
        size_t i = at - 1;
        while (i > low && (p[i] & 0xC0) == 0x80) i--;
        if (!tok_is_space(utf8_decode(p + i, p + at, &n))) break;
        at = i;
    }
    return at;
}

/* ---- errors ---- */

cadre_err tok_no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "tokenizer: out of memory");
}

/* ---- chains of steps ---- */

const char *tok_step_type(const json_doc *doc, const json *v, cadre_err *err, cadre_fail *why) {
    const json *type = json_get(v, "type");
    *err = CADRE_OK;
    if (v->kind != JSON_OBJECT)
        *err = json_fail(doc, v, why, "is no object, expected a step with a type");
    else if (!type)
        *err = json_fail(doc, v, why, "has no type");
    else if (type->kind != JSON_TEXT)
        *err = json_fail(doc, type, why, "is no text, expected the name of a step");
    return *err ? NULL : type->text;
}

/* The reader stops at 64 levels, so this recursion does too. */
cadre_err tok_steps_walk(void *to, const json_doc *doc, const json *v, const char *list, tok_step_add add,
                         cadre_fail *why) {
    cadre_err err;
    if (!v || v->kind == JSON_NULL) return CADRE_OK;
    const char *type = tok_step_type(doc, v, &err, why);
    if (err) return err;
    if (strcmp(type, "Sequence")) return add(to, doc, v, type, why);
    const json *steps = json_get(v, list);
    if (!steps || steps->kind != JSON_ARRAY) return json_fail(doc, v, why, "has no array %s", list);
    for (const json *s = steps->child; s && !err; s = s->next) err = tok_steps_walk(to, doc, s, list, add, why);
    return err;
}

/* ---- the byte alphabet ----
 * Bytes that print stand for themselves; the other 68, in ascending order, are U+0100 and up:
 * 00..20 -> 100..120, 7F -> 121, 80..A0 -> 122..142, AD -> 143. */

uint32_t tok_alphabet_char(unsigned char byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143u : byte;
}

int tok_alphabet_byte(uint32_t cp) {
    if (cp >= 0x100 && cp <= 0x120) return (int)cp - 0x100;
    if (cp >= 0x121 && cp <= 0x142) return (int)cp - 0x121 + 0x7F;
    if (cp == 0x143) return 0xAD;
    bool prints = (cp > 0x20 && cp < 0x7F) || (cp > 0xA0 && cp < 0x100 && cp != 0xAD);
    return prints ? (int)cp : -1;
}

bool tok_alphabet_read(tok_text *to, const char *text, size_t len, bool *in) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    size_t start = to->len;
    if (!tok_text_room(to, len)) return false;
    *in = true;
    while (p < end) {
        int n, byte = tok_alphabet_byte(utf8_decode(p, end, &n));
        if (byte < 0) {
            to->len = start;
            *in = false;
            return true;
        }
        to->p[to->len++] = (char)byte;
        p += n;
    }
    return true;
}

bool tok_alphabet_write(tok_text *to, const char *bytes, size_t len) {
    size_t room;
    if (!mem_mul(len, 2, &room) || !tok_text_room(to, room + 4)) return false;
    for (size_t i = 0; i < len; i++)
        to->len += (size_t)utf8_encode(tok_alphabet_char((unsigned char)bytes[i]), to->p + to->len);
    return true;
}
