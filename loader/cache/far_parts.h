// FarParts: parts of a far shard, without the cache.
#pragma once

#include <string>

#include "core/mutex.h"
#include "loader/cache/ahead.h"
#include "loader/cache/shard_cache.h"
#include "loader/files/files.h"

namespace penstock::detail {

/// Each read() is one request. Nothing is kept or checked, but that all parts are of the same object. Errors: as
/// transfer(); io_error where the object is another one than at the first read(), and for a server that knows no
/// ranges, which would send the whole object for each part.
class FarParts final : public RandomAccessFile {
 public:
  explicit FarParts(const FarShard& shard) : RandomAccessFile(shard.address), shard_(shard) {}
  uint64_t size() const override { return shard_.facts.byte_count; }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  FarShard shard_;
  Ahead::Parts keeps_back_;
  mutable Mutex mutex_;
  mutable std::string etag_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::detail
