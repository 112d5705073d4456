/* utf8.c: UTF-8 as the Unicode standard's table 3-7 has it: no surrogates, no overlong forms, nothing past U+10FFFF. */
#include "utf8.h"
#include "mem.h"
#include <string.h>

/* Length of the sequence a lead byte starts, and the legal range of its second byte; 0 for bytes that start none. */
static int lead(unsigned char b, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xBF;
    if (b < 0xC2) return b < 0x80;
    if (b < 0xE0) return 2;
    if (b < 0xF0) {
        if (b == 0xE0) *low = 0xA0;
        if (b == 0xED) *high = 0x9F;
        return 3;
    }
    if (b > 0xF4) return 0;
    if (b == 0xF0) *low = 0x90;
    if (b == 0xF4) *high = 0x8F;
    return 4;
}

uint32_t utf8_decode(const unsigned char *p, const unsigned char *end, int *len) {
    unsigned char low, high;
    int n = lead(p[0], &low, &high);
    *len = 1;
    if (n <= 1) return n ? p[0] : UTF8_BAD;
    uint32_t cp = p[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if (p + i >= end || p[i] < low || p[i] > high) return UTF8_BAD;
        cp = cp << 6 | (p[i] & 0x3Fu);
        *len = i + 1;
        low = 0x80;
        high = 0xBF;
    }
    return cp;
}

int utf8_encode(uint32_t cp, char out[4]) {
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) cp = 0xFFFD;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)((0xF00 >> n & 0xFF) | cp);
    return n;
}

bool utf8_valid(const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    int n;
    for (; p < end; p += n)
        if (utf8_decode(p, end, &n) == UTF8_BAD) return false;
    return true;
}

size_t utf8_partial(const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char b = p[len - back], low, high;
        if ((b & 0xC0) == 0x80) continue;
        int n, want = lead(b, &low, &high);
        if ((size_t)want <= back) return 0;
        /* the bytes after the lead must be ones that can stand there, all of them */
        return utf8_decode(p + len - back, p + len, &n) == UTF8_BAD && (size_t)n == back ? back : 0;
    }
    return 0;
}

char *utf8_repair(const char *text, size_t len, size_t *out_len) {
    size_t room;
    if (!mem_mul(len, 3, &room) || !mem_add(room, 1, &room)) return NULL; /* a bad byte becomes three */
    if (utf8_valid(text, len)) room = len + 1;
    char *out = mem_new(room), *to = out;
    if (!out) return NULL;
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    int n;
    for (; p < end; p += n) {
        if (utf8_decode(p, end, &n) == UTF8_BAD) {
            to += utf8_encode(0xFFFD, to);
        } else {
            memcpy(to, p, (size_t)n);
            to += n;
        }
    }
    *out_len = (size_t)(to - out);
    return out;
}
