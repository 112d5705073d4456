/* tables.h: the folders of native tables: which rows there are for a plan's key on a device, and which of them runs.
 * Read once, when the first plan is made. Private to plan.
 *
 *   the user's folder, this device  >  the shipped folder, this device  >  either folder, a device of the class
 *
 * Ties, only possible between tables of a class: the later date, then the later run id, then the lower path.
 */
#ifndef CADRE_PLAN_TABLES_H
#define CADRE_PLAN_TABLES_H
#include "plan/plan.h"
#include "plan/table.h"

typedef struct table_set table_set;

/* The set for the switches in force; NULL with CADRE_OK: tables are off, or there are none. Kept for the life of the
 * process, so that plans may borrow its texts. A table that is malformed is left out and said once. Errors: NOMEM. */
cadre_err tables_get(const table_set **out, cadre_fail *why);

typedef struct table_match {
    const native_row *row;
    const native_table *table;
    const char *source; /* "user", "shipped" or "class" */
    int distance;       /* letters of the key that differ: 0, or 1 where only the device does */
} table_match;

typedef struct table_choice {
    table_match best;   /* row NULL: the policy runs */
    table_match passed; /* row NULL: none; else the best row that was passed over */
    const char *text;   /* why it was passed over, static */
    int next;           /* the choice holds up to here */
} table_choice;
/* The row for n, and how far the same answer holds at least. set NULL: none. */
table_choice tables_choose(const table_set *set, const cadre_device *device, const plan_key *key,
                           const op_kernel *kernel, int n);
/* The first table that could not be read: path and line; NULL: all could. */
const char *tables_fault(const table_set *set, int *line);
#endif
