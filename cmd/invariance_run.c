/* invariance_run.c: the sequences of the invariance bench, run as a cell says, and the comparison.
 *
 * Four sequences of different length, two greedy and two sampled, all of random ids. In a batch of B others each of
 * them has exactly B neighbours, which start with other prompts and end at other times; slots are dealt from the far
 * end. */
#include "dev/dev.h"
#include "invariance.h"
#include "plan/plan.h"
#include <string.h>

static const struct {
    int prompt;
    cadre_sampling sampling;
} track_defs[TRACKS] = {
    {5, {0, 0, 0, 0}},
    {23, {0.9f, 0, 0, 7}},
    {70, {0, 0, 0, 0}},
    {150, {0.7f, 40, 0.95f, 11}}, /* passes the border of an attention split */
};

/* ---- bed ---- */

static void set_knob(int family, int knob, int value) {
    char text[96];
    const op_family_def *f = &op_families[family];
    snprintf(text, sizeof text, "%s.%s=%d", f->name, f->knobs[knob].name, value);
    cadre_set(text, NULL);
}

/* Opens with the cell's knob set. If the kernel can't run it with the policy's other knobs, those go to their least. */
static cadre_err open_with_knob(bed *b, const opts_common *common, const cell *c, cadre_fail *why) {
    const op_family_def *family = &op_families[c->family];
    int saved[OP_KNOBS_MAX];
    for (int i = 0; i < family->count; i++) saved[i] = plan_override((op_family)c->family, i);
    set_knob(c->family, c->knob, c->value);
    cadre_err err = open_both(common, b->dir, b->weights, &b->m, why);
    if (err == CADRE_RANGE) {
        for (int i = 0; i < family->count; i++)
            if (i != c->knob) set_knob(c->family, i, family->knobs[i].low);
        err = open_both(common, b->dir, b->weights, &b->m, why);
    }
    for (int i = 0; i < family->count; i++) set_knob(c->family, i, saved[i]);
    return err;
}

cadre_err bed_make(bed *b, const cell *c, cadre_fail *why) {
    bool same = b->open && b->threads == c->threads && b->isa == c->isa && b->family == c->family &&
                (c->family < 0 || (b->knob == c->knob && b->value == c->value));
    if (same) return CADRE_OK;
    bed_close(b);
    long isa = switch_get(SWITCH_ISA);
    opts_common common = *b->common;
    common.threads = c->threads ? c->threads : common.threads;
    if (c->isa >= 0) switch_set(SWITCH_ISA, c->isa);
    cadre_err err =
        c->family >= 0 ? open_with_knob(b, &common, c, why) : open_both(&common, b->dir, b->weights, &b->m, why);
    switch_set(SWITCH_ISA, isa);
    if (err) return err;
    b->open = true;
    b->threads = c->threads;
    b->isa = c->isa;
    b->family = c->family;
    b->knob = c->knob;
    b->value = c->value;
    return CADRE_OK;
}

void bed_close(bed *b) {
    if (b->open) open_close(&b->m);
    b->open = false;
}

/* ---- one batch ---- */

typedef struct batch {
    bed *bed;
    trace *out;
    gen_request *requests;
    int *track; /* of each request, -1: another sequence */
    int count;
} batch;

static void keep_logits(void *ctx, int request, const float *row) {
    batch *b = ctx;
    if (b->track[request] < 0) return;
    track *t = &b->out->tracks[b->track[request]];
    cadre_sha256(row, (size_t)b->bed->m.info.vocab * sizeof *row, t->logits[b->requests[request].count]);
}

static int track_prompt(const bed *b, int i, int tokens) {
    int room = b->m.info.max_context - tokens;
    return track_defs[i].prompt < room ? track_defs[i].prompt : room;
}

/* Prompts: those of the tracks first .. first + n - 1, then other ones of 1..60 ids. */
static cadre_err make_prompts(const bed *b, const cell *c, int first, int n, uint64_t seed, prompts *p,
                              cadre_fail *why) {
    prompts all = {0};
    cadre_err err = CADRE_OK;
    rand_stream random = {.key = seed, .counter = 1u << 20};
    for (int i = 0; i < TRACKS && !err; i++)
        err = prompts_add_random(&all, b->m.info.tokens, track_prompt(b, i, c->tokens), seed, why);
    for (int i = 0; i < c->others + 1 - n && !err; i++)
        err = prompts_add_random(&all, b->m.info.tokens, 1 + (int)rand_below(&random, 60), seed, why);
    for (int i = 0; i < all.count; i++)
        if (i < TRACKS && (i < first || i >= first + n)) {
            mem_free(all.at[i].ids);
            all.at[i].ids = NULL;
        }
    *p = all;
    return err;
}

static cadre_err run_batch(batch *b, const cell *c, int chunk, cadre_fail *why) {
    gen_result result;
    int longest = 0;
    for (int i = 0; i < b->count; i++)
        if (b->requests[i].prompt_len > longest) longest = b->requests[i].prompt_len;
    cadre_session_options s = {
        .slots = b->count, .context = longest + c->tokens, .max_rows = gen_rows(b->count, chunk)};
    gen_options options = {.ignore_ends = true, .chunk = chunk, .on_logits = keep_logits, .ctx = b};
    cadre_session *session;
    if (s.context > b->bed->m.info.max_context) s.context = b->bed->m.info.max_context;
    cadre_err err = cadre_session_new(b->bed->m.model, &s, &session, why);
    if (err) return err;
    err = generate(b->bed->m.model, session, b->requests, b->count, &options, &result, why);
    cadre_session_free(session);
    for (int i = 0; i < b->count && !err; i++)
        if (b->track[i] >= 0) b->out->tracks[b->track[i]].count = b->requests[i].count;
    return err;
}

static void add_request(batch *b, const prompt *p, int which, int slots, int most, int32_t *ids) {
    static const cadre_sampling other = {1.0f, 0, 0, 3};
    int i = b->count++;
    b->track[i] = which;
    b->requests[i] = (gen_request){.prompt = p->ids,
                                   .prompt_len = p->count,
                                   .most = most,
                                   .slot = slots - 1 - i,
                                   .sequence = (uint64_t)(which >= 0 ? which : 1000 + i),
                                   .sampling = which >= 0 ? &track_defs[which].sampling : &other,
                                   .ids = ids};
}

/* Tracks first .. first + n - 1 with the others that make up the batch. */
static cadre_err run_group(bed *on, const cell *c, int first, int n, uint64_t seed, trace *out, cadre_fail *why) {
    enum { MOST = 64 };
    gen_request requests[MOST];
    int owner[MOST], all_chunk = 1 << 14;
    batch b = {.bed = on, .out = out, .requests = requests, .track = owner};
    prompts p = {0};
    int slots = c->others + 1 > n ? c->others + 1 : n;
    int32_t *spare = mem_new_array(MOST, TRACK_TOKENS_MAX * sizeof *spare);
    cadre_err err = spare ? make_prompts(on, c, first, n, seed, &p, why)
                          : cadre_fail_set(why, CADRE_NOMEM, "out of memory for the bench");
    /* Others and tracks by turns, so that tracks have neighbours on both sides. */
    for (int i = 0; i < slots && !err; i++) {
        if (i < n) add_request(&b, &p.at[first + i], first + i, slots, c->tokens, out->tracks[first + i].ids);
        int other = TRACKS + i;
        if (other < p.count)
            add_request(&b, &p.at[other], -1, slots, 1 + (i * 7) % c->tokens, spare + i * TRACK_TOKENS_MAX);
    }
    if (!err) err = run_batch(&b, c, c->chunk ? c->chunk : all_chunk, why);
    prompts_done(&p);
    mem_free(spare);
    return err;
}

/* ---- rows ---- */

/* After a prefix, c->rows tokens in one step (or CELL_ROWS single steps when rows is 0): logits of each. */
static cadre_err run_rows(bed *b, const cell *c, uint64_t seed, trace *out, cadre_fail *why) {
    enum { PREFIX = 20 };
    prompts p = {0};
    cadre_session *session = NULL;
    int n = c->rows ? c->rows : CELL_ROWS, piece = c->rows ? c->rows : 1, vocab = b->m.info.vocab;
    cadre_session_options s = {.context = PREFIX + CELL_ROWS, .max_rows = PREFIX + CELL_ROWS};
    cadre_err err = prompts_add_random(&p, b->m.info.tokens, PREFIX + CELL_ROWS, seed + 1, why);
    if (!err) err = cadre_session_new(b->m.model, &s, &session, why);
    if (!err) err = cadre_session_step(session, &(cadre_chunk){0, PREFIX, p.at[0].ids, false}, 1, why);
    for (int i = 0; i < n && !err; i += piece) {
        err = cadre_session_step(session, &(cadre_chunk){0, piece, p.at[0].ids + PREFIX + i, true}, 1, why);
        for (int k = 0; k < piece && !err; k++)
            cadre_sha256(cadre_session_logits(session, k), (size_t)vocab * sizeof(float), out->rows[i + k]);
    }
    if (session) cadre_session_free(session);
    prompts_done(&p);
    return err;
}

/* ---- a cell ---- */

cadre_err bed_run(bed *b, const cell *c, uint64_t seed, trace *out, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    *out = (trace){0}; /* nothing of an earlier cell may pass for this one's */
    if (c->rows || !c->axis) err = run_rows(b, c, seed, out, why);
    if (c->rows) return err;
    int group = c->others ? (c->others < TRACKS ? (c->others + 1) / 2 : TRACKS) : 1;
    for (int first = 0; first < c->tracks && !err; first += group) {
        int n = c->tracks - first < group ? c->tracks - first : group;
        err = run_group(b, c, first, n, seed, out, why);
    }
    return err;
}

static bool same(const char *a, const char *b) {
    return *a && !strcmp(a, b); /* a row that neither has is no equal row */
}

static parting compare_track(const track *want, const track *got, int index, int tokens) {
    for (int i = 0; i < tokens; i++) {
        if (i >= want->count || i >= got->count) return (parting){"count", index, i};
        if (!same(want->logits[i], got->logits[i])) return (parting){"logits", index, i};
        if (want->ids[i] != got->ids[i]) return (parting){"tokens", index, i};
    }
    return got->count == tokens ? (parting){0} : (parting){"count", index, tokens};
}

parting trace_compare(const trace *want, const trace *got, const cell *c) {
    for (int i = 0; i < c->rows; i++)
        if (!same(want->rows[i], got->rows[i])) return (parting){"logits", 0, i};
    for (int t = 0; t < c->tracks && !c->rows; t++) {
        parting p = compare_track(&want->tracks[t], &got->tracks[t], t, c->tokens);
        if (p.what) return p;
    }
    return (parting){0};
}
