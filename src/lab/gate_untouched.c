/* gate_untouched.c: metrics that a change is said to leave alone. A row for decoding that moves the time to the first
 * token is no isolated change, whatever it does to decoding. Each such metric is compared over visits, as the judged
 * one is, at a level shared among all comparisons. */
#include "verdict.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MOST = 16, NAME_MOST = 80 };

bool lab_next_name(const char **list, char *name, size_t size) {
    *list += strspn(*list, ", ");
    size_t n = strcspn(*list, ",");
    snprintf(name, size, "%.*s", n < size ? (int)n : (int)size - 1, *list);
    *list += n;
    return *name;
}

/* Logs of visit means of one arm; 0 where one is not positive. */
static int visit_logs(const lab_pick *p, int n, const char *arm, double *out) {
    int visits = 0;
    for (int i = 0, j; i < n; i = j) {
        double sum = 0;
        for (j = i; j < n && p[j].s->visit == p[i].s->visit && !strcmp(p[j].s->arm, p[i].s->arm); j++)
            sum += p[j].s->value;
        if (strcmp(p[i].s->arm, arm) != 0) continue;
        if (!(sum > 0)) return 0;
        out[visits++] = m_log(sum / (j - i));
    }
    return visits;
}

typedef struct moved {
    uint64_t arms;
    double ratio; /* of the arm that moved most */
    char name[NAME_MOST];
} moved;

static void compare(const lab_box *b, const lab_pick *p, int n, const char *name, double level, double *room,
                    moved *m) {
    int reference = visit_logs(p, n, b->v.arms[0].name, room);
    for (int i = 1; i < b->v.arm_count; i++) {
        lab_welch w = lab_welch_of(room, reference, room + n, visit_logs(p, n, b->v.arms[i].name, room + n));
        double size = fabs(m_exp(w.difference) - 1), interval[2];
        lab_welch_interval(&w, level, interval);
        if (b->ceilings >> i & 1 || !(interval[0] > 0 || interval[1] < 0) || size < b->v.question.effect) continue;
        m->arms |= (uint64_t)1 << i;
        if (size <= fabs(m->ratio - 1)) continue;
        m->ratio = m_exp(w.difference);
        snprintf(m->name, sizeof m->name, "%s", name);
    }
}

static int count_names(const char *list) {
    char name[NAME_MOST];
    int n = 0;
    while (lab_next_name(&list, name, sizeof name)) n++;
    return n;
}

cadre_err lab_gate_untouched(lab_box *b, cadre_fail *why) {
    const char *list = b->v.question.untouched;
    int names = list ? count_names(list) : 0, all = lab_samples_count(b->v.samples);
    if (!names) return CADRE_OK;
    if (names > NAMES_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "%d metrics are to be untouched, more than %d", names, NAMES_MOST);
    lab_pick *p = lab_hold(b, (size_t)all, sizeof *p);
    double *room = lab_hold(b, 2 * (size_t)all, sizeof *room);
    if (!p || !room) return lab_no_memory(why);
    moved m = {.ratio = 1};
    double level = b->v.question.level / names / (b->v.arm_count - 1);
    char name[NAME_MOST], arms[100];
    while (lab_next_name(&list, name, sizeof name)) {
        int n = lab_measurements(b, name, p);
        if (!n)
            return cadre_fail_set(why, CADRE_RANGE, "no metric \"%.80s\" in the samples, which is to be untouched",
                                  name);
        compare(b, p, n, name, level, room, &m);
    }
    if (m.arms)
        lab_gate_add(b, "untouched", true, m.arms, "no clean isolation: %.60s moved by %+.2f %%: %s", m.name,
                     100 * (m.ratio - 1), lab_arm_names(b, m.arms, arms, sizeof arms));
    else
        lab_gate_add(b, "untouched", true, 0, "%.150s stayed", b->v.question.untouched);
    return CADRE_OK;
}
