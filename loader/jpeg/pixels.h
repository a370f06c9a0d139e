// The pixel stage of JPEG: quantised coefficients to the pixels of a region.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"
#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/geometry.h"
#include "loader/jpeg/header.h"

namespace penstock::detail {

/// What decode_pixels() works in, kept between pictures. Memory: 11 KB, two MCU rows of samples of the widest region so
/// far, and the pixels of the largest.
struct PixelScratch {
  alignas(64) std::array<int16_t, size_t{kGroupMcus} * kMaxMcuBlocks * kBlockSize> coefficients;
  std::array<uint8_t, size_t{kGroupMcus} * kMaxMcuBlocks> rows;
  std::vector<uint8_t> samples;
  std::vector<int16_t> sums;
  std::vector<uint8_t> pixels;
};

/// The pixels of `region` of the picture at scale `scale`/8: u8, RGB where `channels` is 3 (grey is replicated), grey
/// where it is 1; exactly the region, rows apart as they happen to lie, valid until `scratch` is used again. They equal
/// those of libjpeg-turbo 2.1.5 (accurate integer DCT, fancy upsampling) for every picture whose coefficients an 8-bit
/// encoder can have made.
///
/// Determinism: the same on every instruction set, for all coefficients.
/// Reads only the MCUs that the region needs: row by row, from left to right, a group at a time.
/// Requires: header.is_decodable() or its equal, so that the coefficients can be had; a region inside the picture at
/// that scale; scale 1, 2, 4 or 8; channels 3, or 1 of a grey picture.
/// Errors: what the source throws. Thread-safety: one scratch and one source a thread.
Picture decode_pixels(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source,
                      const Region& region, int scale, int channels, PixelScratch& scratch);

}  // namespace penstock::detail
