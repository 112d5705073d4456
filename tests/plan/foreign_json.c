/* foreign_json: a table's text both ways, and what is refused by line: keys, values, fields, evidence (T06, T11). */
#include "s5000.h"

static void field(const char *id) {
    printf("field %s ok\n", id);
}

#define ROW   "{\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 128, \"GROUP_SIZE_M\": 1" REST
#define REST  ", \"num_warps\": 4, \"num_stages\": 1"
#define TABLE "E=1,N=2,device_name=X.json"

static foreign_table *parsed(const char *text) {
    foreign_table *table = NULL;
    must(foreign_parse(TABLE, text, strlen(text), NULL, NULL, &table, fail_out));
    return table;
}

/* Notes as "line rule key;..." */
static char notes[2000];
static void gather(void *ctx, int line, const char *rule, const char *key, const char *text) {
    (void)ctx;
    size_t n = strlen(notes);
    assert_true(*text && !strchr(text, '\n'));
    snprintf(notes + n, sizeof notes - n, "%d %s %s;", line, rule, key);
}

static int lint(const char *name, const char *text, const char *want) {
    foreign_table *table = NULL;
    *notes = 0;
    must(foreign_parse(name, text, strlen(text), gather, NULL, &table, fail_out));
    assert_string_equal(notes, want);
    int count = table->count;
    foreign_free(table);
    return count;
}

/* The error without a listener. */
static void refused(const char *text, const char *want) {
    foreign_table *table = (foreign_table *)1;
    cadre_fail why = {0};
    if (foreign_parse(TABLE, text, strlen(text), NULL, NULL, &table, &why) != CADRE_FORMAT)
        fail_msg("'%s' was accepted", text);
    if (strncmp(why.text, TABLE ":", strlen(TABLE) + 1)) fail_msg("'%s' does not begin with the file", why.text);
    if (strcmp(why.text + strlen(TABLE) + 1, want)) fail_msg("'%s' is not '%s'", why.text, want);
    assert_ptr_equal(table, (foreign_table *)1);
}

/* The bytes are those of the table that torchada ships. */
static void prints_the_s5000_table(void **state) {
    (void)state;
    size_t len;
    char *text = s5000_text(&len);
    foreign_table *table = NULL;
    assert_int_equal(len, S5000_BYTES);
    assert_int_equal(strlen(text), len);
    must(foreign_parse("some/folder/" S5000_NAME, text, len, NULL, NULL, &table, fail_out));
    assert_string_equal(table->sha256, S5000_SHA256);
    assert_string_equal(table->path, "some/folder/" S5000_NAME);
    assert_string_equal(table->name.device, "MTT_S5000");
    assert_string_equal(table->triton, "");
    assert_int_equal(table->count, S5000_ROWS);
    for (int i = 0; i < S5000_ROWS; i++) {
        foreign_row want = s5000_row(i);
        assert_int_equal(table->rows[i].m, want.m);
        assert_int_equal(table->rows[i].line, i + 2);
        assert_null(table->rows[i].unknown);
        assert_memory_equal(&table->rows[i].config, &want.config, sizeof want.config);
    }
    foreign_free(table);
    mem_free(text);
}

static void prints_versions_and_flags(void **state) {
    (void)state;
    char *text;
    size_t len;
    foreign_row row = s5000_row(0);
    row.config.has = 1u << GEMM_BM | 1u << GEMM_TMA, row.config.v[GEMM_TMA] = 1;
    must(foreign_print(&row, 1, "3.4.0", &text, &len, fail_out));
    assert_string_equal(
        text, "{\n  \"triton_version\": \"3.4.0\",\n  \"16\": {\"BLOCK_SIZE_M\": 16, \"USE_TMA\": true}\n}\n");
    mem_free(text);
    must(foreign_print(NULL, 0, "", &text, &len, fail_out));
    assert_string_equal(text, "{\n}\n");
    mem_free(text);
    must(foreign_print(NULL, 0, "a\"b", &text, &len, fail_out));
    assert_string_equal(text, "{\n  \"triton_version\": \"a\\\"b\"\n}\n");
    mem_free(text);
    row.unknown = "kwidth";
    cadre_fail why = {0};
    assert_int_equal(foreign_print(&row, 1, NULL, &text, &len, &why), CADRE_UNSUPPORTED);
    assert_string_equal(why.text, "row 16 has a field \"kwidth\", which would be lost");
}

/* What comes back is what went in, byte for byte, whatever the fields. */
static void round_trip(void **state) {
    (void)state;
    foreign_row rows[40];
    char *text, *again;
    size_t len, len2;
    for (int i = 0; i < 40; i++) {
        rows[i] = (foreign_row){.m = 1 + i * 53687091};
        rows[i].config.has = (1u << GEMM_FIELD_COUNT) - 1;
        for (int f = 0; f < GEMM_FIELD_COUNT; f++)
            rows[i].config.v[f] = i % 2 ? gemm_field_least[f] : gemm_field_most[f];
    }
    must(foreign_print(rows, 40, "3.2.0+git", &text, &len, fail_out));
    foreign_table *table = parsed(text);
    assert_int_equal(table->count, 40);
    assert_string_equal(table->triton, "3.2.0+git");
    must(foreign_print(table->rows, table->count, table->triton, &again, &len2, fail_out));
    assert_int_equal(len2, len);
    assert_string_equal(again, text);
    mem_free(text);
    mem_free(again);
    foreign_free(table);
}

static void stops(const foreign_table *table, foreign_system system, const char *want) {
    cadre_fail why = {0};
    assert_int_equal(foreign_stop(system, table, &why), want ? CADRE_FORMAT : CADRE_OK);
    if (want) assert_string_equal(why.text, want);
}

static void metadata_and_keys(void **state) {
    (void)state;
    foreign_table *table =
        parsed("{\"triton_version\":\"3.6.0\",\n\"_meta\": [1, {}], \"1\":" ROW "},\n\"16\":" ROW "}}");
    assert_string_equal(table->triton, "3.6.0");
    assert_int_equal(table->count, 2);
    assert_int_equal(table->rows[0].line, 2);
    assert_int_equal(table->rows[1].m, 16);
    assert_int_equal(table->rows[1].line, 3);
    stops(table, FOREIGN_VLLM, TABLE ":2: vllm stops at the key \"_meta\": it takes each for a number of tokens");
    stops(table, FOREIGN_SGLANG,
          TABLE ":1: sglang stops at the key \"triton_version\": it takes each for a number of tokens");
    foreign_free(table);
    table = parsed("{\"1\":" ROW "},\n\"triton_version\":\"\"}");
    stops(table, FOREIGN_VLLM, NULL);
    stops(table, FOREIGN_TORCHADA,
          TABLE ":2: torchada stops at the key \"triton_version\": it takes each for a number of tokens");
    foreign_free(table);

    const char *all = "{\"triton_version\": \"3.6.0\",\n"
                      "\"1\": " ROW "},\n\"16\": " ROW "},\n\"_meta\": 1,\n\"01\": " ROW "},\n\"1.0\": " ROW "},\n"
                      "\"-4\": " ROW "},\n\"\": " ROW "},\n\"99999999999999999999\": " ROW "},\n\"2147483647\": " ROW
                      "},\n\"2147483648\": " ROW "},\n\" 8\": " ROW "},\n\"0\": " ROW "},\n\"1_0\": " ROW "}}";
    assert_int_equal(lint(TABLE, all,
                          "4 metadata-key _meta;5 bad-key 01;6 bad-key 1.0;7 bad-key -4;8 bad-key ;"
                          "9 bad-key 99999999999999999999;11 bad-key 2147483648;12 bad-key  8;13 bad-key 0;"
                          "14 bad-key 1_0;"),
                     3);
    refused("{\"16\": " ROW "},\n\"01\": " ROW "}, \"1\": " ROW "}}",
            "2:7: .01 has the key \"01\", the same number as key \"1\" in line 2");
    refused("{\"1.0\": " ROW "}}", "1:9: [\"1.0\"] has the key \"1.0\", expected a whole number from 1 to 2147483647");
    refused("{\"\": " ROW "}}", "1:6: [\"\"] has the key \"\", expected a whole number from 1 to 2147483647");
    refused("{\"1\": " ROW "},\n \"1\": " ROW "}}", "2:2: key \"1\" was given before");
    refused("{\"triton_version\": 3}", "1:20: .triton_version is 3, expected a text of at most 31 bytes");
    field("T06");
}

/* T05's file: words where numbers are expected, lower-case fields, a name for an architecture. One line each. */
static void word_keys(void **state) {
    (void)state;
    const char *text = "{\"model\": \"x\",\n\"device\": \"gfx950\",\n\"tokens\": {\"block_m\": 16}}";
    assert_int_equal(
        lint("moe_gfx950.json", text, "0 bad-name ;1 bad-key model;2 bad-key device;3 bad-key tokens;1 no-rows ;"), 0);
    refused(text, "1:11: .model has the key \"model\", expected a whole number from 1 to 2147483647");
    assert_int_equal(lint(TABLE, "{\"16\": {\"block_m\": 16}}",
                          "1 unknown-field 16;1 missing-field 16;1 missing-field 16;1 missing-field 16;"
                          "1 missing-field 16;1 missing-field 16;1 missing-field 16;"),
                     1);
    assert_int_equal(lint("H=3072," TABLE, "{\"1\": " ROW "}}", "0 bad-name H=3072;"), 1);
}

static void values(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"0", "0"},
        {"-1", "-1"},
        {"65537", "65537"},
        {"16.0", "16"},
        {"1e1", "10"},
        {"null", "null"},
        {"[16]", "an array of 1"},
        {"true", "true"},
        {"NaN", "nan"},
        {"\"16\"", "\"16\" (text)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300], want[200];
        snprintf(text, sizeof text,
                 "{\"16\": {\"BLOCK_SIZE_M\": %s, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 64, "
                 "\"GROUP_SIZE_M\": 1, \"num_warps\": 4, \"num_stages\": 1}}",
                 bad[i][0]);
        snprintf(want, sizeof want, "1:25: .16.BLOCK_SIZE_M is %s, expected a whole number from 1 to 65536", bad[i][1]);
        refused(text, want);
        assert_int_equal(lint(TABLE, text, "1 bad-value 16;1 no-rows ;"), 0);
    }
    foreign_table *t =
        parsed("{\"1\": " ROW ", \"USE_TMA\": true}, \"2\": " ROW ", \"USE_TMA\": false, \"waves_per_eu\": 0}}");
    assert_true(t->rows[0].config.v[GEMM_TMA] == 1 && t->rows[1].config.v[GEMM_TMA] == 0);
    assert_int_equal(t->rows[0].config.has & 1u << GEMM_WAVES, 0);
    assert_true(t->rows[1].config.has & 1u << GEMM_WAVES && t->rows[1].config.has & 1u << GEMM_TMA);
    assert_false(t->rows[0].config.has & 1u << GEMM_SPLIT_K);
    foreign_free(t);
}

/* A field that no kernel declares, and one that every kernel needs: strict refuses, lint tells and keeps the row. */
static void fields(void **state) {
    (void)state;
    static const char unknown[] = "{\"1\": " ROW ",\n\"kwidth\": 2, \"other\": 1}, \"2\": " ROW "}}";
    foreign_table *t = NULL;
    *notes = 0;
    must(foreign_parse(TABLE, unknown, sizeof unknown - 1, gather, NULL, &t, fail_out));
    assert_string_equal(notes, "2 unknown-field 1;2 unknown-field 1;");
    assert_int_equal(t->count, 2);
    assert_string_equal(t->rows[0].unknown, "kwidth");
    assert_null(t->rows[1].unknown);
    foreign_free(t);
    refused(unknown, "2:11: .1.kwidth is a field \"kwidth\" that no kernel declares");
    static const char missing[] = "{\"1\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 128, "
                                  "\"GROUP_SIZE_M\": 1}}";
    assert_int_equal(lint(TABLE, missing, "1 missing-field 1;1 missing-field 1;"), 1);
    t = parsed(missing); /* Triton has defaults of its own for these two */
    assert_int_equal(t->rows[0].config.has, 1u << GEMM_BM | 1u << GEMM_BN | 1u << GEMM_BK | 1u << GEMM_GROUP);
    foreign_free(t);
    refused("{\"1\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_K\": 128}}", "1:7: .1 has no BLOCK_SIZE_N, expected one");
    refused("{\"1\": {\"SPLIT_K\\u0000\": 1}}", "1:25: .1[\"SPLIT_K\"] is a field \"SPLIT_K\" that no kernel declares");
}

/* Zeros for every time and error: written by hand, and dressed as a measurement. */
static void zero_evidence(void **state) {
    (void)state;
    static const char *const zeros[] = {"\"us\": 0", "\"us\": 0.0, \"err\": \"0.0%\"",
                                        "\"us1\": 0, \"us2\": 0, \"err1\": 0"};
    for (int i = 0; i < 3; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"1\": %s, %s}}", ROW, zeros[i]);
        assert_int_equal(lint(TABLE, text, "1 zero-evidence 1;"), 1);
        refused(text,
                "1:7: .1 has nothing but zeros for evidence and no \"source\": it was written by hand, not measured");
        snprintf(text, sizeof text, "{\"1\": %s, %s, \"source\": \"by hand\"}}", ROW, zeros[i]);
        assert_int_equal(lint(TABLE, text, ""), 1);
    }
    assert_int_equal(lint(TABLE, "{\"1\": " ROW ", \"us\": 12.5, \"err\": 0}}", ""), 1);
    assert_int_equal(
        lint(TABLE, "{\"1\": " ROW ", \"us\": 0, \"source\": \"\"}}", "1 unknown-field 1;1 zero-evidence 1;"), 1);
    field("T11");
}

/* What is an error with a listener too. */
static void always_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "", "[]", "1", "{", "{\"1\": " ROW "}", "{\"1\": " ROW "},}", "{\"1\":1,\"1\":1}", "\xEF\xBB\xBF{}"};
    foreign_table *t = (foreign_table *)1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cadre_fail why = {0};
        assert_int_equal(foreign_parse(TABLE, bad[i], strlen(bad[i]), gather, NULL, &t, &why), CADRE_FORMAT);
        assert_memory_equal(why.text, TABLE ":1:", strlen(TABLE) + 3);
        assert_ptr_equal(t, (foreign_table *)1);
    }
    refused("[]", "1:1: the root is an array of 0, expected {\"M\": {...}, ...}");
    refused("{}", "1:1: the root has no rows that can be used: every M takes the default");
    refused("{\"triton_version\": \"3.4.0\"}", "1:1: the root has no rows that can be used: every M takes the default");
    refused("{\"16\": 4}", "1:8: .16 is 4, expected a configuration");
    json_out many = {0};
    json_open(&many, NULL, '{');
    for (int i = 1; i <= 4097; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        json_put_int(&many, key, 1);
    }
    json_close(&many, '}');
    cadre_fail why = {0};
    assert_int_equal(foreign_parse(TABLE, many.text, many.len, gather, NULL, &t, &why), CADRE_FORMAT);
    assert_string_equal(why.text, TABLE ":1:1: the root has 4097 keys, expected at most 4096");
    json_out_free(&many);
    assert_int_equal(foreign_read("/nowhere/" TABLE, NULL, NULL, &t, &why), CADRE_IO);
}

/* Every allocation fails once, and nothing leaks or is set. */
static void out_of_memory(void **state) {
    (void)state;
    size_t len, len2;
    char *text = s5000_text(&len), *again = NULL;
    for (int n = 0;; n++) {
        foreign_table *t = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = foreign_parse(S5000_NAME, text, len, NULL, NULL, &t, &why);
        if (!err) err = foreign_print(t->rows, t->count, "3.2.0", &again, &len2, &why);
        mem_fail_after(-1);
        foreign_free(t);
        if (!err) break;
        assert_int_equal(err, CADRE_NOMEM);
        assert_null(again);
        assert_true(n < 40);
    }
    mem_free(again);
    mem_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_the_s5000_table),
        cmocka_unit_test(prints_versions_and_flags),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(metadata_and_keys),
        cmocka_unit_test(word_keys),
        cmocka_unit_test(values),
        cmocka_unit_test(fields),
        cmocka_unit_test(zero_evidence),
        cmocka_unit_test(always_refused),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
