/* The demo model's tokens per numerics id are committed in tests/golden/sha.txt: they must come out whatever the
 * instruction set, the threads, the batch and the chunks, and with every compiler. */
#include "command.h"

static const char *const ways[] = {
    "",
    "--set isa=ref",
    "--set isa=avx2",
    "--set isa=avx512",
    "--threads 1",
    "--threads 3",
    "--threads 7 --prefill-chunk 1",
    "--prefill-chunk 3 --set isa=avx2",
    "--set experts.rows=1 --set dense.rows=1 --set attn.keys=1",
    "--set experts.columns=1 --set dense.panels=1 --threads 2",
};

static void check(const char *id, const char *type, const char *sha, const char *way) {
    ran r = command("run --json -n 64 --temp 0 --weights %s %s", type, way);
    if (r.status) fail_msg("%s %s: status %d: %s", type, way, r.status, r.err);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc);
    if (!json_is(json_get(v, "numerics"), id) || !json_is(json_get(v, "sha256"), sha))
        fail_msg("%s %s: %s gives %s", type, way, json_get(v, "numerics")->text, json_get(v, "sha256")->text);
    assert_int_equal(json_get(v, "token_ids")->count, 64);
    assert_int_equal((int)json_get(v, "allocs_per_step")->number, 0);
    json_free(doc);
    command_free(&r);
}

/* Every request of a batch gives the tokens it gives alone. */
static void check_batch(const char *type, const char *sha) {
    ran r = command("run --json -n 64 --temp 0 --batch 5 --weights %s", type);
    json_doc *doc = command_json(&r);
    int requests = 0;
    for (const json *q = json_get(json_root(doc), "requests")->child; q; q = q->next, requests++)
        assert_true(json_is(json_get(q, "sha256"), sha));
    assert_int_equal(requests, 5);
    json_free(doc);
    command_free(&r);
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
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check(id, type, sha, ways[i]);
        check_batch(type, sha);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(committed_tokens_come_out)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
