/* cuda_compile: every device text compiles without a warning, for every architecture and corner of its knobs, and what
 * each kernel takes (registers, shared memory, spills) is what tests/op/cuda_resources.txt says. Needs NVRTC, no GPU.
 *
 *   cuda_compile             the tests
 *   cuda_compile FILE        writes FILE anew (make cuda-resources)
 */
#include "../dev/nvrtc_find.h"
#include "dev/probe.h"
#include "op/cuda/text.h"
#include "test.h"
#include <ctype.h>

enum { MOST_LINES = 4096, LINE = 600, MOST_HEADERS = 32, MOST_OPTIONS = 64 };
static const char kept_at[] = "tests/op/cuda_resources.txt";
static const char legend[] =
    "# What each kernel takes, as ptxas says; `make cuda-resources` writes this file.\n"
    "# text, arch, options | kernel: registers, static shared memory, stack, spill stores, spill "
    "loads (bytes)\n";

static const nvrtc *rtc;
static char (*lines)[LINE]; /* one kernel each, sorted within a compilation */
static int line_count;

/* ---- compiling one corner ---- */

static cadre_err compile(const op_cuda_corner *c, const char *arch, nvrtc_binary *out, cadre_fail *why) {
    static char words[2000];
    const char *options[MOST_OPTIONS] = {"--ptxas-options=-v"};
    dev_cuda_text headers[MOST_HEADERS];
    int count = 1, n = 0;
    snprintf(words, sizeof words, "%s", c->options);
    for (char *w = strtok(words, " "); w && count < MOST_OPTIONS; w = strtok(NULL, " ")) options[count++] = w;
    for (const op_cuda_text *t = op_cuda_texts; t->name && n < MOST_HEADERS; t++)
        if (op_cuda_text_is_header(t)) headers[n++] = (dev_cuda_text){t->name, t->text};
    const char *text = op_cuda_text_get(c->name);
    dev_cuda_source source = {.main = {c->name, text ? text : dev_probe_cu}, .headers = headers, .header_count = n};
    if (!text && strcmp(c->name, "probe.cu")) return cadre_fail_set(why, CADRE_RANGE, "%s is no text", c->name);
    return nvrtc_compile(rtc, &source, arch, options, count, out, why);
}

/* ---- reading what ptxas says ---- */

/* The number before `word` in the line that p begins, 0 if the word isn't there. */
static long before(const char *p, const char *word) {
    const char *end = p + strcspn(p, "\n"), *at = strstr(p, word);
    if (!at || at > end) return 0;
    while (at > p && at[-1] == ' ') at--;
    while (at > p && isdigit((unsigned char)at[-1])) at--;
    return strtol(at, NULL, 10);
}

/* "Compiling entry function 'NAME' for ..." ... "Function properties for NAME", its line, "Used N registers, ..." */
static const char *read_kernel(const char *p, const char *prefix) {
    char name[128], properties[160];
    p += strlen("Compiling entry function '");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "'"), p);
    snprintf(properties, sizeof properties, "Function properties for %s\n", name);
    const char *at = strstr(p, properties);
    const char *used = at ? strstr(at, "Used ") : NULL;
    if (!used) fail_msg("%s %s: ptxas said '%.300s'", prefix, name, p);
    at += strlen(properties);
    if (line_count == MOST_LINES) fail_msg("more than %d kernels", MOST_LINES);
    snprintf(lines[line_count++], LINE, "%s | %s: %ld %ld %ld %ld %ld\n", prefix, name, before(used, "registers"),
             before(used, "bytes smem"), before(at, "bytes stack frame"), before(at, "bytes spill stores"),
             before(at, "bytes spill loads"));
    return used;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Anything but ptxas's figures is a warning; some hide among them, with a number: "(C7508) ...". */
static void no_warnings(const char *prefix, const char *log) {
    for (const char *p = log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        int len = (int)strcspn(p, "\n");
        bool figure = !len || !strncmp(p, "ptxas info", 10) || !strncmp(p, "ptxas         .", 15);
        const char *number = strstr(p, "(C");
        if (number && number < p + len && isdigit((unsigned char)number[2])) figure = false;
        if (!figure) fail_msg("%s: %.*s", prefix, len, p);
    }
}

static void compile_corner(const op_cuda_corner *c, const char *arch) {
    char prefix[LINE - 240];
    nvrtc_binary b;
    cadre_fail why = {0};
    int first = line_count;
    snprintf(prefix, sizeof prefix, "%s %s%s%s", c->name, arch, *c->options ? " " : "", c->options);
    cadre_err err = compile(c, arch, &b, &why);
    if (err) fail_msg("%s: %s", prefix, why.text);
    no_warnings(prefix, b.log);
    for (const char *p = b.log; (p = strstr(p, "Compiling entry function '"));) p = read_kernel(p, prefix);
    if (line_count == first) fail_msg("%s: no kernel", prefix);
    qsort(lines[first], (size_t)(line_count - first), LINE, by_text);
    nvrtc_done(&b);
}

static void compile_archs(const op_cuda_corner *c) {
    char archs[200];
    snprintf(archs, sizeof archs, "%s", c->archs);
    for (char *rest = archs, *arch; (arch = strtok_r(rest, " ", &rest));) compile_corner(c, arch);
}

/* ---- the tests ---- */

static void corners(void **state) {
    (void)state;
    if (!rtc) skip();
    line_count = 0;
    compile_archs(&(op_cuda_corner){"probe.cu", "sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a", ""});
    for (const op_cuda_corner *c = op_cuda_corners; c->name; c++) compile_archs(c);
}

static void texts(void **state) {
    (void)state;
    for (const op_cuda_text *t = op_cuda_texts; t->name; t++) {
        assert_true(strlen(t->text) > 10);
        assert_ptr_equal(op_cuda_text_get(t->name), t->text);
        bool used = op_cuda_text_is_header(t);
        for (const op_cuda_corner *c = op_cuda_corners; c->name; c++) used |= !strcmp(c->name, t->name);
        if (!used) fail_msg("%s has no corner", t->name);
    }
    assert_null(op_cuda_text_get("no.cu"));
}

static void version(char line[64]) {
    snprintf(line, 64, "# NVRTC %d.%d\n", rtc->version / 1000, rtc->version / 10 % 100);
}

static bool has_line(const char *text, const char *line) {
    const char *at = strstr(text, line);
    return at && (at == text || at[-1] == '\n');
}

/* Prints what differs, as a diff would. */
static int differences(const char *kept) {
    static char all[MOST_LINES * LINE];
    int n = 0;
    size_t len = 0;
    for (int i = 0; i < line_count; i++) len += (size_t)sprintf(all + len, "%s", lines[i]);
    for (const char *p = kept; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char line[LINE];
        snprintf(line, sizeof line, "%.*s\n", (int)strcspn(p, "\n"), p);
        if (*line != '#' && !has_line(all, line)) n++, print_message("- %s", line);
    }
    for (int i = 0; i < line_count; i++)
        if (!has_line(kept, lines[i])) n++, print_message("+ %s", lines[i]);
    return n;
}

static void resources(void **state) {
    (void)state;
    char *kept, mine[64];
    size_t len;
    if (!rtc) skip();
    must(file_read(kept_at, 1 << 24, &kept, &len, fail_out));
    version(mine);
    if (!has_line(kept, mine)) {
        print_message("skipped: resources are kept for another version than this %s", mine);
        mem_free(kept);
        skip();
    }
    int n = differences(kept);
    mem_free(kept);
    if (n)
        fail_msg("%d lines of %s differ: if that is what you want, run make cuda-resources and commit the file", n,
                 kept_at);
}

static int write_file(const char *path) {
    char mine[64];
    void *none = NULL;
    if (!rtc) return 1;
    corners(&none); /* what does not compile ends here, and the file stays */
    FILE *f = fopen(path, "w");
    if (!f) return perror(path), 1;
    version(mine);
    fprintf(f, "%s%s", legend, mine);
    for (int i = 0; i < line_count; i++) fputs(lines[i], f);
    printf("%d kernels in %s\n", line_count, path);
    return fclose(f) ? 1 : 0;
}

int main(int argc, char **argv) {
    rtc = nvrtc_find();
    lines = calloc(MOST_LINES, sizeof *lines);
    if (!lines) return 1;
    if (argc > 1) return write_file(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(corners),
        cmocka_unit_test(resources),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(lines);
    return failed;
}
