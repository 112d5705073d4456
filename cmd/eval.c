/* eval.c: `cadre eval`: how well a model predicts a text, in nats per token and bits per byte.
 *
 *   window 1: |0 ....... W-1|            every token but the first is scored
 *   window 2:      |S ....... S+W-1|     only what window 1 has not scored, each with at least W - S tokens before it
 */
#include "commands.h"
#include "dev/dev.h"
#include "open.h"
#include "prompts.h"
#include <math.h>
#include <string.h>

enum { TEXT_LIMIT = 1 << 30, TYPES = 5, ROWS_MOST = 1 << 10 };

typedef struct eval_opts {
    opts_common common;
    const char *model, *file, *weights;
    int context, stride, chunk;
} eval_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(eval_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    OPTS_MODEL(eval_opts, model),
    O('f', "--file", OPTS_TEXT, "FILE", file, 0, 0, "the text, - is standard input"),
    O(0, "--weights", OPTS_TEXT, "LIST", weights, 0, 0,
      "weight types to compare: auto, bf16, f32, q8, q4 (default auto)"),
    O(0, "--ctx", OPTS_INT, "W", context, 2, 1 << 24,
      "tokens of a window (default: the model's context, at most 2048)"),
    O(0, "--stride", OPTS_INT, "S", stride, 1, 1 << 24, "tokens between windows, at most W - 1 (default W / 2)"),
    O(0, "--prefill-chunk", OPTS_INT, "N", chunk, 1, ROWS_MOST, "tokens in one step (default 64)"),
    OPTS_EVERYWHERE(eval_opts),
};
#undef O

static const char *const examples[] = {
    "cadre eval -f story.txt",
    "the demo model on a text",
    "cadre eval -m DIR -f story.txt --weights bf16,q8,q4 --json",
    "what bf16 costs, for a script",
    NULL,
};
static const char notes[] =
    "Windows of W tokens, S apart; each token but the very first is scored once, by the first window that has it.\n"
    "loss: mean of -ln p over scored tokens. bits per byte: their sum in bits, over the bytes of the text (the bytes\n"
    "of the first token are counted although it isn't scored, unless the model's tokenizer puts a start token "
    "there).\n";

typedef struct score {
    double nats;
    int64_t tokens;
    int windows;
    uint64_t ns;
    char weights[8], numerics[32];
} score;

typedef struct reader {
    const eval_opts *o;
    const int32_t *ids;
    size_t count, bytes;
    int window, stride;
} reader;

/* -ln p of `id`, from a row of logits; in double, by functions whose bits are the same everywhere. */
static double surprise(const float *row, int vocab, int32_t id) {
    double best = -INFINITY, sum = 0;
    for (int i = 0; i < vocab; i++)
        if ((double)row[i] > best) best = (double)row[i];
    for (int i = 0; i < vocab; i++)
        if (row[i] > -INFINITY) sum += m_exp((double)row[i] - best);
    return m_log(sum) - ((double)row[id] - best);
}

/* The rows of one step, shared out to the team; each row's value is kept, so that the sum has one order. */
typedef struct rows {
    cadre_session *session;
    const int32_t *next; /* the token that row i should have predicted */
    int lo, hi, vocab;
    double nats[ROWS_MOST];
} rows;

static void score_rows(void *ctx, team *t) {
    rows *r = ctx;
    int lo, hi;
    team_split(t, r->hi - r->lo, 1, &lo, &hi);
    for (int i = r->lo + lo; i < r->lo + hi; i++)
        r->nats[i] = surprise(cadre_session_logits(r->session, i), r->vocab, r->next[i]);
}

/* Rows whose next token is at scored .. end - 1; the step's first row stands at `at`. */
static void add_rows(const reader *r, const opened *m, cadre_session *session, size_t at, int n, size_t scored,
                     size_t end, score *s) {
    rows all = {.session = session, .next = r->ids + at + 1, .vocab = m->info.vocab};
    all.lo = at + 1 < scored ? (int)(scored - at - 1) : 0;
    all.hi = at + (size_t)n < end ? n : (int)(end - at - 1);
    if (all.lo >= all.hi) return;
    pool_run(m->device->threads, score_rows, &all);
    for (int i = all.lo; i < all.hi; i++) s->nats += all.nats[i];
    s->tokens += all.hi - all.lo;
}

/* ids[from .. from + n) in pieces; tokens from index `scored` on count. */
static cadre_err score_window(const reader *r, const opened *m, cadre_session *session, size_t from, size_t n,
                              size_t scored, score *s, cadre_fail *why) {
    cadre_err err = cadre_session_rewind(session, 0, 0, why);
    for (size_t at = from, end = from + n; at < end && !err;) {
        int piece = (int)(end - at < (size_t)r->o->chunk ? end - at : (size_t)r->o->chunk);
        bool counts = at + (size_t)piece >= scored; /* the row at i predicts token i + 1 */
        err = cadre_session_step(session, &(cadre_chunk){0, piece, r->ids + at, counts}, 1, why);
        if (!err && counts) add_rows(r, m, session, at, piece, scored, end, s);
        at += (size_t)piece;
    }
    s->windows++;
    return err;
}

static cadre_err score_text(const reader *r, const opened *m, score *s, cadre_fail *why) {
    cadre_session *session;
    cadre_session_options options = {.context = r->window, .max_rows = r->o->chunk, .max_logits = r->o->chunk};
    cadre_memory memory;
    cadre_err err = open_load(m->model, m->dir, &options, &memory, why);
    if (!err) err = cadre_session_new(m->model, &options, &session, why);
    if (err) return err;
    size_t scored = 1, window = (size_t)r->window, stride = (size_t)r->stride;
    uint64_t start = clock_ns();
    for (size_t from = 0; scored < r->count && !err; from += stride) {
        size_t n = r->count - from < window ? r->count - from : window;
        say_progress("%s: %zu of %zu tokens", m->info.weights, from, r->count);
        err = score_window(r, m, session, from, n, scored, s, why);
        scored = from + n;
    }
    say_progress_end();
    s->ns = clock_ns() - start;
    cadre_session_free(session);
    return err;
}

static double loss(const score *s) {
    return s->tokens ? s->nats / (double)s->tokens : NAN;
}
static double bits_per_byte(const reader *r, const score *s) {
    return s->tokens && r->bytes ? s->nats / m_log(2) / (double)r->bytes : NAN;
}

static cadre_err size_windows(reader *r, const opened *m, cadre_fail *why) {
    enum { DEFAULT = 2048 };
    int most = m->info.max_context;
    r->window = r->o->context ? r->o->context : most < DEFAULT ? most : DEFAULT;
    r->stride = r->o->stride ? r->o->stride : r->window / 2;
    if (r->window > most)
        return cadre_fail_set(why, CADRE_RANGE, "--ctx is %d, the model's context is %d", r->window, most);
    if (r->stride >= r->window)
        return cadre_fail_set(why, CADRE_RANGE, "--stride is %d, expected 1..%d", r->stride, r->window - 1);
    if (r->count < 2) return cadre_fail_set(why, CADRE_RANGE, "the text has %zu tokens, expected at least 2", r->count);
    return CADRE_OK;
}

/* One weight type: open, tokenize, score. */
static cadre_err eval_type(reader *r, const char *weights, const char *text, size_t len, score *s, opened *m,
                           cadre_fail *why) {
    int32_t *ids = NULL;
    cadre_err err = open_prepared(&r->o->common, r->o->model, weights, m, why);
    if (err) return err;
    err = prompts_encode(m->model, text, len, true, &ids, &r->count, why);
    r->ids = ids;
    r->bytes = len;
    if (!err) err = size_windows(r, m, why);
    if (!err) err = score_text(r, m, s, why);
    snprintf(s->weights, sizeof s->weights, "%s", m->info.weights);
    snprintf(s->numerics, sizeof s->numerics, "%s", m->info.numerics);
    mem_free(ids);
    return err;
}

/* ---- report ---- */

static void put_score(json_out *o, const reader *r, const score *s) {
    json_put_text(o, "weights", s->weights);
    json_put_text(o, "numerics", s->numerics);
    json_put_real(o, "loss", loss(s));
    json_put_real(o, "bits_per_byte", bits_per_byte(r, s));
    json_put_int(o, "tokens", s->tokens);
    json_put_int(o, "windows", s->windows);
    json_put_real(o, "tokens_per_s", s->ns ? (double)r->count * 1e9 / (double)s->ns : NAN);
}

static int report_json(const reader *r, const score *s, int count, const char *dir, const char *device) {
    json_out o = {0};
    say_json_open(&o, "eval");
    json_put_int(&o, "bytes", (int64_t)r->bytes);
    json_put_int(&o, "ctx", r->window);
    json_put_int(&o, "stride", r->stride);
    put_score(&o, r, &s[0]);
    json_open(&o, "rows", '[');
    for (int i = 0; i < count; i++) {
        json_open(&o, NULL, '{');
        put_score(&o, r, &s[i]);
        json_close(&o, '}');
    }
    json_close(&o, ']');
    json_put_text(&o, "model", dir);
    json_put_text(&o, "device", device);
    open_put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, EXIT_FINE);
}

static void say_report(const reader *r, const score *s, int count, const char *dir, const char *device) {
    table t;
    say_pair("model", "%s", dir);
    say_pair("device", "%s", device);
    say_pair("text", "%zu bytes, %zu tokens, windows of %d, %d apart", r->bytes, r->count, r->window, r->stride);
    table_open(&t, "llrrr");
    for (const char *h = "weights\0numerics\0nats/token\0bits/byte\0tokens/s\0"; *h; h += strlen(h) + 1)
        table_cell(&t, "%s", h);
    for (int i = 0; i < count; i++) {
        table_cell(&t, "%s", s[i].weights);
        table_cell(&t, "%s", s[i].numerics);
        table_cell(&t, "%.5f", loss(&s[i]));
        table_cell(&t, "%.5f", bits_per_byte(r, &s[i]));
        table_cell(&t, "%.0f", (double)r->count * 1e9 / (double)(s[i].ns ? s[i].ns : 1));
    }
    table_print(&t, say_stream(), 2);
}

/* ---- the command ---- */

static cadre_err split_types(const char *list, char types[TYPES][8], int *count, cadre_fail *why) {
    *count = 0;
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        char one[8];
        size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)(n < 7 ? n : 7), p);
        if (!opts_word("auto|bf16|f32|q8|q4", one) || *count == TYPES)
            return cadre_fail_set(why, CADRE_RANGE, "--weights is '%.60s', expected some of auto, bf16, f32, q8, q4",
                                  list);
        memcpy(types[(*count)++], one, sizeof one);
    }
    return *count ? CADRE_OK
                  : cadre_fail_set(why, CADRE_RANGE, "--weights is empty, expected some of auto, bf16, f32, q8, q4");
}

/* Bits per byte of a text that is not UTF-8 would count bytes that were never scored. */
static cadre_err check_text(const char *name, const char *text, size_t len, cadre_fail *why) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    for (int n; p < end; p += n)
        if (utf8_decode(p, end, &n) == UTF8_BAD)
            return cadre_fail_set(why, CADRE_FORMAT, "%.300s: byte %zu (0x%02X) is not UTF-8", name,
                                  (size_t)(p - (const unsigned char *)text), *p);
    return CADRE_OK;
}

static int eval_all(const eval_opts *o, const char *text, size_t len, cadre_fail *why) {
    char types[TYPES][8], device[160] = "", dir[OPEN_PATH_MAX] = "";
    score scores[TYPES] = {0};
    reader r = {.o = o};
    int count;
    cadre_err err = split_types(o->weights, types, &count, why);
    if (!err) err = check_text(o->file, text, len, why);
    for (int i = 0; i < count && !err; i++) {
        opened m = {0};
        err = eval_type(&r, types[i], text, len, &scores[i], &m, why);
        if (!err) {
            snprintf(device, sizeof device, "%s", cadre_device_name(m.device));
            snprintf(dir, sizeof dir, "%s", m.dir);
        }
        open_close(&m);
    }
    if (err) return say_failed(why);
    say_report(&r, scores, count, dir, device);
    return o->common.json ? report_json(&r, scores, count, dir, device) : EXIT_FINE;
}

static int run(void) {
    eval_opts o = {.weights = "auto", .chunk = 64};
    cadre_fail why = {0};
    char *text;
    size_t len;
    int status;
    if (!opts_read(&eval_command, &o, &status)) return status;
    if (!o.file) return say_failed(&(cadre_fail){CADRE_RANGE, "eval needs a text: -f FILE"});
    if (!strcmp(o.file, "-") ? file_read_stdin(TEXT_LIMIT, &text, &len, &why)
                             : file_read(o.file, TEXT_LIMIT, &text, &len, &why))
        return say_failed(&why);
    status = eval_all(&o, text, len, &why);
    mem_free(text);
    return status;
}

const opts_command eval_command = {"eval", "measure how well a text is predicted", notes, OPTS_TABLE(defs), examples,
                                   run};
