/* tokenizer_split.c: pre-tokenizers. Reading turns every kind into four small steps; running applies each step to every
 * piece the step before has left.
 *
 *   SPLIT     cuts a piece at the matches of a pattern
 *   PREFIX    puts a space before a piece that has none          (ByteLevel add_prefix_space)
 *   META      writes spaces as another character, and puts one in front (Metaspace)
 *   ALPHABET  writes bytes as printable characters               (ByteLevel; left out if no step follows)
 */
#include "model/tokenizer_parts.h"
#include <string.h>

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/* The \w of Whitespace has the joiners. */
#define WORD                                                                                                           \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}"
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
static const char number[] = "\\p{N}", punctuation[] = "[!-/:-@\\[-`{-~\\p{P}]", space[] = "[" SPACE "]",
                  words[] = "[" WORD "]+|[^" WORD SPACE "]+";

/* ---- reading ---- */

static tok_split *add(tok_splits *l, tok_split_kind kind) {
    tok_split *s = &l->step[l->n++];
    s->kind = kind;
    l->alphabet = l->bytes; /* true once a step follows ByteLevel */
    return s;
}

static cadre_err add_known(tok_splits *l, const char *regex, tok_behavior behavior, bool invert, const json_doc *doc,
                           const json *v, cadre_fail *why) {
    tok_split *s = add(l, STEP_SPLIT);
    s->behavior = behavior;
    s->invert = invert;
    return tok_pattern_regex(l->mem, regex, strlen(regex), &s->pattern, doc, v, why);
}

static cadre_err read_behavior(const json_doc *doc, const json *v, tok_behavior *out, cadre_fail *why) {
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const json *text = json_get(v, "behavior");
    for (int i = 0; i < 5; i++)
        if (json_is(text, names[i])) {
            *out = (tok_behavior)i;
            return CADRE_OK;
        }
    return json_fail(doc, text ? text : v, why,
                     "needs a behavior: Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext");
}

static cadre_err read_split(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    const json *pattern = json_get(v, "pattern");
    tok_split *s = add(l, STEP_SPLIT);
    if (!pattern) return json_fail(doc, v, why, "has no pattern");
    cadre_err err = read_behavior(doc, v, &s->behavior, why);
    if (!err) err = json_flag(doc, v, "invert", false, &s->invert, why);
    return err ? err : tok_pattern_read(l->mem, doc, pattern, &s->pattern, why);
}

static cadre_err read_bytes(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    bool prefix, regex;
    cadre_err err = json_flag(doc, v, "add_prefix_space", true, &prefix, why);
    if (!err) err = json_flag(doc, v, "use_regex", true, &regex, why);
    if (err) return err;
    if (l->bytes) return json_refuse(doc, v, why, "is a second ByteLevel, which is not supported");
    if (prefix) add(l, STEP_PREFIX);
    if (regex) err = add_known(l, gpt2, SPLIT_ISOLATED, false, doc, v, why);
    add(l, STEP_ALPHABET);
    l->bytes = true;
    return err;
}

cadre_err tok_meta_char(const json_doc *doc, const json *v, const char *key, char out[5], int *len, cadre_fail *why) {
    const json *text = json_get(v, key);
    int n = 0;
    if (text && text->kind == JSON_TEXT && text->len)
        utf8_decode((const unsigned char *)text->text, (const unsigned char *)text->text + text->len, &n);
    if (!n || (size_t)n != text->len) return json_fail(doc, text ? text : v, why, "needs one character as %s", key);
    memcpy(out, text->text, (size_t)n);
    *len = n;
    return CADRE_OK;
}

cadre_err tok_meta_scheme(const json_doc *doc, const json *v, tok_scheme *out, cadre_fail *why) {
    const char *scheme;
    bool prefix;
    cadre_err err = json_text(doc, v, "prepend_scheme", NULL, &scheme, why);
    if (!err) err = json_flag(doc, v, "add_prefix_space", true, &prefix, why);
    if (err) return err;
    if (!scheme) scheme = prefix ? "always" : "never";
    if (!strcmp(scheme, "always"))
        *out = META_ALWAYS;
    else if (!strcmp(scheme, "first"))
        *out = META_FIRST;
    else if (!strcmp(scheme, "never"))
        *out = META_NEVER;
    else
        return json_fail(doc, json_get(v, "prepend_scheme"), why, "is \"%.40s\", expected always, first or never",
                         scheme);
    if (!prefix && *out != META_NEVER)
        return json_fail(doc, v, why, "says add_prefix_space false and prepend_scheme \"%.40s\"", scheme);
    return CADRE_OK;
}

static cadre_err read_meta(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    bool split;
    if (l->bytes) return json_refuse(doc, v, why, "is Metaspace after ByteLevel, which is not supported");
    tok_split *s = add(l, STEP_META);
    cadre_err err = tok_meta_char(doc, v, "replacement", s->meta, &s->meta_len, why);
    if (!err) err = tok_meta_scheme(doc, v, &s->scheme, why);
    if (!err) err = json_flag(doc, v, "split", true, &split, why);
    if (err || !split) return err;
    tok_split *cut = add(l, STEP_SPLIT);
    cut->behavior = SPLIT_MERGED_NEXT;
    return tok_pattern_literal(s->meta, (size_t)s->meta_len, &cut->pattern, why);
}

static cadre_err read_digits(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    bool single;
    cadre_err err = json_flag(doc, v, "individual_digits", false, &single, why);
    return err ? err : add_known(l, number, single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, doc, v, why);
}

static cadre_err read_punctuation(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    tok_behavior behavior = SPLIT_ISOLATED;
    cadre_err err = json_get(v, "behavior") ? read_behavior(doc, v, &behavior, why) : CADRE_OK;
    return err ? err : add_known(l, punctuation, behavior, false, doc, v, why);
}

static cadre_err add_step(void *to, const json_doc *doc, const json *v, const char *type, cadre_fail *why) {
    tok_splits *l = to;
    if (l->n + 3 > TOK_STEPS_MAX)
        return json_refuse(doc, v, why, "is one step too many, at most %d are supported", l->n);
    if (!strcmp(type, "Split")) return read_split(l, doc, v, why);
    if (!strcmp(type, "ByteLevel")) return read_bytes(l, doc, v, why);
    if (!strcmp(type, "Metaspace")) return read_meta(l, doc, v, why);
    if (!strcmp(type, "Digits")) return read_digits(l, doc, v, why);
    if (!strcmp(type, "Punctuation")) return read_punctuation(l, doc, v, why);
    if (!strcmp(type, "WhitespaceSplit")) return add_known(l, space, SPLIT_REMOVED, false, doc, v, why);
    if (!strcmp(type, "Whitespace")) return add_known(l, words, SPLIT_REMOVED, true, doc, v, why);
    return json_refuse(doc, v, why, "is the pre-tokenizer \"%.60s\", which is not supported", type);
}

cadre_err tok_splits_read(tok_splits *l, const json_doc *doc, const json *v, cadre_fail *why) {
    cadre_err err = tok_steps_walk(l, doc, v, "pretokenizers", add_step, why);
    if (!err && l->bytes && !l->alphabet) l->n--; /* the last step is ALPHABET: pieces stay bytes */
    return err;
}

void tok_splits_done(tok_splits *l) {
    for (int i = 0; i < TOK_STEPS_MAX; i++) tok_pattern_done(&l->step[i].pattern);
    l->n = 0;
}

/* ---- running ---- */

/* One step over one piece: reads from `text`, writes pieces to `to` (and, if it rewrites, text to `out`). */
typedef struct pass {
    const tok_split *s;
    tok_matcher *m;
    const char *text;
    tok_text *out;
    tok_pieces *to;
    bool first; /* the text begins where the user's does */
    cadre_fail *why;
} pass;

/* A stretch, match or not, under the step's behavior. `from`: where this piece's parts begin in the list; *last: was
 * the part before a match. */
static bool part(const pass *p, tok_piece at, bool match, size_t from, bool *last) {
    match ^= p->s->invert;
    bool none = p->to->n == from, join = false, before = *last;
    *last = match;
    switch (p->s->behavior) {
    case SPLIT_ISOLATED:
        break;
    case SPLIT_REMOVED:
        if (match) return true;
        break;
    case SPLIT_CONTIGUOUS:
        join = match == before;
        break;
    case SPLIT_MERGED_PREVIOUS:
        join = match && !before;
        break;
    case SPLIT_MERGED_NEXT:
        join = !match && before;
        break;
    }
    if (!join || none) return tok_pieces_add(p->to, at.start, at.end);
    p->to->p[p->to->n - 1].end = at.end;
    return true;
}

/* Empty parts count above, where parts join; they are dropped here. */
static void drop_empty(tok_pieces *l, size_t from) {
    size_t n = from;
    for (size_t i = from; i < l->n; i++)
        if (l->p[i].start < l->p[i].end) l->p[n++] = l->p[i];
    l->n = n;
}

static cadre_err split(const pass *p, tok_piece piece) {
    tok_finder f = {.pattern = &p->s->pattern, .text = p->text + piece.start, .len = piece.end - piece.start};
    size_t from = p->to->n, done = 0;
    bool found = true, last = false, ok = true;
    tok_piece match;
    while (ok) {
        cadre_err err = tok_find_next(p->m, &f, &match, &found, p->why);
        if (err) return err;
        if (!found) break;
        if (done < match.start)
            ok = part(p, (tok_piece){piece.start + done, piece.start + match.start}, false, from, &last);
        if (ok) ok = part(p, (tok_piece){piece.start + match.start, piece.start + match.end}, true, from, &last);
        done = match.end;
    }
    if (ok && done < f.len) ok = part(p, (tok_piece){piece.start + done, piece.end}, false, from, &last);
    if (!ok) return tok_no_memory(p->why);
    drop_empty(p->to, from);
    return CADRE_OK;
}

static bool starts_with(const char *text, size_t len, const char *start, int n) {
    return len >= (size_t)n && !memcmp(text, start, (size_t)n);
}

static bool meta(const pass *p, const char *text, size_t len, bool first) {
    const tok_split *s = p->s;
    bool want = s->scheme == META_ALWAYS || (s->scheme == META_FIRST && first);
    bool has = text[0] == ' ' || starts_with(text, len, s->meta, s->meta_len);
    if (want && !has && !tok_text_add(p->out, s->meta, (size_t)s->meta_len)) return false;
    for (size_t i = 0; i < len; i++) {
        bool is_space = text[i] == ' ';
        if (!tok_text_add(p->out, is_space ? s->meta : text + i, is_space ? (size_t)s->meta_len : 1)) return false;
    }
    return true;
}

/* The steps that rewrite: text goes to `out`. */
static bool rewrite(const pass *p, tok_piece piece) {
    const char *text = p->text + piece.start;
    size_t len = piece.end - piece.start, start = p->out->len;
    bool ok;
    if (p->s->kind == STEP_META)
        ok = meta(p, text, len, p->first && !piece.start);
    else if (p->s->kind == STEP_ALPHABET)
        ok = tok_alphabet_write(p->out, text, len);
    else
        ok = (text[0] == ' ' || tok_text_add(p->out, " ", 1)) && tok_text_add(p->out, text, len);
    return ok && tok_pieces_add(p->to, start, p->out->len);
}

void tok_split_work_done(tok_split_work *w) {
    for (int i = 0; i < 2; i++) {
        mem_free(w->text[i].p);
        mem_free(w->list[i].p);
    }
    *w = (tok_split_work){0};
}

cadre_err tok_split_run(const tok_splits *l, tok_matcher *m, const char *text, size_t len, bool first,
                        tok_split_work *w, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    tok_pieces *from = &w->list[0];
    int turn = 0;
    from->n = 0;
    if (len && !tok_pieces_add(from, 0, len)) return tok_no_memory(why);
    for (int i = 0; i < l->n && !err; i++) {
        pass p = {&l->step[i], m, text, &w->text[turn], &w->list[from == &w->list[0]], first, why};
        p.to->n = 0;
        bool cuts = p.s->kind == STEP_SPLIT;
        if (!cuts) p.out->len = 0;
        for (size_t j = 0; j < from->n && !err; j++)
            if (cuts)
                err = split(&p, from->p[j]);
            else if (!rewrite(&p, from->p[j]))
                err = tok_no_memory(why);
        if (!cuts) {
            text = p.out->p;
            turn = !turn;
        }
        from = p.to;
    }
    w->result = text;
    w->pieces = from;
    return err;
}
