/* nvrtc: the real compiler, where it is: the probe for several architectures, errors with their line, and what decides
 * the key of a kernel. Needs no GPU. */
#include "dev/nvrtc.h"
#include "dev/probe.h"
#include "nvrtc_find.h"
#include "test.h"

static const nvrtc *rtc;
static cadre_fail why;

static int start(void **state) {
    (void)state;
    rtc = nvrtc_find();
    return 0;
}

static void need(void) {
    if (!rtc) skip();
}

static cadre_err compile(const char *text, const char *arch, const char *option, nvrtc_binary *out) {
    dev_cuda_source source = {.main = {"test.cu", text}};
    why = (cadre_fail){0};
    return nvrtc_compile(rtc, &source, arch, &option, option != NULL, out, &why);
}

static void probe(void **state) {
    (void)state;
    static const char *const arch[] = {"sm_80", "sm_89", "sm_90a"};
    need();
    dev_cuda_source source = PROBE_SOURCE;
    for (int i = 0; i < 3; i++) {
        nvrtc_binary b;
        must(nvrtc_compile(rtc, &source, arch[i], NULL, 0, &b, fail_out));
        assert_true(b.size > 1000);
        assert_memory_equal(b.data,
                            "\x7f"
                            "ELF",
                            4);
        assert_string_equal(b.log, ""); /* no warnings */
        static const char *const names[] = {"fill", "read4", "read8", "nothing"};
        for (int n = 0; n < 4; n++) assert_non_null(memmem(b.data, b.size, names[n], strlen(names[n]) + 1));
        nvrtc_done(&b);
    }
}

static void errors(void **state) {
    (void)state;
    nvrtc_binary b;
    need();
    assert_int_equal(compile("extern \"C\" __global__ void k() {\n  int x = ;\n}\n", "sm_90a", NULL, &b),
                     CADRE_COMPILE);
    assert_memory_equal(why.text, "test.cu(2): error: ", strlen("test.cu(2): error: "));
    assert_true(strlen(b.log) > strlen(why.text));
    assert_null(b.data);
    nvrtc_done(&b);
    assert_int_equal(compile("int x;", "sm_90a", "--no-such-option", &b), CADRE_COMPILE);
    assert_non_null(strstr(why.text, "test.cu: nvrtc: error: unrecognized option --no-such-option"));
    nvrtc_done(&b);
    assert_int_equal(compile("int x;", "sm_12", NULL, &b), CADRE_UNSUPPORTED);
    assert_non_null(strstr(why.text, "does not compile for sm_12"));
    assert_int_equal(compile("#include <stdio.h>\n", "sm_90a", NULL, &b), CADRE_COMPILE);
    assert_non_null(strstr(why.text, "test.cu(1): "));
    nvrtc_done(&b);
}

static const char text[] = "#include \"rows.cuh\"\nextern \"C\" __global__ void k(int *p) { *p = ROWS + twice(N); }\n";

/* A text's headers come with it; --fmad=false is there: no fused multiply-add that the text does not ask for. */
static void headers_and_options(void **state) {
    (void)state;
    nvrtc_binary b;
    need();
    dev_cuda_text rows = {"rows.cuh", "static __device__ int twice(int n) { return 2 * n; }\n"};
    dev_cuda_source source = {.main = {"k.cu", text}, .headers = &rows, .header_count = 1};
    static const char *const options[] = {"-DROWS=4", "-DN=3"};
    must(nvrtc_compile(rtc, &source, "sm_80", options, 2, &b, fail_out));
    nvrtc_done(&b);
    source.header_count = 0;
    assert_int_equal(nvrtc_compile(rtc, &source, "sm_80", options, 2, &b, &why), CADRE_COMPILE);
    nvrtc_done(&b);
    static const char *const resources[] = {"--ptxas-options=-v"};
    static const char product[] = "extern \"C\" __global__ void k(float *p) { p[0] = p[1] * p[2] + p[3]; }\n"
                                  "static_assert(__cplusplus >= 201703L, \"C++17\");\n";
    source = (dev_cuda_source){.main = {"p.cu", product}};
    must(nvrtc_compile(rtc, &source, "sm_80", resources, 1, &b, fail_out));
    assert_non_null(strstr(b.log, "Compiling entry function 'k' for 'sm_80'"));
    nvrtc_binary fused;
    static const char *const fuse[] = {"--fmad=true"};
    must(nvrtc_compile(rtc, &source, "sm_80", fuse, 1, &fused, fail_out));
    assert_true(fused.size != b.size || memcmp(fused.data, b.data, b.size));
    nvrtc_done(&fused);
    nvrtc_done(&b);
}

/* Whatever may change the binary changes the key. */
static void keys(void **state) {
    (void)state;
    static nvrtc old = {.version = 12090}, other = {.version = 13000};
    static const char *const ab[] = {"-Da", "-Db"}, *const joined[] = {"-Da-Db", ""};
    dev_cuda_text h[] = {{"h.cuh", "int h;"}, {"i.cuh", "int i;"}};
    const struct {
        const nvrtc *rtc;
        dev_cuda_source source;
        const char *arch;
        const char *const *options;
        int count;
    } all[] = {
        {&old, {.main = {"k.cu", "x"}}, "sm_80", ab, 2},
        {&other, {.main = {"k.cu", "x"}}, "sm_80", ab, 2},
        {&old, {.main = {"k.cu", "y"}}, "sm_80", ab, 2},
        {&old, {.main = {"l.cu", "x"}}, "sm_80", ab, 2},
        {&old, {.main = {"k.cu", "x"}}, "sm_90a", ab, 2},
        {&old, {.main = {"k.cu", "x"}}, "sm_80", ab, 1},
        {&old, {.main = {"k.cu", "x"}}, "sm_80", ab + 1, 1},
        {&old, {.main = {"k.cu", "x"}}, "sm_80", joined, 2},
        {&old, {.main = {"k.cu", "x"}}, "sm_80", joined, 1},
        {&old, {.main = {"k.cu", "x"}, .headers = h, .header_count = 1}, "sm_80", ab, 2},
        {&old, {.main = {"k.cu", "x"}, .headers = h + 1, .header_count = 1}, "sm_80", ab, 2},
        {&old, {.main = {"k.cu", "x"}, .headers = h, .header_count = 2}, "sm_80", ab, 2},
    };
    enum { COUNT = sizeof all / sizeof *all };
    char key[COUNT][65], again[65];
    for (int i = 0; i < COUNT; i++) {
        nvrtc_key(all[i].rtc, &all[i].source, all[i].arch, all[i].options, all[i].count, key[i]);
        nvrtc_key(all[i].rtc, &all[i].source, all[i].arch, all[i].options, all[i].count, again);
        assert_string_equal(key[i], again);
        for (int j = 0; j < i; j++) assert_string_not_equal(key[i], key[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe),
        cmocka_unit_test(errors),
        cmocka_unit_test(headers_and_options),
        cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
