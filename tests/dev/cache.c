/* cache: what was kept comes back; what is there but was not kept does not, and one line says so; no folder is no harm;
 * many writers at once leave whole files. */
#include "dev/cache.h"
#include "test.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[200], file[400], key[65], payload[5000];
static int heard;
static char last[512];

static void hear(void *ctx, const char *line) {
    (void)ctx;
    heard++;
    snprintf(last, sizeof last, "%s", line);
}

static void use(const char *path) {
    char line[600];
    snprintf(line, sizeof line, "cache=%s", path);
    set_switch(line);
}

static int start(void **state) {
    (void)state;
    must(file_temp_dir("/tmp", "cadre-cache", dir, sizeof dir, fail_out));
    cadre_sha256("some kernel", 11, key);
    snprintf(file, sizeof file, "%s/%s.cubin", dir, key);
    for (size_t i = 0; i < sizeof payload; i++) payload[i] = (char)(i * i >> 3);
    return 0;
}

static int stop(void **state) {
    (void)state;
    char line[300];
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    return system(line);
}

/* Each with an empty cache and a listener that has heard nothing. */
static int each(void **state) {
    (void)state;
    use(dir);
    if (file_exists(file)) file_remove(file, NULL);
    heard = 0;
    *last = 0;
    cadre_listen(hear, NULL);
    return 0;
}

static bool hit(void) {
    void *data = NULL;
    size_t size = 0;
    if (!cache_get(key, &data, &size)) return false;
    assert_int_equal(size, sizeof payload);
    assert_memory_equal(data, payload, size);
    mem_free(data);
    return true;
}

static void keeps(void **state) {
    (void)state;
    char other[65];
    void *data;
    size_t size;
    assert_string_equal(cache_dir(), dir);
    assert_false(hit());
    cache_put(key, payload, sizeof payload);
    assert_true(hit() && hit());
    cadre_sha256("another", 7, other);
    assert_false(cache_get(other, &data, &size));
    cache_put(key, payload, sizeof payload); /* again: no harm */
    assert_true(hit());
    assert_int_equal(heard, 0);
}

static char *bytes;
static size_t len;

static void load(void) {
    cache_put(key, payload, sizeof payload);
    must(file_read(file, 1 << 20, &bytes, &len, fail_out));
    assert_true(len > sizeof payload);
}

static void refused(const char *what, size_t at) {
    if (hit()) fail_msg("%s at %zu: taken for good", what, at);
    if (heard != 1 || !strstr(last, "is not what was kept; the kernel is compiled again"))
        fail_msg("%s at %zu: %d lines, '%s'", what, at, heard, last);
    heard = 0;
    cadre_listen(hear, NULL); /* so that the same line counts again */
}

/* Any bit of the head, and of the payload's first, last and some others. */
static void changed(void **state) {
    (void)state;
    load();
    size_t head = len - sizeof payload;
    for (size_t i = 0; i < len; i += i < head ? 1 : i == head ? sizeof payload / 2 : sizeof payload / 2 - 1) {
        bytes[i] ^= 1 << i % 8;
        must(file_write(file, bytes, len, fail_out));
        refused("a flipped bit", i);
        bytes[i] ^= 1 << i % 8;
    }
    must(file_write(file, bytes, len, fail_out));
    assert_true(hit());
    mem_free(bytes);
}

static void cut(void **state) {
    (void)state;
    load();
    size_t head = len - sizeof payload;
    for (size_t n = 0; n < len; n += n < head + 2 ? 1 : 1777) {
        must(file_write(file, bytes, n, fail_out));
        refused("cut", n);
    }
    char *longer = mem_resize(bytes, len, len + 1);
    assert_non_null(longer);
    must(file_write(file, longer, len + 1, fail_out));
    refused("one byte more", len);
    mem_free(longer);
}

/* The right file under the wrong name, and files of other programs. */
static void foreign(void **state) {
    (void)state;
    char other[65];
    cadre_sha256("another", 7, other);
    cache_put(other, payload, sizeof payload);
    char path[400];
    snprintf(path, sizeof path, "%s/%s.cubin", dir, other);
    must(file_read(path, 1 << 20, &bytes, &len, fail_out));
    must(file_write(file, bytes, len, fail_out));
    refused("another key's entry", 0);
    must(file_remove(path, fail_out));
    memcpy(bytes,
           "\x7f"
           "ELF",
           4);
    must(file_write(file, bytes, len, fail_out));
    refused("a bare binary", 0);
    mem_free(bytes);
    must(file_remove(file, fail_out));
    assert_int_equal(mkdir(file, 0700), 0); /* a folder where the entry belongs: neither read nor written */
    assert_false(hit());
    assert_non_null(strstr(last, "expected a file, found a folder; the kernel is compiled again"));
    cache_put(key, payload, sizeof payload);
    assert_int_equal(heard, 2);
    assert_non_null(strstr(last, "is a folder; kernels are compiled in every process"));
    assert_int_equal(rmdir(file), 0);
}

static void nowhere(void **state) {
    (void)state;
    char below[500];
    for (int off = 0; off < 2; off++) {
        use(off ? "off" : "");
        assert_null(cache_dir());
        cache_put(key, payload, sizeof payload);
        assert_false(hit());
        assert_int_equal(heard, 0); /* nobody asked for one */
    }
    use("/proc/cadre");
    for (int i = 0; i < 3; i++) cache_put(key, payload, sizeof payload);
    assert_false(hit());
    assert_int_equal(heard, 1);
    assert_string_equal(last,
                        "kernel cache: /proc/cadre: cannot make the folder: No such file or directory; kernels are "
                        "compiled in every process");
    must(file_write(file, "x", 1, fail_out));
    snprintf(below, sizeof below, "%s/below", file);
    use(below);
    cache_put(key, payload, sizeof payload);
    assert_false(hit());
    assert_int_equal(heard, 2);
    assert_non_null(strstr(last, "Not a directory"));
    snprintf(below, sizeof below, "%s/read-only", dir);
    assert_int_equal(mkdir(below, 0500), 0);
    use(below);
    cache_put(key, payload, sizeof payload);
    if (geteuid()) { /* root may write everywhere */
        assert_int_equal(heard, 3);
        assert_non_null(strstr(last, "Permission denied; kernels are compiled in every process"));
        assert_false(hit());
    } else {
        assert_true(hit());
    }
    snprintf(below, sizeof below, "%s/new/deeper", dir);
    use(below);
    cache_put(key, payload, sizeof payload);
    assert_true(hit());
}

static void out_of_memory(void **state) {
    (void)state;
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        cache_put(key, payload, sizeof payload);
        mem_fail_after(-1);
        if (hit()) break;
    }
    cache_put(key, payload, sizeof payload);
    for (int n = 0; n < 2; n++) {
        void *data;
        size_t size;
        mem_fail_after(n);
        assert_false(cache_get(key, &data, &size));
        mem_fail_after(-1);
    }
    assert_true(hit());
}

/* Each writer keeps another length under the same key; a reader sees one of them, whole. */
static int write_many(int id) {
    for (int i = 0; i < 60; i++) {
        void *data;
        size_t size;
        cache_put(key, payload, (size_t)(1000 + 700 * id));
        if (!cache_get(key, &data, &size)) return 1;
        bool good = (size - 1000) % 700 == 0 && !memcmp(data, payload, size);
        mem_free(data);
        if (!good) return 2;
    }
    return heard ? 3 : 0;
}

static void together(void **state) {
    (void)state;
    enum { WRITERS = 4 };
    pid_t child[WRITERS];
    for (int id = 0; id < WRITERS; id++) {
        child[id] = fork();
        assert_true(child[id] >= 0);
        if (!child[id]) _exit(write_many(id));
    }
    for (int id = 0; id < WRITERS; id++) {
        int status;
        assert_int_equal(waitpid(child[id], &status, 0), child[id]);
        assert_int_equal(status, 0);
    }
    char line[300];
    snprintf(line, sizeof line, "test $(ls '%s' | grep -c tmp) = 0", dir);
    assert_int_equal(system(line), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(keeps, each),         cmocka_unit_test_setup(changed, each),
        cmocka_unit_test_setup(cut, each),           cmocka_unit_test_setup(foreign, each),
        cmocka_unit_test_setup(together, each),      cmocka_unit_test_setup(nowhere, each),
        cmocka_unit_test_setup(out_of_memory, each),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
