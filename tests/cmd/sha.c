/* The demo model's tokens per numerics id are committed in tests/golden/sha.txt: they must come out whatever the
 * instruction set, the threads, the batch and the chunks, and with every compiler. A prompt that is long enough to be
 * cut into chunks is compared with itself. */
#include "command.h"
#include "dev/dev.h"

/* Kernel sets, and what the CPU must have: without it the command would run lower ones. */
static const struct {
    const char *name;
    unsigned feature;
} sets[] = {{"ref", 0}, {"avx2", DEV_AVX2_FMA}, {"avx512", DEV_AVX512}, {"avx512bf16", DEV_AVX512BF16}};
enum { SETS = sizeof sets / sizeof *sets };

static const char *const ways[] = {
    "",
    "--threads 1",
    "--threads 3",
    "--threads 7 --prefill-chunk 1",
    "--prefill-chunk 3",
    "--set experts.rows=1 --set dense.rows=1 --set attn.keys=1",
    "--set experts.columns=1 --set dense.panels=1 --threads 2",
};
static const int batches[] = {2, 5, 16};
static const char *const chunks[] = {"1", "7", "64", "7 --threads 3", "64 --batch 2"};

static const char long_prompt[] =
    "Once upon a time there was a king who had three sons, and the youngest of them went out into the wide world to "
    "seek his fortune. On the way he met an old woman, who asked him for a piece of bread, and as he had a good heart "
    "he gave her half of all that he had. Then she told him of a castle in the forest, where a princess slept.";

/* One run; *doc is for json_free. */
static const json *run(const char *type, const char *way, json_doc **doc) {
    ran r = command("run --json -n 64 --temp 0 --weights %s %s", type, way);
    if (r.status) fail_msg("%s %s: status %d: %s", type, way, r.status, r.err);
    *doc = command_json(&r);
    command_free(&r);
    return json_root(*doc);
}

/* device: how the name of the device that ran begins. */
static void check(const char *id, const char *type, const char *sha, const char *way, const char *device) {
    json_doc *doc;
    const json *v = run(type, way, &doc);
    if (!json_is(json_get(v, "numerics"), id) || !json_is(json_get(v, "sha256"), sha))
        fail_msg("%s %s: %s gives %s", type, way, json_get(v, "numerics")->text, json_get(v, "sha256")->text);
    if (strncmp(json_get(v, "device")->text, device, strlen(device)))
        fail_msg("%s ran on %s", way, json_get(v, "device")->text);
    assert_int_equal(json_get(v, "token_ids")->count, 64);
    assert_int_equal((int)json_get(v, "allocs_per_step")->number, 0);
    json_free(doc);
}

/* A set that the CPU has is the one that runs. */
static void check_set(const char *id, const char *type, const char *sha, int set) {
    char way[32], device[32];
    if ((dev_features() & sets[set].feature) != sets[set].feature) {
        printf("skipped: --set isa=%s --weights %s: the CPU lacks it\n", sets[set].name, type);
        return;
    }
    snprintf(way, sizeof way, "--set isa=%s", sets[set].name);
    snprintf(device, sizeof device, "cpu %s,", sets[set].name);
    check(id, type, sha, way, device);
}

/* Every second request of a batch is the committed one, between others that are longer: it gives the tokens that it
 * gives alone. */
static void check_batch(const char *type, const char *sha, int batch) {
    char way[160], path[128];
    json_doc *doc;
    int requests = 0;
    assert_true(file_join(path, sizeof path, scratch, "prompts"));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < batch; i++)
        fprintf(f, "%s\n", i % 2 ? long_prompt + sizeof long_prompt - 10 - 16 * i : "Once upon a time");
    fclose(f);
    snprintf(way, sizeof way, "-f '%s' --batch %d", path, batch);
    for (const json *q = json_get(run(type, way, &doc), "requests")->child; q; q = q->next, requests++)
        if (json_is(json_get(q, "sha256"), sha) != (requests % 2 == 0))
            fail_msg("%s --batch %d: request %d gives %s", type, batch, requests, json_get(q, "sha256")->text);
    assert_int_equal(requests, batch);
    json_free(doc);
}

/* A prompt of more than 64 tokens in one piece and in chunks. */
static void check_chunks(const char *type) {
    char way[sizeof long_prompt + 64];
    json_doc *whole, *doc;
    snprintf(way, sizeof way, "-p '%s' --threads 1", long_prompt);
    const json *want = json_get(json_get(run(type, way, &whole), "requests")->child, "sha256");
    assert_true(json_get(json_get(json_root(whole), "requests")->child, "prompt_tokens")->integer > 64);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        snprintf(way, sizeof way, "-p '%s' --prefill-chunk %s", long_prompt, chunks[i]);
        for (const json *q = json_get(run(type, way, &doc), "requests")->child; q; q = q->next)
            if (!json_is(json_get(q, "sha256"), want->text)) fail_msg("%s --prefill-chunk %s differs", type, chunks[i]);
        json_free(doc);
    }
    json_free(whole);
}

static void committed_tokens_come_out(void **state) {
    (void)state;
    char id[32], type[8], sha[80], line[256];
    int rows = 0;
    FILE *f = fopen("tests/golden/sha.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31s %7s %79s", id, type, sha), 3);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check(id, type, sha, ways[i], "cpu ");
        for (int i = 0; i < SETS; i++) check_set(id, type, sha, i);
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) check_batch(type, sha, batches[i]);
        check_chunks(type);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(committed_tokens_come_out)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
