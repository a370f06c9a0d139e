// RangeWatch: whether all ways to decode the blocks of a JPEG give the same samples.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"

namespace penstock::detail {

/// The greatest sample, in absolute value, of a block that every decoder decodes alike. A sample is what the inverse
/// DCT gives, before 128 is added and the level is limited to 0 .. 255. Pixels give -128 .. 127, and quantisation adds
/// to that; of the 199 photographs of an ImageNet sample, no block goes beyond 156.
///
/// The C code of libjpeg-turbo looks a sample up by its lowest 10 bits, so that 512 wraps around to -512. Its SIMD code
/// and ours have 16-bit numbers between the passes over columns and rows. These are 4 times a sum of 8 samples with
/// weights whose absolute values add up to at most 8, so at most 16,384 here. Samples of a smaller DCT scale are means
/// of those of the full scale, up to rounding, for which 1 of the 511 is left.
constexpr int kMostSample = 510;

/// Whether all samples of a block with these quantisation steps lie within -kMostSample .. kMostSample.
class BlockRange {
 public:
  explicit BlockRange(std::span<const uint16_t, kBlockSize> quant);
  /// 64 quantised coefficients, row by row; `used_rows` is that of McuRun::rows. For most blocks of photographs a sum
  /// of the coefficients is enough; the exact inverse DCT of the others takes about 1 us.
  bool holds(const int16_t* coefficients, int used_rows) const;

 private:
  std::array<int32_t, kBlockSize> quant_;
  std::array<int16_t, kBlockSize> limited_;
};

/// Passes on what another source reads, and notes whether a block of it had samples out of range.
/// Thread-safety: as the other source, which must outlive it, as must the geometry.
class RangeWatch final : public CoefficientSource {
 public:
  RangeWatch(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source);

  void read(int mcu_row, int begin, int end, const McuRun& run) override;
  /// Whether all blocks that were read so far are in range.
  bool is_in_range() const { return is_in_range_; }

 private:
  const JpegGeometry& geometry_;
  CoefficientSource& source_;
  std::vector<BlockRange> ranges_;  // one entry per component
  bool is_in_range_ = true;
};

/// Whether all blocks of the JPEG whose bytes are `bytes` are in range. Decodes the whole scan.
/// Requires header.is_decodable(). Errors: corrupt_error, as HuffmanSource.
bool has_samples_in_range(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes);

}  // namespace penstock::detail
