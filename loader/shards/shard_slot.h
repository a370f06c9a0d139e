// ShardSlot: one shard of a data set, which is opened when it is first asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "loader/shards/manifest.h"
#include "loader/shards/shard.h"

namespace penstock::detail {

/// A shard that is open, and which of its samples have passed their checksum.
class OpenShard {
 public:
  OpenShard(const ExpectedFile& file, const Manifest& manifest, const Manifest::Shard& entry);
  /// The shard in `map`, whose pictures need not be there.
  OpenShard(std::unique_ptr<const FileMap> map, const Manifest& manifest, const Manifest::Shard& entry);

  const ShardReader& reader() const { return reader_; }
  /// Checks the CRC of a sample, or of its field, unless that has passed before. Throws what ShardReader throws.
  void check_once(size_t row) const;
  void check_field_once(size_t row, size_t number) const;

 private:
  OpenShard(ShardReader reader, const Manifest& manifest, const Manifest::Shard& entry);
  template <class Check>
  void check_bit(uint64_t number, const Check& check) const;

  ShardReader reader_;
  mutable std::vector<std::atomic<uint64_t>> checked_;  // one bit per sample, and then one per sample and field
};

/// Errors: get() throws what opening a shard throws, and tries again when it is called again, unless the shard was
/// corrupt.
/// Thread-safety: any number of threads; a shard that is open costs them one load.
class ShardSlot {
 public:
  struct Split {
    std::filesystem::path folder;
    Manifest manifest;
  };
  ShardSlot(std::shared_ptr<const Split> split, size_t number) : split_(std::move(split)), number_(number) {}
  ~ShardSlot() { delete shard_.load(); }
  ShardSlot(const ShardSlot&) = delete;
  ShardSlot& operator=(const ShardSlot&) = delete;

  const OpenShard& get() const;
  /// Where the shard is, and what the manifest says of its file.
  ExpectedFile expected() const {
    const auto& entry = split_->manifest.shards[number_];
    return {split_->folder / entry.file, entry.facts()};
  }
  const Manifest& manifest() const { return split_->manifest; }
  const Manifest::Shard& entry() const { return split_->manifest.shards[number_]; }
  const OpenShard* if_open() const { return shard_.load(std::memory_order_acquire); }

 private:
  std::shared_ptr<const Split> split_;
  size_t number_;
  mutable Mutex mutex_;                                             // held while the shard is opened
  mutable std::exception_ptr corrupt_ PENSTOCK_GUARDED_BY(mutex_);  // why it cannot be opened
  mutable std::atomic<const OpenShard*> shard_{nullptr};
};

}  // namespace penstock::detail
