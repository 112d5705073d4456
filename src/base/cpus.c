/* cpus.c: processors from the text files of /proc and /sys. */
#include "cpus.h"
#include "cgroup.h"
#include "file.h"
#include "mem.h"
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1 << 16, PATH = 512 };

static char *slurp(const char *root, const char *path) {
    char full[PATH], *text;
    size_t len;
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || n >= PATH || !file_exists(full)) return NULL;
    return file_read(full, TEXT, &text, &len, NULL) ? NULL : text;
}

int cpus_list(const char *text, int *id, int most) {
    int count = 0;
    for (;;) {
        char *end;
        long lo = strtol(text, &end, 10), hi = lo;
        if (end == text) return 0;
        if (*end == '-') {
            text = end + 1;
            hi = strtol(text, &end, 10);
            if (end == text) return 0;
        }
        if (lo < 0 || hi < lo || hi > 1 << 20) return 0;
        for (long i = lo; i <= hi; i++, count++)
            if (count < most) id[count] = (int)i;
        if (*end != ',') return count;
        text = end + 1;
    }
}

/* Numbers of a file's list, at most `most`; 0 without one. */
static int list_of(const char *root, const char *path, int *id, int most) {
    char *text = slurp(root, path);
    int n = text ? cpus_list(text, id, most) : 0;
    mem_free(text);
    return n < most ? n : most;
}

/* ---- which may be used ---- */

/* Of the calling thread. */
static int allowed_of(const char *root, int *id) {
    static const char key[] = "\nCpus_allowed_list:";
    char *text = slurp(root, "/proc/thread-self/status");
    const char *line = text ? strstr(text, key) : NULL;
    int n = line ? cpus_list(line + sizeof key - 1, id, CPUS_MOST) : 0;
    mem_free(text);
    cpu_set_t mask;
    if (n || *root || sched_getaffinity(0, sizeof mask, &mask)) return n < CPUS_MOST ? n : CPUS_MOST;
    for (int i = 0; i < CPU_SETSIZE && n < CPUS_MOST; i++)
        if (CPU_ISSET(i, &mask)) id[n++] = i;
    return n;
}

/* ---- cores and nodes ---- */

static cpus_one *find(cpus *c, int id) {
    for (int i = 0; i < c->count; i++)
        if (c->list[i].id == id) return &c->list[i];
    return NULL;
}

/* How many of a CPU's core come before it among those that may be used. */
static int turn_of(const char *root, cpus *c, int id) {
    int mate[64], turn = 0;
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", id);
    int n = list_of(root, path, mate, 64);
    for (int i = 0; i < n; i++) turn += mate[i] < id && find(c, mate[i]) != NULL;
    return turn;
}

/* Node `node` gets a place if CPUs of this process lie at it. */
static void look_at_node(const char *root, cpus *c, int node, int *id) {
    char path[128];
    bool used = false;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    int n = list_of(root, path, id, CPUS_MOST);
    for (int i = 0; i < n && c->nodes < CPUS_NODES_MOST; i++) {
        cpus_one *one = find(c, id[i]);
        if (!one) continue;
        one->node = c->nodes;
        used = true;
    }
    if (used) c->node_id[c->nodes++] = node;
}

static void look_at_nodes(const char *root, cpus *c, int *id) {
    int node[CPUS_MOST], n = list_of(root, "/sys/devices/system/node/online", node, CPUS_MOST);
    for (int i = 0; i < n; i++) look_at_node(root, c, node[i], id);
    if (!c->nodes) c->nodes = 1;
}

void cpus_read(const char *root, cpus *c) {
    int id[CPUS_MOST] = {0};
    *c = (cpus){.count = allowed_of(root, id)};
    if (!c->count) c->count = 1;
    for (int i = 0; i < c->count; i++) c->list[i].id = id[i];
    for (int i = 0; i < c->count; i++) {
        c->list[i].turn = turn_of(root, c, id[i]);
        c->cores += c->list[i].turn == 0;
    }
    c->online = list_of(root, "/sys/devices/system/cpu/online", id, CPUS_MOST);
    if (c->online < c->count) c->online = c->count;
    look_at_nodes(root, c, id);
    c->quota = cgroup_cpus(root, c->count);
}

/* ---- what follows ---- */

int cpus_threads(const cpus *c, long siblings) {
    int n = siblings ? c->count : c->cores;
    if (n > c->quota) n = c->quota;
    return n < 1 ? 1 : n;
}

static int modulo(int a, int n) {
    return (a % n + n) % n;
}

/* What makes CPU i the next choice, the most important first: a free core, a node with few threads, nearness. */
static bool better(const cpus *c, const int *on_node, const cpus_one *a, const cpus_one *b, int from, int home) {
    if (!b) return true;
    if (a->turn != b->turn) return a->turn < b->turn;
    if (on_node[a->node] != on_node[b->node]) return on_node[a->node] < on_node[b->node];
    if (a->node != b->node) return modulo(a->node - home, c->nodes) < modulo(b->node - home, c->nodes);
    return (a->id < from) != (b->id < from) ? a->id >= from : a->id < b->id;
}

void cpus_place(const cpus *c, int from, int threads, int *id) {
    bool used[CPUS_MOST] = {false};
    int on_node[CPUS_NODES_MOST] = {0}, home = 0;
    for (int i = 0; i < c->count; i++)
        if (c->list[i].id == from) home = c->list[i].node;
    for (int t = 0; t < threads; t++) {
        const cpus_one *best = NULL;
        for (int i = 0; i < c->count; i++)
            if (!used[i] && better(c, on_node, &c->list[i], best, from, home)) best = &c->list[i];
        if (!best) return;
        used[best - c->list] = true;
        on_node[best->node]++;
        id[t] = best->id;
    }
}

uint64_t cpus_node_mask(const cpus *c) {
    uint64_t mask = 0;
    for (int i = 0; i < c->nodes; i++) {
        if (c->node_id[i] > 63) return 0;
        mask |= (uint64_t)1 << c->node_id[i];
    }
    return c->nodes > 1 ? mask : 0;
}

int cpus_at_node(const cpus *c, int index) {
    int n = 0;
    for (int i = 0; i < c->count; i++) n += c->list[i].node == index;
    return n;
}

static const char *plural(int n) {
    return n == 1 ? "" : "s";
}

void cpus_explain(const cpus *c, int threads, char *text, size_t size) {
    char quota[64] = "no quota";
    if (c->quota < c->count) snprintf(quota, sizeof quota, "%d by the container's quota", c->quota);
    snprintf(text, size, "%d thread%s: %d CPU%s, %d by affinity, %s, %d core%s, %d memory node%s", threads,
             plural(threads), c->online, plural(c->online), c->count, quota, c->cores, plural(c->cores), c->nodes,
             plural(c->nodes));
}
