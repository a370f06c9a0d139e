// The pixel stage of JPEG decoding: makes the pixels of a region from quantised coefficients.
//
// Lives here: coefficients to pixels: inverse DCT, upsampling, colours, for several processors.
// Not here: where the coefficients come from (entropy, store), and the choice between decoders (loader/codecs).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"

namespace penstock::detail {

/// The memory that decode_pixels() works in. It is kept between pictures.
/// Memory: 11 KB, plus two MCU rows of samples of the widest region so far, plus the pixels of the largest region so
/// far.
struct PixelScratch {
  alignas(64) std::array<int16_t, size_t{kGroupMcus} * kMaxMcuBlocks * kBlockSize> coefficients;
  std::array<uint8_t, size_t{kGroupMcus} * kMaxMcuBlocks> rows;
  std::vector<uint8_t> samples;
  std::vector<int16_t> sums;
  std::vector<uint8_t> pixels;
};

/// The pixels of `region` of the picture at scale `scale`/8: u8, RGB where `channels` is 3 (grey is replicated), grey
/// where it is 1. The result is exactly the region; its row_stride may be greater than a row. It is valid until
/// `scratch` is used again. The pixels equal those of libjpeg-turbo 2.1.5 (accurate integer DCT, fancy upsampling) for
/// every picture whose coefficients an 8-bit encoder can have made.
///
/// Determinism: the pixels are the same on every instruction set, for all coefficients.
/// Reads only the MCUs that the region needs, row by row, from left to right, one group at a time.
/// Requires: header.is_decodable(), or another `source` that has all coefficients; a region inside of the picture at
/// that scale; scale 1, 2, 4 or 8; channels 3, or 1 for a grey picture.
/// Errors: what the source throws. Thread-safety: one scratch and one source per thread.
Picture decode_pixels(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source,
                      const Region& region, int scale, int channels, PixelScratch& scratch);

}  // namespace penstock::detail
