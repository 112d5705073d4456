/* generate.c: prefill in pieces, decode in lockstep, count everything that a figure is made of. */
#include "generate.h"
#include <math.h>

const char *const gen_end_names[] = {"running", "length", "stop", "context", "interrupted"};

int gen_rows(int requests, int chunk) {
    return requests + chunk;
}

typedef struct loop {
    const cadre_model *model;
    cadre_session *session;
    gen_request *requests;
    int count;
    const gen_options *options;
    gen_result *result;
    cadre_chunk *chunks;
    int *owner; /* request of each chunk */
    uint64_t start;
} loop;

/* The chunks of the next step; 0 when nothing is left to do. *prompt_rows: rows of prompts among them. */
static int compose(loop *l, int *prompt_rows) {
    int n = 0, room = l->options->chunk;
    *prompt_rows = 0;
    for (int i = 0; i < l->count; i++) {
        gen_request *r = &l->requests[i];
        if (r->end != GEN_RUNS) continue;
        int left = r->prompt_len - r->fed;
        int take = left < room ? left : room;
        if (left && !take) continue;
        l->chunks[n] = left ? (cadre_chunk){r->slot, take, r->prompt + r->fed, false}
                            : (cadre_chunk){r->slot, 1, &r->ids[r->count - 1], false};
        l->owner[n++] = i;
        r->fed += take;
        room -= take;
        *prompt_rows += take;
    }
    return n;
}

static cadre_err draw(loop *l, int request, int row, cadre_fail *why) {
    const gen_options *o = l->options;
    gen_request *r = &l->requests[request];
    int32_t id;
    if (o->on_logits) o->on_logits(o->ctx, request, cadre_session_logits(l->session, row));
    int position = cadre_session_length(l->session, r->slot);
    uint64_t allocations = cadre_allocations();
    cadre_err err = cadre_session_sample(l->session, row, r->sampling ? r->sampling : o->sampling, r->sequence,
                                         (uint64_t)position, &id, why);
    if (err) return err;
    if (l->result->steps) l->result->allocations += cadre_allocations() - allocations;
    uint64_t now = clock_ns() - l->start;
    if (!r->count) r->first_ns = now;
    r->last_ns = now;
    if (r->at_ns) r->at_ns[r->count] = now;
    r->ids[r->count++] = id;
    l->result->tokens++;
    if (o->on_token) o->on_token(o->ctx, request, id);
    if (!o->ignore_ends && cadre_model_is_end(l->model, id))
        r->end = GEN_STOP;
    else if (r->count == r->most)
        r->end = GEN_LENGTH;
    else if (position == cadre_session_context(l->session))
        r->end = GEN_CONTEXT;
    return CADRE_OK;
}

/* One step with its draws. */
static cadre_err advance(loop *l, int chunks, int prompt_rows, cadre_fail *why) {
    gen_result *g = l->result;
    cadre_session_profile(l->session, prompt_rows ? NULL : l->options->profile);
    uint64_t begin = clock_ns(), allocations = cadre_allocations();
    int64_t tokens = g->tokens;
    cadre_err err = cadre_session_step(l->session, l->chunks, chunks, why);
    if (g->steps) g->allocations += cadre_allocations() - allocations;
    for (int i = 0; i < chunks && !err; i++) {
        gen_request *r = &l->requests[l->owner[i]];
        if (r->fed == r->prompt_len) err = draw(l, l->owner[i], i, why);
    }
    g->steps++;
    g->prompt_tokens += prompt_rows;
    if (prompt_rows) return err;
    g->decode_steps++;
    g->decode_ns += clock_ns() - begin;
    g->decode_tokens += g->tokens - tokens;
    g->decode_bytes += cadre_session_step_bytes(l->session);
    return err;
}

static void interrupt_all(loop *l) {
    for (int i = 0; i < l->count; i++)
        if (l->requests[i].end == GEN_RUNS) l->requests[i].end = GEN_INTERRUPTED;
}

static cadre_err walk(loop *l, cadre_fail *why) {
    for (;;) {
        int prompt_rows;
        if (l->options->stop && *l->options->stop) interrupt_all(l);
        int n = compose(l, &prompt_rows);
        if (!n) return CADRE_OK;
        cadre_err err = advance(l, n, prompt_rows, why);
        if (err) return err;
    }
}

static void begin(gen_request *r) {
    r->count = r->fed = 0;
    r->first_ns = r->last_ns = 0;
    r->end = r->most ? GEN_RUNS : GEN_LENGTH;
}

static cadre_err check(const cadre_session *session, const gen_request *r, cadre_fail *why) {
    int room = cadre_session_context(session) - cadre_session_length(session, r->slot);
    if (r->prompt_len > room)
        return cadre_fail_set(why, CADRE_RANGE, "the prompt has %d tokens, the context has room for %d (--ctx)",
                              r->prompt_len, room);
    if (r->prompt_len < 1)
        return cadre_fail_set(why, CADRE_RANGE, "the prompt is empty: it has no token to start from");
    return CADRE_OK;
}

cadre_err generate(const cadre_model *model, cadre_session *session, gen_request *requests, int count,
                   const gen_options *options, gen_result *result, cadre_fail *why) {
    *result = (gen_result){0};
    for (int i = 0; i < count; i++) {
        begin(&requests[i]);
        cadre_err err = check(session, &requests[i], why);
        if (err) return err;
    }
    loop l = {
        .model = model, .session = session, .requests = requests, .count = count, .options = options, .result = result};
    l.chunks = mem_new_array((size_t)count, sizeof *l.chunks);
    l.owner = mem_new_array((size_t)count, sizeof *l.owner);
    cadre_err err = l.chunks && l.owner ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "out of memory for a batch");
    uint64_t minor, major;
    mem_faults(&minor, &major);
    l.start = clock_ns();
    if (!err) err = walk(&l, why);
    result->wall_ns = clock_ns() - l.start;
    cadre_session_profile(session, NULL);
    mem_faults(&result->minor_faults, &result->major_faults);
    result->minor_faults -= minor;
    result->major_faults -= major;
    result->counted_steps = result->steps > 1 ? result->steps - 1 : 0;
    mem_free(l.chunks);
    mem_free(l.owner);
    return err;
}

double gen_allocs_per_step(const gen_result *r) {
    return r->counted_steps ? (double)r->allocations / r->counted_steps : NAN;
}

double gen_ttft_ms(const gen_request *r) {
    return r->count ? (double)r->first_ns / 1e6 : NAN;
}

double gen_tpot_ms(const gen_request *r) {
    return r->count > 1 ? (double)(r->last_ns - r->first_ns) / 1e6 / (r->count - 1) : NAN;
}

void gen_sha_add(sha256 *s, const int32_t *ids, int count) {
    for (int i = 0; i < count; i++) {
        uint32_t v = (uint32_t)ids[i];
        unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                              (unsigned char)(v >> 24)};
        sha256_add(s, b, sizeof b);
    }
}

void gen_sha(const int32_t *ids, int count, char hex[65]) {
    sha256 s;
    sha256_init(&s);
    gen_sha_add(&s, ids, count);
    sha256_hex(&s, hex);
}
