/* one_case.h: one.cu for one case, in a namespace of its own: CASE, SHAPE, PLAN and SHARE are what one.cc says. */
#define one JOIN(one_, CASE)
namespace CASE {
#include "op/cuda/one.cu"

static void text(const void *args) {
    one(*(const experts_args *)args);
}
static const one_case about = {NAME(CASE), SHAPE, PLAN, SHARE, WARPS, DOWNS, text};
} // namespace CASE
#undef one
#undef CASE
#undef SHAPE
#undef PLAN
#undef SHARE
