// ShardWriter: one shard, streamed to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loader/files/field.h"
#include "loader/shards/shard.h"

namespace penstock {

/// The number of bytes that a shard without fields keeps free for its header, so that the pictures begin on a page and
/// can be written before their number is known. They hold three times as many tensors as such a shard has. One with
/// fields keeps as many more pages free as their tensors may need.
constexpr size_t kShardHeaderBytes = 4096;
size_t shard_header_bytes(size_t field_count);  ///< The number for a shard with fields.

/// Writes one shard: samples as they come, the columns and the header at the end. docs/FORMAT.md gives the bytes.
///
/// With `raw_extent` every sample must be a raw picture of that extent and type, and they become the tensor `images`;
/// otherwise
/// samples of any encoding become `bytes` and `offset`. Determinism: the file's bytes depend only on the samples and
/// their order. Memory: 52 bytes per sample, plus its index and its path, and what FieldColumns says; up to twice as
/// much while the columns grow. Crash-safety: the file appears under its name when it is complete and synced, or not at
/// all. Errors: io_error; bug_error for a sample that `raw_extent` excludes or an extent that u16 cannot hold.
/// Thread-safety: none.
class ShardWriter {
 public:
  /// `codebook`: the bytes of the codebook with which samples of kCoefficients were stored; empty when there are none.
  /// `fields`: sorted by name.
  ShardWriter(const std::filesystem::path& path, std::optional<Extent> raw_extent, std::vector<uint8_t> codebook = {},
              std::vector<FieldType> fields = {}, PixelType pixels = PixelType::kU8);
  ~ShardWriter();

  /// Writes all fields except crc32c, byte_offset and codebook, for which the writer has its own values.
  /// `fields`: a value for each of the writer's, as check_field_value() wants it.
  void add(const Sample& sample, std::span<const FieldValue> fields = {});
  uint64_t finish();  ///< Returns the size of the file in bytes. Nothing can be added after it.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
