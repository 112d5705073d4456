/* experts.h: the grouped products over a routing that lies in the scratch. Private to moe. */
#ifndef CADRE_MOE_EXPERTS_H
#define CADRE_MOE_EXPERTS_H
#include "moe/moe.h"

cadre_err moe_experts_plan(plan *p, cadre_device *device, const char *role, cadre_dtype dtype, int e, int k, int d,
                           int f, cadre_act act, cadre_fail *why);
/* out (+)= experts on z, with s->offset, pair, row, active and weights as the routing. All members; barrier at the end.
 */
void moe_experts_run(moe_experts *m, team *t, moe_scratch *s, int n, const void *z, size_t ldz, float *out, size_t ldo,
                     bool add);
#endif
