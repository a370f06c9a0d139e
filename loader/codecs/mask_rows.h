// MaskRows: the upper rows of a stored mask, fast.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "augment/plan/plan.h"
#include "loader/codecs/mask_png.h"

namespace penstock {

/// A mask as MaskPixels, in memory of somebody else's.
struct MaskView {
  int bits = 8;
  std::span<const uint8_t> bytes = {};
  std::span<const uint16_t> words = {};
  std::span<const int32_t> longs = {};
};

/// Decodes masks for a loader, into memory that it keeps. Most masks are grey or have a palette, of 8 bits: their lines
/// are unpacked by ISA-L up to the last pixel that is needed, which takes a twelfth of libspng's time. Others are
/// decoded by decode_mask(). CRCs of the PNG are not looked at here: the field has one of its own.
///
/// Thread-safety: none; give each thread its own.
class MaskRows {
 public:
  MaskRows();
  ~MaskRows();
  MaskRows(MaskRows&&) noexcept;
  MaskRows& operator=(MaskRows&&) noexcept;

  /// The mask, of which the pixels in `needed` are right. Valid until the next call. Throws as decode_mask().
  MaskView decode(std::span<const uint8_t> png, int height, int width, const Region& needed);

 private:
  struct Inflater;
  std::unique_ptr<Inflater> inflater_;
  std::vector<uint8_t> pixels_;  // of 8 bits
  MaskPixels others_;
};

}  // namespace penstock
