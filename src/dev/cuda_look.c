/* cuda_look.c: which parts of CUDA are there, for `cadre doctor`. */
#include "dev/cache.h"
#include "dev/cuda.h"
#include "dev/driver.h"
#include "dev/nvrtc.h"
#include <stdio.h>
#include <string.h>

static void add(char *text, size_t size, const char *word) {
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? ", " : "", word);
}

static void look_at_devices(const driver *cu, dev_cuda_status *out) {
    cadre_fail why = {0};
    int count = 0;
    if (driver_check(cu, "cuDeviceGetCount", "", cu->cuDeviceGetCount(&count), &why)) {
        snprintf(out->devices_text, sizeof out->devices_text, "%.255s", why.text);
        return;
    }
    out->devices = count;
    for (int i = 0, device; i < count; i++) {
        char name[96] = "a GPU without a name";
        if (!cu->cuDeviceGet(&device, i)) cu->cuDeviceGetName(name, sizeof name, device);
        add(out->devices_text, sizeof out->devices_text, name);
    }
    if (!count) snprintf(out->devices_text, sizeof out->devices_text, "the driver shows no GPU");
}

static void look_at_driver(dev_cuda_status *out) {
    const driver *cu;
    cadre_fail why = {0};
    if (driver_open(&cu, &why)) {
        snprintf(out->driver_text, sizeof out->driver_text, "%.255s", why.text);
        return;
    }
    out->driver = cu->version;
    snprintf(out->driver_text, sizeof out->driver_text, "%s", cu->path);
    look_at_devices(cu, out);
}

void dev_cuda_look(dev_cuda_status *out) {
    const nvrtc *rtc;
    cadre_fail why = {0};
    *out = (dev_cuda_status){0};
    look_at_driver(out);
    cadre_err err = nvrtc_open(&rtc, &why);
    if (!err) out->nvrtc = rtc->version;
    snprintf(out->nvrtc_text, sizeof out->nvrtc_text, "%.255s", err ? why.text : rtc->path);
    const char *dir = cache_dir(), *none = "no folder is named: kernels are compiled in every process";
    if (!strcmp(switch_text(SWITCH_CACHE), "off")) none = "off: kernels are compiled in every process";
    snprintf(out->cache, sizeof out->cache, "%.511s", dir ? dir : none);
}
