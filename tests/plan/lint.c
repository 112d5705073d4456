/* lint.c: each rule on a table that has just that fault, and on its nearest table that does not; field reports T01,
 * T02, T04, T05, T06, T08, T09, T10, T11, T13; the S5000 table of the source reports. */
#include "plan/lint.h"

#include "table_rows.h"
#include "test.h"

static void field(const char *id) {
    printf("field %s ok\n", id);
}

static lint one;

/* The table `text` under `path`, linted; what was linted before is gone. */
static void check_with(const lint_options *options, const char *path, const char *text) {
    lint_done(&one);
    lint_init(&one, options);
    lint_foreign(&one, path, text, strlen(text));
    assert_false(one.failed);
}

static const lint_options usual = {.system = -1};

static void check(const char *path, const char *text) {
    check_with(&usual, path, text);
}

static const lint_finding *found(const char *rule, const char *key) {
    for (int i = 0; i < one.count; i++)
        if (!strcmp(one.findings[i].rule->id, rule) && (!key || !strcmp(one.findings[i].key, key)))
            return &one.findings[i];
    return NULL;
}

static void has(const char *rule, const char *key, int line, const char *text) {
    const lint_finding *f = found(rule, key);
    if (!f) fail_msg("no %s at key %s", rule, key ? key : "(any)");
    assert_int_equal(f->line, line);
    if (!strstr(f->text, text)) fail_msg("%s: '%s' does not hold '%s'", rule, f->text, text);
}

static void lacks(const char *rule) {
    const lint_finding *f = found(rule, NULL);
    if (f) fail_msg("%s at key %s: %s", rule, f->key, f->text);
}

#define ROW(key, bm, bn, bk, g, warps, stages)                                                    \
    "\"" #key "\": {\"BLOCK_SIZE_M\": " #bm ", \"BLOCK_SIZE_N\": " #bn ", \"BLOCK_SIZE_K\": " #bk \
    ", \"GROUP_SIZE_M\": " #g ", \"num_warps\": " #warps ", \"num_stages\": " #stages "}"
#define H200  "E=128,N=768,device_name=NVIDIA_H200.json"
#define S5000 "E=128,N=1856,device_name=MTT_S5000.json"
/* The row that differs from every default. */
#define ODD(key) ROW(key, 16, 32, 256, 32, 8, 5)

static const char shipped[] = "{\n" ROW(16, 16, 64, 128, 1, 4, 1) ",\n" ROW(49, 16, 64, 128, 1, 4, 4) ",\n" ROW(
    80, 32, 128, 64, 1, 4, 3) ",\n" ROW(113, 64, 128, 64, 1, 4,
                                        3) ",\n" ROW(144, 64, 128, 64, 1, 8,
                                                     3) ",\n" ROW(511, 64, 128, 64, 1, 8,
                                                                  3) ",\n" ROW(512, 32, 64, 64, 16, 8,
                                                                               2) ",\n" ROW(513, 128, 128, 64, 1, 8,
                                                                                            3) "\n}\n";

/* Six of the eight rows say what the default says, 512 is an island, seven are outside the tuner's grid. */
static void s5000(void **state) {
    (void)state;
    check(S5000, shipped);
    assert_int_equal(lint_count(&one, "row-equals-default", LINT_NOTE), 6);
    has("row-equals-default", "16", 2, "to the end of its range (1..32)");
    has("row-equals-default", "144", 6, "(129..327)");
    has("row-equals-default", "513", 9, "at M = 513..16511 of its range (513 and above)");
    assert_null(found("row-equals-default", "49"));
    assert_null(found("row-equals-default", "512"));
    assert_int_equal(lint_count(&one, "island-row", LINT_NOTE), 1);
    has("island-row", "512", 8, "between 511 and 513");
    assert_int_equal(lint_count(&one, "outside-grid", LINT_NOTE), 7);
    assert_null(found("outside-grid", "16"));
    assert_int_equal(lint_count(&one, "nearest-range", LINT_NOTE), 8);
    has("nearest-range", "144", 6, "M = 129..327");
    has("nearest-range", "512", 8, "M = 512");
    lacks("missing-small-m");
    lacks("missing-large-m");
    assert_int_equal(lint_count(&one, NULL, LINT_WARNING), 6);
}

/* T01: the row of an older map under 16 shadows the default that was measured to be better. */
static void shadows(void **state) {
    (void)state;
    check(S5000, "{" ROW(16, 32, 64, 64, 16, 8, 2) ",\n" ODD(512) "}");
    has("row-shadows-newer-default", "16", 1, "vllm-musa-242");
    check(S5000, "{" ROW(16, 16, 64, 128, 1, 4, 4) ",\n" ODD(512) "}"); /* vLLM's default before */
    has("row-shadows-newer-default", "16", 1, "is what vllm had for a default; vllm-musa-242 (pull request 242)");
    check(S5000, "{" ROW(16, 32, 64, 64, 16, 8, 1) ",\n" ROW(49, 32, 64, 64, 16, 8, 2) "}");
    lacks("row-shadows-newer-default"); /* 16 has what was changed, and nothing was changed at 49 */
    check(H200, "{" ROW(16, 16, 64, 128, 1, 4, 1) ",\n" ODD(512) "}");
    lacks("row-shadows-newer-default"); /* another platform */
    field("T01");
}

static void ends(void **state) {
    (void)state;
    check(H200, "{" ODD(17) ",\n" ODD(512) "}");
    has("missing-small-m", "17", 1, "M = 1..16 take the row of 17");
    lacks("missing-large-m");
    check(H200, "{" ODD(16) ",\n" ODD(511) "}");
    lacks("missing-small-m");
    has("missing-large-m", "511", 2, "M = 2048 takes the row of 511");
    check(H200, "{" ODD(1) "," ODD(2) "," ODD(4) ",\n" ODD(8) "}");
    has("missing-large-m", "8", 2, "M = 2048 takes the row of 8");
    has("nearest-range", "8", 2, "M = 7 and above");
    field("T02");
}

static void order(void **state) {
    (void)state;
    check(H200, "{" ODD(512) ",\n" ODD(16) "}");
    has("unordered-keys", "512", 1, "M = 264, midway, takes 512");
    check(H200, "{" ODD(513) ",\n" ODD(16) "}"); /* no M is midway */
    lacks("unordered-keys");
}

static void reach(void **state) {
    (void)state;
    lint_options pow2 = {.system = -1, .pow2 = true}, few = {.system = -1, .max_m = 256};
    const char *text = "{" ODD(32) ",\n" ODD(64) ",\n" ODD(96) ",\n" ODD(128) ",\n" ODD(1024) "}";
    check_with(&pow2, H200, text);
    has("unreachable-key", "96", 3, "M = 81..112, where no power of two lies");
    assert_int_equal(lint_count(&one, "unreachable-key", LINT_NOTE), 1);
    has("missing-small-m", "32", 1, "the smallest key is 32"); /* a batch of 5, rounded to 8 */
    check(H200, text);
    lacks("unreachable-key");
    check_with(&few, H200, text);
    has("unreachable-key", "1024", 5, "the largest M is 256");
    field("T09");
}

static void keys_and_fields(void **state) {
    (void)state;
    check(H200, "{\"triton_version\": \"3.6.0\",\n" ODD(1) ",\n" ODD(512) "}");
    assert_int_equal(lint_count(&one, NULL, LINT_WARNING), 0);
    static const char *const bad[] = {"01", "1.0", "-4", "", "99999999999999999999", "tokens"};
    for (int i = 0; i < 6; i++) {
        char text[512];
        snprintf(text, sizeof text, "{" ODD(1) ",\n\"%s\": {},\n" ODD(512) "}", bad[i]);
        check(H200, text);
        has("bad-key", bad[i], 2, "");
    }
    check(H200, "{" ODD(1) ",\n\"_meta\": {}," ODD(512) "}");
    has("metadata-key", "_meta", 2, "stop at");
    lint_options sglang = {.system = FOREIGN_SGLANG};
    const char *version = "{" ODD(1) ",\n\"triton_version\": \"3.6.0\",\n" ODD(512) "}";
    check_with(&sglang, H200, version);
    has("metadata-key", "triton_version", 2, "which sglang takes for a number of tokens");
    assert_int_equal(lint_count(&one, "metadata-key", LINT_ERROR), 1);
    check("configs/triton_3_6_0/" H200, version); /* told from the folder */
    has("metadata-key", "triton_version", 2, "sglang");
    check("configs/triton_3_6_0/" S5000, version);
    has("metadata-key", "triton_version", 2, "torchada");
    check("configs/triton_3_6_0/" H200, "{" ODD(1) ",\n" ODD(512) "}");
    lacks("metadata-key");
    field("T06");
    check(H200, "{" ODD(1) ",\n\"512\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 32, \"BLOCK_SIZE_K\": 64}}");
    has("missing-field", "512", 2, "GROUP_SIZE_M");
    assert_int_equal(lint_count(&one, "missing-field", LINT_ERROR), 1); /* warps and stages have a default */
    assert_int_equal(lint_count(&one, "missing-field", LINT_WARNING), 3);
    check(H200, "{" ODD(1) ",\n\"512\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 32, \"BLOCK_SIZE_K\": 64, "
                           "\"GROUP_SIZE_M\": 1, \"num_warps\": 4, \"num_stages\": 3, \"BLOCK_SIZE_Q\": 3}}");
    has("unknown-field", "512", 2, "BLOCK_SIZE_Q");
    check(H200, "{" ODD(1) ",\n" ROW(512, 16, 96, 64, 1, 4, 3) "}");
    has("bad-value", "512", 2, "BLOCK_SIZE_N=96, expected a power of two");
    check(H200, "{" ODD(1) ",\n" ODD(512) ",\n}");
    has("no-table", "", 3, "");
}

static void evidence(void **state) {
    (void)state;
    const char *zero = "{" ODD(1) ",\n\"512\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 32, \"BLOCK_SIZE_K\": 64, "
                                  "\"GROUP_SIZE_M\": 1, \"num_warps\": 4, \"num_stages\": 3, \"us\": 0, \"err\": 0}}";
    check(H200, zero);
    has("zero-evidence", "512", 2, "zeros");
    assert_int_equal(lint_count(&one, "zero-evidence", LINT_ERROR), 1); /* as the reader has it */
    foreign_table *t;
    assert_int_equal(foreign_parse(H200, zero, strlen(zero), NULL, NULL, &t, NULL), CADRE_FORMAT);
    check(H200, "{" ODD(1) ",\n" ODD(512) "}");
    lacks("zero-evidence");
    field("T11");
}

static void groups(void **state) {
    (void)state;
    const char *name = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    check(name, "{" ROW(1, 16, 32, 128, 1, 8, 5) ",\n" ROW(512, 64, 128, 256, 1, 8, 3) "}");
    has("block-k-over-group", "512", 2, "BLOCK_SIZE_K=256, 128 values share a scale");
    assert_int_equal(lint_count(&one, "block-k-over-group", LINT_NOTE), 1);
}

static void shards(void **state) {
    (void)state;
    lint_options nemotron = {.system = -1, .e = 128, .f = 1856}, tp = {.system = -1, .e = 128, .f = 768, .tp = 2};
    const char *rows = "{" ODD(1) ",\n" ODD(512) "}";
    check_with(&nemotron, "E=128,N=3712,device_name=NVIDIA_H200.json", rows);
    has("wrong-n", "", 0, "the width of gate and up together");
    check_with(&nemotron, "E=128,N=928,device_name=NVIDIA_H200.json", rows);
    lacks("wrong-n");
    check_with(&nemotron, "E=64,N=928,device_name=NVIDIA_H200.json", rows); /* not that layer's */
    lacks("wrong-n");
    check_with(&tp, H200, rows);
    has("wrong-n", "", 0, "N=768, expected 384: 768 over tensor-parallel size 2");
    check("E=128,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json", rows);
    has("wrong-n", "", 0, "no multiple of the scale block's 128");
}

/* T10: the need is worked out before the launch. */
static void smem(void **state) {
    (void)state;
    lint_options small = {.system = -1, .smem = 101376};
    const char *text = "{" ODD(1) ",\n" ROW(512, 128, 256, 128, 1, 8, 4) "}";
    check_with(&small, "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", text);
    has("smem-over-device", "512", 2, "147456 bytes, the device has 101376 (--device-smem)");
    assert_int_equal(lint_count(&one, "smem-over-device", LINT_NOTE), 1);
    check("E=128,N=768,device_name=NVIDIA_L40S,dtype=fp8_w8a8.json", text);
    has("smem-over-device", "512", 2, "101376");
    check("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", text);
    lacks("smem-over-device");
    field("T10");
}

/* ---- cadre's own tables ---- */

static void check_own(const char *text, size_t len) {
    lint_done(&one);
    lint_init(&one, &usual);
    lint_native(&one, ROWS_FILE, text, len);
    assert_false(one.failed);
}

static void check_own_row(const native_row *row) {
    size_t len;
    char *text = rows_text(row, 1, &len);
    check_own(text, len);
    mem_free(text);
}

static void own_tables(void **state) {
    (void)state;
    native_row row = rows_make(1, 8);
    check_own_row(&row);
    assert_int_equal(one.count, 0); /* its range is written in the row: nothing is nearest */
    row.ratio_hi = 1.01;
    check_own_row(&row);
    has("no-gain", NULL, 5, "not shown to beat");
    row = rows_make(1, 8);
    row.knobs = row.beaten;
    check_own_row(&row);
    has("row-equals-default", NULL, 5, "");
    row = rows_make(1, 8);
    row.beaten.experts.chunk = 8;
    check_own_row(&row);
    has("row-shadows-newer-default", NULL, 5, "the default has changed");
    row = rows_make(1, 8);
    row.code[0] = row.code[0] == '0' ? '1' : '0';
    check_own_row(&row);
    has("dead-row", NULL, 5, "the kernel has changed");
}

static void own_edited(void **state) {
    (void)state;
    native_row row = rows_make(1, 8);
    size_t len;
    char *text = rows_text(&row, 1, &len);
    char *us = strstr(text, " us=95.500");
    us[4] = '8';
    check_own(text, len);
    has("hand-edited", "", 6, "");
    mem_free(text);
    text = rows_text(&row, 1, &len);
    char *zero = rows_replace(text, " runs=12", " runs=0", &len);
    check_own(zero, len);
    assert_int_equal(lint_count(&one, "zero-evidence", LINT_ERROR), 1);
    mem_free(zero);
    mem_free(text);
}

/* ---- names and folders ---- */

static char dir[] = "/tmp/cadre-lint-XXXXXX";

static void put(const char *path, const char *text) {
    char full[512];
    assert_true(file_join(full, sizeof full, dir, path));
    must(file_write(full, text, strlen(text), fail_out));
}

static void make_folder(const char *name) {
    char line[256];
    snprintf(line, sizeof line, "mkdir -p '%s/%s'", dir, name);
    assert_int_equal(system(line), 0);
}

static void walk(const char *below) {
    char full[512];
    assert_true(file_join(full, sizeof full, dir, below));
    lint_done(&one);
    lint_init(&one, &usual);
    must(lint_path(&one, full, fail_out));
}

#define GOOD   "{" ODD(1) ",\n" ODD(512) "}"
#define SPACED "E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]"
#define JOINED "E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128]"

static void names(void **state) {
    (void)state;
    check("E=128,N=768,device_name=NVIDIA_H100.json", GOOD);
    has("dead-file", "", 0, "NVIDIA_H100_80GB_HBM3");
    check("E=128,N=768,device_name=gfx950.json", GOOD);
    has("dead-file", "", 0, "gfx950 is an architecture");
    check("E=128,N=768,device_name=NVIDIA_H200_NVL.json", GOOD);
    has("dead-file", "", 0, "vllm asks for E=128,N=768,device_name=NVIDIA_H200.json");
    check("E=128,N=768,device_name=NVIDIA_H200,dtype=bf16.json", GOOD);
    has("dead-file", "dtype=bf16", 0, "");
    check("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a16.json", GOOD);
    lacks("dead-file");
    check("N=768,E=128,device_name=NVIDIA_H200.json", GOOD);
    has("dead-file", "", 0, "vllm asks for E=128,N=768");
    field("T08");
    /* Another loader's fields: a note, and its rows are not judged. */
    check("H=3072,E=256,N=256,device_name=NVIDIA_H200,dtype=int8_w8a8.json", "{\"1\": {\"tile_m\": 16}}");
    assert_int_equal(one.count, 1);
    has("foreign-name", "H=3072", 0, "");
    assert_int_equal(one.findings[0].level, LINT_NOTE);
    check("triton_3_4_0/E=128,N=704,device_name=NVIDIA_H200,dtype=fp8_w8a8,per_channel_quant=True.json", GOOD);
    assert_int_equal(lint_count(&one, NULL, LINT_WARNING), 0);
    field("T13");
}

static void folders(void **state) {
    (void)state;
    make_folder("configs/triton_3_4_0");
    make_folder("configs/triton-3.5");
    put("configs/triton_3_4_0/" SPACED ".json", GOOD);
    put("configs/triton_3_4_0/" JOINED ".json", GOOD);
    put("configs/triton-3.5/" SPACED ".json", GOOD);
    put("configs/" SPACED ".json", GOOD);
    put("configs/N=2112,K=7168,device_name=NVIDIA_H200.json", "{\"1\": {\"BLOCK_SIZE_M\": 64}}"); /* a dense kernel's */
    put("configs/notes.json", "{}");
    walk("configs");
    assert_int_equal(one.files, 4);
    assert_int_equal(one.skipped, 2);
    assert_int_equal(lint_count(&one, "dead-file", LINT_NOTE), 3);
    for (int i = 0; i < one.count; i++) {
        const lint_finding *f = &one.findings[i];
        if (strcmp(f->rule->id, "dead-file")) continue;
        const char *want = strstr(f->file, JOINED)       ? "nearest file here: " SPACED
                           : strstr(f->file, "triton-3") ? "folder triton-3.5"
                                                         : "only into the folders triton_X_Y_Z";
        assert_non_null(strstr(f->text, want));
    }
}

/* T05: in the root of the folder, an architecture in its name, words for keys. */
static void never_loaded(void **state) {
    (void)state;
    make_folder("root/triton_3_4_0");
    put("root/moe_gfx950_compact.json", "{\n\"model\": \"m\",\n\"device\": \"gfx950\",\n\"experts\": 8,\n"
                                        "\"tokens\": {\"1\": {\"block_m\": 16}}\n}");
    walk("root");
    int reasons = 0;
    for (int i = 0; i < one.count; i++)
        reasons += !strcmp(one.findings[i].rule->id, "dead-file") &&
                   (strstr(one.findings[i].text, "triton_X_Y_Z") || strstr(one.findings[i].text, "gfx950 is an"));
    assert_int_equal(reasons, 2);
    has("bad-key", "device", 3, "");
    has("bad-key", "tokens", 5, "");
    assert_true(lint_count(&one, NULL, LINT_ERROR) > 0);
    field("T05");
}

/* T04: the tokens are sorted once. */
static void pairs(void **state) {
    (void)state;
    make_folder("pair/triton_3_4_0");
    put("pair/triton_3_4_0/" SPACED ".json",
        "{" ROW(1, 16, 32, 128, 32, 8, 5) ",\n" ROW(512, 64, 32, 128, 32, 8, 5) "}");
    put("pair/triton_3_4_0/" SPACED "_down.json",
        "{" ROW(1, 16, 32, 128, 32, 8, 5) ",\n" ROW(64, 16, 32, 128, 32, 8, 5) ",\n" ROW(513, 64, 32, 128, 32, 8,
                                                                                         5) "}");
    walk("pair");
    assert_int_equal(lint_count(&one, "down-block-m-mismatch", LINT_NOTE), 1);
    has("down-block-m-mismatch", "64", 2, "BLOCK_SIZE_M is 16 at M = 257..288, the base table has 64; 32 of M");
    put("pair/triton_3_4_0/" SPACED "_down.json",
        "{" ROW(1, 16, 64, 128, 32, 8, 5) ",\n" ROW(512, 64, 64, 128, 32, 8, 5) "}");
    walk("pair");
    lacks("down-block-m-mismatch");
    field("T04");
}

/* Every rule has all it needs to be told. */
static void rules(void **state) {
    (void)state;
    for (const lint_rule *r = lint_rules; r->id; r++) {
        assert_ptr_equal(lint_rule_find(r->id), r);
        assert_true(*r->what && *r->why && *r->fix);
    }
    assert_null(lint_rule_find("no-such-rule"));
    assert_int_equal(lint_platform("AMD_Instinct_MI300X"), GEMM_ROCM);
    assert_int_equal(lint_device_smem("NVIDIA H100 80GB HBM3", NULL), 232448);
    assert_int_equal(lint_device_smem("NVIDIA_A100-SXM4-80GB", NULL), 166912);
    assert_int_equal(lint_device_smem("Some device", NULL), 0);
}

static void out_of_memory(void **state) {
    (void)state;
    put("memory.json", "{" ODD(1) "}");
    char full[512];
    assert_true(file_join(full, sizeof full, dir, "memory.json"));
    for (int n = 0;; n++) {
        lint_done(&one);
        lint_init(&one, &usual);
        mem_fail_after(n);
        cadre_fail why = {0};
        cadre_err err = lint_path(&one, full, &why);
        mem_fail_after(-1);
        if (!err) return;
        assert_int_equal(err, CADRE_NOMEM);
        assert_true(n < 200);
    }
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    char line[100];
    (void)state;
    lint_done(&one);
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    return system(line) ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s5000),         cmocka_unit_test(shadows),    cmocka_unit_test(ends),
        cmocka_unit_test(order),         cmocka_unit_test(reach),      cmocka_unit_test(keys_and_fields),
        cmocka_unit_test(evidence),      cmocka_unit_test(groups),     cmocka_unit_test(shards),
        cmocka_unit_test(smem),          cmocka_unit_test(names),      cmocka_unit_test(folders),
        cmocka_unit_test(never_loaded),  cmocka_unit_test(pairs),      cmocka_unit_test(rules),
        cmocka_unit_test(out_of_memory), cmocka_unit_test(own_tables), cmocka_unit_test(own_edited),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
