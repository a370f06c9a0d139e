// Order: which sample stands at which position of an epoch. It is a keyed permutation in O(1) memory.
//
// Lives here: which sample stands at which position of an epoch, which positions are a rank's, when shards are in use.
// Not here: samples themselves (loader/shards); SampleOrder, which knows a data set, is in loader/rows.
#pragma once

#include <cstdint>

namespace penstock {

/// A permutation of 0 .. size-1 that (seed, epoch) choose. Of fewer than kFirstNetwork elements it is drawn and kept,
/// so that every permutation is equally likely (Durstenfeld 1964, "Algorithm 235: Random permutation").
///
/// From there on it is a Feistel network over the next power of two, whose round function is a keyed mixer, and which
/// over fewer bits prefers some permutations to others. A result outside of the range is put through the network again
/// until it lies inside (cycle walking: Black, Rogaway 2002, "Ciphers with arbitrary finite domains", method 2).
/// Deviation: with an odd number of bits the two halves are unequal, and the rounds change them in turn (as in FFX,
/// Bellare, Rogaway, Spies 2010). The domain is therefore the next power of two and not the next power of four. There
/// are eight rounds, which are not meant to resist an attacker.
///
/// Every size is allowed, also 0 and 1. at() is O(1): fewer than two passes through the network on average.
/// Thread-safety: a value; const calls may run at the same time.
class Order {
 public:
  static constexpr uint64_t kFirstNetwork = 64;  ///< The smallest size that has a network.

  static Order shuffled(uint64_t size, uint64_t seed, uint64_t epoch);
  static Order sequential(uint64_t size);

  uint64_t size() const { return size_; }
  uint64_t at(uint64_t position) const;         ///< Requires position < size().
  uint64_t position_of(uint64_t sample) const;  ///< The inverse of at(). Requires sample < size().

 private:
  static constexpr int kRounds = 8;
  Order() = default;
  void draw(uint64_t state);

  uint64_t size_ = 0;
  bool is_shuffled_ = false;
  int left_bits_ = 0, right_bits_ = 0;
  union {
    uint64_t keys_[kRounds] = {};
    uint8_t samples_[kFirstNetwork];  // below kFirstNetwork: the permutation itself
  };
};

}  // namespace penstock
