/* mem.c: every allocation of the library passes here, is counted, and can be told to fail. */
#include "mem.h"
#include "cadre.h"
#include "file.h"
#include "switch.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE = 2 << 20 };

static _Atomic uint64_t count;
static _Atomic int64_t fail_after = -1;

uint64_t mem_count(void) {
    return atomic_load_explicit(&count, memory_order_relaxed);
}
uint64_t cadre_allocations(void) {
    return mem_count();
}
void mem_fail_after(int64_t n) {
    atomic_store(&fail_after, n);
}

/* Counts one allocation; false when this one is to fail. Once the countdown has ended it stays ended. */
static bool admit(void) {
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    int64_t left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_after, &left, left - 1)) {
    }
    return left != 0;
}

bool mem_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

bool mem_add(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static bool wants_huge_pages(void) {
    return switch_get(SWITCH_HUGE_PAGES);
}

/* A fault for each 4 KiB page can cost more than all the work on a big block: ask for huge pages inside it. */
static void ask_huge(char *p, size_t bytes) {
    size_t skip = (HUGE - (uintptr_t)p % HUGE) % HUGE;
    madvise(p + skip, (bytes - skip) / HUGE * HUGE, MADV_HUGEPAGE); /* a wish: no harm if refused */
}

/* posix_memalign keeps the exact size (aligned_alloc wants multiples), so that a sanitizer sees the first byte too far.
 */
static void *take(size_t bytes, size_t zero_from) {
    void *p;
    if (!admit() || bytes > PTRDIFF_MAX || posix_memalign(&p, ALIGN, bytes ? bytes : 1)) return NULL;
    if (bytes >= 2 * HUGE && wants_huge_pages()) ask_huge(p, bytes);
    if (zero_from < bytes) memset((char *)p + zero_from, 0, bytes - zero_from);
    return p;
}

void *mem_new(size_t bytes) {
    return take(bytes, 0);
}

void *mem_new_array(size_t n, size_t size) {
    size_t bytes;
    return mem_mul(n, size, &bytes) ? take(bytes, 0) : NULL;
}

/* realloc would lose the alignment. */
void *mem_resize(void *p, size_t old_bytes, size_t new_bytes) {
    void *to = take(new_bytes, new_bytes);
    if (!to) return NULL;
    size_t keep = old_bytes < new_bytes ? old_bytes : new_bytes;
    if (p && keep) memcpy(to, p, keep);
    free(p);
    return to;
}

char *mem_copy_text(const char *text, size_t len) {
    if (len == SIZE_MAX) return NULL;
    char *p = take(len + 1, len);
    if (p && len) memcpy(p, text, len);
    return p;
}

void mem_free(void *p) {
    free(p);
}

/* ---- huge pages ---- */

/* Bytes that a block of this size maps; 0 on overflow. */
static size_t mapped(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - HUGE - page) return 0;
    return bytes ? (bytes + page - 1) / page * page : page;
}

/* A block large enough for huge pages starts on one: map more, and give both ends back. */
static char *map_aligned(size_t bytes) {
    size_t extra = bytes >= HUGE ? HUGE : 0;
    char *p = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!extra) return p;
    size_t front = (HUGE - (uintptr_t)p % HUGE) % HUGE;
    if (front) munmap(p, front);
    if (extra - front) munmap(p + front + bytes, extra - front);
    return p + front;
}

static _Atomic uint64_t spread_over;

void mem_spread(uint64_t nodes) {
    atomic_store(&spread_over, nodes);
}

/* The kernel's own call, so that no library is needed: it counts one bit more than it reads. A refusal costs speed
 * alone. */
static void spread(void *p, size_t size) {
    enum { INTERLEAVE = 3, BITS = 64 + 1 };
    uint64_t nodes = atomic_load_explicit(&spread_over, memory_order_relaxed);
    if (nodes && switch_get(SWITCH_SPREAD)) syscall(SYS_mbind, p, size, INTERLEAVE, &nodes, BITS, 0);
}

void *mem_new_huge(size_t bytes) {
    size_t size = mapped(bytes);
    if (!admit() || !size) return NULL;
    char *p = map_aligned(size);
    if (p && wants_huge_pages()) madvise(p, size, MADV_HUGEPAGE);
    if (p) spread(p, size);
    return p;
}

void mem_free_huge(void *p, size_t bytes) {
    if (p) munmap(p, mapped(bytes));
}

/* ---- what is used ---- */

/* "VmHWM:     1234 kB" -> bytes. */
static uint64_t status_value(const char *status, const char *key) {
    const char *line = strstr(status, key);
    return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

void mem_usage(mem_use *out) {
    char *text;
    size_t len;
    *out = (mem_use){0};
    if (file_read("/proc/self/status", 1 << 16, &text, &len, NULL)) return;
    out->mapped = status_value(text, "\nVmSize:");
    out->resident = status_value(text, "\nVmRSS:");
    out->own = status_value(text, "\nRssAnon:");
    out->peak = status_value(text, "\nVmHWM:");
    mem_free(text);
}

void mem_faults(uint64_t *minor, uint64_t *major) {
    struct rusage use = {0};
    getrusage(RUSAGE_SELF, &use);
    *minor = (uint64_t)use.ru_minflt;
    *major = (uint64_t)use.ru_majflt;
}

/* ---- arena ---- */

void *arena_take(arena *a, size_t n, size_t size) {
    size_t bytes, end, start = a->used;
    bool fits = mem_mul(n, size, &bytes) && mem_add(start, bytes, &end) && mem_add(end, ALIGN - 1, &end);
    if (!fits || a->overflow) {
        a->overflow = true;
        return NULL;
    }
    end = end / ALIGN * ALIGN;
    if (a->base && end > a->size) {
        a->overflow = true;
        return NULL;
    }
    a->used = end;
    return a->base ? a->base + start : NULL;
}

/* 0x7FF8FFFF: a NaN as double, float, bf16 and f16 in any half, and far out of range as an index. */
void arena_poison(arena *a) {
    static const unsigned char pattern[4] = {0xFF, 0xFF, 0xF8, 0x7F};
    if (!a->base) return;
    for (size_t i = 0; i < a->size; i++) a->base[i] = (char)pattern[i % 4];
}
