/* machine.h: the state of the machine around a visit, as far as /proc and /sys tell it. Private to lab. */
#ifndef LAB_MACHINE_H
#define LAB_MACHINE_H
#include "lab.h"

typedef struct lab_machine {
    double load;         /* of the last minute */
    double mhz, celsius; /* mean clock of the CPUs; the hottest sensor. NaN: not told */
    double busy_s;       /* of all CPUs since the start */
} lab_machine;
/* root: "" is this machine, a folder with proc/ and sys/ a made one. */
void lab_machine_read(const char *root, lab_machine *m);
/* One line for each NVIDIA GPU (name, clocks, temperature, power, use), for mem_free; NULL without any. It starts
 * nvidia-smi only where the driver is. */
char *lab_machine_gpus(const char *folder);
#endif
