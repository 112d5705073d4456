/* cgroup: the texts of quotas and limits, and the walk over a made tree. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "made_root.h"

static void quotas(void **state) {
    (void)state;
    assert_int_equal(cgroup_cpus_of(8, "400000 100000\n"), 4);
    assert_int_equal(cgroup_cpus_of(8, "max 100000\n"), 8);
    assert_int_equal(cgroup_cpus_of(8, "50000 100000\n"), 1);
    assert_int_equal(cgroup_cpus_of(8, "1 100000"), 1);
    assert_int_equal(cgroup_cpus_of(8, "150000 100000"), 2);
    assert_int_equal(cgroup_cpus_of(8, "200001 100000"), 3);
    assert_int_equal(cgroup_cpus_of(8, "1600000 100000"), 8);
    assert_int_equal(cgroup_cpus_of(8, "20000 10000"), 2);
    assert_int_equal(cgroup_cpus_of(8, "400000"), 4);
    assert_int_equal(cgroup_cpus_of(8, "400000 0"), 4);
    assert_int_equal(cgroup_cpus_of(8, "-1\n 100000\n"), 8);
    assert_int_equal(cgroup_cpus_of(8, "250000\n 100000\n"), 3);
    assert_int_equal(cgroup_cpus_of(8, "0 100000"), 8);
    assert_int_equal(cgroup_cpus_of(8, ""), 8);
    assert_int_equal(cgroup_cpus_of(8, NULL), 8);
    assert_int_equal(cgroup_cpus_of(8, "99999999999999999999999 1"), 8);
    assert_in_range(cgroup_cpus("", 3), 1, 3);
    assert_int_equal(cgroup_cpus("", 0), 1);
}

static void limits(void **state) {
    (void)state;
    const char *v2 = "anon 10\ninactive_anon 5\nfile 99\ninactive_file 300\nactive_file 100\n";
    const char *v1 = "inactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 20\n";
    assert_true(cgroup_memory_of("max\n", "5\n", v2) == UINT64_MAX);
    assert_true(cgroup_memory_of(NULL, "5\n", v2) == UINT64_MAX);
    assert_true(cgroup_memory_of("9223372036854771712\n", "5\n", NULL) == UINT64_MAX);
    assert_true(cgroup_memory_of("99999999999999999999999\n", "5\n", NULL) == UINT64_MAX);
    assert_true(cgroup_memory_of("1000\n", "600\n", NULL) == 400);
    assert_true(cgroup_memory_of("1000\n", "600\n", v2) == 800);
    assert_true(cgroup_memory_of("1000\n", "600\n", v1) == 450);
    assert_true(cgroup_memory_of("1000\n", "100\n", v2) == 1000);
    assert_true(cgroup_memory_of("1000\n", "1001\n", NULL) == 0);
    assert_true(cgroup_memory_of("0\n", NULL, NULL) == 0);
    assert_true(cgroup_memory("") > 1 << 20);
}

static void paths(void **state) {
    (void)state;
    const char *v1 = "4:memory:/a/b\n2:cpu,cpuacct:/c\n1:name=systemd:/\n0::/d:e\n";
    char path[16];
    assert_true(cgroup_path(v1, "memory", path, sizeof path));
    assert_string_equal(path, "/a/b");
    assert_true(cgroup_path(v1, "cpu", path, sizeof path));
    assert_string_equal(path, "/c");
    assert_true(cgroup_path(v1, "cpuacct", path, sizeof path));
    assert_string_equal(path, "/c");
    assert_true(cgroup_path(v1, "", path, sizeof path));
    assert_string_equal(path, "/d:e");
    assert_false(cgroup_path(v1, "cpua", path, sizeof path));
    assert_false(cgroup_path(v1, "cpuset", path, sizeof path));
    assert_false(cgroup_path("0::/far/too/long/path", "", path, sizeof path));
    assert_false(cgroup_path("", "", path, sizeof path));
    assert_false(cgroup_path("nonsense\n:\n", "", path, sizeof path));
    assert_true(cgroup_path("0::/", "", path, sizeof path));
    assert_string_equal(path, "/");
}

/* ---- a made tree ---- */

static void put(const char *path, const char *text) {
    char line[512], full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(line, sizeof line, "mkdir -p \"$(dirname '%s')\"", full);
    assert_int_equal(system(line), 0);
    assert_int_equal(file_write(full, text, strlen(text), NULL), CADRE_OK);
}

static void clear(void) {
    char line[64];
    snprintf(line, sizeof line, "rm -rf '%s'/*", root);
    assert_int_equal(system(line), 0);
}

/* Field report P01: the tightest quota between the own group and the mount counts, in both versions. */
static void trees(void **state) {
    (void)state;
    assert_int_equal(cgroup_cpus(root, 8), 8); /* nothing there */
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(cgroup_cpus(root, 8), 8);
    put("sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    put("sys/fs/cgroup/cpu.max", "600000 100000\n");
    assert_int_equal(cgroup_cpus(root, 8), 4);
    assert_int_equal(cgroup_cpus(root, 3), 3);
    put("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
    assert_int_equal(cgroup_cpus(root, 8), 3);
    put("sys/fs/cgroup/a/memory.max", "5000000\n");
    put("sys/fs/cgroup/a/memory.current", "1000000\n");
    assert_true(cgroup_memory(root) == 4000000);
    clear();
    put("proc/self/cgroup", "3:cpu,cpuacct:/not/mounted/here\n0::/\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(cgroup_cpus(root, 8), 3);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cgroup_cpus(root, 8), 8);
    clear();
    printf("field P01 ok\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas),
        cmocka_unit_test(limits),
        cmocka_unit_test(paths),
        cmocka_unit_test(trees),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
