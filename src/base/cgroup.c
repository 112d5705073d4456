/* cgroup.c: limits of the container. Containers differ in what they show: the group's path may name folders of the host
 * that are not mounted here, so the walk starts at the full path, goes up to the mount's root, and takes what it finds.
 */
#include "cgroup.h"
#include "file.h"
#include "mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 1024, TEXT = 1 << 16 };

static char *slurp(const char *path) {
    char *text;
    size_t len;
    return file_exists(path) && !file_read(path, TEXT, &text, &len, NULL) ? text : NULL;
}

/* ---- pure parts ---- */

int cgroup_cpus_of(int allowed, const char *quota) {
    char *end;
    long long period = 100000; /* the kernel's default */
    if (!quota) return allowed;
    long long q = strtoll(quota, &end, 10);
    if (end == quota || q <= 0) return allowed; /* "max", -1 */
    long long p = strtoll(end, NULL, 10);
    if (p > 0) period = p;
    long long cpus = q / period + (q % period != 0);
    return cpus < allowed ? (int)cpus : allowed;
}

/* The number after `name` at the start of a line of memory.stat. */
static uint64_t stat_value(const char *stat, const char *name) {
    size_t n = strlen(name);
    for (const char *line = stat; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, n) && line[n] == ' ') return strtoull(line + n, NULL, 10);
    return 0;
}

uint64_t cgroup_memory_of(const char *limit, const char *used, const char *stat) {
    char *end;
    if (!limit) return UINT64_MAX;
    errno = 0;
    uint64_t max = strtoull(limit, &end, 10), use = used ? strtoull(used, NULL, 10) : 0;
    if (end == limit || errno || max >= (uint64_t)1 << 60) return UINT64_MAX;
    uint64_t cache = 0;
    if (stat) {
        /* v1 counts a group's children under total_ alone */
        bool v1 = strstr(stat, "total_inactive_file ");
        cache = stat_value(stat, v1 ? "total_inactive_file" : "inactive_file") +
                stat_value(stat, v1 ? "total_active_file" : "active_file");
    }
    use = use > cache ? use - cache : 0;
    return max > use ? max - use : 0;
}

/* One line of /proc/self/cgroup is id:controllers:path; controllers are joined by commas. */
static bool names(const char *controllers, size_t len, const char *one) {
    size_t n = strlen(one);
    if (!n) return !len;
    for (const char *p = controllers, *end = p + len; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        if ((size_t)(stop - p) == n && !memcmp(p, one, n)) return true;
        p = stop + 1;
    }
    return false;
}

bool cgroup_path(const char *self, const char *controller, char *path, size_t size) {
    for (const char *line = self; *line;) {
        size_t len = strcspn(line, "\n");
        const char *end = line + len, *a = memchr(line, ':', len);
        const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;
        if (b && names(a + 1, (size_t)(b - a - 1), controller)) {
            size_t n = (size_t)(end - b - 1);
            if (n >= size) return false;
            memcpy(path, b + 1, n);
            path[n] = 0;
            return true;
        }
        line = end + (*end == '\n');
    }
    return false;
}

/* ---- the walk ---- */

typedef struct limits {
    int cpus;
    uint64_t memory;
} limits;
typedef void look_fn(const char *dir, limits *l);

static char *slurp_in(const char *dir, const char *name) {
    char path[PATH];
    return file_join(path, sizeof path, dir, name) ? slurp(path) : NULL;
}

static void look_cpu2(const char *dir, limits *l) {
    char *quota = slurp_in(dir, "cpu.max");
    l->cpus = cgroup_cpus_of(l->cpus, quota);
    mem_free(quota);
}

static void look_cpu1(const char *dir, limits *l) {
    char both[64], *quota = slurp_in(dir, "cpu.cfs_quota_us"), *period = slurp_in(dir, "cpu.cfs_period_us");
    if (quota) {
        snprintf(both, sizeof both, "%.24s %.24s", quota, period ? period : "");
        l->cpus = cgroup_cpus_of(l->cpus, both);
    }
    mem_free(quota);
    mem_free(period);
}

static void look_memory(const char *dir, const char *limit, const char *used, limits *l) {
    char *max = slurp_in(dir, limit), *use = slurp_in(dir, used), *stat = slurp_in(dir, "memory.stat");
    uint64_t left = cgroup_memory_of(max, use, stat);
    if (left < l->memory) l->memory = left;
    mem_free(max);
    mem_free(use);
    mem_free(stat);
}

static void look_memory2(const char *dir, limits *l) {
    look_memory(dir, "memory.max", "memory.current", l);
}
static void look_memory1(const char *dir, limits *l) {
    look_memory(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", l);
}

/* Calls look for root + mount + path, its parent, ... up to the mount itself. */
static void climb(const char *root, const char *mount, const char *controller, look_fn *look, limits *l) {
    char path[PATH], dir[PATH], whole[PATH], own[PATH];
    snprintf(whole, sizeof whole, "%.500s%s", root, mount);
    snprintf(own, sizeof own, "%.500s/proc/self/cgroup", root);
    char *self = file_is_dir(whole) ? slurp(own) : NULL;
    if (!self) return;
    if (!cgroup_path(self, controller, path, sizeof path)) path[0] = 0;
    mem_free(self);
    for (;;) {
        int n = snprintf(dir, sizeof dir, "%s%s", whole, path);
        if (n > 0 && n < PATH && file_is_dir(dir)) look(dir, l);
        char *slash = strrchr(path, '/');
        if (!slash) return;
        *slash = 0;
    }
}

int cgroup_cpus(const char *root, int allowed) {
    limits l = {allowed, UINT64_MAX};
    climb(root, "/sys/fs/cgroup", "", look_cpu2, &l);
    climb(root, "/sys/fs/cgroup/unified", "", look_cpu2, &l);
    climb(root, "/sys/fs/cgroup/cpu", "cpu", look_cpu1, &l);
    return l.cpus < 1 ? 1 : l.cpus;
}

uint64_t cgroup_memory(const char *root) {
    limits l = {1, UINT64_MAX};
    climb(root, "/sys/fs/cgroup", "", look_memory2, &l);
    climb(root, "/sys/fs/cgroup/unified", "", look_memory2, &l);
    climb(root, "/sys/fs/cgroup/memory", "memory", look_memory1, &l);
    return l.memory;
}
