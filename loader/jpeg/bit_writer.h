// BitWriter: packs numbers of any width without gaps, filling each byte from its lowest bit on.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace penstock::detail {

static_assert(std::endian::native == std::endian::little);

/// Writes from `to` on. Requires room for 8 bytes more than the numbers take. Its state is in two registers, since no
/// store to the bytes can change a local variable.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* to) : at_(to) {}

  /// Requires value < 2^width and width <= 32.
  void put(uint32_t value, int width) {
    held_ |= uint64_t{value} << count_;
    count_ += width;
    const uint64_t all = held_;
    std::memcpy(at_, &all, sizeof all);
    at_ += count_ / 8;
    held_ >>= count_ / 8 * 8;
    count_ %= 8;
  }

  /// Returns the end of what was written. The last byte is filled up with bits 0.
  uint8_t* finish() const { return at_ + (count_ > 0); }

 private:
  uint8_t* at_;
  uint64_t held_ = 0;
  int count_ = 0;  // below 8: the number of lowest bits of held_ that are in use
};

}  // namespace penstock::detail
