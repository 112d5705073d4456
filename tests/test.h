/* test.h: what every test program includes: cmocka, and short ways to open a device and to name a golden file. */
#ifndef CADRE_TEST_H
#define CADRE_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadre.h"

/* Fails the test with the library's own line. */
#define must(call)                                      \
    do {                                                \
        cadre_fail why_ = {0};                          \
        cadre_err err_ = must_(&why_, call);            \
        if (err_) fail_msg("%s: %s", #call, why_.text); \
    } while (0)
#define must_(why, call) (fail_out = (why), (call))
static __attribute__((unused)) cadre_fail *fail_out; /* pass as the last argument inside must() */

static __attribute__((unused)) cadre_device *open_device(int threads) {
    cadre_device *device = NULL;
    must(cadre_device_open(&(cadre_device_options){.threads = threads}, &device, fail_out));
    return device;
}

static __attribute__((unused)) void set_switch(const char *assignment) {
    must(cadre_set(assignment, fail_out));
}

#endif
