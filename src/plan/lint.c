/* lint.c: findings are collected; folders are walked. The checks are in lint_foreign.c
 * and lint_native.c. */
#include "plan/lint.h"
#include "plan/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void lint_init(lint *l, const lint_options *options) {
    *l = (lint){.options = *options};
}

void lint_done(lint *l) {
    for (int i = 0; i < l->name_count; i++) mem_free(l->names[i]);
    mem_free(l->names);
    mem_free(l->findings);
    *l = (lint){0};
}

/* Room for one more of `size` bytes; NULL marks the lint as failed. */
static void *grow(lint *l, void *block, int count, int *cap, size_t size) {
    if (count < *cap) return block;
    int more = *cap ? *cap * 2 : 64;
    void *grown = mem_resize(block, (size_t)*cap * size, (size_t)more * size);
    if (grown)
        *cap = more;
    else
        l->failed = true;
    return grown;
}

const char *lint_keep(lint *l, const char *path) {
    if (l->name_count && !strcmp(l->names[l->name_count - 1], path)) return l->names[l->name_count - 1];
    char **names = grow(l, l->names, l->name_count, &l->name_cap, sizeof *names);
    char *copy = names ? mem_copy_text(path, strlen(path)) : NULL;
    if (names) l->names = names;
    if (!copy) {
        l->failed = true;
        return "";
    }
    return l->names[l->name_count++] = copy;
}

void lint_add(lint *l, const char *rule, int level, const char *file, int line, const char *key, const char *format,
              ...) {
    lint_finding *findings = grow(l, l->findings, l->count, &l->cap, sizeof *findings);
    const lint_rule *r = lint_rule_find(rule);
    if (!findings || !r) return;
    l->findings = findings;
    lint_finding *f = &findings[l->count++];
    *f = (lint_finding){.rule = r, .level = level < 0 ? r->level : (lint_level)level, .file = file, .line = line};
    snprintf(f->key, sizeof f->key, "%s", key ? key : "");
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

int lint_count(const lint *l, const char *rule, lint_level least) {
    int n = 0;
    for (int i = 0; i < l->count; i++)
        n += l->findings[i].level >= least && (!rule || !strcmp(l->findings[i].rule->id, rule));
    return n;
}

/* ---- walking ---- */

enum { TABLE_MOST = 16 << 20, DEPTH_MOST = 16, PATH_MOST = 4096 };

/* Does `text` hold `word`? text is terminated but may hold zeros before. */
static bool holds(const char *text, size_t len, const char *word) {
    return memmem(text, len, word, strlen(word)) != NULL;
}

/* Tables of experts have E= in their names; a folder also holds tables of other kernels (dense products, LoRA), which
 * have loaders of their own. What speaks of experts and of tiles was meant to be one. */
static bool looks_like_table(const char *path, const char *text, size_t len) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!strncmp(name, "E=", 2) || strstr(name, ",E=")) return true;
    if (strstr(name, "device_name=")) return false;
    return holds(text, len, "\"BLOCK_SIZE_M\"") || (holds(text, len, "\"block_m\"") && holds(text, len, "\"experts\""));
}

static cadre_err lint_text(lint *l, const char *path, bool named, cadre_fail *why) {
    char *text;
    size_t len;
    cadre_err err = file_read(path, TABLE_MOST, &text, &len, why);
    if (err) return err;
    bool native = native_is_table(text, len), taken = native || named || looks_like_table(path, text, len);
    if (native)
        lint_native(l, path, text, len);
    else if (taken)
        lint_foreign(l, path, text, len);
    l->files += taken, l->skipped += !taken;
    mem_free(text);
    return l->failed ? cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory for findings", path) : CADRE_OK;
}

static bool ends(const char *text, const char *tail) {
    size_t n = strlen(text), t = strlen(tail);
    return n > t && !strcmp(text + n - t, tail);
}

static cadre_err walk(lint *l, const char *dir, int depth, cadre_fail *why) {
    const char **names;
    int count;
    if (depth > DEPTH_MOST) return CADRE_OK; /* links in a circle */
    cadre_err err = file_list(dir, "", &names, &count, why);
    if (err) return err;
    for (int i = 0; i < count && !err; i++) {
        char path[PATH_MOST];
        if (names[i][0] == '.' || !file_join(path, sizeof path, dir, names[i])) continue;
        if (file_is_dir(path))
            err = walk(l, path, depth + 1, why);
        else if (ends(path, ".json") || ends(path, NATIVE_SUFFIX))
            err = lint_text(l, path, false, why);
    }
    mem_free(names);
    return err;
}

cadre_err lint_path(lint *l, const char *path, cadre_fail *why) {
    return file_is_dir(path) ? walk(l, path, 0, why) : lint_text(l, path, true, why);
}
