/* pack.h: packing by a whole team. Private to moe. */
#ifndef CADRE_MOE_PACK_H
#define CADRE_MOE_PACK_H
#include "moe/moe.h"

/* op_pack of all panels of one matrix (or gated pair: up not NULL), spread over the device's team. */
void moe_pack(cadre_device *device, cadre_dtype dtype, int out, int in, const cadre_tensor *w, const cadre_tensor *up,
              void *dst);
#endif
