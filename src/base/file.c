/* file.c: files and folders. Nothing else opens, writes or renames them. */
#include "file.h"
#include "err.h"
#include "mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static cadre_err failed(cadre_fail *why, const char *path, const char *what) {
    int code = errno;
    return cadre_fail_set(why, CADRE_IO, "%.300s: cannot %s: %s", path, what, strerror(code));
}

/* Without O_NONBLOCK the open of a FIFO would wait for a writer that may never come. */
static cadre_err open_read(const char *path, int *fd, struct stat *st, cadre_fail *why) {
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0) return failed(why, path, "open");
    if (fstat(f, st)) {
        failed(why, path, "look at");
        close(f);
        return CADRE_IO;
    }
    if (S_ISDIR(st->st_mode)) {
        close(f);
        return cadre_fail_set(why, CADRE_IO, "%.300s: expected a file, found a folder", path);
    }
    *fd = f;
    return CADRE_OK;
}

/* ---- maps ---- */

static const unsigned char nothing[1];

cadre_err file_open_map(const char *path, file_map *map, cadre_fail *why) {
    int fd = -1;
    struct stat st;
    cadre_err err = open_read(path, &fd, &st, why);
    if (err) return err;
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return cadre_fail_set(why, CADRE_IO, "%.300s: expected a regular file", path);
    }
    const void *data = nothing;
    if (st.st_size > 0) data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        err = failed(why, path, "map");
        close(fd);
    }
    if (!err) *map = (file_map){data, (size_t)st.st_size, fd};
    return err;
}

void file_close_map(file_map *map) {
    if (map->data && map->size) munmap((void *)(uintptr_t)map->data, map->size);
    if (map->data) close(map->fd);
    *map = (file_map){0};
}

cadre_err file_map_read(const file_map *map, const char *path, size_t offset, void *dst, size_t len, cadre_fail *why) {
    for (char *to = dst; len;) {
        ssize_t n = pread(map->fd, to, len, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(why, path, "read");
        if (n == 0)
            return cadre_fail_set(why, CADRE_IO, "%.300s: ends at byte %zu, expected %zu: it shrank while it was read",
                                  path, offset, map->size);
        to += n;
        offset += (size_t)n;
        len -= (size_t)n;
    }
    return CADRE_OK;
}

/* Every page that the range touches. */
void file_map_soon(const file_map *map, size_t offset, size_t len) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (offset >= map->size) return;
    size_t end = len > map->size - offset ? map->size : offset + len, from = offset / page * page;
    madvise((void *)(uintptr_t)(map->data + from), end - from, MADV_WILLNEED);
}

/* ---- whole files ---- */

static cadre_err too_big(cadre_fail *why, const char *path, size_t limit) {
    return cadre_fail_set(why, CADRE_IO, "%.300s: larger than the limit of %zu bytes", path, limit);
}

/* Reads fd to its end; `guess` is the expected size. The buffer always has room for one byte more than was read, so
 * that the end of file is seen without growing. */
static cadre_err read_all(int fd, const char *path, size_t guess, size_t limit, char **text, size_t *len,
                          cadre_fail *why) {
    if (guess > limit) return too_big(why, path, limit);
    size_t cap = guess + 2, n = 0;
    char *buf = mem_new(cap);
    while (buf) {
        ssize_t got = read(fd, buf + n, cap - 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) failed(why, path, "read");
        if (got > 0) n += (size_t)got;
        if (n > limit) too_big(why, path, limit);
        if (got < 0 || n > limit) {
            mem_free(buf);
            return CADRE_IO;
        }
        if (!got) {
            buf[n] = 0;
            *text = buf;
            *len = n;
            return CADRE_OK;
        }
        if (n + 1 < cap) continue;
        size_t more = cap < 4096 ? 8192 : cap * 2;
        char *grown = more > cap ? mem_resize(buf, n, more) : NULL;
        if (!grown) mem_free(buf);
        buf = grown;
        cap = more;
    }
    return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory while reading", path);
}

cadre_err file_read(const char *path, size_t limit, char **text, size_t *len, cadre_fail *why) {
    int fd = -1;
    struct stat st;
    cadre_err err = open_read(path, &fd, &st, why);
    if (err) return err;
    if (!S_ISREG(st.st_mode)) fcntl(fd, F_SETFL, O_RDONLY); /* pipes: now wait for what comes */
    size_t guess = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    err = read_all(fd, path, guess, limit, text, len, why);
    close(fd);
    return err;
}

cadre_err file_read_stdin(size_t limit, char **text, size_t *len, cadre_fail *why) {
    return read_all(STDIN_FILENO, "standard input", 0, limit, text, len, why);
}

static bool write_all(int fd, const void *data, size_t len) {
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* A device or a pipe can't be replaced by a renamed file (and must not be: think of /dev/null). */
static cadre_err write_special(const char *path, const void *data, size_t len, cadre_fail *why) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return failed(why, path, "open");
    cadre_err err = write_all(fd, data, len) ? CADRE_OK : failed(why, path, "write");
    close(fd);
    return err;
}

/* Makes the rename itself durable; file systems that refuse are left alone. */
static void sync_folder(const char *path) {
    char dir[4096];
    const char *slash = strrchr(path, '/');
    int n = snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (n < 0 || (size_t)n >= sizeof dir) return;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

cadre_err file_write(const char *path, const void *data, size_t len, cadre_fail *why) {
    static _Atomic unsigned serial;
    char temp[4096];
    struct stat st;
    bool there = !stat(path, &st);
    if (there && S_ISDIR(st.st_mode)) return cadre_fail_set(why, CADRE_IO, "%.300s: is a folder", path);
    if (there && !S_ISREG(st.st_mode)) return write_special(path, data, len, why);
    int n = snprintf(temp, sizeof temp, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    if (n < 0 || (size_t)n >= sizeof temp) return cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return failed(why, path, "make");
    if (there) (void)!fchmod(fd, st.st_mode & 0777);
    cadre_err err = write_all(fd, data, len) && !fsync(fd) ? CADRE_OK : failed(why, path, "write");
    if (close(fd) && !err) err = failed(why, path, "write");
    if (!err && rename(temp, path)) err = failed(why, path, "rename to");
    if (err)
        unlink(temp);
    else
        sync_folder(path);
    return err;
}

static cadre_err append(const char *path, const void *data, size_t len, bool sync, cadre_fail *why) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return failed(why, path, "open");
    cadre_err err = CADRE_OK;
    ssize_t n;
    do n = write(fd, data, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        err = failed(why, path, "append to");
    else if ((size_t)n != len)
        err = cadre_fail_set(why, CADRE_IO, "%.300s: only %zd of %zu bytes could be appended", path, n, len);
    else if (sync && fsync(fd))
        err = failed(why, path, "append to");
    if (close(fd) && !err) err = failed(why, path, "append to");
    return err;
}

cadre_err file_append(const char *path, const void *data, size_t len, cadre_fail *why) {
    return append(path, data, len, false, why);
}

cadre_err file_append_synced(const char *path, const void *data, size_t len, cadre_fail *why) {
    return append(path, data, len, true, why);
}

cadre_err file_cut(const char *path, size_t size, cadre_fail *why) {
    return truncate(path, (off_t)size) ? failed(why, path, "cut") : CADRE_OK;
}

/* ---- for others ---- */

cadre_err file_open_stream(const char *path, bool writing, int *fd, cadre_fail *why) {
    int f = open(path, O_CLOEXEC | (writing ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY), 0666);
    if (f < 0) return failed(why, path, writing ? "make" : "open");
    *fd = f;
    return CADRE_OK;
}

void file_close(int fd) {
    close(fd);
}

/* In a folder that all may write to, the kernel may refuse O_CREAT on a file of somebody else; reading is enough for a
 * lock. */
static int open_lock(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) (void)!fchmod(fd, 0666); /* whatever the umask */
    return fd;
}

static cadre_err held(int fd, const char *path, cadre_fail *why) {
    char who[200];
    ssize_t n = pread(fd, who, sizeof who - 1, 0);
    who[n > 0 ? n : 0] = 0;
    who[strcspn(who, "\n")] = 0;
    return cadre_fail_set(why, CADRE_BUSY, "%.300s: taken by %s", path, *who ? who : "another process");
}

cadre_err file_lock(const char *path, const char *who, bool wait, int *fd, cadre_fail *why) {
    int f = open_lock(path);
    if (f < 0) return failed(why, path, "open");
    if (flock(f, LOCK_EX | (wait ? 0 : LOCK_NB))) {
        cadre_err err = errno == EWOULDBLOCK ? held(f, path, why) : failed(why, path, "lock");
        close(f);
        return err;
    }
    if (!ftruncate(f, 0)) (void)!pwrite(f, who, strlen(who), 0);
    *fd = f;
    return CADRE_OK;
}

/* ---- folders ---- */

cadre_err file_temp_dir(const char *parent, const char *prefix, char *out, size_t size, cadre_fail *why) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s-XXXXXX", parent, prefix);
    if (n < 0 || (size_t)n >= sizeof path || (size_t)n >= size)
        return cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", parent);
    if (!mkdtemp(path)) return failed(why, parent, "make a folder in it");
    memcpy(out, path, (size_t)n + 1);
    return CADRE_OK;
}

static cadre_err make_dirs(const char *path, mode_t mode, cadre_fail *why) {
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (!len || len >= sizeof part)
        return cadre_fail_set(why, CADRE_IO, "%.300s: the path of a folder is %s", path, len ? "too long" : "empty");
    memcpy(part, path, len + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(part, mode); /* a failure shows when the last one is made */
        *p = '/';
    }
    if (!mkdir(part, mode) || file_is_dir(part)) return CADRE_OK;
    return failed(why, path, "make the folder");
}

cadre_err file_make_dir(const char *path, cadre_fail *why) {
    return make_dirs(path, 0700, why);
}

cadre_err file_make_dir_for_all(const char *path, cadre_fail *why) {
    return make_dirs(path, 0755, why);
}

cadre_err file_remove(const char *path, cadre_fail *why) {
    return remove(path) ? failed(why, path, "remove") : CADRE_OK;
}

cadre_err file_space(const char *dir, uint64_t *bytes, cadre_fail *why) {
    struct statvfs disk;
    if (statvfs(dir, &disk)) return failed(why, dir, "look at its disk");
    *bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return CADRE_OK;
}

typedef struct names {
    char *text; /* one after the other, each terminated */
    size_t len, cap;
    int count;
} names;

static bool add_name(names *n, const char *name) {
    size_t size = strlen(name) + 1;
    if (n->len + size > n->cap) {
        size_t cap = 2 * n->cap + size + 256;
        char *grown = mem_resize(n->text, n->cap, cap);
        if (!grown) return false;
        n->text = grown, n->cap = cap;
    }
    memcpy(n->text + n->len, name, size);
    n->len += size;
    n->count++;
    return true;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The pointers, then what they point to. */
static const char **one_block(const names *n) {
    size_t head = ((size_t)n->count + 1) * sizeof(char *);
    const char **all = mem_new(head + n->len);
    if (!all) return NULL;
    char *text = (char *)all + head;
    if (n->len) memcpy(text, n->text, n->len);
    for (int i = 0; i < n->count; i++, text += strlen(text) + 1) all[i] = text;
    qsort(all, (size_t)n->count, sizeof *all, by_bytes);
    return all;
}

cadre_err file_list(const char *dir, const char *suffix, const char ***out, int *count, cadre_fail *why) {
    enum { MOST = 4096 };
    names n = {0};
    bool room = true;
    struct dirent *entry;
    DIR *d = opendir(dir);
    if (!d) return failed(why, dir, "open the folder");
    while (room && n.count <= MOST && (entry = readdir(d))) {
        size_t len = strlen(entry->d_name), tail = strlen(suffix);
        if (len > tail && !strcmp(entry->d_name + len - tail, suffix)) room = add_name(&n, entry->d_name);
    }
    closedir(d);
    const char **all = room && n.count <= MOST ? one_block(&n) : NULL;
    mem_free(n.text);
    if (n.count > MOST)
        return cadre_fail_set(why, CADRE_RANGE, "%.300s: more than %d files end in %s", dir, MOST, suffix);
    if (!all) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the names in %.300s", dir);
    *out = all, *count = n.count;
    return CADRE_OK;
}

/* ---- names ---- */

bool file_exists(const char *path) {
    struct stat st;
    return !stat(path, &st) || (errno != ENOENT && errno != ENOTDIR);
}

bool file_is_dir(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool file_join(char *out, size_t size, const char *dir, const char *name) {
    size_t d = strlen(dir);
    int n = snprintf(out, size, "%s%s%s", dir, d && dir[d - 1] == '/' ? "" : "/", name);
    return n >= 0 && (size_t)n < size;
}

cadre_err file_program(char *out, size_t size, cadre_fail *why) {
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0) return failed(why, "/proc/self/exe", "read");
    out[n] = 0;
    if (!strchr(out, '/')) return cadre_fail_set(why, CADRE_IO, "/proc/self/exe: expected a path, found '%.100s'", out);
    return (size_t)n == size - 1 ? cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", out) : CADRE_OK;
}

cadre_err file_program_dir(char *out, size_t size, cadre_fail *why) {
    char path[4096];
    cadre_err err = file_program(path, sizeof path, why);
    if (err) return err;
    char *slash = strrchr(path, '/');
    slash[slash == path] = 0;
    if (strlen(path) >= size) return cadre_fail_set(why, CADRE_IO, "%.300s: path too long", path);
    memcpy(out, path, strlen(path) + 1);
    return CADRE_OK;
}

cadre_err file_canonical(const char *path, char *out, size_t size, cadre_fail *why) {
    char full[PATH_MAX];
    if (!realpath(path, full)) return failed(why, path, "find");
    if (strlen(full) >= size) return cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", full);
    memcpy(out, full, strlen(full) + 1);
    return CADRE_OK;
}

const char *file_short(const char *text) {
    char here[PATH_MAX];
    if (*text != '/' || !getcwd(here, sizeof here)) return text;
    size_t n = strlen(here);
    bool below = n > 1 && !strncmp(text, here, n) && text[n] == '/' && text[n + 1];
    return below ? text + n + 1 : text;
}
