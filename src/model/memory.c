/* memory.c: what a model and its session need in memory, by part, before any of it is taken; and whether it fits. */
#include "model/session.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} parts[] = {
    {"embedding", offsetof(cadre_memory, embedding)}, {"head", offsetof(cadre_memory, head)},
    {"attention", offsetof(cadre_memory, attention)}, {"experts", offsetof(cadre_memory, experts)},
    {"shared", offsetof(cadre_memory, shared)},       {"router", offsetof(cadre_memory, router)},
    {"norms", offsetof(cadre_memory, norms)},         {"cache", offsetof(cadre_memory, cache)},
    {"scratch", offsetof(cadre_memory, scratch)},
};

const char *cadre_memory_part(const cadre_memory *m, int i, size_t *bytes) {
    if (i < 0 || i >= (int)(sizeof parts / sizeof *parts)) return NULL;
    memcpy(bytes, (const char *)m + parts[i].at, sizeof *bytes);
    return parts[i].name;
}

/* At the largest size rather than around it. */
static void add_up(cadre_memory *m) {
    const char *name;
    size_t bytes = 0;
    m->total = 0;
    for (int i = 0; (name = cadre_memory_part(m, i, &bytes)); i++)
        if (!mem_add(m->total, bytes, &m->total)) m->total = SIZE_MAX;
}

cadre_err cadre_memory_plan(const cadre_model *model, const cadre_session_options *options, cadre_memory *out,
                            cadre_fail *why) {
    if (!model || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_memory_plan: an argument is NULL");
    cadre_memory m = model->memory;
    cadre_err err = options ? session_size(model, options, &m.cache, &m.scratch, why) : CADRE_OK;
    if (err) return err;
    add_up(&m);
    m.available = dev_memory_available();
    *out = m;
    return CADRE_OK;
}

/* "experts 12.0, head 3.1" */
static void list_parts(const cadre_memory *m, char *text, size_t size) {
    const char *name;
    size_t bytes, n = 0;
    text[0] = 0;
    for (int i = 0; (name = cadre_memory_part(m, i, &bytes)) && n < size; i++)
        if (bytes) n += (size_t)snprintf(text + n, size - n, "%s%s %.1f", n ? ", " : "", name, (double)bytes / 1e6);
}

cadre_err cadre_memory_check(const cadre_memory *m, const char *what, cadre_fail *why) {
    char list[256];
    if (m->total <= m->available) return CADRE_OK;
    list_parts(m, list, sizeof list);
    double need = (double)m->total / 1e6, have = (double)m->available / 1e6;
    if (switch_get(SWITCH_FIT))
        return cadre_fail_set(why, CADRE_NOMEM, "%.150s: does not fit: needs %.1f MB (%s), have %.1f MB", what, need,
                              list, have);
    log_once("%.150s: needs %.1f MB (%s), have %.1f MB: it will be swapped, or ended by the system", what, need, list,
             have);
    return CADRE_OK;
}
