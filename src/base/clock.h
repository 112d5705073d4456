/* clock.h: monotonic time. */
#ifndef CADRE_BASE_CLOCK_H
#define CADRE_BASE_CLOCK_H
#include <stdint.h>

uint64_t clock_ns(void);
#endif
