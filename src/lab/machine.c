/* machine.c: load, clocks and temperatures. */
#include "machine.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_below(const char *root, const char *path) {
    char full[4096], *text;
    size_t len;
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || n >= (int)sizeof full || file_read(full, 64 << 20, &text, &len, NULL)) return NULL;
    return text;
}

static double number_in(const char *root, const char *path) {
    char *text = read_below(root, path), *end;
    double v = text ? strtod(text, &end) : NAN;
    if (text && end == text) v = NAN;
    mem_free(text);
    return v;
}

/* Mean of the lines "cpu MHz : x" of /proc/cpuinfo. */
static double mhz(const char *root) {
    char *text = read_below(root, "/proc/cpuinfo");
    double sum = 0;
    int n = 0;
    for (const char *p = text; p && (p = strstr(p, "cpu MHz")); n++) {
        p += strcspn(p, ":\n");
        sum += *p == ':' ? strtod(p + 1, NULL) : 0;
    }
    mem_free(text);
    return n && sum > 0 ? sum / n : NAN;
}

/* The hottest of the files dir/NAME*-/file, in thousandths. */
static double hottest(const char *root, const char *format, int most) {
    double hot = NAN;
    for (int i = 0; i < most; i++) {
        char path[200];
        snprintf(path, sizeof path, format, i);
        double v = number_in(root, path) / 1e3;
        if (v > 0 && v < 150 && !(v <= hot)) hot = v;
    }
    return hot;
}

/* user, nice, system, irq, softirq and steal of the first line of /proc/stat: all but idle and iowait. */
static double busy(const char *root) {
    char *text = read_below(root, "/proc/stat"), *p = text;
    double sum = 0;
    if (!text) return NAN;
    p += strcspn(p, " ");
    for (int i = 0; i < 8; i++) {
        double v = strtod(p, &p);
        if (i != 3 && i != 4) sum += v;
    }
    mem_free(text);
    return sum / (double)sysconf(_SC_CLK_TCK);
}

void lab_machine_read(const char *root, lab_machine *m) {
    m->load = number_in(root, "/proc/loadavg");
    m->mhz = mhz(root);
    double zone = hottest(root, "/sys/class/thermal/thermal_zone%d/temp", 16);
    double chip = hottest(root, "/sys/class/hwmon/hwmon%d/temp1_input", 16);
    m->celsius = zone >= chip || isnan(chip) ? zone : chip;
    m->busy_s = busy(root);
}

char *lab_machine_gpus(const char *folder) {
    static const char *const argv[] = {
        "nvidia-smi", "--query-gpu=index,name,clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu",
        "--format=csv,noheader", NULL};
    char path[4096], *text = NULL;
    size_t len;
    process_end end;
    if (!file_is_dir("/proc/driver/nvidia/gpus") || !file_join(path, sizeof path, folder, "gpus")) return NULL;
    if (process_run(&(process_setup){.argv = argv, .out = path, .timeout_s = 10}, &end, NULL) || end.status)
        return NULL;
    return file_read(path, 1 << 16, &text, &len, NULL) ? NULL : text;
}
