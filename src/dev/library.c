/* library.c: the only file that calls the loader. */
#include "dev/library.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static void where(void *handle, const char *name, char found[LIBRARY_PATH]) {
    struct link_map *map;
    const char *path = !dlinfo(handle, RTLD_DI_LINKMAP, &map) && *map->l_name ? map->l_name : name;
    snprintf(found, LIBRARY_PATH, "%s", path);
}

/* The loader's word begins with the path as a rule. */
static cadre_err not_opened(const char *name, cadre_fail *why) {
    const char *text = dlerror();
    if (!text) text = "cannot be opened";
    if (!strncmp(text, name, strlen(name))) return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.400s", text);
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.200s: %.200s", name, text);
}

cadre_err library_open(const char *path, const char *const *names, void **handle, char found[LIBRARY_PATH],
                       cadre_fail *why) {
    const char *only[] = {path, NULL}, *first = *path ? path : *names;
    for (const char *const *name = *path ? only : names; *name; name++) {
        void *h = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (!h) continue;
        where(h, *name, found);
        *handle = h;
        return CADRE_OK;
    }
    dlerror();
    dlopen(first, RTLD_NOW | RTLD_LOCAL); /* for its word */
    return not_opened(first, why);
}

void library_preload(const char *beside, const char *name) {
    char path[LIBRARY_PATH + 64];
    const char *slash = strrchr(beside, '/');
    int n = slash ? snprintf(path, sizeof path, "%.*s/%s", (int)(slash - beside), beside, name) : -1;
    if (n > 0 && n < (int)sizeof path) dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open; no harm if it fails */
}

cadre_err library_bind(void *handle, const char *const *symbols, int count, library_fn **table, cadre_fail *why) {
    for (int i = 0; i < count; i++) {
        void *p = dlsym(handle, symbols[i]);
        if (!p) return cadre_fail_set(why, CADRE_UNSUPPORTED, "it lacks %s", symbols[i]);
        memcpy(&table[i], &p, sizeof p); /* C has no cast from data to code */
    }
    return CADRE_OK;
}
