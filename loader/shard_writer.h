// ShardWriter: one shard, streamed to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/shard.h"

namespace penstock {

/// Key and value in the safetensors header's `__metadata__` that tell a shard from other safetensors files.
constexpr const char* kShardVersionKey = "penstock_shard";
constexpr const char* kShardVersion = "1";

/// The header takes this much of every shard, so that the pictures begin on a page and can be written before their
/// number is known: 4,096 bytes hold three times the tensors of today.
constexpr size_t kShardHeaderBytes = 4096;

/// Writes one shard: samples as they come, the columns and the header at the end. docs/FORMAT.md gives the bytes.
///
/// With `raw_extent` every sample must be a raw picture of that extent, and they become the tensor `images`; otherwise
/// samples of any encoding become `bytes` and `offset`. Determinism: the file's bytes depend on the samples and their
/// order alone. Memory: 52 bytes a sample, its index and its path, up to twice that while the columns grow.
/// Crash-safety: the file appears under its name when it is complete and synced, or not at all. Errors: io_error;
/// bug_error for a sample that `raw_extent` excludes or an extent that u16 cannot hold. Thread-safety: none.
class ShardWriter {
 public:
  /// `codebook`: bytes of the one that samples of kCoefficients were stored with; empty when there are none.
  ShardWriter(const std::filesystem::path& path, std::optional<Extent> raw_extent, std::vector<uint8_t> codebook = {});
  ~ShardWriter();

  /// All fields count but crc32c, byte_offset and codebook, which are the writer's to fill in.
  void add(const Sample& sample);
  uint64_t finish();  ///< Bytes of the file. Nothing can be added after.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
