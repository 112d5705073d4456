/* claims_arm.h: the values of an arm by its name: from the samples if they know it, else from the runs in the rows of
 * the text's tables that have this label. */
#ifndef LAB_CLAIMS_ARM_H
#define LAB_CLAIMS_ARM_H
#include "claims.h"

typedef enum claims_statistic { CLAIMS_MEAN, CLAIMS_MEDIAN, CLAIMS_SD, CLAIMS_MIN, CLAIMS_MAX } claims_statistic;
extern const char *const claims_statistic_names[];

typedef struct claims_arm {
    claims_span *values; /* in the unit of the figure that asked */
    int *groups;         /* rows, or visits */
    int count;
    size_t cap, group_cap;
} claims_arm;

/* `near` (may be NULL: the line of the figure) is searched for the metric's name when the samples hold several in the
 * unit of `as`. False: nobody knows the arm, it has fewer than two values, or the metric is not told. */
bool claims_arm_find(claims_doc *d, const char *name, size_t len, const claims_token *as, const claims_cell *near,
                     claims_arm *out);
bool claims_names_metric(const char *text, size_t len, const char *metric);
void claims_arm_free(claims_arm *a);
claims_span claims_arm_statistic(const claims_arm *a, claims_statistic s); /* sorts nothing; NaNs where undefined */
claims_span claims_arm_pooled(const claims_arm *a);                        /* sd within groups; NaNs with one group */

/* Statistics of n spans; v is sorted by median, min and max. sd: `less` 1 or 0 is taken from n. */
claims_span claims_mean_of(const claims_span *v, int n);
claims_span claims_sd_of(const claims_span *v, int n, int less);
void claims_sort(claims_span *v, int n);
/* Is this the header of one run among several: "i1", "run 2", "#3"? */
bool claims_is_run(const claims_doc *d, const claims_table *t, int column);
#endif
