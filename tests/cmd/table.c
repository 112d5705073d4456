/* table: the `cadre table` commands, and tables found beside the installed command. */
#include "plan/table.h"
#include "command.h"
#include "plan/plan.h"

#define RECIPE "recipes/torchada-s5000.json"
#define NAME   "E=128,N=1856,device_name=MTT_S5000.json"
#define SHA    "3e39677d2dbf5c984325f94255dbba3fa5eb2ac331fde3a86a79f75105fc531b"

static const char *in(const char *name) {
    static char path[8][300];
    static int turn;
    char *p = path[turn++ % 8];
    assert_true(file_join(p, sizeof path[0], scratch, name));
    return p;
}

static void has_sha(const char *text, size_t len) {
    char hex[65];
    cadre_sha256(text, len, hex);
    assert_string_equal(hex, SHA);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...) {
    char line[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (system(line)) fail_msg("%s", line);
}

/* V20 through the command: to standard output, to a file, to a folder; and the check that a hand edit fails. */
static void build(void **state) {
    (void)state;
    ran r = command("table build " RECIPE);
    assert_int_equal(r.status, 0);
    has_sha(r.out, r.out_len);
    command_free(&r);
    r = command("table build " RECIPE " -o '%s' --json", scratch);
    json_doc *doc = command_json(&r);
    const json *t = json_get(json_root(doc), "tables")->child;
    assert_true(json_is(json_get(t, "name"), NAME) && json_is(json_get(t, "sha256"), SHA));
    assert_int_equal(json_get(t, "rows")->integer, 8);
    assert_int_equal(json_get(t, "bytes")->integer, 1105);
    json_free(doc);
    command_free(&r);
    r = command("table build " RECIPE " --check '%s'", in(NAME));
    assert_int_equal(r.status, 0);
    command_free(&r);
    shell("sed 's/\"num_stages\": 4/\"num_stages\": 2/' '%s' >'%s'", in(NAME), in("edited.json"));
    r = command("table build " RECIPE " --check '%s'", in("edited.json"));
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "~ 49: "));
    assert_non_null(strstr(r.out, "not what the recipe makes"));
    command_free(&r);
    shell("sed 's/, /,/' '%s' >'%s'", in(NAME), in("spaces.json")); /* the same rows, other bytes */
    r = command("table build " RECIPE " --check '%s' --json", in("spaces.json"));
    assert_int_equal(r.status, 1);
    doc = command_json(&r);
    assert_false(json_get(json_root(doc), "same")->truth);
    assert_int_equal(json_get(json_root(doc), "changes")->count, 0);
    json_free(doc);
    command_free(&r);
}

/* A recipe of two tables: to a folder only, and nothing is written when the second can't be built. */
static void build_two(void **state) {
    (void)state;
#define ENTRY(device)                                                                                         \
    "{\"name\": \"x\"," device "\"num_experts\": 8, \"hidden_size\": 128, \"shard_intermediate_size\": 128, " \
    "\"topk\": 2, \"dtype\": \"bf16\", \"pinned_rows\": {\"1\": {\"policy\": {\"name\": \"vllm\"}}}}"
    static const char two[] = "[" ENTRY("\"device\": \"A\", ") ", " ENTRY("\"device\": \"B\", ") "]";
    static const char half[] = "[" ENTRY("\"device\": \"A\", ") ", " ENTRY("") "]";
#undef ENTRY
    assert_int_equal(file_write(in("two.json"), two, sizeof two - 1, NULL), CADRE_OK);
    assert_int_equal(file_write(in("half.json"), half, sizeof half - 1, NULL), CADRE_OK);
    shell("mkdir '%s' '%s'", in("whole"), in("none"));
    ran r = command("table build '%s' -o '%s'", in("two.json"), in("whole"));
    assert_int_equal(r.status, 0);
    command_free(&r);
    shell("cmp '%s/E=8,N=64,device_name=A.json' '%s/E=8,N=64,device_name=B.json'", in("whole"), in("whole"));
    command_refused(command("table build '%s' -o '%s' --json", in("two.json"), in("one.json")), "must name a folder");
    command_refused(command("table build '%s' -o '%s'", in("half.json"), in("none")), "device is missing");
    shell("rmdir '%s'", in("none")); /* still empty */
}

static void merge(void **state) {
    (void)state;
    shell("cp '%s' '%s'", in(NAME), in("before"));
    ran r = command("table merge '%s' '%s'", in("edited.json"), in(NAME));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "~ 49: "));
    assert_non_null(strstr(r.err, "num_stages=4 -> "));
    assert_null(strstr(r.err, "~ 16"));
    assert_non_null(strstr(r.out, "\"513\""));
    command_free(&r);
    shell("cmp '%s' '%s'", in(NAME), in("before")); /* only -o writes */
    shell("printf '{\"7\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 128, \"GROUP_SIZE_M\": 1, "
          "\"num_warps\": 4, \"num_stages\": 1}}\\n' >'%s'",
          in("seven.json"));
    r = command("table merge '%s' '%s' -o '%s' --json", in("seven.json"), in(NAME), in("merged.json"));
    json_doc *doc = command_json(&r);
    assert_int_equal(json_get(json_root(doc), "added")->integer, 1);
    assert_int_equal(json_get(json_root(doc), "changed")->integer, 0);
    json_free(doc);
    command_free(&r);
    r = command("table diff '%s' '%s' --json", in(NAME), in("merged.json"));
    assert_int_equal(r.status, 1);
    doc = command_json(&r);
    assert_int_equal(json_get(json_root(doc), "added")->integer, 1);
    assert_int_equal(json_get(json_root(doc), "gone")->integer, 0);
    json_free(doc);
    command_free(&r);
    r = command("table diff '%s' " RECIPE, in(NAME));
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = command("table merge " RECIPE " '%s'", in("none.json")); /* OLD need not be there */
    has_sha(r.out, r.out_len);
    command_free(&r);
}

static void show(void **state) {
    (void)state;
    ran r = command("table show '%s' --json", in(NAME));
    json_doc *doc = command_json(&r);
    const json *row = json_get(json_root(doc), "rows")->child;
    static const int serves[][2] = {{1, 32}, {33, 64}, {65, 96}, {97, 128}, {129, 327}, {328, 511}, {512, 512}};
    for (int i = 0; i < 7; i++, row = row->next) {
        assert_int_equal(json_get(row, "line")->integer, i + 2);
        assert_int_equal(json_get(row, "serves")->child->integer, serves[i][0]);
        assert_int_equal(json_get(row, "serves")->child->next->integer, serves[i][1]);
    }
    assert_int_equal(json_get(row, "serves")->child->next->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
    r = command("table show " RECIPE);
    assert_non_null(strstr(r.out, "policy vllm@"));
    assert_non_null(strstr(r.out, "-5.41 %"));
    command_free(&r);
}

/* A table becomes a recipe that makes it again; another system's folder and name. */
static void convert(void **state) {
    (void)state;
    ran r = command("table import '%s' --hidden 2688 --topk 6 --not-gated -o '%s'", in(NAME), in("r.json"));
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = command("table build '%s'", in("r.json"));
    has_sha(r.out, r.out_len);
    command_free(&r);
    r = command("table show '%s'", in("r.json"));
    assert_non_null(strstr(r.out, "imported from " NAME ", sha256 " SHA ", line 2"));
    command_free(&r);
    r = command("table export '%s' --to sglang --triton 3.4.0+git1 -o '%s'", in(NAME), in("configs"));
    assert_int_equal(r.status, 0);
    command_free(&r);
    shell("cmp '%s' '%s/triton_3_4_0/" NAME "'", in(NAME), in("configs"));
    command_refused(command("table export '%s' --to sglang -o '%s'", in(NAME), in("configs")), "--triton 3.4.0");
    command_refused(command("table export '%s' --to sglang --triton ../x -o '%s'", in(NAME), in("configs")),
                    "--triton");
    static const char block[] = "E=8,N=64,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json";
    shell("cp '%s' '%s'", in("seven.json"), in(block));
    r = command("table export '%s' --to vllm", in(block));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "block_shape=[128,128].json"));
    command_free(&r);
    static const char down[] = "E=8,N=64,device_name=D_down.json";
    shell("cp '%s' '%s'", in("seven.json"), in(down));
    command_refused(command("table export '%s' --to vllm", in(down)), "no tables of this kind");
    static const char int4[] = "E=8,N=64,device_name=D,dtype=int4_w4a16.json";
    shell("cp '%s' '%s'", in("seven.json"), in(int4));
    r = command("table export '%s' --to torchada", in(int4));
    assert_non_null(strstr(r.err, "N=32,"));
    command_free(&r);
    command_refused(command("table merge '%s' '%s'", in(block), in(int4)), "different shapes");
    static const char plain[] = "E=8,N=64,device_name=D,dtype=fp8_w8a8.json";
    shell("cp '%s' '%s'", in("seven.json"), in(plain));
    command_refused(command("table merge '%s' '%s'", in(block), in(plain)), "different shapes");
    static const char vllm[] = "E=8,N=64,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json";
    shell("cp '%s' '%s'", in("seven.json"), in(vllm));
    const char *const names[] = {block, int4, plain, vllm};
    for (int i = 0; i < 4; i++) { /* what is imported is built again under its own name */
        r = command("table import '%s' --hidden 128 --topk 2 -o '%s'", in(names[i]), in("again.json"));
        assert_int_equal(r.status, 0);
        command_free(&r);
        r = command("table build '%s' --json", in("again.json"));
        json_doc *doc = command_json(&r);
        assert_true(json_is(json_get(json_get(json_root(doc), "tables")->child, "name"), names[i]));
        json_free(doc);
        command_free(&r);
    }
    static const char more[] = "E=8,N=64,H=3072,device_name=D.json";
    shell("cp '%s' '%s'", in("seven.json"), in(more));
    command_refused(command("table export '%s' --to sglang", in(more)), "'H=3072' of the name");
    static const char tma[] = "E=8,N=64,device_name=T.json";
    shell("sed 's/\"num_warps\"/\"USE_TMA\": true, \"num_warps\"/' '%s' >'%s'", in("seven.json"), in(tma));
    command_refused(command("table export '%s' --to vllm", in(tma)), "USE_TMA");
}

/* Without -o the JSON carries what was made. */
static void text_in_json(void **state) {
    (void)state;
    static const char *const lines[] = {"build " RECIPE, "import '%s' --hidden 2688 --topk 6 --not-gated",
                                        "export '%s' --to sglang", "merge " RECIPE " '%s'"};
    for (int i = 0; i < 4; i++) {
        char line[600];
        snprintf(line, sizeof line, lines[i], in(NAME));
        ran plain = command("table %s", line), r = command("table %s --json", line);
        assert_int_equal(plain.status, 0);
        json_doc *doc = command_json(&r);
        const json *root = json_root(doc), *made = i ? root : json_get(root, "tables")->child;
        assert_string_equal(json_get(made, "text")->text, plain.out);
        json_free(doc);
        command_free(&plain);
        command_free(&r);
    }
    ran r = command("table export '%s' --to vllm --json -o '%s/new/vllm'", in(NAME), scratch);
    json_doc *doc = command_json(&r);
    assert_int_equal(json_get(json_root(doc), "text")->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
    shell("umask 022; cmp '%s' '%s/new/vllm/" NAME "' && test \"$(stat -c %%a '%s/new/vllm')\" = 755", in(NAME),
          scratch, scratch);
    command_refused(command("table export '%s' --to vllm -o '%s'", in(NAME), in("r.json")), "cannot make the folder");
    command_refused(command("table export '%s' --to vllm -o ''", in(NAME)), "-o is ''");
}

/* Bad input: one line, exit status 2. */
static void refused(void **state) {
    (void)state;
    command_refused(command("table show '%s'", in("nothing")), "nothing: cannot open");
    command_refused(command("table show"), "0 files are named");
    command_refused(command("table diff '%s'", in(NAME)), "1 files are named");
    shell("printf 'cadre table 1\\ndevice' >'%s'", in("Cut.table"));
    command_refused(command("table show '%s'", in("Cut.table")), "Cut.table:2: expected device");
    shell("printf '{\"16\": {\"BLOCK_SIZE_M\": }}' >'%s'", in("bad.json"));
    command_refused(command("table show '%s'", in("bad.json")), "bad.json:1:25");
    command_refused(command("table build '%s'", in(NAME)), ": ");
    shell("sed 's/\"source\"/\"sauce\"/' " RECIPE " >'%s'", in("sauce.json"));
    command_refused(command("table build '%s'", in("sauce.json")), "/0/pinned_rows/16/sauce");
    shell("sed 's/\"topk\": 6,//' " RECIPE " >'%s'", in("topk.json"));
    command_refused(command("table build '%s'", in("topk.json")), "topk is missing");
    command_refused(command("table import '%s'", in(NAME)), "--hidden");
    command_refused(command("table import '%s' --hidden 1 --topk 1", in("seven.json")), "the file name must say");
    command_refused(command("table export '%s'", in(NAME)), "--to");
    command_refused(command("table merge '%s' '%s'", in(NAME), in("Cut.table")), "Cut.table:2");
    command_refused(command("plan explain --rule native --table '%s'", in("Cut.table")), "Cut.table:2");
    command_refused(command("table build " RECIPE " -o '%s/no/such'", scratch), "no/such: cannot make");
    command_refused(command("table build " RECIPE " --check '%s' -o foo", in(NAME)),
                    "--check and -o do not go together");
    command_refused(command("table import '%s' --hidden 1 --topk 600", in(NAME)), "at most the table's E=128");
    command_refused(command("table import '%s' --hidden 1 --topk 6 --act foo", in(NAME)), "--act is 'foo', expected");
    command_refused(command("table lint '%s' --against foo", in(NAME)), "expected one of vllm, ");
}

/* ---- installed ---- */

/* A row for the CPU at hand and n = 1..4 on one thread, as a table of it: chunk 16 where the default has 4. */
static void write_row(const char *dir, const char *kernel_name, const int shape[4], int beaten_chunk) {
    native_row row;
    char *text, name[128], path[600];
    size_t len;
    cadre_device *device;
    const op_kernel *kernel = op_kernel_named(kernel_name);
    memset(&row, 0, sizeof row);
    assert_int_equal(cadre_device_open(&(cadre_device_options){.threads = 1}, &device, NULL), CADRE_OK);
    row.family = OP_EXPERTS, row.dtype = kernel->dtype;
    row.d = shape[0], row.f = shape[1], row.e = shape[2], row.k = shape[3], row.gated = true, row.threads = 1;
    row.n_lo = 1, row.n_hi = 4, row.at = 1;
    op_knobs_default(OP_EXPERTS, &row.beaten);
    op_knobs_fit(kernel, &row.beaten);
    row.knobs = row.beaten;
    row.knobs.experts.chunk = 16;
    row.beaten.experts.chunk = beaten_chunk;
    row.us = 90, row.default_us = 100, row.ratio = 0.9, row.ratio_lo = 0.89, row.ratio_hi = 0.91, row.runs = 12;
    snprintf(row.kernel, sizeof row.kernel, "%s", kernel->name);
    snprintf(row.code, sizeof row.code, "%s", op_kernel_source(kernel));
    snprintf(row.act, sizeof row.act, "swiglu");
    snprintf(row.routing, sizeof row.routing, "uniform");
    snprintf(row.device, sizeof row.device, "%s", device->cpu);
    snprintf(row.driver, sizeof row.driver, "-");
    snprintf(row.toolchain, sizeof row.toolchain, "gcc");
    snprintf(row.date, sizeof row.date, "2026-11-29T14:46:00Z");
    snprintf(row.run, sizeof row.run, "abc");
    assert_int_equal(native_print(device->cpu, "cpu-x-ref", &row, 1, &text, &len, NULL), CADRE_OK);
    native_file_name(device->cpu, name, sizeof name);
    assert_true(file_join(path, sizeof path, dir, name));
    assert_int_equal(file_write(path, text, len, NULL), CADRE_OK);
    mem_free(text);
    cadre_device_close(device);
}

static void write_table(const char *dir, int beaten_chunk) {
    write_row(dir, "experts_f32_ref", (int[]){64, 32, 8, 2}, beaten_chunk);
}

/* A native table under any name: a copy, a backup. */
static void any_name(void **state) {
    (void)state;
    char dir[300], line[900];
    snprintf(dir, sizeof dir, "%s", in("any"));
    shell("mkdir '%s'", dir);
    write_table(dir, 4);
    shell("mv '%s'/*.table '%s/old.bak' && cp '%s/old.bak' '%s/new.bak'", dir, dir, dir, dir);
    snprintf(line, sizeof line, "'%s/old.bak' '%s/new.bak'", dir, dir);
    ran r = command("table show '%s/old.bak'", dir);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "chunk=16"));
    command_free(&r);
    r = command("table diff %s", line);
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = command("table merge %s", line);
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp(r.out, "cadre table 1\n", 14), 0);
    command_free(&r);
    r = command("table lint '%s/old.bak'", dir);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "dead-file"));
    command_free(&r);
}

#define EXPLAIN "plan explain --shape E=8,d=64,f=32,k=2,dtype=f32 --m 1,5 --threads 1 --set isa=ref --json"

/* Runs EXPLAIN with the command under `prefix`, from /. */
static void explains(const char *prefix, const char *before, const char *source, const char *err_text) {
    char line[1200];
    size_t n;
    snprintf(line, sizeof line, "cd / && %s '%s/bin/cadre' " EXPLAIN " >'%s' 2>'%s'", before, prefix, in("out"),
             in("err"));
    assert_int_equal(system(line), 0);
    char *out = command_read("out", &n), *err = command_read("err", &n);
    json_doc *doc;
    assert_int_equal(json_parse("out", out, strlen(out), &doc, NULL), CADRE_OK);
    const json *row = json_get(json_root(doc), "rows")->child;
    if (!json_is(json_get(row, "source"), source)) fail_msg("%s, expected source %s", out, source);
    if (strcmp(source, "policy")) {
        assert_non_null(strstr(json_get(row, "file")->text, ".table"));
        assert_int_equal(json_get(row, "line")->integer, 5);
        assert_int_equal(json_get(json_get(row, "config"), "chunk")->integer, 16);
        assert_non_null(strstr(json_get(row, "shadows")->text, "chunk=4"));
    }
    assert_true(json_is(json_get(row->next, "source"), "policy"));
    if (err_text && !strstr(err, err_text)) fail_msg("stderr '%s', expected '%s'", err, err_text);
    json_free(doc);
    mem_free(out);
    mem_free(err);
}

/* T12: after an install, away from the source tree and from /, the table that ships still runs; the start-up line says
 * where it is. A user's own goes before it, and one that is malformed stops nothing. */
static void installed(void **state) {
    (void)state;
    char prefix[300], shipped[400], user[400], env[500];
    const char *build_folder = getenv("CADRE_BUILD");
    snprintf(prefix, sizeof prefix, "%s/prefix", scratch);
    snprintf(shipped, sizeof shipped, "%s/share/cadre/tables", prefix);
    snprintf(user, sizeof user, "%s/home/cadre/tables", scratch);
    snprintf(env, sizeof env, "XDG_CONFIG_HOME='%s/home'", scratch);
    shell("env -u MAKEFLAGS -u MAKELEVEL make -s install PREFIX='%s' BUILD='%s' -o build >/dev/null", prefix,
          build_folder ? build_folder : "build");
    explains(prefix, env, "policy", NULL);
    assert_true(file_is_dir(shipped));
    write_table(shipped, 4);
    explains(prefix, env, "shipped", "tables: 1 file, 1 row in ");
    shell("mkdir -p '%s'", user);
    write_table(user, 4);
    explains(prefix, env, "user", "/home/cadre/tables");
    write_table(user, 2); /* measured against another default: the shipped row runs */
    explains(prefix, env, "shipped", ":5: the default has changed since the row beat it; another row runs");
    shell("for f in '%s'/*.table; do printf 'junk\\n' >\"$f\"; done", user);
    explains(prefix, env, "shipped", ".table:1: expected 'cadre table 1'");
    snprintf(env, sizeof env, "CADRE_SET=tables=off");
    explains(prefix, env, "policy", NULL);
    puts("field T12 ok");
}

/* Law L1 with a row of a table: it runs, its receipt says so, and the tokens are the same. */
static void same_bits(void **state) {
    (void)state;
    char with[500], sha[65];
    shell("mkdir -p '%s/own'", scratch);
    write_row(in("own"), "experts_bf16_ref", (int[]){256, 64, 18, 4}, 4);
    snprintf(with, sizeof with, "CADRE_SET=tables_dir='%s'", in("own"));
    for (int i = 0; i < 2; i++) {
        ran r = command_after(i ? with : "CADRE_SET=tables=off", "run -n 8 --threads 1 --set isa=ref --json");
        json_doc *doc = command_json(&r);
        const json *root = json_get(json_root(doc), "sha256"), *receipt = json_get(json_root(doc), "receipts")->child;
        if (i) assert_string_equal(root->text, sha);
        snprintf(sha, sizeof sha, "%s", root->text);
        while (receipt && !json_is(json_get(receipt, "source"), "user")) receipt = receipt->next;
        assert_true(!receipt == !i);
        if (receipt) {
            assert_true(json_get(receipt, "runs")->integer >= 7);
            assert_int_equal(json_get(receipt, "line")->integer, 5);
            assert_non_null(strstr(json_get(receipt, "shadows")->text, "chunk=4"));
        }
        json_free(doc);
        command_free(&r);
    }
}

/* The text of --stats names the row of a table, and a table that could not be read. */
static void stats(void **state) {
    (void)state;
    char set[500];
    shell("mkdir -p '%s/two' '%s/bad' && printf 'cadre table 1\\ndevice' >'%s/bad/Bad.table'", scratch, scratch,
          scratch);
    write_row(in("two"), "experts_bf16_ref", (int[]){256, 64, 18, 4}, 4);
    for (int i = 0; i < 2; i++) {
        snprintf(set, sizeof set, "CADRE_SET=tables_dir='%s'", in(i ? "bad" : "two"));
        ran r = command_after(set, "run -n 2 --threads 1 --set isa=ref --stats");
        assert_int_equal(r.status, 0);
        const char *want = i ? "/bad/Bad.table:2: a table could not be read: the policy runs" : ".table:5: ";
        const char *found = strstr(r.out, want) ? r.out : r.err;
        const char *after = strstr(found, "receipts\n");
        if (!after || !(after = strstr(after, want))) fail_msg("no '%s' in '%s' or '%s'", want, r.out, r.err);
        assert_null(strstr(after + 1, want)); /* told once */
        command_free(&r);
    }
}

static int make_scratch(void **state) {
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}
static int remove_scratch(void **state) {
    (void)state;
    char line[200];
    snprintf(line, sizeof line, "rm -rf '%s'", scratch);
    return system(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build),     cmocka_unit_test(build_two), cmocka_unit_test(merge),
        cmocka_unit_test(show),      cmocka_unit_test(convert),   cmocka_unit_test(text_in_json),
        cmocka_unit_test(refused),   cmocka_unit_test(any_name),  cmocka_unit_test(installed),
        cmocka_unit_test(same_bits), cmocka_unit_test(stats),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
