/* folder.h: temporary model folders for tests of loading, and checks of what a refusal says. */
#ifndef TESTS_MODEL_FOLDER_H
#define TESTS_MODEL_FOLDER_H
#include "model/model.h"
#include "test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* A fresh folder under $TMPDIR or /tmp; its path is borrowed until the next call. */
static UNUSED const char *folder_new(void) {
    static char path[512];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/cadre-test-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static UNUSED void folder_path(char out[1024], const char *dir, const char *name) {
    snprintf(out, 1024, "%s/%s", dir, name);
}

static UNUSED void folder_write(const char *dir, const char *name, const void *data, size_t len) {
    char path[1024];
    folder_path(path, dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static UNUSED void folder_text(const char *dir, const char *name, const char *text) {
    folder_write(dir, name, text, strlen(text));
}

/* Reads a file into malloc'd, terminated memory. */
static UNUSED char *folder_read(const char *dir, const char *name, size_t *len) {
    char path[1024];
    folder_path(path, dir, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    data[*len] = 0;
    fclose(f);
    return data;
}

static UNUSED void folder_copy(const char *from, const char *name, const char *to) {
    size_t len;
    char *data = folder_read(from, name, &len);
    folder_write(to, name, data, len);
    free(data);
}

static UNUSED void folder_remove(const char *dir) {
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        folder_path(path, dir, e->d_name);
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlink(path)) rmdir(path);
    }
    closedir(d);
    rmdir(dir);
}

/* A file of the test's making: 8 bytes of header length, the header, `bytes` bytes of data (byte i is i % 251). */
static UNUSED void folder_tensors(const char *dir, const char *name, const char *header, size_t bytes) {
    size_t n = strlen(header);
    unsigned char *file = malloc(8 + n + bytes);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < bytes; i++) file[8 + n + i] = (unsigned char)(i % 251);
    folder_write(dir, name, file, 8 + n + bytes);
    free(file);
}

/* The refusal has this code, and its line holds every one of the texts (NULL ends them). */
static UNUSED void check_refusal(cadre_err err, const cadre_fail *why, cadre_err code, const char *const *texts) {
    if (err != code) fail_msg("code is %d (%s), expected %d", err, err ? why->text : "ok", code);
    assert_int_equal(why->code, code);
    for (; *texts; texts++)
        if (!strstr(why->text, *texts)) fail_msg("'%s' does not say '%s'", why->text, *texts);
    assert_null(strchr(why->text, '\n'));
}
#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A folder per test, as cmocka's setup and teardown. */
static UNUSED const char *dir;

static UNUSED int folder_make(void **state) {
    (void)state;
    static char kept[512];
    snprintf(kept, sizeof kept, "%s", folder_new());
    dir = kept;
    return 0;
}

static UNUSED int folder_drop(void **state) {
    (void)state;
    folder_remove(dir);
    return 0;
}
#endif
