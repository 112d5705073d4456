/* job.c: storage and grouping around generate(). */
#include "job.h"
#include "open.h"
#include <math.h>

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static cadre_err no_memory(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the tokens of a run");
}

/* Room for what can come: `most`, or what fills the context. */
static cadre_err make_request(job *j, int i, const prompt *p, const job_options *o, int context, cadre_fail *why) {
    gen_request *r = &j->requests[i];
    if (p->count > context)
        return cadre_fail_set(why, CADRE_RANGE, "prompt %d has %d tokens, the context holds %d (--ctx)", i + 1,
                              p->count, context);
    size_t n = (size_t)smaller(context - p->count + 1, o->most);
    r->prompt = p->ids;
    r->prompt_len = p->count;
    r->most = o->most;
    r->slot = i % j->batch;
    r->sequence = (uint64_t)i;
    r->ids = mem_new_array(n, sizeof *r->ids);
    r->at_ns = o->times ? mem_new_array(n, sizeof *r->at_ns) : NULL;
    return r->ids && (r->at_ns || !o->times) ? CADRE_OK : no_memory(why);
}

static int64_t prompt_tokens(const prompts *p) {
    int64_t n = 0;
    for (int i = 0; i < p->count; i++) n += p->at[i].count;
    return n;
}

static cadre_err make_session(job *j, const prompts *p, const job_options *o, cadre_fail *why) {
    cadre_model_info info;
    cadre_model_get_info(j->model, &info);
    int64_t all = prompt_tokens(p), want = (int64_t)prompts_longest(p) + (o->most ? o->most : 1);
    int context = o->context ? o->context : want < info.max_context ? (int)want : info.max_context;
    j->chunk = all < o->chunk ? (int)all : o->chunk;
    cadre_session_options s = {.slots = j->batch, .context = context, .max_rows = gen_rows(j->batch, j->chunk)};
    cadre_err err = open_load(j->model, o->name, &s, &j->memory, why);
    return err ? err : cadre_session_new(j->model, &s, &j->session, why);
}

cadre_err job_init(job *j, cadre_model *model, const prompts *p, const job_options *options, cadre_fail *why) {
    *j = (job){.model = model, .batch = smaller(options->batch, p->count)};
    j->requests = mem_new_array((size_t)p->count, sizeof *j->requests);
    cadre_err err = j->requests ? make_session(j, p, options, why) : no_memory(why);
    for (int i = 0; i < p->count && !err; i++) {
        j->count = i + 1;
        err = make_request(j, i, &p->at[i], options, cadre_session_context(j->session), why);
    }
    if (err) job_done(j);
    return err;
}

void job_done(job *j) {
    for (int i = 0; i < j->count; i++) {
        mem_free(j->requests[i].ids);
        mem_free(j->requests[i].at_ns);
    }
    mem_free(j->requests);
    if (j->session) cadre_session_free(j->session);
    *j = (job){0};
}

static void add_up(gen_result *total, const gen_result *r) {
    total->steps += r->steps;
    total->decode_steps += r->decode_steps;
    total->wall_ns += r->wall_ns;
    total->decode_ns += r->decode_ns;
    total->tokens += r->tokens;
    total->decode_tokens += r->decode_tokens;
    total->decode_bytes += r->decode_bytes;
    total->prompt_tokens += r->prompt_tokens;
    total->counted_steps += r->counted_steps;
    total->allocations += r->allocations;
    total->minor_faults += r->minor_faults;
    total->major_faults += r->major_faults;
}

static cadre_err run_group(job *j, int first, int n, gen_options *options, gen_result *total, cadre_fail *why) {
    gen_result result;
    for (int slot = 0; slot < n; slot++) {
        cadre_err err = cadre_session_rewind(j->session, slot, 0, why);
        if (err) return err;
    }
    cadre_err err = generate(j->model, j->session, j->requests + first, n, options, &result, why);
    if (!err) add_up(total, &result);
    return err;
}

cadre_err job_run(job *j, const gen_options *options, void (*done)(void *ctx, int first, int n), gen_result *total,
                  cadre_fail *why) {
    gen_options o = *options;
    o.chunk = j->chunk;
    *total = (gen_result){0};
    for (int first = 0; first < j->count; first += j->batch) {
        int n = smaller(j->batch, j->count - first);
        cadre_err err = run_group(j, first, n, &o, total, why);
        if (err) return err;
        if (done) done(options->ctx, first, n);
    }
    return CADRE_OK;
}

double job_rate(const gen_result *r) {
    return r->decode_tokens ? (double)r->decode_tokens * 1e9 / (double)r->decode_ns : NAN;
}

void job_sha(const job *j, char hex[65]) {
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < j->count; i++) gen_sha_add(&s, j->requests[i].ids, j->requests[i].count);
    sha256_hex(&s, hex);
}

int job_ended(const job *j, gen_end end) {
    int n = 0;
    for (int i = 0; i < j->count; i++) n += j->requests[i].end == end;
    return n;
}
