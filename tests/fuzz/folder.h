/* folder.h: a scratch folder for fuzz targets whose subject reads files; removed at exit. */
#ifndef TESTS_FUZZ_FOLDER_H
#define TESTS_FUZZ_FOLDER_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];
static const char *folder_files[4];

static void folder_remove(void) {
    char path[300];
    for (int i = 0; i < 4 && folder_files[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folder_files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void must_be(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "this must hold: %s\n", what);
    abort();
}
#define MUST(c) must_be((c) != 0, #c)

/* Makes the folder once. */
static void folder_make(void) {
    const char *base = getenv("TMPDIR");
    if (*folder) return;
    snprintf(folder, sizeof folder, "%.200s/cadre-fuzz-XXXXXX", base && *base ? base : "/tmp");
    MUST(mkdtemp(folder));
    atexit(folder_remove);
}

/* `name` must be a literal; at most four names. */
static void folder_write(const char *name, const void *data, size_t size) {
    char path[300];
    int i = 0;
    while (i < 4 && folder_files[i] && strcmp(folder_files[i], name)) i++;
    MUST(i < 4);
    folder_files[i] = name;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    MUST(f);
    MUST(fwrite(data, 1, size, f) == size);
    MUST(!fclose(f));
}
#endif
