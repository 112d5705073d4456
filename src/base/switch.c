/* switch.c: values of base's switches, and the parser of "name=value" for every registry. */
#include "switch.h"
#include "err.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const switch_def switch_defs[SWITCH_COUNT] = {
#define X(id, name, def, lo, hi, what) {name, def, lo, hi, what},
    CADRE_SWITCHES(X)
#undef X
};

static _Atomic long values[SWITCH_COUNT] = {
#define X(id, name, def, lo, hi, what) def,
    CADRE_SWITCHES(X)
#undef X
};

long switch_get(switch_id id) {
    return atomic_load_explicit(&values[id], memory_order_relaxed);
}
void switch_set(switch_id id, long value) {
    atomic_store_explicit(&values[id], value, memory_order_relaxed);
}

/* ---- texts ---- */

const switch_text_def switch_text_defs[SWITCH_TEXT_COUNT] = {
#define X(id, name, what) {name, what},
    CADRE_TEXT_SWITCHES(X)
#undef X
};
static char texts[SWITCH_TEXT_COUNT][SWITCH_TEXT_MAX], text_defaults[SWITCH_TEXT_COUNT][SWITCH_TEXT_MAX];

bool switch_text_is_set(switch_text_id id) {
    return *texts[id];
}
const char *switch_text(switch_text_id id) {
    return *texts[id] ? texts[id] : text_defaults[id];
}

void switch_text_default(switch_text_id id, const char *text) {
    size_t len = strlen(text);
    if (len < SWITCH_TEXT_MAX) memcpy(text_defaults[id], text, len + 1);
}

static cadre_err set_text(int i, const char *text, cadre_fail *why) {
    size_t len = strlen(text);
    if (len >= SWITCH_TEXT_MAX)
        return cadre_fail_set(why, CADRE_RANGE, "switch %s is '%.60s...', expected at most %d bytes",
                              switch_text_defs[i].name, text, SWITCH_TEXT_MAX - 1);
    memcpy(texts[i], text, len + 1);
    return CADRE_OK;
}

bool switch_text_parse(const char *assignment, cadre_err *err, cadre_fail *why) {
    size_t len = strcspn(assignment, "=");
    for (int i = 0; i < SWITCH_TEXT_COUNT; i++) {
        const char *name = switch_text_defs[i].name;
        if (strlen(name) != len || memcmp(name, assignment, len)) continue;
        *err = assignment[len] ? set_text(i, assignment + len + 1, why)
                               : cadre_fail_set(why, CADRE_RANGE, "switch %s needs a value: %s=TEXT", name, name);
        return true;
    }
    return false;
}

/* ---- numbers ---- */

const char *const switch_isas[SWITCH_ISAS] = {"ref", "avx2", "avx512", "avx512bf16"};

static const char *const tables[] = {"off", "on", "force"};

const char *switch_word(switch_id id, long value) {
    return id == SWITCH_TABLES && value >= 0 && value < 3 ? tables[value] : NULL;
}

/* Values that have names too. */
static bool named(int id, const char *text, long *value) {
    const char *const *names = id == SWITCH_ISA ? switch_isas : tables;
    int count = id == SWITCH_ISA ? SWITCH_ISAS : id == SWITCH_TABLES ? 3 : 0;
    for (int i = 0; i < count; i++)
        if (!strcmp(text, names[i])) {
            *value = i;
            return true;
        }
    return false;
}

/* Decimal digits with an optional minus, nothing before or after. */
static bool whole(const char *text, long *value) {
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (*end || errno) return false;
    *value = v;
    return true;
}

static int find(const switch_def *defs, int count, const char *name, size_t len) {
    for (int i = 0; i < count; i++)
        if (strlen(defs[i].name) == len && !memcmp(defs[i].name, name, len)) return i;
    return -1;
}

cadre_err switch_parse(const switch_def *defs, int count, const char *assignment, int *index, long *value,
                       cadre_fail *why) {
    const char *equals = strchr(assignment, '=');
    size_t len = equals ? (size_t)(equals - assignment) : strlen(assignment);
    int i = find(defs, count, assignment, len);
    if (i < 0) {
        *index = -1;
        return cadre_fail_set(why, CADRE_RANGE, "no switch is called '%.*s'", len > 100 ? 100 : (int)len, assignment);
    }
    const switch_def *d = &defs[i];
    if (!equals)
        return cadre_fail_set(why, CADRE_RANGE, "switch %s needs a value: %s=%ld..%ld", d->name, d->name, d->low,
                              d->high);
    long v;
    bool word = defs == switch_defs && named(i, equals + 1, &v);
    if (!word && defs == switch_defs && i == SWITCH_TABLES && (!whole(equals + 1, &v) || v < d->low || v > d->high))
        return cadre_fail_set(why, CADRE_RANGE, "switch tables is '%.100s', expected off, on or force", equals + 1);
    if (!word && (!whole(equals + 1, &v) || v < d->low || v > d->high))
        return cadre_fail_set(why, CADRE_RANGE, "switch %s is '%.100s', expected a whole number in %ld..%ld", d->name,
                              equals + 1, d->low, d->high);
    *index = i;
    *value = v;
    return CADRE_OK;
}
