/* cache.h: compiled kernels on disk. A cache may always be empty, full of rubbish, or not there: then kernels are
 * compiled, and one line says why. Private to dev.
 *
 *   DIR/<key>.cubin:   "cadre-cubin 1 <key> <sha256 of the binary> <its bytes, 20 digits>\n" binary
 */
#ifndef CADRE_DEV_CACHE_H
#define CADRE_DEV_CACHE_H
#include "base/base.h"

/* The folder, NULL where there is none: switch cache is off, or no program named a default. */
const char *cache_dir(void);

/* The binary kept under the key (64 hex digits), which the caller frees with mem_free. False if there is none, or what
 * is there isn't what was kept: then a line was said. */
bool cache_get(const char *key, void **data, size_t *size);
/* Keeps it, or says a line about why it can't. Many processes may keep the same key at once: each file appears whole.
 */
void cache_put(const char *key, const void *data, size_t size);
#endif
