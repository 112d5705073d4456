/* tokenizer_normal.c: the chain of normalizers, which rewrite a piece of text as a whole. */
#include "model/tokenizer_parts.h"
#include <string.h>
#include <utf8proc.h>

/* ---- reading ---- */

/* A text member that must be there, kept as s->text. */
static cadre_err read_text(tok_normal *s, const json_doc *doc, const json *v, const char *key, cadre_fail *why) {
    const json *text = json_get(v, key);
    if (!text || text->kind != JSON_TEXT) return json_fail(doc, v, why, "has no text %s", key);
    s->text = mem_copy_text(text->text, text->len);
    s->len = text->len;
    return s->text ? CADRE_OK : tok_no_memory(why);
}

static cadre_err read_replace(tok_normals *l, tok_normal *s, const json_doc *doc, const json *v, cadre_fail *why) {
    const json *pattern = json_get(v, "pattern");
    if (!pattern) return json_fail(doc, v, why, "has no pattern");
    cadre_err err = tok_pattern_read(l->mem, doc, pattern, &s->pattern, why);
    return err ? err : read_text(s, doc, v, "content", why);
}

static cadre_err read_strip(tok_normal *s, const json_doc *doc, const json *v, cadre_fail *why) {
    cadre_err err = json_flag(doc, v, "strip_left", false, &s->left, why);
    return err ? err : json_flag(doc, v, "strip_right", false, &s->right, why);
}

static cadre_err add_step(void *to, const json_doc *doc, const json *v, const char *type, cadre_fail *why) {
    tok_normals *l = to;
    if (l->n == TOK_STEPS_MAX) return json_refuse(doc, v, why, "is step %d, at most %d are supported", l->n + 1, l->n);
    tok_normal *s = &l->step[l->n++];
    if (!strcmp(type, "NFC")) {
        s->kind = NORMAL_NFC;
        return CADRE_OK;
    }
    if (!strcmp(type, "Lowercase")) {
        s->kind = NORMAL_LOWERCASE;
        return CADRE_OK;
    }
    if (!strcmp(type, "Prepend")) {
        s->kind = NORMAL_PREPEND;
        return read_text(s, doc, v, "prepend", why);
    }
    if (!strcmp(type, "Replace")) {
        s->kind = NORMAL_REPLACE;
        return read_replace(l, s, doc, v, why);
    }
    if (!strcmp(type, "Strip")) {
        s->kind = NORMAL_STRIP;
        return read_strip(s, doc, v, why);
    }
    return json_refuse(doc, v, why, "is the normalizer \"%.60s\", which is not supported", type);
}

cadre_err tok_normals_read(tok_normals *l, const json_doc *doc, const json *v, cadre_fail *why) {
    return tok_steps_walk(l, doc, v, "normalizers", add_step, why);
}

void tok_normals_done(tok_normals *l) {
    for (int i = 0; i < l->n; i++) {
        tok_pattern_done(&l->step[i].pattern);
        mem_free(l->step[i].text);
    }
    l->n = 0;
}

/* ---- running: each step appends its result to an empty buffer ---- */

static bool lowercase(tok_text *to, const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    int n;
    for (; p < end; p += n) {
        uint32_t cp = utf8_decode(p, end, &n);
        if (!tok_text_room(to, 4)) return false;
        if (cp == 0x130) { /* the only one whose lower case is two characters */
            memcpy(to->p + to->len, "i\xCC\x87", 3);
            to->len += 3;
        } else {
            to->len += (size_t)utf8_encode((uint32_t)utf8proc_tolower((int32_t)cp), to->p + to->len);
        }
    }
    return true;
}

static bool strip(const tok_normal *s, tok_text *to, const char *text, size_t len, bool *cut) {
    size_t start = s->left ? tok_space_after(text, 0, len) : 0;
    size_t end = s->right ? tok_space_before(text, start, len) : len;
    *cut |= start > 0;
    return tok_text_add(to, text + start, end - start);
}

cadre_err tok_replace(const tok_pattern *p, const char *content, size_t content_len, tok_matcher *m, const char *text,
                      size_t len, tok_text *to, bool *cut, cadre_fail *why) {
    tok_finder f = {.pattern = p, .text = text, .len = len};
    tok_piece match;
    size_t done = 0;
    bool found = len > 0;
    while (found) {
        cadre_err err = tok_find_next(m, &f, &match, &found, why);
        if (err) return err;
        if (!found) break;
        if (!tok_text_add(to, text + done, match.start - done) || !tok_text_add(to, content, content_len))
            return tok_no_memory(why);
        if (!match.start && match.end && !content_len) *cut = true;
        done = match.end;
    }
    return tok_text_add(to, text + done, len - done) ? CADRE_OK : tok_no_memory(why);
}

static cadre_err run_step(const tok_normal *s, tok_matcher *m, const char *text, size_t len, tok_text *to, bool *cut,
                          cadre_fail *why) {
    bool ok = true;
    switch (s->kind) {
    case NORMAL_NFC:
        ok = tok_nfc(to, text, len);
        break;
    case NORMAL_LOWERCASE:
        ok = lowercase(to, text, len);
        break;
    case NORMAL_STRIP:
        ok = strip(s, to, text, len, cut);
        break;
    case NORMAL_PREPEND:
        ok = !len || (tok_text_add(to, s->text, s->len) && tok_text_add(to, text, len));
        break;
    case NORMAL_REPLACE:
        return tok_replace(&s->pattern, s->text, s->len, m, text, len, to, cut, why);
    }
    return ok ? CADRE_OK : tok_no_memory(why);
}

cadre_err tok_normalize(const tok_normals *l, tok_matcher *m, const char *text, size_t len, tok_text buffer[2],
                        const char **out, size_t *out_len, bool *cut, cadre_fail *why) {
    *cut = false;
    for (int i = 0; i < l->n; i++) {
        tok_text *to = &buffer[i % 2];
        to->len = 0;
        cadre_err err = run_step(&l->step[i], m, text, len, to, cut, why);
        if (err) return err;
        text = to->p ? to->p : "";
        len = to->len;
    }
    *out = text;
    *out_len = len;
    return CADRE_OK;
}
