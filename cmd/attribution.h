/* attribution.h: where the time of a step went, for both benches: sums over what was watched, checked against steps of
 * the same run that nobody watched.
 *
 *   watched step = rows + unattributed (waking the team, the loop around the step, gaps between launches)
 */
#ifndef CMD_ATTRIBUTION_H
#define CMD_ATTRIBUTION_H
#include "say.h"

enum { ATTRIBUTION_ROWS = 64 };
typedef struct attribution {
    cadre_profile_row rows[ATTRIBUTION_ROWS];
    int count;
    double steps, us;  /* watched steps, and the time they took in all */
    double step_us;    /* of a step that nobody watched */
    double watched_us; /* of one that was watched, by the same estimator; 0: us / steps */
    double gbps;       /* NaN: no floor */
} attribution;

/* What the profile holds, of so many steps that took `us` in all. */
attribution attribution_of(const cadre_profile *profile, double steps, double us);
void attribution_add(attribution *sum, const attribution *more);
/* The members profile_steps, profile_us and profile (sums) of a raw sample. */
void attribution_put_raw(json_out *o, const attribution *a);
/* `profile` and `profile_check` of a result; NULL: both null. */
void attribution_put(json_out *o, const attribution *a);
void attribution_say(const attribution *a);
#endif
