/* attribution.c: rows per step, their shares and floors; what no row accounts for is told beside them. */
#include "attribution.h"
#include <math.h>
#include <string.h>

attribution attribution_of(const cadre_profile *profile, double steps, double us) {
    attribution a = {.steps = steps, .us = us, .watched_us = us / steps};
    int n = cadre_profile_rows(profile, a.rows, ATTRIBUTION_ROWS);
    a.count = n < ATTRIBUTION_ROWS ? n : ATTRIBUTION_ROWS;
    return a;
}

cadre_err attribution_keep(attribution_list *list, const attribution *a, cadre_fail *why) {
    if (list->count == list->cap) {
        int cap = list->cap ? 2 * list->cap : 4;
        size_t size = sizeof *list->at;
        attribution *grown = mem_resize(list->at, (size_t)list->cap * size, (size_t)cap * size);
        if (!grown) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a profile");
        list->at = grown;
        list->cap = cap;
    }
    list->at[list->count++] = *a;
    return CADRE_OK;
}

static double per_step(const attribution *a) {
    return a->us / a->steps;
}

/* Which of them has the median step; 0 without any. */
static int middle(const attribution_list *list) {
    for (int i = 0; i < list->count; i++) {
        int below = 0;
        for (int k = 0; k < list->count; k++) {
            double a = per_step(&list->at[k]), b = per_step(&list->at[i]);
            below += a < b || (a == b && k < i);
        }
        if (below == (list->count - 1) / 2) return i;
    }
    return 0;
}

attribution attribution_typical(const attribution_list *list) {
    double ratio[ATTRIBUTION_PASSES];
    if (!list->count) return (attribution){0};
    attribution a = list->at[middle(list)];
    int n = 0;
    for (; n < list->count && n < ATTRIBUTION_PASSES; n++) ratio[n] = list->at[n].watched_us / list->at[n].step_us;
    a.overhead = stat_median(ratio, n);
    return a;
}

/* ---- figures ---- */

typedef struct check {
    double watched, attributed, waited; /* µs per step */
} check;

static check check_of(const attribution *s) {
    check c = {.watched = s->us / s->steps};
    for (int i = 0; i < s->count; i++) {
        c.attributed += s->rows[i].us / s->steps;
        c.waited += s->rows[i].wait_us / s->steps;
    }
    return c;
}

static double floor_of(const attribution *s, const cadre_profile_row *r) {
    return r->bytes > 0 ? r->bytes / s->steps / s->gbps / 1e3 : NAN;
}

/* ---- for programs ---- */

static void put_row(json_out *o, const attribution *s, const cadre_profile_row *r) {
    double us = r->us / s->steps;
    json_open(o, NULL, '{');
    json_put_text(o, "op", r->op);
    json_put_text(o, "kernel", r->kernel);
    json_put_real(o, "launches", (double)r->launches / s->steps);
    json_put_real(o, "us", us);
    json_put_real(o, "us_per_launch", r->us / (double)r->launches);
    json_put_real(o, "wait_us", r->wait_us / s->steps);
    json_put_real(o, "share", us / (s->us / s->steps));
    json_put_real(o, "bytes", r->bytes > 0 ? r->bytes / s->steps : NAN);
    json_put_real(o, "floor_us", floor_of(s, r));
    json_close(o, '}');
}

static void put_check(json_out *o, const attribution *s) {
    check c = check_of(s);
    json_open(o, "profile_check", '{');
    json_put_real(o, "steps", s->steps);
    json_put_real(o, "step_us", s->step_us);
    json_put_real(o, "profiled_us", c.watched);
    json_put_real(o, "attributed_us", c.attributed);
    json_put_real(o, "unattributed_us", c.watched - c.attributed);
    json_put_real(o, "unattributed_share", 1 - c.attributed / c.watched);
    json_put_real(o, "wait_us", c.waited);
    json_put_real(o, "overhead", s->overhead);
    json_close(o, '}');
}

void attribution_put(json_out *o, const attribution *s) {
    if (!s || s->steps <= 0) {
        json_put_null(o, "profile");
        json_put_null(o, "profile_check");
        return;
    }
    json_open(o, "profile", '[');
    for (int i = 0; i < s->count; i++) put_row(o, s, &s->rows[i]);
    json_close(o, ']');
    put_check(o, s);
}

void attribution_put_raw(json_out *o, const attribution *a) {
    json_put_real(o, "profile_steps", a->steps);
    json_put_real(o, "profile_us", a->us);
    json_put_real(o, "profile_step_us", a->watched_us);
    json_open(o, "profile", '[');
    for (int i = 0; i < a->count; i++) {
        const cadre_profile_row *r = &a->rows[i];
        json_open(o, NULL, '{');
        json_put_text(o, "op", r->op);
        json_put_text(o, "kernel", r->kernel);
        json_put_int(o, "launches", (int64_t)r->launches);
        json_put_real(o, "us", r->us);
        json_put_real(o, "wait_us", r->wait_us);
        json_put_real(o, "bytes", r->bytes);
        json_close(o, '}');
    }
    json_close(o, ']');
}

/* ---- for people ---- */

static void cell(table *t, double v) {
    if (isnan(v))
        table_cell(t, "-");
    else
        table_cell(t, "%.*f", v < 10 ? 2 : v < 100 ? 1 : 0, v);
}

static void say_row(table *t, const attribution *s, const cadre_profile_row *r) {
    double us = r->us / s->steps;
    table_cell(t, "%s", r->op);
    table_cell(t, "%s", r->kernel);
    cell(t, (double)r->launches / s->steps);
    cell(t, r->us / (double)r->launches);
    cell(t, us);
    table_cell(t, "%.1f %%", 100 * us / (s->us / s->steps));
    cell(t, floor_of(s, r));
    cell(t, r->wait_us / s->steps);
}

void attribution_say(const attribution *s) {
    static const char *const head[] = {"op", "kernel", "launches", "us each", "us", "share", "floor us", "waiting us"};
    if (s->steps <= 0) return;
    check c = check_of(s);
    table t;
    table_open(&t, "llrrrrrr");
    for (int i = 0; i < 8; i++) table_cell(&t, "%s", head[i]);
    for (int i = 0; i < s->count; i++) say_row(&t, s, &s->rows[i]);
    table_print(&t, say_stream(), 2);
    say_pair("attributed", "%.2f of %.2f us a step; %.1f %% is in no row; %.2f us are waiting at barriers",
             c.attributed, c.watched, 100 * (1 - c.attributed / c.watched), c.waited);
    say_pair("profiler", "a step takes %.2f us without it, %.3f times that with it", s->step_us, s->overhead);
}
