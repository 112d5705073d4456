/* file: maps, whole files, atomic writes, appends, odd kinds of files; every refusal names the path. */
#include "base/base.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/cadre-file-XXXXXX";
static cadre_fail why;

static const char *in(const char *name) {
    static char path[16][200];
    static int turn;
    char *p = path[turn++ % 16];
    assert_true(file_join(p, sizeof path[0], dir, name));
    return p;
}

static void says(cadre_err err, const char *path, const char *rest) {
    char want[400];
    snprintf(want, sizeof want, "%s%s", path, rest);
    assert_int_equal(err, CADRE_IO);
    assert_string_equal(why.text, want);
}

static void is(const char *path, const char *want, size_t n) {
    char *text;
    size_t len;
    assert_int_equal(file_read(path, 1 << 20, &text, &len, &why), CADRE_OK);
    assert_int_equal(len, n);
    assert_memory_equal(text, want, n);
    assert_int_equal(text[n], 0);
    mem_free(text);
}

static void writing(void **state) {
    (void)state;
    const char *path = in("a");
    assert_false(file_exists(path));
    assert_int_equal(file_write(path, "one\0two", 7, &why), CADRE_OK);
    is(path, "one\0two", 7);
    assert_true(file_exists(path) && !file_is_dir(path));
    chmod(path, 0640);
    assert_int_equal(file_write(path, "", 0, &why), CADRE_OK);
    is(path, "", 0);
    struct stat st;
    stat(path, &st);
    assert_int_equal(st.st_mode & 0777, 0640);
    says(file_write(dir, "x", 1, &why), dir, ": is a folder");
    assert_int_equal(file_write(in("no/such"), "x", 1, &why), CADRE_IO);
    assert_memory_equal(why.text, in("no/such"), strlen(in("no/such")));
    assert_non_null(strstr(why.text, "cannot make: No such file or directory"));
    /* a device is written to, never replaced */
    assert_int_equal(file_write("/dev/null", "x", 1, &why), CADRE_OK);
    stat("/dev/null", &st);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(file_write("/dev/full", "x", 1, &why), CADRE_IO);
    assert_string_equal(why.text, "/dev/full: cannot write: No space left on device");
    remove(path);
    assert_int_equal(rmdir(dir), 0); /* so no temporary file was left */
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void appending(void **state) {
    (void)state;
    const char *path = in("log");
    assert_int_equal(file_append(path, "one\n", 4, &why), CADRE_OK);
    assert_int_equal(file_append(path, "two\n", 4, &why), CADRE_OK);
    is(path, "one\ntwo\n", 8);
    remove(path);
    says(file_append(dir, "x", 1, &why), dir, ": cannot open: Is a directory");
    says(file_append("/dev/full", "x", 1, &why), "/dev/full", ": cannot append to: No space left on device");
}

static void reading(void **state) {
    (void)state;
    char *text = NULL, big[10000];
    size_t len;
    const char *path = in("big");
    for (int i = 0; i < 10000; i++) big[i] = (char)(i * 7);
    assert_int_equal(file_write(path, big, sizeof big, &why), CADRE_OK);
    is(path, big, sizeof big);
    says(file_read(path, 9999, &text, &len, &why), path, ": larger than the limit of 9999 bytes");
    says(file_read(dir, 100, &text, &len, &why), dir, ": expected a file, found a folder");
    says(file_read(in("none"), 100, &text, &len, &why), in("none"), ": cannot open: No such file or directory");
    says(file_read("/dev/zero", 5000, &text, &len, &why), "/dev/zero", ": larger than the limit of 5000 bytes");
    /* /proc says size 0 and has more */
    assert_int_equal(file_read("/proc/self/maps", 1 << 20, &text, &len, &why), CADRE_OK);
    assert_true(len > 100 && strlen(text) == len);
    mem_free(text);
    for (int n = 0; n < 1; n++) {
        mem_fail_after(n);
        assert_int_equal(file_read(path, 1 << 20, &text, &len, &why), CADRE_NOMEM);
        mem_fail_after(-1);
    }
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(file_read("/proc/self/maps", 1 << 20, &text, &len, &why), CADRE_NOMEM);
        mem_fail_after(-1);
    }
    remove(path);
}

static void *feed(void *path) {
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 3000; i++) fputs("0123456789", f);
    fclose(f);
    return NULL;
}

static void pipes(void **state) {
    (void)state;
    const char *path = in("pipe");
    char *text;
    size_t len;
    file_map map = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    says(file_open_map(path, &map, &why), path, ": expected a regular file"); /* and does not wait for a writer */
    assert_null(map.data);
    /* a writer that is there is read to its end */
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char self[64];
    snprintf(self, sizeof self, "/dev/fd/%d", ends[0]);
    pthread_t writer;
    char out[64];
    snprintf(out, sizeof out, "/dev/fd/%d", ends[1]);
    assert_int_equal(pthread_create(&writer, NULL, feed, out), 0);
    pthread_join(writer, NULL); /* 30000 bytes fit into a pipe */
    close(ends[1]);
    assert_int_equal(file_read(self, 1 << 20, &text, &len, &why), CADRE_OK);
    assert_int_equal(len, 30000);
    assert_memory_equal(text + 29990, "0123456789", 11);
    mem_free(text);
    close(ends[0]);
    remove(path);
}

static void standard_input(void **state) {
    (void)state;
    int ends[2], old = dup(0);
    char *text;
    size_t len;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello", 5), 5);
    close(ends[1]);
    dup2(ends[0], 0);
    close(ends[0]);
    assert_int_equal(file_read_stdin(100, &text, &len, &why), CADRE_OK);
    assert_string_equal(text, "hello");
    assert_int_equal(len, 5);
    mem_free(text);
    dup2(old, 0);
    close(old);
}

static void maps(void **state) {
    (void)state;
    const char *path = in("map");
    size_t size = 5 * 4096 + 17;
    char *data = mem_new(size);
    for (size_t i = 0; i < size; i++) data[i] = (char)(i >> 4);
    assert_int_equal(file_write(path, data, size, &why), CADRE_OK);
    file_map map = {0};
    assert_int_equal(file_open_map(path, &map, &why), CADRE_OK);
    assert_int_equal(map.size, size);
    assert_memory_equal(map.data, data, size);
    file_map_soon(&map, 100, 5000);
    file_map_soon(&map, 1, SIZE_MAX);
    file_map_soon(&map, size + 1, SIZE_MAX);
    char part[3000];
    assert_int_equal(file_map_read(&map, path, 7777, part, sizeof part, &why), CADRE_OK);
    assert_memory_equal(part, data + 7777, sizeof part);
    assert_int_equal(file_map_read(&map, path, size, part, 0, &why), CADRE_OK);
    assert_int_equal(truncate(path, 9000), 0);
    char line[100];
    snprintf(line, sizeof line, ": ends at byte 9000, expected %zu: it shrank while it was read", size);
    says(file_map_read(&map, path, 7777, part, sizeof part, &why), path, line);
    file_close_map(&map);
    assert_null(map.data);
    file_close_map(&map);
    mem_free(data);
    assert_int_equal(file_write(path, "", 0, &why), CADRE_OK);
    assert_int_equal(file_open_map(path, &map, &why), CADRE_OK);
    assert_non_null(map.data);
    assert_int_equal(map.size, 0);
    file_map_soon(&map, 0, 10);
    file_close_map(&map);
    remove(path);
    says(file_open_map(path, &map, &why), path, ": cannot open: No such file or directory");
    says(file_open_map(dir, &map, &why), dir, ": expected a file, found a folder");
    says(file_open_map("/dev/null", &map, &why), "/dev/null", ": expected a regular file");
}

static void names(void **state) {
    (void)state;
    char out[8];
    assert_true(file_join(out, sizeof out, "a", "b"));
    assert_string_equal(out, "a/b");
    assert_true(file_join(out, sizeof out, "a/", "b"));
    assert_string_equal(out, "a/b");
    assert_true(file_join(out, sizeof out, "", "b"));
    assert_string_equal(out, "/b");
    assert_true(file_join(out, sizeof out, "abc", "def"));
    assert_false(file_join(out, sizeof out, "abc", "defg"));
    assert_true(file_is_dir(dir) && file_exists(dir) && !file_is_dir(in("none")));
    /* a link to nothing is nothing, a file is no folder, links in a circle are there and tell when they're opened */
    char *text, place[4096], again[4200];
    size_t len;
    const char *link = in("link"), *circle = in("circle");
    assert_int_equal(symlink("none", link), 0);
    assert_int_equal(symlink("circle", circle), 0);
    assert_false(file_exists(link) || file_exists("/dev/null/none") || file_exists(""));
    assert_true(file_exists(circle) && !file_is_dir(circle));
    says(file_read(circle, 100, &text, &len, &why), circle, ": cannot open: Too many levels of symbolic links");
    assert_int_equal(remove(link) | remove(circle), 0);
    assert_int_equal(file_program_dir(place, sizeof place, &why), CADRE_OK);
    snprintf(again, sizeof again, "%s/%s", place, program_invocation_short_name);
    assert_true(file_exists(again));
    assert_int_equal(file_program_dir(place, 2, &why), CADRE_IO);
}

static void folders(void **state) {
    (void)state;
    char made[200], again[200], full[4096], small[8];
    struct stat st;
    assert_int_equal(file_temp_dir(dir, "part", made, sizeof made, &why), CADRE_OK);
    assert_int_equal(file_temp_dir(dir, "part", again, sizeof again, &why), CADRE_OK);
    assert_memory_equal(made, in("part-"), strlen(in("part-")));
    assert_string_not_equal(made, again);
    assert_int_equal(stat(made, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    says(file_temp_dir(in("none"), "part", made, sizeof made, &why), in("none"),
         ": cannot make a folder in it: No such file or directory");
    says(file_temp_dir(dir, "part", small, sizeof small, &why), dir, "...: path too long");
    assert_int_equal(file_remove(again, &why), CADRE_OK);
    says(file_remove(again, &why), again, ": cannot remove: No such file or directory");

    /* a link is removed, not what it points to; the canonical path has neither links nor dots */
    char file[200], link[200], round[420];
    snprintf(file, sizeof file, "%.150s/f", made);
    snprintf(link, sizeof link, "%.150s/l", made);
    snprintf(round, sizeof round, "%.150s/../%.60s/l", made, strrchr(made, '/') + 1);
    assert_int_equal(file_write(file, "x", 1, &why), CADRE_OK);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(file_canonical(round, full, sizeof full, &why), CADRE_OK);
    assert_string_equal(full, file);
    says(file_canonical(round, small, sizeof small, &why), file, "...: path too long");
    says(file_canonical(in("none"), full, sizeof full, &why), in("none"), ": cannot find: No such file or directory");
    assert_int_equal(file_remove(link, &why), CADRE_OK);
    assert_true(file_exists(file) && !file_exists(link));
    says(file_remove(made, &why), made, ": cannot remove: Directory not empty");
    assert_int_equal(file_remove(file, &why), CADRE_OK);
    assert_int_equal(file_remove(made, &why), CADRE_OK);

    char deep[240];
    snprintf(deep, sizeof deep, "%.150s/a/b//c/", made);
    assert_int_equal(file_make_dir(deep, &why), CADRE_OK);
    assert_true(file_is_dir(deep));
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(file_make_dir(deep, &why), CADRE_OK);
    assert_int_equal(file_write(in("plain"), "x", 1, &why), CADRE_OK);
    says(file_make_dir(in("plain/d"), &why), in("plain/d"), ": cannot make the folder: Not a directory");
    says(file_make_dir(in("plain"), &why), in("plain"), ": cannot make the folder: File exists");
    assert_int_equal(file_remove(in("plain"), &why), CADRE_OK);
    for (const char *part[] = {"a/b/c", "a/b", "a", ""}, **p = part; p < part + 4; p++) {
        snprintf(deep, sizeof deep, "%.150s/%s", made, *p);
        assert_int_equal(file_remove(deep, &why), CADRE_OK);
    }

    uint64_t room = UINT64_MAX, none = 7;
    assert_int_equal(file_space(dir, &room, &why), CADRE_OK);
    assert_true(room < (uint64_t)1 << 60);
    assert_int_equal(file_space("/proc", &room, &why), CADRE_OK);
    assert_int_equal(room, 0);
    says(file_space(in("none"), &none, &why), in("none"), ": cannot look at its disk: No such file or directory");
    assert_int_equal(none, 7);
}

static void short_names(void **state) {
    (void)state;
    char here[4096], text[4200];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    snprintf(text, sizeof text, "%s/a/b: what", dir);
    assert_string_equal(file_short(text), "a/b: what");
    snprintf(text, sizeof text, "%sx/a", dir); /* a neighbour whose name begins alike */
    assert_ptr_equal(file_short(text), text);
    assert_ptr_equal(file_short(dir), dir);
    assert_string_equal(file_short("a/b"), "a/b");
    assert_string_equal(file_short(""), "");
    assert_int_equal(chdir("/"), 0);
    snprintf(text, sizeof text, "%s/a", dir);
    assert_ptr_equal(file_short(text), text);
    assert_int_equal(chdir(here), 0);
}

/* Names that end so, by bytes; ".x" itself has no name before the end. */
static void lists(void **state) {
    (void)state;
    const char **names = NULL, *const sorted[] = {"B.x", "a.x", "b.x"};
    const char *const make[] = {"b.x", "B.x", "a.x", ".x", "a.xy", "ax"};
    char where[200], path[260];
    int count = -1;
    assert_int_equal(file_temp_dir(dir, "list", where, sizeof where, &why), CADRE_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(file_join(path, sizeof path, where, make[i]));
        assert_int_equal(file_write(path, "", 0, &why), CADRE_OK);
    }
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(file_list(where, ".x", &names, &count, &why), CADRE_NOMEM);
    }
    mem_fail_after(-1);
    assert_int_equal(file_list(where, ".x", &names, &count, &why), CADRE_OK);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(names[i], sorted[i]);
    mem_free(names);
    assert_int_equal(file_list(where, ".none", &names, &count, &why), CADRE_OK);
    assert_int_equal(count, 0);
    mem_free(names);
    says(file_list(in("none"), ".x", &names, &count, &why), in("none"),
         ": cannot open the folder: No such file or directory");
    for (int i = 0; i < 6; i++) {
        assert_true(file_join(path, sizeof path, where, make[i]));
        assert_int_equal(file_remove(path, &why), CADRE_OK);
    }
    assert_int_equal(file_remove(where, &why), CADRE_OK);
}

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}
static int remove_dir(void **state) {
    (void)state;
    return rmdir(dir); /* fails if a test left a file */
}

/* A lock is another process's to see; it is free when its owner closes it or dies. */
static void locks(void **state) {
    (void)state;
    int a = -1, b = -1;
    const char *path = in("lock");
    assert_int_equal(file_lock(path, "the first\n", false, &a, &why), CADRE_OK);
    assert_int_equal(file_lock(path, "the second\n", false, &b, &why), CADRE_BUSY);
    char want[300];
    snprintf(want, sizeof want, "%s: taken by the first", path);
    assert_string_equal(why.text, want);
    file_close(a);
    assert_int_equal(file_lock(path, "the second\n", false, &b, &why), CADRE_OK);
    is(path, "the second\n", 11);
    file_close(b);
    remove(path);
    assert_int_equal(file_lock(in("no/lock"), "", false, &b, &why), CADRE_IO);
}

static void cutting(void **state) {
    (void)state;
    const char *path = in("cut");
    assert_int_equal(file_append_synced(path, "one\n", 4, &why), CADRE_OK);
    assert_int_equal(file_append_synced(path, "two", 3, &why), CADRE_OK);
    is(path, "one\ntwo", 7);
    assert_int_equal(file_cut(path, 4, &why), CADRE_OK);
    is(path, "one\n", 4);
    remove(path);
    assert_int_equal(file_cut(in("none"), 4, &why), CADRE_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks),     cmocka_unit_test(cutting),        cmocka_unit_test(writing),
        cmocka_unit_test(appending), cmocka_unit_test(reading),        cmocka_unit_test(pipes),
        cmocka_unit_test(maps),      cmocka_unit_test(standard_input), cmocka_unit_test(names),
        cmocka_unit_test(folders),   cmocka_unit_test(short_names),    cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
