// Shards: one safetensors file each, written once, read through a memory map. docs/FORMAT.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "augment/plan.h"

namespace penstock {

namespace detail {
class Codebook;
}

/// How a sample's bytes are stored. The value is part of the shard; the codec that is registered for it knows the rest
/// (loader/codecs/codec.h). kCoefficients is a JPEG without its Huffman codes.
enum class Encoding : uint8_t { kRaw = 0, kPng = 1, kJpeg = 2, kCoefficients = 3 };

/// The most pixels (height x width) for which a codec allocates memory. A header that claims more is corrupt.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// A sample as stored. Its views are into the shard's map and valid as long as the reader lives.
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
};

/// One mapped shard.
///
/// Errors: the constructor throws io_error (missing, unreadable) or corrupt_error (a header that is longer than the
/// file or not JSON, a missing tensor, a wrong dtype or shape, overlapping or out-of-range data, offsets that do not
/// ascend, an encoding or extent out of range), which names file, tensor and value. It never reads outside the file.
/// Memory: the map; pages are read when they are touched. Thread-safety: immutable after construction.
///
/// A page that cannot be read when it is touched (the file was cut short meanwhile, or a disk error) reads as zeros.
/// at() throws io_error when that hits the columns of a sample. Code that reads a sample's bytes does so inside
/// read_from(), or calls check_read() afterwards.
class ShardReader {
 public:
  explicit ShardReader(const std::filesystem::path& path);
  ~ShardReader();
  ShardReader(ShardReader&&) noexcept;
  ShardReader& operator=(ShardReader&&) noexcept;

  size_t size() const;          ///< Samples.
  Sample at(size_t row) const;  ///< Requires row < size(). No copy, no check of the CRC.
  const std::filesystem::path& path() const;
  /// The beginning of messages: "<path>: sample 35 (id 24531) at byte 8000".
  std::string where(size_t row) const;
  /// Throws corrupt_error naming file, row, id, byte offset and both checksums when the bytes are not what was packed.
  void check_crc(size_t row) const;
  /// Throws io_error naming the sample when bytes of it that were read before could not be read. Costs one load when
  /// there is no fault.
  void check_read(size_t row) const;
  /// As check_read(), and also asks the file system whether the file still has all of the sample; without a row, all of
  /// every sample.
  void check_file(size_t row) const;
  void check_file() const;

 private:
  struct Map;
  std::unique_ptr<const Map> map_;
};

/// CRC-32C (Castagnoli, reflected, initial and final value 0xFFFFFFFF) by ISA-L. The result is for `bytes` appended to
/// whatever gave `before`.
uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t before = 0);

/// CRC-32C of all that is stored of a sample: `bytes`, then id and label as 8 bytes each, height, width and channels as
/// 2 bytes each and the encoding as one, little-endian; then the orientation when it is not 1, the index and the path.
/// The label is part of it because a picture with a wrong label is as broken as one with a wrong pixel.
uint32_t sample_checksum(const Sample& sample);

}  // namespace penstock
