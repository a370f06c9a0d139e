// nonzero_places(): which coefficients of a block are not 0. Included once per instruction set, by files of Highway
// SIMD only.
#if defined(PENSTOCK_NONZERO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_NONZERO_INL_H_
#undef PENSTOCK_NONZERO_INL_H_
#else
#define PENSTOCK_NONZERO_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "loader/jpeg/base/geometry.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Bit k is set when coefficient k of `block` is not 0. Requires an alignment of 64 bytes.
HWY_INLINE uint64_t nonzero_places(const int16_t* block) {
  namespace hn = hwy::HWY_NAMESPACE;
  uint64_t places = 0;
#if HWY_TARGET == HWY_SCALAR
  for (int k = 0; k < kBlockSize; ++k) places |= uint64_t{block[k] != 0} << k;
#else
  const hn::CappedTag<int16_t, 32> d;
  for (size_t i = 0; i < kBlockSize; i += hn::Lanes(d)) {
    uint32_t bits = 0;
    uint8_t bytes[8];
    hn::StoreMaskBits(d, hn::Ne(hn::Load(d, block + i), hn::Zero(d)), bytes);
    std::memcpy(&bits, bytes, hn::Lanes(d) / 8);
    places |= uint64_t{bits} << i;
  }
#endif
  return places;
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
