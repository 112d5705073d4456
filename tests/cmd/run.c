/* run: prompts to text: the JSON contract, the hash, batches, threads, chunks, stdin, a full context, chat. */
#include "command.h"

#define KEYS                                                                                                         \
    "schema text token_ids sha256 ttft_ms tpot_ms tokens_per_s acceptance allocs_per_step device numerics switches " \
    "receipts requests"

static const char *model(void) {
    return command_model("qwen3_moe_base");
}

/* run --json with these options. */
static json_doc *run_json(const char *options) {
    ran r = command("run -m %s --json %s", model(), options);
    if (r.status) fail_msg("run %s: status %d, %s", options, r.status, r.err);
    json_doc *doc = command_json(&r);
    command_free(&r);
    return doc;
}

static const char *text_of(const json *v, const char *key) {
    const json *t = json_get(v, key);
    assert_true(t && t->kind == JSON_TEXT);
    return t->text;
}

static bool is_null(const json *v, const char *key) {
    const json *m = json_get(v, key);
    assert_non_null(m);
    return m->kind == JSON_NULL;
}

/* The hash is of the ids as little-endian int32. */
static void check_sha(const json *v) {
    unsigned char bytes[4096];
    size_t n = 0;
    char hex[65];
    for (const json *id = json_get(v, "token_ids")->child; id; id = id->next)
        for (int b = 0; b < 4; b++) bytes[n++] = (unsigned char)((uint32_t)id->integer >> (8 * b));
    cadre_sha256(bytes, n, hex);
    assert_string_equal(text_of(v, "sha256"), hex);
}

/* The tokenizer of the tiny model gives each character its own id; specials give nothing. */
static void check_text(const json *v) {
    const char *text = text_of(v, "text");
    for (const json *id = json_get(v, "token_ids")->child; id; id = id->next) {
        if (id->integer < 3) continue;
        assert_int_equal(model_id(*text), id->integer);
        text++;
    }
    assert_int_equal(*text, 0);
}

static void contract(void **state) {
    (void)state;
    json_doc *doc = run_json("-p 'hello there' -n 30");
    const json *v = json_root(doc), *r = json_get(v, "requests");
    command_has(v, KEYS);
    assert_int_equal(json_get(v, "token_ids")->count, 30);
    check_sha(v);
    check_text(v);
    assert_true(json_get(v, "ttft_ms")->number > 0 && json_get(v, "tpot_ms")->number > 0);
    assert_true(json_get(v, "tokens_per_s")->number > 0);
    assert_true(is_null(v, "acceptance"));
    assert_int_equal(json_get(v, "allocs_per_step")->integer, 0); /* law L2 */
    assert_int_equal(r->count, 1);
    command_has(r->child, "id text token_ids sha256 prompt_tokens tokens end ttft_ms tpot_ms");
    assert_int_equal(json_get(r->child, "prompt_tokens")->integer, 11);
    assert_string_equal(text_of(r->child, "end"), "length");
    assert_string_equal(text_of(v, "numerics"), "cpu-f32-chain");
    json_free(doc);
}

static void receipts(void **state) {
    (void)state;
    json_doc *doc = run_json("-p abc -n 3 --set attn.heads=2");
    const json *v = json_root(doc);
    int64_t runs = 0;
    bool override = false;
    for (const json *r = json_get(v, "receipts")->child; r; r = r->next) {
        command_has(r, "op kernel shape n_lo n_hi config source why runs");
        runs += json_get(r, "runs")->integer;
        override |= json_is(json_get(r, "source"), "override");
    }
    assert_true(runs > 0 && override);
    assert_true(json_is(json_get(v, "switches")->child, "attn.heads=2"));
    json_free(doc);
}

/* One token has no time per output token; none has no time to a first one. */
static void few(void **state) {
    (void)state;
    json_doc *one = run_json("-p abc -n 1"), *none = run_json("-p abc -n 0");
    const json *v = json_root(one), *w = json_root(none);
    assert_int_equal(json_get(v, "token_ids")->count, 1);
    assert_true(!is_null(v, "ttft_ms") && is_null(v, "tpot_ms") && is_null(v, "tokens_per_s"));
    assert_int_equal(json_get(w, "token_ids")->count, 0);
    assert_true(is_null(w, "ttft_ms") && is_null(w, "tpot_ms") && is_null(w, "allocs_per_step"));
    assert_string_equal(text_of(w, "text"), "");
    check_sha(w);
    json_free(one);
    json_free(none);
}

static void same(const char *a, const char *b) {
    json_doc *x = run_json(a), *y = run_json(b);
    if (strcmp(text_of(json_root(x), "sha256"), text_of(json_root(y), "sha256")))
        fail_msg("'%s' and '%s' differ", a, b);
    json_free(x);
    json_free(y);
}

/* Law L1 through the front door. */
static void invariant(void **state) {
    (void)state;
    static const char *const ways[] = {"--threads 1", "--threads 3", "--prefill-chunk 1", "--prefill-chunk 7",
                                       "--ctx 200",   "--set isa=0", "--set isa=1",       "--set dense.rows=1"};
    for (int sampled = 0; sampled < 2; sampled++)
        for (int i = 0; i < 8; i++) {
            char base[100], way[150];
            snprintf(base, sizeof base, "-p 'once upon a time' -n 40 %s", sampled ? "--temp 0.9 --seed 5" : "");
            snprintf(way, sizeof way, "%s %s", base, ways[i]);
            same(base, way);
        }
}

/* Request i of a batch is what request i is elsewhere: greedy ones are all the same, sampled ones differ by number. */
static void batch(void **state) {
    (void)state;
    json_doc *one = run_json("-p abc -n 20"), *three = run_json("-p abc -n 20 --batch 3");
    json_doc *s1 = run_json("-p abc -n 20 --temp 1"), *s3 = run_json("-p abc -n 20 --temp 1 --batch 3");
    const json *r = json_get(json_root(three), "requests"), *s = json_get(json_root(s3), "requests");
    assert_int_equal(r->count, 3);
    for (const json *q = r->child; q; q = q->next)
        assert_string_equal(text_of(q, "sha256"), text_of(json_root(one), "sha256"));
    assert_int_equal(json_get(json_root(three), "token_ids")->count, 60);
    check_sha(json_root(three));
    check_text(json_root(three));
    assert_string_equal(text_of(s->child, "sha256"), text_of(json_root(s1), "sha256"));
    assert_string_not_equal(text_of(s->child, "sha256"), text_of(s->child->next, "sha256"));
    json_free(one);
    json_free(three);
    json_free(s1);
    json_free(s3);
}

/* Lines of a file, more of them than the batch; blank ones don't count. */
static void lines(void **state) {
    (void)state;
    ran r =
        command_after("printf 'abc\\n\\nsecond line\\r\\nzz\\n' |", "run -m %s -f - --batch 2 -n 8 --json", model());
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r), *alone = run_json("-p 'second line' -n 8");
    const json *q = json_get(json_root(doc), "requests");
    assert_int_equal(q->count, 3);
    assert_string_equal(text_of(q->child->next, "sha256"), text_of(json_root(alone), "sha256"));
    json_free(doc);
    json_free(alone);
    command_free(&r);
    command_refused(command_after("printf '\\n\\n' |", "run -m %s -f - --batch 2", model()), "standard input: no line");
}

/* Text on stdout alone, the same from -p, from a file and from standard input. */
static void plain(void **state) {
    (void)state;
    json_doc *doc = run_json("-p 'abc def' -n 25");
    ran p = command("run -m %s -p 'abc def' -n 25", model());
    ran f = command_after("printf 'abc def\\n' |", "run -m %s -f - -n 25 --stats", model());
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, f.out);
    assert_string_equal(p.err, "");
    assert_int_equal(strncmp(p.out, text_of(json_root(doc), "text"), strlen(text_of(json_root(doc), "text"))), 0);
    assert_int_equal(p.out_len, strlen(text_of(json_root(doc), "text")) + 1);
    for (const char *w = "model\0device\0numerics\0sha256\0allocations    0 per step\0switches       none\0greedy\0"
                         "experts\0policy\0";
         *w; w += strlen(w) + 1)
        if (!strstr(f.err, w)) fail_msg("--stats does not tell %s", w);
    assert_non_null(strstr(f.err, text_of(json_root(doc), "sha256")));
    json_free(doc);
    command_free(&p);
    command_free(&f);
}

/* The own prompt of the command is part of what is shown. */
static void own_prompt(void **state) {
    (void)state;
    ran r = command("run -m %s -n 5", model());
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp(r.out, "Once upon a time", 16), 0);
    command_free(&r);
}

static void context(void **state) {
    (void)state;
    ran r = command("run -m %s -p abcdefgh --ctx 10 -n 50 --json", model());
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *q = json_get(json_root(doc), "requests")->child;
    assert_string_equal(text_of(q, "end"), "context");
    assert_int_equal(json_get(q, "tokens")->integer,
                     3); /* positions 8, 9 are fed, the token after them is still drawn */
    char *first = strstr(r.err, "the context is full (10 positions)");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the context is full")); /* once */
    json_free(doc);
    command_free(&r);
    command_refused(command("run -m %s -p abcdefghijkl --ctx 10", model()),
                    "prompt 1 has 12 tokens, the context holds 10 (--ctx)");
    command_refused(command("run -m %s -p abc --ctx 257", model()), "context is 257, expected 1..256");
    command_refused(command("run -m %s -p ''", model()), "the prompt is empty");
}

/* At a high temperature an end token comes soon; the end is in the ids and the hash, not in the text. */
static void ends(void **state) {
    (void)state;
    json_doc *doc = NULL;
    char options[80];
    bool stopped = false;
    for (int seed = 0; seed < 40 && !stopped; seed++) {
        snprintf(options, sizeof options, "-p abc -n 100 --temp 2 --seed %d", seed);
        json_free(doc);
        doc = run_json(options);
        stopped = !strcmp(text_of(json_get(json_root(doc), "requests")->child, "end"), "stop");
    }
    assert_true(stopped); /* 1 of 96 ids ends: 40 tries of 100 nearly surely hit it */
    const json *last = json_get(json_root(doc), "token_ids")->child;
    while (last->next) last = last->next;
    assert_int_equal(last->integer, 2);
    check_sha(json_root(doc));
    check_text(json_root(doc));
    int64_t count = json_get(json_root(doc), "tokens")->integer;
    strcat(options, " --ignore-eos");
    json_doc *on = run_json(options);
    assert_true(count < 100 && json_get(json_root(on), "tokens")->integer == 100);
    json_free(doc);
    json_free(on);
}

static void weights(void **state) {
    (void)state;
    json_doc *f = run_json("-p abc -n 4 --weights f32"), *b = run_json("-p abc -n 4 --weights bf16");
    assert_string_equal(text_of(json_root(f), "numerics"), "cpu-f32-chain");
    assert_string_equal(text_of(json_root(b), "numerics"), "cpu-bf16-pair");
    json_free(f);
    json_free(b);
}

static void chat(void **state) {
    (void)state;
    ran r = command_after("printf 'hi\\nmore\\n' |", "run -m %s -i -n 6 --ignore-eos --stats", model());
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "no chat format that is known here; it continues plain text"));
    assert_non_null(strstr(r.err, "[2 tokens in"));
    assert_non_null(strstr(r.err, "[5 tokens in")); /* the last token of the first reply, and "more" */
    command_free(&r);
    r = command_after("printf 'abcdefghij\\nmore\\n' |", "run -m %s -i -n 6 --ctx 12 --ignore-eos", model());
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "the context is full (12 positions)"));
    command_free(&r);
}

/* Ctrl-C while it waits for a line: a clean end, though more input could come. After the figures of a turn the next
 * thing that it can sleep in is the wait for the next line. */
static void interrupt(void **state) {
    (void)state;
    started s = command_start("run -m %s -i -n 4 --ignore-eos --stats", model());
    assert_int_equal(write(s.in, "hi\n", 3), 3);
    command_until(&s, command_err_has, "[2 tokens in");
    command_until(&s, command_sleeps, "a wait for a line");
    assert_int_equal(kill(s.pid, SIGINT), 0);
    assert_int_equal(command_end(&s), 0);
}

/* Ctrl-C in the middle of many groups: the run ends with what there is and its figures. */
static void interrupt_groups(void **state) {
    (void)state;
    enum { PROMPTS = 5000, TOKENS = 32 }; /* far more work than the time between the first group and the signal */
    char path[128], text[2 * PROMPTS];
    for (int i = 0; i < PROMPTS; i++) memcpy(text + 2 * i, "A\n", 2);
    snprintf(path, sizeof path, "%s/prompts", scratch);
    assert_int_equal(file_write(path, text, sizeof text, NULL), CADRE_OK);
    started s = command_start("run -f '%s' --batch 2 -n %d --ignore-eos", path, TOKENS);
    command_until(&s, command_out_has, "[2] ");
    assert_int_equal(kill(s.pid, SIGINT), 0);
    assert_int_equal(command_end(&s), 0);
    assert_true(command_says("out", "\n[5000] \n")); /* the last prompt was not answered */
    assert_true(command_says("err", "cadre: interrupted\n"));
    assert_true(command_says("err", " length ") && command_says("err", " interrupted "));
    assert_true(command_says("err", " tokens/s in all\n"));
}

/* The demo model, found without -m from any folder, by a command up to five folders deep in the source tree. */
static void demo(void **state) {
    (void)state;
    static const char *const places[] = {"a", "a/b/c", "a/b/c/d/e"};
    char line[4096], build[2048], models[2048];
    assert_non_null(realpath(getenv("CADRE_BUILD"), build));
    assert_non_null(realpath("models", models));
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line,
                 "cd '%s' && mkdir -p tree/%s && ln -sfn '%.1900s' tree/models && cp '%.1900s/cadre' tree/%s && "
                 "tree/%s/cadre run -n 4 --temp 0 --json >out 2>err",
                 scratch, places[i], models, build, places[i], places[i]);
        assert_int_equal(system(line), 0);
        ran r = {.out = command_read("out", &r.out_len)};
        json_doc *doc = command_json(&r);
        assert_int_equal(json_get(json_root(doc), "token_ids")->count, 4);
        json_free(doc);
        command_free(&r);
    }
}

/* Notes and results name a folder below the current one without the way to it. */
static void short_paths(void **state) {
    (void)state;
    ran r = command("run -n 1 --stats");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "cadre: models/demo: its multi-token-prediction module"));
    assert_non_null(strstr(r.err, "\nmodel          models/demo\n"));
    command_free(&r);
    r = command("run -n 1 -m \"$PWD/models/demo\"");
    assert_non_null(strstr(r.err, "cadre: models/demo: its multi-token-prediction module"));
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract),  cmocka_unit_test(receipts),
        cmocka_unit_test(few),       cmocka_unit_test(invariant),
        cmocka_unit_test(batch),     cmocka_unit_test(lines),
        cmocka_unit_test(plain),     cmocka_unit_test(own_prompt),
        cmocka_unit_test(context),   cmocka_unit_test(ends),
        cmocka_unit_test(weights),   cmocka_unit_test(chat),
        cmocka_unit_test(interrupt), cmocka_unit_test(interrupt_groups),
        cmocka_unit_test(demo),      cmocka_unit_test(short_paths),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
