/* driver.c: opens the CUDA driver once, and puts its error codes into words. */
#include "dev/driver.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *const symbols[] = {
#define X(name, symbol, args) symbol,
    DRIVER_CALLS(X)
#undef X
};
enum { CALLS = sizeof symbols / sizeof *symbols };

/* The table is bound as an array; the calls are the first members of the struct. */
_Static_assert(sizeof(library_fn *) * CALLS == offsetof(driver, version), "one pointer per call, without gaps");

/* ---- errors ---- */

cadre_err driver_meaning(int code) {
    switch (code) {
    case 0:
        return CADRE_OK;
    case 2: /* out of memory */
        return CADRE_NOMEM;
    case 1:   /* invalid value */
    case 101: /* invalid device */
    case 400: /* invalid handle */
    case 500: /* not found */
    case 701: /* launch needs more than there is */
    case 720: /* cooperative launch too large */
    case 912: /* invalid cluster size */
        return CADRE_RANGE;
    case 34:  /* the toolkit's stub, no driver */
    case 36:  /* newer driver needed */
    case 100: /* no device */
    case 801: /* not supported */
        return CADRE_UNSUPPORTED;
    case 200: /* invalid image */
    case 209: /* no binary for this GPU */
    case 218: /* invalid PTX */
    case 222: /* PTX too new */
    case 300: /* invalid source */
        return CADRE_COMPILE;
    }
    return CADRE_DEVICE;
}

/* After these the context is of no use any more; 999 is unknown to the driver too. */
bool driver_fatal(int code) {
    static const short fatal[] = {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] == code) return true;
    return false;
}

cadre_err driver_check(const driver *cu, const char *call, const char *of, int code, cadre_fail *why) {
    const char *text = NULL;
    if (!code) return CADRE_OK;
    if (cu->cuGetErrorString(code, &text) || !text) text = "an error without a name";
    bool named = *of;
    return cadre_fail_set(why, driver_meaning(code), "%s%s%.100s%s: %.200s (%d)", call, named ? "(" : "", of,
                          named ? ")" : "", text, code);
}

/* ---- opening ---- */

/* Libraries opened so far, by the value of switch cuda; tests open several. */
enum { MOST = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char asked[SWITCH_TEXT_MAX];
    driver cu;
} known[MOST];
static int known_count;

static cadre_err load(const char *path, driver *cu, cadre_fail *why) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    library_fn *table[CALLS];
    void *handle;
    cadre_fail inner = {0};
    cadre_err err = library_open(path, names, &handle, cu->path, &inner);
    if (err) return cadre_fail_set(why, err, "no CUDA driver: %.400s", inner.text);
    err = library_bind(handle, symbols, CALLS, table, &inner);
    if (err)
        return cadre_fail_set(why, err, "the CUDA driver %.300s does not fit, 12.0 or newer is needed: %.100s",
                              cu->path, inner.text);
    memcpy(cu, table, sizeof table);
    return CADRE_OK;
}

static cadre_err start(driver *cu, cadre_fail *why) {
    cadre_fail inner = {0};
    cadre_err err = driver_check(cu, "cuInit", "", cu->cuInit(0), &inner);
    if (!err) err = driver_check(cu, "cuDriverGetVersion", "", cu->cuDriverGetVersion(&cu->version), &inner);
    if (err) return cadre_fail_set(why, err, "the CUDA driver %.200s does not start: %.250s", cu->path, inner.text);
    return CADRE_OK;
}

static cadre_err open_locked(const char *asked, const driver **out, cadre_fail *why) {
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known[i].asked, asked)) {
            *out = &known[i].cu;
            return CADRE_OK;
        }
    if (known_count == MOST) return cadre_fail_set(why, CADRE_RANGE, "more than %d CUDA drivers", MOST);
    driver *cu = &known[known_count].cu;
    cadre_err err = load(asked, cu, why);
    if (!err) err = start(cu, why);
    if (err) return err;
    snprintf(known[known_count++].asked, sizeof known[0].asked, "%s", asked);
    *out = cu;
    return CADRE_OK;
}

cadre_err driver_open(const driver **out, cadre_fail *why) {
    pthread_mutex_lock(&lock);
    cadre_err err = open_locked(switch_text(SWITCH_CUDA), out, why);
    pthread_mutex_unlock(&lock);
    return err;
}
