/* prompts.c: texts in, ids out. */
#include "prompts.h"
#include <limits.h>
#include <string.h>

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for prompts");
}

/* Takes ids over, also on failure. */
static cadre_err add(prompts *p, int32_t *ids, size_t count, cadre_fail *why) {
    if (p->count == p->cap) {
        size_t cap = p->cap ? (size_t)p->cap * 2 : 8;
        prompt *grown = mem_resize(p->at, (size_t)p->cap * sizeof *p->at, cap * sizeof *p->at);
        if (!grown) {
            mem_free(ids);
            return no_memory(why);
        }
        p->at = grown;
        p->cap = (int)cap;
    }
    p->at[p->count++] = (prompt){ids, (int)count};
    return CADRE_OK;
}

cadre_err prompts_encode(const cadre_model *model, const char *text, size_t len, bool specials, int32_t **ids,
                         size_t *count, cadre_fail *why) {
    size_t cap = len + 16, n = 0; /* most tokenizers need no more than a token per byte */
    for (;;) {
        int32_t *buffer = mem_new_array(cap, sizeof *buffer);
        if (!buffer) return no_memory(why);
        cadre_err err = cadre_encode(model, text, len, specials, buffer, cap, &n, why);
        if (!err) {
            *ids = buffer;
            *count = n;
            return CADRE_OK;
        }
        mem_free(buffer);
        if (err != CADRE_RANGE || n <= cap) return err;
        cap = n;
    }
}

cadre_err prompts_add_text(prompts *p, const cadre_model *model, const char *text, size_t len, cadre_fail *why) {
    int32_t *ids;
    size_t n;
    cadre_err err = prompts_encode(model, text, len, true, &ids, &n, why);
    if (err) return err;
    if (n && n <= INT_MAX) return add(p, ids, n, why);
    mem_free(ids);
    return n ? cadre_fail_set(why, CADRE_RANGE, "the prompt has %zu tokens, more than any context", n)
             : cadre_fail_set(why, CADRE_RANGE, "the prompt is empty: the model has no token to start from");
}

static bool blank(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

cadre_err prompts_add_lines(prompts *p, const cadre_model *model, const char *name, const char *text, size_t len,
                            cadre_fail *why) {
    int before = p->count;
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((newline ? newline : end) - text);
        const char *next = text + n + 1;
        if (n && text[n - 1] == '\r') n--;
        cadre_err err = blank(text, n) ? CADRE_OK : prompts_add_text(p, model, text, n, why);
        if (err) return err;
        text = next;
    }
    return p->count > before ? CADRE_OK : cadre_fail_set(why, CADRE_RANGE, "%.300s: no line with a prompt", name);
}

static cadre_err add_object(prompts *p, const cadre_model *model, const json_doc *doc, cadre_fail *why) {
    const json *root = json_root(doc), *v = json_get(root, "prompt");
    if (!v) v = json_get(root, "question");
    if (!v || v->kind != JSON_TEXT)
        return cadre_fail_set(why, CADRE_FORMAT, "%.300s: expected an object with a text under prompt or question",
                              json_name(doc));
    return prompts_add_text(p, model, v->text, v->len, why);
}

static cadre_err add_json_line(prompts *p, const cadre_model *model, const char *path, int line, const char *text,
                               size_t len, cadre_fail *why) {
    char name[400];
    json_doc *doc;
    snprintf(name, sizeof name, "%.300s line %d", path, line);
    cadre_err err = json_parse(name, text, len, &doc, why);
    if (err) return err;
    err = add_object(p, model, doc, why);
    json_free(doc);
    return err;
}

cadre_err prompts_add_jsonl(prompts *p, const cadre_model *model, const char *path, cadre_fail *why) {
    char *text;
    size_t len;
    int before = p->count, line = 0;
    cadre_err err = file_read(path, PROMPTS_FILE_LIMIT, &text, &len, why);
    if (err) return err;
    for (const char *at = text, *end = text + len; at < end && !err;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((newline ? newline : end) - at);
        line++;
        if (!blank(at, n)) err = add_json_line(p, model, path, line, at, n, why);
        at += n + 1;
    }
    mem_free(text);
    if (!err && p->count == before) err = cadre_fail_set(why, CADRE_RANGE, "%.300s: no prompts", path);
    return err;
}

cadre_err prompts_add_random(prompts *p, int tokens, int count, uint64_t seed, cadre_fail *why) {
    rand_stream r = {.key = seed * 1000003u + (uint64_t)p->count + 1};
    int32_t *ids = mem_new_array((size_t)count, sizeof *ids);
    if (!ids) return no_memory(why);
    for (int i = 0; i < count; i++) ids[i] = (int32_t)rand_below(&r, (uint32_t)tokens);
    return add(p, ids, (size_t)count, why);
}

cadre_err prompts_repeat(prompts *p, int n, cadre_fail *why) {
    while (p->count < n) {
        const prompt *last = &p->at[p->count - 1];
        size_t count = (size_t)last->count;
        int32_t *ids = mem_new_array(count, sizeof *ids);
        if (!ids) return no_memory(why);
        memcpy(ids, last->ids, count * sizeof *ids);
        cadre_err err = add(p, ids, count, why);
        if (err) return err;
    }
    return CADRE_OK;
}

int prompts_longest(const prompts *p) {
    int n = 0;
    for (int i = 0; i < p->count; i++)
        if (p->at[i].count > n) n = p->at[i].count;
    return n;
}

void prompts_done(prompts *p) {
    for (int i = 0; i < p->count; i++) mem_free(p->at[i].ids);
    mem_free(p->at);
    *p = (prompts){0};
}

/* ---- back to text ---- */

static bool append(growing *g, const char *piece, size_t n) {
    if (g->len + n + 1 > g->cap) {
        size_t cap = (g->cap + n + 64) * 2;
        char *grown = mem_resize(g->text, g->cap, cap);
        if (!grown) return false;
        g->text = grown;
        g->cap = cap;
    }
    memcpy(g->text + g->len, piece, n);
    g->len += n;
    g->text[g->len] = 0;
    return true;
}

cadre_err prompts_decode(const cadre_model *model, const int32_t *ids, int count, growing *g, cadre_fail *why) {
    cadre_text *decoder;
    cadre_err err = cadre_text_new(model, &decoder, why);
    if (err) return err;
    bool ok = true;
    size_t n;
    for (int i = 0; i < count && ok; i++) {
        const char *piece = cadre_text_push(decoder, ids[i], &n);
        ok = append(g, piece, n);
    }
    const char *rest = cadre_text_end(decoder, &n);
    ok = ok && append(g, rest, n);
    cadre_text_free(decoder);
    return ok ? CADRE_OK : no_memory(why);
}
