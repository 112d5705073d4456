/* gpu.c: a GPU as a cadre_device: its name, and what it is not yet good for. */
#include "dev/gpu.h"
#include "dev/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cadre_err dev_name_read(const char *name, int *gpu, cadre_fail *why) {
    enum { DIGITS = 4 };
    static const char numbered[] = "cuda:";
    const char *number = strncmp(name, numbered, sizeof numbered - 1) ? "" : name + sizeof numbered - 1;
    size_t digits = strspn(number, "0123456789");
    bool ok = digits && digits <= DIGITS && !number[digits];
    *gpu = !strcmp(name, "cpu") ? DEV_CPU : !strcmp(name, "cuda:current") ? DEV_CURRENT : ok ? atoi(number) : 0;
    if (ok || *gpu < 0 || !strcmp(name, "cuda")) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED,
                          "device '%.100s' is not known, expected cpu, cuda, cuda:N or cuda:current", name);
}

cadre_err gpu_open(int gpu, cadre_device **out, cadre_fail *why) {
    cadre_device *d = mem_new(sizeof *d);
    if (!d) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a device");
    cadre_err err = pool_new(1, &d->threads, why);
    if (!err) err = gpu == DEV_CURRENT ? dev_cuda_open_current(&d->gpu, why) : dev_cuda_open(gpu, &d->gpu, why);
    if (err) {
        cadre_device_close(d);
        return err;
    }
    const dev_cuda_traits *t = dev_cuda_about(d->gpu);
    snprintf(d->name, sizeof d->name, "cuda:%d %s, %d multiprocessors, %s", t->ordinal, t->arch, t->sms, t->name);
    *out = d;
    return CADRE_OK;
}

void gpu_close(cadre_device *device) {
    dev_cuda_close(device->gpu);
}

cadre_err dev_cpu_only(const cadre_device *device, const char *what, cadre_fail *why) {
    if (!device->gpu) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED,
                          "%s: not on a GPU in this version, only MoE layers are; open device cpu", what);
}
