// BlockNeeds: what a block needs of the codebook entry that it is stored with.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/nonzero.h"
#include "loader/jpeg/store/store_format.h"

namespace penstock::detail {

constexpr int kNoFit = 9;     // the need of an AC coefficient that no width holds
constexpr int kNoFitDc = 13;  // the need of a DC difference that no width holds
static_assert(kNoFit == kMaxWidth + 1 && kNoFitDc == kMaxDcWidth + 1);

/// The least width that holds an AC coefficient. A width w > 0 holds -2^(w-1) .. 2^(w-1), but the greatest one does not
/// hold 2^(w-1).
constexpr int ac_need(int value) {
  if (value == 0) return 0;
  const auto need = 1 + static_cast<int>(std::bit_width(static_cast<unsigned>((value < 0 ? -value : value) - 1)));
  return value == 1 << (kMaxWidth - 1) ? kNoFit : std::min(need, kNoFit);
}

/// ac_need() of -128 .. 127. No width holds any other value.
inline constexpr auto kAcNeeds = [] {
  std::array<uint8_t, 256> needs{};
  for (int value = -128; value < 128; ++value) needs[value + 128] = static_cast<uint8_t>(ac_need(value));
  return needs;
}();

/// The least width that holds a DC difference. Width 0 holds 0; a width w > 0 holds -2^(w-1) .. 2^(w-1) - 1.
constexpr int dc_need(int difference) {
  if (difference == 0) return 0;
  const auto magnitude = static_cast<unsigned>(difference < 0 ? -(difference + 1) : difference);
  return std::min(1 + static_cast<int>(std::bit_width(magnitude)), kNoFitDc);
}

/// A coefficient together with its need, which is above 0, as one number below kNeedCount. Numbers ascend with the
/// coefficient, and then with the need. Coefficient 0 stands for the difference of the DC.
using Need = uint16_t;
constexpr int kNeedCount = kNoFitDc + (kBlockSize - 1) * kNoFit;

constexpr Need need_of(int coefficient, int width) {
  return static_cast<Need>(coefficient == 0 ? width - 1 : kNoFitDc + (coefficient - 1) * kNoFit + width - 1);
}

struct NeedParts {
  uint8_t coefficient, width;
};
/// The parts of every need. A look-up takes less time than the division.
inline constexpr auto kNeedParts = [] {
  std::array<NeedParts, kNeedCount> all{};
  for (int k = 0; k < kBlockSize; ++k)
    for (int width = 1; width <= (k == 0 ? kNoFitDc : kNoFit); ++width)
      all[need_of(k, width)] = {static_cast<uint8_t>(k), static_cast<uint8_t>(width)};
  return all;
}();
constexpr int coefficient_of(Need need) { return kNeedParts[need].coefficient; }
constexpr int width_of(Need need) { return kNeedParts[need].width; }

/// The needs of a block that are above 0, in ascending order.
class BlockNeeds {
 public:
  /// Requires that `block` has an alignment of 64 bytes.
  BlockNeeds(const int16_t* block, int dc_difference) : dc_(dc_need(dc_difference)) {
    if (dc_ > 0) needs_[count_++] = need_of(0, dc_);
    for (uint64_t left = nonzero_places(block) & ~uint64_t{1}; left != 0; left &= left - 1) {
      const int k = std::countr_zero(left);
      const unsigned place = static_cast<unsigned>(block[k] + 128);
      needs_[count_++] = need_of(k, place < kAcNeeds.size() ? kAcNeeds[place] : kNoFit);
    }
  }

  std::span<const Need> list() const { return {needs_.data(), count_}; }
  std::span<const Need> ac_list() const { return list().subspan(dc_ > 0); }
  /// The need of the DC difference.
  int dc() const { return dc_; }

 private:
  int dc_;
  size_t count_ = 0;
  std::array<Need, kBlockSize> needs_;
};

}  // namespace penstock::detail
