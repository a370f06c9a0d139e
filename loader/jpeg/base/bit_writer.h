// BitWriter: packs numbers of any width without gaps, filling each byte from its lowest bit on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::detail {

static_assert(std::endian::native == std::endian::little);

/// Writes from `to` on. Requires room for 8 bytes more than the numbers take. Its state is in two registers, since no
/// store to the bytes can change a local variable.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* to) : at_(to) {}

  /// Requires value < 2^width and width <= 56.
  void put(uint64_t value, int width) {
    held_ |= value << count_;
    count_ += static_cast<unsigned>(width);
    const uint64_t all = held_;
    std::memcpy(at_, &all, sizeof all);
    at_ += count_ / 8;
    held_ >>= count_ / 8 * 8;
    count_ %= 8;
  }

  /// Puts the first `bit_count` bits of what another writer has written from `from` on.
  void put_all(const uint8_t* from, size_t bit_count) {
    uint32_t word;
    for (; bit_count >= 32; bit_count -= 32, from += 4) {
      std::memcpy(&word, from, sizeof word);
      put(word, 32);
    }
    std::memcpy(&word, from, sizeof word);
    put(word & ((1u << bit_count) - 1), static_cast<int>(bit_count));
  }
  /// The number of bits written, for a writer that began at `begin`.
  size_t bits_since(const uint8_t* begin) const { return 8 * static_cast<size_t>(at_ - begin) + count_; }

  /// Returns the end of what was written. The last byte is filled up with bits 0.
  uint8_t* finish() const { return at_ + (count_ > 0); }

 private:
  uint8_t* at_;
  uint64_t held_ = 0;
  unsigned count_ = 0;  // below 8: the number of lowest bits of held_ that are in use
};

}  // namespace penstock::detail
