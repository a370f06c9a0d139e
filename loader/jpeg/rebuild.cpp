// encode_scan(): sequential Huffman coding (ITU-T T.81, F.1.2).
#include "loader/jpeg/rebuild.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/nonzero.h"

namespace penstock::detail {
namespace {

/// Writes bits, the highest one first, and a zero byte after every 0xFF, from a place on that has room for them and for
/// 16 bytes more. It is copied for every block, so that its state is in registers while the block is written.
class ScanBits {
 public:
  explicit ScanBits(uint8_t* to) : at_(to) {}

  /// Requires bit_count <= 31 and value < 2^bit_count.
  [[gnu::always_inline]] void put(uint32_t value, int bit_count) {
    held_ = held_ << bit_count | value;
    held_count_ += bit_count;
    if (held_count_ < 32) return;
    held_count_ -= 32;
    const auto word = static_cast<uint32_t>(held_ >> held_count_);
    // A byte is 0xFF when the complement has a byte 0. This test finds such a byte (Mycroft 1987).
    if (((~word - 0x01010101U) & word & 0x80808080U) != 0) {
      at_ = put_stuffed(at_, word);
      return;
    }
    for (int i = 0; i < 4; ++i) at_[i] = static_cast<uint8_t>(word >> (24 - 8 * i));
    at_ += 4;
  }
  void pad() {
    if (held_count_ % 8 != 0) put((1U << (8 - held_count_ % 8)) - 1, 8 - held_count_ % 8);
    for (; held_count_ > 0; held_count_ -= 8) at_ = put_byte(at_, static_cast<uint8_t>(held_ >> (held_count_ - 8)));
  }
  /// Requires that the last call was pad().
  void put_marker(uint8_t marker) {
    *at_++ = 0xFF;
    *at_++ = marker;
  }
  uint8_t* at() const { return at_; }
  void move(uint8_t* to) { at_ = to; }

 private:
  // Static, because an object whose address is known elsewhere is not kept in registers.
  static uint8_t* put_stuffed(uint8_t* at, uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) at = put_byte(at, static_cast<uint8_t>(word >> shift));
    return at;
  }
  static uint8_t* put_byte(uint8_t* at, uint8_t byte) {
    *at++ = byte;
    if (byte == 0xFF) *at++ = 0;
    return at;
  }

  uint8_t* at_;
  uint64_t held_ = 0;
  int held_count_ = 0;  // fewer than 32: the number of lowest bits of held_ that are not yet written
};

/// The code and its length for each symbol (T.81, annex C).
class SymbolCoder {
 public:
  explicit SymbolCoder(const HuffmanSpec& spec) {
    uint32_t code = 0;
    int index = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1)
      for (int i = 0; i < spec.counts[length - 1]; ++i, ++code)
        codes_[spec.symbols[index++]] = {static_cast<uint16_t>(code), static_cast<uint16_t>(length)};
  }

  /// Writes the symbol for `run` zeros and the size of `value`, then the bits of the value. A negative value is written
  /// as the lowest bits of value - 1.
  [[gnu::always_inline]] void put(ScanBits& writer, int run, int value) const {
    const int size = static_cast<int>(std::bit_width(static_cast<uint32_t>(std::abs(value))));
    if (size > 15) fail(run, value);
    const auto [code, length] = codes_[run << 4 | size];
    if (length == 0) fail(run, value);
    const uint32_t bits = static_cast<uint32_t>(value + (value >> 31)) & ((1U << size) - 1);
    writer.put(uint32_t{code} << size | bits, length + size);
  }

 private:
  struct Code {
    uint16_t code = 0, length = 0;  // length 0: the symbol has no code
  };

  [[noreturn]] static void fail(int run, int value) {
    throw corrupt_error(concat("JPEG: coefficient ", value, " after ", run,
                               " zeros has no Huffman code; expected the coefficients of this header's picture"));
  }

  std::array<Code, 256> codes_{};
};

/// Element [row][bits]: the places in zigzag order, as bits, of the coefficients of a row whose bits are set.
constexpr auto kZigzagPlaces = [] {
  std::array<std::array<uint64_t, 256>, 8> places{};
  int k = 0;
  for (int sum = 0; sum < 15; ++sum) {  // T.81, figure 5: downwards on odd antidiagonals, upwards on even ones
    for (int i = std::max(0, sum - 7); i <= std::min(sum, 7); ++i, ++k) {
      const int row = sum % 2 == 1 ? i : sum - i, column = sum - row;
      for (int bits = 0; bits < 256; ++bits)
        if (bits >> column & 1) places[row][bits] |= uint64_t{1} << k;
    }
  }
  return places;
}();

void put_ac(ScanBits& writer, const SymbolCoder& encoder, const int16_t* block) {
  // Bit k of `left` is set when the k-th coefficient in zigzag order is not 0. Four in five are 0 and cost nothing
  // more. A loop over the others would take longer than these look-ups, because its end is hard to predict.
  const uint64_t places = nonzero_places(block);
  uint64_t left = 0;
  for (int row = 0; row < 8; ++row) left |= kZigzagPlaces[row][places >> 8 * row & 0xFF];
  left &= ~uint64_t{1};
  int before = 0;
  for (; left != 0; left &= left - 1) {
    const int k = std::countr_zero(left);
    int run = k - before - 1;
    for (; run > 15; run -= 16) encoder.put(writer, 15, 0);
    encoder.put(writer, run, block[kNaturalOrder[k]]);
    before = k;
  }
  if (before < kBlockSize - 1) encoder.put(writer, 0, 0);
}

/// The most bytes of an MCU: 64 symbols of 31 bits per block, every byte of them stuffed, and a restart marker. It also
/// has 64 bytes for what is held back, and for what pad() adds.
constexpr size_t kMcuRoom = 2 * kMaxMcuBlocks * kBlockSize * 31 / 8 + 64;

class ScanEncoder {
 public:
  ScanEncoder(const JpegHeader& header, const JpegGeometry& geometry)
      : geometry_(geometry), restart_interval_(header.restart_interval) {
    for (int i = 0; i < geometry.component_count; ++i) {
      dc_.emplace_back(header.dc[header.components[i].dc_table]);
      ac_.emplace_back(header.ac[header.components[i].ac_table]);
    }
  }

  void put_mcu(const int16_t* block) {
    make_room();
    ScanBits writer = writer_;
    if (restart_interval_ > 0 && mcu_ > 0 && mcu_ % restart_interval_ == 0) {
      writer.pad();
      writer.put_marker(static_cast<uint8_t>(0xD0 + (mcu_ / restart_interval_ - 1) % 8));
      predictors_ = {};
    }
    ++mcu_;
    for (int i = 0; i < geometry_.component_count; ++i) {
      const auto& component = geometry_.components[i];
      for (int j = 0; j < component.h * component.v; ++j, block += kBlockSize) {
        // Truncated to 16 bits, because a decoder's predictors wrap around at 16 bits.
        dc_[i].put(writer, 0, static_cast<int16_t>(block[0] - predictors_[i]));
        predictors_[i] = block[0];
        put_ac(writer, ac_[i], block);
      }
    }
    writer_ = writer;
  }

  std::vector<uint8_t> finish() {
    make_room();
    writer_.pad();
    bytes_.resize(static_cast<size_t>(writer_.at() - bytes_.data()));
    return std::move(bytes_);
  }

 private:
  /// Makes sure that the next MCU fits.
  void make_room() {
    const auto used = static_cast<size_t>(writer_.at() - bytes_.data());
    if (bytes_.size() - used >= kMcuRoom) return;
    bytes_.resize(2 * bytes_.size() + kMcuRoom);
    writer_.move(bytes_.data() + used);
  }

  const JpegGeometry& geometry_;
  const int restart_interval_;
  std::vector<SymbolCoder> dc_, ac_;
  std::array<int16_t, 4> predictors_{};
  int64_t mcu_ = 0;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(kMcuRoom);
  ScanBits writer_{bytes_.data()};
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
