/* config.c: both spellings of the golden configs, and configs made to deceive it. A case is the base config with one
 * member replaced (or taken away). */
#include "model/folder.h"

#include <math.h>

static const char *const base[][2] = {{"model_type", "\"qwen3_moe\""},
                                      {"vocab_size", "96"},
                                      {"hidden_size", "64"},
                                      {"num_hidden_layers", "4"},
                                      {"num_attention_heads", "4"},
                                      {"num_key_value_heads", "2"},
                                      {"head_dim", "32"},
                                      {"max_position_embeddings", "256"},
                                      {"rms_norm_eps", "1e-5"},
                                      {"rope_theta", "1000000"},
                                      {"num_experts", "8"},
                                      {"num_experts_per_tok", "2"},
                                      {"moe_intermediate_size", "32"},
                                      {"intermediate_size", "96"},
                                      {"norm_topk_prob", "true"},
                                      {"torch_dtype", "\"bfloat16\""},
                                      {"eos_token_id", "2"}};
enum { BASE = sizeof base / sizeof *base };

/* Writes the base config: `key` gets `value` (NULL: no such member), and `more` (may be NULL) is added in front. One
 * member a line, so that the line of a complaint is known. */
static void write_config(const char *key, const char *value, const char *more) {
    char text[4096] = "{";
    size_t n = 1;
    if (more) n += (size_t)snprintf(text + n, sizeof text - n, "%s,", more);
    bool found = false, first = true;
    for (int i = 0; i < BASE; i++) {
        bool hit = key && !strcmp(base[i][0], key);
        found = found || hit;
        if (hit && !value) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n\"%s\": %s", first ? "" : ",", base[i][0],
                              hit ? value : base[i][1]);
        first = false;
    }
    if (key && value && !found) n += (size_t)snprintf(text + n, sizeof text - n, ",\n\"%s\": %s", key, value);
    snprintf(text + n, sizeof text - n, "}");
    folder_text(dir, "config.json", text);
}

static void refuse(const char *key, const char *value, cadre_err code, const char *text) {
    model_config c;
    cadre_fail why = {0};
    char place[64];
    write_config(key, value, NULL);
    cadre_err err = config_read(dir, &c, &why);
    print_message("%s\n", why.text);
    snprintf(place, sizeof place, "config.json:%s", value ? "" : "1:1: the root has no ");
    check_refusal(err, &why, code, TEXTS(place, key, text));
    assert_null(c.is_moe);
}

static void accept(const char *key, const char *value, model_config *c) {
    write_config(key, value, NULL);
    must(config_read(dir, c, fail_out));
}

/* ---- what is read ---- */

static void base_is_read(void **state) {
    (void)state;
    model_config c;
    accept(NULL, NULL, &c);
    assert_string_equal(c.arch, "qwen3_moe");
    assert_int_equal(c.vocab, 96);
    assert_int_equal(c.d, 64);
    assert_int_equal(c.layers, 4);
    assert_int_equal(c.heads, 4);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 32);
    assert_int_equal(c.max_context, 256);
    assert_true(c.eps == 1e-5);
    assert_true(c.rope_theta == 1e6);
    assert_false(c.yarn);
    assert_false(c.tied);
    assert_false(c.attention_bias);
    assert_false(c.qkv_bias);
    assert_true(c.qk_norm);
    assert_int_equal(c.dtype, CADRE_BF16);
    assert_int_equal(c.moe.d, 64);
    assert_int_equal(c.moe.e, 8);
    assert_int_equal(c.moe.k, 2);
    assert_int_equal(c.moe.f, 32);
    assert_true(c.moe.renormalize);
    assert_int_equal(c.moe.gate, CADRE_SOFTMAX);
    assert_int_equal(c.moe.act, CADRE_SWIGLU);
    assert_int_equal(c.moe.shared_f, 0);
    for (int i = 0; i < 4; i++) assert_true(c.is_moe[i]);
    assert_int_equal(c.mtp_layers, 0);
    assert_int_equal(c.ends, 1);
    assert_int_equal(c.end[0], 2);
    assert_true(c.temperature == -1 && c.top_p == -1 && c.top_k == -1);
    config_done(&c);
}

static void defaults_hold(void **state) {
    (void)state;
    model_config c;
    accept("head_dim", NULL, &c);
    assert_int_equal(c.head_dim, 16);
    config_done(&c);
    accept("head_dim", "null", &c);
    assert_int_equal(c.head_dim, 16);
    config_done(&c);
    accept("num_key_value_heads", "null", &c);
    assert_int_equal(c.kv_heads, 4);
    config_done(&c);
    accept("torch_dtype", NULL, &c);
    assert_int_equal(c.dtype, CADRE_F32);
    config_done(&c);
    accept("rope_theta", NULL, &c);
    assert_true(c.rope_theta == 10000);
    config_done(&c);
    accept("norm_topk_prob", NULL, &c);
    assert_false(c.moe.renormalize);
    config_done(&c);
    accept("eos_token_id", "null", &c);
    assert_int_equal(c.ends, 0);
    config_done(&c);
    accept("rope_scaling", "null", &c);
    assert_false(c.yarn);
    config_done(&c);
    accept("rms_norm_eps", "1", &c); /* a whole number where a real is expected */
    assert_true(c.eps == 1);
    config_done(&c);
}

static void spellings_are_one(void **state) {
    (void)state;
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    model_config c;
    for (int i = 0; i < 3; i++) {
        char more[80];
        snprintf(more, sizeof more, "\"%s\":16", experts[i]);
        write_config("num_experts", NULL, more);
        must(config_read(dir, &c, fail_out));
        assert_int_equal(c.moe.e, 16);
        config_done(&c);
    }
    write_config("rope_theta", NULL, "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000}");
    must(config_read(dir, &c, fail_out));
    assert_true(c.rope_theta == 500000);
    config_done(&c);
    write_config("torch_dtype", NULL, "\"dtype\":\"float16\"");
    must(config_read(dir, &c, fail_out));
    assert_int_equal(c.dtype, CADRE_F16);
    config_done(&c);
    accept("eos_token_id", "[7, 9, 7]", &c);
    assert_int_equal(c.ends, 2);
    assert_int_equal(c.end[1], 9);
    config_done(&c);
}

/* Every golden folder has config.json as new libraries write it and config.v4.json as old ones did. */
static void golden_spellings_agree(void **state) {
    (void)state;
    int count = 0;
    DIR *d = opendir("tests/golden/models");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char from[600];
        size_t len;
        model_config a, b;
        if (e->d_name[0] == '.') continue;
        snprintf(from, sizeof from, "tests/golden/models/%s", e->d_name);
        must(config_read(from, &a, fail_out));
        char *old = folder_read(from, "config.v4.json", &len);
        folder_write(dir, "config.json", old, len);
        free(old);
        must(config_read(dir, &b, fail_out));
        assert_memory_equal(a.is_moe, b.is_moe, (size_t)a.layers * sizeof *a.is_moe);
        assert_int_equal(a.ends, 1);
        mem_free(a.is_moe);
        mem_free(b.is_moe);
        a.is_moe = b.is_moe = NULL;
        assert_memory_equal(&a, &b, sizeof a);
        count++;
    }
    closedir(d);
    assert_true(count >= 10);
}

static void golden_features_are_read(void **state) {
    (void)state;
    model_config c;
    must(config_read("tests/golden/models/qwen3_moe_yarn", &c, fail_out));
    assert_true(c.yarn && c.yarn_truncate && c.yarn_factor == 4 && c.yarn_original == 64);
    assert_true(fabs(c.yarn_attention_factor - 1.1386294361119891) < 1e-15); /* 0.1 ln 4 + 1 */
    assert_int_equal(c.max_context, 256);
    config_done(&c);
    must(config_read("tests/golden/models/qwen3_moe_sparse2_tied", &c, fail_out));
    assert_true(c.tied && !c.is_moe[0] && c.is_moe[1] && !c.is_moe[2]);
    assert_int_equal(c.f_dense, 44);
    config_done(&c);
    must(config_read("tests/golden/models/qwen3_moe_dense_bias", &c, fail_out));
    assert_true(c.attention_bias && c.qkv_bias && !c.is_moe[0] && c.is_moe[1]);
    config_done(&c);
    must(config_read("tests/golden/models/qwen2_moe_base", &c, fail_out));
    assert_true(c.qkv_bias && !c.attention_bias && !c.qk_norm && !c.moe.renormalize);
    assert_int_equal(c.moe.shared_f, 28);
    assert_int_equal(c.head_dim, 10);
    config_done(&c);
}

static void read_rope(const char *rope, model_config *c) {
    write_config("rope_scaling", rope, NULL);
    must(config_read(dir, c, fail_out));
}

static void yarn_is_resolved(void **state) {
    (void)state;
    model_config c;
    read_rope("{\"type\":\"yarn\",\"factor\":40,\"original_max_position_embeddings\":4096,\"mscale\":0.707,"
              "\"mscale_all_dim\":0.707,\"beta_fast\":32,\"beta_slow\":1,\"truncate\":false}",
              &c);
    assert_true(c.yarn_attention_factor == 1); /* the ratio of two equal terms */
    assert_false(c.yarn_truncate);
    assert_int_equal(c.max_context, 163840); /* 4096 * 40: more than the 256 of max_position_embeddings */
    config_done(&c);
    read_rope("{\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":1.0,\"mscale_all_dim\":0.5}", &c);
    assert_true(fabs(c.yarn_attention_factor - (0.1 * log(40) + 1) / (0.05 * log(40) + 1)) < 1e-15);
    assert_int_equal(c.yarn_original, 256);
    config_done(&c);
    read_rope("{\"rope_type\":\"yarn\",\"factor\":4,\"attention_factor\":1.25}", &c);
    assert_true(c.yarn_attention_factor == 1.25);
    assert_true(c.yarn_beta_fast == 32 && c.yarn_beta_slow == 1);
    config_done(&c);
    read_rope("{\"rope_type\":\"yarn\",\"factor\":null,\"original_max_position_embeddings\":64}", &c);
    assert_true(c.yarn_factor == 4); /* 256 / 64 */
    config_done(&c);
}

static void layers_are_marked(void **state) {
    (void)state;
    model_config c;
    accept("mlp_only_layers", "[0, 3]", &c);
    assert_true(!c.is_moe[0] && c.is_moe[1] && c.is_moe[2] && !c.is_moe[3]);
    assert_int_equal(c.f_dense, 96);
    config_done(&c);
    accept("decoder_sparse_step", "2", &c);
    assert_true(!c.is_moe[0] && c.is_moe[1] && !c.is_moe[2] && c.is_moe[3]);
    config_done(&c);
    accept("num_nextn_predict_layers", "1", &c);
    assert_int_equal(c.mtp_layers, 1);
    assert_int_equal(c.layers, 4);
    config_done(&c);
}

static void generation_wins(void **state) {
    (void)state;
    model_config c;
    cadre_fail why;
    folder_text(dir, "generation_config.json",
                "{\"eos_token_id\":[5,6],\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95}");
    accept(NULL, NULL, &c);
    assert_int_equal(c.ends, 2);
    assert_int_equal(c.end[0], 5);
    assert_true(c.temperature == 0.6 && c.top_p == 0.95 && c.top_k == 20);
    config_done(&c);
    folder_text(dir, "generation_config.json", "{\"do_sample\":false,\"temperature\":0.6}");
    accept(NULL, NULL, &c);
    assert_int_equal(c.end[0], 2);
    assert_true(c.temperature == -1);
    config_done(&c);
    folder_text(dir, "generation_config.json", "{\"temperature\":\"hot\"}");
    check_refusal(config_read(dir, &c, &why), &why, CADRE_FORMAT,
                  TEXTS("generation_config.json:1:16: .temperature is \"hot\" (text), expected a number in 0..100"));
    folder_text(dir, "generation_config.json", "[]");
    check_refusal(config_read(dir, &c, &why), &why, CADRE_FORMAT, TEXTS("generation_config.json:1:1", "an object"));
}

/* ---- what is refused ---- */

static void missing_keys_are_named(void **state) {
    (void)state;
    static const char *const keys[] = {"model_type",        "vocab_size",          "hidden_size",
                                       "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
                                       "num_experts",       "num_experts_per_tok", "moe_intermediate_size"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) refuse(keys[i], NULL, CADRE_FORMAT, "expected");
    write_config("intermediate_size", NULL, "\"mlp_only_layers\":[1]");
    model_config c;
    cadre_fail why;
    check_refusal(config_read(dir, &c, &why), &why, CADRE_FORMAT, TEXTS("has no intermediate_size"));
}

static void kinds_are_checked(void **state) {
    (void)state;
    refuse("hidden_size", "\"64\"", CADRE_FORMAT,
           ".hidden_size is \"64\" (text), expected a whole number in 1..1048576");
    refuse("hidden_size", "64.0", CADRE_FORMAT, "expected a whole number");
    refuse("num_experts", "[8]", CADRE_FORMAT, "is an array of 1, expected a whole number in 1..16384");
    refuse("model_type", "3", CADRE_FORMAT, "expected a text");
    refuse("tie_word_embeddings", "1", CADRE_FORMAT, "expected true or false");
    refuse("rms_norm_eps", "true", CADRE_FORMAT, "expected a number");
    refuse("rope_scaling", "\"yarn\"", CADRE_FORMAT, "expected an object");
    refuse("mlp_only_layers", "0", CADRE_FORMAT, "expected a list of layer numbers");
    refuse("eos_token_id", "\"</s>\"", CADRE_FORMAT, "expected a token id");
    refuse("layer_types", "\"full_attention\"", CADRE_FORMAT, "expected a list of texts");
}

static void ranges_are_checked(void **state) {
    (void)state;
    refuse("hidden_size", "0", CADRE_FORMAT, "1..1048576");
    refuse("hidden_size", "-64", CADRE_FORMAT, "1..1048576");
    refuse("hidden_size", "2147483648", CADRE_FORMAT, "1..1048576");
    refuse("num_hidden_layers", "1000000000", CADRE_FORMAT, "1..1024");
    refuse("vocab_size", "16777217", CADRE_FORMAT, "1..16777216");
    refuse("max_position_embeddings", "16777217", CADRE_FORMAT, "1..16777216");
    refuse("num_experts", "0", CADRE_FORMAT, "1..16384");
    refuse("num_experts_per_tok", "0", CADRE_FORMAT, "1..16384");
    refuse("num_experts_per_tok", "9", CADRE_FORMAT, "is 9, expected at most the number of experts, 8");
    refuse("moe_intermediate_size", "99999999999999999999", CADRE_FORMAT, "1..1048576");
    refuse("rms_norm_eps", "0", CADRE_FORMAT, "expected a number in");
    refuse("rms_norm_eps", "-1e-6", CADRE_FORMAT, "expected a number in");
    refuse("rms_norm_eps", "NaN", CADRE_FORMAT, "is nan, expected a number in");
    refuse("rope_theta", "0", CADRE_FORMAT, "expected a number in");
    refuse("rope_theta", "Infinity", CADRE_FORMAT, "is inf, expected a number in");
    refuse("decoder_sparse_step", "0", CADRE_FORMAT, "1..1048576");
    refuse("mlp_only_layers", "[4]", CADRE_FORMAT, "expected a layer number in 0..3");
    refuse("mlp_only_layers", "[-1]", CADRE_FORMAT, "expected a layer number in 0..3");
    refuse("eos_token_id", "-1", CADRE_FORMAT, "expected a token id");
    refuse("eos_token_id", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", CADRE_FORMAT, "at most 16");
}

static void shapes_must_fit(void **state) {
    (void)state;
    refuse("num_key_value_heads", "3", CADRE_FORMAT, "is 3, expected a divisor of num_attention_heads 4");
    refuse("num_key_value_heads", "8", CADRE_FORMAT, "expected a divisor");
    refuse("head_dim", "31", CADRE_FORMAT, "gives a head of 31, expected an even number");
    refuse("head_dim", "1048576", CADRE_FORMAT, "expected a product up to 1048576");
    write_config("head_dim", NULL, NULL);
    model_config c;
    cadre_fail why;
    write_config("hidden_size", "66", "\"unused\":0");
    must(config_read(dir, &c, fail_out)); /* head_dim is given: hidden_size need not be a multiple */
    config_done(&c);
    folder_text(dir, "config.json",
                "{\"model_type\":\"qwen3_moe\",\"vocab_size\":9,\"hidden_size\":66,\"num_hidden_layers\":1,"
                "\"max_position_embeddings\":9,\n \"num_attention_heads\":4}");
    check_refusal(config_read(dir, &c, &why), &why, CADRE_FORMAT,
                  TEXTS("config.json:2:24: .num_attention_heads is 4, expected a divisor of hidden_size 66"));
    write_config("num_experts", "8", "\"num_local_experts\":16");
    check_refusal(config_read(dir, &c, &why), &why, CADRE_FORMAT,
                  TEXTS("num_local_experts is 16, but .num_experts is 8"));
}

static void features_are_refused(void **state) {
    (void)state;
    refuse("model_type", "\"llama\"", CADRE_UNSUPPORTED,
           ":2:15: .model_type is 'llama', expected one of: qwen3_moe, qwen2_moe");
    refuse("use_sliding_window", "true", CADRE_UNSUPPORTED, "sliding windows");
    refuse("hidden_act", "\"gelu\"", CADRE_UNSUPPORTED, "is 'gelu', expected silu");
    refuse("quantization_config", "{\"quant_method\":\"fp8\"}", CADRE_UNSUPPORTED, "quantised");
    refuse("torch_dtype", "\"float8_e4m3fn\"", CADRE_UNSUPPORTED, "expected float32, bfloat16 or float16");
    refuse("layer_types", "[\"full_attention\",\"linear_attention\"]", CADRE_UNSUPPORTED, "full_attention only");
    refuse("rope_scaling", "{\"type\":\"llama3\",\"factor\":8}", CADRE_UNSUPPORTED,
           "'llama3', expected default or yarn");
    refuse("rope_parameters", "{\"full_attention\":{\"rope_theta\":1}}", CADRE_UNSUPPORTED, "");
    refuse("partial_rotary_factor", "0.5", CADRE_UNSUPPORTED, "");
}

static void yarn_is_checked(void **state) {
    (void)state;
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":0}", CADRE_FORMAT, ".factor is 0, expected a number in 1..");
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":NaN}", CADRE_FORMAT, ".factor is nan");
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1}", CADRE_FORMAT, "more than beta_slow");
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":0}", CADRE_FORMAT,
           ".original_max_position_embeddings is 0");
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":-1}", CADRE_FORMAT,
           ".attention_factor");
    refuse("rope_scaling", "{\"type\":\"yarn\",\"factor\":4,\"rope_theta\":1}", CADRE_FORMAT, "at least 2");
}

static void refuse_text(const char *text, const char *message) {
    model_config c;
    cadre_fail why = {0};
    folder_text(dir, "config.json", text);
    cadre_err err = config_read(dir, &c, &why);
    print_message("%s\n", why.text);
    check_refusal(err, &why, CADRE_FORMAT, TEXTS("config.json", message));
}

static void files_are_checked(void **state) {
    (void)state;
    model_config c;
    cadre_fail why = {0};
    char path[1024];
    check_refusal(config_read(dir, &c, &why), &why, CADRE_IO, TEXTS("config.json"));
    refuse_text("", "expected a value");
    refuse_text("[]", "expected an object");
    refuse_text("{\"model_type\":\"qwen3_moe\"} {}", "expected the end");
    refuse_text("{\"model_type\":\"qwen3_moe\",}", "expected a key");
    refuse_text("{\"model_type\":\"qwen3_moe\",\"model_type\":\"qwen3_moe\"}", "given before");
    refuse_text("\xEF\xBB\xBF{}", "config.json:1:1");
    refuse_text("{// no\n}", "config.json:1:2");
    refuse_text("{\"model_type\":\"qwen3\\u0000moe\"}", ".model_type");
    folder_path(path, dir, "config.json");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    check_refusal(config_read(dir, &c, &why), &why, CADRE_IO, TEXTS("config.json", "folder"));
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    cadre_err err = CADRE_NOMEM;
    int n = 0;
    for (; err && n < 100; n++) {
        model_config c;
        cadre_fail why = {0};
        mem_fail_after(n);
        err = config_read("tests/golden/models/qwen3_moe_base", &c, &why);
        mem_fail_after(-1);
        if (err) check_refusal(err, &why, CADRE_NOMEM, TEXTS("config.json"));
        config_done(&c);
    }
    assert_true(n > 5);
    assert_false(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(base_is_read, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(defaults_hold, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(spellings_are_one, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(golden_spellings_agree, folder_make, folder_drop),
        cmocka_unit_test(golden_features_are_read),
        cmocka_unit_test_setup_teardown(yarn_is_resolved, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(layers_are_marked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(generation_wins, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(missing_keys_are_named, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(kinds_are_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(ranges_are_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(shapes_must_fit, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(features_are_refused, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(yarn_is_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(files_are_checked, folder_make, folder_drop),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
