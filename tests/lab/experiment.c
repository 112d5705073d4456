/* experiment: every key, the exact lines of refusals, programs that are told by their commands, the order of visits,
 * manifests and their differences. */
#include "folder.h"
#include "lab/find.h"
#include "lab/program.h"

#include <math.h>

static cadre_fail why;

static lab_experiment *read_text(const char *text) {
    lab_experiment *e;
    put("exp.json", text);
    must(lab_experiment_read(in("exp.json"), &e, fail_out));
    return e;
}

/* The line without the folder: "exp.json:3:5: ...". */
static void refused(const char *text, cadre_err code, const char *want) {
    lab_experiment *e;
    put("exp.json", text);
    assert_int_equal(lab_experiment_read(in("exp.json"), &e, &why), code);
    const char *name = strstr(why.text, "exp.json");
    assert_non_null(name);
    assert_string_equal(name, want);
}

static const char full[] =
    "{\"name\": \"full\", \"asks\": \"does it?\", \"metric\": \"speed\", \"better\": \"higher\", \"effect\": 0.02,\n"
    " \"level\": 0.01, \"power\": 0.9, \"reference\": \"old\", \"acceptance_bound\": 0.1, \"order\": \"balanced\",\n"
    " \"visits\": 4, \"warmup\": 2, \"iterations\": 3, \"skip\": 1, \"timeout_s\": 9, \"pause_s\": 0.5,\n"
    " \"exclusive\": false, \"protocol\": {\"temperature\": 0, \"seed\": 1}, \"program\": \"none\",\n"
    " \"outputs\": {\"pattern\": \"^out (.*)$\"}, \"output\": \"log\", \"per_token\": true, \"noise_floor\": 0.03,\n"
    " \"reads\": {\"tokens\": \"/tokens (\\\\d+)\", \"failed\": \".failed\"}, \"env\": {\"X\": 1, \"Y\": \"y\"},\n"
    " \"metrics\": [{\"name\": \"speed\", \"unit\": \"1/s\", \"pattern\": \"speed ([0-9.]+)\", \"scale\": 1000}],\n"
    " \"factors\": [\"a\", \"b\"],\n"
    " \"arms\": [{\"name\": \"new\", \"command\": [\"./run\", \"a b\"], \"args\": \"-n 5\", \"env\": {\"X\": \"2\"},\n"
    "   \"files\": [\"t\"], \"must\": [\"on\"], \"must_not\": [\"off\"], \"factors\": [\"a\"],\n"
    "   \"counters\": [{\"name\": \"c\", \"json\": \".n\", \"low\": 1}], \"prediction\": \"p\", \"predicted\": -0.1},\n"
    "  {\"name\": \"old\", \"command\": \"./run x\"}]}";

static void ceilings_and_floor(void **state) {
    (void)state;
    lab_experiment *e = read_text(
        "{\"name\": \"c\", \"command\": \"cadre bench count\", \"metric\": \"us@256\", \"floor\": \"empty_us@256\",\n"
        " \"arms\": [{\"name\": \"a\"}, {\"name\": \"b\", \"args\": \"-x\", \"predicted_delta\": -0.25},\n"
        "  {\"name\": \"free one\", \"args\": \"-y\", \"ceiling\": true}, {\"name\": \"d\", \"ceiling\": true}]}");
    assert_string_equal(e->question.floor, "empty_us@256");
    assert_string_equal(e->question.ceilings, "free one,d");
    assert_true(e->arms[1].predicted_delta == -0.25 && isnan(e->arms[1].predicted));
    assert_true(e->arms[2].ceiling && !e->arms[1].ceiling && isnan(e->arms[0].predicted_delta));
    lab_experiment_free(e);
#define TWO(first, second)                                                                               \
    "{\"name\": \"c\", \"command\": \"cadre run\", \"arms\": [{\"name\": \"a\"" first "},\n {\"name\": " \
    "\"b\", \"args\": \"-x\"" second "}]}"
    refused(TWO(", \"ceiling\": true", ""), CADRE_FORMAT,
            "exp.json:1:1: the root has a ceiling as its reference: nothing can be held against that");
    refused(TWO("", ", \"predicted\": -0.1, \"predicted_delta\": -1"), CADRE_FORMAT,
            "exp.json:2:68: .arms[1].predicted_delta stands beside predicted: one of them");
#undef TWO
}

static void everything(void **state) {
    (void)state;
    lab_experiment *e = read_text(full);
    assert_string_equal(e->name, "full");
    assert_string_equal(e->asks, "does it?");
    assert_string_equal(e->question.metric, "speed");
    assert_true(e->question.better_told && e->question.better == LAB_HIGHER);
    assert_true(e->question.effect == 0.02 && e->question.level == 0.01 && e->question.power == 0.9);
    assert_true(e->question.acceptance_bound == 0.1 && e->question.per_token && e->question.noise_floor == 0.03);
    assert_string_equal(e->question.reference, "old");
    assert_int_equal(e->reference, 1);
    assert_int_equal(e->order, LAB_BALANCED);
    assert_true(e->visits == 4 && e->warmup == 2 && e->iterations == 3 && e->skip == 1);
    assert_true(e->timeout_s == 9 && e->pause_s == 0.5 && !e->exclusive && !e->aa && !e->program);
    assert_string_equal(e->output, "log");
    assert_string_equal(e->outputs.pattern, "^out (.*)$");
    assert_int_equal(e->metric_count, 2); /* its own, and the wall time of a visit */
    assert_true(e->metrics[0].reader == LAB_READ_PATTERN && e->metrics[0].scale == 1000);
    assert_string_equal(e->metrics[1].name, "wall_s");
    assert_string_equal(lab_experiment_readers(e)->tokens, "/tokens (\\d+)");
    const lab_arm *a = &e->arms[0];
    static const char *const words[] = {"./run", "a b", "-n", "5"};
    for (int i = 0; i < 4; i++) assert_string_equal(a->argv[i], words[i]);
    assert_null(a->argv[4]);
    assert_string_equal(a->env[0], "Y=y");
    assert_string_equal(a->env[1], "X=2");
    assert_null(a->env[2]);
    assert_string_equal(e->arms[1].env[0], "X=1");
    assert_string_equal(a->files[0], "t");
    assert_string_equal(a->must[0], "on");
    assert_string_equal(a->must_not[0], "off");
    assert_string_equal(a->factors[0], "a");
    assert_true(a->counter_count == 1 && a->counters[0].low == 1 && isinf(a->counters[0].high));
    assert_true(a->predicted == -0.1 && isnan(e->arms[1].predicted));
    assert_int_equal(strlen(e->sha256), 64);
    lab_experiment_free(e);
}

#define ARMS "\"arms\": [{\"name\": \"a\"}, {\"name\": \"b\", \"args\": \"--mtp 2\"}]"
#define RUN  "\"command\": \"cadre run -n 5\", " ARMS "}"

/* The first words of a command tell the program; commands of cadre are completed. */
static void programs(void **state) {
    (void)state;
    static const struct {
        const char *command, *program, *metric;
    } all[] = {{"cadre run -n 5", "cadre run", "tpot_ms"},
               {"./build/cadre run", "cadre run", "tpot_ms"},
               {"cadre bench moe --m 1", "cadre bench moe", "us"},
               {"cadre bench --repeat 3", "cadre bench", "tpot_ms"},
               {"vllm bench serve --save-result", "vllm bench serve", "tpot_ms"},
               {"bin/llama-bench -o json", "llama-bench", "tg_tokens_per_s"},
               {"vllm serve", NULL, "wall_s"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"name\": \"x\", \"command\": \"%s\", " ARMS "}", all[i].command);
        lab_experiment *e = read_text(text);
        if (all[i].program)
            assert_string_equal(e->program, all[i].program);
        else
            assert_null(e->program);
        assert_string_equal(e->question.metric, all[i].metric);
        lab_experiment_free(e);
    }
    lab_experiment *e = read_text("{\"name\": \"x\", " RUN);
    static const char *const words[] = {"cadre", "run", "-n", "5", "--mtp", "2", "--json"};
    for (int i = 0; i < 7; i++) assert_string_equal(e->arms[1].argv[i], words[i]);
    assert_null(e->arms[1].argv[7]);
    lab_experiment_free(e);
    e = read_text("{\"name\": \"x\", \"metric\": \"us@8\", \"command\": \"cadre bench moe --out o\", " ARMS "}");
    assert_string_equal(e->question.metric, "us@8");
    assert_string_equal(e->arms[0].argv[5], "--json");
    assert_null(e->arms[0].argv[6]);
    lab_experiment_free(e);
    for (int i = 0; lab_program_name(i); i++)
        for (int k = 0; lab_program_metric(i, k); k++) {
            const lab_metric *m = lab_program_metric(i, k);
            assert_true(m->scale == 1 && *m->unit);
            if (m->reader == LAB_READ_JSON) assert_null(lab_path_wrong(m->where));
        }
}

static void refusals(void **state) {
    (void)state;
    refused("{\"name\": \"x\",\n \"comand\": \"y\", " ARMS "}", CADRE_FORMAT,
            "exp.json:2:12: .comand is no key of an experiment; did you mean command?");
    refused("{\"name\": \"x\", \"arms\": [{\"name\": \"a\", \"threads\": 1}]}", CADRE_FORMAT,
            "exp.json:1:49: .arms[0].threads is no key of an arm; it has name command args env set files must must_not "
            "counters factors prediction predicted predicted_delta ceiling");
    refused("{\"name\": \"x\", " ARMS "}", CADRE_FORMAT,
            "exp.json:1:24: .arms[0] has no command, and the experiment has none");
    refused("{\"name\": \"x\", \"visits\": \"6\", " RUN, CADRE_FORMAT,
            "exp.json:1:25: .visits is \"6\" (text), expected a whole number in 1..10000");
    refused("{\"name\": \"x\", \"order\": \"random\", " RUN, CADRE_FORMAT,
            "exp.json:1:24: .order is \"random\", expected one of interleaved, balanced, blocks");
    refused("{\"name\": \"x\", \"metric\": \"tpot\", " RUN, CADRE_FORMAT,
            "exp.json:1:25: .metric is no metric of this experiment; it has tpot_ms, ttft_ms, tokens_per_s, "
            "allocs_per_step, wall_s");
    refused("{\"name\": \"x\", \"metric\": \"tpot_ms@8\", " RUN, CADRE_FORMAT,
            "exp.json:1:25: .metric is no metric of this experiment; it has tpot_ms, ttft_ms, tokens_per_s, "
            "allocs_per_step, wall_s");
    refused("{\"name\": \"x\", \"metrics\": [{\"name\": \"m\", \"unit\": \"points\", \"json\": \".a\"}], " RUN,
            CADRE_FORMAT,
            "exp.json:1:1: the root does not say whether more or less m (unit points) is better; add \"better\": "
            "\"lower\" or \"higher\"");
    refused("{\"name\": \"x\", \"reference\": \"c\", " RUN, CADRE_FORMAT,
            "exp.json:1:28: .reference is not the name of an arm");
    refused("{\"name\": \"x\", \"program\": \"sglang\", " RUN, CADRE_FORMAT,
            "exp.json:1:26: .program is not known; there are cadre run, cadre bench, cadre bench moe, cadre bench "
            "count, vllm bench serve, "
            "llama-bench, none");
    refused("{\"name\": \"x\", \"command\": \"sh -c 'a; b'\", " ARMS "}", CADRE_FORMAT,
            "exp.json:1:26: .command holds a character that only a shell understands: write an array of words, "
            "[\"sh\", \"-c\", ...] if you need a shell");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\", \"set\": {\"isa\": 1}}]}",
            CADRE_FORMAT, "exp.json:1:64: .arms[0].set is for commands of cadre; use env or args");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\"}]}", CADRE_FORMAT,
            "exp.json:1:42: .arms is one arm; only \"aa\": true measures one against itself");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", CADRE_FORMAT,
            "exp.json:1:58: .arms[1] has the name of another arm");
    refused("{\"name\": \"x\", \"metrics\": [{\"name\": \"m\", \"json\": \"a\"}], " RUN, CADRE_FORMAT,
            "exp.json:1:49: .metrics[0].json is no path: a step begins with . or [");
    refused("{\"name\": \"x\", \"metrics\": [{\"name\": \"m\", \"json\": \".a\", \"pattern\": \"b\"}], " RUN,
            CADRE_FORMAT, "exp.json:1:27: .metrics[0] needs one of json and pattern");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\", \"must\": [\"(\"]}]}", CADRE_FORMAT,
            "exp.json:1:66: .arms[0].must[0] does not compile: missing closing parenthesis (at byte 1)");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\", \"counters\": [{\"name\": \"c\", "
            "\"json\": "
            "\".n\"}]}]}",
            CADRE_FORMAT, "exp.json:1:70: .arms[0].counters[0] needs low, high or both");
    refused("{\"name\": \"x\", \"command\": \"true\", \"arms\": [{\"name\": \"a\", \"factors\": [\"f\"]}]}",
            CADRE_FORMAT, "exp.json:1:69: .arms[0].factors[0] is none of the experiment's factors");
    refused("{\"name\": \"x\", \"iterations\": 2, \"skip\": 2, " RUN, CADRE_FORMAT,
            "exp.json:1:40: .skip leaves none of the 2 iterations");
    refused("[]", CADRE_FORMAT, "exp.json:1:1: the root is an array of 0, expected an experiment, an object");
    refused("{\"name\": \"x\"", CADRE_FORMAT, "exp.json:1:13: expected ',' or '}', found the end");
    lab_experiment *e;
    assert_int_equal(lab_experiment_read(in("none.json"), &e, &why), CADRE_IO);
}

static void orders(void **state) {
    (void)state;
    static const struct {
        const char *order;
        int arms[9];
    } all[] = {
        {"interleaved", {0, 1, 0, 1, 0, 1, 0}}, {"balanced", {0, 1, 1, 0, 0, 1, 0}}, {"blocks", {0, 0, 0, 1, 1, 1, 0}}};
    for (int i = 0; i < 3; i++) {
        char text[400];
        int got[20];
        snprintf(text, sizeof text, "{\"name\": \"x\", \"visits\": 2, \"warmup\": 1, \"order\": \"%s\", " RUN,
                 all[i].order);
        lab_experiment *e = read_text(text);
        assert_int_equal(lab_experiment_order(e, NULL, 0), 7);
        assert_int_equal(lab_experiment_order(e, got, 20), 7);
        for (int k = 0; k < 7; k++) assert_int_equal(got[k], all[i].arms[k]);
        assert_int_equal(e->question.blocks_allowed, i == 2);
        lab_experiment_free(e);
    }
}

typedef struct told {
    int count;
    char paths[300];
} told;
static void tell(void *ctx, const char *path, const json *a, const json *b) {
    told *t = ctx;
    t->count++;
    snprintf(t->paths + strlen(t->paths), sizeof t->paths - strlen(t->paths), "%s%s%s ", a ? "" : "-", b ? "" : "+",
             path);
}

static void manifests(void **state) {
    (void)state;
    script("tool", "#!/bin/sh\n");
    put("t1", "one");
    put("t2", "two");
    lab_experiment *e =
        read_text("{\"name\": \"x\", \"metrics\": [{\"name\": \"m_ms\", \"pattern\": \"m\"}], \"command\": "
                  "\"tool\", \"protocol\": {\"seed\": 0}, \"arms\": [{\"name\": \"a\", \"files\": [\"t1\"]}, "
                  "{\"name\": \"b\", \"files\": [\"t2\"], \"env\": {\"V\": \"1\"}}, {\"name\": \"c\", "
                  "\"files\": [\"t1\"]}, {\"name\": \"d\", \"files\": [\"t3\"]}]}");
    json_doc *m[3];
    told t = {0};
    for (int i = 0; i < 3; i++) must(lab_manifest(e, i, NULL, &m[i], fail_out));
    const json *file = json_get(json_root(m[0]), "files")->child;
    assert_true(json_is(json_get(file, "sha256"), "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"));
    assert_true(json_is(json_get(json_root(m[0]), "role"), "reference"));
    assert_int_equal(json_get(json_get(json_root(m[1]), "protocol"), "seed")->integer, 0);
    assert_int_equal(lab_manifest_diff(json_root(m[1]), json_root(m[0]), tell, &t), 2);
    assert_string_equal(t.paths, "+env.V files ");
    assert_int_equal(lab_manifest_diff(json_root(m[0]), json_root(m[1]), NULL, NULL), 2);
    assert_int_equal(lab_manifest_diff(json_root(m[2]), json_root(m[0]), NULL, NULL), 0);
    for (int i = 0; i < 3; i++) json_free(m[i]);
    assert_int_equal(lab_manifest(e, 3, NULL, &m[0], &why), CADRE_IO);
    assert_non_null(strstr(why.text, "t3: cannot open"));
    lab_experiment_free(e);
}

/* One arm, measured against itself. */
static void equal_arms(void **state) {
    (void)state;
    lab_experiment *e =
        read_text("{\"name\": \"x\", \"aa\": true, \"command\": \"cadre run\", \"arms\": [{\"name\": \"a\"}]}");
    assert_true(e->aa && e->question.unproven_allowed);
    assert_int_equal(e->arm_count, 2);
    assert_string_equal(e->arms[1].name, "a again");
    lab_experiment_free(e);
}

/* The experiments that the documentation shows, and those that come along, are such as can be read. */
static void shown(void **state) {
    (void)state;
    char *all = NULL;
    const char **names;
    size_t len;
    int n = 0, count;
    assert_int_equal(file_read("docs/lab.md", 1 << 20, &all, &len, NULL), CADRE_OK);
    for (char *p = all; (p = strstr(p, "```json\n{")); n++) {
        char *end = strstr(p += 8, "\n```");
        *end = 0;
        lab_experiment_free(read_text(p));
        p = end + 1;
    }
    assert_true(n >= 4);
    mem_free(all);
    must(file_list("examples/lab", ".json", &names, &count, fail_out));
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char path[300];
        lab_experiment *e;
        snprintf(path, sizeof path, "examples/lab/%s", names[i]);
        must(lab_experiment_read(path, &e, fail_out));
        lab_experiment_free(e);
    }
    mem_free(names);
}

static void memory(void **state) {
    (void)state;
    put("exp.json", full);
    for (int n = 0;; n++) {
        lab_experiment *e = NULL;
        mem_fail_after(n);
        cadre_err err = lab_experiment_read(in("exp.json"), &e, &why);
        mem_fail_after(-1);
        if (!err) {
            lab_experiment_free(e);
            assert_true(n > 10);
            return;
        }
        if (err != CADRE_NOMEM) fail_msg("%d: %s", n, why.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything), cmocka_unit_test(ceilings_and_floor),
        cmocka_unit_test(programs),   cmocka_unit_test(refusals),
        cmocka_unit_test(orders),     cmocka_unit_test(manifests),
        cmocka_unit_test(equal_arms), cmocka_unit_test(memory),
        cmocka_unit_test(shown),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
