/* count.h: the knobs of counting (op/count.h), with the switches `count.NAME=value` over their defaults. A neighbour's
 * header. */
#ifndef CADRE_PLAN_COUNT_H
#define CADRE_PLAN_COUNT_H
#include "op/count.h"

/* The knobs in force. */
void plan_count_knobs(count_knobs *out);
/* CTAs that count on a device with `units` multiprocessors or threads. */
int plan_count_ctas(const count_knobs *knobs, int units);

/* Switches: the i-th knob's name, range and value. */
bool plan_count_switch(int i, switch_def *def, long *value);
/* "count.block=1024": true if the name before '=' is count.something; *err: set, or RANGE. */
bool plan_count_set(const char *assignment, cadre_err *err, cadre_fail *why);
#endif
