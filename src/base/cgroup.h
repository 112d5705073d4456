/* cgroup.h: what the container leaves to this process, from the files of cgroup v1 or v2. */
#ifndef CADRE_BASE_CGROUP_H
#define CADRE_BASE_CGROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both look below root: "" is this machine, a folder with proc/ and sys/ a made one. */

/* `allowed` CPUs cut by the tightest CPU quota from the process's own group up to the root, at least 1. */
int cgroup_cpus(const char *root, int allowed);
/* Bytes until the tightest memory limit, file cache counted as free; UINT64_MAX without a limit. */
uint64_t cgroup_memory(const char *root);

/* The pure parts. */

/* quota: "400000 100000" (v1: both numbers joined), "max 100000", "-1 100000", NULL. Rounded up, 1..allowed. */
int cgroup_cpus_of(int allowed, const char *quota);
/* Texts of the limit, the use and memory.stat (any may be NULL). "max" and v1's huge number mean no limit. */
uint64_t cgroup_memory_of(const char *limit, const char *used, const char *stat);
/* The path of a controller's group in the text of /proc/self/cgroup ("4:memory:/a/b"); controller "" is v2 ("0::/a").
 */
bool cgroup_path(const char *self, const char *controller, char *path, size_t size);
#endif
