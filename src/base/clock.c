/* clock.c: the only reader of clocks. */
#include "clock.h"
#include <time.h>

uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void clock_date(char text[24]) {
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(text, 24, "%Y-%m-%dT%H:%M:%SZ", &utc)) text[0] = 0;
}
