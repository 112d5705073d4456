/* cpus.h: the processors as /sys tells them: which of them this process may use, which share a core, which lie at one
 * memory node; and what follows: how many threads, where each, and the nodes that memory is spread over. It is not
 * about what a CPU can compute (dev/cpu.c). */
#ifndef CADRE_BASE_CPUS_H
#define CADRE_BASE_CPUS_H
#include <stddef.h>
#include <stdint.h>

enum { CPUS_MOST = 1024, CPUS_NODES_MOST = 64 };

typedef struct cpus_one {
    int id;
    int turn; /* 0: the first of its core that may be used, 1: the next (a hardware thread), ... */
    int node; /* index in node_id */
} cpus_one;

typedef struct cpus {
    int online;               /* of the machine */
    int count;                /* this process may use (affinity), 1..CPUS_MOST */
    int quota;                /* what the container's CPU quota leaves of count, rounded up; count without a quota */
    int cores;                /* cores that count lies on */
    int nodes;                /* memory nodes that count lies at */
    cpus_one list[CPUS_MOST]; /* [count], by ascending id */
    int node_id[CPUS_NODES_MOST];
} cpus;

/* Looks below root: "" is this machine, a folder with proc/ and sys/ a made one. What can't be read counts as one CPU,
 * as cores without siblings, as one node. */
void cpus_read(const char *root, cpus *c);

/* The pure parts. */

/* Numbers of a list like "0-3,8" into id (at most `most`, ascending as listed); how many it has, 0 if it is no list. */
int cpus_list(const char *text, int *id, int most);
/* Threads when nobody asks for a number: one per core (siblings != 0: per CPU), cut by the quota; at least 1. */
int cpus_threads(const cpus *c, long siblings);
/* A CPU for each of `threads` <= count threads, beginning near CPU `from`: all cores before any sibling; the nodes in
 * turn, so that their numbers of threads differ by one at most while each has a free core. */
void cpus_place(const cpus *c, int from, int threads, int *id);
/* Bit n: memory node n has CPUs of this process. 0 when there is one node, or one above 63: nothing to spread over. */
uint64_t cpus_node_mask(const cpus *c);
int cpus_at_node(const cpus *c, int index); /* CPUs of this process at node_id[index] */
/* "4 threads: 8 CPUs, 8 by affinity, 4 by the container's quota, 8 cores, 1 memory node" */
void cpus_explain(const cpus *c, int threads, char *text, size_t size);
#endif
