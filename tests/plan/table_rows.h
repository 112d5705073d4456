/* table_rows.h: rows for tests of tables, of a kernel that every build has. */
#ifndef TESTS_PLAN_TABLE_ROWS_H
#define TESTS_PLAN_TABLE_ROWS_H
#include "plan/plan.h"
#include "plan/table.h"
#include "test.h"

#define ROWS_DEVICE "Test CPU 9000"
#define ROWS_FILE   "some/Test_CPU_9000.table"

/* A good row of experts_f32_ref for n_lo..n_hi: its chunk is 16 where the default has 4. */
static inline native_row rows_make(int n_lo, int n_hi) {
    native_row row;
    memset(&row, 0, sizeof row);
    const op_kernel *kernel = op_kernel_named("experts_f32_ref");
    row.family = OP_EXPERTS, row.dtype = CADRE_F32;
    row.d = 64, row.f = 32, row.e = 8, row.k = 2, row.gated = true, row.threads = 1;
    row.n_lo = n_lo, row.n_hi = n_hi, row.at = n_lo;
    op_knobs_default(OP_EXPERTS, &row.beaten);
    op_knobs_fit(kernel, &row.beaten);
    row.knobs = row.beaten;
    row.knobs.experts.chunk = 16;
    row.us = 95.5, row.default_us = 100, row.ratio = 0.955, row.ratio_lo = 0.94, row.ratio_hi = 0.97, row.runs = 12;
    snprintf(row.kernel, sizeof row.kernel, "%s", kernel->name);
    snprintf(row.code, sizeof row.code, "%s", op_kernel_source(kernel));
    snprintf(row.act, sizeof row.act, "swiglu");
    snprintf(row.routing, sizeof row.routing, "uniform");
    snprintf(row.device, sizeof row.device, "%s", ROWS_DEVICE);
    snprintf(row.driver, sizeof row.driver, "-");
    snprintf(row.toolchain, sizeof row.toolchain, "gcc 12.2.0");
    snprintf(row.date, sizeof row.date, "2026-11-29T14:46:00Z");
    snprintf(row.run, sizeof row.run, "abc");
    return row;
}

static inline char *rows_hashed(const char *body, size_t *len) {
    char hex[65], *all = mem_new(strlen(body) + 80);
    cadre_sha256(body, strlen(body), hex);
    *len = (size_t)sprintf(all, "%ssha256 %s\n", body, hex);
    return all;
}

/* The text of a table whose lines stand in the order of the rows. */
static inline char *rows_text(const native_row *rows, int count, size_t *len) {
    char body[8192] = "";
    for (int i = 0; i < count; i++) {
        native_row one = rows[i];
        char *text;
        must(native_print(ROWS_DEVICE, "cpu-test-ref", &one, 1, &text, len, fail_out));
        char *row = strstr(text, "row op"), *end = strstr(text, "sha256 ");
        if (!i) snprintf(body, sizeof body, "%.*s", (int)(row - text), text);
        snprintf(body + strlen(body), sizeof body - strlen(body), "%.*s", (int)(end - row), row);
        mem_free(text);
    }
    return rows_hashed(body, len);
}

/* The first `from` becomes `to`, and the hash fits again. */
static inline char *rows_replace(const char *text, const char *from, const char *to, size_t *len) {
    char body[8192];
    const char *at = strstr(text, from), *end = strstr(text, "sha256 ");
    if (!at || at > end) fail_msg("no '%s' in the table", from);
    snprintf(body, sizeof body, "%.*s%s%.*s", (int)(at - text), text, to, (int)(end - at - (long)strlen(from)),
             at + strlen(from));
    return rows_hashed(body, len);
}
#endif
