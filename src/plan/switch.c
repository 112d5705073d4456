/* switch.c: every switch by its name: base's registry, and one per kernel knob ("dense.rows", "count.block"). */
#include "plan/count.h"
#include "plan/gpu.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int overrides[OP_FAMILY_COUNT][OP_KNOBS_MAX]; /* 0: not overridden */

int plan_override(op_family family, int knob) {
    return overrides[family][knob];
}

/* "dense.rows=4" -> family, knob, text after '='. False if the name is no knob's. */
static bool find_knob(const char *assignment, int *family, int *knob, const char **value) {
    const char *eq = strchr(assignment, '='), *dot = strchr(assignment, '.');
    if (!eq || !dot || dot > eq) return false;
    for (int f = 0; f < OP_FAMILY_COUNT; f++) {
        const op_family_def *def = &op_families[f];
        if (strlen(def->name) != (size_t)(dot - assignment) ||
            strncmp(def->name, assignment, (size_t)(dot - assignment)))
            continue;
        for (int i = 0; i < def->count; i++) {
            size_t len = strlen(def->knobs[i].name);
            if (len != (size_t)(eq - dot - 1) || strncmp(def->knobs[i].name, dot + 1, len)) continue;
            *family = f, *knob = i, *value = eq + 1;
            return true;
        }
    }
    return false;
}

static bool legal(const op_knob_def *def, long v) {
    for (long x = def->low; x <= def->high; x *= 2)
        if (x == v) return true;
    return v == 0;
}

static cadre_err set_knob(int family, int knob, const char *text, cadre_fail *why) {
    const op_knob_def *def = &op_families[family].knobs[knob];
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end || !legal(def, v))
        return cadre_fail_set(why, CADRE_RANGE,
                              "switch %s.%s is '%s', expected %d doubling up to %d, or 0 for no override",
                              op_families[family].name, def->name, text, def->low, def->high);
    overrides[family][knob] = (int)v;
    return CADRE_OK;
}

cadre_err cadre_set(const char *assignment, cadre_fail *why) {
    int family, knob, index;
    const char *text;
    long value;
    if (!assignment) return cadre_fail_set(why, CADRE_RANGE, "a switch is NULL, expected name=value");
    if (!strchr(assignment, '='))
        return cadre_fail_set(why, CADRE_RANGE, "switch '%.60s' has no value, expected NAME=VALUE", assignment);
    if (find_knob(assignment, &family, &knob, &text)) return set_knob(family, knob, text, why);
    cadre_err err;
    if (plan_gpu_set(assignment, &err, why)) return err;
    if (plan_count_set(assignment, &err, why)) return err;
    if (switch_text_parse(assignment, &err, why)) return err;
    err = switch_parse(switch_defs, SWITCH_COUNT, assignment, &index, &value, why);
    if (!err) switch_set((switch_id)index, value);
    return err;
}

bool plan_switch_at(int i, switch_def *def, long *value) {
    static char name[64];
    if (i < 0) return false;
    if (i < SWITCH_COUNT) {
        *def = switch_defs[i];
        *value = switch_get((switch_id)i);
        return true;
    }
    i -= SWITCH_COUNT;
    for (int f = 0; f < OP_FAMILY_COUNT; i -= op_families[f].count, f++) {
        if (i >= op_families[f].count) continue;
        const op_knob_def *knob = &op_families[f].knobs[i];
        snprintf(name, sizeof name, "%s.%s", op_families[f].name, knob->name);
        *def = (switch_def){name, 0, knob->low, knob->high, knob->what};
        *value = overrides[f][i];
        return true;
    }
    if (i < COUNT_KNOBS) return plan_count_switch(i, def, value);
    return plan_gpu_switch(i - COUNT_KNOBS, def, value);
}

const char *cadre_switch(int i) {
    static char text[SWITCH_TEXT_MAX + 64];
    switch_def def;
    long value;
    for (int j = 0; plan_switch_at(j, &def, &value); j++) {
        if (value == def.def || i-- > 0) continue;
        const char *word = j < SWITCH_COUNT ? switch_word((switch_id)j, value) : NULL;
        if (word)
            snprintf(text, sizeof text, "%s=%s", def.name, word);
        else
            snprintf(text, sizeof text, "%s=%ld", def.name, value);
        return text;
    }
    for (int j = 0; j < SWITCH_TEXT_COUNT; j++) {
        if (!switch_text_is_set((switch_text_id)j) || i-- > 0) continue;
        snprintf(text, sizeof text, "%s=%s", switch_text_defs[j].name, switch_text((switch_text_id)j));
        return text;
    }
    return NULL;
}
