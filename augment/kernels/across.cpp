// AcrossTable: expands weights and shuffles into whole vectors.
#include "augment/kernels/across.h"

namespace penstock::detail {
namespace {

constexpr int kParts = 4;
constexpr int kGroupedLanes = 16, kLoaded = 32;  // in a vector of 512 bits: f32 lanes, i16 values per load

/// What four neighbouring output pixels read from the line: the lowest offset, and the number of i16 values from there
/// to the last one that is needed.
struct Reach {
  int32_t lowest = 0, extent = 0;
};

Reach reach_of(const int32_t* offset) {
  const auto [low, high] = std::minmax({offset[0], offset[1], offset[2], offset[3]});
  return {low, high - low + 6};
}

}  // namespace

void AcrossTable::assign(const Taps& taps, const std::vector<int32_t>& offset, int lane_count, bool may_group) {
  lanes = lane_count;
  const int count = taps.end - taps.begin, vector_count = (count + lanes - 1) / lanes;
  is_grouped = may_group && lanes == kGroupedLanes && count >= lanes;
  for (int vector = 0; is_grouped && vector < vector_count; ++vector)
    for (int part = 0; part < kParts; ++part)
      is_grouped &= reach_of(&offset[first_of(vector, lanes, count) + 4 * part]).extent <= kLoaded;
  weights.resize(static_cast<size_t>(vector_count) * taps.pair_count * kParts * lanes);
  if (is_grouped) {
    base.resize(static_cast<size_t>(vector_count) * kParts);
    order.resize(static_cast<size_t>(vector_count) * kParts * 2 * lanes);
  }
  uint32_t* weight = weights.data();
  for (int vector = 0; vector < vector_count; ++vector) {
    const int first = first_of(vector, lanes, count);
    for (int p = 0; p < taps.pair_count; ++p) {
      const uint32_t* pairs = &taps.pairs[p * taps.pair_stride + first];
      for (int part = 0; part < kParts; ++part)
        for (int block = 0; block < lanes / 4; ++block, weight += 4)
          std::fill(weight, weight + 4, pairs[is_grouped ? 4 * part + block : 4 * block + part]);
    }
    if (!is_grouped) continue;
    for (int part = 0; part < kParts; ++part) {
      const int32_t* offsets = &offset[first + 4 * part];
      const int32_t lowest = reach_of(offsets).lowest;
      base[vector * kParts + part] = lowest;
      uint16_t* to = &order[static_cast<size_t>(vector * kParts + part) * kLoaded];
      for (int block = 0; block < 4; ++block) {
        static constexpr std::array<uint16_t, 8> kPair{0, 3, 1, 4, 2, 5, 2, 5};
        for (int i = 0; i < 8; ++i) to[8 * block + i] = static_cast<uint16_t>(offsets[block] - lowest + kPair[i]);
      }
    }
  }
}

}  // namespace penstock::detail
