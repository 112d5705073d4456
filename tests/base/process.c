/* process: exit status, signals, limits that reach the whole group, environment, folders, refusals. */
#include "base/base.h"
#include "test.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[] = "/tmp/cadre-process-XXXXXX";
static cadre_fail why;

static const char *in(const char *name) {
    static char path[8][200];
    static int turn;
    char *p = path[turn++ % 8];
    assert_true(file_join(p, sizeof path[0], dir, name));
    return p;
}

static void holds(const char *path, const char *want) {
    char *text;
    size_t len;
    assert_int_equal(file_read(path, 1 << 20, &text, &len, &why), CADRE_OK);
    assert_string_equal(text, want);
    mem_free(text);
}

/* `sh -c line` through process_run: tests may use a shell, the code does not. */
static process_end shell(const char *line, process_setup s) {
    process_end end = {0};
    const char *argv[] = {"sh", "-c", line, NULL};
    s.argv = argv;
    if (process_run(&s, &end, &why)) fail_msg("%s", why.text);
    return end;
}

static void status(void **state) {
    (void)state;
    process_end e = shell("echo out; echo err >&2; exit 7", (process_setup){.out = in("o"), .err = in("e")});
    assert_int_equal(e.status, 7);
    assert_int_equal(e.signal, 0);
    assert_false(e.timed_out || e.stopped);
    assert_true(e.seconds > 0 && e.peak_bytes > 0);
    holds(in("o"), "out\n");
    holds(in("e"), "err\n");
    e = shell("kill -SEGV $$", (process_setup){0});
    assert_int_equal(e.status, -1);
    assert_int_equal(e.signal, SIGSEGV);
}

/* Nothing is read by a shell on the way: an argument arrives as it is. */
static void arguments(void **state) {
    (void)state;
    const char *argv[] = {"printf", "%s|", "a b", "$HOME", "*", "';", NULL};
    process_end e;
    assert_int_equal(process_run(&(process_setup){.argv = argv, .out = in("o")}, &e, &why), CADRE_OK);
    holds(in("o"), "a b|$HOME|*|';|");
}

static void environment(void **state) {
    (void)state;
    const char *env[] = {"CADRE_ONE=1", "CADRE_TWO=b", NULL}, *drop[] = {"CADRE_SET", NULL};
    setenv("CADRE_SET", "isa=1", 1);
    setenv("CADRE_TWO", "a", 1);
    setenv("CADRE_THREE", "c", 1);
    shell("echo \"$CADRE_ONE$CADRE_TWO$CADRE_THREE${CADRE_SET-none}\"; pwd",
          (process_setup){.env = env, .drop = drop, .out = in("o"), .folder = "/"});
    holds(in("o"), "1bcnone\n/\n");
}

static bool alive(const char *file) {
    char *text;
    size_t len;
    assert_int_equal(file_read(file, 100, &text, &len, &why), CADRE_OK);
    int pid = atoi(text);
    mem_free(text);
    assert_true(pid > 1);
    for (int i = 0; i < 200 && !kill(pid, 0); i++) { /* a killed one is somebody's to wait for, for a moment */
        char path[64], *stat;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (file_read(path, 4096, &stat, &len, NULL)) return false;
        const char *end = strrchr(stat, ')');
        bool zombie = end && end[2] == 'Z';
        mem_free(stat);
        if (zombie) return false;
        usleep(10000);
    }
    return !kill(pid, 0);
}

/* The time limit ends children of children too, and those who do not listen to SIGTERM. */
static void limit(void **state) {
    (void)state;
    uint64_t t = clock_ns();
    char line[500];
    snprintf(line, sizeof line, "sleep 100 & echo $! >%s; wait", in("pid"));
    process_end e = shell(line, (process_setup){.timeout_s = 0.3});
    assert_true(e.timed_out);
    assert_int_equal(e.signal, SIGTERM);
    assert_false(alive(in("pid")));
    assert_true((double)(clock_ns() - t) / 1e9 < 20);
    snprintf(line, sizeof line, "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >%s; sleep 100; sleep 100'; sleep 100",
             in("pid"));
    e = shell(line, (process_setup){.timeout_s = 0.3});
    assert_true(e.timed_out);
    assert_int_equal(e.signal, SIGKILL);
    assert_false(alive(in("pid")));
}

/* What a program leaves behind does not run on beside the next one. */
static void leftover(void **state) {
    (void)state;
    char line[500];
    snprintf(line, sizeof line, "sleep 100 & echo $! >%s", in("pid"));
    process_end e = shell(line, (process_setup){0});
    assert_int_equal(e.status, 0);
    assert_false(e.timed_out);
    assert_false(alive(in("pid")));
}

static volatile sig_atomic_t stop;
static void on_alarm(int number) {
    stop = number;
}

static void stopped(void **state) {
    (void)state;
    struct sigaction act = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &act, NULL);
    alarm(1);
    process_end e = shell("sleep 100", (process_setup){.stop = &stop, .timeout_s = 50});
    assert_true(e.stopped);
    assert_false(e.timed_out);
    assert_true(e.seconds < 30);
}

static void refusals(void **state) {
    (void)state;
    process_end e;
    const char *none[] = {"cadre-no-such-program", NULL}, *file[] = {in("o"), NULL}, *sh[] = {"sh", NULL};
    assert_int_equal(process_run(&(process_setup){.argv = none}, &e, &why), CADRE_IO);
    assert_string_equal(why.text, "cadre-no-such-program: no such program in PATH");
    assert_int_equal(process_run(&(process_setup){.argv = file}, &e, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "cannot start: Permission denied"));
    chmod(in("o"), 0755); /* a text without #! is for a shell, and there is none here */
    assert_int_equal(process_run(&(process_setup){.argv = file}, &e, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "cannot start: Exec format error"));
    assert_int_equal(process_run(&(process_setup){.argv = sh, .folder = in("none")}, &e, &why), CADRE_IO);
    assert_non_null(strstr(why.text, "cannot enter the folder: No such file"));
    assert_int_equal(process_run(&(process_setup){.argv = sh, .out = in("none/o")}, &e, &why), CADRE_IO);
    mem_fail_after(0);
    assert_int_equal(process_run(&(process_setup){.argv = sh}, &e, &why), CADRE_NOMEM);
    mem_fail_after(-1);
}

static void finding(void **state) {
    (void)state;
    char path[4096];
    assert_int_equal(process_find("sh", path, sizeof path, &why), CADRE_OK);
    assert_true(*path == '/' && file_exists(path));
    assert_int_equal(process_find("./x", path, sizeof path, &why), CADRE_OK);
    assert_string_equal(path, "./x");
    assert_int_equal(process_find("cadre-no-such-program", path, sizeof path, &why), CADRE_IO);
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}
static int teardown(void **state) {
    char line[100];
    (void)state;
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    return system(line) ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status),   cmocka_unit_test(arguments), cmocka_unit_test(environment),
        cmocka_unit_test(limit),    cmocka_unit_test(leftover),  cmocka_unit_test(stopped),
        cmocka_unit_test(refusals), cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
