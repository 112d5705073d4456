/* tokenizer_added.c: added tokens: control tokens and whatever else is matched before the model sees the text.
 *
 * A set is sorted by text. Looking for the longest token at a place narrows the range of candidates byte by byte:
 *
 *   "<a>" "<a>b" "<c>"   at "<a>x":   '<' all   'a' first two   '>' first two, the first ends here   'x' none
 */
#include "model/tokenizer_parts.h"
#include <stdlib.h>
#include <string.h>

/* ---- sets ---- */

static int compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t n = a_len < b_len ? a_len : b_len;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

static int by_pattern(const void *x, const void *y) {
    const tok_added *a = *(const tok_added *const *)x, *b = *(const tok_added *const *)y;
    int c = compare(a->pattern, a->pattern_len, b->pattern, b->pattern_len);
    return c ? c : (a->id > b->id) - (a->id < b->id);
}

static int by_content(const void *x, const void *y) {
    const tok_added *a = *(const tok_added *const *)x, *b = *(const tok_added *const *)y;
    int c = compare(a->content, a->len, b->content, b->len);
    return c ? c : (a->id > b->id) - (a->id < b->id);
}

enum which { RAW, NORMAL, ALL };

static bool build(const tok_addeds *l, tok_added_set *s, enum which which) {
    s->by = mem_new_array((size_t)l->n + 1, sizeof *s->by);
    s->n = 0;
    if (!s->by) return false;
    for (int i = 0; i < l->n; i++) {
        const tok_added *t = &l->token[i];
        bool in = which == ALL || (t->normalized == (which == NORMAL) && t->pattern_len);
        if (in) s->by[s->n++] = t;
    }
    qsort(s->by, (size_t)s->n, sizeof *s->by, which == ALL ? by_content : by_pattern);
    if (which == ALL) return true;
    for (int i = 0; i < s->n; i++) s->first[(unsigned char)s->by[i]->pattern[0] + 1]++;
    for (int c = 0; c < 256; c++) s->first[c + 1] += s->first[c];
    return true;
}

const tok_added *tok_added_named(const tok_addeds *l, const char *content, size_t len) {
    const tok_added_set *s = &l->content;
    int low = 0, high = s->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        int c = compare(s->by[mid]->content, s->by[mid]->len, content, len);
        if (!c) return s->by[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* ---- reading ---- */

static cadre_err read_flags(tok_added *t, const json_doc *doc, const json *v, cadre_fail *why) {
    cadre_err err = json_flag(doc, v, "special", false, &t->special, why);
    if (!err) err = json_flag(doc, v, "normalized", !t->special, &t->normalized, why);
    if (!err) err = json_flag(doc, v, "single_word", false, &t->single_word, why);
    if (!err) err = json_flag(doc, v, "lstrip", false, &t->left, why);
    return err ? err : json_flag(doc, v, "rstrip", false, &t->right, why);
}

static cadre_err content_of(const json_doc *doc, const json *v, const json **out, cadre_fail *why) {
    const json *content = json_get(v, "content");
    if (!content || content->kind != JSON_TEXT)
        return json_fail(doc, v, why, "is no added token: it has no text content");
    if (content->len > TOK_ADDED_LEN_MAX)
        return json_refuse(doc, content, why, "is longer than %d bytes, which is not supported", TOK_ADDED_LEN_MAX);
    *out = content;
    return CADRE_OK;
}

/* What the token is after the normalizer. */
static cadre_err normalize(tokenizer *t, tok_added *a, cadre_fail *why) {
    tok_matcher m;
    tok_text buffer[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    const char *text;
    bool cut;
    a->pattern = a->content;
    a->pattern_len = a->len;
    if (!a->normalized || !t->normal.n) return CADRE_OK;
    cadre_err err = tok_matcher_init(&m, t->mem, a->len, why);
    if (!err) err = tok_normalize(&t->normal, &m, a->content, a->len, buffer, &text, &a->pattern_len, &cut, why);
    if (!err) {
        a->pattern = mem_copy_text(text, a->pattern_len);
        if (!a->pattern) err = tok_no_memory(why);
    }
    if (err) a->pattern = a->content;
    tok_matcher_done(&m);
    mem_free(buffer[0].p);
    mem_free(buffer[1].p);
    return err;
}

static cadre_err add(tokenizer *t, const json_doc *doc, const json *v, const json *content, int32_t id,
                     cadre_fail *why) {
    tok_addeds *l = &t->added;
    tok_added *a = &l->token[l->n];
    *a = (tok_added){.id = id, .len = content->len};
    cadre_err err = read_flags(a, doc, v, why);
    if (err) return err;
    if (!tok_vocab_size(&t->vocab, id + 1)) return tok_no_memory(why);
    if (!(a->content = mem_copy_text(content->text, content->len))) return tok_no_memory(why);
    a->pattern = a->content;
    l->n++;
    t->vocab.token[id].flags |= (uint8_t)(TOKEN_KNOWN | TOKEN_ADDED | (a->special ? TOKEN_SPECIAL : 0));
    return normalize(t, a, why);
}

static cadre_err read_one(tokenizer *t, const json_doc *doc, const json *v, cadre_fail *why) {
    int64_t id;
    const json *content = NULL;
    cadre_err err = content_of(doc, v, &content, why);
    if (!err) err = json_int(doc, v, "id", -1, 0, TOK_ID_MAX, &id, why);
    if (err) return err;
    if (!content->len) return CADRE_OK; /* ignored, as in the reference */
    if (!json_get(v, "id")) return json_fail(doc, v, why, "is no added token: it has no id");
    int32_t in = tok_vocab_find(&t->vocab, content->text, content->len);
    if (in >= 0 && in != id)
        return json_fail(doc, v, why, "gives \"%.60s\" id %d, the vocabulary gives it %d", content->text, (int)id, in);
    if (in < 0 && tok_known(&t->vocab, id))
        return json_fail(doc, v, why, "gives \"%.60s\" id %d, which another token has", content->text, (int)id);
    if (tok_known(&t->vocab, id) && (t->vocab.token[id].flags & TOKEN_ADDED))
        return json_fail(doc, v, why, "gives id %d a second time", (int)id);
    return add(t, doc, v, content, (int32_t)id, why);
}

/* Builds the set of all; equal contents lie side by side in it. `at` is named in the message. */
static cadre_err build_all(tok_addeds *l, const json_doc *doc, const json *at, cadre_fail *why) {
    tok_added_set *s = &l->content;
    mem_free(s->by);
    if (!build(l, s, ALL)) return tok_no_memory(why);
    for (int i = 1; i < s->n; i++)
        if (!compare(s->by[i - 1]->content, s->by[i - 1]->len, s->by[i]->content, s->by[i]->len))
            return json_fail(doc, at, why, "has \"%.60s\" twice, as %d and as %d", s->by[i]->content,
                             (int)s->by[i - 1]->id, (int)s->by[i]->id);
    return CADRE_OK;
}

/* ---- tokenizer_config.json: what it adds; where the two disagree, tokenizer.json wins ---- */

static bool read_id(const json *v, int32_t *id) {
    int64_t n = 0;
    if (!v->key_len || v->key_len > 7) return false;
    for (size_t i = 0; i < v->key_len; i++) {
        if (v->key[i] < '0' || v->key[i] > '9') return false;
        n = n * 10 + v->key[i] - '0';
    }
    *id = (int32_t)n;
    return n <= TOK_ID_MAX;
}

static cadre_err read_extra(tokenizer *t, const json_doc *doc, const json *v, cadre_fail *why) {
    int32_t id = 0;
    const json *content = NULL;
    cadre_err err = content_of(doc, v, &content, why);
    if (err) return err;
    if (!read_id(v, &id)) return json_fail(doc, v, why, "is no id, expected a whole number in 0..%d", TOK_ID_MAX);
    if (!content->len) return CADRE_OK;
    const tok_added *known = tok_added_named(&t->added, content->text, content->len);
    int32_t in = known ? known->id : tok_vocab_find(&t->vocab, content->text, content->len);
    if (known && known->id == id) return CADRE_OK;
    if ((in >= 0 && in != id) || (in < 0 && tok_known(&t->vocab, id))) {
        log_once("%.200s gives token \"%.60s\" id %d, tokenizer.json says otherwise and wins", json_name(doc),
                 content->text, (int)id);
        return CADRE_OK;
    }
    return add(t, doc, v, content, id, why);
}

static cadre_err read_config(tokenizer *t, const json_doc *config, const json *extra, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    for (const json *v = extra->child; v && !err; v = v->next) err = read_extra(t, config, v, why);
    return err ? err : build_all(&t->added, config, extra, why);
}

static cadre_err need_kind(const json_doc *doc, const json **v, json_kind kind, cadre_fail *why) {
    if (*v && (*v)->kind == JSON_NULL) *v = NULL;
    if (!*v || (*v)->kind == kind) return CADRE_OK;
    return json_fail(doc, *v, why, "is no %s", kind == JSON_ARRAY ? "array" : "object");
}

cadre_err tok_addeds_read(tokenizer *t, const json_doc *doc, const json_doc *config, cadre_fail *why) {
    const json *list = json_get(json_root(doc), "added_tokens");
    const json *extra = config ? json_get(json_root(config), "added_tokens_decoder") : NULL;
    tok_addeds *l = &t->added;
    cadre_err err = need_kind(doc, &list, JSON_ARRAY, why);
    if (!err) err = need_kind(config, &extra, JSON_OBJECT, why);
    if (err) return err;
    /* Sets point to tokens: make room for all now, so that they stay where they are. */
    size_t count = (size_t)(list ? list->count : 0) + (size_t)(extra ? extra->count : 0);
    if (!tok_grow((void **)&l->token, &l->cap, count, sizeof *l->token)) return tok_no_memory(why);
    for (const json *v = list ? list->child : NULL; v && !err; v = v->next) err = read_one(t, doc, v, why);
    if (!err) err = build_all(l, doc, list, why);
    if (!err && extra) err = read_config(t, config, extra, why);
    if (err) return err;
    return build(l, &l->raw, RAW) && build(l, &l->normal, NORMAL) ? CADRE_OK : tok_no_memory(why);
}

void tok_addeds_done(tok_addeds *l) {
    for (int i = 0; i < l->n; i++) {
        if (l->token[i].pattern != l->token[i].content) mem_free(l->token[i].pattern);
        mem_free(l->token[i].content);
    }
    mem_free(l->token);
    mem_free(l->raw.by);
    mem_free(l->normal.by);
    mem_free(l->content.by);
}

/* ---- scanning ---- */

/* First of by[low..high) whose byte at `depth` is not below c. All are longer than depth. */
static int lower(const tok_added_set *s, int low, int high, size_t depth, int c) {
    while (low < high) {
        int mid = low + (high - low) / 2;
        if ((unsigned char)s->by[mid]->pattern[depth] < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const tok_added *longest_at(const tok_added_set *s, const char *p, size_t len) {
    int low = s->first[(unsigned char)*p], high = s->first[(unsigned char)*p + 1];
    const tok_added *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (s->by[low]->pattern_len == depth) best = s->by[low];
        while (low < high && s->by[low]->pattern_len == depth) low++;
        if (depth == len) break;
        low = lower(s, low, high, depth, (unsigned char)p[depth]);
        high = lower(s, low, high, depth, (unsigned char)p[depth] + 1);
    }
    return best;
}

static bool word_before(const char *text, size_t at) {
    const unsigned char *p = (const unsigned char *)text;
    size_t i = at;
    int n;
    if (!at) return false;
    do i--;
    while (i && (p[i] & 0xC0) == 0x80);
    return tok_is_word(utf8_decode(p + i, p + at, &n));
}

static bool word_after(const char *text, size_t at, size_t len) {
    const unsigned char *p = (const unsigned char *)text;
    int n;
    return at < len && tok_is_word(utf8_decode(p + at, p + len, &n));
}

/* A run of spaces is walked once, however many tokens end in it. */
static size_t spaces_end(tok_scan *s, size_t at) {
    if (at < s->space_start || at >= s->space_end) {
        s->space_start = at;
        s->space_end = tok_space_after(s->text, at, s->len);
    }
    return s->space_end;
}

/* A token that has swallowed the spaces to its right may be followed by one that lies in them: both are given, and
 * `done` may step back. That is the reference's way, and ids depend on it. */
const tok_added *tok_scan_next(tok_scan *s, tok_piece *before) {
    while (s->at < s->len) {
        const tok_added *a = longest_at(s->set, s->text + s->at, s->len - s->at);
        size_t start = s->at, end = start + (a ? a->pattern_len : 1);
        s->at = end;
        if (!a || (a->special && !s->special)) continue;
        if (a->single_word && (word_before(s->text, start) || word_after(s->text, end, s->len))) continue;
        if (a->left && start > s->done) start = tok_space_before(s->text, s->done, start);
        if (a->right) end = spaces_end(s, end);
        *before = (tok_piece){s->done, start > s->done ? start : s->done};
        s->done = end;
        return a;
    }
    *before = (tok_piece){s->done, s->len};
    s->done = s->len;
    return NULL;
}
