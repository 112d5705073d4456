/* bench: end to end and one MoE layer: the JSON contract, raw samples that the figures follow from, random weights. */
#include "command.h"
#include <dirent.h>
#include <math.h>

static char samples[128];

static void fresh(void) {
    assert_true(file_join(samples, sizeof samples, scratch, "samples.jsonl"));
    unlink(samples);
}

/* The lines of the samples file, at most cap. */
static int read_samples(json_doc **docs, int cap) {
    char *text;
    size_t len;
    int n = 0;
    assert_int_equal(file_read(samples, 1 << 26, &text, &len, NULL), CADRE_OK);
    for (char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        assert_true(n < cap);
        assert_int_equal(json_parse("samples", p, strcspn(p, "\n"), &docs[n++], NULL), CADRE_OK);
    }
    mem_free(text);
    return n;
}

static int rising(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, rising);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- end to end ---- */

static void contract(void **state) {
    (void)state;
    json_doc *docs[8];
    double ttft[3];
    fresh();
    ran r = command("bench -m %s --prompt-len 9 --gen-len 12 --batch 3 --warmup 1 --repeat 3 --json --out %s",
                    "tests/golden/models/qwen3_moe_bf16", samples);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *q = json_get(v, "requests");
    command_has(v, "schema requests summary samples profile device numerics switches receipts run");
    command_has(json_get(v, "summary"), "requests batch passes tokens wall_ms ttft_ms tpot_ms itl_ms tokens_per_s "
                                        "output_tokens_per_s allocs_per_step acceptance sha256 same_every_pass "
                                        "step_ms step_bytes bandwidth_gbps floor_ms floor_over_time");
    assert_true(command_number(json_get(v, "summary"), "step_ms") > 0 &&
                command_number(json_get(v, "summary"), "step_bytes") > 0);
    assert_int_equal(json_get(json_get(v, "summary"), "floor_over_time")->kind, JSON_NULL); /* it fits the caches */
    assert_int_equal(json_get(v, "profile")->kind, JSON_NULL);
    assert_true(json_is(json_get(v, "samples"), samples));
    assert_int_equal(q->count, 3);
    for (const json *x = q->child; x; x = x->next) {
        command_has(x, "id tokens sha256 ttft_ms tpot_ms");
        assert_int_equal((int)command_number(x, "tokens"), 12);
    }
    assert_int_equal((int)command_number(json_get(v, "summary"), "allocs_per_step"), 0);
    assert_true(json_get(json_get(v, "summary"), "same_every_pass")->truth);
    /* The figures follow from the raw samples: the median over the counted passes of the first token's time. */
    assert_int_equal(read_samples(docs, 8), 4);
    int counted = 0;
    for (int i = 0; i < 4; i++) {
        const json *s = json_root(docs[i]);
        command_has(s, "schema kind run visit warmup wall_ms requests sampling manifest");
        command_has(json_get(s, "manifest"), "version compiler command date device threads model numerics switches");
        assert_int_equal(json_get(s, "warmup")->truth, i == 0);
        assert_true(json_is(json_get(s, "run"), json_get(v, "run")->text));
        const json *at = json_get(json_get(s, "requests")->child, "at_ms");
        assert_int_equal(at->count, 12);
        if (i) ttft[counted++] = at->child->number;
    }
    assert_true(fabs(median(ttft, 3) - command_number(q->child, "ttft_ms")) < 1e-9);
    for (int i = 0; i < 4; i++) json_free(docs[i]);
    json_free(doc);
    command_free(&r);
}

/* Samples are appended, never replaced; random ids differ with the seed and not with the batch around them. */
static void appended(void **state) {
    (void)state;
    json_doc *docs[8];
    const char *model = "tests/golden/models/qwen3_moe_base";
    fresh();
    for (int i = 0; i < 3; i++) {
        ran r = command("bench -m %s --prompt-len 5 --gen-len 4 --warmup 0 --repeat 1 --batch %d --seed %d --out %s",
                        model, i == 1 ? 3 : 1, i == 2, samples);
        assert_int_equal(r.status, 0);
        assert_non_null(strstr(r.out, "ttft"));
        assert_non_null(strstr(r.out, samples));
        command_free(&r);
    }
    assert_int_equal(read_samples(docs, 8), 3);
    const char *sha[3];
    for (int i = 0; i < 3; i++) sha[i] = json_get(json_get(json_root(docs[i]), "requests")->child, "sha256")->text;
    assert_string_equal(sha[0], sha[1]);
    assert_string_not_equal(sha[0], sha[2]);
    for (int i = 0; i < 3; i++) json_free(docs[i]);
}

static void prompts(void **state) {
    (void)state;
    char path[128];
    fresh();
    assert_true(file_join(path, sizeof path, scratch, "prompts.jsonl"));
    static const char text[] = "{\"prompt\":\"abc\"}\n\n{\"question\":\"who is it\",\"id\":7}\n";
    assert_int_equal(file_write(path, text, sizeof text - 1, NULL), CADRE_OK);
    const char *model = command_model("qwen3_moe_base");
    ran r = command("bench -m %s --prompts %s --gen-len 4 --warmup 0 --repeat 1 --json --out %s", model, path, samples);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *q = json_get(json_root(doc), "requests");
    assert_int_equal(q->count, 2);
    assert_int_equal((int)command_number(q->child, "prompt_tokens"), 3);
    assert_int_equal((int)command_number(q->child->next, "prompt_tokens"), 9);
    json_free(doc);
    command_free(&r);
    static const char bad[] = "{\"prompt\":\"abc\"}\n{\"text\":\"x\"}\n";
    assert_int_equal(file_write(path, bad, sizeof bad - 1, NULL), CADRE_OK);
    command_refused(command("bench -m %s --prompts %s", model, path), "line 2: expected an object with a text");
    assert_int_equal(file_write(path, "{\"prompt\":1", 11, NULL), CADRE_OK);
    command_refused(command("bench -m %s --prompts %s", model, path), "line 1");
}

static int random_folders(void) {
    int n = 0;
    DIR *dir = opendir(scratch);
    for (struct dirent *e; (e = readdir(dir));) n += !strncmp(e->d_name, "cadre-random-", 13);
    closedir(dir);
    return n;
}

/* No checkpoint: the shape of a config, the same weights for the same seed, and nothing left behind. */
static void random_weights(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_moe_bf16/config.json", "qwen2_moe_base", "qwen3_moe_sparse2_tied",
                                         "qwen3_moe_dense_bias"};
    char before[100], sha[65] = "";
    fresh();
    snprintf(before, sizeof before, "TMPDIR=%s", scratch);
    for (int i = 0; i < 6; i++) {
        ran r = command_after(before,
                              "bench --random-weights tests/golden/models/%s --prompt-len 5 --gen-len 4 --warmup 0 "
                              "--repeat 1 --seed %d --json --out %s",
                              models[i < 4 ? i : 0], i == 5, samples);
        if (r.status) fail_msg("%s: %s", models[i < 4 ? i : 0], r.err);
        json_doc *doc = command_json(&r);
        const char *got = json_get(json_get(json_root(doc), "summary"), "sha256")->text;
        if (i == 0) memcpy(sha, got, 65);
        if (i == 4) assert_string_equal(got, sha);
        if (i == 5) assert_string_not_equal(got, sha);
        assert_int_equal(random_folders(), 0);
        json_free(doc);
        command_free(&r);
    }
    command_refused(command("bench --random-weights Makefile -m x"), "--random-weights goes without -m");
}

/* ---- one layer ---- */

static void layer(void **state) {
    (void)state;
    json_doc *docs[64];
    double us[7];
    fresh();
    ran r = command("bench moe --shape E=8,d=64,f=32,k=2 --m 1,3..4 --repeat 7 --visit-ms 1 --probe-mb 16 --layers 6 "
                    "--json --out %s",
                    samples);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *rows = json_get(v, "rows");
    command_has(v, "schema rows samples shape desc routing layers cold numerics device switches run");
    assert_int_equal(rows->count, 3);
    int expect[] = {1, 3, 4}, at = 0;
    for (const json *row = rows->child; row; row = row->next) {
        command_has(row,
                    "m experts_touched bytes us us_interval floor_us floor_over_time gbps bandwidth_gbps config source "
                    "numerics");
        assert_int_equal((int)command_number(row, "m"), expect[at++]);
        const json *interval = json_get(row, "us_interval");
        assert_int_equal(interval->count, 2);
        assert_true(interval->child->number <= command_number(row, "us") &&
                    command_number(row, "us") <= interval->child->next->number);
        /* bytes: touched experts, each three bf16 matrices of 64 x 32 */
        assert_true(fabs(command_number(row, "bytes") - command_number(row, "experts_touched") * 3 * 64 * 32 * 2) <
                    1e-6);
        assert_true(command_number(row, "experts_touched") >= 2 && command_number(row, "experts_touched") <= 8);
        assert_true(command_number(row, "floor_us") >=
                    command_number(row, "bytes") / command_number(row, "bandwidth_gbps") / 1e3 * 0.3);
    }
    assert_int_equal((int)command_number(rows->child, "experts_touched"), 2); /* one token, k = 2 */
    assert_int_equal(read_samples(docs, 64), 21);
    int n = 0;
    for (int i = 0; i < 21; i++) {
        const json *s = json_root(docs[i]);
        command_has(s, "schema kind run visit order m us bytes gbps_before gbps_after steps layers manifest");
        if ((int)command_number(s, "m") == 3) us[n++] = command_number(s, "us");
    }
    assert_int_equal(n, 7);
    assert_true(fabs(median(us, 7) - command_number(rows->child->next, "us")) < 1e-9);
    for (int i = 0; i < 21; i++) json_free(docs[i]);
    json_free(doc);
    command_free(&r);
}

/* Balanced routing touches min(m k, E) experts; the layer's own router runs too; under six visits there's no interval.
 */
static void routings(void **state) {
    (void)state;
    static const char *const kinds[] = {"balanced", "uniform", "zipf:1.5", "router"};
    fresh();
    for (int i = 0; i < 4; i++) {
        ran r =
            command("bench moe --shape E=8,d=64,f=32,k=2,act=relu2,gate=sigmoid,shared=16,dtype=f32 --m 3 --routing %s "
                    "--repeat 2 --visit-ms 1 --probe-mb 16 --layers 2 --json --out %s",
                    kinds[i], samples);
        if (r.status) fail_msg("%s: %s", kinds[i], r.err);
        json_doc *doc = command_json(&r);
        const json *row = json_get(json_root(doc), "rows")->child;
        double touched = command_number(row, "experts_touched"), shared = 2 * 64 * 16 * 4,
               router = i == 3 ? 4 * 8 * 64 : 0;
        if (i == 0) assert_true(touched == 6);
        assert_true(touched >= 2 && touched <= 6);
        assert_true(fabs(command_number(row, "bytes") - touched * 2 * 64 * 32 * 4 - shared - router) < 1e-6);
        assert_int_equal(json_get(row, "us_interval")->child->kind, JSON_NULL);
        assert_true(json_is(json_get(row, "numerics"), "cpu-f32-chain"));
        json_free(doc);
        command_free(&r);
    }
}

/* Scratch of its own, one for all layers, or one made for each run: the same outputs, and allocations only where they
 * are asked for. Receipts tell what ran. */
static void workspaces(void **state) {
    (void)state;
    static const char *const kinds[] = {"own", "one", "fresh", "own --set experts.rows=8 --set experts.panels=1"};
    char sha[2][65] = {"", ""};
    for (int i = 0; i < 4; i++) {
        fresh();
        ran r = command(
            "bench moe --shape E=8,d=64,f=32,k=2,dtype=f32 --m 1,6 --repeat 2 --visit-ms 1 --probe-mb 16 --layers 3 "
            "--json --out %s --workspace %s",
            samples, kinds[i]);
        if (r.status) fail_msg("%s: %s", kinds[i], r.err);
        json_doc *doc = command_json(&r), *docs[8];
        const json *v = json_root(doc), *rows = json_get(v, "rows");
        assert_int_equal(strncmp(json_get(v, "workspace")->text, kinds[i], 3), 0);
        assert_int_equal(read_samples(docs, 8), 4);
        double runs = 0;
        int at = 0;
        for (const json *row = rows->child; row; row = row->next, at++) {
            assert_true(i == 2 ? command_number(row, "allocs_per_run") >= 2
                               : command_number(row, "allocs_per_run") == 0);
            assert_true(command_number(json_root(docs[at]), "allocs_per_run") == command_number(row, "allocs_per_run"));
            const char *here = json_get(row, "sha256")->text;
            if (i) assert_string_equal(here, sha[at]);
            memcpy(sha[at], here, 65);
        }
        assert_string_not_equal(sha[0], sha[1]);
        for (const json *c = json_get(v, "receipts")->child; c; c = c->next) {
            if (!json_is(json_get(c, "op"), "experts")) continue;
            runs += command_number(c, "runs");
            if (i == 3) assert_true(json_is(json_get(c, "source"), "override"));
        }
        double steps = 0;
        for (int k = 0; k < 4; k++)
            steps += command_number(json_root(docs[k]), "steps") + 1; /* one that is not timed */
        assert_true(runs == 3 * (steps + 1 + 2));                     /* the first touch, and a hash of each m */
        for (int k = 0; k < 4; k++) json_free(docs[k]);
        json_free(doc);
        command_free(&r);
    }
    command_refused(command("bench moe --workspace two"), "--workspace is 'two', expected own, one or fresh");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract),       cmocka_unit_test(appended), cmocka_unit_test(prompts),
        cmocka_unit_test(random_weights), cmocka_unit_test(layer),    cmocka_unit_test(routings),
        cmocka_unit_test(workspaces),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
