/* folder.h: a folder of its own for a test of the lab, and files in it. */
#ifndef TESTS_LAB_FOLDER_H
#define TESTS_LAB_FOLDER_H
#include "lab/lab.h"
#include "test.h"

#include <sys/stat.h>

static char folder[] = "/tmp/cadre-lab-XXXXXX";

static inline const char *in(const char *name) {
    static char path[16][300];
    static int turn;
    char *p = path[turn++ % 16];
    assert_true(file_join(p, sizeof path[0], folder, name));
    return p;
}

static inline void put(const char *name, const char *text) {
    must(file_write(in(name), text, strlen(text), fail_out));
}

/* An executable text. */
static inline void script(const char *name, const char *text) {
    put(name, text);
    assert_int_equal(chmod(in(name), 0755), 0);
}

static __attribute__((noinline, unused)) char *get(const char *name) {
    char *text = NULL;
    size_t len;
    assert_int_equal(file_read(in(name), 1 << 26, &text, &len, NULL), CADRE_OK);
    return text;
}

static inline int folder_setup(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_teardown(void **state) {
    char line[100];
    (void)state;
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    return system(line) ? -1 : 0;
}
#endif
