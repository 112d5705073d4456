/* library.h: opens a shared library at run time and finds its functions by name. Private to dev. */
#ifndef CADRE_DEV_LIBRARY_H
#define CADRE_DEV_LIBRARY_H
#include "base/base.h"

typedef void library_fn(void);
enum { LIBRARY_PATH = 256 };

/* Opens `path`, or, where it is "", the first of `names` (NULL ends them) that is found; it stays open for good.
 * found: where it lies. UNSUPPORTED with the loader's word if none opens. */
cadre_err library_open(const char *path, const char *const *names, void **handle, char found[LIBRARY_PATH],
                       cadre_fail *why);
/* Opens the library called `name` in the folder of `beside`, if it's there, so that who asks for that name later has
 * it. */
void library_preload(const char *beside, const char *name);
/* symbols[i] -> table[i]. UNSUPPORTED names the first that is missing. */
cadre_err library_bind(void *handle, const char *const *symbols, int count, library_fn **table, cadre_fail *why);
#endif
