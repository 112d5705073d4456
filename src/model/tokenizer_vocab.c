/* tokenizer_vocab.c: the model's tokens and merges, read once into tables.
 *
 *   token[id] -> bytes in text      slot[hash of bytes] -> id      merge[hash of (left, right)] -> rank, id
 */
#include "model/tokenizer_parts.h"
#include <stdio.h>
#include <string.h>

enum { MERGES_MAX = 1 << 22 };

/* ---- look-up ---- */

static uint64_t hash_bytes(uint64_t seed, const char *p, size_t len, bool raw) {
    uint64_t h = seed + len * 2 + raw;
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 32;
    }
    uint64_t w = 0;
    if (len) memcpy(&w, p, len);
    return (h ^ w) * 0xBF58476D1CE4E5B9u;
}

/* The slot of these bytes, or the free one where they would go. */
static tok_slot *find_slot(const tok_vocab *v, const char *p, size_t len, bool raw, uint32_t *hash) {
    *hash = tok_hash(v->seed, hash_bytes(v->seed, p, len, raw));
    tok_slot *s = &v->slot[*hash & v->slot_mask];
    while (s->taken) {
        const tok_token *t = &v->token[s->taken - 1];
        bool same = s->hash == *hash && t->len == len && !(t->flags & TOKEN_RAW) == !raw;
        if (same && (!len || !memcmp(v->text.p + t->start, p, len))) break;
        s = s == v->slot + v->slot_mask ? v->slot : s + 1;
    }
    return s;
}

static int32_t find(const tok_vocab *v, const char *p, size_t len, bool raw) {
    uint32_t hash;
    return v->slot ? (int32_t)find_slot(v, p, len, raw, &hash)->taken - 1 : -1;
}

int32_t tok_vocab_find_bytes(const tok_vocab *v, const char *bytes, size_t len) {
    return find(v, bytes, len, false);
}

int32_t tok_vocab_find(const tok_vocab *v, const char *text, size_t len) {
    char small[256];
    if (!v->bytes) return find(v, text, len, false);
    tok_text bytes = {small, 0, sizeof small};
    bool in = true;
    if (len > sizeof small) bytes = (tok_text){NULL, 0, 0};
    int32_t id = -1;
    if (tok_alphabet_read(&bytes, text, len, &in))
        id = in ? find(v, bytes.p, bytes.len, false) : find(v, text, len, true);
    if (bytes.p != small) mem_free(bytes.p);
    return id;
}

/* ---- tokens ---- */

bool tok_vocab_size(tok_vocab *v, int size) {
    if (size <= v->size) return true;
    if (!tok_grow((void **)&v->token, &v->cap, (size_t)size, sizeof *v->token)) return false;
    memset(v->token + v->size, 0, (size_t)(size - v->size) * sizeof *v->token);
    v->size = size;
    return true;
}

static cadre_err check_ids(tok_vocab *v, const json_doc *doc, const json *vocab, cadre_fail *why) {
    int64_t most = -1;
    for (const json *m = vocab->child; m; m = m->next) {
        if (m->kind != JSON_NUMBER || !m->whole || m->integer < 0 || m->integer > TOK_ID_MAX)
            return json_fail(doc, m, why, "is no id, expected a whole number in 0..%d", TOK_ID_MAX);
        if (m->integer > most) most = m->integer;
    }
    uint32_t slots = 16;
    while (slots < (uint32_t)vocab->count * 2u) slots *= 2;
    v->slot = mem_new_array(slots, sizeof *v->slot);
    v->slot_mask = slots - 1;
    v->self = mem_new((size_t)(most + 1));
    return v->slot && v->self && tok_vocab_size(v, (int)most + 1) ? CADRE_OK : tok_no_memory(why);
}

static cadre_err read_token(tok_vocab *v, const json_doc *doc, const json *m, cadre_fail *why) {
    tok_token *t = &v->token[m->integer];
    size_t start = v->text.len;
    uint32_t hash;
    bool in = true;
    if (t->flags) return json_fail(doc, m, why, "is id %d, which another token has", (int)m->integer);
    if (v->bytes && !tok_alphabet_read(&v->text, m->key, m->key_len, &in)) return tok_no_memory(why);
    if ((!v->bytes || !in) && !tok_text_add(&v->text, m->key, m->key_len)) return tok_no_memory(why);
    t->start = (uint32_t)start;
    t->len = (uint32_t)(v->text.len - start);
    if (t->len > v->longest) v->longest = t->len;
    t->flags = (uint8_t)(TOKEN_KNOWN | (in ? 0 : TOKEN_RAW));
    tok_slot *s = find_slot(v, v->text.p + start, t->len, !in, &hash);
    *s = (tok_slot){hash, (uint32_t)m->integer + 1};
    return CADRE_OK;
}

static void read_single(tok_vocab *v) {
    char text[8];
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        v->byte[i] = tok_vocab_find_bytes(v, &c, 1);
        snprintf(text, sizeof text, "<0x%02X>", i);
        v->fallback[i] = tok_vocab_find(v, text, 6);
    }
}

static cadre_err read_tokens(tok_vocab *v, const json_doc *doc, const json *model, cadre_fail *why) {
    const json *vocab = json_get(model, "vocab");
    if (!vocab || vocab->kind != JSON_OBJECT)
        return json_fail(doc, vocab ? vocab : model, why, "needs an object vocab");
    cadre_err err = check_ids(v, doc, vocab, why);
    for (const json *m = vocab->child; m && !err; m = m->next) err = read_token(v, doc, m, why);
    if (!err) read_single(v);
    return err;
}

/* ---- merges ---- */

/* The two texts of a merge in either spelling. */
typedef struct halves {
    const char *left, *right;
    size_t left_len, right_len;
} halves;

static cadre_err read_halves(const json_doc *doc, const json *m, halves *h, cadre_fail *why) {
    if (m->kind == JSON_ARRAY) {
        const json *a = m->child, *b = a ? a->next : NULL;
        if (m->count != 2 || a->kind != JSON_TEXT || b->kind != JSON_TEXT)
            return json_fail(doc, m, why, "is no merge, expected two texts");
        *h = (halves){a->text, b->text, a->len, b->len};
        return CADRE_OK;
    }
    if (m->kind != JSON_TEXT) return json_fail(doc, m, why, "is no merge, expected \"A B\" or [\"A\", \"B\"]");
    const char *gap = memchr(m->text, ' ', m->len);
    size_t left = gap ? (size_t)(gap - m->text) : 0, right = gap ? m->len - left - 1 : 0;
    if (!gap || memchr(gap + 1, ' ', right))
        return json_fail(doc, m, why, "is \"%.60s\", expected two parts with one space between", m->text);
    *h = (halves){m->text, gap + 1, left, right};
    return CADRE_OK;
}

/* The id of both texts together; *known false: there is none. */
static bool find_joined(const tok_vocab *v, const halves *h, int32_t left, int32_t right, tok_text *tmp, int32_t *id) {
    const tok_token *a = &v->token[left], *b = &v->token[right];
    bool raw = (a->flags | b->flags) & TOKEN_RAW, ok;
    tmp->len = 0;
    if (raw)
        ok = tok_text_add(tmp, h->left, h->left_len) && tok_text_add(tmp, h->right, h->right_len);
    else
        ok = tok_text_add(tmp, v->text.p + a->start, a->len) && tok_text_add(tmp, v->text.p + b->start, b->len);
    if (ok) *id = raw ? tok_vocab_find(v, tmp->p, tmp->len) : tok_vocab_find_bytes(v, tmp->p, tmp->len);
    return ok;
}

/* Of two equal merges the later counts. */
static void put_merge(tok_vocab *v, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t i = tok_hash(v->seed, pair) & v->merge_mask;
    while (v->merge[i].pair != UINT64_MAX && v->merge[i].pair != pair) i = (i + 1) & v->merge_mask;
    v->merge[i] = (tok_merge){pair, rank, (uint32_t)id};
}

/* How much of a text a message shows. */
static int shown(size_t len) {
    return len < 60 ? (int)len : 60;
}

static cadre_err read_merge(tok_vocab *v, const json_doc *doc, const json *m, uint32_t rank, tok_text *tmp,
                            cadre_fail *why) {
    halves h = {NULL, NULL, 0, 0};
    int32_t id = -1;
    cadre_err err = read_halves(doc, m, &h, why);
    if (err) return err;
    int32_t left = tok_vocab_find(v, h.left, h.left_len), right = tok_vocab_find(v, h.right, h.right_len);
    if (left < 0 || right < 0)
        return json_fail(doc, m, why, "merges \"%.*s\", which is not in the vocabulary",
                         shown(left < 0 ? h.left_len : h.right_len), left < 0 ? h.left : h.right);
    if (!find_joined(v, &h, left, right, tmp, &id)) return tok_no_memory(why);
    if (id < 0)
        return json_fail(doc, m, why, "makes \"%.*s%.*s\", which is not in the vocabulary", shown(h.left_len), h.left,
                         shown(h.right_len), h.right);
    put_merge(v, left, right, rank, id);
    return CADRE_OK;
}

static bool new_merges(tok_vocab *v, int count) {
    uint32_t size = 16;
    while (size < (uint32_t)count * 2u) size *= 2;
    v->merge = mem_new_array(size, sizeof *v->merge);
    v->merge_mask = size - 1;
    for (uint32_t i = 0; v->merge && i < size; i++) v->merge[i].pair = UINT64_MAX;
    return v->merge;
}

static cadre_err read_merges(tok_vocab *v, const json_doc *doc, const json *model, cadre_fail *why) {
    const json *merges = json_get(model, "merges");
    tok_text tmp = {NULL, 0, 0};
    uint32_t rank = 0;
    cadre_err err = CADRE_OK;
    if (!merges || merges->kind != JSON_ARRAY)
        return json_fail(doc, merges ? merges : model, why, "needs an array merges");
    if (merges->count > MERGES_MAX)
        return json_refuse(doc, merges, why, "has %d merges, at most %d are supported", merges->count, MERGES_MAX);
    if (!new_merges(v, merges->count)) return tok_no_memory(why);
    for (const json *m = merges->child; m && !err; m = m->next) {
        if (m->kind != merges->child->kind)
            err = json_fail(doc, m, why, "is spelled otherwise than the first merge");
        else if (m->kind != JSON_TEXT || strncmp(m->text, "#version", 8))
            err = read_merge(v, doc, m, rank++, &tmp, why);
    }
    mem_free(tmp.p);
    return err;
}

/* ---- the model ---- */

/* A member that must be absent, null or empty. */
static cadre_err need_empty(const json_doc *doc, const json *model, const char *key, cadre_fail *why) {
    const json *v = json_get(model, key);
    if (!v || v->kind == JSON_NULL || (v->kind == JSON_TEXT && !v->len)) return CADRE_OK;
    return json_refuse(doc, v, why, "is set, which is not supported");
}

static cadre_err read_flags(tok_vocab *v, const json_doc *doc, const json *model, cadre_fail *why) {
    double dropout = 0;
    cadre_err err = json_flag(doc, model, "fuse_unk", false, &v->fuse_unk, why);
    if (!err) err = json_flag(doc, model, "byte_fallback", false, &v->byte_fallback, why);
    if (!err) err = json_flag(doc, model, "ignore_merges", false, &v->ignore_merges, why);
    if (!err) err = need_empty(doc, model, "continuing_subword_prefix", why);
    if (!err) err = need_empty(doc, model, "end_of_word_suffix", why);
    if (!err) err = json_real(doc, model, "dropout", 0, 0, 1, &dropout, why);
    if (!err && dropout > 0)
        err = json_refuse(doc, json_get(model, "dropout"), why, "is not 0, which is not supported");
    return err;
}

static cadre_err read_unk(tok_vocab *v, const json_doc *doc, const json *model, cadre_fail *why) {
    const json *unk = json_get(model, "unk_token");
    v->unk = -1;
    if (!unk || unk->kind == JSON_NULL) return CADRE_OK;
    if (unk->kind != JSON_TEXT) return json_fail(doc, unk, why, "is no text, expected a token");
    v->unk = tok_vocab_find(v, unk->text, unk->len);
    v->unk_missing = v->unk < 0; /* an error when it is needed, as in the reference */
    return CADRE_OK;
}

static cadre_err check_type(const json_doc *doc, const json *model, cadre_fail *why) {
    const json *type = json_get(model, "type");
    if (!type || type->kind == JSON_NULL) return CADRE_OK; /* old files: merges tell */
    if (type->kind != JSON_TEXT) return json_fail(doc, type, why, "is no text, expected \"BPE\"");
    if (strcmp(type->text, "BPE"))
        return json_refuse(doc, type, why, "is \"%.60s\", only BPE is supported", type->text);
    return CADRE_OK;
}

cadre_err tok_vocab_read(tok_vocab *v, const json_doc *doc, const json *model, bool bytes, cadre_fail *why) {
    if (!model || model->kind != JSON_OBJECT)
        return json_fail(doc, model ? model : json_root(doc), why, "needs an object model");
    v->bytes = bytes;
    v->seed = clock_ns() ^ (uintptr_t)v;
    cadre_err err = check_type(doc, model, why);
    if (!err) err = read_flags(v, doc, model, why);
    if (!err) err = read_tokens(v, doc, model, why);
    if (!err) err = read_merges(v, doc, model, why);
    return err ? err : read_unk(v, doc, model, why);
}

void tok_vocab_done(tok_vocab *v) {
    mem_free(v->text.p);
    mem_free(v->token);
    mem_free(v->slot);
    mem_free(v->self);
    mem_free(v->merge);
}
