// StorageOptions: in what form pack() stores pictures.
#pragma once

#include <cstdint>

namespace penstock {

/// What a JPEG file of the source becomes. PNG files stay as they are but for kJpeg, kRaw and a resize.
enum class Encode : uint8_t {
  kAuto,          ///< kCoefficients where the file comes back to the byte, otherwise kKeep.
  kCoefficients,  ///< Its coefficients without Huffman codes, lossless: Encoding::kCoefficients.
  kKeep,          ///< The file as it came (but see `transcodes`), with a seek index beside it.
  kJpeg,          ///< Decoded and compressed again with `quality`, then as kCoefficients.
  kRaw,           ///< Pixels.
};

/// auto, coef, keep, jpeg, raw.
const char* encode_name(Encode encode);

struct StorageOptions {
  Encode encode = Encode::kAuto;
  int resize_short = 0;  ///< Pixels: pictures whose short side is longer are reduced to it; 0: none is.
  int quality = 90;      ///< 1 .. 100, of what is compressed again.
  double raw_share = 0;  ///< 0 .. 1: this share of the pictures, by a hash of their ids, is stored as pixels.
  int64_t max_pixels = int64_t{1} << 28;  ///< 1 .. 2^28: a picture of more, by its header, is corrupt.
  bool transcodes = true;    ///< Progressive and other JPEGs that cannot be sought in become baseline, losslessly.
  bool honours_exif = true;  ///< Pictures stand as their EXIF orientation says.
};

}  // namespace penstock
