/* The ladder: which row of which table runs, what it shadows, what is passed over and what is said about it. */
#include "table_rows.h"

#include <limits.h>

static char root[64] = "/tmp/cadre-tables-XXXXXX", user[80], shipped[80];
static cadre_device *device;
static const plan_key key = {OP_EXPERTS, CADRE_F32, 64, 32, 8, 2, "experts", CADRE_SWIGLU};

static char said[16][300];
static int said_count;
static void listen(void *ctx, const char *line) {
    (void)ctx;
    snprintf(said[said_count++ % 16], sizeof said[0], "%s", line);
}
static bool heard(const char *text) {
    for (int i = 0; i < said_count && i < 16; i++)
        if (strstr(said[i], text)) return true;
    return false;
}

/* ---- files ---- */

static const char *path_of(const char *dir, const char *name) {
    static char path[4][200];
    static int turn;
    char *p = path[turn++ % 4];
    assert_true(file_join(p, sizeof path[0], dir, name));
    return p;
}

static void write_text(const char *dir, const char *name, const char *text, size_t len) {
    must(file_write(path_of(dir, name), text, len, fail_out));
    plan_tables_forget();
}

static void write_rows(const char *dir, const char *of, const char *klass, native_row *rows, int count) {
    char *text, name[128];
    size_t len;
    must(native_print(of, klass, rows, count, &text, &len, fail_out));
    native_file_name(of, name, sizeof name);
    write_text(dir, name, text, len);
    mem_free(text);
}

static void clear(const char *dir) {
    const char **names;
    int count;
    must(file_list(dir, NATIVE_SUFFIX, &names, &count, fail_out));
    for (int i = 0; i < count; i++) must(file_remove(path_of(dir, names[i]), fail_out));
    mem_free(names);
}

static int fresh(void **state) {
    (void)state;
    clear(user);
    clear(shipped);
    plan_tables_forget();
    said_count = 0;
    return 0;
}

static plan made(void) {
    plan p;
    must(plan_make(device, &key, &p, fail_out));
    for (int i = 0; i < p.count; i++) {
        assert_true(p.kernel->ok(&p.rows[i].knobs));
        assert_int_equal(p.rows[i].n_lo, i ? p.rows[i - 1].n_hi + 1 : 1);
    }
    assert_int_equal(p.rows[p.count - 1].n_hi, INT_MAX);
    return p;
}

static void expect(const plan *p, int n, const char *source, int chunk) {
    const plan_row *row = plan_row_for(p, n);
    if (strcmp(row->source, source) || row->knobs.experts.chunk != chunk)
        fail_msg("n=%d: %s chunk=%d, expected %s chunk=%d", n, row->source, row->knobs.experts.chunk, source, chunk);
}

static native_row with_chunk(int lo, int hi, int chunk) {
    native_row row = rows_make(lo, hi);
    row.knobs.experts.chunk = chunk;
    return row;
}

/* ---- reach ---- */

/* T02: rows for small n say nothing about others, however near. */
static void ranges_are_the_reach(void **state) {
    (void)state;
    native_row rows[] = {with_chunk(2, 4, 16), with_chunk(8, 8, 32)};
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", rows, 2);
    plan p = made();
    for (int n = 2; n <= 4; n++) expect(&p, n, "user", 16);
    expect(&p, 8, "user", 32);
    static const int outside[] = {1, 5, 7, 9, 12, 16, 17, 2048, INT_MAX};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) expect(&p, outside[i], "policy", 4);
    assert_int_equal(p.count, 5);
    assert_true(heard("tables: 1 file, 2 rows in "));
    puts("field T02 ok");
}

/* The receipt of a row: file, line, hash, what it shadows, why it is there, how often it ran. */
static void receipts(void **state) {
    (void)state;
    native_row row = with_chunk(1, 4, 16);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
    plan p = made();
    plan_use(&p, 3);
    cadre_receipt r[PLAN_ROWS_MAX];
    assert_int_equal(plan_receipts(&p, r, PLAN_ROWS_MAX), 2);
    assert_string_equal(r[0].source, "user");
    assert_string_equal(r[0].file, path_of(user, "Test_CPU_9000.table"));
    assert_int_equal(r[0].line, 5);
    assert_string_equal(r[0].config, "rows=4 panels=2 chunk=16 columns=2");
    assert_string_equal(r[0].shadows, "rows=4 panels=2 chunk=4 columns=2");
    assert_non_null(strstr(r[0].why, "0.955 of the default's time"));
    assert_int_equal(r[0].runs, 1);
    assert_int_equal(strlen(p.rows[0].sha256), 64);
    assert_string_equal(r[1].source, "policy");
    assert_null(r[1].file);
    assert_string_equal(r[1].shadows, "");
}

/* T03: one answer for every order of the lines, no ties: ranges of one key that meet are refused. */
static void order_of_lines(void **state) {
    (void)state;
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    native_row all[] = {with_chunk(1, 4, 8), with_chunk(5, 7, 16), with_chunk(8, 9, 32)};
    for (int i = 0; i < 3; i++) {
        native_row rows[3];
        size_t len;
        for (int j = 0; j < 3; j++) rows[j] = all[orders[i][j]];
        char *text = rows_text(rows, 3, &len);
        write_text(user, "Test_CPU_9000.table", text, len);
        mem_free(text);
        plan p = made();
        expect(&p, 3, "user", 8);
        expect(&p, 5, "user", 16);
        expect(&p, 7, "user", 16);
        expect(&p, 8, "user", 32);
        expect(&p, 10, "policy", 4);
    }
    all[1].n_lo = 4;
    size_t len;
    char *text = rows_text(all, 3, &len);
    write_text(user, "Test_CPU_9000.table", text, len);
    mem_free(text);
    plan p = made();
    expect(&p, 4, "policy", 4);
    assert_true(heard("Test_CPU_9000.table:6: n=4..7 meets n=1..4 of line 5"));
    puts("field T03 ok");
}

static void key_must_match(void **state) {
    (void)state;
    static const size_t members[] = {offsetof(native_row, d), offsetof(native_row, f), offsetof(native_row, e),
                                     offsetof(native_row, threads)};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        native_row row = with_chunk(1, 4, 16);
        *(int *)((char *)&row + members[i]) *= 2;
        write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
        plan p = made();
        expect(&p, 1, "policy", 4);
        assert_null(p.rows[0].file);
    }
    native_row row = with_chunk(1, 4, 16);
    snprintf(row.act, sizeof row.act, "swiglu-clamp");
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
    plan p = made();
    expect(&p, 1, "policy", 4);
}

/* ---- order of the ladder ---- */

static void ladder(void **state) {
    (void)state;
    native_row a = with_chunk(1, 4, 8), b = with_chunk(1, 8, 16), c = with_chunk(1, 16, 32);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &a, 1);
    write_rows(shipped, ROWS_DEVICE, "cpu-test-ref", &b, 1);
    write_rows(shipped, "Test CPU 8000", "cpu-test-ref", &c, 1);
    plan p = made();
    expect(&p, 4, "user", 8);
    expect(&p, 5, "shipped", 16);
    expect(&p, 9, "class", 32);
    expect(&p, 17, "policy", 4);
    assert_int_equal(plan_row_for(&p, 5)->distance, 0);
    assert_int_equal(plan_row_for(&p, 9)->distance, 1);
    plan_tables look;
    must(plan_tables_look(&look, fail_out));
    assert_int_equal(look.user_files, 1);
    assert_int_equal(look.shipped_files, 2);
    assert_int_equal(look.rows, 3);
    assert_int_equal(look.faults, 0);
    assert_string_equal(look.user, user);

    set_switch("experts.chunk=64");
    p = made();
    expect(&p, 4, "override", 64);
    assert_int_equal(plan_row_for(&p, 4)->shadows.experts.chunk, 8); /* the row, not the policy */
    set_switch("experts.chunk=0");
    set_switch("tables=off");
    p = made();
    expect(&p, 4, "policy", 4);
    set_switch("tables=on");
    write_rows(shipped, "Test CPU 8000", "cpu-other-ref", &c, 1);
    p = made();
    expect(&p, 9, "policy", 4);
}

/* Two devices of the class: the later date, whatever the names; then the run id. */
static void ties(void **state) {
    (void)state;
    static const char *const names[] = {"Test A", "Test B"};
    for (int i = 0; i < 2; i++)
        for (int by_run = 0; by_run < 2; by_run++) {
            native_row older = with_chunk(1, 4, 8), newer = with_chunk(1, 4, 32);
            if (by_run)
                snprintf(newer.run, sizeof newer.run, "abd");
            else
                snprintf(newer.date, sizeof newer.date, "2026-11-30T01:00:00Z");
            clear(shipped);
            write_rows(shipped, names[i], "cpu-test-ref", &older, 1);
            write_rows(shipped, names[1 - i], "cpu-test-ref", &newer, 1);
            plan p = made();
            expect(&p, 1, "class", 32);
        }
}

/* ---- arbitration ---- */

static void passed_over(native_row row, const char *says, int forced_chunk) {
    char line[200];
    fresh(NULL);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
    plan p = made();
    expect(&p, 1, "policy", 4);
    assert_string_equal(p.rows[0].file, path_of(user, "Test_CPU_9000.table"));
    assert_int_equal(p.rows[0].line, 5);
    assert_non_null(strstr(p.rows[0].rule, says));
    snprintf(line, sizeof line, "Test_CPU_9000.table:5: %s; the policy runs", p.rows[0].rule);
    assert_true(heard(line));
    set_switch("tables=force");
    plan q = made();
    expect(&q, 1, forced_chunk == 4 ? "policy" : "user", forced_chunk);
    set_switch("tables=on");
}

/* T01: a row from before the default changed loses to the new default, and the receipt and one line say so. */
static void newer_default_wins(void **state) {
    (void)state;
    native_row row = with_chunk(1, 4, 16);
    row.beaten.experts.chunk = 2; /* the default it beat; today's is 4 */
    passed_over(row, "the default has changed", 16);
    assert_true(heard("the default has changed since the row beat it; the policy runs"));
    row = with_chunk(1, 4, 16);
    row.code[0] ^= 1;
    passed_over(row, "the kernel has changed", 16);
    row = with_chunk(1, 4, 16);
    row.ratio_hi = 1.01;
    passed_over(row, "was not shown to beat", 16);
    row = with_chunk(1, 4, 16);
    snprintf(row.kernel, sizeof row.kernel, "experts_f32_gone");
    fresh(NULL);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
    plan p = made();
    expect(&p, 1, "policy", 4);
    assert_true(heard("Test_CPU_9000.table:5: this build has no kernel experts_f32_gone; the row never runs"));
    puts("field T01 ok");
}

/* A passed-over row of the user does not hide a good one that ships. */
static void next_in_line(void **state) {
    (void)state;
    native_row stale = with_chunk(1, 4, 16), good = with_chunk(1, 4, 32);
    stale.code[0] ^= 1;
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &stale, 1);
    write_rows(shipped, ROWS_DEVICE, "cpu-test-ref", &good, 1);
    plan p = made();
    expect(&p, 1, "shipped", 32);
}

/* ---- faults ---- */

static void malformed_never_stops(void **state) {
    (void)state;
    native_row good = with_chunk(1, 4, 16);
    write_rows(shipped, ROWS_DEVICE, "cpu-test-ref", &good, 1);
    static const char *const texts[] = {"", "junk", "cadre table 1\n", "{\"16\": {}}\n", "cadre table 1\ndevice \"x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        said_count = 0;
        write_text(user, "Test_CPU_9000.table", texts[i], strlen(texts[i]));
        plan p = made();
        expect(&p, 1, "shipped", 16);
        const plan_row *rest = plan_row_for(&p, 5);
        assert_string_equal(rest->source, "policy");
        assert_string_equal(rest->file, path_of(user, "Test_CPU_9000.table"));
        assert_non_null(strstr(rest->rule, "could not be read"));
        assert_true(rest->line >= 1);
    }
    assert_true(heard("Test_CPU_9000.table:") && heard("no table is read from it"));
}

/* A folder that the user named is missed; the default one need not be there. */
static void missing_folder(void **state) {
    (void)state;
    char line[160];
    snprintf(line, sizeof line, "tables_dir=%s/none", root);
    set_switch(line);
    plan p = made();
    expect(&p, 1, "policy", 4);
    assert_non_null(p.rows[0].file);
    assert_true(heard("/none: cannot open the folder"));
    snprintf(line, sizeof line, "tables_dir=%s", user);
    set_switch(line);
}

static void too_many_ranges(void **state) {
    (void)state;
    native_row rows[20];
    for (int i = 0; i < 20; i++) rows[i] = with_chunk(2 * i + 1, 2 * i + 1, 16);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", rows, 20);
    plan p = made();
    assert_int_equal(p.count, PLAN_ROWS_MAX);
    expect(&p, 1, "user", 16);
    expect(&p, 2, "policy", 4);
    expect(&p, 39, "policy", 4);
    assert_true(heard("the tables have more"));
}

static void out_of_memory(void **state) {
    (void)state;
    native_row row = with_chunk(1, 4, 16);
    write_rows(user, ROWS_DEVICE, "cpu-test-ref", &row, 1);
    int failures = 0;
    for (int n = 0; n < 40; n++) {
        plan p;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = plan_make(device, &key, &p, &why);
        mem_fail_after(-1);
        if (!err) break;
        assert_int_equal(err, CADRE_NOMEM);
        failures++;
    }
    assert_true(failures >= 6 && failures < 40);
    plan p = made();
    expect(&p, 1, "user", 16);
    uint64_t before = mem_count();
    p = made(); /* read once */
    assert_int_equal(mem_count(), before);
}

/* ---- set-up ---- */

static int setup(void **state) {
    (void)state;
    char line[160];
    assert_non_null(mkdtemp(root));
    must(file_temp_dir(root, "user", user, sizeof user, fail_out));
    must(file_temp_dir(root, "shipped", shipped, sizeof shipped, fail_out));
    snprintf(line, sizeof line, "tables_dir=%s", user);
    set_switch(line);
    snprintf(line, sizeof line, "tables_shipped=%s", shipped);
    set_switch(line);
    set_switch("isa=ref");
    device = open_device(1);
    snprintf(device->cpu, sizeof device->cpu, "%s", ROWS_DEVICE);
    cadre_listen(listen, NULL);
    return 0;
}

static int teardown(void **state) {
    fresh(state);
    cadre_device_close(device);
    must(file_remove(user, fail_out));
    must(file_remove(shipped, fail_out));
    must(file_remove(root, fail_out));
    return 0;
}

int main(void) {
#define T(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        T(ranges_are_the_reach), T(receipts),        T(order_of_lines),
        T(key_must_match),       T(ladder),          T(ties),
        T(newer_default_wins),   T(next_in_line),    T(malformed_never_stops),
        T(missing_folder),       T(too_many_ranges), T(out_of_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
