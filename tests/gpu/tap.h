/* tap.h: what a GPU test prints: one line each, "ok 3 - ..." or "not ok 3 - ...", and totals at the end. No test
 * library is needed where it runs. */
#ifndef TESTS_GPU_TAP_H
#define TESTS_GPU_TAP_H
#include "base/base.h"
#include "dev/cuda.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_passed, tap_failed, tap_skipped;
static int tap_part, tap_parts; /* only compile, what is this part's of so many; 0: test */
static bool tap_few; /* under a sanitizer: what takes long with few cases, nothing that breaks the GPU on purpose */

static inline void tap_line(void *ctx, const char *line) {
    (void)ctx;
    printf("# %s\n", line);
}

/* The arguments are switches, "nvrtc=/path", or "few", or "compile=2/5". What the library says is printed. */
static inline void tap_start(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not take lines with it */
    cadre_listen(tap_line, NULL);
    for (int i = 1; i < argc; i++) {
        cadre_fail why = {0};
        if (!strcmp(argv[i], "few")) {
            tap_few = true;
            continue;
        }
        if (sscanf(argv[i], "compile=%d/%d", &tap_part, &tap_parts) == 2 && tap_parts > 0) continue;
        if (!cadre_set(argv[i], &why)) continue;
        printf("not ok - %s\n", why.text);
        exit(2);
    }
}

static inline bool tap(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool tap(bool ok, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%sok %d - ", ok ? "" : "not ", tap_passed + tap_failed + tap_skipped + 1);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    ok ? tap_passed++ : tap_failed++;
    return ok;
}

/* Did the call succeed? Its error is printed if not. */
static inline bool tap_call(cadre_err err, const cadre_fail *why, const char *what) {
    return err ? tap(false, "%s: %s", what, why->text) : tap(true, "%s", what);
}

static inline void tap_skip(const char *what, const char *reason) {
    printf("ok %d - %s # SKIP %s\n", tap_passed + tap_failed + ++tap_skipped, what, reason);
}

static inline int tap_end(void) {
    printf("1..%d\n%d passed, %d failed, %d skipped\n", tap_passed + tap_failed + tap_skipped, tap_passed, tap_failed,
           tap_skipped);
    return tap_failed > 0;
}
#endif
