/* run_chat.c: `cadre run -i`: one growing sequence, a line of standard input at a time. A model without a chat format
 * continues plain text.
 *
 *   cache: | turn 1 | reply 1 ... | turn 2 | reply 2 ...
 *
 * The last token of a reply isn't fed when it is drawn: it goes before the next turn, and the end of the assistant's
 * turn after it when the reply was cut short. */
#include "model/model.h"
#include "prompts.h"
#include "run.h"
#include <stdlib.h>
#include <unistd.h>

enum { CHAT_CONTEXT = 8192 };

typedef struct chat {
    const run_opts *o;
    const opened *m;
    cadre_session *session;
    cadre_text *text;
    bool plain, full;
    int turns;
    int32_t *ids; /* of the last reply, [tokens] */
    int count;
    gen_result total; /* of the last turn */
} chat;

static void stream(void *ctx, int request, int32_t id) {
    chat *c = ctx;
    size_t n;
    (void)request;
    const char *piece = cadre_text_push(c->text, id, &n);
    fwrite(piece, 1, n, stdout);
    fflush(stdout);
}

enum { FRONT = 2 }; /* places before a turn: the last token of the reply, the end of its turn */

/* The turn as ids behind FRONT free places. */
static cadre_err encode_turn(chat *c, const char *line, size_t len, int32_t **ids, size_t *count, cadre_fail *why) {
    size_t cap = 2 * len + 256, n = 0;
    for (;;) {
        int32_t *buffer = mem_new_array(cap + FRONT, sizeof *buffer);
        if (!buffer) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a turn");
        cadre_err err = c->plain
                            ? cadre_encode(c->m->model, line, len, c->turns == 0, buffer + FRONT, cap, &n, why)
                            : cadre_encode_chat(c->m->model, line, len, c->turns == 0, buffer + FRONT, cap, &n, why);
        if (!err) {
            *ids = buffer;
            *count = n;
            return CADRE_OK;
        }
        mem_free(buffer);
        if (err == CADRE_UNSUPPORTED && !c->plain) {
            say_note("this model has no chat format that is known here; it continues plain text");
            c->plain = true;
        } else if (err != CADRE_RANGE || n <= cap) {
            return err;
        } else {
            cap = n;
        }
    }
}

static cadre_err answer(chat *c, const int32_t *ids, int count, cadre_fail *why) {
    cadre_sampling sampling = run_sampling(c->o, c->m->model);
    gen_options options = {.sampling = &sampling,
                           .ignore_ends = c->o->ignore_eos,
                           .chunk = c->o->chunk,
                           .stop = &run_stopped,
                           .on_token = stream,
                           .ctx = c};
    gen_request r = {.prompt = ids, .prompt_len = count, .most = c->o->tokens, .ids = c->ids};
    cadre_text_reset(c->text);
    cadre_err err = generate(c->m->model, c->session, &r, 1, &options, &c->total, why);
    size_t n;
    const char *rest = cadre_text_end(c->text, &n);
    fwrite(rest, 1, n, stdout);
    putchar('\n');
    fflush(stdout);
    c->count = r.count;
    c->full = r.end == GEN_CONTEXT;
    if (!err && c->o->stats)
        say("[%d tokens in %.0f ms, then %d tokens, %.*f tokens/s]", count, gen_ttft_ms(&r), r.count,
            say_digits(job_rate(&c->total)), job_rate(&c->total));
    return err;
}

/* What is still to feed of the reply before, into the places in front of the turn; returns how many are used. */
static int put_front(const chat *c, int32_t *turn) {
    static const char end_text[] = "<|im_end|>";
    if (!c->count) return 0;
    int32_t last = c->ids[c->count - 1];
    int32_t end = c->plain ? -1 : tokenizer_id(c->m->model->tokenizer, end_text, sizeof end_text - 1);
    bool open = end >= 0 && last != end;
    turn[-1] = open ? end : last;
    if (open) turn[-2] = last;
    return open ? 2 : 1;
}

static cadre_err turn(chat *c, const char *line, size_t len, cadre_fail *why) {
    int32_t *ids = NULL;
    size_t n = 0;
    cadre_err err = encode_turn(c, line, len, &ids, &n, why);
    if (err) return err;
    int front = put_front(c, ids + FRONT);
    size_t room = (size_t)(cadre_session_context(c->session) - cadre_session_length(c->session, 0));
    n += (size_t)front;
    c->full = n > room;
    if (!c->full && n) err = answer(c, ids + FRONT - front, (int)n, why);
    c->turns += n > 0;
    mem_free(ids);
    return err;
}

static void ask_line(void) {
    if (!isatty(STDIN_FILENO)) return;
    fputs("> ", stderr);
    fflush(stderr);
}

static cadre_err talk(chat *c, cadre_fail *why) {
    char *line = NULL;
    size_t cap = 0;
    cadre_err err = CADRE_OK;
    while (!err && !c->full) {
        run_catch_interrupt();
        ask_line();
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) break;
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        if (n) err = turn(c, line, (size_t)n, why);
    }
    free(line);
    if (c->full)
        say_note("the context is full (%d positions); --ctx sets it, the model has at most %d",
                 cadre_session_context(c->session), c->m->info.max_context);
    return err;
}

int run_chat(const run_opts *o, const opened *m, cadre_fail *why) {
    int most = m->info.max_context < CHAT_CONTEXT ? m->info.max_context : CHAT_CONTEXT;
    chat c = {.o = o, .m = m};
    cadre_session_options s = {
        .slots = 1, .context = o->context ? o->context : most, .max_rows = gen_rows(1, o->chunk)};
    cadre_memory memory;
    cadre_err err = open_load(m->model, m->dir, &s, &memory, why);
    if (!err) err = cadre_session_new(m->model, &s, &c.session, why);
    if (!err) err = cadre_text_new(m->model, &c.text, why);
    if (!err && !(c.ids = mem_new_array((size_t)o->tokens + 1, sizeof *c.ids)))
        err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for a reply");
    if (!err) err = talk(&c, why);
    if (!err && o->stats) {
        open_say_memory(&memory);
        open_say_receipts(m->model);
    }
    mem_free(c.ids);
    if (c.text) cadre_text_free(c.text);
    if (c.session) cadre_session_free(c.session);
    return err ? say_failed(why) : EXIT_FINE;
}
