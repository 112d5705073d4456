/* clock.h: monotonic time for measuring, and the date for records. */
#ifndef CADRE_BASE_CLOCK_H
#define CADRE_BASE_CLOCK_H
#include <stdint.h>

uint64_t clock_ns(void);
/* The date and time in UTC: "2025-11-29T14:46:00Z". */
void clock_date(char text[24]);
#endif
