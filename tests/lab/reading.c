/* reading: what the programs that are known print, as they document it; null for what they did not measure; families;
 * activation. The outputs here are made by hand after the programs' formats. */
#include "lab/reading.h"
#include "folder.h"

#include <math.h>
#include <unistd.h>

static cadre_fail why;

/* Reads an output as that of a visit of one arm. `arm` and `extra`: more members of the arm, of the experiment. */
typedef struct visit {
    lab_experiment *e;
    lab_output o;
    lab_reading r;
} visit;

/* A folder that no visit before had. */
static const char *fresh(void) {
    static char dir[300];
    static int serial;
    snprintf(dir, sizeof dir, "%s/visit%d", folder, serial++);
    must(file_make_dir(dir, fail_out));
    return dir;
}

static void put_in(const char *dir, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    must(file_write(path, text, strlen(text), fail_out));
}

static visit read_as(const char *command, const char *extra, const char *arm, const char *out, const char *err,
                     const char *file, const char *content) {
    char text[4000];
    visit v;
    snprintf(text, sizeof text,
             "{\"name\": \"x\", \"command\": \"%s\"%s, \"arms\": [{\"name\": \"a\"%s}, {\"name\": \"b\", \"args\": "
             "\"-x\"}]}",
             command, extra, arm);
    put("exp.json", text);
    must(lab_experiment_read(in("exp.json"), &v.e, fail_out));
    const char *dir = fresh();
    put_in(dir, "stdout", out);
    put_in(dir, "stderr", err);
    if (file) put_in(dir, file, content);
    must(lab_output_read(dir, v.e->output, &v.o, fail_out));
    must(lab_reading_make(v.e, &v.e->arms[0], &v.o, 1.5, &v.r, fail_out));
    return v;
}

static void done(visit *v) {
    lab_reading_free(&v->r);
    lab_output_free(&v->o);
    lab_experiment_free(v->e);
}

static const lab_figure *figure(const visit *v, const char *name, int iteration) {
    for (int i = 0; i < v->r.count; i++)
        if (!strcmp(v->r.figures[i].name, name) && v->r.figures[i].iteration == iteration) return &v->r.figures[i];
    return NULL;
}

static void is(const visit *v, const char *name, int iteration, double value, double tokens) {
    const lab_figure *f = figure(v, name, iteration);
    if (!f) fail_msg("no %s, iteration %d", name, iteration);
    if (!(f->value == value || (isnan(value) && isnan(f->value)))) fail_msg("%s is %g, not %g", name, f->value, value);
    if (!(f->tokens == tokens || (isnan(tokens) && isnan(f->tokens)))) fail_msg("%s: %g tokens", name, f->tokens);
}

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* B13: two accepted of three at each of ten steps: accepted is 20, without the bonus token. */
static const char run_json[] =
    "{\"schema\": 1, \"command\": \"run\", \"tokens\": 40, \"ttft_ms\": null, \"tpot_ms\": 0.5, \"tokens_per_s\": "
    "2000, "
    "\"acceptance\": {\"drafts\": 10, \"draft_tokens\": 30, \"accepted\": 20, \"emitted\": 30, \"length\": 3}, "
    "\"allocs_per_step\": 0, \"requests\": [{\"id\": 1, \"sha256\": \"" SHA_B "\"}, {\"id\": 0, \"sha256\": \"" SHA_A
    "\"}], "
    "\"sampling\": {\"temperature\": 0, \"seed\": 0}, \"device\": \"cpu avx2, 2 threads, X\", \"numerics\": \"n\", "
    "\"switches\": [\"isa=1\"], \"receipts\": [{\"op\": \"experts\", \"source\": \"user\", \"line\": 3, \"runs\": 7}, "
    "{\"op\": \"norm\", \"source\": \"policy\", \"runs\": 5}]}\n";

static void cadre_run(void **state) {
    (void)state;
    visit v = read_as("cadre run", "", ", \"set\": {\"isa\": \"avx2\"}", run_json, "", NULL, NULL);
    is(&v, "tpot_ms", 1, 0.5, 40);
    is(&v, "ttft_ms", 1, NAN, 40); /* B01: null is not 0 */
    is(&v, "tokens_per_s", 1, 2000, 40);
    is(&v, "wall_s", 1, 1.5, 40);
    assert_true(v.r.accepted == 20 && v.r.drafts == 10 && v.r.draft_tokens == 30);
    assert_true(v.r.failed == 0);
    assert_int_equal(json_root(v.r.requests)->count, 2);
    assert_true(json_is(json_get(json_root(v.r.requests)->child, "id"), "0"));
    char hex[65];
    const char *lines = "0\t" SHA_A "\n1\t" SHA_B "\n";
    cadre_sha256(lines, strlen(lines), hex);
    assert_string_equal(v.r.family, hex);
    assert_int_equal(v.r.active, LAB_ACTIVE_YES); /* it tells its switches: they are what was set */
    done(&v);
    v = read_as("cadre run", "", "", run_json, "", NULL, NULL);
    assert_int_equal(v.r.active, LAB_ACTIVE_NO);
    assert_string_equal(v.r.why, "switch isa=1 was in force, which the arm does not set");
    done(&v);
    v = read_as("cadre run", "", ", \"set\": {\"isa\": 2}", run_json, "", NULL, NULL);
    assert_int_equal(v.r.active, LAB_ACTIVE_NO); /* another value than was set */
    done(&v);
    v = read_as("cadre run", "", "", "{\"schema\": 1, \"tokens\": 1}", "", NULL, NULL);
    assert_null(figure(&v, "tpot_ms", 1)); /* what is not there is no sample */
    done(&v);
}

/* B12: the order in which requests are done does not matter; a byte of one does. */
static void families(void **state) {
    (void)state;
    static const char *const bodies[] = {"{\"id\": 2, \"text\": \"x\"}, {\"id\": 10, \"text\": \"y\"}",
                                         "{\"id\": 10, \"text\": \"y\"}, {\"id\": 2, \"text\": \"x\"}",
                                         "{\"id\": 10, \"text\": \"z\"}, {\"id\": 2, \"text\": \"x\"}"};
    char family[3][65], out[300];
    for (int i = 0; i < 3; i++) {
        snprintf(out, sizeof out, "{\"m\": 1, \"r\": [%s]}", bodies[i]);
        visit v =
            read_as("true",
                    ", \"metrics\": [{\"name\": \"m\", \"unit\": \"s\", \"json\": \".m\"}], \"outputs\": {\"text\": "
                    "\".r[].text\", \"id\": \"id\"}",
                    "", out, "", NULL, NULL);
        strcpy(family[i], v.r.family);
        assert_true(v.r.text_bytes == 2);
        const json *first = json_root(v.r.requests)->child;
        assert_true(json_is(json_get(first, "id"), "2")); /* by number, not by text */
        done(&v);
    }
    assert_int_equal(strlen(family[0]), 64);
    assert_string_equal(family[0], family[1]);
    assert_true(strcmp(family[0], family[2]) != 0);
    visit v = read_as(
        "true",
        ", \"metrics\": [{\"name\": \"m\", \"unit\": \"s\", \"json\": \".m\"}], \"outputs\": {\"ids\": \".r[].ids\"}",
        "", "{\"m\": 1, \"r\": [{\"ids\": [442, 308, 258]}]}", "", NULL, NULL);
    static const unsigned char bytes[] = {0xba, 1, 0, 0, 0x34, 1, 0, 0, 2, 1, 0, 0};
    char hex[65];
    cadre_sha256(bytes, sizeof bytes, hex);
    assert_true(json_is(json_get(json_root(v.r.requests)->child, "sha256"), hex));
    done(&v);
}

static void cadre_bench_moe(void **state) {
    (void)state;
    visit v =
        read_as("cadre bench moe", ", \"metric\": \"us@8\"", "",
                "{\"rows\": [{\"m\": 1, \"us\": 40.5, \"gbps\": 9, \"source\": \"policy\"}, {\"m\": 8, \"us\": 204, "
                "\"gbps\": 7, \"source\": \"user\"}], \"device\": \"cpu\", \"switches\": []}",
                "", NULL, NULL);
    is(&v, "us@1", 1, 40.5, NAN); /* figures of two set-ups are never one metric */
    is(&v, "us@8", 1, 204, NAN);
    is(&v, "gbps@8", 1, 7, NAN);
    assert_string_equal(v.r.family, "");
    done(&v);
}

/* vllm bench serve --save-result --save-detailed */
static const char vllm_json[] =
    "{\"date\": \"20261129-210000\", \"endpoint_type\": \"vllm\", \"backend\": \"vllm\", \"label\": null, "
    "\"model_id\": "
    "\"m\", \"tokenizer_id\": \"m\", \"num_prompts\": 3, \"request_rate\": \"inf\", \"burstiness\": 1.0, "
    "\"max_concurrency\": 2, \"duration\": 4.5, \"completed\": 2, \"failed\": 1, \"total_input_tokens\": 20, "
    "\"total_output_tokens\": 60, \"request_throughput\": 0.44, \"request_goodput\": null, \"output_throughput\": "
    "13.3, \"total_token_throughput\": 17.8, \"input_lens\": [10, 10, 0], \"output_lens\": [30, 30, 0], \"ttfts\": "
    "[0.1, 0.2, 0.0], \"itls\": [[0.01], [0.01], []], \"generated_texts\": [\"a\", \"b\", \"\"], \"errors\": [\"\", "
    "\"\", \"503\"], \"spec_decode_acceptance_rate\": 66.6, \"spec_decode_acceptance_length\": 3.0, "
    "\"spec_decode_num_drafts\": 20, \"spec_decode_draft_tokens\": 60, \"spec_decode_accepted_tokens\": 40, "
    "\"mean_ttft_ms\": 150.0, \"median_ttft_ms\": 150.0, \"mean_tpot_ms\": 11.5, \"median_tpot_ms\": 11.0, "
    "\"mean_itl_ms\": 10.0, \"p99_itl_ms\": 12.0}";

static void vllm(void **state) {
    (void)state;
    visit v =
        read_as("vllm bench serve --save-result", "", "", "Serving Benchmark Result\n", "", "result.json", vllm_json);
    is(&v, "tpot_ms", 1, 11.5, 60);
    is(&v, "ttft_ms", 1, 150, 60);
    is(&v, "output_tokens_per_s", 1, 13.3, 60);
    is(&v, "wall_s", 1, 1.5, 60);
    assert_true(v.r.failed == 1); /* B02 */
    assert_true(v.r.accepted == 40 && v.r.drafts == 20 && v.r.draft_tokens == 60);
    assert_int_equal(json_root(v.r.requests)->count, 3);
    assert_true(v.r.text_bytes == 2); /* B03: told apart from tokens, which are counted */
    done(&v);
    /* B01: an answer without a first token has the time 0, which went into the means; the rest was measured */
    v = read_as("vllm bench serve", "", "", "", "", "result.json",
                "{\"num_prompts\": 2, \"completed\": 2, \"failed\": 0, \"ttfts\": [0.1, 0.0], \"mean_tpot_ms\": 600.0, "
                "\"mean_ttft_ms\": 50.0, \"output_throughput\": 5.0, \"total_output_tokens\": 4}");
    is(&v, "tpot_ms", 1, NAN, 4);
    is(&v, "ttft_ms", 1, NAN, 4);
    is(&v, "output_tokens_per_s", 1, 5, 4);
    done(&v);
    /* an older file, which does not say how many failed; and no request that was answered: nothing was measured */
    v = read_as("vllm bench serve", "", "", "", "", "result.json",
                "{\"num_prompts\": 16, \"completed\": 0, \"mean_tpot_ms\": 0.0, \"mean_ttft_ms\": 0.0, "
                "\"total_output_tokens\": 0}");
    is(&v, "tpot_ms", 1, NAN, 0);
    assert_true(v.r.failed == 16);
    done(&v);
    v = read_as("vllm bench serve", "", "", "no file\n", "", NULL, NULL);
    assert_null(figure(&v, "tpot_ms", 1));
    assert_string_equal(v.o.no_doc, "result.json was not written");
    done(&v);
}

/* llama-bench -o json, and -o jsonl */
#define ROW(p, n, a, b)                                                                                              \
    "{\"build_commit\": \"8337e4c\", \"build_number\": 1, \"cpu_info\": \"c\", \"gpu_info\": \"\", \"backends\": "   \
    "\"CPU\", \"model_filename\": \"m.gguf\", \"model_type\": \"qwen3moe\", \"n_threads\": 2, \"type_k\": \"f16\", " \
    "\"n_prompt\": " #p ", \"n_gen\": " #n ", \"n_depth\": 0, \"avg_ns\": 1, \"stddev_ns\": 0, \"avg_ts\": 1, "      \
    "\"stddev_ts\": 0, \"samples_ns\": [100, 200], \"samples_ts\": [" #a ", " #b "]}"

static void llama_bench(void **state) {
    (void)state;
    static const char *const outs[] = {"[\n" ROW(512, 0, 300, 310) ",\n" ROW(0, 128, 20, 21) "\n]\n",
                                       ROW(512, 0, 300, 310) "\n" ROW(0, 128, 20, 21) "\n"};
    for (int i = 0; i < 2; i++) {
        visit v =
            read_as("llama-bench", ", \"metric\": \"tg_tokens_per_s@128\"", "", outs[i], "load: ok\n", NULL, NULL);
        is(&v, "tg_tokens_per_s@128", 1, 20, 128);
        is(&v, "tg_tokens_per_s@128", 2, 21, 128);
        is(&v, "pp_tokens_per_s@512", 2, 310, 0);
        assert_true(json_is(v.r.device, "CPU"));
        assert_string_equal(v.r.family, ""); /* it hashes no output */
        assert_int_equal(v.r.active, LAB_ACTIVE_UNKNOWN);
        done(&v);
    }
}

/* Another program: numbers by patterns, tokens apart, the first stream that has any. */
static void patterns(void **state) {
    (void)state;
    visit v = read_as("true",
                      ", \"metrics\": [{\"name\": \"us\", \"unit\": \"us\", \"pattern\": \"time: ([0-9.]+) ms\", "
                      "\"scale\": 1000}], \"reads\": {\"tokens\": \"/made (\\\\d+) tokens\", \"failed\": \"/lost "
                      "(\\\\d+)\"}, \"outputs\": {\"pattern\": \"^> (.*)$\"}",
                      "", "> once\ntime: 1.5 ms\ntime: x ms\n> upon\ntime: 2.5 ms\n",
                      "made 12 tokens\nmade 8 tokens\nlost 0\n", NULL, NULL);
    is(&v, "us", 1, 1500, 20);
    is(&v, "us", 2, 2500, 20);
    assert_null(figure(&v, "us", 3));
    assert_true(v.r.failed == 0);
    assert_int_equal(json_root(v.r.requests)->count, 2);
    done(&v);
}

/* B11: the table that never reached the program; and what else refutes or proves an arm. */
static void activation(void **state) {
    (void)state;
    static const struct {
        const char *arm;
        lab_active active;
        const char *why;
    } all[] = {
        {", \"must\": [\"op=experts .*source=user.* runs=[1-9]\"]", LAB_ACTIVE_YES, ""},
        {", \"must\": [\"op=norm source=user\"]", LAB_ACTIVE_NO,
         "must 'op=norm source=user': not seen in stdout, stderr, 1 other files and receipts"},
        {", \"must\": [\"^Using table t$\"]", LAB_ACTIVE_YES, ""}, /* a log that the visit left */
        {", \"must_not\": [\"default config\"]", LAB_ACTIVE_NO, "must_not 'default config': seen in stderr"},
        {", \"must_not\": [\"never\"]", LAB_ACTIVE_YES, ""},
        {", \"counters\": [{\"name\": \"hits\", \"json\": \".receipts[source=user].runs\", \"low\": 1}]",
         LAB_ACTIVE_YES, ""},
        {", \"counters\": [{\"name\": \"hits\", \"json\": \".receipts[].runs\", \"high\": 11}]", LAB_ACTIVE_NO,
         "counter hits is 12, expected at most 11"},
        {", \"counters\": [{\"name\": \"hits\", \"json\": \".hits\", \"low\": 1, \"high\": 2}]", LAB_ACTIVE_NO,
         "counter hits: no number at .hits, expected 1 to 2"},
        {", \"counters\": [{\"name\": \"n\", \"pattern\": \"n=(\\\\d+)\", \"low\": 1}]", LAB_ACTIVE_NO,
         "counter n is 0, expected at least 1"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char arm[400];
        snprintf(arm, sizeof arm, ", \"set\": {\"isa\": 1}%s", all[i].arm);
        visit v =
            read_as("cadre run", "", arm, run_json, "Using default config\nn=0\n", "server.log", "x\nUsing table t\n");
        if (v.r.active != all[i].active || strcmp(v.r.why, all[i].why))
            fail_msg("%s: %d '%s'", all[i].arm, v.r.active, v.r.why);
        done(&v);
    }
}

/* What nobody could look into does not prove that a line is not there. */
static void unread(void **state) {
    (void)state;
    char log[400];
    visit v = read_as("cadre run", "", ", \"set\": {\"isa\": 1}, \"must_not\": [\"never\"]", run_json, "", NULL, NULL);
    assert_int_equal(v.r.active, LAB_ACTIVE_YES);
    const char *dir = fresh();
    lab_reading_free(&v.r);
    lab_output_free(&v.o);
    put_in(dir, "stdout", run_json);
    put_in(dir, "stderr", "");
    put_in(dir, "server.log", "never\n");
    snprintf(log, sizeof log, "%s/server.log", dir);
    assert_int_equal(truncate(log, (off_t)LAB_TEXT_MAX + 1), 0);
    must(lab_output_read(dir, NULL, &v.o, fail_out));
    must(lab_reading_make(v.e, &v.e->arms[0], &v.o, 1, &v.r, fail_out));
    assert_int_equal(v.r.active, LAB_ACTIVE_NO);
    assert_string_equal(v.r.why, "must_not 'never': not told: server.log could not be searched (over 64 MiB?)");
    done(&v);
}

static void memory(void **state) {
    (void)state;
    visit v = read_as("cadre run", "", ", \"set\": {\"isa\": 1}, \"must\": [\"runs=5\"]", run_json, "", NULL, NULL);
    const char *dir = fresh();
    lab_reading_free(&v.r);
    lab_output_free(&v.o);
    put_in(dir, "stdout", run_json);
    put_in(dir, "stderr", "");
    for (int n = 0;; n++) {
        mem_fail_after(n);
        cadre_err err = lab_output_read(dir, NULL, &v.o, &why);
        if (!err && (err = lab_reading_make(v.e, &v.e->arms[0], &v.o, 1, &v.r, &why))) lab_output_free(&v.o);
        mem_fail_after(-1);
        if (!err) break;
        if (err != CADRE_NOMEM) fail_msg("%d: %d %s", n, err, why.text);
    }
    assert_string_equal(v.r.why, "");
    done(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cadre_run),  cmocka_unit_test(families),    cmocka_unit_test(cadre_bench_moe),
        cmocka_unit_test(vllm),       cmocka_unit_test(llama_bench), cmocka_unit_test(patterns),
        cmocka_unit_test(activation), cmocka_unit_test(memory),      cmocka_unit_test(unread),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
