// StorageOptions: the form in which pack() stores pictures.
#pragma once

#include <cstdint>

#include "augment/pixels/pixels.h"

namespace penstock {

/// How a JPEG file of the source is stored. PNG files are stored as they are, except with kJpeg, kRaw or a resize.
enum class Encode : uint8_t {
  kAuto,          ///< kCoefficients where unpack() gives the file back byte for byte, otherwise kKeep.
  kCoefficients,  ///< Its coefficients without Huffman codes (Encoding::kCoefficients). This is lossless.
  kKeep,          ///< The file as it is (but see `transcodes`), with a seek index beside it.
  kJpeg,          ///< Decoded and compressed again with `quality`, then stored as kCoefficients.
  kRaw,           ///< Pixels.
};

/// The name that users write: auto, coef, keep, jpeg or raw.
const char* encode_name(Encode encode);

/// What becomes of a picture of 16 bits per channel, which batches have as 8 bits.
enum class SixteenBit : uint8_t {
  kRefuse,  ///< Packing ends with a config_error.
  kDrop,    ///< Its high bytes are stored.
  kKeep,    ///< It is stored as it is, and the decoder takes the high bytes.
};

/// The name that users write: refuse, drop or keep.
const char* sixteen_bit_name(SixteenBit choice);

struct StorageOptions {
  Encode encode = Encode::kAuto;
  int resize_short = 0;  ///< Pixels. A picture whose short side is longer is reduced to this; 0: no picture is reduced.
  int quality = 90;      ///< 1 .. 100, for pictures that are compressed again.
  double raw_share = 0;  ///< 0 .. 1: this share of the pictures is stored as pixels. A hash of their ids chooses them.
  int64_t max_pixels = int64_t{1} << 28;  ///< 1 .. 2^28. A picture whose header says more is corrupt.
  bool transcodes = true;  ///< A progressive or other JPEG that cannot have a seek index is losslessly made baseline.
  SixteenBit sixteen_bit = SixteenBit::kRefuse;
  /// What pictures have: with u8 all have 1 or 3 channels, or all have another number of them. u16 and f32 are stored
  /// raw. With u16, files of 8 and of 16 bits become u16 (levels of 8 bits are multiplied by 257); with f32, pictures
  /// must be of f32.
  PixelType pixels = PixelType::kU8;
  bool honours_exif = true;  ///< Pictures are turned upright by the orientation in their EXIF or XMP.
};

}  // namespace penstock
