/* stand_in.h: a test program's hold on the stand-in for driver and compiler: it is loaded once, before each test it is
 * as new and the switches name it, and one call of it can be made to fail. */
#ifndef TESTS_DEV_FAKE_STAND_IN_H
#define TESTS_DEV_FAKE_STAND_IN_H
#include "fake.h"
#include "test.h"
#include <dlfcn.h>

static fake_state *f;
static void (*reset)(void);
static cadre_fail why;
static char library[600];

static void use(const char *name, const char *path) {
    char line[700];
    snprintf(line, sizeof line, "%s=%s", name, path);
    set_switch(line);
}

/* For a program in BUILD/tests/ROOM. */
static void load(void) {
    char here[512];
    must(file_program_dir(here, sizeof here, fail_out));
    snprintf(library, sizeof library, "%s/../../fake/libfake.so", here);
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) fail_msg("%s", dlerror());
    f = dlsym(handle, "fake");
    void *p = dlsym(handle, "fake_reset");
    memcpy(&reset, &p, sizeof p);
}

static int each(void **state) {
    (void)state;
    reset();
    use("cuda", library);
    use("nvrtc", library);
    use("cache", "off");
    why = (cadre_fail){0};
    return 0;
}

static void trip(const char *call, int64_t after, int code, bool sticky) {
    f->fail_call = call;
    f->fail_after = after;
    f->fail_code = code;
    f->sticky = sticky;
}

static void nothing_left(const char *call) {
    int left = f->contexts + f->allocations + f->streams + f->events + f->graphs + f->modules + f->programs;
    if (left || f->used) fail_msg("after %s, %d things are left, %zu bytes", call, left, f->used);
}
#endif
