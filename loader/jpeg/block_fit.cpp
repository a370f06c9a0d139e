// best_fit() in Highway SIMD, compiled once for each instruction set. The best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/block_fit.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "hwy/highway.h"
#include "loader/jpeg/block_fit.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The bits that one entry costs for the values and exceptions of one block. A coefficient that is 0 costs nothing, one
/// that fits its width costs that width, and any other costs an exception. The DC's width is not counted here, because
/// it is in the base already.
HWY_INLINE int value_bits(const uint8_t* needs, const uint8_t* widths) {
  const hn::CappedTag<uint8_t, kBlockSize> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto exception = hn::Set(d, kExceptionBits);
  auto sums = hn::Zero(d64);
  for (size_t i = 0; i < kBlockSize; i += hn::Lanes(d)) {
    const auto need = hn::Load(d, needs + i), width = hn::Load(d, widths + i);
    auto cost = width;
    if (i == 0) cost = hn::IfThenZeroElse(hn::FirstN(d, 1), cost);
    // need > width (unsigned) exactly when the saturated difference need - width is not 0. Highway 1.0.3 would compare
    // u8 by flipping the top bit of both.
    const auto misfit = hn::Ne(hn::SaturatedSub(need, width), hn::Zero(d));
    cost = hn::IfThenElse(misfit, exception, cost);
    cost = hn::IfThenZeroElse(hn::Eq(need, hn::Zero(d)), cost);
    sums = hn::Add(sums, hn::SumsOf8(cost));
  }
  return static_cast<int>(hn::GetLane(hn::SumOfLanes(d64, sums)));
}

HWY_NOINLINE BlockFit best_fit(const uint8_t* needs, const EntryWidths* widths, const uint16_t* base_bits,
                               int entry_count) {
  BlockFit best{.entry = 0, .bits = INT32_MAX};
  for (int entry = 0; entry < entry_count; ++entry) {
    const int bits = base_bits[entry] + value_bits(needs, widths[entry].data());
    if (bits < best.bits) best = {entry, bits};
  }
  return best;
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(best_fit);

BlockNeeds block_needs(const int16_t* block) {
  BlockNeeds needs;
  needs[0] = 0;
  for (int i = 1; i < kBlockSize; ++i) {
    const unsigned magnitude = std::abs(int{block[i]});
    const int need = magnitude == 0 ? 0 : 1 + std::bit_width(magnitude - 1);
    needs[i] = static_cast<uint8_t>(block[i] == 1 << (kMaxWidth - 1) ? kNoFit : std::min(need, kNoFit));
  }
  return needs;
}

uint8_t dc_need(int difference) {
  if (difference == 0) return 0;
  const int need = 1 + std::bit_width(static_cast<unsigned>(difference < 0 ? -(difference + 1) : difference));
  return static_cast<uint8_t>(std::min(need, kNoFitDc));
}

BlockFit best_fit(const BlockNeeds& needs, const ClassWidths& widths,
                  const std::array<uint16_t, kStoreEntries>& base_bits, int entry_count) {
  alignas(64) const BlockNeeds aligned = needs;
  return HWY_DYNAMIC_DISPATCH(best_fit)(aligned.data(), widths.data(), base_bits.data(), entry_count);
}

}  // namespace penstock::detail
#endif
