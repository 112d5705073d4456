/* What a bench measures, against faults that others' benches had (docs/field-reports.md, B01, B03 to B06, B09, B12). */
#include "command.h"
#include <math.h>

#define MODEL "tests/golden/models/qwen3_moe_bf16"

static char samples[128];
static json_doc *lines[64];
static int count;

static void fresh(void) {
    assert_true(file_join(samples, sizeof samples, scratch, "samples.jsonl"));
    unlink(samples);
}

static bool is_null(const json *v, const char *key) {
    return json_get(v, key)->kind == JSON_NULL;
}

static void read_lines(void) {
    char *all;
    size_t len;
    count = 0;
    assert_int_equal(file_read(samples, 1 << 26, &all, &len, NULL), CADRE_OK);
    for (char *p = all; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        assert_true(count < 64);
        assert_int_equal(json_parse("samples", p, strcspn(p, "\n"), &lines[count++], NULL), CADRE_OK);
    }
    mem_free(all);
}

static void drop_lines(void) {
    for (int i = 0; i < count; i++) json_free(lines[i]);
}

/* B01: what was not measured is null, and no 0 stands for it: no token, no TTFT; one token, no TPOT. */
static void not_measured(void **state) {
    (void)state;
    fresh();
    for (int n = 0; n < 3; n++) {
        ran r =
            command("bench -m " MODEL " --prompt-len 5 --gen-len %d --warmup 0 --repeat 1 --json --out %s", n, samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *q = json_get(json_root(doc), "requests")->child, *sum = json_get(json_root(doc), "summary");
        assert_int_equal(is_null(q, "ttft_ms"), n < 1);
        assert_int_equal(is_null(q, "tpot_ms"), n < 2);
        assert_int_equal(is_null(sum, "ttft_ms"), n < 1);
        assert_int_equal(is_null(sum, "tpot_ms"), n < 2);
        assert_int_equal(is_null(sum, "itl_ms"), n < 2);
        json_free(doc);
        command_free(&r);
    }
    command_refused(command("bench -m " MODEL " --gen-len -1"), "--gen-len");
}

/* B03: tokens are counted from ids. The text of a sampled output is another number of tokens when it is encoded again,
 * and another number of characters; neither is told as a count, and no time per token comes of them. */
static void tokens_are_ids(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t ids[4096];
    size_t again = 0;
    cadre_device *device = NULL;
    cadre_model *model = NULL;
    ran r = command("run -p 'Once' -n %d --ignore-eos --temp 3 --seed 1 --json", N);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *written = json_get(v, "text");
    assert_int_equal(json_get(v, "token_ids")->count, N);
    assert_int_equal(cadre_device_open(NULL, &device, NULL), CADRE_OK);
    assert_int_equal(cadre_model_prepare(device, "models/demo", NULL, &model, NULL), CADRE_OK);
    assert_int_equal(cadre_encode(model, written->text, strlen(written->text), false, ids, 4096, &again, NULL),
                     CADRE_OK);
    assert_int_not_equal(again, N);
    assert_int_not_equal(strlen(written->text), N);
    cadre_model_close(model);
    cadre_device_close(device);
    json_free(doc);
    command_free(&r);
    /* The bench: a time per id, TPOT over them, and nothing else. */
    fresh();
    r = command("bench --prompt-len 7 --gen-len %d --temp 3 --warmup 0 --repeat 1 --json --out %s", N, samples);
    assert_int_equal(r.status, 0);
    doc = command_json(&r);
    read_lines();
    const json *q = json_get(json_root(doc), "requests")->child;
    const json *at = json_get(json_get(json_root(lines[0]), "requests")->child, "at_ms");
    double last = 0;
    for (const json *x = at->child; x; x = x->next) last = x->number;
    assert_int_equal(at->count, N);
    assert_int_equal((int)command_number(q, "tokens"), N);
    assert_true(fabs(command_number(q, "tpot_ms") - (last - at->child->number) / (N - 1)) < 1e-9);
    drop_lines();
    json_free(doc);
    command_free(&r);
}

/* B04: the same prompts again are the same work again: nothing is kept between passes, or between runs, and the
 * protocol says so. Every pass computes every prompt token, in as many steps. */
static void nothing_is_cached(void **state) {
    (void)state;
    enum { LEN = 40, BATCH = 3, GEN = 6, CHUNK = 16 };
    const char *sha = NULL;
    fresh();
    for (int i = 0; i < 2; i++) {
        ran r = command("bench -m " MODEL
                        " --prompt-len %d --batch %d --gen-len %d --prefill-chunk %d --warmup 1 --repeat 3 "
                        "--json --out %s",
                        LEN, BATCH, GEN, CHUNK, samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        assert_string_equal(command_text(json_get(json_root(doc), "protocol"), "prefix_cache"), "none");
        assert_true(json_get(json_get(json_root(doc), "summary"), "same_every_pass")->truth);
        json_free(doc);
        command_free(&r);
    }
    read_lines();
    assert_int_equal(count, 8);
    for (int i = 0; i < count; i++) {
        const json *v = json_root(lines[i]), *p = json_get(v, "protocol");
        assert_int_equal((int)command_number(v, "prompt_tokens"), BATCH * LEN);
        assert_int_equal((int)command_number(v, "steps"), (int)command_number(json_root(lines[0]), "steps"));
        assert_true(command_number(v, "steps") >= (double)BATCH * LEN / CHUNK);
        command_has(p, "prompts prompt_len gen_len batch context prefill_chunk ignore_eos warmup repeat prefix_cache");
        assert_string_equal(command_text(p, "prompts"), "random ids");
        const char *here = command_text(json_get(v, "requests")->child, "sha256");
        if (sha) assert_string_equal(here, sha);
        sha = here;
    }
    drop_lines();
}

/* B05: a prompt of N random tokens has N tokens, whatever N: ids are fed as they are, never as text. */
static void exact_lengths(void **state) {
    (void)state;
    static const int lens[] = {1, 2, 37, 100};
    fresh();
    for (int i = 0; i < 4; i++) {
        ran r = command("bench --prompt-len %d --batch 20 --gen-len 2 --warmup 0 --repeat 1 --seed %d --json --out %s",
                        lens[i], i, samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *q = json_get(json_root(doc), "requests");
        assert_int_equal(q->count, 20);
        for (const json *x = q->child; x; x = x->next)
            assert_int_equal((int)command_number(x, "prompt_tokens"), lens[i]);
        json_free(doc);
        command_free(&r);
    }
    read_lines();
    for (int i = 0; i < 4; i++)
        assert_int_equal((int)command_number(json_root(lines[i]), "prompt_tokens"), 20 * lens[i]);
    drop_lines();
}

/* B06: how the tokens were spread goes with each figure: buckets of all experts, whose rows are all that there are. A
 * skewed routing is seen as such. */
static void histograms(void **state) {
    (void)state;
    enum { E = 16, K = 3, M = 64 };
    static const char *const kinds[] = {"balanced", "uniform", "zipf:2", "router"};
    double most[4];
    for (int i = 0; i < 4; i++) {
        fresh();
        ran r =
            command("bench moe --shape E=%d,d=64,f=32,k=%d --m 1,%d --routing %s --repeat 1 --visit-ms 1 --probe-mb 16 "
                    "--layers 3 --json --out %s",
                    E, K, M, kinds[i], samples);
        assert_int_equal(r.status, 0);
        assert_non_null(strstr(r.err, "rows of an expert"));
        json_doc *doc = command_json(&r);
        read_lines();
        int at = 0;
        for (const json *row = json_get(json_root(doc), "rows")->child; row; row = row->next, at++) {
            double experts = 0, low = 0, high = 0, next = 0;
            const json *other = json_get(json_root(lines[at]), "load")->child; /* the sample has the same */
            for (const json *b = json_get(row, "load")->child; b; b = b->next, other = other->next) {
                double n = command_number(b, "experts");
                assert_true(command_number(b, "rows_lo") == next && command_number(other, "experts") == n);
                next = command_number(b, "rows_hi") + 1;
                experts += n, low += n * command_number(b, "rows_lo"), high += n * command_number(b, "rows_hi");
            }
            assert_null(other);
            assert_true(fabs(experts - E) < 1e-9);
            double pairs = command_number(row, "m") * K;
            assert_true(low <= pairs + 1e-9 && pairs <= high + 1e-9);
            double none = command_number(json_get(row, "load")->child, "experts");
            assert_true(fabs(E - none - command_number(row, "experts_touched")) < 1e-9);
            most[i] = command_number(row, "load_most");
        }
        assert_string_equal(command_text(json_root(doc), "routing"), kinds[i]);
        drop_lines();
        json_free(doc);
        command_free(&r);
    }
    assert_true(most[0] == (double)M * K / E);
    assert_true(most[1] > most[0] && most[2] > 2 * most[0] && most[2] > most[1]);
}

/* B09: temperature, seed and the rest are in every result and every sample although nobody named them; greedy unless it
 * is asked otherwise. The cold first pass is kept, marked, and in no figure. */
static void sampling_is_told(void **state) {
    (void)state;
    static const struct {
        const char *more;
        double temperature, seed;
    } runs[] = {{"", 0, 0}, {"--temp 0.7 --seed 5", 0.7, 5}};
    for (int i = 0; i < 2; i++) {
        fresh();
        ran r = command("bench -m " MODEL " --prompt-len 5 --gen-len 4 --warmup 1 --repeat 1 %s --json --out %s",
                        runs[i].more, samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *v = json_root(doc), *s = json_get(v, "sampling");
        read_lines();
        assert_int_equal(count, 2);
        for (int k = 0; k <= count; k++) {
            if (k) s = json_get(json_root(lines[k - 1]), "sampling");
            command_has(s, "temperature top_k top_p seed");
            assert_true(command_number(s, "temperature") == runs[i].temperature &&
                        command_number(s, "seed") == runs[i].seed);
        }
        assert_true(json_get(json_root(lines[0]), "warmup")->truth && !json_get(json_root(lines[1]), "warmup")->truth);
        const json *at = json_get(json_get(json_root(lines[1]), "requests")->child, "at_ms");
        assert_true(fabs(at->child->number - command_number(json_get(v, "requests")->child, "ttft_ms")) < 1e-9);
        drop_lines();
        json_free(doc);
        command_free(&r);
    }
}

/* B12: a hash per request and one over all in the order of the prompts, with the settings beside them: another prompt
 * in one place changes its own hash and the whole, and no other. */
static void hashes(void **state) {
    (void)state;
    enum { REQUESTS = 5, CHANGED = 3 };
    char path[128], own[2][REQUESTS][65], whole[2][65];
    const char *model = command_model("qwen3_moe_base");
    assert_true(file_join(path, sizeof path, scratch, "prompts.jsonl"));
    for (int k = 0; k < 2; k++) {
        char all[400] = "";
        fresh();
        for (int i = 0; i < REQUESTS; i++)
            sprintf(all + strlen(all), "{\"prompt\":\"tell %d%c\"}\n", i, k && i == CHANGED ? '!' : '?');
        assert_int_equal(file_write(path, all, strlen(all), NULL), CADRE_OK);
        ran r = command(
            "bench -m %s --prompts %s --batch %d --gen-len 9 --ignore-eos --warmup 0 --repeat 1 --json --out %s", model,
            path, k ? 2 : 4, samples); /* groups of another size end in another order */
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        int i = 0;
        for (const json *q = json_get(json_root(doc), "requests")->child; q; q = q->next) {
            assert_int_equal((int)command_number(q, "id"), i);
            strcpy(own[k][i++], command_text(q, "sha256"));
        }
        assert_int_equal(i, REQUESTS);
        strcpy(whole[k], command_text(json_get(json_root(doc), "summary"), "sha256"));
        json_free(doc);
        command_free(&r);
    }
    for (int i = 0; i < REQUESTS; i++) assert_int_equal(strcmp(own[0][i], own[1][i]) != 0, i == CHANGED);
    assert_string_not_equal(whole[0], whole[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_measured),  cmocka_unit_test(tokens_are_ids), cmocka_unit_test(nothing_is_cached),
        cmocka_unit_test(exact_lengths), cmocka_unit_test(histograms),     cmocka_unit_test(sampling_is_told),
        cmocka_unit_test(hashes)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
