/* Law L2: a step allocates nothing. Every allocator of the process is interposed, libraries included; only what libc
 * maps for itself, inside the functions it does not export, goes unseen. */
#include "model/model.h"
#include "test.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__has_feature)
#    if defined(__SANITIZE_ADDRESS__)
#        define HAS_ASAN 1
#    elif __has_feature(address_sanitizer)
#        define HAS_ASAN 1
#    endif
#endif

static _Atomic long calls, heap, maps; /* all; those for memory of the heap; those for mappings */

#ifndef HAS_ASAN
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
int posix_memalign(void **out, size_t align, size_t n);
void *aligned_alloc(size_t align, size_t n);

void *malloc(size_t n) {
    calls++;
    heap++;
    return __libc_malloc(n);
}
void *calloc(size_t a, size_t b) {
    calls++;
    return __libc_calloc(a, b);
}
void *realloc(void *p, size_t n) {
    calls++;
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    calls++;
    return __libc_memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
    calls++;
    *out = __libc_memalign(align, n);
    return *out ? 0 : 12;
}
void free(void *p) {
    calls++;
    __libc_free(p);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    calls++;
    maps++;
    long r = syscall(SYS_mmap, at, n, prot, flags, fd, offset);
    return (void *)r;
}
int munmap(void *at, size_t n) {
    calls++;
    return (int)syscall(SYS_munmap, at, n);
}
#endif

enum { SLOTS = 3 };

/* Prefill and decode steps with sampling; returns allocator calls during them. */
static long decode(cadre_session *s, int steps) {
    int32_t ids[SLOTS][9];
    cadre_chunk chunks[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        for (int j = 0; j < 9; j++) ids[i][j] = 3 + (i * 7 + j * 5) % 80;
        chunks[i] = (cadre_chunk){.slot = i, .n = 9, .ids = ids[i]};
    }
    long before = calls;
    must(cadre_session_step(s, chunks, SLOTS, fail_out));
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < SLOTS; i++) {
            cadre_sampling sampling = {
                .temperature = i * 0.7f, .top_k = i == 2 ? 5 : 0, .top_p = i == 1 ? 0.9f : 0.0f, .seed = 1};
            must(cadre_session_sample(s, i, &sampling, (uint64_t)i, (uint64_t)step, &ids[i][0], fail_out));
            chunks[i].n = 1;
        }
        must(cadre_session_step(s, chunks, SLOTS, fail_out));
    }
    return calls - before;
}

/* ---- allocations planted in the last member of a team ---- */
static void by_cadre(void) {
    mem_free(mem_new(16));
}

/* malloc by a function of libc. */
static void by_libc(void) {
    char *volatile copy = strdup("sixteen letters.");
    free(copy);
}

/* malloc and mmap by another library (the stack of a compiled pattern). */
static void by_library(void) {
    pcre2_jit_stack_free(pcre2_jit_stack_create(4096, 65536, NULL));
}

/* mmap as cadre takes large blocks. */
static void by_huge(void) {
    mem_free_huge(mem_new_huge(1 << 22), 1 << 22);
}

static const struct {
    const char *name;
    void (*allocate)(void);
    bool heap, maps, counted; /* what must have been seen; counted: by cadre_allocations() too */
} plants[] = {{"mem_new", by_cadre, false, false, true},
              {"strdup", by_libc, true, false, false},
              {"pcre2_jit_stack_create", by_library, true, true, false},
              {"mem_new_huge", by_huge, false, true, true}};

static void plant(void *ctx, team *t) {
    if (team_id(t) == team_size(t) - 1) plants[*(int *)ctx].allocate();
}

static void planted_allocations_are_seen(void **state) {
    (void)state;
#ifdef HAS_ASAN
    print_message("skipped: allocators cannot be interposed under ASan\n");
    skip();
#endif
    cadre_device *device = open_device(2);
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    for (int i = 0; i < (int)(sizeof plants / sizeof *plants); i++) {
        if (plants[i].allocate == by_library && !jit) {
            printf("skipped: %s: this PCRE2 has no JIT\n", plants[i].name);
            continue;
        }
        long all = calls, of_heap = heap, of_maps = maps;
        uint64_t counted = cadre_allocations();
        pool_run(device->threads, plant, &i);
        if (calls == all || (plants[i].heap && heap == of_heap) || (plants[i].maps && maps == of_maps) ||
            (plants[i].counted && cadre_allocations() == counted))
            fail_msg("%s: %ld calls, %ld of malloc, %ld of mmap, %d counted", plants[i].name, calls - all,
                     heap - of_heap, maps - of_maps, (int)(cadre_allocations() - counted));
    }
    cadre_device_close(device);
}

static void step_allocates_nothing(void **state) {
    (void)state;
#ifdef HAS_ASAN
    print_message("skipped: allocators cannot be interposed under ASan\n");
    skip();
#endif
    static const char *const models[] = {"qwen3_moe_base", "qwen3_moe_bf16", "qwen2_moe_base", "qwen3_moe_dense_bias"};
    for (int i = 0; i < 4; i++) {
        char dir[256];
        snprintf(dir, sizeof dir, "tests/golden/models/%s", models[i]);
        cadre_device *device = open_device(2);
        cadre_model *model;
        cadre_session *s;
        must(cadre_model_open(device, dir, NULL, &model, fail_out));
        must(cadre_session_new(model, &(cadre_session_options){.slots = SLOTS, .context = 64}, &s, fail_out));
        assert_int_equal(decode(s, 20), 0);
        for (int j = 0; j < SLOTS; j++) must(cadre_session_rewind(s, j, 0, fail_out));
        assert_int_equal(decode(s, 20), 0);
        cadre_session_free(s);
        cadre_model_close(model);
        cadre_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(step_allocates_nothing),
                                       cmocka_unit_test(planted_allocations_are_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
