/* measure.h: probes of the memory beside a measurement, and the id of a run. */
#ifndef CMD_MEASURE_H
#define CMD_MEASURE_H
#include "dev/dev.h"

/* Bytes to read for a memory's bandwidth: 1 GiB, or 16 last-level caches if that's more; at most a quarter of what is
 * free. Four caches are too few: under a hypervisor the real cache is larger than the one that is told, and 128 MiB was
 * read at 80 GB/s where 1 GiB is read at 45. */
size_t measure_probe_bytes(const cadre_device *device);

/* A buffer of that size, filled, for dev_read_gbps. */
typedef struct probe {
    cadre_device *device;
    void *buffer;
    size_t bytes;
} probe;
cadre_err probe_init(probe *p, cadre_device *device, size_t bytes, cadre_fail *why);
double probe_gbps(const probe *p);
void probe_done(probe *p);

/* Run id of raw samples: 12 hex digits of time and process. */
void measure_run_id(char id[13]);
#endif
