/* ab_repeat.c: the same experiment again and again. Of an A/A it tells how often the lab would call a difference what
 * is none; of two arms, how often it finds what is there. */
#include "ab.h"
#include <math.h>
#include <string.h>

typedef struct repeats {
    int count, of[LAB_REFUSED + 1]; /* by outcome */
    json_out js;
} repeats;

static void keep(repeats *all, int times, const ab_outcome *o, const char *run) {
    all->of[o->outcome]++;
    char change[80] = "";
    if (!isnan(o->ratio))
        snprintf(change, sizeof change, "%+.2f %% [%+.2f, %+.2f]", 100 * (o->ratio - 1), 100 * (o->interval[0] - 1),
                 100 * (o->interval[1] - 1));
    say("%4d of %d  %-12s %s", ++all->count, times, lab_outcome_name(o->outcome), change);
    json_open(&all->js, NULL, '{');
    json_put_text(&all->js, "run", run);
    json_put_text(&all->js, "outcome", lab_outcome_name(o->outcome));
    json_put_real(&all->js, "ratio", o->ratio);
    json_open(&all->js, "interval", '[');
    json_put_real(&all->js, NULL, o->interval[0]);
    json_put_real(&all->js, NULL, o->interval[1]);
    json_close(&all->js, ']');
    json_close(&all->js, '}');
}

static cadre_err once(repeats *all, const lab_experiment *e, const lab_run_setup *setup, int times, bool *stopped,
                      cadre_fail *why) {
    char dir[OPEN_PATH_MAX];
    lab_run_setup one = *setup;
    lab_run_result r;
    ab_outcome o;
    int n = snprintf(dir, sizeof dir, "%s/%04d", setup->folder, all->count + 1);
    if (n < 0 || n >= (int)sizeof dir) return cadre_fail_set(why, CADRE_IO, "%.200s...: path too long", setup->folder);
    one.folder = dir;
    one.watch = (lab_run_watch){0};
    cadre_err err = lab_run(e, &one, &r, why);
    *stopped = !err && r.stopped;
    if (!err && !r.stopped) err = ab_judge(e, r.samples, &o, why);
    if (!err && !r.stopped) keep(all, times, &o, r.run);
    return err;
}

static void summary(repeats *all) {
    char text[200] = "";
    json_open(&all->js, "outcomes", '{');
    for (int i = 0; i <= LAB_REFUSED; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%d %s", n ? ", " : "", all->of[i], lab_outcome_name((lab_outcome)i));
        json_put_int(&all->js, lab_outcome_name((lab_outcome)i), all->of[i]);
    }
    json_close(&all->js, '}');
    say_pair("outcomes", "%s, of %d", text, all->count);
}

int ab_repeat(const lab_experiment *e, const lab_run_setup *setup, int times, bool as_json) {
    repeats all = {0};
    bool stopped = false;
    cadre_fail why = {0};
    cadre_err err = CADRE_OK;
    say_json_open(&all.js, "ab run");
    json_put_text(&all.js, "name", e->name);
    json_put_text(&all.js, "folder", setup->folder);
    json_open(&all.js, "repeats", '[');
    while (all.count < times && !err && !stopped) err = once(&all, e, setup, times, &stopped, &why);
    json_close(&all.js, ']');
    if (all.count) summary(&all);
    if (stopped) say("interrupted; --resume goes on");
    json_put_bool(&all.js, "stopped", stopped);
    json_close(&all.js, '}');
    if (!err && as_json) return say_json(&all.js, stopped ? EXIT_NO : EXIT_FINE);
    json_out_free(&all.js);
    return err ? say_failed(&why) : stopped ? EXIT_NO : EXIT_FINE;
}
