/* memory: what `cadre run` takes beside what it plans, on a model made here that is large enough to matter; the refusal
 * of what does not fit, before anything is packed; and what the reports tell. */
#include "command.h"
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__)
#    define HAS_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HAS_ASAN 1
#    endif
#endif
#ifndef HAS_ASAN
#    define HAS_ASAN 0
#endif

static void field(const char *id) {
    printf("field %s ok\n", id);
}

/* ---- a model of two layers, so that one layer's source is most of it: 151 MB of experts, 67 MB of embedding and head
 * ---- */

enum { VOCAB = 32768, D = 512, F = 512, E = 48, K = 4, LAYERS = 2, HEADS = 8, HEAD = 64, KV = 2 };

static json_out header;
static size_t data_bytes;

/* rows 0: [cols] */
static void list(int rows, int cols, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void list(int rows, int cols, const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    size_t bytes = 2 * (size_t)(rows ? rows : 1) * (size_t)cols;
    json_open(&header, name, '{');
    json_put_text(&header, "dtype", "BF16");
    json_open(&header, "shape", '[');
    if (rows) json_put_int(&header, NULL, rows);
    json_put_int(&header, NULL, cols);
    json_close(&header, ']');
    json_open(&header, "data_offsets", '[');
    json_put_int(&header, NULL, (int64_t)data_bytes);
    json_put_int(&header, NULL, (int64_t)(data_bytes + bytes));
    json_close(&header, ']');
    json_close(&header, '}');
    data_bytes += bytes;
}

static void list_layer(int l) {
    list(0, D, "model.layers.%d.input_layernorm.weight", l);
    list(0, D, "model.layers.%d.post_attention_layernorm.weight", l);
    list(HEADS * HEAD, D, "model.layers.%d.self_attn.q_proj.weight", l);
    list(KV * HEAD, D, "model.layers.%d.self_attn.k_proj.weight", l);
    list(KV * HEAD, D, "model.layers.%d.self_attn.v_proj.weight", l);
    list(D, HEADS * HEAD, "model.layers.%d.self_attn.o_proj.weight", l);
    list(0, HEAD, "model.layers.%d.self_attn.q_norm.weight", l);
    list(0, HEAD, "model.layers.%d.self_attn.k_norm.weight", l);
    list(E, D, "model.layers.%d.mlp.gate.weight", l);
    for (int e = 0; e < E; e++) {
        list(F, D, "model.layers.%d.mlp.experts.%d.gate_proj.weight", l, e);
        list(F, D, "model.layers.%d.mlp.experts.%d.up_proj.weight", l, e);
        list(D, F, "model.layers.%d.mlp.experts.%d.down_proj.weight", l, e);
    }
}

/* Values of about 0.03 with random signs and mantissas, one block of them again and again. */
static void write_data(FILE *f) {
    enum { BLOCK = 1 << 20 };
    uint16_t *block = malloc(BLOCK * sizeof *block);
    rand_stream random = {.key = 3};
    assert_non_null(block);
    for (int i = 0; i < BLOCK; i++) block[i] = (uint16_t)(0x3C80u | (rand_below(&random, 1 << 16) & 0x807F));
    for (size_t left = data_bytes, n; left; left -= n) {
        n = left < BLOCK * sizeof *block ? left : BLOCK * sizeof *block;
        assert_int_equal(fwrite(block, 1, n, f), n);
    }
    free(block);
}

static void write_weights(const char *path) {
    unsigned char length[8];
    json_open(&header, NULL, '{');
    list(VOCAB, D, "model.embed_tokens.weight");
    list(VOCAB, D, "lm_head.weight");
    list(0, D, "model.norm.weight");
    for (int l = 0; l < LAYERS; l++) list_layer(l);
    json_close(&header, '}');
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(header.len >> (8 * i));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(length, 1, 8, f), 8);
    assert_int_equal(fwrite(header.text, 1, header.len, f), header.len);
    write_data(f);
    assert_int_equal(fclose(f), 0);
    json_out_free(&header);
}

static const char config[] =
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":32768,\"hidden_size\":512,\"intermediate_size\":512,"
    "\"moe_intermediate_size\":512,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
    "\"head_dim\":64,\"num_experts\":48,\"num_experts_per_tok\":4,\"norm_topk_prob\":true,\"rms_norm_eps\":1e-6,"
    "\"rope_theta\":10000,\"max_position_embeddings\":65536,\"torch_dtype\":\"bfloat16\",\"hidden_act\":\"silu\","
    "\"tie_word_embeddings\":false}";

static char dir[128];

static int make_model(void **state) {
    char path[200];
    json_out tokenizer = {0};
    if (command_setup(state)) return -1;
    snprintf(dir, sizeof dir, "%s/big", scratch);
    snprintf(path, sizeof path, "mkdir '%s'", dir);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(file_write(path, config, sizeof config - 1, NULL), CADRE_OK);
    put_tokenizer(&tokenizer);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    assert_int_equal(file_write(path, tokenizer.text, tokenizer.len, NULL), CADRE_OK);
    json_out_free(&tokenizer);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    write_weights(path);
    return 0;
}

/* ---- the bound ---- */

/* Runs the command itself, no shell between; the most that was resident, in bytes. */
static uint64_t peak_of(const char *weights, const char *context, char *out) {
    char program[300];
    int status;
    struct rusage use;
    snprintf(program, sizeof program, "%s/cadre", getenv("CADRE_BUILD"));
    snprintf(out, 128, "%s/out", scratch);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (!freopen(out, "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
        execl(program, program, "run", "-m", dir, "-p", "abc", "-n", "8", "--json", "--weights", weights, "--ctx",
              context, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    return (uint64_t)use.ru_maxrss * 1024;
}

static int64_t number(const json *v, const char *key) {
    const json *n = json_get(v, key);
    assert_non_null(n);
    return n->integer;
}

/* Peak resident memory is at most 1.1 x (packed weights + cache) + 16 MB: here that holds the process itself, scratch,
 * tokenizer and the pieces that are read. */
static void bound(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"bf16", "256"}, {"q8", "4096"}};
    if (HAS_ASAN) skip();
    for (int i = 0; i < 2; i++) {
        char path[128];
        uint64_t peak = peak_of(cases[i][0], cases[i][1], path);
        ran r = {.out = command_read("out", &r.out_len)};
        json_doc *doc = command_json(&r);
        const json *m = json_get(json_root(doc), "memory"), *plan = json_get(m, "plan");
        command_has(plan, "embedding head attention experts shared router norms cache scratch total available");
        double all = (double)(number(plan, "total") - number(plan, "scratch"));
        print_message("%s: %.1f MB of weights and cache (cache %.1f), peak %.1f MB, own account %.1f MB\n", cases[i][0],
                      all / 1e6, (double)number(plan, "cache") / 1e6, (double)peak / 1e6,
                      (double)number(m, "peak") / 1e6);
        assert_true((double)peak <= 1.1 * all + 16e6);
        assert_true((double)peak >= all - (double)number(plan, "cache"));
        assert_true((double)number(m, "peak") <= (double)peak + 1e6); /* the report tells the truth about itself */
        assert_true((double)number(m, "peak") >= 0.9 * (double)peak);
        assert_true(number(m, "own") <= number(m, "resident") && number(m, "resident") <= number(m, "mapped"));
        json_free(doc);
        command_free(&r);
    }
    field("P05");
    field("P07");
}

/* What does not fit is told with its parts, before a weight is read: a folder of holes would do. */
static void refused(void **state) {
    (void)state;
    static const char *const parts[] = {"embedding ", "head ",  "attention ", "experts ",       "router ",
                                        "norms ",     "cache ", "scratch ",   ", have 100.0 MB"};
    ran r = command("run -m '%s' -p abc -n 8 --set memory=100", dir);
    for (int i = 0; i < 9; i++)
        if (!strstr(r.err, parts[i])) fail_msg("no '%s' in: %s", parts[i], r.err);
    command_refused(r, "/big: does not fit: needs ");
    command_refused(command("bench -m '%s' --gen-len 2 --set memory=100 --out /dev/null", dir), "does not fit: needs ");
    command_refused(command("eval -m '%s' -f Makefile --set memory=100", dir), "does not fit: needs ");
    command_refused(command("run -m '%s' -i --set memory=100 </dev/null", dir), "does not fit: needs ");
    /* the cache alone is too much: the weights would fit */
    command_refused(command("run -m '%s' -p abc -n 8 --batch 64 --ctx 65536 --set memory=1000", dir), "cache 4295.0");
    /* fit=0 goes on, and says what will happen */
    r = command("run -n 4 --set memory=1 --set fit=0");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "have 1.0 MB: it will be swapped, or ended by the system"));
    command_free(&r);
}

/* The figures for people, and the fault counters of the bench. */
static void reported(void **state) {
    (void)state;
    ran r = command("run -m '%s' -p abc -n 4 --stats", command_model("qwen3_moe_base"));
    assert_int_equal(r.status, 0);
    for (const char *w =
             " by affinity, \0planned of \0experts \0cache \0scratch \0 resident, \0 of it its own, \0 mapped\0";
         *w; w += strlen(w) + 1)
        if (!strstr(r.err, w)) fail_msg("--stats does not tell '%s': %s", w, r.err);
    command_free(&r);
    r = command("bench -m '%s' --gen-len 4 --prompt-len 4 --repeat 1 --json --out /dev/null",
                command_model("qwen3_moe_base"));
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *s = json_get(json_root(doc), "summary");
    command_has(s, "minor_faults major_faults");
    assert_true(json_get(s, "minor_faults")->kind == JSON_NUMBER);
    command_has(json_get(json_root(doc), "memory"), "plan mapped resident own peak");
    assert_non_null(strstr(r.err, "page faults    "));
    json_free(doc);
    command_free(&r);
}

/* Ctrl-C ends the other commands by the signal, as ever, but says what was interrupted. */
static void interrupted(void **state) {
    (void)state;
    started s = command_start("bench -m %s --repeat 1000 --gen-len 200 --out '%s/samples'",
                              command_model("qwen3_moe_base"), scratch);
    char path[128];
    snprintf(path, sizeof path, "%s/samples", scratch);
    for (int i = 0; i < 3000 && !file_exists(path); i++) usleep(10000); /* the first pass is over */
    assert_int_equal(kill(s.pid, SIGINT), 0);
    assert_int_equal(command_end(&s), -1);
    assert_true(command_says("err", "cadre: bench: interrupted (pass "));
    assert_true(command_says("err", " of 1001)\n"));
    assert_true(command_says("out", "") && !command_says("out", "tokens/s"));
}

static int remove_model(void **state) {
    return command_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound),
        cmocka_unit_test(refused),
        cmocka_unit_test(reported),
        cmocka_unit_test(interrupted),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
