// AliasTable: one element at random by its weight, in O(1).
#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

/// Walker's table (1977, "An efficient method for generating discrete random variables with general distributions") as
/// Vose fills it (1991), in integers: element i is drawn with probability w[i] / sum(w), but for a part of less than
/// 2^-32 in all.
///
/// Memory: 16 bytes per weight. Thread-safety: immutable after construction.
class AliasTable {
 public:
  /// Requires some weight above 0, and that the largest times their number is less than 2^63.
  explicit AliasTable(const std::vector<uint64_t>& weights);
  /// `first` and `second` are 64 random bits each.
  uint64_t draw(uint64_t first, uint64_t second) const;

 private:
  struct Entry {
    uint64_t own;    // of sum(w) units: those of the element itself
    uint64_t other;  // whose the rest is
  };
  std::vector<Entry> entries_;
  uint64_t sum_ = 0;
};

}  // namespace penstock
