/* attribution.h: where the time of a step went, for both benches: of watched passes (or visits) the one whose steps are
 * the median speaks, whole as it was, so that its parts add up and a pass that lost its CPU says nothing. It stands
 * beside steps of the same run that nobody watched.
 *
 *   watched step = rows + unattributed (waking the team, the loop around the step, gaps between launches)
 */
#ifndef CMD_ATTRIBUTION_H
#define CMD_ATTRIBUTION_H
#include "say.h"

enum { ATTRIBUTION_ROWS = 64, ATTRIBUTION_PASSES = 1000 };
typedef struct attribution {
    cadre_profile_row rows[ATTRIBUTION_ROWS];
    int count;
    double steps, us;  /* watched steps, and the time they took in all */
    double step_us;    /* of a step beside them that nobody watched, */
    double watched_us; /* and of one that was, by the same estimator */
    double gbps;       /* read beside them; NaN: no floor */
    double overhead;   /* of all passes: the median of watched over unwatched step, pair by pair */
} attribution;

/* What the profile holds, of so many steps that took `us` in all. The caller adds what was beside them. */
attribution attribution_of(const cadre_profile *profile, double steps, double us);
/* Those of all passes; zero-initialise, free with mem_free(list.at). */
typedef struct attribution_list {
    attribution *at;
    int count, cap;
} attribution_list;
cadre_err attribution_keep(attribution_list *list, const attribution *a, cadre_fail *why);
/* The median by time per step, of an even number the faster one of the middle two, and the overhead; none: steps 0. */
attribution attribution_typical(const attribution_list *list);
/* The members profile_steps, profile_us, profile_step_us and profile (sums) of a raw sample. */
void attribution_put_raw(json_out *o, const attribution *a);
/* `profile` and `profile_check` of a result; NULL: both null. */
void attribution_put(json_out *o, const attribution *a);
void attribution_say(const attribution *a);
#endif
