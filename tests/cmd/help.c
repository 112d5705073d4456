/* help: what the command says about itself, and how it refuses what it can't do: one line, exit status 2. */
#include "command.h"
#include <sched.h>

static const char *const commands[] = {"run",  "bench",        "bench moe",  "bench count", "bench invariance",
                                       "eval", "plan explain", "plan check", "doctor"};
enum { COMMANDS = 8 };

static void overview(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        ran r = command("%s", i == 0 ? "" : i == 1 ? "--help" : "help");
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        assert_non_null(strstr(r.out, "examples:"));
        for (int c = 0; c < COMMANDS; c++) assert_non_null(strstr(r.out, commands[c]));
        command_free(&r);
    }
}

static void version(void **state) {
    (void)state;
    ran r = command("--version");
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp(r.out, "cadre " CADRE_VERSION "\n", strlen("cadre " CADRE_VERSION "\n")), 0);
    for (const char *w = "compiler\0cpu-bf16-pair cpu-f32-chain\0ref\0cpu features\0"; *w; w += strlen(w) + 1)
        assert_non_null(strstr(r.out, w));
    command_free(&r);
}

/* "X --help" and "help X" say the same, with every option once and two examples or more. */
static void each(void **state) {
    (void)state;
    for (int i = 0; i < COMMANDS; i++) {
        ran a = command("%s --help", commands[i]), b = command("help %s", commands[i]);
        int examples = 0;
        assert_int_equal(a.status, 0);
        assert_string_equal(a.out, b.out);
        for (const char *o = "--set\0--json\0--threads\0--device\0--help\0"; *o; o += strlen(o) + 1)
            assert_non_null(strstr(a.out, o));
        for (const char *p = a.out; (p = strstr(p, "\n  cadre ")); p++) examples++;
        assert_in_range(examples, 2, 3);
        for (const char *p = a.out; *p; p += strcspn(p, "\n"), p += *p == '\n')
            if (strcspn(p, "\n") > 120) fail_msg("%s: a line of %zu columns", commands[i], strcspn(p, "\n"));
        command_free(&a);
        command_free(&b);
    }
}

/* "table --help" says what all its second words say. */
static void groups(void **state) {
    (void)state;
    for (const char *g = "table\0plan\0"; *g; g += strlen(g) + 1) {
        ran a = command("%s --help", g), b = command("help %s", g);
        assert_int_equal(a.status, 0);
        assert_string_equal(a.out, b.out);
        for (const char *w = *g == 't' ? "show\0build\0merge\0diff\0import\0export\0lint\0" : "explain\0check\0"; *w;
             w += strlen(w) + 1) {
            char head[40];
            snprintf(head, sizeof head, "cadre %s %s: ", g, w);
            assert_non_null(strstr(a.out, head));
        }
        command_free(&a);
        command_free(&b);
    }
    command_refused(command("plan explai --help"), "no command 'plan explai'; did you mean plan explain?");
    ran r = command("plan explain --m 1 --set tables=force --json");
    assert_non_null(strstr(r.out, "\"tables=force\""));
    command_free(&r);
}

static void unknown(void **state) {
    (void)state;
    command_refused(command("rn"), "no command 'rn'; did you mean run?");
    command_refused(command("frobnicate"), "no command 'frobnicate'");
    command_refused(command("run --set tables=foo"), "switch tables is 'foo', expected off, on or force");
    command_refused(command("ab frobnicate"), "no command 'ab frobnicate' (cadre ab --help lists them)");
    command_refused(command("plan"), "plan needs a second word: cadre plan explain");
    command_refused(command("run --thread 3"), "run has no option '--thread'; did you mean --threads?");
    command_refused(command("run -z"), "run has no option '-z'");
    command_refused(command("run story"), "run takes no argument 'story'");
    command_refused(command("doctor --quick=1"), "--quick takes no value");
}

static void values(void **state) {
    (void)state;
    command_refused(command("run -n x"), "--tokens is 'x', expected a whole number in 0..16777216");
    command_refused(command("run -n -4"), "--tokens is '-4'");
    command_refused(command("run -n 99999999999999999999"), "--tokens is '99999999999999999999'");
    command_refused(command("run -n"), "--tokens needs a value: N");
    command_refused(command("run -n ''"), "--tokens is ''");
    command_refused(command("run --temp nan"), "--temp is 'nan', expected a number in 0..100");
    command_refused(command("run --temp -1"), "--temp is '-1'");
    command_refused(command("run --top-p 1.5"), "--top-p is '1.5', expected a number in 0..1");
    command_refused(command("run --seed -1"), "--seed is '-1'");
    command_refused(command("run --batch 0"), "--batch is '0', expected a whole number in 1..4096");
    command_refused(command("run --threads 0"), "--threads is '0'");
    command_refused(command("run --weights f64"), "--weights is 'f64', expected auto, bf16, f32");
    command_refused(command("bench moe --m 5..2"), "--m holds 5..2, which runs backwards");
    command_refused(command("bench moe --m 1,,2"), "--m is ''");
    command_refused(command("bench moe --shape x"), "no shape is called 'x'");
    command_refused(command("bench moe --shape E=4,d=4"), "E, d, f and k are all needed");
    command_refused(command("bench moe --shape E=4,d=4,f=4,k=5"), "k is 5, expected at most E = 4");
    command_refused(command("bench moe --shape E=4,d=4,f=4,k=2,act=gelu"), "act is 'gelu', expected swiglu");
    command_refused(command("bench moe --routing hot"),
                    "--routing is 'hot', expected uniform, balanced, zipf:S, router or router-free");
    command_refused(command("bench invariance --axes threads,foo"), "--axes has 'foo'");
    command_refused(command("run -p a -f b"), "run takes one of -p, -f and -i");
    command_refused(command("run -i --json"), "run -i has no --json");
    command_refused(command("eval"), "eval needs a text: -f FILE");
}

/* What the design names but this version lacks says so, and isn't called nonsense. */
static void later(void **state) {
    (void)state;
    command_refused(command("run --weights q5"), "--weights is 'q5', expected auto, bf16, f32, q8, q4");
    command_refused(command("run --device cuda"), "--device cuda is not in this version; it has cpu");
    command_refused(command("run --mtp 3"), "--mtp 3 is not in this version; only 0 is");
    command_refused(command("run --mtp auto"), "--mtp auto is not in this version");
    command_refused(command("run --mtp nine"), "--mtp is 'nine', expected a whole number or auto");
    command_refused(command("bench --mtp 0,1,2"), "--mtp 0,1,2 is not in this version");
    command_refused(command("eval -f Makefile --weights bf16,q5"), "--weights is 'bf16,q5', expected some of");
    command_refused(command("bench moe --shape demo,dtype=q5"), "dtype is 'q5', expected f32, bf16, q8 or q4");
    command_refused(command("bench moe --routing trace:x"), "--routing trace:FILE is not in this version");
}

static void switches(void **state) {
    (void)state;
    command_refused(command("doctor --quick --set isa=22"), "switch isa is '22'");
    command_refused(command("doctor --quick --set nosuch=1"), "no switch is called 'nosuch'");
    command_refused(command_after("CADRE_SET=isa=1,foo=2", "doctor --quick"), "CADRE_SET: no switch is called 'foo'");
    ran r = command_after("CADRE_SET=isa=1,spin=7", "doctor --quick --set isa=0 --set spin=8 --json");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "switches in force: isa=0 spin=8\n")); /* --set comes after the environment */
    json_doc *doc = command_json(&r);
    const json *list = json_get(json_root(doc), "switches");
    assert_int_equal(list->count, 2);
    assert_true(json_is(list->child, "isa=0"));
    assert_true(json_is(json_get(json_root(doc), "isa"), "ref"));
    json_free(doc);
    command_free(&r);
}

/* The doctor tells what threads and kernels were chosen from; field reports P01, P02 and P04 want it seen. taskset
 * takes one CPU away, as a container would. */
static void machine(void **state) {
    (void)state;
    ran r = command("doctor --quick --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *nodes = json_get(v, "nodes");
    int64_t sum = 0, allowed = json_get(v, "cpus_allowed")->integer;
    command_has(v, "isa isa_why threads cpus_online cpus_allowed cpus_quota cores nodes memory_available");
    for (const json *n = nodes->child; n; n = n->next) sum += json_get(n, "cpus")->integer;
    assert_int_equal(sum, allowed);
    assert_true(json_get(v, "threads")->integer <= json_get(v, "cores")->integer);
    assert_non_null(strstr(r.err, " by affinity, "));
    bool none = strstr(r.err, ", no quota, ") != NULL; /* the text and the value agree */
    assert_int_equal(json_get(v, "cpus_quota")->kind, none ? JSON_NULL : JSON_NUMBER);
    assert_non_null(strstr(r.err, "memory nodes   node "));
    assert_non_null(strstr(r.err, "kernels        "));
    json_free(doc);
    command_free(&r);
    char before[64];
    snprintf(before, sizeof before, "taskset -c %d", sched_getcpu());
    r = command_after(before, "doctor --quick");
    if (r.status == 127) skip();
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "threads        1 thread: "));
    assert_non_null(strstr(r.out, ", 1 by affinity, "));
    command_free(&r);
}

static void folders(void **state) {
    (void)state;
    command_refused(command("run -m /nonexistent/model"), "/nonexistent/model: no such folder");
    command_refused(command("run -m Makefile"), "Makefile: expected a model folder, found a file");
    command_refused(command("run -m docs --json"), "docs/config.json");
    command_refused(command("bench --random-weights Makefile"), "Makefile:1:1:");
    command_refused(command("bench --random-weights /nonexistent"), "/nonexistent: no such file");
    command_refused(command("run -m tests/golden/models/qwen3_moe_base -p hi"), "tokenizer.json");
    command_refused(command("eval -m tests/golden/models/qwen3_moe_base -f /nonexistent.txt"), "/nonexistent.txt");
}

static void closed_output(void **state) {
    (void)state;
    if (access("/dev/full", W_OK)) skip();
    char line[300];
    snprintf(line, sizeof line, "'%s/cadre' --version >/dev/full 2>/dev/null", getenv("CADRE_BUILD"));
    int status = system(line);
    assert_int_equal(WEXITSTATUS(status), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overview), cmocka_unit_test(version),       cmocka_unit_test(each),
        cmocka_unit_test(groups),   cmocka_unit_test(unknown),       cmocka_unit_test(values),
        cmocka_unit_test(later),    cmocka_unit_test(switches),      cmocka_unit_test(machine),
        cmocka_unit_test(folders),  cmocka_unit_test(closed_output),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
