// nonzero_places() in Highway SIMD, compiled once for each instruction set. The best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/base/nonzero.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "hwy/highway.h"
#include "loader/jpeg/base/nonzero-inl.h"
#include "loader/jpeg/base/nonzero.h"

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(nonzero_places);

uint64_t nonzero_places(const int16_t* block) { return HWY_DYNAMIC_DISPATCH(nonzero_places)(block); }

}  // namespace penstock::detail
#endif  // HWY_ONCE
