// Order: which sample stands at which position of an epoch: a keyed permutation in O(1) memory.
#pragma once

#include <cstdint>

namespace penstock {

/// A permutation of 0 .. size-1 chosen by (seed, epoch): a Feistel network over the next power of two whose round
/// function is a keyed mixer, cycle-walked into the range (Black, Rogaway 2002, "Ciphers with arbitrary finite
/// domains", method 2).
///
/// Deviation: the halves of an odd number of bits are unequal and rounds change them in turn (as
/// in FFX, Bellare, Rogaway, Spies 2010), so that the domain is the next power of two and not of four; eight rounds;
/// not meant to resist an attacker.
///
/// Any size, 0 and 1 included. at() is O(1): under two network passes in the mean.
/// Thread-safety: a value.
class Order {
 public:
  static Order shuffled(uint64_t size, uint64_t seed, uint64_t epoch);
  static Order sequential(uint64_t size);

  uint64_t size() const { return size_; }
  uint64_t at(uint64_t position) const;  ///< Requires position < size().

 private:
  static constexpr int kRounds = 8;
  Order() = default;

  uint64_t size_ = 0;
  bool is_shuffled_ = false;
  int left_bits_ = 0, right_bits_ = 0;
  uint64_t keys_[kRounds] = {};
};

}  // namespace penstock
