// StoreBits: bits of a coefficient store, read in aligned words because a device has no other loads.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Reads the store of one picture. Nothing in it is trusted: whatever lies at or after its end reads as zeros, so that
/// no position makes a read outside of it.
class StoreBits {
 public:
  /// The store begins at words[0]. The bytes of its last word that lie after it must be readable and 0.
  StoreBits(const uint32_t* words, uint64_t byte_count) : words_(words), word_count_((byte_count + 3) / 4) {}

  /// `count` bits from bit number `bit` on. Requires count <= 32.
  uint32_t bits(uint64_t bit, int count) const {
    const uint64_t at = bit / 32;
    const uint64_t two = word(at) | static_cast<uint64_t>(word(at + 1)) << 32;
    return static_cast<uint32_t>(two >> bit % 32 & ((uint64_t{1} << count) - 1));
  }
  /// Requires count <= 64.
  uint64_t long_bits(uint64_t bit, int count) const {
    if (count <= 32) return bits(bit, count);
    return bits(bit, 32) | static_cast<uint64_t>(bits(bit + 32, count - 32)) << 32;
  }
  uint8_t byte(uint64_t at) const { return static_cast<uint8_t>(bits(8 * at, 8)); }

 private:
  uint32_t word(uint64_t at) const { return at < word_count_ ? words_[at] : 0; }

  const uint32_t* words_;
  uint64_t word_count_;
};

}  // namespace penstock::detail
