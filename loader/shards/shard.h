// Shards: one safetensors file each, written once, read through a memory map. docs/FORMAT.md gives the bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "loader/files/field.h"
#include "loader/files/sample.h"

namespace penstock {

/// Key and value in the safetensors header's `__metadata__` that tell a shard from other safetensors files.
constexpr const char* kShardVersionKey = "penstock_shard";
constexpr const char* kShardVersion = "1";

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
  /// `fields`: as the manifest has them, sorted by name.
  explicit ShardReader(const std::filesystem::path& path, const std::vector<FieldType>& fields = {});
  /// With what the manifest says of the file, by which copies of far ones are known.
  ShardReader(const std::filesystem::path& path, const std::vector<FieldType>& fields, const FileFacts& facts);
  /// One whose bytes are there.
  ShardReader(std::unique_ptr<const FileMap> map, const std::vector<FieldType>& fields);
  ~ShardReader();
  ShardReader(ShardReader&&) noexcept;
  ShardReader& operator=(ShardReader&&) noexcept;

  size_t size() const;          ///< Samples.
  uint64_t byte_count() const;  ///< The length of the file.
  Sample at(size_t row) const;  ///< Requires row < size(). No copy, no check of the CRC.
  /// Keeps the bytes of the shard readable, where they come and go; every Sample does this as well.
  FileHold hold() const;
  bool needs_hold() const;
  /// The value of field `number` (as counted in `fields`) in sample `row`, without a copy or a check of the CRC. Valid
  /// as long as a hold or a sample of this shard lives.
  FieldBytes field(size_t row, size_t number) const;
  uint64_t most_entries(size_t number) const;  ///< The most that a sample has of a variable field; 0 for another.
  const std::filesystem::path& path() const;
  /// The beginning of messages: "<path>: sample 35 (id 24531) at byte 8000".
  std::string where(size_t row) const;
  /// Throws corrupt_error naming file, row, id, byte offset and both checksums when the bytes are not what was packed.
  void check_crc(size_t row) const;
  void check_field_crc(size_t row, size_t number) const;  ///< The same for one field.
  /// Throws io_error naming the sample when bytes of it that were read before could not be read. Costs one load when
  /// there is no fault.
  void check_read(size_t row) const;
  /// As check_read(), and also asks the file system whether the file still has all of the sample; without a row, all of
  /// every sample.
  void check_file(size_t row) const;
  void check_file() const;
  void read_ahead() const;  ///< As FileMap has these two.
  void drop() const;

 private:
  struct Map;
  std::unique_ptr<const Map> map_;
};

}  // namespace penstock
