// BitWriter: packs numbers of any width without gaps, filling each byte from its lowest bit on.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Appends to `bytes`, which must outlive the writer.
class BitWriter {
 public:
  explicit BitWriter(std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  /// Requires value < 2^width and width <= 32.
  void put(uint32_t value, int width) {
    held_ |= uint64_t{value} << count_;
    for (count_ += width; count_ >= 8; count_ -= 8, held_ >>= 8) bytes_.push_back(static_cast<uint8_t>(held_));
  }

  /// Fills the last byte up with bits 0, so that the next number begins at a byte.
  void finish() {
    if (count_ > 0) bytes_.push_back(static_cast<uint8_t>(held_));
    held_ = 0, count_ = 0;
  }

 private:
  std::vector<uint8_t>& bytes_;
  uint64_t held_ = 0;
  int count_ = 0;
};

}  // namespace penstock::detail
