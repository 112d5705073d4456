/* policy.h: the default configuration, as data: which knobs for how many rows per matrix. Private to plan. */
#ifndef CADRE_PLAN_POLICY_H
#define CADRE_PLAN_POLICY_H
#include "plan/plan.h"

/* Writes rows (ascending, contiguous from 1, the last open-ended) into rows[0..PLAN_ROWS_MAX); returns their number.
 * All are legal for the kernel. */
int policy_rows(const plan_key *key, const op_kernel *kernel, int threads, plan_row *rows);
#endif
