/* pack.h: packing by a whole team. Private to moe. */
#ifndef CADRE_MOE_PACK_H
#define CADRE_MOE_PACK_H
#include "moe/moe.h"

/* op_pack of all panels of one matrix (or gated pair: up not NULL), spread over the device's team. from NULL: the
 * tensors are in memory. Errors: NOMEM, and those of the source. */
cadre_err moe_pack(cadre_device *device, cadre_dtype dtype, int out, int in, const cadre_tensor *w,
                   const cadre_tensor *up, moe_source *from, void *dst, cadre_fail *why);
/* n bytes at `from` of a tensor, copied. */
cadre_err moe_source_read(moe_source *s, const void *from, size_t n, void *dst, cadre_fail *why);
#endif
