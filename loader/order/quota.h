// Quota sequence: turns of several parts, such that every prefix has its share of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

/// Parts with c[i] turns each, of n = sum(c) in all, in an order in which the first k turns have k * c[i] / n of part
/// i, rounded down or up, for every k: the quota method (Balinski, Young 1975, "The quota method of apportionment"), in
/// integers.
///
/// Memory: 1 byte per turn of one period (the counts divided by their greatest common divisor), and for every 256 turns
/// 8 bytes per part. Thread-safety: immutable after construction.
class QuotaSequence {
 public:
  static constexpr uint64_t kMostPeriod = uint64_t{1} << 28;

  /// Requires 1 to 255 counts, with a period of 1 to kMostPeriod.
  explicit QuotaSequence(const std::vector<uint64_t>& counts);

  /// The sum of the counts, divided by their greatest common divisor. Requires a sum below 2^64.
  static uint64_t period_of(const std::vector<uint64_t>& counts);

  struct Turn {
    size_t part;
    uint64_t number;  // how many turns the part had before this one
  };
  Turn at(uint64_t turn) const;  ///< Requires turn < sum of the counts.

 private:
  static constexpr uint64_t kBlock = 256;
  std::vector<uint64_t> counts_;   // of a period, one entry per part
  std::vector<uint8_t> parts_;     // one entry per turn of a period
  std::vector<uint64_t> numbers_;  // one entry per block and part: turns before the block
};

}  // namespace penstock
