/* expect.c: patterns against the receipts of what ran. */
#include "expect.h"
#include <limits.h>
#include <string.h>

/* The first place in text where the part up to the next '*' stands; NULL: nowhere. */
static const char *find_part(const char *text, const char *part, size_t n) {
    return n ? memmem(text, strlen(text), part, n) : text;
}

bool expect_match(const char *pattern, const char *line) {
    for (;;) {
        size_t n = strcspn(pattern, "*");
        line = find_part(line, pattern, n);
        if (!line) return false;
        line += n, pattern += n;
        if (!*pattern++) return true;
    }
}

void expect_line(const cadre_receipt *r, char *line, size_t size) {
    char range[40];
    if (r->n_hi == INT_MAX)
        snprintf(range, sizeof range, "%d..", r->n_lo);
    else
        snprintf(range, sizeof range, "%d..%d", r->n_lo, r->n_hi);
    snprintf(line, size, "%s kernel=%s source=%s config=%s n=%s runs=%llu shape=%s file=%s:%d why=%s", r->op, r->kernel,
             r->source, r->config, range, (unsigned long long)r->runs, r->shape, r->file ? r->file : "-", r->line,
             r->why);
}

/* The first receipt that ran and matches, as its line; false: none. */
static bool first(const char *pattern, const cadre_receipt *r, int count, char line[1024]) {
    for (int i = 0; i < count; i++) {
        if (!r[i].runs) continue;
        expect_line(&r[i], line, 1024);
        if (expect_match(pattern, line)) return true;
    }
    return false;
}

int expect_receipts(const expect_opts *e, const cadre_receipt *receipts, int count, int status) {
    char line[1024];
    int ran = 0;
    for (int i = 0; i < count; i++) ran += receipts[i].runs > 0;
    for (int i = 0; i < e->must.count; i++) {
        if (first(e->must.items[i], receipts, count, line)) continue;
        say_note("expected a receipt like '%.200s'; none of the %d that ran is", e->must.items[i], ran);
        if (status == EXIT_FINE) status = EXIT_NO;
    }
    for (int i = 0; i < e->must_not.count; i++) {
        if (!first(e->must_not.items[i], receipts, count, line)) continue;
        say_note("refused '%.200s', and this ran: %.600s", e->must_not.items[i], line);
        if (status == EXIT_FINE) status = EXIT_NO;
    }
    return status;
}

int expect_model(const expect_opts *e, const cadre_model *model, int status) {
    if (!e->must.count && !e->must_not.count) return status;
    int count = cadre_model_receipts(model, NULL, 0);
    cadre_receipt *r = mem_new_array((size_t)count + 1, sizeof *r);
    if (!r) return say_failed(&(cadre_fail){CADRE_NOMEM, "out of memory for receipts"});
    cadre_model_receipts(model, r, count);
    status = expect_receipts(e, r, count, status);
    mem_free(r);
    return status;
}
