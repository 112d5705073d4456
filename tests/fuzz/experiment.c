/* Fuzz target: an experiment's file, and behind a NUL byte what a command of it wrote. What is accepted has arms, an
 * order of visits that is as long as it says, and readers that find figures or none, the same twice; what is not is
 * told in one line with its place. */
#include "lab/experiment.h"
#include "lab/reading.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(c) must((c) != 0, #c)
static void must(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "this must hold: %s\n", what);
    abort();
}

static void check_order(const lab_experiment *e) {
    int all = (e->warmup + e->visits) * e->arm_count + 1, seen[LAB_ARMS_MOST] = {0};
    if (all > 100000) return;
    int *arms = malloc((size_t)all * sizeof *arms);
    MUST(arms && lab_experiment_order(e, NULL, 0) == all && lab_experiment_order(e, arms, all) == all);
    for (int i = 0; i < all; i++) {
        MUST(arms[i] >= 0 && arms[i] < e->arm_count);
        seen[arms[i]]++;
    }
    for (int i = 0; i < e->arm_count; i++) MUST(seen[i] == e->warmup + e->visits + (i == e->reference));
    free(arms);
}

/* stdout holds the text, stderr nothing. */
static int read_once(const lab_experiment *e, const lab_arm *arm, const char *text, size_t len, lab_reading *r) {
    lab_output o = {.count = 2};
    cadre_fail why = {0};
    strcpy(o.texts[0].name, "stdout");
    strcpy(o.texts[1].name, "stderr");
    o.texts[0].text = mem_copy_text(text, len);
    o.texts[0].len = len;
    o.texts[1].text = mem_copy_text("", 0);
    MUST(o.texts[0].text && o.texts[1].text);
    cadre_err err = lab_json_in("stdout", o.texts[0].text, len, &o.doc, &why);
    MUST(!err || (err == CADRE_FORMAT && !strchr(why.text, '\n')));
    err = lab_reading_make(e, arm, &o, 1, r, &why);
    MUST(!err || (err == CADRE_UNSUPPORTED && *why.text));
    r->device = r->numerics = r->sampling = NULL; /* they lie in the output */
    lab_output_free(&o);
    return !err;
}

static void check_reading(const lab_experiment *e, const char *text, size_t len) {
    lab_reading a, b;
    const lab_arm *arm = &e->arms[0];
    if (!read_once(e, arm, text, len, &a)) return;
    MUST(read_once(e, arm, text, len, &b));
    MUST(a.count == b.count && !strcmp(a.family, b.family) && a.active == b.active && !strcmp(a.why, b.why));
    MUST(a.count >= 1); /* the wall time at least */
    MUST(*a.family ? strlen(a.family) == 64 && json_root(a.requests)->count > 0 : !a.requests);
    MUST(!*a.why || a.active == LAB_ACTIVE_NO);
    lab_reading_free(&a);
    lab_reading_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_experiment *e = NULL;
    cadre_fail why = {0};
    size_t len = strnlen((const char *)data, size);
    cadre_err err = lab_experiment_parse("in", "/nowhere/in", (const char *)data, len, &e, &why);
    if (err) {
        MUST(err == CADRE_FORMAT && !strncmp(why.text, "in:", 3) && !strchr(why.text, '\n'));
        return 0;
    }
    MUST(e->arm_count >= 2 && e->reference >= 0 && e->reference < e->arm_count && e->metric_count >= 1);
    MUST(!strcmp(e->folder, "/nowhere") && strlen(e->sha256) == 64 && e->question.metric);
    for (int i = 0; i < e->arm_count; i++) MUST(e->arms[i].argv[0] && *e->arms[i].name);
    check_order(e);
    if (len < size) check_reading(e, (const char *)data + len + 1, size - len - 1);
    lab_experiment_free(e);
    return 0;
}

#include "replay.h"
