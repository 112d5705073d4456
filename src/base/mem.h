/* mem.h: the library's allocator: counted, 64-byte aligned, able to fail on purpose; arenas; checked sizes. */
#ifndef CADRE_BASE_MEM_H
#define CADRE_BASE_MEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, 64-byte aligned; NULL when out of memory (or told to fail). n == 0 gives a pointer that may be freed. */
void *mem_new(size_t bytes);
void *mem_new_array(size_t count, size_t size); /* NULL also when count * size overflows */
/* Grows or shrinks; contents kept up to the smaller size, NULL keeps the old block. New bytes are not zeroed. */
void *mem_resize(void *p, size_t old_bytes, size_t new_bytes);
char *mem_copy_text(const char *text, size_t len); /* terminated copy */
void mem_free(void *p);

/* For weights and caches: page-aligned, zeroed, huge pages asked for (switch huge_pages). */
void *mem_new_huge(size_t bytes);
void mem_free_huge(void *p, size_t bytes);
/* Memory nodes (bit n: node n) over which mem_new_huge spreads the pages of each block from now on, whoever touches
 * them first; 0: pages lie where they are touched. Every member of a team reads all weights and takes its part of them
 * from a shared counter, so no node is the right one for any of them. Switch spread=0 turns it off. */
void mem_spread(uint64_t nodes);

/* What this process uses, in bytes; peak: the most that was resident so far. All 0 where /proc does not tell. */
typedef struct mem_use {
    uint64_t mapped;   /* address space, files and reserved memory included */
    uint64_t resident; /* of it in memory: pages of its own and of mapped files */
    uint64_t own;      /* of that: its own, that no other process and no file has */
    uint64_t peak;
} mem_use;
void mem_usage(mem_use *out);
/* Page faults of this process so far: that were served from memory; that waited for the disk. */
void mem_faults(uint64_t *minor, uint64_t *major);

uint64_t mem_count(void); /* allocations so far, all kinds */
void mem_fail_after(
    int64_t n); /* tests: the n-th allocation from now fails (0 = the next), and all after it; -1: never */

/* *out = a * b (a + b); false on overflow, *out untouched. */
bool mem_mul(size_t a, size_t b, size_t *out);
bool mem_add(size_t a, size_t b, size_t *out);

/* A bump allocator over one block. With base == NULL it only counts, so the same code sizes and places:
 * run it once on {0}, allocate `used`, run it again on the block. Each piece is 64-byte aligned. */
typedef struct arena {
    char *base;
    size_t used, size;
    bool overflow; /* a size did not fit size_t, or the block was too small */
} arena;
void *arena_take(arena *a, size_t count, size_t size); /* NULL while counting or on overflow */
void arena_poison(arena *a); /* fill with bytes that make NaNs and wild indices; debug builds use it between steps */
#endif
