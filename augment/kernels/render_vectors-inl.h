// The vector types of render()'s lanes, and the loop over a row. Included once for each instruction set.
#if defined(PENSTOCK_RENDER_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_VECTORS_INL_H
#undef PENSTOCK_RENDER_VECTORS_INL_H
#else
#define PENSTOCK_RENDER_VECTORS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using D8 = hn::Rebind<uint8_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

/// Calls body(column, count) for vectors that cover [begin, end). The last vector overlaps the one before it instead of
/// being shortened (a pixel that is written twice gets the same bits both times). `count` is below kLanes only where
/// the whole range is shorter than that.
template <class Body>
HWY_INLINE void for_each_vector(int begin, int end, const Body& body) {
  const int range = end - begin;
  if (range <= 0) return;
  if (range < kLanes) return body(begin, range);
  int column = begin;
  for (; column + kLanes <= end; column += kLanes) body(column, kLanes);
  if (column < end) body(end - kLanes, kLanes);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
