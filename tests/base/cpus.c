/* cpus: processors read from made trees of /proc and /sys; the number of threads, their places, the nodes of memory. */
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

static void field(const char *id) {
    printf("field %s ok\n", id);
}

/* ---- made machines ---- */

static void put(const char *path, const char *text) {
    char line[600], full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(line, sizeof line, "mkdir -p \"$(dirname '%s')\"", full);
    assert_int_equal(system(line), 0);
    assert_int_equal(file_write(full, text, strlen(text), NULL), CADRE_OK);
}

/* A machine of `nodes` x `cores` cores; with `smt` CPU i and CPU i + nodes * cores are one core, as Linux numbers them.
 */
static void make_machine(int nodes, int cores, bool smt, const char *allowed) {
    int all = nodes * cores, count = smt ? 2 * all : all;
    char path[128], text[128];
    snprintf(text, sizeof text, "rm -rf '%s'/*", root);
    assert_int_equal(system(text), 0);
    snprintf(text, sizeof text, "0-%d\n", count - 1);
    put("sys/devices/system/cpu/online", text);
    snprintf(text, sizeof text, "Name:\tcadre\nCpus_allowed_list:\t%s\nMems_allowed_list:\t0\n", allowed);
    put("proc/thread-self/status", text);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
        snprintf(text, sizeof text, smt ? "%d,%d\n" : "%d\n", i % all, i % all + all);
        put(path, text);
    }
    snprintf(text, sizeof text, "0-%d\n", nodes - 1);
    put("sys/devices/system/node/online", text);
    for (int n = 0; n < nodes; n++) {
        snprintf(path, sizeof path, "sys/devices/system/node/node%d/cpulist", n);
        int end = snprintf(text, sizeof text, "%d-%d", n * cores, (n + 1) * cores - 1);
        if (smt) snprintf(text + end, sizeof text - (size_t)end, ",%d-%d", all + n * cores, all + (n + 1) * cores - 1);
        put(path, text);
    }
}

/* ---- tests ---- */

static void lists(void **state) {
    (void)state;
    int id[4] = {-1, -1, -1, -1};
    assert_int_equal(cpus_list("0-3\n", id, 4), 4);
    assert_int_equal(id[3], 3);
    assert_int_equal(cpus_list("7", id, 4), 1);
    assert_int_equal(id[0], 7);
    assert_int_equal(cpus_list("\t0-3,8,10-11\n", id, 4), 7); /* no more than 4 are stored */
    assert_int_equal(cpus_list("0-1023,2048-4095", id, 0), 3072);
    static const char *const bad[] = {"", "x", "3-1", "1-", "1,", "-1", "0-99999999999"};
    for (int i = 0; i < 7; i++) assert_int_equal(cpus_list(bad[i], id, 4), 0);
}

/* Field report P01: 8 CPUs, a quota of 4, and a mask; the line tells all three and the choice. */
static void quota(void **state) {
    (void)state;
    char text[200];
    cpus c;
    make_machine(1, 8, false, "0-7");
    cpus_read(root, &c);
    assert_int_equal(cpus_threads(&c, 0), 8);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "400000 100000\n");
    cpus_read(root, &c);
    assert_int_equal(c.quota, 4);
    assert_int_equal(cpus_threads(&c, 0), 4);
    cpus_explain(&c, 4, text, sizeof text);
    assert_string_equal(text, "4 threads: 8 CPUs, 8 by affinity, 4 by the container's quota, 8 cores, 1 memory node");
    put("proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0-2,5\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    cpus_read(root, &c);
    assert_int_equal(cpus_threads(&c, 0), 4);
    assert_int_equal(c.list[3].id, 5);
    cpus_explain(&c, 4, text, sizeof text);
    assert_string_equal(text, "4 threads: 8 CPUs, 4 by affinity, no quota, 4 cores, 1 memory node");
    field("P01");
}

/* Field report P06: threads are cores; siblings come last, and only when they are asked for. */
static void cores(void **state) {
    (void)state;
    cpus c;
    int id[CPUS_MOST];
    make_machine(1, 4, true, "0-7");
    cpus_read(root, &c);
    assert_int_equal(c.count, 8);
    assert_int_equal(c.cores, 4);
    assert_int_equal(cpus_threads(&c, 0), 4);
    assert_int_equal(cpus_threads(&c, 1), 8);
    for (int threads = 1; threads <= 8; threads++)
        for (int from = 0; from < 8; from++) {
            bool taken[8] = {false};
            int load[4] = {0};
            cpus_place(&c, from, threads, id);
            for (int t = 0; t < threads; t++) {
                assert_false(taken[id[t]]);
                taken[id[t]] = true;
                load[id[t] % 4]++;
            }
            for (int i = 0; i < 4; i++) assert_in_range(load[i], threads / 4, (threads + 3) / 4);
        }
    cpus_place(&c, 2, 8, id); /* begins where the caller is */
    const int want[8] = {2, 3, 0, 1, 4, 5, 6, 7};
    assert_memory_equal(id, want, sizeof want);
    make_machine(1, 4, true, "1,5,6"); /* both of core 1, the second of core 2 */
    cpus_read(root, &c);
    assert_int_equal(c.cores, 2);
    assert_int_equal(cpus_threads(&c, 0), 2);
    cpus_place(&c, 0, 2, id);
    assert_true(id[0] == 1 && id[1] == 6);
    field("P06");
}

/* Field report P04: 2 nodes of 24 cores, 1 to 48 threads: the nodes' numbers of threads differ by at most one. */
static void nodes(void **state) {
    (void)state;
    cpus c;
    int id[CPUS_MOST];
    make_machine(2, 24, false, "0-47");
    cpus_read(root, &c);
    assert_int_equal(c.nodes, 2);
    assert_int_equal(cpus_at_node(&c, 0), 24);
    assert_int_equal(cpus_at_node(&c, 1), 24);
    for (int threads = 1; threads <= 48; threads++)
        for (int from = 0; from < 48; from += 23) {
            bool taken[48] = {false};
            int on[2] = {0};
            cpus_place(&c, from, threads, id);
            for (int t = 0; t < threads; t++) {
                assert_false(taken[id[t]]);
                taken[id[t]] = true;
                on[id[t] / 24]++;
            }
            assert_true(abs(on[0] - on[1]) <= 1 && on[0] <= 24 && on[1] <= 24);
            assert_int_equal(id[0] / 24, from / 24);
        }
    /* a mask leaves 3 CPUs at one node and 20 at the other: never over a node's own */
    make_machine(2, 24, false, "0-2,24-43");
    cpus_read(root, &c);
    for (int threads = 1; threads <= 23; threads++) {
        int on[2] = {0};
        cpus_place(&c, 0, threads, id);
        for (int t = 0; t < threads; t++) on[id[t] / 24]++;
        assert_int_equal(on[0], threads < 6 ? (threads + 1) / 2 : 3);
        assert_int_equal(on[0] + on[1], threads);
    }
    /* siblings: all 8 cores first, over both nodes */
    make_machine(2, 4, true, "0-15");
    cpus_read(root, &c);
    assert_int_equal(c.cores, 8);
    cpus_place(&c, 0, 9, id);
    for (int t = 0; t < 8; t++) assert_true(id[t] < 8);
    assert_true(id[8] >= 8);
    field("P04");
}

/* Memory is spread over the nodes that have threads, and left alone when there is one. */
static void masks(void **state) {
    (void)state;
    cpus c;
    make_machine(2, 2, false, "0-3");
    cpus_read(root, &c);
    assert_true(cpus_node_mask(&c) == 3);
    make_machine(4, 2, false, "2-3,6-7");
    cpus_read(root, &c);
    assert_int_equal(c.nodes, 2);
    assert_true(cpus_node_mask(&c) == 0xA);
    make_machine(4, 2, false, "4-5");
    cpus_read(root, &c);
    assert_int_equal(c.nodes, 1);
    assert_int_equal(c.node_id[0], 2);
    assert_true(cpus_node_mask(&c) == 0);
    c.nodes = 2, c.node_id[1] = 64; /* more than the mask holds */
    assert_true(cpus_node_mask(&c) == 0);
}

/* What is missing or nonsense counts as one of each; this machine has at least that. */
static void nothing(void **state) {
    (void)state;
    cpus c;
    make_machine(1, 2, false, "nonsense");
    cpus_read(root, &c);
    assert_int_equal(c.count, 1);
    assert_int_equal(cpus_threads(&c, 0), 1);
    cpus_read("/nowhere", &c);
    assert_true(c.count == 1 && c.cores == 1 && c.nodes == 1 && c.online == 1 && c.quota == 1);
    cpus_read("", &c);
    assert_in_range(c.count, 1, c.online);
    assert_in_range(c.cores, 1, c.count);
    assert_in_range(c.quota, 1, c.count);
    assert_in_range(c.nodes, 1, c.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists), cmocka_unit_test(quota), cmocka_unit_test(cores),
        cmocka_unit_test(nodes), cmocka_unit_test(masks), cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
