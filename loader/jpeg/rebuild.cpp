// encode_scan(): sequential Huffman coding (ITU-T T.81, F.1.2).
#include "loader/jpeg/rebuild.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

/// Writes bits, the highest one first, and a zero byte after every 0xFF.
class ScanBits {
 public:
  /// Requires bit_count <= 31 and value < 2^bit_count.
  void put(uint32_t value, int bit_count) {
    held_ = held_ << bit_count | value;
    held_count_ += bit_count;
    if (held_count_ < 32) return;
    held_count_ -= 32;
    put_word(static_cast<uint32_t>(held_ >> held_count_));
  }
  void pad() {
    if (held_count_ % 8 != 0) put((1U << (8 - held_count_ % 8)) - 1, 8 - held_count_ % 8);
    for (; held_count_ > 0; held_count_ -= 8) put_byte(static_cast<uint8_t>(held_ >> (held_count_ - 8)));
  }
  /// Requires that the last call was pad().
  void put_marker(uint8_t marker) {
    bytes_.push_back(0xFF);
    bytes_.push_back(marker);
  }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  void put_word(uint32_t word) {
    // A byte is 0xFF when the complement has a byte 0. This test finds such a byte (Mycroft 1987).
    const uint32_t complement = ~word;
    if (((complement - 0x01010101U) & word & 0x80808080U) != 0) {
      for (int shift = 24; shift >= 0; shift -= 8) put_byte(static_cast<uint8_t>(word >> shift));
      return;
    }
    const std::array bytes{static_cast<uint8_t>(word >> 24), static_cast<uint8_t>(word >> 16),
                           static_cast<uint8_t>(word >> 8), static_cast<uint8_t>(word)};
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_byte(uint8_t byte) {
    bytes_.push_back(byte);
    if (byte == 0xFF) bytes_.push_back(0);
  }

  std::vector<uint8_t> bytes_;
  uint64_t held_ = 0;
  int held_count_ = 0;  // fewer than 32: the number of lowest bits of held_ that are not yet in bytes_
};

/// The code and its length for each symbol (T.81, annex C).
class SymbolCoder {
 public:
  explicit SymbolCoder(const HuffmanSpec& spec) {
    uint32_t code = 0;
    int index = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
      for (int i = 0; i < spec.counts[length - 1]; ++i, ++code) {
        const uint8_t symbol = spec.symbols[index++];
        codes_[symbol] = code;
        lengths_[symbol] = static_cast<uint8_t>(length);
      }
    }
  }

  /// Writes the symbol for `run` zeros and the size of `value`, then the bits of the value. A negative value is written
  /// as the lowest bits of value - 1.
  void put(ScanBits& writer, int run, int value) const {
    const int size = std::bit_width(static_cast<uint32_t>(std::abs(value)));
    const int symbol = run << 4 | size;
    if (size > 15 || lengths_[symbol] == 0)
      throw corrupt_error(concat("JPEG: coefficient ", value, " after ", run,
                                 " zeros has no Huffman code; expected the coefficients of this header's picture"));
    const uint32_t bits = static_cast<uint32_t>(value < 0 ? value - 1 : value) & ((1U << size) - 1);
    writer.put(codes_[symbol] << size | bits, lengths_[symbol] + size);
  }

 private:
  std::array<uint32_t, 256> codes_{};
  std::array<uint8_t, 256> lengths_{};
};

void put_ac(ScanBits& writer, const SymbolCoder& encoder, const int16_t* block, const std::array<uint8_t, 64>& zigzag) {
  // Bit k is set when the k-th coefficient in zigzag order is not 0. Four in five are 0 and cost nothing more.
  uint64_t left = 0;
  for (int k = 1; k < kBlockSize; ++k) left |= uint64_t{block[zigzag[k]] != 0} << k;
  int before = 0;
  for (; left != 0; left &= left - 1) {
    const int k = std::countr_zero(left);
    int run = k - before - 1;
    for (; run > 15; run -= 16) encoder.put(writer, 15, 0);
    encoder.put(writer, run, block[zigzag[k]]);
    before = k;
  }
  if (before < kBlockSize - 1) encoder.put(writer, 0, 0);
}

class ScanEncoder {
 public:
  ScanEncoder(const JpegHeader& header, const JpegGeometry& geometry)
      : geometry_(geometry), restart_interval_(header.restart_interval) {
    std::copy_n(kNaturalOrder.begin(), zigzag_.size(), zigzag_.begin());
    for (int i = 0; i < geometry.component_count; ++i) {
      dc_.emplace_back(header.dc[header.components[i].dc_table]);
      ac_.emplace_back(header.ac[header.components[i].ac_table]);
    }
  }

  void put_mcu(const int16_t* block) {
    if (restart_interval_ > 0 && mcu_ > 0 && mcu_ % restart_interval_ == 0) {
      writer_.pad();
      writer_.put_marker(static_cast<uint8_t>(0xD0 + (mcu_ / restart_interval_ - 1) % 8));
      predictors_ = {};
    }
    ++mcu_;
    for (int i = 0; i < geometry_.component_count; ++i) {
      const auto& component = geometry_.components[i];
      for (int j = 0; j < component.h * component.v; ++j, block += kBlockSize) {
        // Truncated to 16 bits, because a decoder's predictors wrap around at 16 bits.
        dc_[i].put(writer_, 0, static_cast<int16_t>(block[0] - predictors_[i]));
        predictors_[i] = block[0];
        put_ac(writer_, ac_[i], block, zigzag_);
      }
    }
  }

  std::vector<uint8_t> finish() {
    writer_.pad();
    return writer_.take();
  }

 private:
  const JpegGeometry& geometry_;
  const int restart_interval_;
  std::array<uint8_t, 64> zigzag_;  // a copy, of which the compiler knows that no store changes it
  std::vector<SymbolCoder> dc_, ac_;
  std::array<int16_t, 4> predictors_{};
  int64_t mcu_ = 0;
  ScanBits writer_;
};

}  // namespace

std::vector<uint8_t> encode_scan(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source) {
  alignas(64) std::array<int16_t, kGroupMcus * kMaxMcuBlocks * kBlockSize> blocks;
  std::array<uint8_t, kGroupMcus * kMaxMcuBlocks> rows;
  if (geometry.mcu_blocks > kMaxMcuBlocks)
    throw bug_error(concat("encode_scan: ", geometry.mcu_blocks, " blocks per MCU; expected 10 or fewer"));
  ScanEncoder encoder(header, geometry);
  for (int row = 0; row < geometry.mcu_rows; ++row) {
    for (int begin = 0; begin < geometry.mcu_columns; begin += kGroupMcus) {
      const int end = std::min(begin + kGroupMcus, geometry.mcu_columns);
      source.read(row, begin, end, {blocks.data(), rows.data()});
      for (int i = 0; i < end - begin; ++i)
        encoder.put_mcu(blocks.data() + ptrdiff_t{i} * geometry.mcu_blocks * kBlockSize);
    }
  }
  return encoder.finish();
}

}  // namespace penstock::detail
