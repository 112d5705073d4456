/* tokenizer_pattern.c: literal texts and regular expressions, compiled once, searched by many threads.
 *
 * Limits make a hostile pattern or text an error, never a wrong answer: PCRE2 counts the steps of one attempt and its
 * memory; and since attempts from every position add up (a pattern may be quadratic without backtracking much), a
 * search moves in windows of START attempts with a look at the clock between them.
 */
#include "model/tokenizer_onig.h"
#include <stdio.h>
#include <string.h>

enum {
    PATTERN_MAX = 64 << 10,
    STEPS = 10000000, /* of one attempt; grows with the text, for one match may span it */
    HEAP_KIB = 64 << 10,
    WINDOW = 256,
    LOOK = 16 /* searches between two looks at the clock */
};
static const uint64_t time_base = 3000000000u, time_per_byte = 3000; /* ns */

/* ---- compiling ---- */

/* text is in PCRE2's language. */
static cadre_err compile(pcre2_general_context *mem, const char *text, size_t len, tok_pattern *p, const json_doc *doc,
                         const json *at, cadre_fail *why) {
    /* Ruby's ^ and $ always mean lines. */
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT |
                       PCRE2_NO_AUTO_CAPTURE;
    char message[160];
    int code;
    size_t offset;
    pcre2_compile_context *c = pcre2_compile_context_create(mem);
    if (!c) return tok_no_memory(why);
    pcre2_set_newline(c, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(c, PATTERN_MAX);
    p->code = pcre2_compile((PCRE2_SPTR)text, len, options, &code, &offset, c);
    pcre2_compile_context_free(c);
    if (!p->code && code == PCRE2_ERROR_HEAP_FAILED) return tok_no_memory(why);
    if (!p->code) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return json_fail(doc, at, why, "does not compile: %s (at byte %zu of its PCRE2 form)", message, offset);
    }
    p->jit = !pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it: slower, the same matches */
    return CADRE_OK;
}

cadre_err tok_pattern_regex(pcre2_general_context *mem, const char *regex, size_t len, tok_pattern *p,
                            const json_doc *doc, const json *at, cadre_fail *why) {
    tok_text text = {NULL, 0, 0};
    char what[80];
    if (len > PATTERN_MAX) return json_fail(doc, at, why, "is longer than %d bytes", PATTERN_MAX);
    p->trailing_space = len == 4 && !memcmp(regex, "\\s+$", 4);
    cadre_err err = tok_onig(regex, len, &text, what);
    if (err == CADRE_NOMEM) err = tok_no_memory(why);
    if (err == CADRE_UNSUPPORTED) err = json_refuse(doc, at, why, "is a pattern with %s, which is not supported", what);
    if (!err) err = compile(mem, text.p ? text.p : "", text.len, p, doc, at, why);
    mem_free(text.p);
    return err;
}

cadre_err tok_pattern_literal(const char *text, size_t len, tok_pattern *p, cadre_fail *why) {
    p->literal = mem_copy_text(text, len);
    p->literal_len = len;
    return p->literal ? CADRE_OK : tok_no_memory(why);
}

cadre_err tok_pattern_read(pcre2_general_context *mem, const json_doc *doc, const json *v, tok_pattern *p,
                           cadre_fail *why) {
    const json *regex = json_get(v, "Regex"), *text = json_get(v, "String");
    const json *one = regex ? regex : text;
    if (!one || (regex && text) || one->kind != JSON_TEXT)
        return json_fail(doc, v, why, "is no pattern, expected {\"Regex\": text} or {\"String\": text}");
    if (regex) return tok_pattern_regex(mem, one->text, one->len, p, doc, one, why);
    if (!one->len) return json_fail(doc, one, why, "is an empty text to look for");
    return tok_pattern_literal(one->text, one->len, p, why);
}

void tok_pattern_done(tok_pattern *p) {
    mem_free(p->literal);
    pcre2_code_free(p->code);
    *p = (tok_pattern){0};
}

/* ---- one thread's part ---- */

cadre_err tok_matcher_init(tok_matcher *m, pcre2_general_context *mem, size_t text_len, cadre_fail *why) {
    size_t steps = text_len > UINT32_MAX / 64 ? UINT32_MAX : text_len * 64;
    *m = (tok_matcher){0};
    m->data = pcre2_match_data_create(1, mem);
    m->context = pcre2_match_context_create(mem);
    if (!m->data || !m->context) return tok_no_memory(why);
    pcre2_set_match_limit(m->context, steps > STEPS ? (uint32_t)steps : STEPS);
    pcre2_set_heap_limit(m->context, HEAP_KIB);
    m->deadline = clock_ns() + time_base + text_len * time_per_byte;
    return CADRE_OK;
}

void tok_matcher_done(tok_matcher *m) {
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    *m = (tok_matcher){0};
}

/* ---- searching ---- */

static cadre_err too_hard(const char *reason, cadre_fail *why) {
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "tokenizer: a pattern of the tokenizer can't cope with this text: %s",
                          reason);
}

static bool continues(char c) {
    return ((unsigned char)c & 0xC0) == 0x80;
}

static size_t next_char(const tok_finder *f, size_t at) {
    do at++;
    while (at < f->len && continues(f->text[at]));
    return at;
}

/* One call of PCRE2: a match that starts in at..limit. */
static int call(tok_matcher *m, const tok_finder *f, size_t at, size_t limit) {
    const tok_pattern *p = f->pattern;
    PCRE2_SPTR text = (PCRE2_SPTR)f->text;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    pcre2_set_offset_limit(m->context, limit);
    if (p->jit) rc = pcre2_jit_match(p->code, text, f->len, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(p->code, text, f->len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
}

static cadre_err search_code(tok_matcher *m, const tok_finder *f, size_t at, tok_piece *match, bool *found,
                             cadre_fail *why) {
    char text[160];
    for (*found = false; at <= f->len;) {
        size_t limit = f->len - at > WINDOW ? at + WINDOW : f->len;
        while (limit < f->len && continues(f->text[limit])) limit++;
        if (m->calls++ % LOOK == 0 && clock_ns() > m->deadline) return too_hard("it takes too long", why);
        int rc = call(m, f, at, limit);
        if (rc >= 0) {
            const size_t *at_of = pcre2_get_ovector_pointer(m->data);
            *match = (tok_piece){at_of[0], at_of[1]};
            *found = true;
            return CADRE_OK;
        }
        if (rc == PCRE2_ERROR_NOMEMORY) return tok_no_memory(why);
        if (rc != PCRE2_ERROR_NOMATCH) {
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)text, sizeof text);
            return too_hard(text, why);
        }
        at = next_char(f, limit);
    }
    return CADRE_OK;
}

/* End of the run of spaces at `at`; *line: the last newline in it that isn't its first byte, 0 if there is none. */
static size_t space_run(const tok_finder *f, size_t at, size_t *line) {
    const unsigned char *text = (const unsigned char *)f->text;
    int n;
    *line = 0;
    for (size_t i = at; i < f->len; i += (size_t)n) {
        if (!tok_is_space(utf8_decode(text + i, text + f->len, &n))) return i;
        if (text[i] == '\n' && i > at) *line = i;
    }
    return f->len;
}

/* \s+$: a run of spaces up to the end of the text, or to the last newline in it. */
static bool search_trailing(const tok_finder *f, size_t at, tok_piece *match) {
    while (at < f->len) {
        size_t line, end = space_run(f, at, &line);
        if (end > at && (end == f->len || line)) {
            *match = (tok_piece){at, end == f->len ? end : line};
            return true;
        }
        at = end > at ? end : next_char(f, at);
    }
    return false;
}

static bool search_literal(const tok_finder *f, size_t at, tok_piece *match) {
    const tok_pattern *p = f->pattern;
    const char *hit = at < f->len ? memmem(f->text + at, f->len - at, p->literal, p->literal_len) : NULL;
    if (hit) *match = (tok_piece){(size_t)(hit - f->text), (size_t)(hit - f->text) + p->literal_len};
    return hit;
}

cadre_err tok_find_next(tok_matcher *m, tok_finder *f, tok_piece *match, bool *found, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    *found = false;
    while (f->at <= f->len) {
        if (f->pattern->literal)
            *found = search_literal(f, f->at, match);
        else if (f->pattern->trailing_space)
            *found = search_trailing(f, f->at, match);
        else
            err = search_code(m, f, f->at, match, found, why);
        if (err || !*found) return err;
        bool again = match->start == match->end && f->has_last && f->last == match->end;
        f->at = again ? next_char(f, f->at) : match->end;
        f->last = again ? f->last : match->end;
        f->has_last = true;
        if (!again) return CADRE_OK;
        *found = false;
    }
    return CADRE_OK;
}
