// SlotPool: the memory of batches, in blocks of one batch each, which are allocated by need and reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "loader/batch/loader_options.h"
#include "loader/batch/row_maker.h"

namespace penstock::detail {

/// What every batch of a loader has in common.
struct BatchShape {
  int64_t rows = 0;  // rows per batch of this rank
  Extent extent;     // of one rendered sample
  Layout layout = Layout::kF32Nchw;
  size_t row_bytes = 0;
  bool mixes = false;
};

/// Memory: `expected_count` is how many blocks the loader itself takes. Of the blocks that come back as many are kept;
/// others go back to the system at once. So a consumer that collects up to that many batches again and again costs no
/// allocations, and one that has collected thousands leaves nothing behind.
/// Errors: take() throws device_error when the system gives no memory.
/// Thread-safety: all members may be called on any thread.
class SlotPool {
 public:
  SlotPool(SlotAllocator allocator, const BatchShape& shape, int expected_count);
  ~SlotPool();  ///< Requires that every block has come back.
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  SlotArrays take();
  void give_back(const SlotArrays& block) noexcept;

  const BatchShape& shape() const { return shape_; }
  size_t byte_count() const;  ///< Of all blocks, in use or not.

 private:
  SlotArrays arrays_in(std::byte* memory) const;

  const SlotAllocator allocator_;
  const BatchShape shape_;
  const size_t expected_count_;
  size_t pixel_bytes_ = 0, block_bytes_ = 0;
  mutable std::mutex mutex_;
  std::vector<SlotArrays> spare_;
  size_t block_count_ = 0;
};

}  // namespace penstock::detail
