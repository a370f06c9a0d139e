// FarMap: a far shard as memory that is there while it is held.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "loader/cache/shard_cache.h"
#include "loader/files/files.h"
#include "loader/files/map_guard.h"

namespace penstock::detail {

/// A range of addresses as long as the shard. While somebody holds it, the shard's file in the cache is mapped there;
/// otherwise the cache may take the file away, and the range has no memory until the next hold(). A hold of a shard
/// that is mapped costs one atomic operation, so that it can be taken for every sample.
class FarMap final : public FileMap, private Droppable {
 public:
  FarMap(const FarShard& shard, ShardCache& cache);
  ~FarMap() override;

  using FileMap::check_file, FileMap::check_read;
  void check_read(std::span<const uint8_t> used, const std::string& where) const override;
  /// As check_read(): nobody cuts a file of the cache short. Where an error may be blamed on the bytes (one is being
  /// handled, or a part of them is asked for), also reads the whole shard once and throws io_error if it is not what
  /// was fetched any more; the file is removed then, so that the next run fetches it again.
  void check_file(std::span<const uint8_t> used, const std::string& where) const override;
  /// Fetches the shard into the cache before others that are expected; does not wait.
  void read_ahead() const override;
  /// Lets the shard go, and makes it the first to leave the cache, until it is held again.
  void drop() const override;

 private:
  void hold() const override;
  void release() const noexcept override;
  void drop_unless_read() override;
  void bring() const;
  void map_file(OpenFile file) const PENSTOCK_REQUIRES(mutex_);
  void unmap_file() const PENSTOCK_REQUIRES(mutex_);
  std::optional<size_t> first_fault(std::span<const uint8_t> used) const;
  void check_shard(const std::string& where) const;

  // Bit 0: the file is mapped. The rest: twice the number of holds.
  static constexpr uint64_t kMapped = 1, kOneHold = 2;

  FarShard shard_;
  ShardCache& cache_;
  mutable std::atomic<uint64_t> state_{0};
  mutable std::atomic<bool> is_sound_{false};  // since it was mapped: check_shard() found nothing
  mutable Mutex mutex_;                        // also of changes of kMapped
  mutable OpenFile file_ PENSTOCK_GUARDED_BY(mutex_);
  mutable std::unique_ptr<MapGuard> guard_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::detail
