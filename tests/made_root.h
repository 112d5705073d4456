/* made_root.h: a folder in which a test makes a tree of /proc, /sys or /etc, there from its group's set-up to its end.
 */
#ifndef TESTS_MADE_ROOT_H
#define TESTS_MADE_ROOT_H
#include <stdio.h>
#include <stdlib.h>

static char root[] = "/tmp/cadre-test-XXXXXX";

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}
static int remove_root(void **state) {
    char line[64];
    (void)state;
    snprintf(line, sizeof line, "rm -rf '%s'", root);
    return system(line);
}
#endif
