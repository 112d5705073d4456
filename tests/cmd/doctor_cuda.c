/* doctor_cuda: what the doctor says about GPUs, with the stand-in of tests/dev/fake for driver and compiler. */
#include "command.h"

static char fake[300];

static int start(void **state) {
    const char *build = getenv("CADRE_BUILD");
    snprintf(fake, sizeof fake, "%s/fake/libfake.so", build ? build : "build");
    return command_setup(state);
}

static void says(ran r, const char *text) {
    assert_int_equal(r.status, 0);
    if (!strstr(r.out, text)) fail_msg("'%s' is not in\n%s", text, r.out);
    command_free(&r);
}

/* A machine without a GPU needs no NVRTC. */
static void missing(void **state) {
    (void)state;
    ran r = command("doctor --quick --set cuda=/no/libcuda.so.1 --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *cuda = json_get(json_root(doc), "cuda");
    command_has(cuda, "driver driver_text devices devices_text nvrtc nvrtc_text cache gpu error");
    assert_int_equal(json_get(cuda, "driver")->kind, JSON_NULL);
    assert_int_equal(json_get(cuda, "gpu")->kind, JSON_NULL);
    for (const json *s = json_get(json_root(doc), "missing")->child; s; s = s->next)
        assert_null(strstr(s->text, "NVRTC"));
    json_free(doc);
    command_free(&r);
    says(
        command("doctor --quick --set cuda=/no/libcuda.so.1"),
        "cuda driver    no CUDA driver: /no/libcuda.so.1: cannot open shared object file: No such file or directory\n");
    says(command("doctor --quick --set cuda=libm.so.6"), "it lacks cuInit");
    says(command("doctor --quick --set cuda=%s --set nvrtc=/no/nvrtc.so", fake),
         "missing        no NVRTC, the compiler of GPU kernels: /no/nvrtc.so: cannot open shared object file");
}

static void there(void **state) {
    (void)state;
    ran r = command("doctor --json --set cuda=%s --set nvrtc=%s --set cache=%s/kernels", fake, fake, scratch);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *cuda = json_get(json_root(doc), "cuda"), *gpu = json_get(cuda, "gpu");
    assert_true(json_is(json_get(cuda, "driver"), "13.0"));
    assert_true(json_is(json_get(cuda, "nvrtc"), "13.0"));
    assert_int_equal(json_get(cuda, "devices")->integer, 2);
    assert_true(json_is(json_get(cuda, "devices_text"), "Fake One, Fake Two"));
    command_has(gpu, "name arch multiprocessors l2 memory memory_free shared_per_block read_gbps launch_us graph_us "
                     "replay_us");
    assert_true(json_is(json_get(gpu, "arch"), "sm_90a"));
    assert_true(json_get(gpu, "read_gbps")->number > 134 && json_get(gpu, "read_gbps")->number < 135);
    assert_int_equal(json_get(cuda, "error")->kind, JSON_NULL);
    assert_non_null(strstr(r.out, "/kernels"));
    json_free(doc);
    command_free(&r);
}

/* NVRTC is told about where no driver is; what a switch names should be there. */
static void without_driver(void **state) {
    (void)state;
    char line[400];
    snprintf(line, sizeof line, "nvrtc          13.0, %s\n", fake);
    says(command("doctor --quick --set cuda=/no/libcuda.so.1 --set nvrtc=%s", fake), line);
    says(command("doctor --quick --set nvrtc=/no/nvrtc.so"),
         "nvrtc          no NVRTC, the compiler of GPU kernels: /no/nvrtc.so: cannot open shared object file");
    says(command("doctor --quick --set nvrtc=/no/nvrtc.so"),
         "missing        no NVRTC, the compiler of GPU kernels: /no/nvrtc.so");
    says(command("doctor --quick --set cuda=/no/libcuda.so.1"), "missing        no CUDA driver: /no/libcuda.so.1");
    ran r = command("doctor --quick --json --set nvrtc=/no/nvrtc.so");
    json_doc *doc = command_json(&r);
    const json *first = json_get(json_root(doc), "missing")->child, *last = first;
    while (last && last->next) last = last->next;
    assert_true(last && strstr(last->text, "no NVRTC, the compiler of GPU kernels: /no/nvrtc.so"));
    json_free(doc);
    command_free(&r);
}

/* The cache's folder comes from the environment, the switch goes before it. */
static void folders(void **state) {
    (void)state;
    char rest[700];
    snprintf(rest, sizeof rest, "doctor --quick --set cuda=%s --set nvrtc=%s", fake, fake);
    says(command_after("XDG_CACHE_HOME=/x/y", "%s", rest), "kernel cache   /x/y/cadre\n");
    says(command_after("XDG_CACHE_HOME=x/y HOME=/h", "%s", rest), "kernel cache   /h/.cache/cadre\n");
    says(command_after("XDG_CACHE_HOME= HOME=/h", "%s", rest), "kernel cache   /h/.cache/cadre\n");
    says(command_after("XDG_CACHE_HOME=/x/y", "%s --set cache=/z", rest), "kernel cache   /z\n");
    says(command_after("XDG_CACHE_HOME=/x/y CADRE_SET=cache=off", "%s", rest), "kernel cache   off: ");
    says(command_after("env -u XDG_CACHE_HOME -u HOME", "%s", rest), "kernel cache   no folder is named: ");
}

/* The stand-in's kernels write nothing: the proof must notice. */
static void proof(void **state) {
    (void)state;
    ran r = command("doctor --quick --verify --set cuda=%s --set nvrtc=%s --set cache=off", fake, fake);
    assert_int_equal(r.status, 1);
    const char *line = strstr(r.out, "FAILED   sm90-bf16-k16 on gpu 0: ");
    int bad = 0, runs = 0;
    if (!line) fail_msg("%s", r.out);
    assert_int_equal(sscanf(strstr(line, "0: ") + 3, "%d of %d runs", &bad, &runs), 2);
    assert_int_equal(bad, runs);
    assert_in_range(runs, 50, 200);
    line = strstr(r.out, "FAILED   its rows alone, and in another order: ");
    if (!line || sscanf(line + 47, "%d of %d rows", &bad, &runs) != 2) fail_msg("%s", r.out);
    assert_int_equal(bad, runs);
    assert_int_equal(runs, 2 * 3 * 33); /* ways, shapes, rows */
    assert_non_null(strstr(r.out, "FAILED   its experts against their meaning: relative error inf, at most 3.9e-03\n"));
    assert_non_null(
        strstr(r.out, "FAILED   mma.sync and wgmma agree on gpu 0: 0 of 491520 outputs differ; steps backward 0 do\n"));
    command_free(&r);
    r = command("doctor --quick --verify --set cuda=%s --set nvrtc=/no/nvrtc.so", fake);
    if (!strstr(r.out, "skipped  sm90-bf16-k16 on gpu 0: no NVRTC")) fail_msg("%s", r.out);
    assert_int_equal(r.status, 0);
    command_free(&r);
}

/* One reading of names, in every command. */
static void named(void **state) {
    (void)state;
    static const char *const bad[] = {"gpu",   "cuda:x",  "cuda:",      "cuda:1x",
                                      "cudax", "cuda:-1", "cuda:99999", "cuda:current"};
    static const char *const in[] = {"doctor --quick",
                                     "doctor --quick --verify",
                                     "bench moe",
                                     "bench count",
                                     "plan explain",
                                     "plan check --device-name \"NVIDIA H200\"",
                                     "plan check --platform cuda"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t c = 0; c < sizeof in / sizeof *in; c++) {
            char line[100];
            snprintf(line, sizeof line, "--device is '%s', expected cpu, cuda or cuda:N", bad[i]);
            command_refused(command("%s --device %s --set cuda=%s", in[c], bad[i], fake), line);
        }
    says(command("doctor --device cuda:1 --set cuda=%s --set nvrtc=%s --set cache=off", fake, fake),
         "gpu 1          sm_90a");
}

/* --device: one half of the proofs. A GPU that is named must be there. */
static void proof_of(void **state) {
    (void)state;
    ran r = command("doctor --quick --verify --device cuda:1 --set cuda=%s --set nvrtc=%s --set cache=off", fake, fake);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "FAILED   sm90-bf16-k16 on gpu 1: "));
    assert_null(strstr(r.out, "dense_"));
    command_free(&r);
    r = command("doctor --quick --verify --device cpu --set cuda=%s --set nvrtc=%s --set cache=off", fake, fake);
    assert_int_equal(r.status, 0);
    assert_null(strstr(r.out, "sm90-bf16-k16"));
    command_free(&r);
    command_refused(command("doctor --quick --verify --device cuda --set cuda=/no/libcuda.so.1"),
                    "no CUDA driver: /no/libcuda.so.1");
    command_refused(command("doctor --verify --device cuda:7 --set cuda=%s", fake), "7");
    command_refused(command("doctor --device gpu"), "--device is 'gpu', expected cpu, cuda or cuda:N");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing), cmocka_unit_test(without_driver), cmocka_unit_test(there), cmocka_unit_test(folders),
        cmocka_unit_test(proof),   cmocka_unit_test(proof_of),       cmocka_unit_test(named),
    };
    return cmocka_run_group_tests(tests, start, command_teardown);
}
