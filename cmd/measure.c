/* measure.c: the read ceiling measured in the same window as an arm. */
#include "measure.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void fill(void *ctx, team *t) {
    probe *p = ctx;
    int lo, hi, pages = (int)(p->bytes >> 12);
    team_split(t, pages, 1, &lo, &hi);
    for (size_t i = (size_t)lo << 9; i < (size_t)hi << 9; i++)
        ((uint64_t *)p->buffer)[i] = (i + 1) * 0x9E3779B97F4A7C15u; /* no two words alike */
}

size_t measure_probe_bytes(const cadre_device *device) {
    size_t least = (size_t)1 << 30, caches = 16 * dev_last_cache(device);
    size_t bytes = caches > least ? caches : least, room = (size_t)(dev_memory_available() / 4);
    return bytes < room ? bytes : room;
}

cadre_err probe_init(probe *p, cadre_device *device, size_t bytes, cadre_fail *why) {
    bytes = bytes >> 12 << 12;
    *p = (probe){device, mem_new_huge(bytes), bytes};
    if (!p->buffer) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a bandwidth probe of %zu bytes", bytes);
    pool_run(device->threads, fill, p);
    probe_gbps(p); /* the first pass over fresh memory is slow and counts for nothing */
    return CADRE_OK;
}

double probe_gbps(const probe *p) {
    return dev_read_gbps(p->device, p->buffer, p->bytes, 2);
}

void probe_done(probe *p) {
    if (p->buffer) mem_free_huge(p->buffer, p->bytes);
    *p = (probe){0};
}

void measure_run_id(char id[13]) {
    char date[24], text[80], hex[65];
    clock_date(date);
    int n = snprintf(text, sizeof text, "%s %ld %llu", date, (long)getpid(), (unsigned long long)clock_ns());
    cadre_sha256(text, (size_t)n, hex);
    memcpy(id, hex, 12);
    id[12] = 0;
}
