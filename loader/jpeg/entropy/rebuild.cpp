// encode_scan(): sequential Huffman coding (ITU-T T.81, F.1.2).
#include "loader/jpeg/entropy/rebuild.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/nonzero.h"

namespace penstock::detail {
namespace {

/// Writes bits, the highest one first, from a place on that has room for them and for 8 bytes more. No branch depends
/// on the bits, which nobody can predict. It is copied for every MCU, so that its state is in registers meanwhile.
class ScanBits {
 public:
  explicit ScanBits(uint8_t* to) : at_(to) {}

  /// Requires bit_count <= 31 and value < 2^bit_count.
  [[gnu::always_inline]] void put(uint32_t value, unsigned bit_count) {
    held_ = held_ << bit_count | value;
    count_ += bit_count;
    const uint64_t next = __builtin_bswap64(held_ << (64 - count_));
    std::memcpy(at_, &next, sizeof next);
    at_ += count_ / 8;
    count_ %= 8;
  }
  /// Fills the last byte up with ones.
  void pad() {
    if (count_ > 0) put((1U << (8 - count_)) - 1, 8 - count_);
  }
  uint8_t* end() const { return at_; }  // of the whole bytes
  /// Goes on at `to`, where the bits that are not yet a whole byte are written again.
  void move(uint8_t* to) { at_ = to; }

 private:
  uint8_t* at_;
  uint64_t held_ = 0;   // the bits written last; older ones are on top
  unsigned count_ = 0;  // below 8: the number of lowest bits of held_ that are not a whole byte yet
};

/// Appends `bytes` with a zero byte after every 0xFF.
void append_stuffed(std::span<const uint8_t> bytes, std::vector<uint8_t>& to) {
  for (const uint8_t *at = bytes.data(), *end = at + bytes.size(); at != end;) {
    const auto* found = static_cast<const uint8_t*>(std::memchr(at, 0xFF, static_cast<size_t>(end - at)));
    const uint8_t* stop = found ? found + 1 : end;
    to.insert(to.end(), at, stop);
    if (found) to.push_back(0);
    at = stop;
  }
}

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
    writer.put(uint32_t{code} << size | bits, static_cast<unsigned>(length + size));
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

constexpr size_t kPlainBytes = 16384;  // bytes that are stuffed together
/// The most bytes of an MCU: 64 symbols of 31 bits per block; and 16 for what is held back, and beyond the last bit.
constexpr size_t kMcuBytes = kMaxMcuBlocks * kBlockSize * 31 / 8 + 16;

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
    if (restart_interval_ > 0 && mcu_ > 0 && mcu_ % restart_interval_ == 0) {
      writer_.pad();
      stuff();
      bytes_.insert(bytes_.end(), {0xFF, static_cast<uint8_t>(0xD0 + (mcu_ / restart_interval_ - 1) % 8)});
      predictors_ = {};
    }
    ++mcu_;
    ScanBits writer = writer_;
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
    if (writer_.end() >= plain_.data() + kPlainBytes) stuff();
  }

  std::vector<uint8_t> finish() {
    writer_.pad();
    stuff();
    return std::move(bytes_);
  }

 private:
  /// Moves the whole bytes of `plain_` to `bytes_`.
  void stuff() {
    append_stuffed({plain_.data(), writer_.end()}, bytes_);
    writer_.move(plain_.data());
  }

  const JpegGeometry& geometry_;
  const int restart_interval_;
  std::vector<SymbolCoder> dc_, ac_;
  std::array<int16_t, 4> predictors_{};
  int64_t mcu_ = 0;
  std::vector<uint8_t> bytes_, plain_ = std::vector<uint8_t>(kPlainBytes + kMcuBytes);
  ScanBits writer_{plain_.data()};
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
