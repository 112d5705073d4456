/* tokenizer.c: opening a tokenizer, and the path of a text through its parts. The parts are in tokenizer_*.c. */
#include "model/tokenizer_parts.h"
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX = 16 << 20, PATH_ROOM = 4096 };

/* ---- the post-processor ---- */

/* A growing list of ids. */
static bool append(int32_t **list, int *n, int32_t id) {
    void *to = mem_resize(*list, (size_t)*n * sizeof **list, (size_t)(*n + 1) * sizeof **list);
    if (!to) return false;
    *list = to;
    (*list)[(*n)++] = id;
    return true;
}

/* The ids of one special token of a template go in front or behind. A template inside a Sequence wraps what the one
 * before it made: its `before` ids come first. */
static cadre_err add_special(tokenizer *t, const json_doc *doc, const json *v, const json *name, bool behind,
                             int32_t **front, int *fronts, cadre_fail *why) {
    const json *token = json_get_n(json_get(v, "special_tokens"), name->text, name->len), *ids = json_get(token, "ids");
    if (!ids || ids->kind != JSON_ARRAY) return json_fail(doc, name, why, "is not among special_tokens with its ids");
    for (const json *id = ids->child; id; id = id->next) {
        if (id->kind != JSON_NUMBER || !id->whole || !tok_known(&t->vocab, id->integer))
            return json_fail(doc, id, why, "is not the id of a token");
        bool ok =
            behind ? append(&t->after, &t->afters, (int32_t)id->integer) : append(front, fronts, (int32_t)id->integer);
        if (!ok) return tok_no_memory(why);
    }
    return CADRE_OK;
}

static cadre_err read_piece(tokenizer *t, const json_doc *doc, const json *v, const json *piece, bool *seen,
                            int32_t **front, int *fronts, cadre_fail *why) {
    const json *special = json_get(piece, "SpecialToken"), *sequence = json_get(piece, "Sequence");
    const json *id = json_get(special ? special : sequence, "id");
    if (!id || id->kind != JSON_TEXT) return json_fail(doc, piece, why, "is neither a SpecialToken nor a Sequence");
    if (special) return add_special(t, doc, v, id, *seen, front, fronts, why);
    if (strcmp(id->text, "A") || *seen) return json_refuse(doc, piece, why, "is no single Sequence A");
    *seen = true;
    return CADRE_OK;
}

static cadre_err read_template(tokenizer *t, const json_doc *doc, const json *v, cadre_fail *why) {
    const json *single = json_get(v, "single");
    int32_t *front = NULL;
    int fronts = 0;
    bool seen = false;
    cadre_err err = CADRE_OK;
    if (!single || single->kind != JSON_ARRAY) return json_fail(doc, v, why, "has no array single");
    for (const json *p = single->child; p && !err; p = p->next)
        err = read_piece(t, doc, v, p, &seen, &front, &fronts, why);
    if (!err && !seen) err = json_fail(doc, single, why, "has no Sequence A");
    for (int i = 0; i < t->befores && !err; i++)
        if (!append(&front, &fronts, t->before[i])) err = tok_no_memory(why);
    if (err) {
        mem_free(front);
        return err;
    }
    mem_free(t->before);
    t->before = front;
    t->befores = fronts;
    return CADRE_OK;
}

static cadre_err add_processor(void *to, const json_doc *doc, const json *v, const char *type, cadre_fail *why) {
    if (!strcmp(type, "ByteLevel")) return CADRE_OK; /* moves offsets, which nobody asks for here */
    if (!strcmp(type, "TemplateProcessing")) return read_template(to, doc, v, why);
    return json_refuse(doc, v, why, "is the post-processor \"%.60s\", which is not supported", type);
}

/* ---- opening ---- */

static void *take(size_t size, void *ctx) {
    (void)ctx;
    return mem_new(size);
}

static void give(void *p, void *ctx) {
    (void)ctx;
    mem_free(p);
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    tok_vocab_done(&t->vocab);
    tok_addeds_done(&t->added);
    tok_normals_done(&t->normal);
    tok_splits_done(&t->split);
    tok_decoder_done(&t->decoder);
    mem_free(t->before);
    mem_free(t->after);
    pcre2_general_context_free(t->mem);
    mem_free(t);
}

static cadre_err check_version(const json_doc *doc, const json *root, cadre_fail *why) {
    const json *version = json_get(root, "version");
    if (root->kind != JSON_OBJECT) return json_fail(doc, root, why, "is no object");
    if (!version || version->kind == JSON_NULL || json_is(version, "1.0")) return CADRE_OK;
    return json_refuse(doc, version, why, "is not \"1.0\"");
}

static cadre_err read_all(tokenizer *t, const json_doc *doc, const json_doc *config, cadre_fail *why) {
    const json *root = json_root(doc);
    cadre_err err = check_version(doc, root, why);
    if (!err) err = tok_normals_read(&t->normal, doc, json_get(root, "normalizer"), why);
    if (!err) err = tok_splits_read(&t->split, doc, json_get(root, "pre_tokenizer"), why);
    if (!err) err = tok_decoder_read(&t->decoder, doc, json_get(root, "decoder"), why);
    if (!err) err = tok_vocab_read(&t->vocab, doc, json_get(root, "model"), t->split.bytes, why);
    if (!err) err = tok_addeds_read(t, doc, config, why);
    if (!err) err = tok_steps_walk(t, doc, json_get(root, "post_processor"), "processors", add_processor, why);
    return err ? err : tok_decoder_apply(t, why);
}

static cadre_err build(const json_doc *doc, const json_doc *config, tokenizer **out, cadre_fail *why) {
    tokenizer *t = mem_new(sizeof *t);
    if (!t) return tok_no_memory(why);
    t->mem = pcre2_general_context_create(take, give, NULL);
    t->normal.mem = t->split.mem = t->decoder.mem = t->mem;
    cadre_err err = t->mem ? read_all(t, doc, config, why) : tok_no_memory(why);
    if (err)
        tokenizer_close(t);
    else
        *out = t;
    return err;
}

static cadre_err open_files(const char *path, const char *config_path, tokenizer **out, cadre_fail *why) {
    json_doc *doc = NULL, *config = NULL;
    cadre_err err = json_read_file(path, TOK_FILE_MAX, &doc, why);
    if (!err && config_path) err = json_read_file(config_path, CONFIG_MAX, &config, why);
    if (!err) err = build(doc, config, out, why);
    json_free(doc);
    json_free(config);
    return err;
}

cadre_err tokenizer_open_file(const char *path, tokenizer **out, cadre_fail *why) {
    return open_files(path, NULL, out, why);
}

cadre_err tokenizer_open(const char *dir, tokenizer **out, cadre_fail *why) {
    char path[PATH_ROOM], config[PATH_ROOM], old[PATH_ROOM];
    if (!file_join(path, sizeof path, dir, "tokenizer.json") ||
        !file_join(config, sizeof config, dir, "tokenizer_config.json") ||
        !file_join(old, sizeof old, dir, "tokenizer.model"))
        return cadre_fail_set(why, CADRE_IO, "%.200s...: the path is too long", dir);
    if (!file_exists(path) && file_exists(old))
        return cadre_fail_set(why, CADRE_UNSUPPORTED,
                              "%.300s: a SentencePiece tokenizer.model without tokenizer.json is not supported", dir);
    return open_files(path, file_exists(config) ? config : NULL, out, why);
}

/* ---- asking ---- */

int tokenizer_size(const tokenizer *t) {
    return t->vocab.size;
}

bool tokenizer_knows(const tokenizer *t, int32_t id) {
    return tok_known(&t->vocab, id);
}

int32_t tokenizer_id(const tokenizer *t, const char *content, size_t len) {
    const tok_added *a = tok_added_named(&t->added, content, len);
    return a ? a->id : tok_vocab_find(&t->vocab, content, len);
}

/* ---- encoding ---- */

typedef struct run {
    const tokenizer *t;
    bool special;
    tok_ids ids;
    tok_matcher m;
    tok_text normal[2], bytes;
    tok_split_work split;
    tok_bpe bpe;
    cadre_fail *why;
} run;

/* A piece that the pre-tokenizer leaves alone. */
static cadre_err encode_piece(run *r, const char *p, size_t len) {
    bool in;
    if (!r->t->split.alphabet) return tok_bpe_run(&r->t->vocab, &r->bpe, p, len, &r->ids, r->why);
    r->bytes.len = 0;
    if (!tok_alphabet_read(&r->bytes, p, len, &in)) return tok_no_memory(r->why);
    return tok_bpe_run(&r->t->vocab, &r->bpe, r->bytes.p, r->bytes.len, &r->ids, r->why);
}

/* Text without added tokens, normalized. first: it begins where the user's text does. */
static cadre_err encode_plain(run *r, const char *p, size_t len, bool first) {
    cadre_err err = tok_split_run(&r->t->split, &r->m, p, len, first, &r->split, r->why);
    if (err) return err;
    const tok_pieces *l = r->split.pieces;
    for (size_t i = 0; i < l->n && !err; i++)
        err = encode_piece(r, r->split.result + l->p[i].start, l->p[i].end - l->p[i].start);
    return err;
}

/* Walks from added token to added token of a set; what lies between goes to `between`. */
static cadre_err walk(run *r, const tok_added_set *set, const char *p, size_t len, bool first,
                      cadre_err (*between)(run *, const char *, size_t, bool)) {
    tok_scan s = {.set = set, .text = p, .len = len, .special = r->special};
    const tok_added *a;
    cadre_err err = CADRE_OK;
    do {
        tok_piece gap;
        a = tok_scan_next(&s, &gap);
        if (gap.start < gap.end) err = between(r, p + gap.start, gap.end - gap.start, first && !gap.start);
        if (a && !err) tok_ids_add(&r->ids, a->id);
    } while (a && !err);
    return err;
}

static cadre_err encode_raw(run *r, const char *p, size_t len, bool first) {
    const char *text;
    size_t n;
    bool cut;
    cadre_err err = tok_normalize(&r->t->normal, &r->m, p, len, r->normal, &text, &n, &cut, r->why);
    return err ? err : walk(r, &r->t->added.normal, text, n, first && !cut, encode_plain);
}

static void add_all(run *r, const int32_t *id, int n) {
    for (int i = 0; i < n; i++) tok_ids_add(&r->ids, id[i]);
}

static cadre_err encode(run *r, const char *text, size_t len, bool add_special) {
    const tokenizer *t = r->t;
    cadre_err err = tok_matcher_init(&r->m, t->mem, len, r->why);
    if (err) return err;
    if (add_special) add_all(r, t->before, t->befores);
    err = walk(r, &t->added.raw, text, len, true, encode_raw);
    if (!err && add_special) add_all(r, t->after, t->afters);
    return err;
}

static void run_done(run *r) {
    tok_matcher_done(&r->m);
    tok_bpe_done(&r->bpe);
    tok_split_work_done(&r->split);
    mem_free(r->normal[0].p);
    mem_free(r->normal[1].p);
    mem_free(r->bytes.p);
}

cadre_err tokenizer_encode(const tokenizer *t, const char *text, size_t len, bool parse_special, bool add_special,
                           int32_t *ids, size_t cap, size_t *n, cadre_fail *why) {
    char *repaired = NULL;
    if (!len) text = "";
    if (!utf8_valid(text, len)) {
        if (!(repaired = utf8_repair(text, len, &len))) return tok_no_memory(why);
        text = repaired;
    }
    run r = {.t = t, .special = parse_special, .ids = {ids, *n, cap}, .why = why};
    cadre_err err = encode(&r, text, len, add_special);
    run_done(&r);
    mem_free(repaired);
    if (err) return err;
    *n = r.ids.n;
    if (r.ids.n > cap)
        return cadre_fail_set(why, CADRE_RANGE, "the text has %zu tokens, there is room for %zu", r.ids.n, cap);
    return CADRE_OK;
}
