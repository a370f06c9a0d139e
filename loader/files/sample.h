// Sample: one stored picture with what is known about it, as shards, codecs and sources hand it to each other.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "augment/pixels/pixels.h"
#include "augment/plan/plan.h"
#include "loader/files/files.h"

namespace penstock {

namespace detail {
class Codebook;
}

/// How a sample's bytes are stored. The value is part of the shard; the codec that is registered for it knows the rest
/// (loader/codecs/codec.h). kCoefficients is a JPEG without its Huffman codes. Raw pixels are H x W x C.
enum class Encoding : uint8_t { kRaw = 0, kPng = 1, kJpeg = 2, kCoefficients = 3, kRawU16 = 4, kRawF32 = 5 };

constexpr bool is_raw(Encoding encoding) {
  return encoding == Encoding::kRaw || encoding == Encoding::kRawU16 || encoding == Encoding::kRawF32;
}
constexpr Encoding raw_encoding(PixelType type) {
  return type == PixelType::kU8 ? Encoding::kRaw : type == PixelType::kU16 ? Encoding::kRawU16 : Encoding::kRawF32;
}
/// The type of the pixels that a sample of this encoding is decoded to.
constexpr PixelType pixels_of(Encoding encoding) {
  return encoding == Encoding::kRawU16   ? PixelType::kU16
         : encoding == Encoding::kRawF32 ? PixelType::kF32
                                         : PixelType::kU8;
}

/// The most pixels (height x width) for which a codec allocates memory. A header that claims more is corrupt.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// A sample as stored. Its views are into the shard's map and valid as long as the reader lives; where the shard comes
/// from far away (FileMap::needs_hold()), as long as this sample or a copy of it lives as well.
struct Sample {
  uint64_t id = 0;     ///< Its number in the source, which packing again does not change.
  int64_t label = 0;   ///< 0 .. class count - 1.
  Extent extent = {};  ///< The extent of the decoded picture, before it is turned by `orientation`.
  Encoding encoding = Encoding::kRaw;
  uint32_t crc32c = 0;  ///< As stored. It equals sample_checksum() unless the sample is damaged.
  std::span<const uint8_t> bytes = {};
  uint64_t byte_offset = 0;  ///< The position of `bytes` in the shard file, for messages.
  uint8_t orientation = 1;   ///< EXIF's, 1 .. 8: how the decoded picture must be turned. 1: not at all.
  std::span<const uint8_t> seek_index =
      {};                      ///< The seek index of a JPEG (loader/jpeg/entropy/seek_index.h), or nothing.
  std::string_view path = {};  ///< Its path in the source's folder, or nothing. Not to be trusted.
  const detail::Codebook* codebook = nullptr;  ///< The shard's codebook, for kCoefficients.
  FileHold hold = {};                          ///< Keeps the views readable.
};

/// CRC-32C (Castagnoli, reflected, initial and final value 0xFFFFFFFF) by ISA-L. The result is for `bytes` appended to
/// whatever gave `before`.
uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t before = 0);

/// CRC-32C of all that is stored of a sample: `bytes`, then id and label as 8 bytes each, height, width and channels as
/// 2 bytes each and the encoding as one, little-endian; then the orientation when it is not 1, the index and the path.
/// The label is part of it because a picture with a wrong label is as broken as one with a wrong pixel.
uint32_t sample_checksum(const Sample& sample);

}  // namespace penstock
