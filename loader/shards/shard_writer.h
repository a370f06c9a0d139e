// ShardWriter: one shard, streamed to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/shards/shard.h"

namespace penstock {

/// The number of bytes that every shard keeps free for its header, so that the pictures begin on a page and can be
/// written before their number is known. 4,096 bytes hold three times as many tensors as a shard has today.
constexpr size_t kShardHeaderBytes = 4096;

/// Writes one shard: samples as they come, the columns and the header at the end. docs/FORMAT.md gives the bytes.
///
/// With `raw_extent` every sample must be a raw picture of that extent, and they become the tensor `images`; otherwise
/// samples of any encoding become `bytes` and `offset`. Determinism: the file's bytes depend only on the samples and
/// their order. Memory: 52 bytes per sample, plus its index and its path; up to twice as much while the columns grow.
/// Crash-safety: the file appears under its name when it is complete and synced, or not at all. Errors: io_error;
/// bug_error for a sample that `raw_extent` excludes or an extent that u16 cannot hold. Thread-safety: none.
class ShardWriter {
 public:
  /// `codebook`: the bytes of the codebook with which samples of kCoefficients were stored; empty when there are none.
  ShardWriter(const std::filesystem::path& path, std::optional<Extent> raw_extent, std::vector<uint8_t> codebook = {});
  ~ShardWriter();

  /// Writes all fields except crc32c, byte_offset and codebook, for which the writer has its own values.
  void add(const Sample& sample);
  uint64_t finish();  ///< Returns the size of the file in bytes. Nothing can be added after it.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
