/* Native tables: text and rows both ways, every fault with its line, judging, and the order of lines and files. */
#include "plan/table.h"
#include "plan/plan.h"
#include "table_rows.h"
#include "test.h"

#include <limits.h>

/* ---- text ---- */

static void both_ways(void **state) {
    (void)state;
    native_row rows[] = {rows_make(9, 16), rows_make(1, 8), rows_make(100, 100)};
    rows[2].dtype = CADRE_Q4;
    snprintf(rows[2].kernel, sizeof rows[2].kernel, "experts_q4_ref");
    char *text, *again;
    size_t len, len2;
    native_table *t;
    must(native_print(ROWS_DEVICE, "cpu-test-ref", rows, 3, &text, &len, fail_out));
    must(native_parse(ROWS_FILE, text, len, NULL, NULL, &t, fail_out));
    assert_string_equal(t->device, ROWS_DEVICE);
    assert_string_equal(t->klass, "cpu-test-ref");
    assert_int_equal(t->count, 3);
    assert_int_equal(t->rows[0].n_lo, 1);
    assert_int_equal(t->rows[0].line, 5);
    assert_int_equal(t->rows[1].n_hi, 16);
    assert_int_equal(t->rows[1].knobs.experts.chunk, 16);
    assert_int_equal(t->rows[1].beaten.experts.chunk, 4);
    assert_true(t->rows[1].us == 95.5 && t->rows[1].ratio == 0.955 && t->rows[1].runs == 12);
    assert_string_equal(t->rows[1].toolchain, "gcc 12.2.0");
    assert_non_null(strstr(t->rows[1].why, "0.955 of the default's time [0.94, 0.97], 12 runs, 2026-11-29"));
    must(native_print(t->device, t->klass, t->rows, t->count, &again, &len2, fail_out));
    assert_int_equal(len, len2);
    assert_memory_equal(text, again, len);
    mem_free(text);
    mem_free(again);
    native_free(t);
}

/* The same rows in any order of lines give the same table, and print to the same bytes. */
static void any_order(void **state) {
    (void)state;
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    native_row all[] = {rows_make(1, 8), rows_make(9, 16), rows_make(17, 64)};
    char *first = NULL, *text;
    size_t first_len = 0, len;
    for (int i = 0; i < 3; i++) {
        native_row rows[3];
        native_table *t;
        for (int j = 0; j < 3; j++) rows[j] = all[orders[i][j]];
        char *lines = rows_text(rows, 3, &len); /* as given, not sorted */
        must(native_parse(ROWS_FILE, lines, len, NULL, NULL, &t, fail_out));
        mem_free(lines);
        must(native_print(t->device, t->klass, t->rows, 3, &text, &len, fail_out));
        native_free(t);
        if (!first) {
            first = text, first_len = len;
            continue;
        }
        assert_int_equal(len, first_len);
        assert_memory_equal(text, first, len);
        mem_free(text);
    }
    mem_free(first);
}

typedef struct heard {
    int count, line;
    char rule[32], text[300];
} heard;

static void hear(void *ctx, int line, const char *rule, const native_row *row, const char *text) {
    heard *h = ctx;
    (void)row;
    if (h->count++) return;
    h->line = line;
    snprintf(h->rule, sizeof h->rule, "%s", rule);
    snprintf(h->text, sizeof h->text, "%s", text);
}

/* Both readers meet the same first fault; the one with a listener still gives the good rows. */
static void expect_fault(const char *text, size_t len, const char *rule, int line, const char *says, int kept) {
    native_table *t = NULL;
    cadre_fail why = {0};
    heard h = {0};
    char place[100];
    if (native_parse(ROWS_FILE, text, len, NULL, NULL, &t, &why) != CADRE_FORMAT) fail_msg("accepted: %s", says);
    snprintf(place, sizeof place, line ? "%s:%d: " : "%s: ", ROWS_FILE, line);
    if (strncmp(why.text, place, strlen(place)) || !strstr(why.text, says))
        fail_msg("'%s', expected %s...%s", why.text, place, says);
    must(native_parse(ROWS_FILE, text, len, hear, &h, &t, fail_out));
    assert_string_equal(h.rule, rule);
    assert_int_equal(h.line, line);
    assert_non_null(strstr(h.text, says));
    assert_int_equal(t->count, kept);
    native_free(t);
}

/* `from` in the text of two rows becomes `to`, with a hash that fits. */
static void broken(const char *from, const char *to, const char *rule, int line, const char *says, int kept) {
    native_row rows[] = {rows_make(1, 8), rows_make(9, 16)};
    size_t len;
    char *text = rows_text(rows, 2, &len), *edited = rows_replace(text, from, to, &len);
    expect_fault(edited, len, rule, line, says, kept);
    mem_free(text);
    mem_free(edited);
}

static void faults(void **state) {
    (void)state;
    broken("cadre table 1", "cadre table 2", "bad-row", 1, "no table of this version", 0);
    broken("device \"", "devise \"", "bad-row", 2, "expected device", 2);
    broken("class ", "klass ", "bad-row", 3, "expected class", 2);
    broken("outside policy", "outside nearest", "bad-row", 4, "outside policy", 2);
    broken("row op", "now op", "bad-row", 5, "expected a row", 1);
    broken(" dtype=", " dtipe=", "missing-field", 5, "dtype is missing", 1);
    broken("dtype=f32", "dtype=f33", "bad-key", 5, "dtype", 1);
    broken("op=experts", "op=expert", "bad-key", 5, "op", 1);
    broken(" at=1 ", " at=1 colour=red ", "unknown-field", 5, "colour", 1);
    broken(" at=1 ", " at=1 at=1 ", "bad-row", 5, "twice", 1);
    broken(" at=1 ", "  at=1 ", "bad-row", 5, "one blank", 1);
    broken(" at=1 ", " at=01 ", "bad-row", 5, "at", 1);
    broken(" at=1 ", " at=9 ", "bad-row", 5, "at is outside n", 1);
    broken("n=1..8", "n=0..8", "bad-key", 5, "field n", 1);
    broken("n=1..8", "n=8..1", "bad-key", 5, "field n", 1);
    broken("n=1..8", "n=1-8", "bad-key", 5, "field n", 1);
    broken("n=1..8", "n=1..99999999999999999999", "bad-key", 5, "field n", 1);
    broken(" chunk=16", " chunk=12", "bad-row", 5, "chunk is out of its range", 1);
    broken(" chunk=16", " chunk=128", "bad-row", 5, "chunk is out of its range", 1);
    broken(" default.chunk=4", "", "missing-field", 5, "default.chunk is missing", 1);
    broken(" k=2", " k=9", "bad-key", 5, "k at most e", 1);
    broken("act=swiglu gated=1", "act=swiglu gated=0", "bad-key", 5, "gated", 1);
    broken("ratio=0.9550", "ratio=0.9900", "bad-row", 5, "ratio_lo..ratio_hi", 1);
    broken("ratio=0.9550", "ratio=0.955", "bad-row", 5, "ratio", 1);
    broken("ratio=0.9550", "ratio=nan", "bad-row", 5, "ratio", 1);
    broken("toolchain=\"gcc ", "toolchain=\"gcc\"", "bad-row", 5, "blank after a value", 1);
    broken("n=9..16", "n=8..16", "overlapping-rows", 6, "meets n=1..8 of line 5", 1);
    broken("device \"" ROWS_DEVICE, "device \"Another", "dead-file", 0, "Another.table", 2);
}

/* A byte changed, a line cut, a line added, other line ends: none is a generated table any more. */
static void hand_edits(void **state) {
    (void)state;
    native_row row = rows_make(1, 8);
    size_t len, n;
    char *text = rows_text(&row, 1, &len), *copy = mem_copy_text(text, len);
    char *chunk = strstr(copy, " chunk=16");
    memcpy(chunk, " chunk=32", 9);
    expect_fault(copy, len, "hand-edited", 6, "edited by hand", 1);
    n = (size_t)(strstr(text, "sha256") - text);
    expect_fault(text, n, "hand-edited", 5, "is missing: cut", 1);
    n = (size_t)(strstr(text, "row op") - text); /* the head alone */
    expect_fault(text, n, "hand-edited", 4, "is missing: cut", 0);
    expect_fault(text, len - 1, "hand-edited", 6, "after the hash", 1);
    mem_free(copy);
    copy = mem_new(len + 2);
    memcpy(copy, text, len);
    memcpy(copy + len, "\n", 2);
    expect_fault(copy, len + 1, "hand-edited", 6, "after the hash", 1);
    mem_free(copy);
    mem_free(text);
}

/* T11: a row whose figures are 0 looks measured and was not. */
static void zero_evidence(void **state) {
    (void)state;
    broken(" us=95.500", " us=0.000", "zero-evidence", 5, "not measured", 1);
    broken(" default_us=100.000", " default_us=0.000", "zero-evidence", 5, "not measured", 1);
    broken(" runs=12", " runs=0", "zero-evidence", 5, "not measured", 1);
    broken(" run=abc", "", "missing-field", 5, "run is missing", 1);
    puts("field T11 ok");
}

static void writer_refuses_overlaps(void **state) {
    (void)state;
    native_row rows[] = {rows_make(4, 8), rows_make(1, 4)};
    char *text = NULL;
    size_t len;
    cadre_fail why = {0};
    assert_int_equal(native_print(ROWS_DEVICE, "x", rows, 2, &text, &len, &why), CADRE_FORMAT);
    assert_non_null(strstr(why.text, "two rows meet"));
    assert_null(text);
}

static void names(void **state) {
    (void)state;
    char name[128], small[8];
    native_file_name("AMD EPYC 9575F 64-Core", name, sizeof name);
    assert_string_equal(name, "AMD_EPYC_9575F_64-Core.table");
    native_file_name("../x/y", name, sizeof name);
    assert_string_equal(name, ".._x_y.table");
    native_file_name("a long name", small, sizeof small);
    assert_int_equal(strlen(small), 7);
}

/* ---- worth ---- */

static void verdicts(void **state) {
    (void)state;
    native_row row = rows_make(1, 8), other;
    op_knobs now;
    const char *text;
    assert_int_equal(native_judge(&row, 1, &now, &text), NATIVE_GOOD);
    assert_memory_equal(&now, &row.beaten, sizeof now);
    other = row, other.code[0] ^= 1;
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_OTHER_CODE);
    other = row, other.beaten.experts.columns *= 2;
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_STALE);
    other = row, other.knobs = row.beaten;
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_SAME);
    other = row, other.ratio_hi = 1;
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_NO_GAIN);
    other = row, snprintf(other.kernel, sizeof other.kernel, "experts_f32_none");
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_NO_KERNEL);
    other = row, other.dtype = CADRE_BF16;
    assert_int_equal(native_judge(&other, 1, NULL, &text), NATIVE_NO_KERNEL);
    assert_non_null(text);
}

/* Every kernel's source has a hash, and kernels of other families or sets have others. */
static void sources(void **state) {
    (void)state;
    for (int i = 0; op_kernels[i]; i++) {
        const char *code = op_kernel_source(op_kernels[i]);
        assert_int_equal(strlen(code), 12);
        assert_ptr_equal(op_kernel_named(op_kernels[i]->name), op_kernels[i]);
        for (int j = 0; j < i; j++) {
            bool same = op_kernels[i]->family == op_kernels[j]->family && op_kernels[i]->isa == op_kernels[j]->isa;
            assert_int_equal(same, !strcmp(code, op_kernel_source(op_kernels[j])));
        }
    }
    assert_null(op_kernel_named("nothing"));
}

static void out_of_memory(void **state) {
    (void)state;
    native_row rows[] = {rows_make(1, 8), rows_make(9, 16)};
    size_t len, len2;
    char *text = rows_text(rows, 2, &len), *again;
    native_table *t = NULL;
    int failures = 0;
    for (int n = 0; n < 20; n++) {
        mem_fail_after(n);
        cadre_err err = native_parse(ROWS_FILE, text, len, NULL, NULL, &t, NULL);
        mem_fail_after(-1);
        if (!err) {
            native_free(t);
            break;
        }
        assert_int_equal(err, CADRE_NOMEM);
        failures++;
    }
    assert_int_equal(failures, 3);
    mem_fail_after(0);
    assert_int_equal(native_print(ROWS_DEVICE, "x", rows, 2, &again, &len2, NULL), CADRE_NOMEM);
    mem_fail_after(-1);
    mem_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),     cmocka_unit_test(any_order),     cmocka_unit_test(faults),
        cmocka_unit_test(hand_edits),    cmocka_unit_test(zero_evidence), cmocka_unit_test(writer_refuses_overlaps),
        cmocka_unit_test(names),         cmocka_unit_test(verdicts),      cmocka_unit_test(sources),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
