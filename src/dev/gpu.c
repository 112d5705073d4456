/* gpu.c: a GPU as a cadre_device: its name, and what it is not yet good for. */
#include "dev/gpu.h"
#include "dev/cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cadre_err open_named(const char *name, dev_cuda **out, cadre_fail *why) {
    enum { DIGITS = 4 };
    const char *rest = name + strlen("cuda");
    if (!*rest) return dev_cuda_open(0, out, why);
    if (!strcmp(rest, ":current")) return dev_cuda_open_current(out, why);
    size_t digits = *rest == ':' ? strspn(rest + 1, "0123456789") : 0;
    if (!digits || digits > DIGITS || rest[1 + digits])
        return cadre_fail_set(why, CADRE_UNSUPPORTED,
                              "device '%.100s' is not known, expected cpu, cuda, cuda:N or cuda:current", name);
    return dev_cuda_open(atoi(rest + 1), out, why);
}

cadre_err gpu_open(const char *name, cadre_device **out, cadre_fail *why) {
    cadre_device *d = mem_new(sizeof *d);
    if (!d) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a device");
    cadre_err err = pool_new(1, &d->threads, why);
    if (!err) err = open_named(name, &d->gpu, why);
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
