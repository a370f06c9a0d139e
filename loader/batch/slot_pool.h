// SlotPool: the memory of batches, in blocks of one batch each, which are allocated by need and reused.
#pragma once

#include <cstddef>
#include <vector>

#include "core/mutex.h"
#include "loader/rows/loader_options.h"

namespace penstock::detail {

/// Memory: `expected_count` is how many blocks the loader itself takes. Of the blocks that come back as many are kept;
/// others go back to the system at once. So a consumer that collects up to that many batches again and again costs no
/// allocations, and one that has collected thousands leaves nothing behind.
/// Errors: take() throws device_error when the system gives no memory.
/// Thread-safety: all members may be called on any thread.
class SlotPool {
 public:
  SlotPool(SlotAllocator allocator, size_t block_bytes, int expected_count);
  ~SlotPool();  ///< Requires that every block has come back.
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  std::byte* take();  ///< A block of `block_bytes`.
  void give_back(std::byte* block) noexcept;

  size_t byte_count() const;  ///< All blocks, in use or not.

 private:
  const SlotAllocator allocator_;
  const size_t block_bytes_;
  const size_t expected_count_;
  mutable Mutex mutex_;
  std::vector<std::byte*> spare_ PENSTOCK_GUARDED_BY(mutex_);
  size_t block_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::detail
