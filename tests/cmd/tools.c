/* tools: what the scripts around the command refuse, in one line each: reports of samples, the example beside PyTorch,
 * and the runner of GPU tests. */
#include "command.h"

static bool python;

static int start(void **state) {
    python = !system("command -v python3 >/dev/null");
    return command_setup(state);
}

/* A shell line that ends with `status` and whose outputs together are one line that holds `text`. */
static void line_of(int status, const char *text, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void line_of(int status, const char *text, const char *format, ...) {
    char line[900], all[1000];
    size_t len;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(all, sizeof all, "{ %s; } >%s/said 2>&1", line, scratch);
    int code = system(all);
    char *said = command_read("said", &len);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != status || !strstr(said, text) || strcspn(said, "\n") + 1 != len)
        fail_msg("%s: status %d, '%s', expected '%s'", line, WEXITSTATUS(code), said, text);
    mem_free(said);
}

static void put(const char *name, const char *text) {
    char path[200];
    assert_true(file_join(path, sizeof path, scratch, name));
    assert_int_equal(file_write(path, text, strlen(text), NULL), CADRE_OK);
}

static void reports(void **state) {
    (void)state;
    if (!python) skip();
    static const char *const names[] = {"gpu", "moe", "step"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        line_of(2, "_report.py: expected ", "python3 tools/%s_report.py", names[i]);
        line_of(2, "/none.tsv: No such file or directory", "python3 tools/%s_report.py %s/none.tsv", names[i], scratch);
        line_of(2, "expected ", "python3 tools/%s_report.py docs/samples/gpu-energy.tsv", names[i]);
        line_of(2, "expected ", "python3 tools/%s_report.py docs/samples/gpu-prefill.tsv", names[i]);
        line_of(2, "expected ", "python3 tools/%s_report.py docs/samples/ab-aa.tsv", names[i]);
        line_of(2, ": there are no rows", "python3 tools/%s_report.py /dev/null", names[i]);
    }
    put("sweep.tsv", "m\tset\tus\n8\ta\t1.0\n8\ta\tx\n");
    line_of(2, "sweep.tsv:3: expected m, set, us", "python3 tools/gpu_report.py %s/sweep.tsv", scratch);
    put("one.tsv", "who\tshape\trouting\tm\tconfig\ttouched\tfloor_us\tus\ncadre\ts\tuniform\t1\tpolicy\t8\t1\t2\n");
    line_of(2, "expected rows of cadre's policy and of another", "python3 tools/gpu_report.py %s/one.tsv", scratch);
}

/* Stand-ins for PyTorch: one that is not there, one without a GPU. */
static void example(void **state) {
    (void)state;
    if (!python) skip();
    line_of(2, "torch_experts: expected ./libcadre.so", "python3 examples/torch_experts.py");
    put("torch.py", "raise ImportError('none')\n");
    line_of(2, "torch_experts: PyTorch is needed: none",
            "PYTHONPATH=%s python3 -B examples/torch_experts.py ./libcadre.so", scratch);
    put("torch.py", "class cuda:\n    is_available = staticmethod(lambda: False)\n");
    line_of(2, "torch_experts: PyTorch sees no GPU", "PYTHONPATH=%s python3 -B examples/torch_experts.py ./libcadre.so",
            scratch);
    put("torch.py", "class cuda:\n    is_available = staticmethod(lambda: True)\n");
    line_of(2, "torch_experts: cadre as a shared library is needed",
            "PYTHONPATH=%s python3 -B examples/torch_experts.py %s/no.so", scratch, scratch);
}

static void gpu_tests(void **state) {
    (void)state;
    char make[300];
    snprintf(make, sizeof make, "mkdir %s/gpu && cp /bin/true %s/gpu/dev && cp /bin/true %s/gpu/moe", scratch, scratch,
             scratch);
    assert_int_equal(system(make), 0);
    line_of(2, "no GPU test is called 'nothing' (ONLY); there are: dev moe",
            "ONLY='dev nothing' sh tests/gpu/run.sh %s", scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports), cmocka_unit_test(example),
                                       cmocka_unit_test(gpu_tests)};
    return cmocka_run_group_tests(tests, start, command_teardown);
}
