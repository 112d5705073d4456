/* tokenizer_decode.c: ids back to text. What a token contributes is worked out at load; the stream only joins.
 *
 *   decoder            token texts are        the stream
 *   ByteLevel          bytes                  one UTF-8 stream, ill-formed parts become U+FFFD
 *   Replace, Strip     text, rules applied    joins
 *   ByteFallback       text or one byte       bytes in a row become characters, or one U+FFFD each
 *   Fuse + Strip       text                   drops up to `start` characters at its very start
 *   Metaspace          text                   spaces for its character, nothing for it in the first token
 *   none               text                   tokens with a space between
 *
 * Special tokens are skipped by their id. (The reference looks up the normalized text instead, and so misses those that
 * its normalizer changes.) Where a row of fallback bytes is ill-formed the reference gives U+FFFD for every byte of the
 * row; a stream that holds back one character at most gives the well-formed characters and U+FFFD for the other bytes.
 */
#include "model/tokenizer_parts.h"
#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* ---- reading the decoder ---- */

static cadre_err new_rule(tok_decoder *d, const json_doc *doc, const json *v, tok_rule **out, cadre_fail *why) {
    if (d->rules == TOK_STEPS_MAX || d->fallback || d->bytes || d->meta)
        return json_refuse(doc, v, why, "comes after a decoder it can't follow here");
    *out = &d->rule[d->rules++];
    return CADRE_OK;
}

static cadre_err read_replace(tok_decoder *d, const json_doc *doc, const json *v, cadre_fail *why) {
    const json *pattern = json_get(v, "pattern"), *content = json_get(v, "content");
    tok_rule *r = NULL;
    if (!pattern || !content || content->kind != JSON_TEXT)
        return json_fail(doc, v, why, "needs a pattern and a text content");
    if (d->fused) return json_refuse(doc, v, why, "is a Replace after Fuse, which is not supported");
    cadre_err err = new_rule(d, doc, v, &r, why);
    if (!err) err = tok_pattern_read(d->mem, doc, pattern, &r->pattern, why);
    if (err) return err;
    r->content = mem_copy_text(content->text, content->len);
    r->len = content->len;
    return r->content ? CADRE_OK : tok_no_memory(why);
}

static cadre_err read_strip(tok_decoder *d, const json_doc *doc, const json *v, cadre_fail *why) {
    char text[5];
    int len;
    int64_t left, right;
    tok_rule *r = NULL;
    cadre_err err = tok_meta_char(doc, v, "content", text, &len, why);
    if (!err) err = json_int(doc, v, "start", 0, 0, INT32_MAX, &left, why);
    if (!err) err = json_int(doc, v, "stop", 0, 0, INT32_MAX, &right, why);
    if (err) return err;
    if (d->fused) {
        if (right || d->strip_len)
            return json_refuse(doc, v, why, "strips the end of the text or strips twice, which is not supported");
        memcpy(d->strip, text, sizeof text);
        d->strip_len = len;
        d->strip_count = left;
        return CADRE_OK;
    }
    if ((err = new_rule(d, doc, v, &r, why))) return err;
    memcpy(r->strip, text, sizeof text);
    r->strip_len = len;
    r->left = left;
    r->right = right;
    return CADRE_OK;
}

static cadre_err read_meta(tok_decoder *d, const json_doc *doc, const json *v, cadre_fail *why) {
    tok_scheme scheme;
    cadre_err err = tok_meta_char(doc, v, "replacement", d->meta_char, &d->meta_len, why);
    if (!err) err = tok_meta_scheme(doc, v, &scheme, why);
    if (err) return err;
    if (d->fused || d->fallback || d->bytes || d->meta)
        return json_refuse(doc, v, why, "comes after a decoder it can't follow here");
    d->meta = true;
    d->meta_drop = scheme != META_NEVER;
    return CADRE_OK;
}

static cadre_err add_step(void *to, const json_doc *doc, const json *v, const char *type, cadre_fail *why) {
    tok_decoder *d = to;
    if (!strcmp(type, "Replace")) return read_replace(d, doc, v, why);
    if (!strcmp(type, "Strip")) return read_strip(d, doc, v, why);
    if (!strcmp(type, "Metaspace")) return read_meta(d, doc, v, why);
    if (!strcmp(type, "Fuse")) {
        d->fused = true;
        return CADRE_OK;
    }
    if (!strcmp(type, "ByteFallback")) {
        if (d->fused || d->meta) return json_refuse(doc, v, why, "comes after a decoder it can't follow here");
        d->fallback = true;
        return CADRE_OK;
    }
    if (!strcmp(type, "ByteLevel")) {
        if (d->fused || d->fallback || d->meta || d->rules)
            return json_refuse(doc, v, why, "comes after a decoder it can't follow here");
        d->bytes = d->fused = true;
        return CADRE_OK;
    }
    return json_refuse(doc, v, why, "is the decoder \"%.60s\", which is not supported", type);
}

cadre_err tok_decoder_read(tok_decoder *d, const json_doc *doc, const json *v, cadre_fail *why) {
    d->join = !v || v->kind == JSON_NULL;
    return tok_steps_walk(d, doc, v, "decoders", add_step, why);
}

void tok_decoder_done(tok_decoder *d) {
    for (int i = 0; i < TOK_STEPS_MAX; i++) {
        tok_pattern_done(&d->rule[i].pattern);
        mem_free(d->rule[i].content);
    }
}

/* ---- applying it to every token ---- */

typedef struct work {
    tokenizer *t;
    tok_matcher m;
    tok_text text[2];
    cadre_fail *why;
} work;

static bool is_char(const char *p, size_t len, const char *c, int n) {
    return len >= (size_t)n && !memcmp(p, c, (size_t)n);
}

static void strip(const tok_rule *r, const char **p, size_t *len) {
    size_t n = (size_t)r->strip_len;
    for (int64_t i = 0; i < r->left && is_char(*p, *len, r->strip, r->strip_len); i++) *p += n, *len -= n;
    for (int64_t i = 0; i < r->right && *len >= n && !memcmp(*p + *len - n, r->strip, n); i++) *len -= n;
}

/* The token as its file writes it, or (an added token) as the normalizer leaves it; for ByteLevel as bytes. */
static cadre_err source(work *w, int32_t id, const tok_added *added, const char **p, size_t *len) {
    const tok_vocab *v = &w->t->vocab;
    const tok_token *t = &v->token[id];
    tok_text *out = &w->text[0];
    bool in = true, ok = true;
    out->len = 0;
    *p = added ? added->pattern : v->text.p + t->start;
    *len = added ? added->pattern_len : t->len;
    bool written = added || !v->bytes || (t->flags & TOKEN_RAW); /* p is text, not bytes */
    if (w->t->decoder.bytes && written)
        ok = tok_alphabet_read(out, *p, *len, &in);
    else if (!w->t->decoder.bytes && !written)
        ok = tok_alphabet_write(out, *p, *len);
    else
        return CADRE_OK;
    if (!ok) return tok_no_memory(w->why);
    if (in && out->p) *p = out->p, *len = out->len;
    return CADRE_OK;
}

static cadre_err apply_rules(work *w, const char **p, size_t *len) {
    const tok_decoder *d = &w->t->decoder;
    int turn = 1;
    bool cut;
    for (int i = 0; i < d->rules; i++) {
        const tok_rule *r = &d->rule[i];
        if (r->strip_len) {
            strip(r, p, len);
            continue;
        }
        tok_text *to = &w->text[turn];
        to->len = 0;
        cadre_err err = tok_replace(&r->pattern, r->content, r->len, &w->m, *p, *len, to, &cut, w->why);
        if (err) return err;
        *p = to->p ? to->p : "";
        *len = to->len;
        turn = !turn;
    }
    return CADRE_OK;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void mark_byte(tok_token *t, const char *p, size_t len) {
    if (len != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || hex(p[3]) < 0 || hex(p[4]) < 0) return;
    t->flags |= TOKEN_BYTE;
    t->byte = (uint8_t)(hex(p[3]) << 4 | hex(p[4]));
}

static cadre_err apply(work *w, int32_t id, const tok_added *added) {
    tok_vocab *v = &w->t->vocab;
    tok_token *t = &v->token[id];
    const char *p;
    size_t len;
    cadre_err err = source(w, id, added, &p, &len);
    if (!err) err = apply_rules(w, &p, &len);
    if (err) return err;
    if (w->t->decoder.fallback) mark_byte(t, p, len);
    if (len > w->t->decoder.longest) w->t->decoder.longest = len;
    t->out_len = (uint32_t)len;
    t->out_start = t->start;
    if (!added && len == t->len && (!len || !memcmp(p, v->text.p + t->start, len))) return CADRE_OK;
    if (v->text.len + len > UINT32_MAX) return tok_no_memory(w->why);
    t->out_start = (uint32_t)v->text.len;
    return tok_text_add(&v->text, p, len) ? CADRE_OK : tok_no_memory(w->why);
}

cadre_err tok_decoder_apply(tokenizer *t, cadre_fail *why) {
    work w = {.t = t, .why = why};
    const tok_addeds *l = &t->added;
    cadre_err err = tok_matcher_init(&w.m, t->mem, t->vocab.text.len, why);
    for (int32_t id = 0; id < t->vocab.size && !err; id++)
        if (tok_known(&t->vocab, id) && !(t->vocab.token[id].flags & TOKEN_ADDED)) err = apply(&w, id, NULL);
    for (int i = 0; i < l->n && !err; i++) err = apply(&w, l->token[i].id, &l->token[i]);
    tok_matcher_done(&w.m);
    mem_free(w.text[0].p);
    mem_free(w.text[1].p);
    return err;
}

/* ---- the stream ---- */

struct tokenizer_stream {
    const tokenizer *t;
    bool skip_special, begun;
    int64_t strip_left;
    char held[8]; /* bytes that begin a character */
    size_t held_len;
    char *out; /* the text of one push: room for the longest token, every byte of it replaced */
    size_t len, cap;
};

cadre_err tokenizer_stream_new(const tokenizer *t, bool skip_special, tokenizer_stream **out, cadre_fail *why) {
    tokenizer_stream *s = mem_new(sizeof *s);
    if (!s) return tok_no_memory(why);
    s->t = t;
    s->skip_special = skip_special;
    s->cap = (t->decoder.longest + sizeof s->held) * (sizeof replacement - 1) + 2;
    s->out = mem_new(s->cap);
    if (!s->out) {
        mem_free(s);
        return tok_no_memory(why);
    }
    tokenizer_stream_reset(s);
    *out = s;
    return CADRE_OK;
}

void tokenizer_stream_free(tokenizer_stream *s) {
    if (!s) return;
    mem_free(s->out);
    mem_free(s);
}

void tokenizer_stream_reset(tokenizer_stream *s) {
    s->begun = false;
    s->strip_left = s->t->decoder.strip_count;
    s->held_len = s->len = 0;
}

/* Writes whole characters. */
static void emit(tokenizer_stream *s, const char *p, size_t len) {
    const tok_decoder *d = &s->t->decoder;
    while (s->strip_left && len) {
        bool hit = is_char(p, len, d->strip, d->strip_len);
        s->strip_left = hit ? s->strip_left - 1 : 0;
        if (hit) p += d->strip_len, len -= (size_t)d->strip_len;
    }
    cadre_assert(s->len + len < s->cap);
    if (len) memcpy(s->out + s->len, p, len);
    s->len += len;
}

static void flush_held(tokenizer_stream *s) {
    size_t n = s->t->decoder.bytes ? s->held_len > 0 : s->held_len;
    for (; n; n--) emit(s, replacement, sizeof replacement - 1);
    s->held_len = 0;
}

/* One byte of a character. Bytes that can't become one: ByteLevel gives one U+FFFD for as many as might have begun a
 * character together, ByteFallback one for each. */
static void emit_byte(tokenizer_stream *s, char byte) {
    int used;
    s->held[s->held_len++] = byte;
    while (s->held_len) {
        const unsigned char *p = (const unsigned char *)s->held;
        bool bad = utf8_decode(p, p + s->held_len, &used) == UTF8_BAD;
        if (bad && utf8_partial(s->held, s->held_len) == s->held_len) return;
        if (bad && !s->t->decoder.bytes) used = 1;
        emit(s, bad ? replacement : s->held, bad ? sizeof replacement - 1 : (size_t)used);
        s->held_len -= (size_t)used;
        memmove(s->held, s->held + used, s->held_len);
    }
}

static void emit_meta(tokenizer_stream *s, const char *p, size_t len, bool first) {
    const tok_decoder *d = &s->t->decoder;
    while (len) {
        bool hit = is_char(p, len, d->meta_char, d->meta_len);
        size_t n = hit ? (size_t)d->meta_len : 1;
        if (!hit)
            emit(s, p, 1);
        else if (!first || !d->meta_drop)
            emit(s, " ", 1);
        p += n;
        len -= n;
    }
}

static void push(tokenizer_stream *s, const tok_token *t, bool first) {
    const tok_decoder *d = &s->t->decoder;
    const char *p = s->t->vocab.text.p + t->out_start;
    if (d->bytes) {
        for (size_t i = 0; i < t->out_len; i++) emit_byte(s, p[i]);
    } else if (t->flags & TOKEN_BYTE) {
        emit_byte(s, (char)t->byte);
    } else {
        flush_held(s);
        if (d->join && !first) emit(s, " ", 1);
        if (d->meta)
            emit_meta(s, p, t->out_len, first);
        else
            emit(s, p, t->out_len);
    }
}

static const char *give(tokenizer_stream *s, size_t *len) {
    s->out[s->len] = 0;
    if (len) *len = s->len;
    return s->out;
}

const char *tokenizer_stream_push(tokenizer_stream *s, int32_t id, size_t *len) {
    const tok_vocab *v = &s->t->vocab;
    s->len = 0;
    if (tok_known(v, id) && !(s->skip_special && (v->token[id].flags & TOKEN_SPECIAL))) {
        push(s, &v->token[id], !s->begun);
        s->begun = true;
    }
    return give(s, len);
}

const char *tokenizer_stream_end(tokenizer_stream *s, size_t *len) {
    s->len = 0;
    flush_held(s);
    return give(s, len);
}
