/* claims_edits: consistent reports of three styles give no alarm; of figures that others determine (listed by hand in
 * NAME.determined: line:column: figure), edits beyond their rounding are found. */
#include "lab/lab.h"
#include "test.h"
#include <math.h>

enum { REPORTS = 3, FIGURES_MOST = 128, EDITS = 200, FIGURE_MOST = 32 };

typedef struct figure {
    size_t at, len;
    int line;
} figure;
typedef struct report {
    const char *name;
    char *text;
    size_t len;
    figure figures[FIGURES_MOST];
    int count;
} report;

static report reports[REPORTS] = {{.name = "kernel"}, {.name = "serving"}, {.name = "stack"}};

static char *read_text(const char *name, const char *ending, size_t *len) {
    char path[200], *text = NULL;
    snprintf(path, sizeof path, "tests/lab/claims/%s.%s", name, ending);
    must(file_read(path, 1 << 20, &text, len, fail_out));
    return text;
}

static size_t line_start(const report *r, int line) {
    size_t at = 0;
    for (int i = 1; i < line; i++) {
        const char *end = strchr(r->text + at, '\n');
        assert_non_null(end);
        at = (size_t)(end - r->text) + 1;
    }
    return at;
}

/* "12:5: 23.1%": the figure stands there. */
static void read_figures(report *r) {
    size_t len;
    char *text = read_text(r->name, "determined", &len);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n'), *shown;
        int number = (int)strtol(line, &shown, 10);
        int column = (int)strtol(shown + 1, &shown, 10);
        *end = 0;
        shown += 2;
        figure f = {line_start(r, number) + (size_t)column - 1, strlen(shown), number};
        if (strncmp(r->text + f.at, shown, f.len)) fail_msg("%s:%d:%d is not '%s'", r->name, number, column, shown);
        assert_true(r->count < FIGURES_MOST);
        r->figures[r->count++] = f;
        line = end + 1;
    }
    mem_free(text);
}

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < REPORTS; i++) {
        reports[i].text = read_text(reports[i].name, "md", &reports[i].len);
        read_figures(&reports[i]);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < REPORTS; i++) mem_free(reports[i].text);
    return 0;
}

static int count_wrong(const char *text, size_t len) {
    lab_claims *c = NULL;
    int n = 0;
    must(lab_claims_new(text, len, NULL, &c, fail_out));
    for (int i = 0; i < lab_claims_count(c); i++) n += !lab_claims_at(c, i)->ok;
    lab_claims_free(c);
    return n;
}

static void unedited(void **state) {
    (void)state;
    for (int i = 0; i < REPORTS; i++) {
        lab_claims *c = NULL;
        must(lab_claims_new(reports[i].text, reports[i].len, NULL, &c, fail_out));
        for (int k = 0; k < lab_claims_count(c); k++) {
            const lab_claim *x = lab_claims_at(c, k);
            if (!x->ok) fail_msg("%s:%d: [%s] %g: %s", reports[i].name, x->line, x->rule, x->stated, x->why);
        }
        assert_true(lab_claims_count(c) >= 25);
        lab_claims_free(c);
    }
}

/* ---- edits ---- */

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static int pick_digit(rand_stream *r, const char *text) {
    int at[FIGURE_MOST], n = 0;
    for (int i = 0; text[i]; i++)
        if (digit(text[i])) at[n++] = i;
    return at[rand_below(r, (uint32_t)n)];
}

static void change_digit(rand_stream *r, char *text) {
    int i = pick_digit(r, text);
    text[i] = (char)('0' + (text[i] - '0' + 1 + (int)rand_below(r, 9)) % 10);
}

/* Two digits that follow each other, but for a point or comma. */
static void swap_digits(rand_stream *r, char *text) {
    int i = pick_digit(r, text), k = i + 1;
    while (text[k] && !digit(text[k])) k++;
    if (!text[k]) return;
    char c = text[i];
    text[i] = text[k], text[k] = c;
}

static void flip_sign(char text[2 * FIGURE_MOST]) {
    static const char minus[] = "\xE2\x88\x92";
    char copy[FIGURE_MOST];
    snprintf(copy, sizeof copy, "%.*s", FIGURE_MOST - 1, text);
    if (!strncmp(copy, minus, 3))
        snprintf(text, 2 * FIGURE_MOST, "+%s", copy + 3);
    else if (*copy == '-' || *copy == '+')
        text[0] = *copy == '-' ? '+' : '-';
    else
        snprintf(text, 2 * FIGURE_MOST, "-%s", copy);
}

static double value_of(const char *text) {
    char plain[FIGURE_MOST] = "";
    size_t n = 0;
    bool minus = *text == '-' || !strncmp(text, "\xE2\x88\x92", 3);
    for (; *text; text++)
        if (digit(*text) || *text == '.') plain[n++] = *text;
    return (minus ? -1 : 1) * atof(plain);
}

/* Another figure than before: one digit, two digits swapped, or the sign. */
static void edit(rand_stream *r, char *text) {
    char before[FIGURE_MOST];
    snprintf(before, sizeof before, "%s", text);
    do {
        snprintf(text, FIGURE_MOST, "%s", before);
        uint32_t kind = rand_below(r, 5);
        if (kind == 4)
            flip_sign(text);
        else if (kind == 3)
            swap_digits(r, text);
        else
            change_digit(r, text);
    } while (value_of(text) == value_of(before));
}

static void edits(void **state) {
    (void)state;
    rand_stream r = {2026, 0};
    int found = 0;
    for (int i = 0; i < EDITS; i++) {
        const report *x = &reports[i % REPORTS];
        const figure *f = &x->figures[rand_below(&r, (uint32_t)x->count)];
        char figure_text[2 * FIGURE_MOST] = "", *text = mem_new(x->len + FIGURE_MOST);
        assert_non_null(text);
        memcpy(figure_text, x->text + f->at, f->len);
        edit(&r, figure_text);
        int len = snprintf(text, x->len + FIGURE_MOST, "%.*s%s%s", (int)f->at, x->text, figure_text,
                           x->text + f->at + f->len);
        bool seen = count_wrong(text, (size_t)len) > 0;
        found += seen;
        if (!seen)
            print_message("%s:%d: '%.*s' became '%s', and was not found\n", x->name, f->line, (int)f->len,
                          x->text + f->at, figure_text);
        mem_free(text);
    }
    print_message("%d of %d edits found\n", found, EDITS);
    assert_true(found * 100 >= 95 * EDITS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(unedited), cmocka_unit_test(edits)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
