/* cache.c: entries are checked to the last byte when they are read, so nothing needs locks or repair. */
#include "dev/cache.h"
#include <stdio.h>
#include <string.h>

enum { DIGITS = 20, HEAD = 12 + 2 + 65 + 65 + DIGITS + 1, LARGEST = 1 << 30, PATH = SWITCH_TEXT_MAX + 80 };

const char *cache_dir(void) {
    const char *dir = switch_text(SWITCH_CACHE);
    return *dir && strcmp(dir, "off") ? dir : NULL;
}

static bool entry_path(const char *key, char path[PATH]) {
    char name[80];
    snprintf(name, sizeof name, "%.64s.cubin", key);
    return cache_dir() && file_join(path, PATH, cache_dir(), name);
}

/* What the file of this binary begins with: one line, always of the same length. */
static void head(const char *key, const void *data, size_t size, char line[HEAD + 1]) {
    char sha[65];
    cadre_sha256(data, size, sha);
    snprintf(line, HEAD + 1, "cadre-cubin 1 %.64s %s %0*zu\n", key, sha, DIGITS, size);
}

/* The whole head is made again from the binary that follows it: whatever was changed, somewhere they differ. */
static bool whole(const char *key, const char *file, size_t len) {
    char line[HEAD + 1];
    if (len <= HEAD) return false;
    head(key, file + HEAD, len - HEAD, line);
    return !memcmp(line, file, HEAD);
}

bool cache_get(const char *key, void **data, size_t *size) {
    char path[PATH], *file;
    size_t len;
    cadre_fail why = {0};
    if (!entry_path(key, path) || !file_exists(path)) return false;
    if (file_read(path, LARGEST, &file, &len, &why)) {
        log_once("kernel cache: %.400s; the kernel is compiled again", why.text);
        return false;
    }
    bool good = whole(key, file, len);
    void *copy = good ? mem_new(len - HEAD) : NULL; /* its own block: aligned */
    if (copy) {
        memcpy(copy, file + HEAD, len - HEAD);
        *data = copy;
        *size = len - HEAD;
    } else if (!good) {
        log_once("kernel cache: %.380s: is not what was kept; the kernel is compiled again", path);
    }
    mem_free(file);
    return copy != NULL;
}

void cache_put(const char *key, const void *data, size_t size) {
    char path[PATH], line[HEAD + 1];
    cadre_fail why = {0};
    size_t len;
    if (!entry_path(key, path) || !mem_add(size, HEAD, &len) || !size || len > LARGEST) return;
    char *file = mem_new(len);
    if (!file) return;
    head(key, data, size, line);
    memcpy(file, line, HEAD);
    memcpy(file + HEAD, data, size);
    cadre_err err = file_make_dir(cache_dir(), &why);
    if (!err) err = file_write(path, file, len, &why);
    if (err) log_once("kernel cache: %.380s; kernels are compiled in every process", why.text);
    mem_free(file);
}
