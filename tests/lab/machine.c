/* machine: what /proc and /sys tell of load, clocks, temperatures and busy time; and what they do not. */
#include "lab/machine.h"
#include "folder.h"

#include <math.h>
#include <unistd.h>

static void make(const char *path, const char *text) {
    char dir[300];
    snprintf(dir, sizeof dir, "%s", in(path));
    *strrchr(dir, '/') = 0;
    must(file_make_dir(dir, fail_out));
    put(path, text);
}

static void made(void **state) {
    (void)state;
    lab_machine m;
    lab_machine_read(folder, &m); /* nothing is there: nothing is told, and no 0 stands for it */
    assert_true(isnan(m.load) && isnan(m.mhz) && isnan(m.celsius) && isnan(m.busy_s));
    make("proc/loadavg", "1.25 0.50 0.25 2/345 6789\n");
    make("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2000.500\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.500\n");
    make("proc/stat", "cpu  100 20 30 5000 600 7 8 9 1000 2000\ncpu0 1 2 3\n");
    make("sys/class/thermal/thermal_zone0/temp", "-274000\n");
    make("sys/class/thermal/thermal_zone2/temp", "61500\n");
    make("sys/class/hwmon/hwmon1/temp1_input", "72250\n");
    make("sys/class/hwmon/hwmon2/temp1_input", "not told\n");
    lab_machine_read(folder, &m);
    assert_true(m.load == 1.25);
    assert_true(m.mhz == 2500.5);
    assert_true(m.celsius == 72.25);
    /* user, nice, system, irq, softirq, steal; the time of guests is in user already */
    assert_true(fabs(m.busy_s - 174.0 / (double)sysconf(_SC_CLK_TCK)) < 1e-12);
    make("proc/cpuinfo", "processor : 0\nBogoMIPS : 50\n"); /* as on arm64 */
    lab_machine_read(folder, &m);
    assert_true(isnan(m.mhz));
}

static void here(void **state) {
    (void)state;
    lab_machine a, b;
    lab_machine_read("", &a);
    lab_machine_read("", &b);
    assert_true(a.load >= 0 && b.busy_s >= a.busy_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(made), cmocka_unit_test(here)};
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
