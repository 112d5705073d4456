/* run.c: `cadre run`: prompts to text, as it comes. */
#include "run.h"
#include "commands.h"
#include "job.h"
#include "model/model.h"
#include <string.h>

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(run_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    OPTS_MODEL(run_opts, model),
    O('p', "--prompt", OPTS_TEXT, "TEXT", prompt, 0, 0, "the prompt"),
    O('f', "--file", OPTS_TEXT, "FILE", file, 0, 0, "the prompt from a file, - is standard input"),
    O('i', "--chat", OPTS_FLAG, NULL, chat, 0, 0, "talk: each line of standard input is answered"),
    O('n', "--tokens", OPTS_INT, "N", tokens, 0, 1 << 24, "most tokens to generate (default 200)"),
    O(0, "--ctx", OPTS_INT, "N", context, 1, 1 << 24,
      "positions per sequence (default: enough for prompt and -n; chat: 8192; at most the model's own)"),
    O(0, "--mtp", OPTS_TEXT, "0", mtp, 0, 0, "draft tokens per step; only 0 in this version"),
    O(0, "--temp", OPTS_REAL, "T", temperature, 0, 100,
      "0 is greedy (default: what generation_config.json says, else 0)"),
    O(0, "--top-k", OPTS_INT, "K", top_k, 0, 1 << 24, "only the K likeliest tokens; 0: all (default as --temp)"),
    O(0, "--top-p", OPTS_REAL, "P", top_p, 0, 1, "only the likeliest tokens that make up P (default as --temp)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of the sampling (default 0)"),
    O(0, "--ignore-eos", OPTS_FLAG, NULL, ignore_eos, 0, 0, "go on after an end token"),
    O(0, "--batch", OPTS_INT, "B", batch, 1, 4096,
      "sequences side by side: the prompt B times, or one prompt per line of -f"),
    O(0, "--prefill-chunk", OPTS_INT, "N", chunk, 1, 1 << 16, "most prompt tokens in one step (default 512)"),
    OPTS_WEIGHTS(run_opts, weights),
    O(0, "--stats", OPTS_FLAG, NULL, stats, 0, 0, "tell times, hash, numerics and receipts on stderr"),
    EXPECT_OPTS(run_opts, expect),
    OPTS_EVERYWHERE(run_opts),
};
#undef O

static const char *const examples[] = {
    "cadre run --stats",
    "the demo model goes on from \"Once upon a time\"",
    "cadre run -m DIR -p 'The sea' -n 64 --temp 0.8 --seed 7",
    "a model of yours, sampled",
    "cadre run -f prompts.txt --batch 4 --json",
    "every line of a file, four at a time, as JSON",
    NULL,
};

static const char demo_prompt[] = "Once upon a time";
enum { TEXT_LIMIT = 1 << 28 };

/* ---- Ctrl-C ---- */

volatile sig_atomic_t run_stopped;

static void on_interrupt(int number) {
    run_stopped = 1;
    signal(number, SIG_DFL);
}

void run_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* without SA_RESTART: a waiting read ends too */
    run_stopped = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* ---- what to do ---- */

cadre_sampling run_sampling(const run_opts *o, const cadre_model *model) {
    const model_config *c = &model->config;
    double temperature = o->temperature >= 0 ? o->temperature : c->temperature >= 0 ? c->temperature : 0;
    double top_p = o->top_p >= 0 ? o->top_p : c->top_p >= 0 ? c->top_p : 0;
    int top_k = o->top_k >= 0 ? o->top_k : c->top_k >= 0 ? c->top_k : 0;
    return (cadre_sampling){(float)temperature, top_k, (float)top_p, o->seed};
}

/* The text of -f, read before the model is opened: a wrong name should not cost a load. */
static cadre_err read_text(run_opts *o, cadre_fail *why) {
    if (!o->file) return CADRE_OK;
    if (!strcmp(o->file, "-")) {
        o->file = "standard input";
        return file_read_stdin(TEXT_LIMIT, &o->text, &o->len, why);
    }
    return file_read(o->file, TEXT_LIMIT, &o->text, &o->len, why);
}

static cadre_err read_file_prompts(const run_opts *o, const cadre_model *m, prompts *p, cadre_fail *why) {
    size_t len = o->len;
    if (o->batch > 1) return prompts_add_lines(p, m, o->file, o->text, len, why);
    if (len && o->text[len - 1] == '\n') len--; /* the newline that ends a text file is no part of the prompt */
    return prompts_add_text(p, m, o->text, len, why);
}

static cadre_err read_prompts(const run_opts *o, const cadre_model *m, prompts *p, cadre_fail *why) {
    const char *text = o->prompt ? o->prompt : demo_prompt;
    cadre_err err = o->file ? read_file_prompts(o, m, p, why) : prompts_add_text(p, m, text, strlen(text), why);
    if (!err && p->count == 1) err = prompts_repeat(p, o->batch, why);
    return err;
}

/* ---- text as it comes ---- */

typedef struct talk {
    const run_opts *o;
    const opened *m;
    job *job;
    cadre_text *text;  /* NULL: nothing is streamed */
    cadre_fail failed; /* the first failure of a request's text */
} talk;

static void stream(void *ctx, int request, int32_t id) {
    talk *t = ctx;
    size_t n;
    (void)request;
    if (!t->text) return;
    const char *piece = cadre_text_push(t->text, id, &n);
    fwrite(piece, 1, n, stdout);
    fflush(stdout);
}

static void print_group(void *ctx, int first, int n) {
    talk *t = ctx;
    if (t->o->common.json || t->text) return;
    for (int i = first; i < first + n; i++) {
        const gen_request *r = &t->job->requests[i];
        growing g = {0};
        cadre_fail why = {0};
        if (prompts_decode(t->m->model, r->ids, r->count, &g, &why) && !t->failed.code) t->failed = why;
        printf("[%d] ", i + 1);
        fwrite(g.text ? g.text : "", 1, g.len, stdout);
        putchar('\n');
        mem_free(g.text);
    }
    fflush(stdout);
}

/* One sequence is streamed; several are printed as each group is done. */
static cadre_err start_text(talk *t, cadre_fail *why) {
    bool own = !t->o->prompt && !t->o->file;
    if (t->o->common.json || t->job->count > 1) return CADRE_OK;
    cadre_err err = cadre_text_new(t->m->model, &t->text, why);
    if (!err && own) printf("%s", demo_prompt);
    return err;
}

static void end_text(talk *t) {
    size_t n;
    if (!t->text) return;
    const char *rest = cadre_text_end(t->text, &n);
    fwrite(rest, 1, n, stdout);
    putchar('\n');
    fflush(stdout);
    cadre_text_free(t->text);
}

/* ---- the command ---- */

static cadre_err run_job(talk *t, job *j, gen_result *result, cadre_fail *why) {
    cadre_sampling sampling = run_sampling(t->o, t->m->model);
    gen_options options = {
        .sampling = &sampling, .ignore_ends = t->o->ignore_eos, .stop = &run_stopped, .on_token = stream, .ctx = t};
    t->job = j;
    cadre_err err = start_text(t, why);
    if (!err) err = job_run(j, &options, print_group, result, why);
    end_text(t);
    if (!err && t->failed.code) *why = t->failed, err = t->failed.code;
    return err;
}

static int run_prompts(const run_opts *o, const opened *m, const prompts *p, cadre_fail *why) {
    job j;
    gen_result result;
    talk t = {.o = o, .m = m};
    job_options options = {
        .name = m->dir, .most = o->tokens, .batch = o->batch, .context = o->context, .chunk = o->chunk};
    if (job_init(&j, m->model, p, &options, why)) return say_failed(why);
    run_catch_interrupt();
    int status = run_job(&t, &j, &result, why) ? say_failed(why) : run_report(o, m, &j, &result);
    job_done(&j);
    return status;
}

static int run_model(const run_opts *o, const opened *m, cadre_fail *why) {
    prompts p = {0};
    if (o->chat) return run_chat(o, m, why);
    int status = read_prompts(o, m->model, &p, why) ? say_failed(why) : run_prompts(o, m, &p, why);
    prompts_done(&p);
    return status;
}

static cadre_err check(const run_opts *o, cadre_fail *why) {
    if ((o->prompt != NULL) + (o->file != NULL) + o->chat > 1)
        return cadre_fail_set(why, CADRE_RANGE, "run takes one of -p, -f and -i");
    if (o->chat && o->batch > 1) return cadre_fail_set(why, CADRE_RANGE, "run -i talks with one sequence, not a batch");
    if (o->chat && o->common.json) return cadre_fail_set(why, CADRE_RANGE, "run -i has no --json");
    return opts_only_zero("--mtp", o->mtp, why) ? CADRE_OK : why->code;
}

static int run(void) {
    static run_opts o = {.tokens = 200, .batch = 1, .chunk = 512, .temperature = -1, .top_p = -1, .top_k = -1};
    cadre_fail why = {0};
    opened m;
    int status;
    if (!opts_read(&run_command, &o, &status)) return status;
    say_to_stderr(true); /* stdout is for the text */
    if (check(&o, &why) || read_text(&o, &why) || open_prepared(&o.common, o.model, o.weights, &m, &why)) {
        mem_free(o.text);
        return say_failed(&why);
    }
    status = expect_model(&o.expect, m.model, run_model(&o, &m, &why));
    open_close(&m);
    mem_free(o.text);
    return status;
}

const opts_command run_command = {"run", "generate text", NULL, OPTS_TABLE(defs), examples, run};
