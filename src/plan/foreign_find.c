/* foreign_find.c: which file of a folder a system would open, and on a miss the one that was probably meant.
 *
 *   vLLM              folder/NAME
 *   SGLang, torchada  folder/triton_3_3_1/NAME    the running version
 *                     folder/triton_3_10_0/NAME   then the others by number, new to old
 *                     folder/triton_3_9_0/NAME
 */
#include "plan/foreign.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 7 }; /* "triton_" */

/* ---- versions ---- */

/* The next part of "3_10_0", -1 for what is no number; *p moves behind it. */
static long part(const char **p) {
    char *end;
    long v = -1;
    if (**p >= '0' && **p <= '9') {
        v = strtol(*p, &end, 10);
        *p = end;
    }
    *p += strcspn(*p, "_");
    *p += **p == '_';
    return v;
}

/* Below 0, 0, above 0 as version a is older than, the same as, newer than b. */
static int compare(const char *a, const char *b) {
    while (*a || *b) {
        long x = part(&a), y = part(&b);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

static int new_first(const void *a, const void *b) {
    const char *x = *(const char *const *)a + PREFIX, *y = *(const char *const *)b + PREFIX;
    int order = compare(y, x);
    return order ? order : strcmp(x, y);
}

/* The folder of the running version. torchada cuts what follows the release, "3.2.0+git1" and "3.2.0rc1". */
static bool exact_folder(foreign_system system, const char *triton, char *text, size_t size) {
    size_t n = system == FOREIGN_TORCHADA ? strspn(triton, "0123456789.") : strlen(triton);
    while (system == FOREIGN_TORCHADA && n && triton[n - 1] == '.') n--;
    int len = snprintf(text, size, "triton_%.*s", (int)n, triton);
    if (!n || len < 0 || (size_t)len >= size || strchr(text, '/')) return false;
    for (char *p = text; *p; p++)
        if (*p == '.') *p = '_';
    return true;
}

bool foreign_is_version(const char *triton) {
    static const char signs[] = "0123456789.+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *triton >= '0' && *triton <= '9' && !triton[strspn(triton, signs)];
}

/* ---- closest ---- */

/* How little a name says what was wanted: the shape weighs most, then types, then the device. */
static int unlike(const foreign_name *want, const foreign_name *have) {
    size_t a = strlen(want->device), b = strlen(have->device), n = a < b ? a : b;
    int device = !strcmp(want->device, have->device) ? 0 : !strncmp(want->device, have->device, n) ? 10 : 150;
    return 200 * (want->e != have->e) + 100 * (want->n != have->n) + device + 40 * (want->dtype != have->dtype) +
           20 * (want->block_n != have->block_n || want->block_k != have->block_k) +
           8 * (want->per_channel != have->per_channel) + 8 * (want->down != have->down) + 4 * (*have->unknown != 0);
}

/* Keeps the best of this folder's names. */
static void weigh(const char *folder, const foreign_name *want, int *best, foreign_place *out) {
    enum { FAR = 300 }; /* another number of experts, or another shape on another device, helps nobody */
    const char **names;
    int count;
    if (file_list(folder, ".json", &names, &count, NULL)) return;
    for (int i = 0; i < count; i++) {
        foreign_name have;
        if (foreign_name_parse(names[i], &have, NULL)) continue;
        char path[sizeof out->closest];
        int cost = unlike(want, &have);
        if (cost >= *best || cost >= FAR || !file_join(path, sizeof path, folder, names[i])) continue;
        if (file_is_dir(path)) continue;
        memcpy(out->closest, path, strlen(path) + 1);
        *best = cost;
    }
    mem_free(names);
}

/* ---- the search ---- */

typedef struct search {
    foreign_system system;
    const char *folder, *wanted; /* wanted: the file name */
    foreign_place *out;
} search;

/* Notes the path and tells whether it is there. */
static bool try_path(search *s, const char *folder, const char *name) {
    char path[sizeof s->out->path];
    size_t n = strlen(s->out->tried);
    if (!file_join(path, sizeof path, folder, name)) return false;
    snprintf(s->out->tried + n, sizeof s->out->tried - n, "%s%s", n ? "\n" : "", path);
    if (!file_exists(path) || file_is_dir(path)) return false;
    memcpy(s->out->path, path, strlen(path) + 1);
    return true;
}

/* torchada makes aliases without blanks, which count as the same file. */
static bool try_folder(search *s, const char *folder) {
    char alias[512];
    size_t n = 0;
    if (try_path(s, folder, s->wanted)) return true;
    if (s->system != FOREIGN_TORCHADA || !strchr(s->wanted, ' ')) return false;
    for (const char *p = s->wanted; *p && n + 1 < sizeof alias; p++)
        if (*p != ' ') alias[n++] = *p;
    alias[n] = 0;
    return try_path(s, folder, alias);
}

/* The folders triton_... below s->folder from new to old: one block for mem_free, as file_list gives it. */
static cadre_err versions(const search *s, const char ***names, int *count, cadre_fail *why) {
    cadre_err err = file_list(s->folder, "", names, count, why);
    int kept = 0;
    if (err) return err;
    for (int i = 0; i < *count; i++)
        if (!strncmp((*names)[i], "triton_", PREFIX)) (*names)[kept++] = (*names)[i];
    qsort(*names, (size_t)kept, sizeof **names, new_first);
    *count = kept;
    return CADRE_OK;
}

static cadre_err search_versions(search *s, const char *triton, cadre_fail *why) {
    char exact[64] = "", folder[sizeof s->out->path];
    const char **names;
    int count;
    bool known = triton && exact_folder(s->system, triton, exact, sizeof exact);
    cadre_err err = versions(s, &names, &count, why);
    if (err) return err;
    bool found = known && file_join(folder, sizeof folder, s->folder, exact) && try_folder(s, folder);
    for (int i = 0; i < count && !found; i++) {
        if (!strcmp(names[i], exact) || !file_join(folder, sizeof folder, s->folder, names[i])) continue;
        found = s->out->other_version = try_folder(s, folder);
    }
    s->out->no_versions = !count;
    if (!count && !*s->out->tried && file_join(folder, sizeof folder, s->folder, "triton_*")) try_folder(s, folder);
    mem_free(names);
    return CADRE_OK;
}

/* Also where the system does not look: a file in the wrong place is the usual mistake. Its own places come first. */
static void find_closest(const search *s, const foreign_name *want) {
    char folder[sizeof s->out->path];
    const char **names = NULL;
    int count = 0, best = INT_MAX;
    if (s->system == FOREIGN_VLLM) weigh(s->folder, want, &best, s->out);
    if (versions(s, &names, &count, NULL)) return;
    for (int i = 0; i < count; i++)
        if (file_join(folder, sizeof folder, s->folder, names[i])) weigh(folder, want, &best, s->out);
    mem_free(names);
    if (s->system != FOREIGN_VLLM) weigh(s->folder, want, &best, s->out);
}

cadre_err foreign_find(foreign_system system, const char *folder, const char *triton, const foreign_name *name,
                       foreign_place *out, cadre_fail *why) {
    char wanted[512];
    foreign_place place = {{0}, {0}, {0}, false, false};
    search s = {system, folder, wanted, &place};
    if (!foreign_name_print(system, name, wanted, sizeof wanted))
        return cadre_fail_set(why, CADRE_RANGE, "%s has no table of this kind for device '%.60s'",
                              foreign_names[system], name->device);
    foreign_name want = *name;
    foreign_name_parse(wanted, &want, NULL); /* with the device as files write it */
    if (!file_is_dir(folder)) return cadre_fail_set(why, CADRE_IO, "%.300s: expected a folder of tables", folder);
    cadre_err err = CADRE_OK;
    if (system != FOREIGN_VLLM)
        err = search_versions(&s, triton, why);
    else
        try_folder(&s, folder);
    if (!err && !*place.path) find_closest(&s, &want);
    if (!err) *out = place;
    return err;
}
