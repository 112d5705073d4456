/* chat.c: one turn of a conversation as ids, in the format whose control tokens the tokenizer has.
 *
 * ChatML, as Qwen3 writes it (no system text unless the user gives one):
 *
 *   first turn      <|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n
 *   later turns   \n<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n
 *
 * A later turn begins with the newline that follows the <|im_end|> of the answer before. That <|im_end|> is the end
 * token of generation: the caller feeds it before the turn if the answer was cut short or the token was not fed.
 * Control tokens go in by id; the text is encoded with special tokens off, so that no text can close a turn.
 */
#include "model/model.h"
#include <string.h>

typedef struct turn {
    const tokenizer *t;
    int32_t *ids;
    size_t cap, n;
    cadre_fail *why;
} turn;

static void add_id(turn *c, int32_t id) {
    if (c->n < c->cap) c->ids[c->n] = id;
    c->n++;
}

/* A full buffer is no failure yet: the count goes on. */
static cadre_err add_text(turn *c, const char *text, size_t len) {
    cadre_fail why;
    size_t n = c->n;
    cadre_err err = tokenizer_encode(c->t, text, len, false, false, c->ids, c->cap, &n, &why);
    bool full = err == CADRE_RANGE;
    if (err && !full && c->why) *c->why = why;
    if (!err || full) c->n = n;
    return full ? CADRE_OK : err;
}

/* "user\n" and the text are one stretch, as a template would have written them: a cut between would change ids. */
static cadre_err add_user(turn *c, const char *user, size_t len) {
    static const char role[] = "user\n";
    size_t n = sizeof role - 1, all;
    char *text = mem_add(len, n, &all) ? mem_new(all) : NULL;
    if (!text) return cadre_fail_set(c->why, CADRE_NOMEM, "chat: out of memory");
    memcpy(text, role, n);
    if (len) memcpy(text + n, user, len);
    cadre_err err = add_text(c, text, all);
    mem_free(text);
    return err;
}

cadre_err chat_encode(const tokenizer *t, const char *model_type, const char *user, size_t len, bool first,
                      int32_t *ids, size_t cap, size_t *n, cadre_fail *why) {
    static const char start_text[] = "<|im_start|>", end_text[] = "<|im_end|>", assistant[] = "assistant\n";
    int32_t start = tokenizer_id(t, start_text, sizeof start_text - 1);
    int32_t end = tokenizer_id(t, end_text, sizeof end_text - 1);
    if (start < 0 || end < 0)
        return cadre_fail_set(why, CADRE_UNSUPPORTED,
                              "no chat format is known for this %.60s model: its tokenizer has no %s and %s",
                              model_type, start_text, end_text);
    turn c = {t, ids, cap, *n, why};
    cadre_err err = first ? CADRE_OK : add_text(&c, "\n", 1);
    add_id(&c, start);
    if (!err) err = add_user(&c, user, len);
    add_id(&c, end);
    if (!err) err = add_text(&c, "\n", 1);
    add_id(&c, start);
    if (!err) err = add_text(&c, assistant, sizeof assistant - 1);
    if (err) return err;
    *n = c.n;
    if (c.n > cap) return cadre_fail_set(why, CADRE_RANGE, "the turn has %zu tokens, there is room for %zu", c.n, cap);
    return CADRE_OK;
}
