/* Recipes: the S5000 table from an empty start, what a recipe may not say, rows from samples, merging. */
#include "plan/recipe.h"
#include "s5000.h"
#include "table_rows.h"
#include "test.h"

#define S5000 "recipes/torchada-s5000.json"

/* ---- V20, V21 ---- */

typedef struct owners {
    int count;
    char key[16][16], source[16][400];
} owners;

static void own(void *ctx, const char *key, const char *source) {
    owners *o = ctx;
    assert_true(o->count < 16 && *source);
    snprintf(o->key[o->count], sizeof o->key[0], "%s", key);
    snprintf(o->source[o->count++], sizeof o->source[0], "%s", source);
}

static void is_s5000(const recipe_output *out) {
    char hex[65];
    cadre_sha256(out->text, out->len, hex);
    assert_int_equal(out->len, S5000_BYTES);
    assert_string_equal(hex, S5000_SHA256);
    assert_string_equal(out->name, S5000_NAME);
}

static void v20_from_empty(void **state) {
    (void)state;
    recipe *r;
    recipe_output out;
    owners o = {0};
    must(recipe_read(S5000, &r, fail_out));
    assert_int_equal(recipe_tables(r), 1);
    assert_false(recipe_is_native(r));
    must(recipe_build(r, 0, own, &o, &out, fail_out));
    is_s5000(&out);
    assert_int_equal(o.count, S5000_ROWS);
    int policies = 0;
    for (int i = 0; i < o.count; i++) policies += !strncmp(o.source[i], "policy vllm@", 12);
    assert_int_equal(policies, 5);
    /* the sentence of the measured row is computed: 6.2626 / 6.6207 - 1 */
    assert_string_equal(o.key[0], "16");
    assert_non_null(strstr(o.source[0], "6.2626 ms/token with the row, 6.6207 without: -5.41 %, 5 runs"));
    mem_free(out.text);
    recipe_free(r);
    puts("vector V20 ok");
}

/* The recipe's text without the member `key` of pinned_rows and without its bucket in batch_sizes. */
static char *without(const char *text, const char *key, bool bucket) {
    char *copy = mem_copy_text(text, strlen(text)), quoted[16];
    snprintf(quoted, sizeof quoted, "\"%s\": {", key);
    char *at = strstr(copy, quoted), *end = at;
    assert_non_null(at);
    int depth = 0;
    do depth += (*end == '{') - (*end == '}');
    while (*end++ != '}' || depth);
    if (*end == ',')
        end++;
    else /* the last member: the comma before goes */
        while (*--at != ',') {
        }
    memmove(at, end, strlen(end) + 1);
    if (bucket) return copy;
    snprintf(quoted, sizeof quoted, "%s, ", key);
    at = strstr(strstr(copy, "batch_sizes"), quoted);
    size_t n = strlen(quoted);
    if (!at) {
        snprintf(quoted, sizeof quoted, ", %s", key);
        at = strstr(strstr(copy, "batch_sizes"), quoted);
        n = strlen(quoted);
    }
    assert_non_null(at);
    memmove(at, at + n, strlen(at + n) + 1);
    return copy;
}

static void v21_every_row_counts(void **state) {
    (void)state;
    char *text, *cut;
    size_t len;
    must(file_read(S5000, 1 << 20, &text, &len, fail_out));
    for (int i = 0; i < S5000_ROWS; i++) {
        char key[16], hex[65], says[64];
        cadre_fail why = {0};
        recipe *r;
        recipe_output out;
        snprintf(key, sizeof key, "%d", s5000_values[i][0]);
        cut = without(text, key, false); /* without a trace: another table */
        must(recipe_parse(S5000, cut, strlen(cut), &r, fail_out));
        must(recipe_build(r, 0, NULL, NULL, &out, fail_out));
        assert_int_equal(out.rows, S5000_ROWS - 1);
        cadre_sha256(out.text, out.len, hex);
        assert_string_not_equal(hex, S5000_SHA256);
        mem_free(out.text);
        mem_free(cut);
        recipe_free(r);
        cut = without(text, key, true); /* its bucket is still named: refused */
        must(recipe_parse(S5000, cut, strlen(cut), &r, fail_out));
        assert_int_equal(recipe_build(r, 0, NULL, NULL, &out, &why), CADRE_FORMAT);
        snprintf(says, sizeof says, "/0/batch_sizes/%d: bucket %s has no row", i, key);
        assert_non_null(strstr(why.text, says));
        mem_free(cut);
        recipe_free(r);
    }
    mem_free(text);
    puts("vector V21 ok");
}

/* ---- V30 ---- */

#define CONFIG                                                                                                         \
    "{\"BLOCK_SIZE_M\":16,\"BLOCK_SIZE_N\":64,\"BLOCK_SIZE_K\":128,\"GROUP_SIZE_M\":1,\"num_warps\":4,\"num_stages\":" \
    "1}"
static char entry_text[1600];
/* An entry whose batch_sizes, dtype and row of bucket 16 are given; NULL: left out. */
static const char *entry(const char *sizes, const char *dtype, const char *row) {
    snprintf(entry_text, sizeof entry_text,
             "[{\"name\":\"x\",\"device\":\"D\",\"num_experts\":8,\"hidden_size\":64,\"shard_intermediate_size\":32,"
             "\"topk\":2,\"dtype\":%s%s%s,\"pinned_rows\":{\"16\":%s}}]",
             dtype, sizes ? ",\"batch_sizes\":" : "", sizes ? sizes : "", row);
    return entry_text;
}

static void refused(const char *text, const char *place, const char *says) {
    recipe *r = NULL;
    cadre_fail why = {0};
    char start[64];
    cadre_err err = recipe_parse("a.json", text, strlen(text), &r, &why);
    snprintf(start, sizeof start, ": %s: ", place);
    if (err != CADRE_FORMAT || strncmp(why.text, "a.json:1:", 9) || !strstr(why.text, start) || !strstr(why.text, says))
        fail_msg("%s: '%s', expected %s...%s", text, err ? why.text : "accepted", start, says);
}

static void v30_recipe_errors(void **state) {
    (void)state;
    static const char good[] = "{\"config\":" CONFIG ",\"source\":\"run 1\"}";
    static const struct {
        const char *sizes, *place;
    } bad[] = {{"0", "/0/batch_sizes"},        {"-1", "/0/batch_sizes"},          {"true", "/0/batch_sizes"},
               {"\"16\"", "/0/batch_sizes"},   {"[1,\"2\"]", "/0/batch_sizes/1"}, {"[null]", "/0/batch_sizes/0"},
               {"[16,0]", "/0/batch_sizes/1"}, {"[]", "/0/batch_sizes"},          {"1.5", "/0/batch_sizes"},
               {"[true]", "/0/batch_sizes/0"}, {"2147483648", "/0/batch_sizes"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(entry(bad[i].sizes, "\"bf16\"", good), bad[i].place, "");
    static const struct {
        const char *sizes;
        int count, values[2];
    } fine[] = {{"16", 1, {16}}, {"[16,16,7]", 2, {7, 16}}, {NULL, 0, {0}}};
    for (size_t i = 0; i < 3; i++) {
        recipe *r;
        int sizes[8];
        const char *text = entry(fine[i].sizes, "\"bf16\"", good);
        must(recipe_parse("a.json", text, strlen(text), &r, fail_out));
        assert_int_equal(recipe_batch_sizes(r, 0, sizes, 8), fine[i].count);
        for (int j = 0; j < fine[i].count; j++) assert_int_equal(sizes[j], fine[i].values[j]);
        recipe_free(r);
    }
    refused(entry("16", "\"auto\"", good), "/0/dtype", "auto");
    refused(entry("16", "\"fp3\"", good), "/0/dtype", "fp3");
    refused(entry("16", "\"bf16\"", "{\"config\":" CONFIG "}"), "/0/pinned_rows/16", "source");
    refused(entry("16", "\"bf16\"", "{\"config\":" CONFIG ",\"source\":\"\"}"), "/0/pinned_rows/16/source", "empty");
    refused(entry("16", "\"bf16\"", "{\"config\":{\"BLOCK_SIZE_M\":16},\"source\":\"x\"}"), "/0/pinned_rows/16/config",
            "BLOCK_SIZE_N is missing");
    refused(entry("16", "\"bf16\"", "{\"config\":{\"TILE\":16},\"source\":\"x\"}"), "/0/pinned_rows/16/config/TILE",
            "no kernel has this field");
    refused(entry("16", "\"bf16\"", "{\"source\":\"x\"}"), "/0/pinned_rows/16", "either config and source, or policy");
    refused(entry("16", "\"bf16\"", "{\"policy\":{\"name\":\"bi-v100\",\"platform\":\"corex\"}}"),
            "/0/pinned_rows/16/policy", "to its kernel");
    refused(entry("16", "\"bf16\"", "{\"policy\":{\"name\":\"none\"}}"), "/0/pinned_rows/16/policy/name", "no policy");
    refused(entry("16", "\"bf16\"",
                  "{\"config\":" CONFIG ",\"source\":\"x\",\"measured\":{\"what\":\"t\",\"unit\":\"ms\",\"with\":0,"
                  "\"without\":1,\"runs\":5}}"),
            "/0/pinned_rows/16/measured/with", "was not measured");
    refused("[{\"num_experts\":8}]", "/0", "name is missing");
    refused("[{\"name\":\"x\",\"num_experts\":8}]", "/0", "hidden_size is missing");
    refused("[{\"name\":\"x\",\"colour\":8}]", "/0/colour", "is not a field");
    refused("[{\"model\":\"x\"}]", "/0", "checkpoint");
    refused("[]", "/", "expected a list");
    refused("3", "/", "expected a list");
    refused("{\"cadre_recipe\":2}", "/cadre_recipe", "1..1");
    puts("vector V30 ok");
}

/* ---- V31 ---- */

static foreign_table *foreign_of(const char *text) {
    foreign_table *t;
    must(foreign_parse("E=8,N=16,device_name=D.json", text, strlen(text), NULL, NULL, &t, fail_out));
    return t;
}

typedef struct changes {
    int added, gone, changed;
    char key[200];
} changes;
static void count_change(void *ctx, const char *key, const char *old, const char *fresh) {
    changes *c = ctx;
    if (old && fresh)
        c->changed++;
    else if (old)
        c->gone++;
    else
        c->added++;
    snprintf(c->key, sizeof c->key, "%s", key);
}

static void v31_merge(void **state) {
    (void)state;
    foreign_table *old = foreign_of("{\"49\":" CONFIG ",\"512\":" CONFIG "}"),
                  *fresh = foreign_of("{\"16\":" CONFIG "}");
    foreign_row *rows;
    int count;
    static const int keys[] = {16, 49, 512};
    must(foreign_merge(old, fresh, &rows, &count, fail_out));
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(rows[i].m, keys[i]);
    mem_free(rows);
    must(foreign_merge(NULL, fresh, &rows, &count, fail_out));
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].m, 16);
    mem_free(rows);
    changes c = {0};
    assert_int_equal(foreign_diff(old, fresh, count_change, &c), 3);
    assert_true(c.added == 1 && c.gone == 2 && !c.changed);
    c = (changes){0};
    assert_int_equal(foreign_diff(old, old, count_change, &c), 0);
    foreign_table *other = foreign_of("{\"16\":{\"BLOCK_SIZE_M\":32,\"BLOCK_SIZE_N\":64,\"BLOCK_SIZE_K\":128,"
                                      "\"GROUP_SIZE_M\":1,\"num_warps\":4,\"num_stages\":1}}");
    assert_int_equal(foreign_diff(fresh, other, count_change, &c), 1);
    assert_int_equal(c.changed, 1);
    foreign_free(old);
    foreign_free(fresh);
    foreign_free(other);
    puts("vector V31 ok");
}

static native_table *native_of(native_row *rows, int count) {
    char *text;
    size_t len;
    native_table *t;
    must(native_print(ROWS_DEVICE, "x", rows, count, &text, &len, fail_out));
    must(native_parse(ROWS_FILE, text, len, NULL, NULL, &t, fail_out));
    mem_free(text);
    return t;
}

/* Rows of other ranges and keys stay; the same range is replaced; ranges that meet in part are refused. */
static void native_merging(void **state) {
    (void)state;
    native_row a[] = {rows_make(1, 4), rows_make(5, 8), rows_make(1, 4)}, b[] = {rows_make(5, 8), rows_make(9, 9)};
    a[2].d = 128;
    b[0].knobs.experts.chunk = 32;
    native_table *old = native_of(a, 3), *fresh = native_of(b, 2);
    native_row *rows;
    int count;
    changes c = {0};
    assert_int_equal(native_diff(old, fresh, count_change, &c), 4);
    assert_true(c.added == 1 && c.gone == 2 && c.changed == 1);
    must(native_merge(old, fresh, &rows, &count, fail_out));
    assert_int_equal(count, 4);
    int chunk = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].n_lo == 5) chunk = rows[i].knobs.experts.chunk;
    assert_int_equal(chunk, 32);
    mem_free(rows);
    native_free(fresh);
    b[0].n_lo = 6;
    b[0].at = 6;
    fresh = native_of(b, 1);
    cadre_fail why = {0};
    assert_int_equal(native_merge(old, fresh, &rows, &count, &why), CADRE_RANGE);
    assert_non_null(strstr(why.text, "meet in part"));
    native_free(old);
    native_free(fresh);
}

/* ---- rows from samples ---- */

enum { PAIRS = 8 };
static char folder[64] = "/tmp/cadre-recipe-XXXXXX";

typedef struct world {
    double gain;       /* time of the row's settings over the default's */
    int chunk;         /* of the row's settings */
    int swap;          /* this pair's run of the row comes after the next pair */
    int default_chunk; /* of the default's last run */
    const char *cpu;   /* of the last run */
    bool zero;         /* the last sample has no time */
} world;
static const world fair = {.gain = 0.9, .chunk = 16, .swap = -1, .default_chunk = 4, .cpu = ROWS_DEVICE};

static size_t put_run(char *at, size_t size, const world *w, int pair, int arm) {
    size_t n = 0;
    bool last = pair == PAIRS - 1;
    const char *code = op_kernel_source(op_kernel_named("experts_f32_ref"));
    for (int m = 1; m <= 4; m += 3)
        for (int visit = 0; visit < 3; visit++) {
            double us = (100 + 10 * m + pair + visit) * (arm ? 1 : w->gain + 0.001 * pair + 0.002 * m);
            n += (size_t)snprintf(
                at + n, size - n,
                "{\"run\":\"%c%d\",\"visit\":%d,\"m\":%d,\"us\":%.3f,\"routing\":\"uniform\",\"plan\":{\"op\":"
                "\"experts\",\"kernel\":\"experts_f32_ref\",\"code\":\"%s\",\"dtype\":\"f32\",\"d\":64,\"f\":32,"
                "\"e\":8,\"k\":2,\"act\":\"swiglu\",\"threads\":1,\"cpu\":\"%s\",\"class\":\"cpu-test-ref\","
                "\"source\":\"%s\",\"config\":{\"rows\":4,\"panels\":2,\"chunk\":%d,\"columns\":2}},\"manifest\":"
                "{\"compiler\":\"gcc 12.2.0\",\"date\":\"2026-11-29T14:%02d:00Z\"}}\n",
                arm ? 'b' : 'a', pair, visit, m, w->zero && last && arm && visit == 2 ? 0 : us, code,
                last ? w->cpu : ROWS_DEVICE, arm ? "policy" : "override",
                arm ? (last ? w->default_chunk : 4) : w->chunk, 10 + pair);
        }
    return n;
}

static void write_samples(const world *w) {
    enum { ROOM = 1 << 17 };
    char *text = mem_new(ROOM), path[128];
    size_t n = (size_t)snprintf(text, ROOM, "{\"run\":\"other\",\"m\":1}\n");
    for (int i = 0; i < PAIRS; i++) {
        if (i != w->swap) n += put_run(text + n, ROOM - n, w, i, i % 2);
        n += put_run(text + n, ROOM - n, w, i, i == w->swap || !(i % 2));
        if (w->swap == i - 1) n += put_run(text + n, ROOM - n, w, w->swap, 0);
    }
    file_join(path, sizeof path, folder, "s.jsonl");
    must(file_write(path, text, n, fail_out));
    mem_free(text);
}

static const char *native_recipe(const char *samples, int runs, const char *range) {
    static char text[1200];
    char a[256] = "", b[256] = "";
    for (int i = 0; i < runs; i++) {
        snprintf(a + strlen(a), sizeof a - strlen(a), "%s\"a%d\"", i ? "," : "", i);
        snprintf(b + strlen(b), sizeof b - strlen(b), "%s\"b%d\"", i ? "," : "", i);
    }
    snprintf(text, sizeof text,
             "{\"cadre_recipe\":1,\"rows\":[{\"samples\":\"%s\",\"runs\":[%s],\"default_runs\":[%s],\"n\":%s}]}",
             samples, a, b, range);
    return text;
}

static cadre_err build(const char *text, recipe_output *out, owners *o, cadre_fail *why) {
    char path[128];
    recipe *r;
    file_join(path, sizeof path, folder, "r.json");
    cadre_err err = recipe_parse(path, text, strlen(text), &r, why);
    if (err) return err;
    err = recipe_build(r, 0, o ? own : NULL, o, out, why);
    recipe_free(r);
    return err;
}

static void rows_from_samples(void **state) {
    (void)state;
    recipe_output out, again;
    owners o = {0};
    native_table *t;
    write_samples(&fair);
    must(build(native_recipe("s.jsonl", PAIRS, "[1,4]"), &out, &o, fail_out));
    must(build(native_recipe("s.jsonl", PAIRS, "[1,4]"), &again, NULL, fail_out));
    assert_int_equal(out.len, again.len);
    assert_memory_equal(out.text, again.text, out.len);
    assert_string_equal(out.name, "Test_CPU_9000.table");
    must(native_parse(ROWS_FILE, out.text, out.len, NULL, NULL, &t, fail_out));
    const native_row *row = &t->rows[0];
    assert_int_equal(t->count, 1);
    assert_true(row->n_lo == 1 && row->n_hi == 4 && row->at == 4 && row->runs == PAIRS);
    /* at m=4 the ratios are 0.908, 0.909 .. 0.915: eight of them, so the interval is their range */
    assert_true(row->ratio == 0.9115 && row->ratio_lo == 0.908 && row->ratio_hi == 0.915);
    /* medians of the runs: 141 + pair */
    assert_true(row->default_us == 144.5);
    assert_int_equal(row->knobs.experts.chunk, 16);
    assert_int_equal(row->beaten.experts.chunk, 4);
    assert_string_equal(row->run, "a7");
    assert_string_equal(row->date, "2026-11-29T14:17:00Z");
    assert_string_equal(t->klass, "cpu-test-ref");
    assert_int_equal(native_judge(row, 1, NULL, NULL), NATIVE_GOOD);
    assert_int_equal(o.count, 1);
    assert_non_null(strstr(o.source[0], "s.jsonl, run a7 and 7 before: measured at n=4: 0.9115"));
    native_free(t);
    mem_free(out.text);
    mem_free(again.text);
}

static void no_row(world w, const char *text, const char *says) {
    recipe_output out = {0};
    cadre_fail why = {0};
    write_samples(&w);
    cadre_err err = build(text, &out, NULL, &why);
    if (!err || !strstr(why.text, says)) fail_msg("'%s', expected %s", err ? why.text : "built", says);
    assert_null(out.text);
}

static void rows_that_do_not_ship(void **state) {
    (void)state;
    const char *good = mem_copy_text(native_recipe("s.jsonl", PAIRS, "[1,4]"), 1000);
    world w = fair;
    w.gain = 0.99; /* up to 1.005 at m = 4 */
    no_row(w, good, "/rows/0: does not beat the default at m=4");
    w = fair, w.swap = 2;
    no_row(w, good, "do not take turns");
    w = fair, w.chunk = 4;
    no_row(w, good, "the default's own settings");
    w = fair, w.default_chunk = 8;
    no_row(w, good, "another default");
    w = fair, w.cpu = "Another CPU";
    no_row(w, good, "another device");
    w = fair, w.zero = true;
    no_row(w, good, "was not measured");
    no_row(fair, native_recipe("none.jsonl", PAIRS, "[1,4]"), "none.jsonl: cannot open");
    no_row(fair, native_recipe("s.jsonl", PAIRS, "[1,5]"), "both ends");
    no_row(fair, native_recipe("s.jsonl", PAIRS, "[2,3]"), "have no samples");
    no_row(fair, native_recipe("s.jsonl", 5, "[1,4]"), "/rows/0/runs: expected a list of 6 to");
    no_row(fair, native_recipe("s.jsonl", PAIRS + 1, "[1,4]"), "have no samples");
    no_row(fair, native_recipe("s.jsonl", PAIRS, "[4,1]"), "the lower first");
    no_row(fair, "{\"cadre_recipe\":1,\"rows\":[{\"samples\":\"s.jsonl\",\"n\":[1,4]}]}", "runs is missing");
    no_row(fair, "{\"cadre_recipe\":1,\"rows\":[]}", "rows must be a list");
    mem_free((void *)(uintptr_t)good);
}

static void out_of_memory(void **state) {
    (void)state;
    int failures = 0;
    write_samples(&fair);
    char *text = mem_copy_text(native_recipe("s.jsonl", PAIRS, "[1,4]"), 1000);
    for (int n = 0; n < 5000; n += n < 60 ? 1 : 13) {
        recipe_output out = {0};
        mem_fail_after(n);
        cadre_err err = build(text, &out, NULL, NULL);
        mem_fail_after(-1);
        mem_free(out.text);
        if (!err) break;
        assert_int_equal(err, CADRE_NOMEM);
        failures++;
    }
    assert_true(failures > 60 && failures < 400);
    mem_free(text);
}

static void kinds(void **state) {
    (void)state;
    static const char *const yes[] = {"{\"cadre_recipe\":1}", "[{\"pinned_rows\":{}}]",
                                      "{\"shard_intermediate_size\":1}"};
    static const char *const no[] = {"{\"16\":{}}", "[]", "3", "x", ""};
    for (int i = 0; i < 3; i++) assert_true(recipe_is("x", yes[i], strlen(yes[i])));
    for (int i = 0; i < 5; i++) assert_false(recipe_is("x", no[i], strlen(no[i])));
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    char path[128];
    file_join(path, sizeof path, folder, "s.jsonl");
    must(file_remove(path, fail_out));
    must(file_remove(folder, fail_out));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v20_from_empty), cmocka_unit_test(v21_every_row_counts),  cmocka_unit_test(v30_recipe_errors),
        cmocka_unit_test(v31_merge),      cmocka_unit_test(native_merging),        cmocka_unit_test(rows_from_samples),
        cmocka_unit_test(out_of_memory),  cmocka_unit_test(rows_that_do_not_ship), cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
