/* nvrtc_find.h: the real NVRTC for a test: where the loader finds it, or where tools/nvrtc.sh put it. */
#ifndef TESTS_DEV_NVRTC_FIND_H
#define TESTS_DEV_NVRTC_FIND_H
#include "dev/nvrtc.h"
#include <stdio.h>
#include <stdlib.h>

/* NULL, with a line, where there is none; then tests that need it skip. CADRE_NVRTC names a library. */
static inline const nvrtc *nvrtc_find(void) {
    const nvrtc *rtc = NULL;
    cadre_fail why = {0};
    char line[700];
    const char *path = getenv("CADRE_NVRTC");
    if (path && *path) {
        snprintf(line, sizeof line, "nvrtc=%s", path);
        if (cadre_set(line, &why)) printf("%s\n", why.text);
    }
    if (nvrtc_open(&rtc, &why)) printf("skipped: %s (sh tools/nvrtc.sh gets it)\n", why.text);
    return rtc;
}
#endif
