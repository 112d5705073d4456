/* json_out.c: writing JSON. A failed allocation sets `failed`, and later calls do nothing. */
#include "json.h"
#include "mem.h"
#include "utf8.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(json_out *o, size_t more) {
    size_t need;
    if (o->failed) return false;
    if (!mem_add(o->len, more, &need) || need >= SIZE_MAX / 4) {
        o->failed = true;
        return false;
    }
    if (need < o->cap) return true; /* one byte stays for the terminator */
    size_t cap = need * 2 < 256 ? 256 : need * 2;
    char *text = mem_resize(o->text, o->len, cap);
    if (!text) {
        o->failed = true;
        return false;
    }
    o->text = text;
    o->cap = cap;
    return true;
}

static void put(json_out *o, const char *text, size_t len) {
    if (!reserve(o, len)) return;
    memcpy(o->text + o->len, text, len);
    o->len += len;
    o->text[o->len] = 0;
}

static bool plain(unsigned char c) {
    return c >= 32 && c < 128 && c != '"' && c != '\\';
}

static void put_escape(json_out *o, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
    char text[8];
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        snprintf(text, sizeof text, "\\%c", into[at - from]);
    else
        snprintf(text, sizeof text, "\\u%04x", c);
    put(o, text, strlen(text));
}

static void put_quoted(json_out *o, const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    put(o, "\"", 1);
    while (p < end) {
        const unsigned char *run = p;
        int n = 1;
        while (p < end && plain(*p)) p++;
        if (p > run) put(o, (const char *)run, (size_t)(p - run));
        if (p == end) break;
        if (*p < 128)
            put_escape(o, *p);
        else if (utf8_decode(p, end, &n) == UTF8_BAD)
            put(o, "\xEF\xBF\xBD", 3);
        else
            put(o, (const char *)p, (size_t)n);
        p += n;
    }
    put(o, "\"", 1);
}

/* The comma and the key; what follows is the value. */
static void begin(json_out *o, const char *key) {
    if (o->comma) put(o, ",", 1);
    o->comma = true;
    if (!key) return;
    put_quoted(o, key, strlen(key));
    put(o, ":", 1);
}

void json_open(json_out *o, const char *key, char bracket) {
    begin(o, key);
    put(o, &bracket, 1);
    o->comma = false;
}

void json_close(json_out *o, char bracket) {
    put(o, &bracket, 1);
    o->comma = true;
}

void json_put_text(json_out *o, const char *key, const char *text) {
    if (text)
        json_put_text_n(o, key, text, strlen(text));
    else
        json_put_null(o, key);
}

void json_put_text_n(json_out *o, const char *key, const char *text, size_t len) {
    begin(o, key);
    put_quoted(o, text, len);
}

static void put_word(json_out *o, const char *key, const char *word) {
    begin(o, key);
    put(o, word, strlen(word));
}

void json_put_int(json_out *o, const char *key, int64_t v) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    put_word(o, key, text);
}

/* The fewest of 15, 16 or 17 digits that read back as v. The program's locale may write another decimal point. */
void json_put_real(json_out *o, const char *key, double v) {
    char text[40];
    if (!isfinite(v)) {
        json_put_null(o, key);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    char *p = text + strspn(text, "-0123456789"), *rest = p + strcspn(p, "e0123456789");
    if (rest > p) {
        *p = '.';
        memmove(p + 1, rest, strlen(rest) + 1);
    }
    put_word(o, key, text);
}

void json_put_bool(json_out *o, const char *key, bool v) {
    put_word(o, key, v ? "true" : "false");
}
void json_put_null(json_out *o, const char *key) {
    put_word(o, key, "null");
}

void json_put_value(json_out *o, const char *key, const json *v) {
    switch (v->kind) {
    case JSON_NULL:
        json_put_null(o, key);
        break;
    case JSON_BOOL:
        json_put_bool(o, key, v->truth);
        break;
    case JSON_TEXT:
        json_put_text_n(o, key, v->text, v->len);
        break;
    case JSON_NUMBER:
        if (v->whole)
            json_put_int(o, key, v->integer);
        else
            json_put_real(o, key, v->number);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        json_open(o, key, v->kind == JSON_ARRAY ? '[' : '{');
        for (const json *c = v->child; c; c = c->next) json_put_value(o, v->kind == JSON_OBJECT ? c->key : NULL, c);
        json_close(o, v->kind == JSON_ARRAY ? ']' : '}');
        break;
    }
}

void json_out_free(json_out *o) {
    mem_free(o->text);
    *o = (json_out){0};
}
