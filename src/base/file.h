/* file.h: the only place that opens files. Paths are bytes; every failure names the path. */
#ifndef CADRE_BASE_FILE_H
#define CADRE_BASE_FILE_H
#include "cadre.h"

typedef struct file_map {
    const unsigned char *data;
    size_t size;
    int fd;
} file_map;

/* Maps a regular file for reading; a directory, FIFO or device is an IO error. An empty file maps to {non-NULL, 0}. */
cadre_err file_open_map(const char *path, file_map *map, cadre_fail *why);
void file_close_map(file_map *map);
/* Copies bytes of the file. Touching mapped bytes ends the process when the file has shrunk since or its disk fails;
 * this is an IO error, which names path, and it leaves no page of the file in the process. */
cadre_err file_map_read(const file_map *map, const char *path, size_t offset, void *dst, size_t len, cadre_fail *why);
/* Tells the kernel that these bytes will soon be read: read ahead. */
void file_map_soon(const file_map *map, size_t offset, size_t len);

/* Whole file into mem_new memory with a terminating 0 that *len does not count; more than `limit` bytes is an error. */
cadre_err file_read(const char *path, size_t limit, char **text, size_t *len, cadre_fail *why);
/* Standard input to its end, same terms. */
cadre_err file_read_stdin(size_t limit, char **text, size_t *len, cadre_fail *why);
/* Writes to a temporary name beside path, syncs, renames: path is old or whole, never half. */
cadre_err file_write(const char *path, const void *data, size_t len, cadre_fail *why);
/* Appends a whole record in one write; makes the file. */
cadre_err file_append(const char *path, const void *data, size_t len, cadre_fail *why);
/* The same, and on the disk when it returns. */
cadre_err file_append_synced(const char *path, const void *data, size_t len, cadre_fail *why);
/* Cuts the file down to its first `size` bytes. */
cadre_err file_cut(const char *path, size_t size, cadre_fail *why);
/* For the standard streams of another process: opened for reading, or made anew for writing; closed on exec, for
 * file_close. */
cadre_err file_open_stream(const char *path, bool writing, int *fd, cadre_fail *why);
void file_close(int fd);
/* Takes the file, which is made for everybody, for this process alone; it is free again after file_close, or when the
 * process ends in any way. `who` is left in it as one line for others to read. BUSY: another has it, and what that one
 * left is told; with `wait` that is waited for (IO if a signal comes meanwhile). */
cadre_err file_lock(const char *path, const char *who, bool wait, int *fd, cadre_fail *why);
/* A new folder parent/prefix-XXXXXX that only this user can enter; its path into out. */
cadre_err file_temp_dir(const char *parent, const char *prefix, char *out, size_t size, cadre_fail *why);
/* Makes the folder, for this user alone, and those above it that are missing. One that is there is fine. */
cadre_err file_make_dir(const char *path, cadre_fail *why);
/* The same, for all to read (as far as the umask allows). */
cadre_err file_make_dir_for_all(const char *path, cadre_fail *why);
/* Removes a file, a link (not what it points to) or an empty folder; one that is not there is an error. */
cadre_err file_remove(const char *path, cadre_fail *why);
/* Bytes that this user may still write on the disk that holds dir. */
cadre_err file_space(const char *dir, uint64_t *bytes, cadre_fail *why);
/* False if nothing is there. What can't be looked at (links in a circle, no permission) may be: opening it tells. */
bool file_exists(const char *path);
bool file_is_dir(const char *path);
/* Names in a folder that end in `suffix`, sorted by bytes: one block of memory, for mem_free. At most 4096 of them. */
cadre_err file_list(const char *dir, const char *suffix, const char ***names, int *count, cadre_fail *why);
/* dir + "/" + name into out; false if it does not fit. */
bool file_join(char *out, size_t size, const char *dir, const char *name);
/* The absolute path without links, "." and ".."; path must exist. */
cadre_err file_canonical(const char *path, char *out, size_t size, cadre_fail *why);
/* For people: the rest of a text that begins with a path below the current folder, from there on; any other text as it
 * is. Points into text. */
const char *file_short(const char *text);
/* The running executable. */
cadre_err file_program(char *out, size_t size, cadre_fail *why);
/* The folder that holds the running executable, for finding what was installed beside it. */
cadre_err file_program_dir(char *out, size_t size, cadre_fail *why);
#endif
