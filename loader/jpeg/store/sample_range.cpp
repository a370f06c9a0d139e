// has_samples_in_range(): the sum of a block's coefficients settles most blocks, and the exact inverse DCT the others.
#include "loader/jpeg/store/sample_range.h"

#include <algorithm>
#include <cstdlib>

#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/pixels/pixel_math.h"

namespace penstock::detail {
namespace {

/// No coefficient, and no value between the passes, is greater where the samples are in range: 8 x 510 and 32 x 510, up
/// to rounding. With these limits all sums of the inverse DCT fit 32 bits.
constexpr int kMostCoefficient = 4200, kMostBetween = 17000;
/// A sample is at most 1/8 of the DC plus 0.2405 (1.387^2 / 8) times the sum of the other coefficients. So it is below
/// 501 where the DC plus twice the others is at most this, all in absolute values.
constexpr int kSurelyFits = 4000;
constexpr int16_t kTooGreat = kMostCoefficient + 1;

using DequantisedBlock = std::array<int32_t, kBlockSize>;

/// Element [j][k]: the weight of coefficient j of a line in its sample k.
constexpr auto kWeights = [] {
  std::array<std::array<int32_t, 8>, 8> weights{};
  for (int j = 0; j < 8; ++j)
    for (int k = 0; k < 8; ++k) weights[j][k] = idct_weight<8>(k, j);
  return weights;
}();

/// Whether the inverse DCT, with the rounding of jidctint.c and without its overflows, stays in range.
bool fits_exactly(const DequantisedBlock& block) {
  const auto exceeds = [](int32_t most) { return [most](int32_t value) { return std::abs(value) > most; }; };
  if (std::any_of(block.begin(), block.end(), exceeds(kMostCoefficient))) return false;
  DequantisedBlock between{};
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 8; ++k)
      for (int column = 0; column < 8; ++column) between[8 * k + column] += kWeights[row][k] * block[8 * row + column];
  for (auto& value : between) value = (value + (1 << 10)) >> 11;
  if (std::any_of(between.begin(), between.end(), exceeds(kMostBetween))) return false;
  DequantisedBlock samples{};
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 8; ++k) samples[8 * row + k] += kWeights[column][k] * between[8 * row + column];
  for (auto& value : samples) value = (value + (1 << 17)) >> 18;
  return std::none_of(samples.begin(), samples.end(), exceeds(kMostSample));
}

}  // namespace

BlockRange::BlockRange(std::span<const uint16_t, kBlockSize> quant) {
  std::copy(quant.begin(), quant.end(), quant_.begin());
  for (int i = 0; i < kBlockSize; ++i) limited_[i] = static_cast<int16_t>(std::min<int>(quant[i], kTooGreat));
}

bool BlockRange::holds(const int16_t* coefficients, int used_rows) const {
  // Numbers are limited, so that the sum fits 32 bits and the compiler can make it with pmaddwd.
  constexpr int16_t kLeast = -kTooGreat;
  int32_t sum = 0;
  for (int i = 0; i < 8 * std::max(used_rows, 1); ++i) {
    const auto negated = static_cast<int16_t>(-std::max(coefficients[i], kLeast));
    sum += std::min(std::max(coefficients[i], negated), kTooGreat) * limited_[i];
  }
  const int32_t dc = std::min(std::abs(int{coefficients[0]}), int{kTooGreat}) * limited_[0];
  if (sum <= (kSurelyFits + dc) / 2) return true;
  DequantisedBlock block;
  for (int i = 0; i < kBlockSize; ++i) block[i] = coefficients[i] * quant_[i];
  return fits_exactly(block);
}

RangeWatch::RangeWatch(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source)
    : geometry_(geometry), source_(source) {
  for (int i = 0; i < geometry.component_count; ++i)
    ranges_.emplace_back(header.quant[header.components[i].quant_table]);
}

void RangeWatch::read(int mcu_row, int begin, int end, const McuRun& run) {
  source_.read(mcu_row, begin, end, run);
  for (int mcu = 0; is_in_range_ && mcu < end - begin; ++mcu) {
    for (int i = 0; i < geometry_.component_count; ++i) {
      const auto& component = geometry_.components[i];
      const int first = mcu * geometry_.mcu_blocks + component.first_block;
      for (int block = first; block < first + component.h * component.v; ++block)
        is_in_range_ &= ranges_[i].holds(run.blocks + ptrdiff_t{kBlockSize} * block, run.rows[block]);
    }
  }
}

bool has_samples_in_range(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes) {
  HuffmanSource source(header, geometry, bytes);
  RangeWatch watch(header, geometry, source);
  alignas(64) std::array<int16_t, size_t{kMaxGroupBlocks} * kBlockSize> blocks;
  std::array<uint8_t, kMaxGroupBlocks> rows;
  for (int row = 0; row < geometry.mcu_rows; ++row)
    for (int begin = 0; begin < geometry.mcu_columns; begin += kGroupMcus)
      watch.read(row, begin, std::min(begin + kGroupMcus, geometry.mcu_columns), {blocks.data(), rows.data()});
  return watch.is_in_range();
}

}  // namespace penstock::detail
